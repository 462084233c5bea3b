//! The rules about a machine: its memory, its clock, and its CPUs.

use super::{Finding, Rule, Setup, Severity};

/// Clock sources that are read without asking the kernel or a device.
const FAST_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
];
/// The cost above which reading the clock affects times of some microseconds.
const CLOCK_READ_NS: f64 = 200.0;

pub(super) fn huge_pages(setup: &Setup) -> Option<Finding> {
    let always = setup.huge_pages.as_deref() == Some("always");
    // Redis disables them for itself if it can; a server without the setting is older than that.
    let switched_off = setup.setting("disable-thp") == Some("yes");
    // A server that refuses its settings also lacks this one.
    let is_known = !setup.settings.is_empty();
    (always && setup.is_local && is_known && !switched_off).then(|| {
        setup.finding(Rule::HugePages, Severity::Warning,
            "Transparent huge pages are set to always, and the server does not disable them for itself.".to_owned(),
            "Set /sys/kernel/mm/transparent_hugepage/enabled to madvise: after a fork, copying 2 MiB pages stalls writes.")
    })
}

pub(super) fn governor(setup: &Setup) -> Option<Finding> {
    let governor = setup
        .governor
        .as_deref()
        .filter(|name| *name != "performance")?;
    let severity = if governor == "powersave" {
        Severity::Warning
    } else {
        Severity::Info
    };
    Some(Finding {
        scope: String::new(),
        ..setup.finding(
            Rule::Governor,
            severity,
            format!("The CPU frequency governor is {governor}: an idle CPU starts at a low frequency."),
            "Set it to performance (cpupower frequency-set -g performance), or compare only within rounds.",
        )
    })
}

pub(super) fn slow_clock(setup: &Setup) -> Option<Finding> {
    let source = setup
        .clock_source
        .as_deref()
        .filter(|source| !FAST_CLOCKS.contains(source));
    let read = setup.clock_read_ns.filter(|ns| *ns > CLOCK_READ_NS);
    let evidence = match (source, read) {
        (None, None) => return None,
        (Some(source), None) => {
            format!("The clock source is {source}, which is slow to read.")
        }
        (source, Some(ns)) => format!(
            "Reading the clock takes {ns:.0} ns (source {}), above {CLOCK_READ_NS:.0} ns.",
            source
                .or(setup.clock_source.as_deref())
                .unwrap_or("unknown"),
        ),
    };
    Some(Finding {
        scope: String::new(),
        ..setup.finding(
            Rule::SlowClock,
            Severity::Warning,
            evidence,
            "Use tsc if the machine supports it (kernel parameter clocksource=tsc); every measured time includes reads of this clock.",
        )
    })
}

pub(super) fn autogroup(setup: &Setup) -> Option<Finding> {
    // A server started by this run is in the same session.
    let apart = setup.autogroup == Some(true) && setup.is_local && !setup.is_ours;
    apart.then(|| {
        setup.finding(Rule::Autogroup, Severity::Info,
            "The scheduler shares CPUs among sessions (autogroup), and server and generator are in different sessions.".to_owned(),
            "If CPUs are scarce, set kernel.sched_autogroup_enabled to 0, or pin the two to different CPUs; nice values have no effect between sessions.")
    })
}

pub(super) fn too_few_cpus(setup: &Setup) -> Option<Finding> {
    let (cores, busy) = (setup.cores?, setup.busy_threads());
    let io_threads = setup.number("io-threads").unwrap_or(1);
    (setup.is_local && busy > cores).then(|| {
        setup.finding(
            Rule::TooFewCpus,
            Severity::Warning,
            format!(
                "Generator (threads: {}) and server (io-threads: {io_threads}) share {cores} CPUs of one machine.",
                setup.generator_threads,
            ),
            "Lower --threads or io-threads, or run the server on another machine: the two compete for CPU time.",
        )
    })
}

pub(super) fn quota(setup: &Setup) -> Option<Finding> {
    let (quota, busy) = (setup.quota_cores?, setup.busy_threads());
    // A quota of all CPUs is no limit.
    let limits = setup.cores.is_none_or(|cores| quota < cores as f64);
    (limits && quota < busy as f64).then(|| {
        setup.finding(
            Rule::Quota,
            Severity::Warning,
            format!(
                "The control group allows {quota:.1} CPUs, and {busy} threads are busy: the kernel will throttle them.",
            ),
            "Raise the quota of the container, or lower --threads; the quota causes pauses of up to 100 ms in the tail.",
        )
    })
}
