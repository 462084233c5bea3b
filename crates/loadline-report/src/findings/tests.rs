use loadline_measure::Metric;
use loadline_measure::doctor::{
    ActivityFlaw, AgentsFlaw, Batched, ClusterFlaw, EnginesFlaw, FlowFlaw, HitReason, LoadFlaw,
    NetworkUse, PairFlaw, ResultFlaw, SetupFlaw, SlowRounds, Throttled, Work,
};
use loadline_measure::record::{CpuPauses, Link, Scheduling, Stall, StallCause};

use super::*;

/// Asserts that the evidence for each flaw is this text.
fn assert_evidence<F: Into<Flaw>, const N: usize>(table: [(F, &str); N]) {
    for (flaw, evidence) in table {
        let (told, advice) = told(&flaw.into());
        assert_eq!(told, evidence);
        assert!(advice.ends_with('.'), "{advice}");
    }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&one| one.to_owned()).collect()
}

#[test]
fn flaws_of_connections_counts_and_the_generator_have_their_figures() {
    let counts = |server_ops, undeclared: &[(&str, u64)]| LoadFlaw::CountsDiffer {
        ops: 200_000,
        server_ops,
        undeclared: undeclared
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
    };
    let bound = |busy, waited, null_speedup| LoadFlaw::GeneratorBound {
        busy,
        waited,
        null_speedup,
    };
    assert_evidence([
        (
            LoadFlaw::ConnectionPerOperation {
                opened: 199_000,
                ops: 200_000,
                expected: 500,
            },
            "The server accepted 199000 connections during 200000 operations; expected 500.",
        ),
        (
            counts(Some(200_201), &[]),
            "The generator counted 200000 operations and the server 200201, a difference of 0.10 %.",
        ),
        (
            counts(None, &[("set", 200_000), ("del", 201)]),
            "In addition to 200000 operations, the server executed 200000 SET and 201 DEL, which the workload does not declare.",
        ),
        (
            counts(Some(100_000), &[("set", 100_000)]),
            "The generator counted 200000 operations and the server 100000, a difference of 50 %. In addition to 200000 operations, the server executed 100000 SET, which the workload does not declare.",
        ),
        (
            bound(None, None, Some(1.49)),
            "A null server was only 1.49 times as fast under the same load.",
        ),
        (
            bound(Some((0.97, 0.4)), None, None),
            "The busiest thread of the generator used 97 % of a CPU while the server used 40 %: the generator was the bottleneck.",
        ),
        (
            bound(Some((0.5, 0.2)), Some(0.45), Some(1.0)),
            "The busiest thread of the generator used 50 % of a CPU (and waited for one 45 % of the time) while the server used 20 %: the generator was the bottleneck. A null server was only 1.00 times as fast under the same load.",
        ),
    ]);
}

#[test]
fn flaws_of_a_rate_have_their_figures() {
    let (not_sent, planned) = (5_464, 200_000);
    assert_evidence([
        (
            LoadFlaw::LateStarts {
                lag_ns: 24_000,
                response_ns: 100_000,
            },
            "The generator itself started operations late: the p99 of its lag is 24.0 us, which is 24 % of the reported p99 of 100 us.",
        ),
        (
            LoadFlaw::HeldBack {
                not_sent,
                planned,
                stalled_ns: 1_000_000_000,
            },
            "After stalls of 1.00 s in total, 5464 of 200000 planned operations (3 %) were never sent: the percentiles are lower bounds.",
        ),
        (
            LoadFlaw::NeverSent {
                not_sent: 500,
                planned,
                is_server: true,
            },
            "The rate exceeds the capacity of the target: 500 of 200000 planned operations (0.25 %) were never sent.",
        ),
        (
            LoadFlaw::Growing {
                growth: 8.0,
                is_server: false,
            },
            "The rate was not kept: the median response time grew 8.0-fold within a block.",
        ),
    ]);
}

#[test]
fn operations_held_back_by_a_stall_do_not_advise_a_lower_rate() {
    let (not_sent, planned) = (500, 200_000);
    let held_back = LoadFlaw::HeldBack {
        not_sent,
        planned,
        stalled_ns: 1,
    };
    let never_sent = LoadFlaw::NeverSent {
        not_sent,
        planned,
        is_server: false,
    };
    assert!(!load::advice(&held_back).contains("--rate"));
    assert!(load::advice(&never_sent).contains("Lower --rate"));
}

#[test]
fn flaws_of_the_results_have_their_figures() {
    let failed = |errors, ops, main: Option<&str>| ResultFlaw::ErrorReplies {
        errors,
        ops,
        main_error: main.map(str::to_owned),
    };
    assert_evidence([
        (
            ResultFlaw::TooFewSamples {
                count: 150,
                missing: vec![
                    (Metric::P50, 200),
                    (Metric::P99, 10_000),
                    (Metric::P999, 100_000),
                ],
            },
            "150 samples are too few for p50 (needs 200), p99 (needs 10000), p99.9 (needs 100000).",
        ),
        (
            ResultFlaw::ShortBlock(49_000_000),
            "The shortest block took 49.0 ms; results of blocks below 50 ms are unreliable.",
        ),
        (
            ResultFlaw::FewClockReads(999),
            "A block read the clock only 999 times; results with fewer than 1000 readings are unreliable.",
        ),
        (
            ResultFlaw::NoSteadyState,
            "No steady state: the medians kept shifting during the warm-up or over the rounds.",
        ),
        (
            failed(20, 200_000, Some("WRONGTYPE")),
            "20 of 200000 operations (0.01 %) failed, most of them WRONGTYPE.",
        ),
        (
            failed(1, 50_000_000, None),
            "1 of 50000000 operations (<0.01 %) failed.",
        ),
        (
            ResultFlaw::ReadsMiss(0.63),
            "Only 63 % of the reads found their key.",
        ),
    ]);
}

#[test]
fn other_activity_has_its_figures() {
    let contention = |pressure, waited| ActivityFlaw::Contention { pressure, waited };
    let work = |kinds: &[&str], evicted_keys, swapped_bytes| ActivityFlaw::ServerBusyElsewhere {
        persistence: texts(kinds),
        evicted_keys,
        swapped_bytes,
    };
    let throttled = Throttled {
        periods: 76,
        throttled: 51,
    };
    assert_evidence([
        (
            ActivityFlaw::GeneratorThrottled(throttled),
            "The CPU quota of the load generator's control group stopped it in 51 of 76 periods, so it is part of the limit, and its waits are in the tail.",
        ),
        (
            ActivityFlaw::NetworkLimit(NetworkUse {
                device: "eth0".to_owned(),
                speed: 1_250_000_000,
                used: 1_150_000_000,
            }),
            "The network device eth0 carried 9.20 Gbit/s in one direction, of 10.0 Gbit/s that it states: the network can be the limit.",
        ),
        (
            contention(Some(0.5), None),
            "Tasks waited for a CPU 50 % of the time (pressure stall).",
        ),
        (
            contention(None, Some(0.06)),
            "Generator or server waited for a CPU 6 % of their time.",
        ),
        (
            contention(Some(0.5), Some(0.06)),
            "Tasks waited for a CPU 50 % of the time (pressure stall), generator or server 6 % of theirs.",
        ),
        (
            work(&["appendonly yes", "save 900 1"], 0, 0),
            "The server did other work as well: it persists (appendonly yes, save 900 1).",
        ),
        (
            work(&[], 5, 4_096),
            "The server did other work as well: it evicted 5 keys; 4096 bytes of its memory are swapped out.",
        ),
        (
            ActivityFlaw::OtherClients(1),
            "1 other client was active on the server during the run.",
        ),
        (
            ActivityFlaw::OtherClients(3),
            "3 other clients were active on the server during the run.",
        ),
        (
            ActivityFlaw::Throttled(throttled),
            "The CPU quota of the server's control group stopped it in 51 of 76 periods: the quota is the server's limit, and the waits are in its tail.",
        ),
    ]);
}

/// Stalls, the longest of which is of this cause.
fn stalls(cause: StallCause, is_in_process: bool) -> FlowFlaw {
    FlowFlaw::Stalls {
        longest: Stall {
            start_ns: 2_400_000_000,
            length_ns: 1_000_000_000,
            in_flight: 9_870,
            cause: cause.clone(),
            ..Stall::default()
        },
        is_in_process,
        count: 1,
        total_ns: 1_000_000_000,
        share: 0.16,
        causes: vec![(cause, 1)],
    }
}

#[test]
fn flaws_of_the_course_have_their_figures() {
    let several = match stalls(StallCause::Server, false) {
        FlowFlaw::Stalls { longest, .. } => FlowFlaw::Stalls {
            longest: Stall {
                in_flight: 1,
                round: 2,
                ..longest
            },
            is_in_process: false,
            count: 2,
            total_ns: 50_000_000,
            share: 0.0083,
            causes: vec![(StallCause::Server, 1), (StallCause::Host, 1)],
        },
        other => other,
    };
    let pauses = CpuPauses {
        cpus: 2,
        real_time: true,
        count: 30,
        total_ns: 60_000_000,
        longest_ns: 25_000_000,
        ..CpuPauses::default()
    };
    let steal = |stolen, paused| FlowFlaw::Steal { stolen, paused };
    let slow = |slow, echo| {
        let rounds = 24;
        FlowFlaw::SlowRounds(SlowRounds {
            slow,
            rounds,
            echo,
            cpu: 1.3,
        })
    };
    assert_evidence([
        (
            stalls(StallCause::Server, false),
            "No reply arrived for 1.00 s, from 2.40 s into round 1, with 9870 operations in flight: the server did not answer.",
        ),
        (
            several,
            "No reply arrived for 1.00 s, from 2.40 s into round 3, with 1 operation in flight: the server did not answer. In total, 2 stalls took 50.0 ms (0.83 % of the time); by cause: 1 server, 1 host.",
        ),
        (
            steal(Some(0.04), None),
            "The host took 4 % of the CPU time (steal).",
        ),
        (
            steal(Some(0.04), Some((pauses, 0.005))),
            "The host took 4 % of the CPU time (steal). CPUs of this machine did not run 0.50 % of the time: 30 pauses, the longest 25.0 ms.",
        ),
        (
            slow(5, Some(1.4)),
            "The machine was slow in 5 of 24 rounds: an echo took up to 1.40x its best and an operation took up to 1.30x the CPU time of the best round.",
        ),
        (
            slow(24, None),
            "The machine was slow in 24 of 24 rounds: an operation took up to 1.30x the CPU time of the best round.",
        ),
        (
            FlowFlaw::SlowerThanBaseline {
                runs: 2,
                echo: 1.4,
                cpu: 1.3,
            },
            "The machine was slower than in the best of the 2 runs of the baseline: an echo took 1.40x and an operation 1.30x the CPU time.",
        ),
    ]);
}

#[test]
fn stall_names_its_cause_and_advice_of_that_cause() {
    for (cause, because, advised) in [
        (StallCause::Server, "the server did not answer", "SLOWLOG"),
        (
            StallCause::Generator,
            "the generator did not run",
            "Add --threads",
        ),
        (
            StallCause::Host,
            "the host took a CPU",
            "CPUs that the host does not share",
        ),
        (
            StallCause::Contention,
            "other programs had the CPU",
            "Stop other programs",
        ),
        (
            StallCause::Quota,
            "control group stopped it",
            "more CPU time",
        ),
        (
            StallCause::ServerOrPath,
            "or the path to it did not deliver",
            "Run the generator on",
        ),
        (
            "later".into(),
            "the cause is unknown",
            "Run the generator on",
        ),
    ] {
        let flaw = stalls(cause, false);
        let evidence = flow::evidence(&flaw);
        assert!(evidence.contains(because), "{evidence}");
        assert!(flow::advice(&flaw).contains(advised), "{flaw:?}");
    }
}

/// There is no server, and the thread that calls is the generator.
#[test]
fn stall_of_a_call_in_this_process_does_not_name_a_server_or_a_generator() {
    for (cause, what, advised) in [
        (StallCause::Server, "the call itself", "a checkpoint"),
        (StallCause::Generator, "waited for a CPU", "other programs"),
    ] {
        let (evidence, advice) = told(&stalls(cause, true).into());
        let text = format!("{evidence} {advice}");
        assert!(text.starts_with("No call returned for"), "{text}");
        assert!(text.contains(what) && text.contains(advised), "{text}");
        assert!(
            !text.contains("server") && !text.contains("enerator"),
            "{text}"
        );
    }
}

#[test]
fn flaws_of_a_machine_have_their_figures() {
    let clock = |source: Option<&str>, read_ns| SetupFlaw::SlowClock {
        source: source.map(str::to_owned),
        read_ns,
    };
    assert_evidence([
        (
            SetupFlaw::HugePages,
            "Transparent huge pages are set to always, and the server does not disable them for itself.",
        ),
        (
            SetupFlaw::Governor("powersave".to_owned()),
            "The CPU frequency governor is powersave: an idle CPU starts at a low frequency.",
        ),
        (
            clock(Some("hpet"), None),
            "The clock source is hpet, which is slow to read.",
        ),
        (
            clock(Some("acpi_pm"), Some(900.0)),
            "Reading the clock takes 900 ns (source acpi_pm), above 200 ns.",
        ),
        (
            clock(None, Some(1_240.0)),
            "Reading the clock takes 1240 ns (source unknown), above 200 ns.",
        ),
        (
            SetupFlaw::Autogroup,
            "The scheduler shares CPUs among sessions (autogroup), and server and generator are in different sessions.",
        ),
        (
            SetupFlaw::TooFewCpus {
                cores: 4,
                generator_threads: 2,
                io_threads: 3,
            },
            "Generator (threads: 2) and server (io-threads: 3) share 4 CPUs of one machine.",
        ),
        (
            SetupFlaw::Quota {
                quota_cores: 1.5,
                busy_threads: 3,
            },
            "The control group allows 1.5 CPUs, and 3 threads are busy: the kernel will throttle them.",
        ),
    ]);
}

#[test]
fn flaws_of_settings_have_their_figures() {
    let memory = |used, limit, policy: Option<&str>| SetupFlaw::MemoryLimit {
        used,
        limit,
        policy: policy.map(str::to_owned),
    };
    let watched = |monitors, is_logged| SetupFlaw::Watched {
        monitors,
        is_logged,
    };
    assert_evidence([
        (
            SetupFlaw::SyncOnEveryWrite,
            "The server waits for the disk on every write (appendonly yes, appendfsync always).",
        ),
        (
            memory(1_048_576, 1_048_576, Some("noeviction")),
            "The server uses 1048576 of its limit of 1048576 bytes (100 %), policy noeviction: above the limit, writes are refused.",
        ),
        (
            memory(1_048_576, 1_200_000, None),
            "The server uses 1048576 of its limit of 1200000 bytes (87 %), policy unknown: above the limit, keys are evicted and reads miss.",
        ),
        (
            SetupFlaw::OutputLimit("1024 512 60".to_owned()),
            "The server closes connections with too many unread replies (client-output-buffer-limit normal 1024 512 60).",
        ),
        (
            watched(2, false),
            "The server is being monitored: 2 connections receive every command (MONITOR).",
        ),
        (
            watched(1, true),
            "The server is being monitored: 1 connection receives every command (MONITOR); it logs every command (slowlog-log-slower-than 0).",
        ),
    ]);
}

#[test]
fn flaws_of_the_path_have_their_figures() {
    let link = |release_late_p99_ns| {
        SetupFlaw::LinkOff(Box::new(Link {
            class: "relay".into(),
            overshoot_p50_ns: 120_000,
            overshoot_p99_ns: 400_000,
            release_late_p99_ns,
            scheduling: Some(Scheduling::RealTime),
            ..Link::default()
        }))
    };
    assert_evidence([
        (
            SetupFlaw::Jitter {
                p50_ns: 30_000,
                p99_ns: 450_000,
            },
            "Round trips on an idle connection vary: the median is 30.0 us and the p99 450 us.",
        ),
        (
            SetupFlaw::Distance {
                idle_ns: 600_000,
                server_ns: 1_000,
            },
            "A round trip takes 600 us, of which the server uses 1.00 us: with one operation in flight, the result is mostly the path.",
        ),
        (
            link(None),
            "The link (relay) overshoots by 120 us at p50 and 400 us at p99; above 250 us at p99, the link does not provide the requested latency.",
        ),
        (
            link(Some(50_000)),
            "The link (relay) overshoots by 120 us at p50 and 400 us at p99; above 250 us at p99, the link does not provide the requested latency. Its own thread (real time scheduling) released 50 us late at p99; the rest is the time both ends took to wake up.",
        ),
    ]);
}

#[test]
fn differences_between_nodes_name_their_nodes() {
    let by_node = |groups: &[(&str, &[&str])]| {
        let groups = groups.iter();
        groups
            .map(|(value, nodes)| ((*value).to_owned(), texts(nodes)))
            .collect()
    };
    let node = |name: &str, count| (name.to_owned(), count);
    assert_evidence([
        (
            ClusterFlaw::Versions(by_node(&[("6.2.6", &["b:1"]), ("7.0.15", &["a:1", "c:1"])])),
            "The nodes run different versions: 6.2.6 (b:1) and 7.0.15 (a:1, c:1).",
        ),
        (
            ClusterFlaw::Settings(vec![
                (
                    "save".to_owned(),
                    by_node(&[("", &["a:1", "c:1"]), ("900 1", &["b:1"])]),
                ),
                (
                    "appendonly".to_owned(),
                    by_node(&[("no", &["a:1"]), ("yes", &["b:1"])]),
                ),
            ]),
            "The masters have different settings: save is empty (a:1, c:1) and 900 1 (b:1); appendonly is no (a:1) and yes (b:1).",
        ),
        (
            ClusterFlaw::Slots {
                most: node("b:1", 6_100),
                least: node("a:1", 5_461),
            },
            "The slots are spread unevenly: b:1 serves 6100 and a:1 5461.",
        ),
        (
            ClusterFlaw::Moving(vec![node("a:1", 2), node("b:1", 1)]),
            "Slots are migrating to or from a:1 (2) and b:1 (1).",
        ),
    ]);
}

#[test]
fn flaws_of_a_comparison_of_engines_have_their_figures() {
    let dir = || "/data".to_owned();
    let reads = |live_bytes, spare_memory_bytes, memory_bytes| EnginesFlaw::CachedReads {
        live_bytes,
        spare_memory_bytes,
        memory_bytes,
    };
    let batched = |subject: &str, ratio| Batched {
        subject: subject.to_owned(),
        operation: "put".to_owned(),
        batch: 100,
        ratio,
    };
    let across = |socket_share| EnginesFlaw::AcrossASocket {
        called: texts(&["map", "store"]),
        served: texts(&["redis"]),
        socket_share,
    };
    let file_system = "tmpfs".to_owned();
    assert_evidence([
        (
            EnginesFlaw::InMemory {
                dir: dir(),
                file_system,
            },
            "/data is on tmpfs, which keeps files in memory: the classes interval and always do not measure a disk.",
        ),
        (
            EnginesFlaw::FastSync {
                dir: dir(),
                sync_ns: 5_000,
            },
            "A write with fdatasync in /data takes 5.00 us, which is too fast for a device that keeps data through a power failure: the classes interval and always do not measure a disk.",
        ),
        (
            EnginesFlaw::DebugBuild,
            "Loadline was built without optimization, and the engines in Rust with it; LMDB and Redis are not affected.",
        ),
        (
            reads(1_000, Some(2_000), None),
            "The keys and values (1000 B) fit into the page cache (1.95 KiB of memory to spare): no read waits for the disk.",
        ),
        (
            reads(3_000, Some(2_000), None),
            "The keys and values (2.93 KiB) do not fit into the page cache (1.95 KiB of memory to spare): reads wait for the disk, as often as the cache of each engine misses.",
        ),
        (
            reads(12_300_000, None, Some(256 << 20)),
            "They (11.7 MiB) fit into the cache of each engine that has one (256 MiB) too, which hardly ever misses.",
        ),
        (
            reads(12_300_000, None, Some(3 << 20)),
            "They (11.7 MiB) are 3.91x the budget of the cache of each engine that has one (3 MiB).",
        ),
        (
            across(None),
            "map, store are called in this process, and redis over a socket.",
        ),
        (
            across(Some(0.9)),
            "map, store are called in this process, and redis over a socket. About 90 % of the time of a read on redis is the socket.",
        ),
        (
            EnginesFlaw::BatchBesideSingle(vec![batched("redis", 0.02), batched("store", 0.3)]),
            "Time of a put in batches of 100 over that of a single put: 0.02x on redis, 0.30x on store.",
        ),
    ]);
    let advice = engines::advice(&reads(12_300_000, None, None));
    assert!(advice.contains("--memory 3002KiB makes"), "{advice}");
}

#[test]
fn flaws_of_a_pair_have_their_figures() {
    let slower = |reason| PairFlaw::HitSlowerThanMiss {
        ratio: 2.0,
        at_least: 1.9,
        reason,
    };
    let (errors, ops) = (10_000, 10_000);
    let (hit, miss) = (1_030.0, 5.0);
    let work = |units, duration_ns| Work { units, duration_ns };
    assert_evidence([
        (
            PairFlaw::ArmsDiffer(vec!["pipeline", "value size"]),
            "The two were measured under different conditions: pipeline, value size.",
        ),
        (
            slower(HitReason::Payload { hit, miss }),
            "A hit took 2.00 times as long as a miss (at least 1.90 times): a hit returns 1030 bytes and a miss 5.",
        ),
        (
            slower(HitReason::Errors { errors, ops }),
            "A hit took 2.00 times as long as a miss (at least 1.90 times): 10000 of the 10000 misses were error replies, which the server sends without a lookup.",
        ),
        (
            slower(HitReason::Unknown),
            "A hit took 2.00 times as long as a miss (at least 1.90 times): their replies have similar sizes and none is an error, so the payload does not explain it.",
        ),
        (
            PairFlaw::TimeStaysFlat {
                small: work(10_000, 1_000_000),
                large: work(20_000, 1_020_000),
            },
            "2.0 times the operations (10000 and 20000) took 1.02 times the time.",
        ),
    ]);
}

#[test]
fn flaws_of_several_load_generators_have_their_figures() {
    let one_host = |agents: &[u64], threads, cores| AgentsFlaw::OneHost {
        agents: agents.to_vec(),
        threads,
        cores,
    };
    assert_evidence([
        (
            AgentsFlaw::SlowerRate {
                agent: 1,
                own: 41_000.0,
                others: 66_200.0,
            },
            "Agent 1 was slower than the others: 41.0k operations per second; the median of the others is 66.2k.",
        ),
        (
            AgentsFlaw::SlowerTimes {
                agent: 0,
                own_ns: 130_000.0,
                others_ns: 100_000.0,
            },
            "Agent 0 was slower than the others: its p50 is 130 us; the median of the others is 100 us.",
        ),
        (
            one_host(&[0, 1, 3], 6, Some(2)),
            "Agents 0, 1 and 3 ran on one machine: 6 threads of load generators on 2 CPUs.",
        ),
        (
            one_host(&[0, 2], 2, None),
            "Agents 0 and 2 ran on one machine: 2 threads of load generators on an unknown number of CPUs.",
        ),
        (
            AgentsFlaw::Apart(0.4),
            "The agents measured together for 40 % of the time in which any of them did; rates are operations per second of the latter.",
        ),
        (
            AgentsFlaw::Clock {
                agent: 2,
                bound_ns: 837_000,
                p50_ns: 99_500,
            },
            "The clock of agent 2 is known to 837 us, and the p50 is 99.5 us: agents can start further apart than a response time.",
        ),
    ]);
}

#[test]
fn refusal_becomes_a_finding_that_names_its_rules() {
    let refused = NotExamined::new("redis", "CLIENT LIST", "NOPERM no\u{1b} permission");
    let found = findings([refused.diagnosis()]);
    let finding = &found[0];
    assert_eq!(
        (&finding.rule, finding.scope.as_str()),
        (&Rule::NotExamined, "redis")
    );
    assert_eq!(
        finding.evidence,
        "Not examined: LL010, LL026, because the server refuses CLIENT LIST (NOPERM no permission)."
    );
}
