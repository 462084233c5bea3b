//! Rules about comparisons of engines: disks, reads and builds that make the figures misleading.

use super::Severity;
use super::flaw::{Batched, Diagnosis, EnginesFlaw};
use crate::engines::Operation;
use crate::record::{Case, SubjectKind};

/// The shortest credible sync: devices that keep data through a power failure take longer.
const FASTEST_SYNC_NS: u64 = 10_000;
/// File systems that keep their files in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// The facts about a comparison of engines. Values that were not read are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnginesSetup {
    /// The directories of the engines that use files.
    pub places: Vec<Directory>,
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
pub struct Directory {
    /// The directory.
    pub dir: String,
    /// The file system, if known.
    pub file_system: Option<String>,
    /// The median time of a write of 4 KiB with fdatasync, in nanoseconds.
    pub sync_ns: Option<u64>,
}

impl EnginesFlaw {
    fn severity(&self) -> Severity {
        match self {
            Self::InMemory { .. } | Self::FastSync { .. } | Self::DebugBuild => Severity::Critical,
            _ => Severity::Info,
        }
    }
}

/// Applies all rules; the most severe findings come first.
#[must_use]
pub fn examine_engines(setup: &EnginesSetup) -> Vec<Diagnosis> {
    let syncs = setup.places.iter().filter(|_| setup.syncs);
    let mut flaws: Vec<EnginesFlaw> = syncs.filter_map(sync_without_disk).collect();
    let is_debug = setup.is_debug && !setup.called.is_empty();
    let others = [
        is_debug.then_some(EnginesFlaw::DebugBuild),
        cached_reads(setup),
        across_a_socket(setup),
        batch_beside_single(setup),
    ];
    flaws.extend(others.into_iter().flatten());
    flaws.sort_by_key(|flaw| std::cmp::Reverse(flaw.severity()));
    let flaws = flaws.into_iter();
    flaws
        .map(|flaw| Diagnosis::new("", flaw.severity(), flaw))
        .collect()
}

fn sync_without_disk(place: &Directory) -> Option<EnginesFlaw> {
    let dir = place.dir.clone();
    let file_system = place.file_system.clone();
    let in_memory = file_system.filter(|name| IN_MEMORY.contains(&name.as_str()));
    match (in_memory, place.sync_ns) {
        (Some(file_system), _) => Some(EnginesFlaw::InMemory { dir, file_system }),
        (None, Some(sync_ns)) if sync_ns < FASTEST_SYNC_NS => {
            Some(EnginesFlaw::FastSync { dir, sync_ns })
        }
        _ => None,
    }
}

fn cached_reads(setup: &EnginesSetup) -> Option<EnginesFlaw> {
    setup.spare_memory_bytes.or(setup.memory_bytes)?;
    let reads = !setup.places.is_empty() && setup.live_bytes > 0;
    reads.then_some(EnginesFlaw::CachedReads {
        live_bytes: setup.live_bytes,
        spare_memory_bytes: setup.spare_memory_bytes,
        memory_bytes: setup.memory_bytes,
    })
}

fn across_a_socket(setup: &EnginesSetup) -> Option<EnginesFlaw> {
    let has_both = !setup.called.is_empty() && !setup.served.is_empty();
    has_both.then(|| EnginesFlaw::AcrossASocket {
        called: setup.called.clone(),
        served: setup.served.clone(),
        socket_share: setup.socket_share,
    })
}

fn batch_beside_single(setup: &EnginesSetup) -> Option<EnginesFlaw> {
    let first = setup.batched.first()?;
    let same = setup.batched.iter();
    let same = same.filter(|other| other.operation == first.operation);
    Some(EnginesFlaw::BatchBesideSingle(same.cloned().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Flaw, Rule};

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
        let of = |subject: &str, ratio| Batched {
            subject: subject.to_owned(),
            operation: "put".to_owned(),
            batch: 100,
            ratio,
        };
        let beside = vec![of("redis", 0.02), of("store", 0.3)];
        assert_eq!(flaws(&setup), [EnginesFlaw::BatchBesideSingle(beside)]);
        // Another class is another measurement.
        for case in &mut cases[3..] {
            case.scenario.durability = Some("always".to_owned());
        }
        assert_eq!(batched(&cases, &Operation::of_cases(&cases)), []);
    }

    /// The flaws of the setup, whose rules are those of the flaws.
    fn flaws(setup: &EnginesSetup) -> Vec<EnginesFlaw> {
        let found = examine_engines(setup).into_iter();
        let flaws = found.map(|found| match found.flaw {
            Flaw::Engines(flaw) => flaw,
            other => panic!("{other:?}"),
        });
        flaws.collect()
    }

    fn clean() -> EnginesSetup {
        EnginesSetup {
            places: vec![Directory {
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
        let in_memory = EnginesFlaw::InMemory {
            dir: "/data".to_owned(),
            file_system: "tmpfs".to_owned(),
        };
        let fast = EnginesFlaw::FastSync {
            dir: "/data".to_owned(),
            sync_ns: 5_000,
        };
        for (change, flaw) in [
            (
                (|place: &mut Directory| place.file_system = Some("tmpfs".into()))
                    as fn(&mut Directory),
                in_memory,
            ),
            (|place| place.sync_ns = Some(5_000), fast),
        ] {
            let mut setup = clean();
            change(&mut setup.places[0]);
            let found = examine_engines(&setup);
            assert_eq!(found, [Diagnosis::new("", Severity::Critical, flaw)]);
            assert_eq!(found[0].rule(), Rule::SyncWithoutDisk);
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
        let found = examine_engines(&setup);
        assert_eq!(
            found,
            [Diagnosis::new(
                "",
                Severity::Critical,
                EnginesFlaw::DebugBuild
            )]
        );
    }

    #[test]
    fn source_of_reads_is_stated_where_something_is_known_of_memory() {
        let setup = |spare_memory_bytes, memory_bytes| EnginesSetup {
            live_bytes: 1_000,
            spare_memory_bytes,
            memory_bytes,
            ..clean()
        };
        for (spare_memory_bytes, memory_bytes) in
            [(Some(2_000), None), (None, Some(500)), (Some(1), Some(1))]
        {
            let reads = EnginesFlaw::CachedReads {
                live_bytes: 1_000,
                spare_memory_bytes,
                memory_bytes,
            };
            assert_eq!(flaws(&setup(spare_memory_bytes, memory_bytes)), [reads]);
        }
        assert_eq!(flaws(&setup(None, None)), []);
    }

    #[test]
    fn engine_beside_a_server_is_named_with_the_share_of_the_socket() {
        let mut setup = EnginesSetup {
            called: vec!["map".into(), "store".into()],
            served: vec!["redis".into()],
            socket_share: Some(0.9),
            ..clean()
        };
        let across = EnginesFlaw::AcrossASocket {
            called: setup.called.clone(),
            served: setup.served.clone(),
            socket_share: Some(0.9),
        };
        assert_eq!(flaws(&setup), [across]);
        setup.served.clear();
        assert_eq!(flaws(&setup), []);
    }
}
