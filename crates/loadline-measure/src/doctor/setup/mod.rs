//! Rules about a machine and a server's settings, checked before measuring.

mod machine;

use std::collections::BTreeMap;

use super::{Finding, Rule, Severity, percent};
use crate::histogram::LatencySummary;
use crate::words;
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

/// All rules about a setup.
const RULES: [fn(&Setup) -> Option<Finding>; 12] = [
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

/// Applies all rules to a setup; the most severe findings come first.
#[must_use]
pub fn examine_setup(setup: &Setup) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(setup)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
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

    fn finding(
        &self,
        rule: Rule,
        severity: Severity,
        evidence: String,
        what_to_do: &str,
    ) -> Finding {
        Finding {
            rule,
            severity,
            scope: self.scope.clone(),
            evidence,
            what_to_do: what_to_do.to_owned(),
        }
    }
}

fn sync_on_every_write(setup: &Setup) -> Option<Finding> {
    let always = setup.setting("appendonly") == Some("yes")
        && setup.setting("appendfsync") == Some("always");
    always.then(|| {
        setup.finding(
            Rule::SyncOnEveryWrite,
            Severity::Warning,
            "The server waits for the disk on every write (appendonly yes, appendfsync always)."
                .to_owned(),
            "State this with every figure for writes, or measure with appendfsync everysec.",
        )
    })
}

fn memory_limit(setup: &Setup) -> Option<Finding> {
    let limit = setup.number("maxmemory").filter(|bytes| *bytes > 0)?;
    let used = setup.used_memory?;
    let share = used as f64 / limit as f64;
    let policy = setup.setting("maxmemory-policy").unwrap_or("unknown");
    let then = match policy {
        "noeviction" => "above the limit, writes are refused",
        _ => "above the limit, keys are evicted and reads miss",
    };
    (share > MEMORY_SHARE).then(|| {
        setup.finding(
            Rule::MemoryLimit,
            Severity::Warning,
            format!(
                "The server uses {used} of its limit of {limit} bytes ({}), policy {policy}: {then}.",
                percent(share),
            ),
            "Raise maxmemory for the measurement, or measure with fewer keys (--keys).",
        )
    })
}

fn output_limit(setup: &Setup) -> Option<Finding> {
    let limits = setup.setting("client-output-buffer-limit")?;
    let normal = limits
        .split_once("normal ")
        .map(|(_, rest)| rest.split(' ').take(3).collect::<Vec<_>>())?;
    let limited = normal.iter().any(|value| *value != "0");
    limited.then(|| {
        setup.finding(
            Rule::OutputLimit,
            Severity::Warning,
            format!(
                "The server closes connections with too many unread replies (client-output-buffer-limit normal {}).",
                normal.join(" "),
            ),
            "Lower --pipeline and --value-size, or remove the limit: connections closed for this reason appear as errors and pauses.",
        )
    })
}

fn watched(setup: &Setup) -> Option<Finding> {
    let mut costs = Vec::new();
    if let Some(monitors) = setup.monitors.filter(|count| *count > 0) {
        let connections = match monitors {
            1 => "1 connection receives".to_owned(),
            _ => format!("{monitors} connections receive"),
        };
        costs.push(format!("{connections} every command (MONITOR)"));
    }
    if setup.setting("slowlog-log-slower-than") == Some("0") {
        costs.push("it logs every command (slowlog-log-slower-than 0)".to_owned());
    }
    (!costs.is_empty()).then(|| {
        setup.finding(
            Rule::Watched,
            Severity::Warning,
            format!("The server is being monitored: {}.", costs.join("; ")),
            "Stop MONITOR and raise slowlog-log-slower-than for the measurement; both add server time to every command.",
        )
    })
}

fn jitter(setup: &Setup) -> Option<Finding> {
    let idle = setup.idle.as_ref()?;
    let (p50, p99) = (idle.p50?, idle.p99?);
    let spread = p99 > p50.saturating_mul(JITTER) && p99 - p50 > JITTER_NS;
    spread.then(|| {
        setup.finding(
            Rule::Jitter,
            Severity::Warning,
            format!(
                "Round trips on an idle connection vary: the median is {} and the p99 {}.",
                words::duration(p50 as f64),
                words::duration(p99 as f64),
            ),
            "Check the network and other programs on both machines; tails below this p99 say nothing about the server.",
        )
    })
}

fn distance(setup: &Setup) -> Option<Finding> {
    let (idle, server) = (setup.idle.as_ref()?.p50?, setup.server_ns?);
    let is_far = idle > NEAR_NS && idle > server.saturating_mul(DISTANCE);
    is_far.then(|| {
        setup.finding(
            Rule::Distance,
            Severity::Info,
            format!(
                "A round trip takes {}, of which the server uses {}: with one operation in flight, the result is mostly the path.",
                words::duration(idle as f64),
                words::duration(server as f64),
            ),
            "Use --pipeline or more --connections to load the server, or measure from its own machine.",
        )
    })
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

    /// A rule, the change that triggers it, and part of its finding.
    const FIRES: [(&str, Change, &str); 17] = [
        (
            "LL018",
            |s| {
                s.huge_pages = Some("always".to_owned());
                set(s, "disable-thp", "no");
            },
            "set to always",
        ),
        (
            "LL019",
            |s| s.governor = Some("powersave".to_owned()),
            "governor is powersave",
        ),
        (
            "LL020",
            |s| s.clock_source = Some("hpet".to_owned()),
            "clock source is hpet",
        ),
        (
            "LL020",
            |s| s.clock_read_ns = Some(1_240.0),
            "takes 1240 ns (source tsc), above 200 ns",
        ),
        (
            "LL020",
            |s| {
                s.clock_source = Some("acpi_pm".to_owned());
                s.clock_read_ns = Some(900.0);
            },
            "takes 900 ns (source acpi_pm)",
        ),
        (
            "LL021",
            |s| {
                set(s, "appendonly", "yes");
                set(s, "appendfsync", "always");
            },
            "waits for the disk on every write",
        ),
        (
            "LL022",
            |s| set(s, "maxmemory", "1048576"),
            "(100 %), policy noeviction: above the limit, writes are refused",
        ),
        (
            "LL022",
            |s| {
                set(s, "maxmemory", "1200000");
                set(s, "maxmemory-policy", "allkeys-lru");
            },
            "uses 1048576 of its limit of 1200000 bytes (87 %), policy allkeys-lru: above the limit, keys are evicted",
        ),
        ("LL023", |s| s.autogroup = Some(true), "(autogroup)"),
        (
            "LL024",
            |s| set(s, "io-threads", "3"),
            "Generator (threads: 2) and server (io-threads: 3) share 4 CPUs",
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
            "client-output-buffer-limit normal 1024 512 60",
        ),
        (
            "LL026",
            |s| s.monitors = Some(2),
            "2 connections receive every command (MONITOR)",
        ),
        (
            "LL026",
            |s| set(s, "slowlog-log-slower-than", "0"),
            "it logs every command",
        ),
        (
            "LL027",
            |s| s.idle.as_mut().unwrap().p99 = Some(450_000),
            "the median is 30.0 us and the p99 450 us",
        ),
        (
            "LL028",
            |s| s.quota_cores = Some(1.5),
            "allows 1.5 CPUs, and 3 threads are busy",
        ),
        (
            "LL029",
            |s| {
                let idle = s.idle.as_mut().unwrap();
                (idle.p50, idle.p99) = (Some(600_000), Some(700_000));
            },
            "A round trip takes 600 us, of which the server uses 1.00 us",
        ),
        (
            "LL019",
            |s| s.governor = Some("schedutil".to_owned()),
            "governor is schedutil",
        ),
    ];

    #[test]
    fn clean_setup_and_an_unknown_one_have_no_findings() {
        assert_eq!(examine_setup(&clean()), []);
        assert_eq!(examine_setup(&Setup::default()), []);
    }

    #[test]
    fn every_rule_fires_on_its_evidence_and_no_other_does() {
        for (rule, change, evidence) in FIRES {
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
                (found[0].rule.as_str(), found[0].scope.as_str()),
                (rule, scope)
            );
            assert!(
                found[0].evidence.contains(evidence),
                "{} should say {evidence}",
                found[0].evidence
            );
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
