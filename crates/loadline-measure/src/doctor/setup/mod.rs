//! Rules about a machine and a server's settings, checked before measuring.

mod machine;

use std::collections::BTreeMap;

use super::Severity;
use super::flaw::{Diagnosis, SetupFlaw};
use crate::histogram::LatencySummary;
use crate::record::Link;
pub use machine::CLOCK_READ_NS;
use machine::{autogroup, governor, huge_pages, quota, slow_clock, too_few_cpus};

/// Settings of a server that [`examine_setup`] reads, by their names in `CONFIG GET`.
pub const SETTINGS: [&str; 8] = [
    "appendonly",
    "appendfsync",
    "maxmemory",
    "maxmemory-policy",
    "io-threads",
    "disable-thp",
    "client-output-buffer-limit",
    "slowlog-log-slower-than",
];

/// A server, the generator's machine, and the path between them. Values that were not read are `None` or
/// empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setup {
    /// The subject of the findings: the target's name.
    pub scope: String,
    /// Whether the server runs on the generator's machine.
    pub is_local: bool,
    /// Whether the server was started for this run.
    pub is_ours: bool,
    /// Logical CPUs that the generator could use.
    pub cores: Option<u64>,
    /// The control group's quota in CPUs.
    pub quota_cores: Option<f64>,
    /// Threads of the generator.
    pub generator_threads: u64,
    /// The kernel's policy on transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// The CPU frequency governor.
    pub governor: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The cost of reading the clock, in nanoseconds.
    pub clock_read_ns: Option<f64>,
    /// Whether the scheduler shares CPUs among sessions instead of threads.
    pub autogroup: Option<bool>,
    /// The server's values of [`SETTINGS`].
    pub settings: BTreeMap<String, String>,
    /// Memory that the server uses, in bytes.
    pub used_memory: Option<u64>,
    /// Connections that receive every command (`MONITOR`).
    pub monitors: Option<u64>,
    /// Round trips on one connection while nothing else was sent.
    pub idle: Option<LatencySummary>,
    /// The server's own time for such a command, in nanoseconds.
    pub server_ns: Option<u64>,
}

/// A flaw and its severity.
type Found = (Severity, SetupFlaw);

/// All rules about a setup.
const RULES: [fn(&Setup) -> Option<Found>; 12] = [
    huge_pages,
    governor,
    slow_clock,
    sync_on_every_write,
    memory_limit,
    autogroup,
    too_few_cpus,
    output_limit,
    watched,
    jitter,
    quota,
    distance,
];

/// The share of its memory limit from which a server can reach it during a run.
const MEMORY_SHARE: f64 = 0.8;
/// The ratio of p99 to median from which an idle path adds its own tail,
const JITTER: u64 = 5;
/// if the difference is at least this.
const JITTER_NS: u64 = 200_000;
/// The ratio of path time to server time from which the path hides the server.
const DISTANCE: u64 = 20;
/// Round trips shorter than this are not a network's, in nanoseconds.
const NEAR_NS: u64 = 500_000;

impl SetupFlaw {
    /// Whether it concerns the machine, whatever the target.
    fn is_of_machine(&self) -> bool {
        matches!(self, Self::Governor(_) | Self::SlowClock { .. })
    }
}

/// Applies all rules to a setup; the most severe findings come first.
#[must_use]
pub fn examine_setup(setup: &Setup) -> Vec<Diagnosis> {
    let mut found: Vec<Found> = RULES.iter().filter_map(|rule| rule(setup)).collect();
    found.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let found = found.into_iter().map(|(severity, flaw)| {
        let scope = if flaw.is_of_machine() {
            ""
        } else {
            &setup.scope
        };
        Diagnosis::new(scope, severity, flaw)
    });
    found.collect()
}

/// Reports a link that adds more latency than it should.
#[must_use]
pub fn examine_link(link: &Link) -> Option<Diagnosis> {
    link.is_off.then(|| {
        let scope = format!("added latency of {} ms", link.latency_ns as f64 / 1e6);
        let off = SetupFlaw::LinkOff(Box::new(link.clone()));
        Diagnosis::new(&scope, Severity::Warning, off)
    })
}

impl Setup {
    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// Threads that are busy on this machine under load.
    fn busy_threads(&self) -> u64 {
        let of_server = self.number("io-threads").unwrap_or(1).max(1);
        self.generator_threads + if self.is_local { of_server } else { 0 }
    }
}

fn sync_on_every_write(setup: &Setup) -> Option<Found> {
    let always = setup.setting("appendonly") == Some("yes")
        && setup.setting("appendfsync") == Some("always");
    always.then_some((Severity::Warning, SetupFlaw::SyncOnEveryWrite))
}

fn memory_limit(setup: &Setup) -> Option<Found> {
    let limit = setup.number("maxmemory").filter(|bytes| *bytes > 0)?;
    let used = setup.used_memory?;
    (used as f64 / limit as f64 > MEMORY_SHARE).then(|| {
        let policy = setup.setting("maxmemory-policy").map(str::to_owned);
        let near = SetupFlaw::MemoryLimit {
            used,
            limit,
            policy,
        };
        (Severity::Warning, near)
    })
}

fn output_limit(setup: &Setup) -> Option<Found> {
    let limits = setup.setting("client-output-buffer-limit")?;
    let normal = limits
        .split_once("normal ")
        .map(|(_, rest)| rest.split(' ').take(3).collect::<Vec<_>>())?;
    let limited = normal.iter().any(|value| *value != "0");
    limited.then(|| (Severity::Warning, SetupFlaw::OutputLimit(normal.join(" "))))
}

fn watched(setup: &Setup) -> Option<Found> {
    let monitors = setup.monitors.unwrap_or(0);
    let is_logged = setup.setting("slowlog-log-slower-than") == Some("0");
    let watched = SetupFlaw::Watched {
        monitors,
        is_logged,
    };
    (monitors > 0 || is_logged).then_some((Severity::Warning, watched))
}

fn jitter(setup: &Setup) -> Option<Found> {
    let idle = setup.idle.as_ref()?;
    let (p50_ns, p99_ns) = (idle.p50?, idle.p99?);
    let spread = p99_ns > p50_ns.saturating_mul(JITTER) && p99_ns - p50_ns > JITTER_NS;
    spread.then_some((Severity::Warning, SetupFlaw::Jitter { p50_ns, p99_ns }))
}

fn distance(setup: &Setup) -> Option<Found> {
    let (idle_ns, server_ns) = (setup.idle.as_ref()?.p50?, setup.server_ns?);
    let is_far = idle_ns > NEAR_NS && idle_ns > server_ns.saturating_mul(DISTANCE);
    is_far.then_some((Severity::Info, SetupFlaw::Distance { idle_ns, server_ns }))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Setup);

    fn set(setup: &mut Setup, name: &str, value: &str) {
        setup.settings.insert(name.to_owned(), value.to_owned());
    }

    /// A local server without findings.
    fn clean() -> Setup {
        let mut setup = Setup {
            scope: "redis".to_owned(),
            is_local: true,
            is_ours: false,
            cores: Some(4),
            quota_cores: Some(4.0),
            generator_threads: 2,
            huge_pages: Some("madvise".to_owned()),
            governor: Some("performance".to_owned()),
            clock_source: Some("tsc".to_owned()),
            clock_read_ns: Some(25.0),
            autogroup: Some(false),
            used_memory: Some(1 << 20),
            monitors: Some(0),
            idle: Some(LatencySummary {
                count: 20_000,
                p50: Some(30_000),
                p99: Some(90_000),
                ..LatencySummary::default()
            }),
            server_ns: Some(1_000),
            ..Setup::default()
        };
        for (name, value) in [
            ("appendonly", "no"),
            ("appendfsync", "everysec"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("io-threads", "1"),
            ("disable-thp", "yes"),
            (
                "client-output-buffer-limit",
                "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            ),
            ("slowlog-log-slower-than", "10000"),
        ] {
            set(&mut setup, name, value);
        }
        setup
    }

    type Row = (&'static str, Change, SetupFlaw);

    /// Rules about the machine, the changes that trigger them, and their flaws.
    fn of_machine() -> Vec<Row> {
        let clock = |source: &str, read_ns| SetupFlaw::SlowClock {
            source: Some(source.to_owned()),
            read_ns,
        };
        vec![
            (
                "LL018",
                |s| {
                    s.huge_pages = Some("always".to_owned());
                    set(s, "disable-thp", "no");
                },
                SetupFlaw::HugePages,
            ),
            (
                "LL019",
                |s| s.governor = Some("powersave".to_owned()),
                SetupFlaw::Governor(str::to_owned("powersave")),
            ),
            (
                "LL020",
                |s| s.clock_source = Some("hpet".to_owned()),
                clock("hpet", None),
            ),
            (
                "LL020",
                |s| s.clock_read_ns = Some(1_240.0),
                clock("tsc", Some(1_240.0)),
            ),
            (
                "LL020",
                |s| {
                    s.clock_source = Some("acpi_pm".to_owned());
                    s.clock_read_ns = Some(900.0);
                },
                clock("acpi_pm", Some(900.0)),
            ),
            ("LL023", |s| s.autogroup = Some(true), SetupFlaw::Autogroup),
            (
                "LL024",
                |s| set(s, "io-threads", "3"),
                SetupFlaw::TooFewCpus {
                    cores: 4,
                    generator_threads: 2,
                    io_threads: 3,
                },
            ),
            (
                "LL028",
                |s| s.quota_cores = Some(1.5),
                SetupFlaw::Quota {
                    quota_cores: 1.5,
                    busy_threads: 3,
                },
            ),
            (
                "LL019",
                |s| s.governor = Some("schedutil".to_owned()),
                SetupFlaw::Governor(str::to_owned("schedutil")),
            ),
        ]
    }

    /// The same of the server and the path to it.
    fn of_server() -> Vec<Row> {
        let memory = |limit, policy: &str| SetupFlaw::MemoryLimit {
            used: 1 << 20,
            limit,
            policy: Some(policy.to_owned()),
        };
        let watched = |monitors, is_logged| SetupFlaw::Watched {
            monitors,
            is_logged,
        };
        vec![
            (
                "LL021",
                |s| {
                    set(s, "appendonly", "yes");
                    set(s, "appendfsync", "always");
                },
                SetupFlaw::SyncOnEveryWrite,
            ),
            (
                "LL022",
                |s| set(s, "maxmemory", "1048576"),
                memory(1_048_576, "noeviction"),
            ),
            (
                "LL022",
                |s| {
                    set(s, "maxmemory", "1200000");
                    set(s, "maxmemory-policy", "allkeys-lru");
                },
                memory(1_200_000, "allkeys-lru"),
            ),
            (
                "LL025",
                |s| {
                    set(
                        s,
                        "client-output-buffer-limit",
                        "normal 1024 512 60 slave 0 0 0 pubsub 0 0 0",
                    );
                },
                SetupFlaw::OutputLimit(str::to_owned("1024 512 60")),
            ),
            ("LL026", |s| s.monitors = Some(2), watched(2, false)),
            (
                "LL026",
                |s| set(s, "slowlog-log-slower-than", "0"),
                watched(0, true),
            ),
            (
                "LL027",
                |s| s.idle.as_mut().unwrap().p99 = Some(450_000),
                SetupFlaw::Jitter {
                    p50_ns: 30_000,
                    p99_ns: 450_000,
                },
            ),
            (
                "LL029",
                |s| {
                    let idle = s.idle.as_mut().unwrap();
                    (idle.p50, idle.p99) = (Some(600_000), Some(700_000));
                },
                SetupFlaw::Distance {
                    idle_ns: 600_000,
                    server_ns: 1_000,
                },
            ),
        ]
    }

    #[test]
    fn clean_setup_and_an_unknown_one_have_no_findings() {
        assert_eq!(examine_setup(&clean()), []);
        assert_eq!(examine_setup(&Setup::default()), []);
    }

    #[test]
    fn every_rule_fires_on_its_evidence_and_no_other_does() {
        for (rule, change, flaw) in of_machine().into_iter().chain(of_server()) {
            let mut setup = clean();
            change(&mut setup);
            let found = examine_setup(&setup);
            assert_eq!(found.len(), 1, "{rule}: {found:?}");
            // The governor and the clock belong to the machine.
            let scope = if ["LL019", "LL020"].contains(&rule) {
                ""
            } else {
                "redis"
            };
            assert_eq!(
                (found[0].rule().as_str(), found[0].scope.as_str()),
                (rule, scope)
            );
            assert_eq!(found[0].flaw, flaw.into());
        }
    }

    #[test]
    fn rules_are_silent_up_to_their_limits_and_where_they_do_not_apply() {
        let table: [Change; 9] = [
            |s| s.huge_pages = Some("always".to_owned()),
            |s| {
                (s.huge_pages, s.is_local) = (Some("always".to_owned()), false);
                set(s, "disable-thp", "no");
            },
            |s| s.clock_read_ns = Some(200.0),
            |s| set(s, "appendonly", "yes"),
            |s| set(s, "maxmemory", "1310720"),
            |s| (s.autogroup, s.is_ours) = (Some(true), true),
            |s| {
                s.is_local = false;
                set(s, "io-threads", "8");
            },
            |s| s.idle.as_mut().unwrap().p99 = Some(229_999),
            |s| (s.idle.as_mut().unwrap().p50, s.server_ns) = (Some(600_000), Some(30_000)),
        ];
        for (row, change) in table.into_iter().enumerate() {
            let mut setup = clean();
            change(&mut setup);
            assert_eq!(examine_setup(&setup), [], "row {row}");
        }
    }

    #[test]
    fn gravest_findings_come_first() {
        let mut setup = clean();
        setup.autogroup = Some(true);
        setup.governor = Some("schedutil".to_owned());
        setup.monitors = Some(1);
        let severities: Vec<Severity> = examine_setup(&setup)
            .into_iter()
            .map(|finding| finding.severity)
            .collect();
        assert_eq!(
            severities,
            [Severity::Warning, Severity::Info, Severity::Info]
        );
    }
}
