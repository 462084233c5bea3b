use super::*;
use crate::record::{RoundSummary, Scenario, Subject, SubjectKind};

fn case(name: &str, workload: &str, class: &str, ns: &[u64]) -> Case {
    let kind = match name {
        "redis" => SubjectKind::SpawnedServer,
        "redis-unix" => SubjectKind::SpawnedOnSocket,
        "store" => SubjectKind::Store,
        "null" => SubjectKind::NullServer,
        "embedded" => SubjectKind::Embedded,
        _ => SubjectKind::Engine,
    };
    let round = |ns: &u64| RoundSummary {
        ops: 1_000,
        duration_ns: ns * 1_000,
        throughput_ops_per_s: 1e9 / *ns as f64,
        ..RoundSummary::default()
    };
    let duration_ns = ns.iter().sum::<u64>() * 1_000;
    let ops = 1_000 * ns.len() as u64;
    Case {
        subject: Subject {
            name: name.into(),
            kind,
            ..Subject::default()
        },
        scenario: Scenario {
            workload: workload.into(),
            durability: Some(class.into()),
            ..Scenario::default()
        },
        ops,
        duration_ns,
        throughput_ops_per_s: ops as f64 / duration_ns as f64 * 1e9,
        rounds: ns.iter().map(round).collect(),
        ..Case::default()
    }
}

fn rounded(ratio: f64) -> f64 {
    (ratio * 1e6).round() / 1e6
}

fn engines(cases: &[Case]) -> Engines {
    Engines {
        operations: Operation::of_cases(cases),
        ..Engines::default()
    }
}

#[test]
fn fastest_engine_leads_each_other_one_of_its_class() {
    let cases = [
        case("store", "put", "process", &[500; 12]),
        case("heed", "put", "process", &[1_500; 12]),
        case("store", "put", "always", &[100_000; 12]),
        case("heed", "put", "always", &[90_000, 120_000].repeat(6)),
        case("map", "put", "memory", &[50; 12]),
    ];
    let engines = engines(&cases);
    let fastest = engines.fastest(&cases, &Operation::Put, false);
    assert_eq!(fastest[..2], engines.fastest(&cases, &Operation::Put, true));
    let Lead::Ahead { next: 1, by } = &fastest[0].lead else {
        panic!("{fastest:?}");
    };
    assert_eq!((fastest[0].case, rounded(by.ratio)), (0, 3.0));
    assert_eq!(
        (fastest[1].case, &fastest[1].lead),
        (2, &Lead::Level(vec![3]))
    );
    assert_eq!((fastest[2].case, &fastest[2].lead), (4, &Lead::Alone));
    assert_eq!(engines.fastest(&cases, &Operation::Get, false), []);
}

/// The null server is a measure of the socket and no engine, however fast it is.
#[test]
fn socket_is_what_the_null_server_takes() {
    let cases = [
        case("redis", "get", "memory", &[50_000; 12]),
        case("redis-unix", "get", "memory", &[30_000; 12]),
        case("null", "get", "memory", &[45_000; 12]),
        case("null", "get", "always", &[5_000; 12]),
        case("store", "get", "memory", &[500; 12]),
    ];
    let share = |place: usize| socket_share(&cases, &cases[place]);
    let socket = Some(SocketShare::Of(0.9));
    assert_eq!((share(0), share(1), share(4)), (socket, None, None));
    assert_eq!(socket_share(&cases[..2], &cases[0]), None);
    let engines = engines(&cases);
    let read = engines.served_read(&cases).unwrap();
    assert_eq!(read, ServedRead { case: 0, socket });
    assert_eq!(engines.socket_share_of_reads(&cases), Some(0.9));
    let fastest = engines.fastest(&cases, &Operation::Get, false);
    assert!(matches!(fastest[0].lead, Lead::Ahead { next: 1, .. }));
}

/// A share of 100 % would say that the server takes no time at all.
#[test]
fn server_as_fast_as_the_null_server_has_no_share() {
    let cases = [
        case("redis", "get", "memory", &[50_000, 46_000].repeat(6)),
        case("null", "get", "memory", &[46_000, 50_000].repeat(6)),
    ];
    let share = socket_share(&cases, &cases[0]);
    assert_eq!(share, Some(SocketShare::Inseparable));
    assert_eq!(engines(&cases).socket_share_of_reads(&cases), None);
}

#[test]
fn claims_are_compared_within_a_class() {
    let cases = [
        case("redis", "put", "memory", &[50_000; 12]),
        case("store", "put", "memory", &[500; 12]),
        case("embedded", "put", "memory", &[40_000; 12]),
        case("null", "put", "memory", &[45_000; 12]),
        case("redis", "put", "always", &[200_000; 12]),
        case("store", "put", "always", &[100_000; 12]),
    ];
    let claims = engines(&cases).claims(&cases);
    let found = claims.iter().map(|claims| {
        let ratio = |claim: &Claim| rounded(claim.by.ratio);
        let ratios = |claims: &[Claim]| claims.iter().map(ratio).collect();
        let (called, served): (Vec<f64>, Vec<f64>) =
            (ratios(&claims.in_process), ratios(&claims.behind_sockets));
        (claims.class, called, served, claims.sockets.len())
    });
    let found: Vec<_> = found.collect();
    assert_eq!(
        found,
        [
            ("memory", vec![100.0], vec![1.25], 1),
            ("always", vec![2.0], vec![], 0)
        ]
    );
}

#[test]
fn lead_below_five_percent_on_disk_is_none() {
    let footprint = |disk: u64, open: u64| Footprint {
        durability: "process".into(),
        live_bytes: 1_000,
        disk_bytes: Some(disk),
        open_ns: Some(open),
        ..Footprint::default()
    };
    let engines = Engines {
        footprints: vec![
            footprint(1_200, 2_000_000),
            footprint(1_210, 500_000),
            footprint(1_900, 900_000),
        ],
        ..Engines::default()
    };
    let least = |footprint, value, level| Least {
        footprint,
        value,
        is_alone: false,
        level,
    };
    assert_eq!(engines.smallest(), [least(0, 1.2, vec![1])]);
    assert_eq!(engines.first_to_open(), [least(1, 500_000.0, vec![])]);
}
