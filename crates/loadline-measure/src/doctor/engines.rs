//! Rules about comparisons of engines: disks, reads and builds that make the figures misleading.

use super::{Finding, Rule, Severity, percent};
use crate::engines::{Operation, exceeded_budget};
use crate::record::{Case, SubjectKind};
use crate::words;

/// The shortest credible sync: devices that keep data through a power failure take longer.
const FASTEST_SYNC_NS: u64 = 10_000;
/// File systems that keep their files in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// The facts about a comparison of engines. Values that were not read are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnginesSetup {
    /// The directories of the engines that use files.
    pub places: Vec<Place>,
    /// Whether a class of durability waits for syncs.
    pub syncs: bool,
    /// Bytes of all keys and values, at the largest value size.
    pub live_bytes: u64,
    /// Memory that the page cache can take.
    pub spare_memory_bytes: Option<u64>,
    /// Budget for the cache of each engine that has one.
    pub memory_bytes: Option<u64>,
    /// Whether Loadline was built without optimisation, and the engines with it.
    pub is_debug: bool,
    /// Engines in the generator's process.
    pub called: Vec<String>,
    /// Servers behind a socket.
    pub served: Vec<String>,
    /// The socket's share of the time of a read on the first of these.
    pub socket_share: Option<f64>,
    /// Engines that were called singly and in batches, as [`batched`] finds them.
    pub batched: Vec<Batched>,
}

/// An operation of an engine in batches beside the same operation alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Batched {
    /// The engine.
    pub(crate) subject: String,
    /// The operation.
    pub(crate) operation: String,
    /// Operations in a batch.
    pub(crate) batch: u64,
    /// Time per operation in a batch over that of one alone.
    pub(crate) ratio: f64,
}

/// The engines that perform an operation alone and in batches, each with one operation, in the first class that has both.
#[must_use]
pub fn batched(cases: &[Case], operations: &[Operation]) -> Vec<Batched> {
    let time = |case: &Case| case.duration_ns as f64 / case.ops.max(1) as f64;
    let all = || cases.iter().zip(operations);
    let mut found: Vec<Batched> = Vec::new();
    for (alone, operation) in all().filter(|(case, _)| case.duration_ns > 0) {
        let subject = &alone.subject.name;
        let is_known = found.iter().any(|known| known.subject == *subject);
        if is_known || alone.subject.kind == SubjectKind::NullServer {
            continue;
        }
        let Some(in_batches) = operation.in_batches() else {
            continue;
        };
        let together = all().find(|(case, operation)| {
            let scenario = &case.scenario;
            **operation == in_batches
                && case.subject == alone.subject
                && scenario.durability == alone.scenario.durability
                && scenario.value_bytes == alone.scenario.value_bytes
        });
        found.extend(together.map(|(together, _)| Batched {
            subject: subject.clone(),
            operation: operation.to_string(),
            batch: together.scenario.batch,
            ratio: time(together) / time(alone),
        }));
    }
    found
}

/// A directory and the file system that it is on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Place {
    /// The directory.
    pub dir: String,
    /// The file system, if known.
    pub file_system: Option<String>,
    /// The median time of a write of 4 KiB with fdatasync, in nanoseconds.
    pub sync_ns: Option<u64>,
}

/// Applies all rules; the most severe findings come first.
#[must_use]
pub fn examine_engines(setup: &EnginesSetup) -> Vec<Finding> {
    let syncs = setup.places.iter().filter(|_| setup.syncs);
    let mut findings: Vec<Finding> = syncs.filter_map(sync_without_disk).collect();
    let others = [
        debug_build(setup),
        cached_reads(setup),
        across_a_socket(setup),
        batch_beside_single(setup),
    ];
    findings.extend(others.into_iter().flatten());
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn finding(rule: Rule, severity: Severity, evidence: String, what_to_do: &str) -> Finding {
    Finding {
        rule,
        severity,
        scope: String::new(),
        evidence,
        what_to_do: what_to_do.to_owned(),
    }
}

fn sync_without_disk(place: &Place) -> Option<Finding> {
    let in_memory = place
        .file_system
        .as_deref()
        .filter(|name| IN_MEMORY.contains(name));
    let evidence = match (in_memory, place.sync_ns) {
        (Some(name), _) => format!("{} is on {name}, which keeps files in memory", place.dir),
        (None, Some(ns)) if ns < FASTEST_SYNC_NS => format!(
            "A write with fdatasync in {} takes {}, which is too fast for a device that keeps data through a power failure",
            place.dir,
            words::duration(ns as f64)
        ),
        _ => return None,
    };
    Some(finding(
        Rule::SyncWithoutDisk,
        Severity::Critical,
        format!("{evidence}: the classes interval and always do not measure a disk."),
        "Name a directory on a disk with --dir.",
    ))
}

fn debug_build(setup: &EnginesSetup) -> Option<Finding> {
    let called = !setup.called.is_empty();
    (setup.is_debug && called).then(|| {
        finding(
            Rule::DebugBuild,
            Severity::Critical,
            "Loadline was built without optimization, and the engines in Rust with it; LMDB and Redis are not affected.".to_owned(),
            "Build with cargo build --release.",
        )
    })
}

fn cached_reads(setup: &EnginesSetup) -> Option<Finding> {
    if setup.places.is_empty() || setup.live_bytes == 0 {
        return None;
    }
    let live = words::bytes(setup.live_bytes);
    let page_cache = setup.spare_memory_bytes.map(|spare| {
        let memory = words::bytes(spare);
        if setup.live_bytes < spare {
            format!(
                "The keys and values ({live}) fit into the page cache ({memory} of memory to spare): no read waits for the disk."
            )
        } else {
            format!(
                "The keys and values ({live}) do not fit into the page cache ({memory} of memory to spare): reads wait for the disk, as often as the cache of each engine misses."
            )
        }
    });
    let caches = setup.memory_bytes.map(|bytes| {
        let budget = words::bytes(bytes);
        if setup.live_bytes <= bytes {
            format!("They ({live}) fit into the cache of each engine that has one ({budget}) too, which hardly ever misses.")
        } else {
            let times = words::ratio(setup.live_bytes as f64 / bytes.max(1) as f64);
            format!("They ({live}) are {times} the budget of the cache of each engine that has one ({budget}).")
        }
    });
    let evidence: Vec<String> = [page_cache, caches].into_iter().flatten().collect();
    if evidence.is_empty() {
        return None;
    }
    let advice = format!(
        "State it with figures for reads; --keys and --value-size decide which of the two is measured, and {} makes the data 4 times the budget of the caches.",
        exceeded_budget(setup.live_bytes)
    );
    Some(finding(
        Rule::CachedReads,
        Severity::Info,
        evidence.join(" "),
        &advice,
    ))
}

fn across_a_socket(setup: &EnginesSetup) -> Option<Finding> {
    let (called, served) = (setup.called.join(", "), setup.served.join(", "));
    if called.is_empty() || served.is_empty() {
        return None;
    }
    let share = setup.socket_share.map_or_else(String::new, |share| {
        format!(
            " About {} of the time of a read on {} is the socket.",
            percent(share),
            setup.served[0]
        )
    });
    Some(finding(
        Rule::AcrossASocket,
        Severity::Info,
        format!("{called} are called in this process, and {served} over a socket.{share}"),
        "Compare engines in the process with each other to choose an engine, and with a server to decide between a library and a service.",
    ))
}

fn batch_beside_single(setup: &EnginesSetup) -> Option<Finding> {
    let first = setup.batched.first()?;
    let same = setup
        .batched
        .iter()
        .filter(|other| other.operation == first.operation);
    let times = same.map(|of| format!("{:.2}x on {}", of.ratio, of.subject));
    Some(finding(
        Rule::BatchBesideSingle,
        Severity::Info,
        format!(
            "Time of a {0} in batches of {1} over that of a single {0}: {2}.",
            first.operation,
            first.batch,
            times.collect::<Vec<_>>().join(", ")
        ),
        "Compare batches with batches, and single operations with single ones.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_beside_single_operations_are_named_with_their_times() {
        let case = |subject: &str, workload: &str, batch: u64, duration_ns: u64| {
            let mut case = Case::default();
            case.subject.name = subject.to_owned();
            case.scenario.workload = workload.to_owned();
            case.scenario.batch = batch;
            (case.ops, case.duration_ns) = (100, duration_ns);
            case
        };
        let mut cases = vec![
            case("redis", "put", 1, 6_000_000),
            case("store", "put", 1, 100_000),
            case("map", "put", 1, 50_000),
            case("redis", "batch put", 100, 120_000),
            case("store", "batch put", 100, 30_000),
        ];
        let setup = EnginesSetup {
            batched: batched(&cases, &Operation::of_cases(&cases)),
            ..clean()
        };
        let found = examine_engines(&setup);
        assert_eq!(found[0].rule, Rule::BatchBesideSingle);
        assert_eq!(
            found[0].evidence,
            "Time of a put in batches of 100 over that of a single put: 0.02x on redis, 0.30x on store."
        );
        // Another class is another measurement.
        for case in &mut cases[3..] {
            case.scenario.durability = Some("always".to_owned());
        }
        assert_eq!(batched(&cases, &Operation::of_cases(&cases)), []);
    }

    fn clean() -> EnginesSetup {
        EnginesSetup {
            places: vec![Place {
                dir: "/data".into(),
                file_system: Some("ext4".into()),
                sync_ns: Some(120_000),
            }],
            syncs: true,
            ..EnginesSetup::default()
        }
    }

    #[test]
    fn sync_that_reaches_no_disk_is_critical_only_where_a_class_syncs() {
        assert_eq!(examine_engines(&clean()), []);
        for (change, evidence) in [
            (
                (|place: &mut Place| place.file_system = Some("tmpfs".into())) as fn(&mut Place),
                "/data is on tmpfs",
            ),
            (|place| place.sync_ns = Some(5_000), "takes 5.00 us"),
        ] {
            let mut setup = clean();
            change(&mut setup.places[0]);
            let found = examine_engines(&setup);
            assert_eq!(found.len(), 1);
            assert_eq!(
                (&found[0].rule, found[0].severity),
                (&Rule::SyncWithoutDisk, Severity::Critical)
            );
            assert!(
                found[0].evidence.contains(evidence),
                "{}",
                found[0].evidence
            );
            setup.syncs = false;
            assert_eq!(examine_engines(&setup), []);
        }
    }

    #[test]
    fn debug_build_is_critical_where_engines_are_built_in() {
        let mut setup = EnginesSetup {
            is_debug: true,
            ..clean()
        };
        assert_eq!(examine_engines(&setup), []);
        setup.called = vec!["map".into()];
        assert_eq!(examine_engines(&setup)[0].rule, Rule::DebugBuild);
    }

    #[test]
    fn source_of_reads_is_stated() {
        for (live, says) in [
            (1_000, "fit into the page cache"),
            (3_000, "do not fit into"),
        ] {
            let setup = EnginesSetup {
                live_bytes: live,
                spare_memory_bytes: Some(2_000),
                ..clean()
            };
            let found = examine_engines(&setup);
            assert_eq!(found[0].rule, Rule::CachedReads);
            assert!(found[0].evidence.contains(says), "{}", found[0].evidence);
        }
    }

    #[test]
    fn budget_of_caches_is_stated_beside_the_data() {
        for (memory, says) in [
            (256 << 20, "(11.7 MiB) fit into the cache of each engine"),
            (3 << 20, "are 3.91x the budget of the cache"),
        ] {
            let setup = EnginesSetup {
                live_bytes: 12_300_000,
                memory_bytes: Some(memory),
                ..clean()
            };
            let found = examine_engines(&setup);
            assert_eq!(found[0].rule, Rule::CachedReads);
            assert!(found[0].evidence.contains(says), "{}", found[0].evidence);
            let advice = &found[0].what_to_do;
            assert!(advice.contains("--memory 3002KiB makes"), "{advice}");
        }
    }

    #[test]
    fn engine_beside_a_server_is_named_with_the_share_of_the_socket() {
        let setup = EnginesSetup {
            called: vec!["map".into(), "store".into()],
            served: vec!["redis".into()],
            socket_share: Some(0.9),
            ..clean()
        };
        let found = examine_engines(&setup);
        assert_eq!(found[0].rule, Rule::AcrossASocket);
        assert_eq!(
            found[0].evidence,
            "map, store are called in this process, and redis over a socket. About 90 % of the time of a read on redis is the socket."
        );
    }
}
