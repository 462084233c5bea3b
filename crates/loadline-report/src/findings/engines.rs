//! Flaws of a comparison of engines: disks, reads and builds.

use loadline_measure::doctor::{Batched, EnginesFlaw};
use loadline_measure::engines::exceeded_budget;
use loadline_measure::words;

use super::{joined, percent};

pub(super) fn evidence(flaw: &EnginesFlaw) -> String {
    const NO_DISK: &str = "the classes interval and always do not measure a disk.";
    match flaw {
        EnginesFlaw::InMemory { dir, file_system } => {
            format!("{dir} is on {file_system}, which keeps files in memory: {NO_DISK}")
        }
        EnginesFlaw::FastSync { dir, sync_ns } => format!(
            "A write with fdatasync in {dir} takes {}, which is too fast for a device that keeps data through a power failure: {NO_DISK}",
            words::duration(*sync_ns as f64)
        ),
        EnginesFlaw::DebugBuild => {
            "Loadline was built without optimization, and the engines in Rust with it; LMDB and Redis are not affected.".to_owned()
        }
        EnginesFlaw::CachedReads {
            live_bytes,
            spare_memory_bytes,
            memory_bytes,
        } => {
            let page_cache = spare_memory_bytes.map(|spare| of_page_cache(*live_bytes, spare));
            let caches = memory_bytes.map(|budget| of_caches(*live_bytes, budget));
            joined([page_cache, caches], " ")
        }
        EnginesFlaw::AcrossASocket {
            called,
            served,
            socket_share,
        } => {
            let share = socket_share.map(|share| {
                let share = percent(share);
                format!("About {share} of the time of a read on {} is the socket.", served[0])
            });
            let (called, served) = (called.join(", "), served.join(", "));
            let both = format!("{called} are called in this process, and {served} over a socket.");
            joined([Some(both), share], " ")
        }
        EnginesFlaw::BatchBesideSingle(engines) => beside_single(engines),
    }
}

pub(super) fn advice(flaw: &EnginesFlaw) -> String {
    let advice = match flaw {
        EnginesFlaw::InMemory { .. } | EnginesFlaw::FastSync { .. } => {
            "Name a directory on a disk with --dir."
        }
        EnginesFlaw::DebugBuild => "Build with cargo build --release.",
        EnginesFlaw::CachedReads { live_bytes, .. } => {
            return format!(
                "State it with figures for reads; --keys and --value-size decide which of the two is measured, and {} makes the data 4 times the budget of the caches.",
                exceeded_budget(*live_bytes)
            );
        }
        EnginesFlaw::AcrossASocket { .. } => {
            "Compare engines in the process with each other to choose an engine, and with a server to decide between a library and a service."
        }
        EnginesFlaw::BatchBesideSingle(_) => {
            "Compare batches with batches, and single operations with single ones."
        }
    };
    advice.to_owned()
}

fn of_page_cache(live_bytes: u64, spare: u64) -> String {
    let (live, memory) = (words::bytes(live_bytes), words::bytes(spare));
    if live_bytes < spare {
        format!(
            "The keys and values ({live}) fit into the page cache ({memory} of memory to spare): no read waits for the disk."
        )
    } else {
        format!(
            "The keys and values ({live}) do not fit into the page cache ({memory} of memory to spare): reads wait for the disk, as often as the cache of each engine misses."
        )
    }
}

fn of_caches(live_bytes: u64, budget: u64) -> String {
    let (live, memory) = (words::bytes(live_bytes), words::bytes(budget));
    if live_bytes <= budget {
        format!(
            "They ({live}) fit into the cache of each engine that has one ({memory}) too, which hardly ever misses."
        )
    } else {
        let times = words::ratio(live_bytes as f64 / budget.max(1) as f64);
        format!(
            "They ({live}) are {times} the budget of the cache of each engine that has one ({memory})."
        )
    }
}

fn beside_single(engines: &[Batched]) -> String {
    let times = engines
        .iter()
        .map(|of| format!("{:.2}x on {}", of.ratio, of.subject));
    let times: Vec<String> = times.collect();
    let first = engines.first();
    let (operation, batch) = first.map_or(("", 0), |of| (of.operation.as_str(), of.batch));
    format!(
        "Time of a {operation} in batches of {batch} over that of a single {operation}: {}.",
        times.join(", ")
    )
}
