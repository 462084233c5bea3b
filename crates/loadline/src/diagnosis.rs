//! Evidence for the doctor before anything is measured: the machine, the server and its settings.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use loadline_measure::doctor::{self, Directory, Finding, SETTINGS, Setup};
use loadline_measure::quantile::median;
use loadline_measure::record::Environment;

use crate::exit::Failure;
use crate::spelling::Target;
use crate::systems::{Asked, Opened};

/// Readings of the clock from which the cost of one is taken.
const CLOCK_READINGS: u32 = 10_000;
/// Series of them.
const CLOCK_SERIES: u32 = 10;

/// Looks at a target and the machine that `environment` describes; the load will come from `threads`
/// threads.
pub(crate) fn setup(target: &mut Opened, environment: &Environment, threads: u64) -> Setup {
    // Of an engine, how often it syncs is its class of durability, and stated with every figure.
    let is_engine = matches!(target.target, Target::Engine(_));
    let settings = SETTINGS
        .into_iter()
        .filter(|name| !(is_engine && *name == "appendfsync"))
        .filter_map(|name| Some((name.to_owned(), target.setting(name)?)))
        .collect();
    Setup {
        is_local: target.server().is_some_and(|server| server.is_local()),
        settings,
        used_memory: target
            .said("used_memory")
            .and_then(|text| text.parse().ok()),
        monitors: target.monitors(),
        ..machine(target, environment, threads)
    }
}

/// Looks at the machine only: the nodes of a cluster speak for themselves.
pub(crate) fn machine(target: &Opened, environment: &Environment, threads: u64) -> Setup {
    Setup {
        scope: target.name.clone(),
        is_ours: target.target.is_ours(),
        cores: environment.cores,
        quota_cores: environment.cgroup_quota_cores,
        generator_threads: threads,
        huge_pages: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        governor: environment.governor.clone(),
        clock_source: environment.clock_source.clone(),
        clock_read_ns: Some(clock_read_ns()),
        autogroup: fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
            .ok()
            .map(|text| text.trim() == "1"),
        ..Setup::default()
    }
}

/// Looks at a node of a cluster on the machine that `machine` describes.
///
/// # Errors
/// That it does not answer.
pub(crate) fn node(asked: &mut Asked, machine: &Setup) -> Result<Setup, Failure> {
    let mut settings = BTreeMap::new();
    for name in SETTINGS {
        if let Some(value) = asked.admin.setting(name)? {
            settings.insert(name.to_owned(), value);
        }
    }
    Ok(Setup {
        scope: node_scope(&machine.scope, asked),
        is_local: asked.is_local,
        is_ours: machine.is_ours,
        huge_pages: machine.huge_pages.clone(),
        settings,
        used_memory: asked.info.number("used_memory"),
        monitors: asked.admin.monitors()?,
        ..Setup::default()
    })
}

/// Subject of a finding about one node of the cluster `name`.
pub(crate) fn node_scope(name: &str, asked: &Asked) -> String {
    format!("{name}, node {}", asked.address)
}

/// The findings about the setups of several targets; findings about the machine are listed once.
pub(crate) fn findings(setups: &[Setup]) -> Vec<Finding> {
    let mut found = Vec::new();
    for diagnosis in setups.iter().flat_map(doctor::examine_setup) {
        if !found.contains(&diagnosis) {
            found.push(diagnosis);
        }
    }
    loadline_report::findings(found)
}

/// Average time of reading the clock, in nanoseconds: in the quickest of several series, since
/// a neighbour on the CPU makes the others longer, and no series shorter.
fn clock_read_ns() -> f64 {
    let series = (0..CLOCK_SERIES).map(|_| {
        let begun = Instant::now();
        let mut last = begun;
        for _ in 0..CLOCK_READINGS {
            last = Instant::now();
        }
        (last - begun).as_nanos() as f64 / f64::from(CLOCK_READINGS)
    });
    series.fold(f64::INFINITY, f64::min)
}

/// Writes with a sync from which the time of one is taken.
const SYNCS: usize = 32;
/// Bytes that each writes.
const SYNC_BYTES: usize = 4 << 10;

/// Looks at a directory for the files of engines, and at the file system that it is on.
pub(crate) fn place(dir: &Path) -> Directory {
    let file_system = rustix::fs::statfs(dir).ok();
    let file_system = file_system.and_then(|found| {
        let known = FILE_SYSTEMS.iter();
        let mut known = known.filter(|(magic, _)| *magic == i128::from(found.f_type));
        known.next().map(|(_, name)| (*name).to_owned())
    });
    Directory {
        dir: dir.display().to_string(),
        file_system,
        sync_ns: sync_ns(dir).ok(),
    }
}

/// File systems that keep their files in memory, by the number that the kernel gives them.
const FILE_SYSTEMS: [(i128, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// The median time of a write with a sync, in nanoseconds.
fn sync_ns(dir: &Path) -> std::io::Result<u64> {
    let mut file = tempfile::tempfile_in(dir)?;
    let bytes = [7; SYNC_BYTES];
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_nanos() as f64);
    }
    Ok(median(&times).unwrap_or(0.0) as u64)
}

/// The word in brackets of a file such as `always [madvise] never`.
fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use loadline_measure::doctor::Rule;

    use super::*;

    #[test]
    fn chosen_word_stands_in_brackets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("enabled");
        fs::write(&path, "always [madvise] never\n").unwrap();
        assert_eq!(chosen(path.to_str().unwrap()).as_deref(), Some("madvise"));
        fs::write(&path, "nothing chosen\n").unwrap();
        assert_eq!(chosen(path.to_str().unwrap()), None);
        assert_eq!(chosen("/no/such/file"), None);
    }

    #[test]
    fn reading_the_clock_takes_some_time() {
        let ns = clock_read_ns();
        assert!(ns > 1.0 && ns < 1e6, "{ns} ns");
    }

    #[test]
    fn findings_about_the_machine_appear_once() {
        let setup = |scope: &str| Setup {
            scope: scope.to_owned(),
            governor: Some("powersave".to_owned()),
            monitors: Some(1),
            ..Setup::default()
        };
        let rules: Vec<(Rule, String)> = findings(&[setup("one"), setup("other")])
            .into_iter()
            .map(|finding| (finding.rule, finding.scope))
            .collect();
        let expected = [
            (Rule::Governor, ""),
            (Rule::Watched, "one"),
            (Rule::Watched, "other"),
        ];
        assert_eq!(
            rules,
            expected.map(|(rule, scope)| (rule, scope.to_owned()))
        );
    }
}
