use clap::Parser;

use super::*;
use crate::args::{Cli, Command};
use crate::exit::Exit;

fn resolved(words: &[&str]) -> Result<FailoverPlan, Failure> {
    let cli = Cli::try_parse_from(["loadline", "failover"].iter().chain(words)).unwrap();
    match cli.command {
        Command::Failover(args) => resolve(&args, &Surroundings::of_tests()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn default_is_every_fault_of_one_server_in_less_than_a_minute() {
    for (topology, alone) in [
        ("standalone", true),
        ("replica", false),
        ("sentinel", false),
        ("cluster", false),
        ("embedded", true),
    ] {
        let plan = resolved(&[topology]).unwrap();
        let faults: Vec<&Fault> = plan.trials.iter().map(|trial| &trial.fault).collect();
        let is_left_out = |fault: &&Fault| match fault {
            Fault::Planned => alone,
            Fault::Partition => alone,
            Fault::Lag => topology != "replica",
            fault => NOT_BY_DEFAULT.contains(fault),
        };
        for fault in Fault::ALL.iter().filter(|fault| **fault != Fault::Observed) {
            assert_eq!(faults.contains(&fault), !is_left_out(&fault), "{topology}");
        }
        let estimate = plan.describe().estimate().unwrap();
        assert!(
            estimate.most <= Duration::from_secs(60),
            "{topology}: {estimate:?}"
        );
    }
    let further = |topology| {
        let plan = resolved(&[topology, "--fault", "all"]).unwrap();
        let faults = plan.trials.into_iter().map(|trial| trial.fault);
        faults
            .filter(|fault| NOT_BY_DEFAULT.contains(fault))
            .count()
    };
    // A single server has no replica to lose, and sentinels would act on the master that takes no clients.
    let counts = ["standalone", "replica", "sentinel", "cluster", "embedded"].map(further);
    assert_eq!(counts, [7, 6, 4, 6, 3]);
    // Without the right to mount, it is left out of all faults, and refused by its name.
    let without_mount = |fault| {
        let words = ["loadline", "failover", "--fault", fault];
        let Command::Failover(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let around = Surroundings {
            may_mount: false,
            ..Surroundings::of_tests()
        };
        resolve(&args, &around)
    };
    let plan = without_mount("all").unwrap();
    let full = |trial: &TrialPlan| trial.fault == Fault::FullDisk;
    assert!(!plan.trials.iter().any(full));
    let failure = without_mount("full-disk").unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
    assert!(failure.to_string().contains("CAP_SYS_ADMIN"), "{failure}");
    let plan = resolved(&[]).unwrap();
    assert_eq!((plan.topology.as_str(), plan.rate), ("standalone", 2_000));
    let killed = plan
        .trials
        .iter()
        .filter(|trial| trial.fault == Fault::Kill);
    let classes: Vec<String> = killed.map(|trial| trial.durability.to_string()).collect();
    assert_eq!(classes, ["memory", "interval:1s"]);
}

#[test]
fn rounds_repeat_every_fault_with_another_course_of_faults() {
    let plan = resolved(&["--fault", "cut,reset", "--rounds", "2", "--seed", "1"]).unwrap();
    let faults: Vec<&Fault> = plan.trials.iter().map(|trial| &trial.fault).collect();
    assert_eq!(
        faults,
        [&Fault::Cut, &Fault::Reset, &Fault::Cut, &Fault::Reset]
    );
    let failure = resolved(&["--rounds", "101"]).unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
}

#[test]
fn clients_are_compared_in_five_rounds_unless_they_cannot_take_part() {
    let plan = resolved(&["--client", "loadline,loadline", "--fault", "cut"]).unwrap();
    let drivers: Vec<&str> = plan.clients.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((drivers, plan.trials.len()), (vec!["loadline"], 5));
    assert_eq!((&plan.operations[..], plan.writers), (&[Kind::Incr][..], 1));
    for (words, part) in [
        (
            ["sentinel", "--client", "hiredis"],
            "does not follow `sentinel`",
        ),
        (
            ["replica", "--client", "redis-pie"],
            "unknown driver `redis-pie`",
        ),
        (
            ["embedded", "--client", "redis-py.asyncio"],
            "does not support runs with faults",
        ),
    ] {
        let failure = resolved(&words).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains(part), "{failure}");
    }
    let faults = |topology| {
        let plan = resolved(&[topology, "--client", "loadline", "--rounds", "1"]).unwrap();
        plan.trials
            .into_iter()
            .map(|trial| trial.fault)
            .collect::<Vec<_>>()
    };
    let known = [Fault::Kill, Fault::Stop, Fault::ClientKill, Fault::Planned];
    assert_eq!(
        (faults("sentinel"), faults("cluster")),
        (known.to_vec(), known.to_vec())
    );
    let words = [
        "loadline", "failover", "--client", "loadline", "--rate", "9",
    ];
    assert!(Cli::try_parse_from(words).is_err());
}

#[test]
fn watched_servers_run_already_and_have_no_fault_of_ours() {
    let plan = resolved(&["sentinel://h:1/m", "--watch", "--duration", "9s"]).unwrap();
    let faults: Vec<&Fault> = plan.trials.iter().map(|trial| &trial.fault).collect();
    assert_eq!(faults, [&Fault::Observed]);
    assert_eq!(plan.topology.as_str(), "sentinel://h:1/m");
    assert_eq!(plan.watched().unwrap().to_string(), "sentinel://h:1/m");
    for (words, part) in [
        (&["redis://h"][..], "add --watch"),
        (&["cluster", "--watch"], "`cluster`"),
        (&["embedded", "--watch"], "does not run already"),
        (&["--allow-non-empty"], "only to a TARGET with --watch"),
    ] {
        let failure = resolved(words).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains(part), "{failure}");
    }
    let words = [
        "loadline",
        "failover",
        "redis://h",
        "--watch",
        "--fault",
        "kill",
    ];
    assert!(Cli::try_parse_from(words).is_err());
}

#[test]
fn operations_are_those_that_were_chosen_each_once() {
    let operations = |words: &[&str]| resolved(words).map(|plan| plan.operations);
    assert_eq!(operations(&[]).unwrap(), [Kind::Set, Kind::Incr]);
    let chosen = operations(&["--operations", "xadd,multi,xadd"]);
    assert_eq!(chosen.unwrap(), [Kind::Xadd, Kind::Multi]);
    assert_eq!(operations(&["--operations", "all"]).unwrap(), Kind::ALL);
    // With one request for each write, there is no WATCH.
    let kinds = operations(&["replica", "--wait", "1:1s", "--operations", "all"]).unwrap();
    assert!(!kinds.contains(&Kind::Watch) && kinds.len() == Kind::ALL.len() - 1);
    let refused = operations(&["--operations", "set,get"]).unwrap_err();
    assert_eq!(refused.exit(), Exit::Usage);
}

#[test]
fn history_has_a_file_of_its_own() {
    let refused = resolved(&["--history", "out", "--json", "./out"]).unwrap_err();
    assert_eq!(refused.exit(), Exit::Usage);
    let plan = resolved(&["--history", "-"]).unwrap();
    assert_eq!(plan.history, Some(Output::Stdout));
}

#[test]
fn servers_that_a_fault_left_alone_are_used_again() {
    let goes_on = |words: &[&str]| -> Vec<bool> {
        let plan = resolved(words).unwrap();
        plan.trials.iter().map(|trial| trial.goes_on).collect()
    };
    let cluster = [
        "cluster",
        "--fault",
        "reset,cut,kill,client-kill,planned,stop",
    ];
    assert_eq!(goes_on(&cluster), [false, true, true, false, true, false]);
    let durable = ["--fault", "cut,kill", "--durability", "memory,always"];
    assert_eq!(goes_on(&durable), [false, true, false]);
    // Servers that can be cut off are connected in another way.
    let divided = ["replica", "--fault", "cut,partition,reset,lag"];
    assert_eq!(goes_on(&divided), [false; 4]);
}

#[test]
fn faults_of_the_path_have_a_possible_script_in_the_record() {
    let plan = resolved(&["--fault", "reset,cut,black-hole,kill", "--seed", "9"]).unwrap();
    for trial in &plan.trials {
        assert_eq!(trial.script.is_none(), trial.fault == Fault::Kill);
        if let Some(script) = &trial.script {
            script.check().unwrap();
            assert_eq!((script.seed, script.steps[0].when.first), (9, 1_000));
        }
    }
    assert_eq!(plan.to_json()["fault_scripts"][0]["script"]["seed"], 9);
}

/// Checks that each of these calls is a usage error with its reason.
fn assert_refused<const N: usize>(calls: [(&[&str], &str); N]) {
    for (words, reason) in calls {
        let failure = resolved(words).expect_err(&words.join(" "));
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains(reason), "{words:?}: {failure}");
    }
}

#[test]
fn impossible_failovers_are_refused() {
    assert_refused([
        (&["redis://db"][..], "add --watch to observe an outage"),
        (
            &["sentinels"],
            "expected standalone, replica, sentinel, cluster or embedded",
        ),
        (
            &["embedded", "--fault", "planned"],
            "has no replica that could become the master",
        ),
        (
            &["sentinel", "--fault", "lag"],
            "between a master and its replica alone",
        ),
        (
            &["--fault", "explode"],
            "invalid fault `explode`: expected kill, stop",
        ),
        (
            &["cluster", "--durability", "always"],
            "another one takes over",
        ),
        (&["--durability", "interval:2s"], "only interval:1s"),
        (
            &["--durability", "never"],
            "--durability: invalid durability",
        ),
        (&["embedded", "--server", "redis-server"], "our own server"),
        (&["--rate", "1M"], "at most 100,000"),
        (&["--writers", "1001"], "expected 1 to 1000"),
        (&["--limit", "default"], "add --workload manager"),
        (&["--limit", "p99<1ms"], "reconnect, pool_recovery, outage"),
        (
            &["--limit", "pool_recovery<2s"],
            "no pool without --workload manager",
        ),
        (
            &["--fault", "cut", "--limit", "kill.outage<2s"],
            "unknown fault: expected cut",
        ),
        (&["--duration", "1ms"], "from 100ms to"),
    ]);
}

#[test]
fn waits_reads_and_operations_that_a_topology_cannot_have_are_refused() {
    assert_refused([
        (
            &["--wait", "1:100ms"][..],
            "--wait: `standalone` has no replica",
        ),
        (&["cluster", "--wait", "2:100ms"], "expected 1 replica"),
        (
            &["replica", "--wait", "2:100ms"],
            "invalid value `2:100ms`: expected 1 replica",
        ),
        (
            &["sentinel", "--wait", "0:100ms"],
            "expected 1 to 2 replicas",
        ),
        (&["sentinel", "--wait", "1"], "expected N:T"),
        (&["sentinel", "--wait", "1:0ms"], "from 1ms to"),
        (
            &["embedded", "--min-replicas", "1:2s"],
            "--min-replicas: `embedded` has no replica",
        ),
        (
            &["sentinel", "--min-replicas", "1"],
            "expected N:T, such as 1:2s",
        ),
        (&["sentinel", "--min-replicas", "1:1500ms"], "whole seconds"),
        (
            &["cluster", "--min-replicas", "1:2s"],
            "after `kill`, the new master of `cluster` has too few replicas",
        ),
        (&["replica", "--min-replicas", "1:500ms"], "from 1s to"),
        (&["--reads", "replica"], "`standalone` has no replica"),
        (&["--reads", "all"], "expected master or replica"),
        (
            &["replica", "--operations", "watch", "--wait", "1:1s"],
            "EXEC follows a read",
        ),
    ]);
}

#[test]
fn masters_refuse_writes_without_the_replicas_that_were_asked_for() {
    let words = "cluster --fault partition --min-replicas 1:2s";
    let plan = resolved(&words.split(' ').collect::<Vec<_>>()).unwrap();
    let min = MinReplicas {
        replicas: 1,
        max_lag_ns: 2_000_000_000,
    };
    assert_eq!(plan.min_replicas, Some(min));
    assert_eq!(plan.to_json()["min_replicas"]["replicas"], 1);
    // Sentinels have a second replica for the new master.
    assert!(resolved(&["sentinel", "--min-replicas", "1:2s"]).is_ok());
}

#[test]
fn wait_has_connections_that_it_may_hold_up() {
    let plan = resolved(&["sentinel", "--wait", "2:100ms"]).unwrap();
    let wait = Wait {
        replicas: 2,
        timeout_ns: 100_000_000,
    };
    assert_eq!(plan.wait, Some(wait));
    assert_eq!(plan.pool.map(|pool| (pool.min, pool.max)), Some((2, 10)));
    assert_eq!(plan.to_json()["wait"]["replicas"], 2);
}

#[test]
fn manager_has_a_pool_and_the_limits_of_its_write_up() {
    let plan = resolved(&["--workload", "manager", "--limit", "default"]).unwrap();
    assert_eq!(plan.pool.map(|pool| (pool.min, pool.max)), Some((2, 10)));
    let json = plan.to_json();
    assert_eq!(json["limits"][0], "reconnect<1s");
    assert_eq!(json["limits"][1], "pool_recovery<2s");
}
