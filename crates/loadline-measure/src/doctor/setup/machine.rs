//! The rules about a machine: its memory, its clock, and its CPUs.

use super::super::flaw::SetupFlaw;
use super::{Found, Setup, Severity};

/// Clock sources that are read without asking the kernel or a device.
const FAST_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
];
/// The cost above which reading the clock affects times of some microseconds, in nanoseconds.
pub const CLOCK_READ_NS: f64 = 200.0;

pub(super) fn huge_pages(setup: &Setup) -> Option<Found> {
    let always = setup.huge_pages.as_deref() == Some("always");
    // Redis disables them for itself if it can; a server without the setting is older than that.
    let switched_off = setup.setting("disable-thp") == Some("yes");
    // A server that refuses its settings also lacks this one.
    let is_known = !setup.settings.is_empty();
    (always && setup.is_local && is_known && !switched_off)
        .then_some((Severity::Warning, SetupFlaw::HugePages))
}

pub(super) fn governor(setup: &Setup) -> Option<Found> {
    let governor = setup
        .governor
        .clone()
        .filter(|name| name != "performance")?;
    let severity = if governor == "powersave" {
        Severity::Warning
    } else {
        Severity::Info
    };
    Some((severity, SetupFlaw::Governor(governor)))
}

pub(super) fn slow_clock(setup: &Setup) -> Option<Found> {
    let source = setup.clock_source.as_deref();
    let is_slow = source.is_some_and(|source| !FAST_CLOCKS.contains(&source));
    let read_ns = setup.clock_read_ns.filter(|ns| *ns > CLOCK_READ_NS);
    (is_slow || read_ns.is_some()).then(|| {
        let source = setup.clock_source.clone();
        (Severity::Warning, SetupFlaw::SlowClock { source, read_ns })
    })
}

pub(super) fn autogroup(setup: &Setup) -> Option<Found> {
    // A server started by this run is in the same session.
    let apart = setup.autogroup == Some(true) && setup.is_local && !setup.is_ours;
    apart.then_some((Severity::Info, SetupFlaw::Autogroup))
}

pub(super) fn too_few_cpus(setup: &Setup) -> Option<Found> {
    let cores = setup.cores?;
    (setup.is_local && setup.busy_threads() > cores).then(|| {
        let shared = SetupFlaw::TooFewCpus {
            cores,
            generator_threads: setup.generator_threads,
            io_threads: setup.number("io-threads").unwrap_or(1),
        };
        (Severity::Warning, shared)
    })
}

pub(super) fn quota(setup: &Setup) -> Option<Found> {
    let (quota_cores, busy_threads) = (setup.quota_cores?, setup.busy_threads());
    // A quota of all CPUs is no limit.
    let limits = setup.cores.is_none_or(|cores| quota_cores < cores as f64);
    (limits && quota_cores < busy_threads as f64).then_some((
        Severity::Warning,
        SetupFlaw::Quota {
            quota_cores,
            busy_threads,
        },
    ))
}
