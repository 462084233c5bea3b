//! Sweeps from command lines.

use clap::Parser;
use loadline_link::link::Class;
use loadline_load::values::ValueSize;

use super::cases::DEFAULT_OBJECT_BYTES;
use super::*;
use crate::args::{Cli, Command};
use crate::plan::Placement;

fn plan(words: &[&str]) -> Result<ModesPlan, String> {
    let words = ["loadline", "modes"].iter().chain(words);
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Modes(args) = cli.command else {
        unreachable!("the command is modes")
    };
    let around = Surroundings::of_tests();
    resolve(&args, &around).map_err(|failure| failure.to_string())
}

#[test]
fn cluster_is_called_under_every_latency_and_in_one_slot_on_demand() {
    let plain = plan(&["cluster://a:1,b:2"]).unwrap();
    assert_eq!(plain.latencies, DEFAULT_LATENCIES);
    assert!(plain.splits(Mode::Script).is_some() && plain.splits(Mode::Batch).is_none());
    let tagged = plan(&["spawn-cluster:redis-server", "--hash-tag"]).unwrap();
    assert!(tagged.splits(Mode::Script).is_none());
    assert!(tagged.base.cases[0].prefix("run").contains(":{one}:"));
    let some = plan(&["cluster://a:1", "--mode", "sync,script"]).unwrap();
    assert!(some.splits(Mode::Script).is_some());
    let none = plan(&["cluster://a:1", "--mode", "transaction,script"]).unwrap_err();
    let said = "--mode transaction,script: not possible on cluster://a:1, since its keys are in different slots of the cluster; --hash-tag puts them into one.";
    assert_eq!(none, said);
    let refused = plan(&["redis://a:1", "--hash-tag"]).unwrap_err();
    assert!(refused.contains("is not a cluster"), "{refused}");
}

#[test]
fn default_plan_is_the_whole_sweep() {
    let plan = plan(&[]).unwrap();
    assert_eq!((plan.modes.len(), plan.base.cases.len()), (6, 2));
    assert_eq!(plan.counts, DEFAULT_COUNTS);
    assert_eq!(plan.latencies, DEFAULT_LATENCIES);
    assert!(
        plan.describe().to_text().contains("27.8 h"),
        "{}",
        plan.describe().to_text()
    );
    assert!(plan.estimate().most <= Duration::from_secs(600));
    assert_eq!(plan.base.schedule.placement, Placement::Pinned);
    let text = plan.describe().to_text();
    assert!(
        text.contains("1,000,000 operations in the mode sync"),
        "{text}"
    );
    assert!(
        text.contains("10000, 30000, 100000, compared in 10 rounds"),
        "{text}"
    );
}

/// Only servers started for the sweep are pinned, and a cluster needs more than one CPU.
#[test]
fn server_that_runs_already_and_a_cluster_stay_where_they_are() {
    for target in ["redis://a:1", "cluster://a:1", "spawn-cluster:redis-server"] {
        let placement = plan(&[target]).unwrap().base.schedule.placement;
        assert_eq!(placement, Placement::Free, "{target}");
    }
}

#[test]
fn default_sweep_takes_less_than_three_minutes() {
    let estimate = plan(&["embedded"]).unwrap().estimate();
    assert!(estimate.most <= Duration::from_secs(180), "{estimate:?}");
}

/// With ten milliseconds of latency, a second is enough for a hundred operations one after the other, but not for
/// a thousand, so higher counts are extrapolated.
#[test]
fn estimate_leaves_out_what_will_not_be_measured() {
    let of = |more: &[&str]| {
        let words = [
            "--op",
            "get",
            "--mode",
            "sync",
            "--latency",
            "10ms",
            "--sizes",
            "1",
            "--budget",
            "1s",
        ];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        plan(&words).unwrap()
    };
    let (whole, short) = (of(&[]), of(&["--ops", "100,1k"]));
    let seconds = |plan: &ModesPlan| plan.estimate().most.as_secs_f64();
    assert_eq!(seconds(&whole), seconds(&short));
    assert!(seconds(&of(&["--ops", "100"])) < seconds(&short));
    // Two cells of a second with warm-ups and connections, the server, the link's own 300 round trips, and counting one mode.
    let known = 2.0 + 2.0 * 0.17 + 1.0 + 3.0 + 2.5;
    assert!((seconds(&whole) - known).abs() < 0.3, "{}", seconds(&whole));
    let in_full = "in full, 1,000,000 operations in the mode sync would take 2.8 h alone, so they are extrapolated";
    assert_eq!(whole.extrapolation().as_deref(), Some(in_full));
    assert_eq!(of(&["--ops", "10"]).extrapolation(), None);
}

#[test]
fn each_part_of_the_sweep_can_be_named() {
    let words = [
        "embedded",
        "--mode",
        "sync,batch",
        "--op",
        "set",
        "--ops",
        "1k,100",
        "--latency",
        "1ms",
        "--latency",
        "0",
        "--link",
        "l4",
        "--batch",
        "8",
        "--sizes",
        "16,1,16",
    ];
    let plan = plan(&words).unwrap();
    assert_eq!(plan.modes, [Mode::Sync, Mode::Batch]);
    assert_eq!(plan.counts, [100, 1_000]);
    assert_eq!(plan.latencies, [Duration::ZERO, Duration::from_millis(1)]);
    assert_eq!((plan.batch, plan.base.path.class), (8, Some(Class::L4)));
    assert_eq!(plan.base.cases[0].name, "set");
    assert_eq!(plan.sizes, [1, 16]);
}

#[test]
fn every_operation_is_called_with_every_codec() {
    let plan = plan(&["--op", "get", "--codec", "raw,json,json"]).unwrap();
    let cases: Vec<_> = plan
        .base
        .cases
        .iter()
        .map(|case| {
            (
                case.name.as_str(),
                case.workload.space.as_str(),
                &case.value_size,
            )
        })
        .collect();
    let size = &ValueSize::Fixed(DEFAULT_OBJECT_BYTES);
    assert_eq!(
        cases,
        [("get", "string", size), ("get (json)", "string-json", size)]
    );
}

#[test]
fn other_operations_have_names_and_their_own_keys() {
    let plan = plan(&["--workload", "incr,HGET,smembers"]).unwrap();
    let cases: Vec<_> = plan
        .base
        .cases
        .iter()
        .map(|case| (case.name.as_str(), case.keys))
        .collect();
    assert_eq!(
        cases,
        [("incr", 10_000), ("hget", 10_000), ("smembers", 1_000)]
    );
    assert!(plan.describe().to_text().contains("incr, hget, smembers"));
}

#[test]
fn impossible_sweeps_are_refused() {
    for (words, reason) in [
        (&["ram"][..], "not a server"),
        (&["--latency", "10"], "unit"),
        (&["--latency", "1h"], "at most"),
        (&["--mode", "telepathy"], "telepathy"),
        (&["--ops", "0"], "at least 1"),
        (&["--batch", "1M"], "at most"),
        (&["--sizes", "1,1M"], "at most"),
        (&["--budget", "1ms"], "at least 10ms"),
        (&["--value-size", "1GiB"], "1MiB"),
        (&["--jitter", "1ms", "--link", "netem"], "overtake"),
        (&["--bandwidth", "10"], "a number with a unit"),
        (&["--codec", "xml"], "xml"),
        (&["--codec", "json", "--value-size", "64B"], "at least 192"),
        (
            &["--codec", "json", "--value-size", "1KiB..2KiB"],
            "the same size",
        ),
        (
            &["--codec", "json", "--workload", "incr"],
            "only get and set",
        ),
        (
            &["--workload", "ycsb-a"],
            "one command on one key: get, set",
        ),
        (&["--workload", "mget"], "one command on one key"),
        (
            &["--workload", "nope"],
            "--workload: unknown workload `nope`: expected get, set",
        ),
        (
            &["--workload", "smember"],
            "--workload: unknown workload `smember`; did you mean `smembers`?",
        ),
        (
            &["--workload", "incr", "--mode", "batch"],
            "no command that is incr",
        ),
        (&["--workload", "incr", "--op", "get"], "--op"),
    ] {
        let refusal = plan(words).expect_err("it cannot be");
        assert!(refusal.contains(reason), "{words:?}: {refusal}");
    }
}

#[test]
fn calls_that_do_not_fit_into_memory_are_refused() {
    let large = ["embedded", "--value-size", "1MiB", "--keys", "10"];
    let refused = plan(&large).unwrap_err();
    assert!(refused.contains("at least 9.8 GiB of memory"), "{refused}");
    plan(&[&large[..], &["--sizes", "1,100"]].concat()).unwrap();
    let refused = plan(&["embedded", "--value-size", "2MiB"]).unwrap_err();
    assert!(refused.contains("at most 1MiB"), "{refused}");
    let refused = plan(&["embedded", "--keys", "10G"]).unwrap_err();
    assert!(
        refused.contains("--keys: invalid count `10000000000`: at most"),
        "{refused}"
    );
}

#[test]
fn sweep_uses_the_version_of_the_protocol_that_is_asked_for() {
    for (words, resp) in [(&["embedded"][..], 3), (&["embedded", "--resp", "2"], 2)] {
        let plan = plan(words).unwrap();
        assert_eq!(
            (plan.base.resp(), plan.to_json()["resp"].as_u64()),
            (resp, Some(resp.into()))
        );
        let text = plan.describe().to_text();
        assert!(text.contains(&format!("RESP{resp}, seed ")), "{text}");
    }
}
