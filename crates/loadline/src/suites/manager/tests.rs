use std::collections::BTreeSet;
use std::time::Duration;

use clap::Parser;
use loadline_load::pacing::{Pacing, Stop};

use super::*;
use crate::args::{Cli, Command};
use crate::plan::{Case, Plan, Surroundings, resolve};
use crate::spelling::Target;
use crate::suites::ALL;
use crate::workload::Operation;

#[test]
fn suite_has_cases_of_its_own_names_and_spaces() {
    for bundle in &ALL {
        let cases = bundle.definitions();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let spaces: BTreeSet<&str> = cases.iter().map(|case| case.space.as_str()).collect();
        assert_eq!((names.len(), spaces.len()), (cases.len(), cases.len()));
        for case in &cases {
            assert_eq!(case.rules.bundle.map(|own| own.name), Some(bundle.name));
            let compiled = case.compile("loadline:r:s:", case.keys, &case.value_size);
            assert!(!compiled.commands.is_empty(), "{}", case.name);
        }
    }
    assert_eq!(plan("Manager-Classic").cases.len(), CLASSIC.len());
}

#[test]
fn read_and_removed_keys_are_loaded() {
    for case in manager() {
        let reads = case.operations.iter().any(Operation::reads);
        let filled = case.load.is_some() || case.rules.before.is_some();
        assert!(!reads || filled, "{}", case.name);
    }
}

#[test]
fn limits_are_about_cases_that_are_there() {
    for text in LIMITS {
        let limit: loadline_measure::Limit = text.parse().unwrap();
        let concerned = manager()
            .iter()
            .filter(|case| limit.concerns(&case.name))
            .count();
        assert_eq!(concerned, 1, "{text}");
    }
    assert_eq!(MANAGER.limits_of(&["xread"]), ["xread.p99<10ms"]);
    assert_eq!(MANAGER.limits_of(&["connect", "pool_init"]), [""; 0]);
}

fn plan(suite: &str) -> Plan {
    let words = [
        "loadline",
        "run",
        "embedded",
        "--workload",
        suite,
        "--seed",
        "1",
    ];
    let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
        panic!("these are the words of a run")
    };
    let around = Surroundings {
        cores: 8,
        bundles: &ALL,
        ..Surroundings::of_tests()
    };
    resolve(&args, &around).unwrap()
}

fn case<'p>(plan: &'p Plan, name: &str) -> &'p Case {
    plan.cases.iter().find(|case| case.name == name).unwrap()
}

#[test]
fn one_connection_does_one_thing_at_a_time_unless_its_job_says_otherwise() {
    let plan = plan("manager");
    for case in &plan.cases {
        let job = case.workload.rules.job;
        assert_eq!(case.threads, 1);
        assert_eq!(case.connections, job.map_or(1, |job| job.connections()));
        assert_eq!(case.pacing, Pacing::Closed);
    }
    assert_eq!(case(&plan, "pipeline_set").pipeline, 100);
    assert!(case(&plan, "session_get").verify && !case(&plan, "get").verify);
}

#[test]
fn block_ends_where_its_keys_or_ports_do() {
    let plan = plan("manager");
    let second = Stop::after(Duration::from_secs(1));
    for (name, ops) in [
        ("get", None),
        ("del", Some(20_000)),
        ("connect", Some(250)),
        ("pool_init", Some(250)),
    ] {
        let stop = case(&plan, name).bounded(second);
        assert_eq!((stop.ops, stop.duration), (ops, second.duration), "{name}");
    }
    assert_eq!(case(&plan, "del").bounded(Stop::after_ops(9)).ops, Some(9));
    let many = Stop::after_ops(1 << 40);
    assert_eq!(case(&plan, "del").bounded(many).ops, Some(20_000));
}

#[test]
fn embedded_server_runs_every_case() {
    for workload in ["manager", "manager-classic"] {
        let mut plan = plan(workload);
        plan.targets = vec![Target::Embedded, Target::Spawn("redis-server".into())];
        assert_eq!(plan.to_json()["left_out"], serde_json::json!([]));
        assert!(!plan.describe().to_text().contains("left out"));
    }
}
