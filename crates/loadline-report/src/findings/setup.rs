//! Flaws of a machine, of a server's settings, and of the path between generator and server.

use loadline_measure::doctor::{CLOCK_READ_NS, SetupFlaw};
use loadline_measure::record::Link;
use loadline_measure::words;

use super::{joined, percent};

pub(super) fn evidence(flaw: &SetupFlaw) -> String {
    match flaw {
        SetupFlaw::HugePages => {
            "Transparent huge pages are set to always, and the server does not disable them for itself.".to_owned()
        }
        SetupFlaw::Governor(name) => format!(
            "The CPU frequency governor is {name}: an idle CPU starts at a low frequency."
        ),
        SetupFlaw::SlowClock { source, read_ns } => {
            slow_clock(source.as_deref().unwrap_or("unknown"), *read_ns)
        }
        SetupFlaw::SyncOnEveryWrite => {
            "The server waits for the disk on every write (appendonly yes, appendfsync always)."
                .to_owned()
        }
        SetupFlaw::MemoryLimit {
            used,
            limit,
            policy,
        } => memory_limit(*used, *limit, policy.as_deref().unwrap_or("unknown")),
        SetupFlaw::Autogroup => {
            "The scheduler shares CPUs among sessions (autogroup), and server and generator are in different sessions.".to_owned()
        }
        SetupFlaw::TooFewCpus {
            cores,
            generator_threads,
            io_threads,
        } => format!(
            "Generator (threads: {generator_threads}) and server (io-threads: {io_threads}) share {cores} CPUs of one machine."
        ),
        SetupFlaw::OutputLimit(normal) => format!(
            "The server closes connections with too many unread replies (client-output-buffer-limit normal {normal})."
        ),
        SetupFlaw::Watched {
            monitors,
            is_logged,
        } => watched(*monitors, *is_logged),
        SetupFlaw::Jitter { p50_ns, p99_ns } => format!(
            "Round trips on an idle connection vary: the median is {} and the p99 {}.",
            words::duration(*p50_ns as f64),
            words::duration(*p99_ns as f64),
        ),
        SetupFlaw::Quota {
            quota_cores,
            busy_threads,
        } => format!(
            "The control group allows {quota_cores:.1} CPUs, and {busy_threads} threads are busy: the kernel will throttle them."
        ),
        SetupFlaw::Distance { idle_ns, server_ns } => format!(
            "A round trip takes {}, of which the server uses {}: with one operation in flight, the result is mostly the path.",
            words::duration(*idle_ns as f64),
            words::duration(*server_ns as f64),
        ),
        SetupFlaw::LinkOff(link) => overshoot(link),
    }
}

pub(super) fn advice(flaw: &SetupFlaw) -> &'static str {
    match flaw {
        SetupFlaw::HugePages => {
            "Set /sys/kernel/mm/transparent_hugepage/enabled to madvise: after a fork, copying 2 MiB pages stalls writes."
        }
        SetupFlaw::Governor(_) => {
            "Set it to performance (cpupower frequency-set -g performance), or compare only within rounds."
        }
        SetupFlaw::SlowClock { .. } => {
            "Use tsc if the machine supports it (kernel parameter clocksource=tsc); every measured time includes reads of this clock."
        }
        SetupFlaw::SyncOnEveryWrite => {
            "State this with every figure for writes, or measure with appendfsync everysec."
        }
        SetupFlaw::MemoryLimit { .. } => {
            "Raise maxmemory for the measurement, or measure with fewer keys (--keys)."
        }
        SetupFlaw::Autogroup => {
            "If CPUs are scarce, set kernel.sched_autogroup_enabled to 0, or pin the two to different CPUs; nice values have no effect between sessions."
        }
        SetupFlaw::TooFewCpus { .. } => {
            "Lower --threads or io-threads, or run the server on another machine: the two compete for CPU time."
        }
        SetupFlaw::OutputLimit(_) => {
            "Lower --pipeline and --value-size, or remove the limit: connections closed for this reason appear as errors and pauses."
        }
        SetupFlaw::Watched { .. } => {
            "Stop MONITOR and raise slowlog-log-slower-than for the measurement; both add server time to every command."
        }
        SetupFlaw::Jitter { .. } => {
            "Check the network and other programs on both machines; tails below this p99 say nothing about the server."
        }
        SetupFlaw::Quota { .. } => {
            "Raise the quota of the container, or lower --threads; the quota causes pauses of up to 100 ms in the tail."
        }
        SetupFlaw::Distance { .. } => {
            "Use --pipeline or more --connections to load the server, or measure from its own machine."
        }
        SetupFlaw::LinkOff(_) => {
            "Give the link its own CPU or use a quieter machine; tails include the link's delays."
        }
    }
}

fn slow_clock(source: &str, read_ns: Option<f64>) -> String {
    match read_ns {
        None => format!("The clock source is {source}, which is slow to read."),
        Some(ns) => format!(
            "Reading the clock takes {ns:.0} ns (source {source}), above {CLOCK_READ_NS:.0} ns."
        ),
    }
}

fn memory_limit(used: u64, limit: u64, policy: &str) -> String {
    let then = match policy {
        "noeviction" => "above the limit, writes are refused",
        _ => "above the limit, keys are evicted and reads miss",
    };
    format!(
        "The server uses {used} of its limit of {limit} bytes ({}), policy {policy}: {then}.",
        percent(used as f64 / limit as f64),
    )
}

fn watched(monitors: u64, is_logged: bool) -> String {
    let connections = match monitors {
        0 => None,
        1 => Some("1 connection receives".to_owned()),
        _ => Some(format!("{monitors} connections receive")),
    };
    let monitored = connections.map(|some| format!("{some} every command (MONITOR)"));
    let logged = is_logged.then(|| "it logs every command (slowlog-log-slower-than 0)".to_owned());
    let costs = joined([monitored, logged], "; ");
    format!("The server is being monitored: {costs}.")
}

fn overshoot(link: &Link) -> String {
    let own = link.release_late_p99_ns.zip(link.scheduling.as_ref());
    // The share of the overshoot that the link itself causes.
    let own = own.map(|(late, scheduling)| {
        format!(
            "Its own thread ({scheduling} scheduling) released {} us late at p99; the rest is the time both ends took to wake up.",
            late / 1_000
        )
    });
    let all = format!(
        "The link ({}) overshoots by {} us at p50 and {} us at p99; above 250 us at p99, the link does not provide the requested latency.",
        link.class,
        link.overshoot_p50_ns / 1_000,
        link.overshoot_p99_ns / 1_000,
    );
    joined([Some(all), own], " ")
}
