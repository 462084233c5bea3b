use clap::Parser;

use super::*;
use crate::args::{Cli, Command};
use crate::exit::Exit;

fn around() -> Surroundings {
    Surroundings {
        cores: 2,
        has_redis_server: true,
        password: None,
        may_mount: false,
        memory_bytes: Some(8 << 30),
        entropy: 7,
        bundles: &[],
    }
}

/// A folder with one driver that every machine has, and one that none has.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("shell");
    std::fs::create_dir(&own).unwrap();
    let text = r#"
        language = "Shell"
        command = ["sh", "driver.sh"]
        install = []
        [[client]]
        name = "one"
        modes = ["sync", "pipeline"]
        resp = [2, 3]
        [[client]]
        name = "one.fast"
        modes = ["sync"]
        resp = [3]
        rate = true
        cluster = true
        [[client]]
        name = "absent"
        command = ["no-such-program-anywhere"]
        modes = ["sync"]
        resp = [2]
    "#;
    std::fs::write(own.join("driver.toml"), text).unwrap();
    dir
}

fn resolved(words: &[&str]) -> Result<ClientsPlan, Failure> {
    let dir = folder();
    let cli = Cli::try_parse_from(["loadline", "clients"].iter().chain(words)).unwrap();
    let Command::Clients(args) = cli.command else {
        panic!("{words:?}");
    };
    let args = ClientsArgs {
        drivers: Some(dir.path().to_owned()),
        ..*args
    };
    resolve(&args, known_drivers(&args)?, &around())
}

/// A folder outside the tree, whose clients are measured beside those that are named.
#[test]
fn driver_of_a_folder_is_measured_beside_those_of_the_tree() {
    let own = tempfile::tempdir().unwrap();
    let path = own.path().to_str().unwrap();
    let missing = resolved(&["--driver", path]).unwrap_err();
    assert!(missing.to_string().contains("driver.toml"), "{missing}");
    let write = |name: &str, program: &str| {
        let text = format!(
            "language = \"Shell\"\ncommand = [\"{program}\"]\n[[client]]\nname = \"{name}\"\nmodes = [\"sync\"]\nresp = [2]"
        );
        std::fs::write(own.path().join("driver.toml"), text).unwrap();
    };
    write("mine", "sh");
    let names = |words: &[&str]| {
        let plan = resolved(&[&["--driver", path], words].concat()).unwrap();
        let names = plan.drivers.into_iter().map(|driver| driver.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["one", "one.fast", "mine"]);
    assert_eq!(names(&["--only", "one.fast"]), ["one.fast", "mine"]);
    write("mine", "./no-such-program");
    let missing = resolved(&["--driver", path]).unwrap_err();
    assert_eq!(missing.exit(), Exit::Unavailable);
    assert!(
        missing.to_string().contains("lists what it needs"),
        "{missing}"
    );
    write("one", "sh");
    let twice = resolved(&["--driver", path]).unwrap_err();
    assert!(twice.to_string().contains("another folder has"), "{twice}");
}

/// As the drivers in the tree with the settings that their documentation recommends.
#[test]
fn driver_with_only_runs_with_faults_is_not_timed() {
    let own = tempfile::tempdir().unwrap();
    let path = own.path().to_str().unwrap();
    let text = "language = \"Shell\"\ncommand = [\"sh\"]\n[[client]]\nname = \"mine.recommended\"\nmodes = [\"faults\"]\nresp = [2]";
    std::fs::write(own.path().join("driver.toml"), text).unwrap();
    let plan = |words: &[&str]| resolved(&[&["--driver", path], words].concat());
    let names = |plan: &ClientsPlan| {
        let names = plan.drivers.iter().map(|driver| driver.name.clone());
        names.collect::<Vec<_>>()
    };
    let with = plan(&["embedded", "--rate", "50"]).unwrap();
    assert_eq!(names(&with), ["one.fast", "mine.recommended"]);
    assert_eq!(with.reference, "one.fast");
    let rows = with.ops.iter();
    let mut rows = rows.flat_map(|op| with.drivers.iter().filter(|it| it.modes.contains(&op.mode)));
    assert!(rows.all(|driver| driver.name != "mine.recommended"));
    for words in [
        &["--no-faults"][..],
        &["redis://h"],
        &["spawn-cluster:redis-server"],
    ] {
        let without = plan(words).unwrap();
        assert!(
            !names(&without).contains(&"mine.recommended".to_owned()),
            "{words:?}"
        );
        let sentence = "Left out: mine.recommended has only runs with faults.";
        assert_eq!(without.left_out.last().unwrap(), sentence, "{words:?}");
    }
    let refused = plan(&["--reference", "mine.recommended"]).unwrap_err();
    assert!(
        refused.to_string().contains("only runs with faults"),
        "{refused}"
    );
}

#[test]
fn folder_whose_installation_did_not_end_is_not_installed() {
    let dir = folder();
    let of = || drivers(dir.path()).unwrap().remove(0);
    assert!(of().is_installed());
    let marker = dir.path().join("shell/.install-incomplete");
    std::fs::write(&marker, "").unwrap();
    assert!(!of().is_installed());
    std::fs::remove_file(&marker).unwrap();
    assert!(of().is_installed());
}

#[test]
fn default_plan_has_every_installed_driver() {
    let plan = resolved(&[]).unwrap();
    let names: Vec<&str> = plan
        .drivers
        .iter()
        .map(|driver| driver.name.as_str())
        .collect();
    assert_eq!(names, ["one", "one.fast"]);
    assert_eq!((plan.reference.as_str(), &plan.resp[..]), ("one", &[2][..]));
    assert_eq!(plan.base.cases.len(), 5);
    assert!(plan.left_out[0].contains("absent"), "{:?}", plan.left_out);
    assert!(plan.with_faults);
    assert!(!resolved(&["redis://h"]).unwrap().with_faults);
}

#[test]
fn many_clients_are_compared_within_a_minute_by_default() {
    let many = tempfile::tempdir().unwrap();
    let mut text = String::from("language = \"Shell\"\ncommand = [\"sh\"]\n");
    for number in 0..10 {
        text += &format!(
            "[[client]]\nname = \"client-{number}\"\nmodes = [\"sync\", \"pipeline\", \"multiplexed\", \"faults\"]\nresp = [2]\nconnections = true\n"
        );
    }
    std::fs::write(many.path().join("driver.toml"), text).unwrap();
    let path = many.path().to_str().unwrap();
    let plan = |words: &[&str]| resolved(&[&["--driver", path], words].concat()).unwrap();
    let seconds = |plan: &ClientsPlan| plan.estimate().unwrap().most.as_secs();
    let (usual, whole) = (plan(&[]), plan(&["--thorough"]));
    assert!(seconds(&usual) <= 60, "{}", seconds(&usual));
    assert!(seconds(&whole) > 100, "{}", seconds(&whole));
    let ops: Vec<String> = usual.ops.iter().map(Op::to_string).collect();
    assert_eq!(ops, ["get", "pipeline-100", "multiplexed-64"]);
    assert_eq!(usual.base.cases.len(), 3);
    assert_eq!(
        usual.left_out.last().unwrap(),
        "To answer within a minute, operations are measured for 500ms each and set, pipeline-10, memory per connection and runs with faults are left out; --thorough measures everything."
    );
    assert!(whole.with_faults && whole.ops.len() == 5);
    let asked = plan(&["--ops", "set,get", "--patience", "9s", "--duration", "2s"]);
    assert_eq!((asked.ops.len(), asked.with_faults), (2, true));
    assert_eq!(
        asked.base.cases[0].length,
        Length::Time(Duration::from_secs(2))
    );
}

#[test]
fn impossible_client_plans_are_refused_with_a_sentence() {
    for (words, exit, reason) in [
        (
            &["--only", "nothing"][..],
            Exit::Usage,
            "unknown driver `nothing`",
        ),
        (
            &["--only", "one.fats"],
            Exit::Usage,
            "did you mean `one.fast`?",
        ),
        (&["--only", "absent"], Exit::Unavailable, "not installed"),
        (
            &["--reference", "absent"],
            Exit::Usage,
            "`absent` is not among the drivers that are measured: one",
        ),
        (&["--ops", "del"], Exit::Usage, "expected get, set"),
        (&["ram"], Exit::Usage, "over TCP"),
        (&["rediss://h"], Exit::Usage, "over TCP"),
        (&["clusters://h:1"], Exit::Usage, "over TCP"),
        (
            &["--only", "one", "cluster://h:1"],
            Exit::Usage,
            "one does not support clusters",
        ),
        (
            &["cluster://h:1", "--resp", "3", "--latency", "1ms"],
            Exit::Usage,
            "no link",
        ),
        (
            &["--only", "one", "--rate", "50"],
            Exit::Usage,
            "one does not support a rate",
        ),
        (&["--rate", "2G"], Exit::Usage, "1 to 1000000000"),
        (&["--value-size", "1B..2B"], Exit::Usage, "one size"),
        (&["--keys", "2M"], Exit::Usage, "at most 1000000"),
    ] {
        is_refused(words, exit, reason);
    }
}

/// Asserts that `words` are refused for a reason.
fn is_refused(words: &[&str], exit: Exit, reason: &str) {
    let failure = resolved(words).expect_err(&words.join(" "));
    assert_eq!(failure.exit(), exit, "{words:?}: {failure}");
    let said = failure.to_string();
    assert!(said.contains(reason), "{words:?}: {said}");
    assert!(!said.contains("?."), "{words:?}: {said}");
}

#[test]
fn gate_names_two_rows_that_are_measured() {
    for (words, exit, reason) in [
        (&["--gate", "one.get"][..], Exit::Usage, "invalid gate"),
        (
            &["--gate", "one.get >= 1 * absent.get"],
            Exit::Usage,
            "`absent` is not among the drivers that are measured: one",
        ),
        (
            &["--ops", "get", "--gate", "one.set >= 1 * one.get"],
            Exit::Usage,
            "not measured",
        ),
        (
            &["--gate", "one.fast.pipeline-10 >= 1 * one.get"],
            Exit::Usage,
            "no mode pipeline",
        ),
        (
            &["--gate", "one.fast.get >= 1 * one.get"],
            Exit::Usage,
            "does not have the protocol",
        ),
        (
            &["--resp", "2,3", "--gate", "one.fast.get >= 1 * one.get"],
            Exit::Usage,
            "@2 or",
        ),
        (
            &["--gate", "one.get@3 >= 1 * one.get"],
            Exit::Usage,
            "RESP3",
        ),
    ] {
        is_refused(words, exit, reason);
    }
    let gate = "one.fast.get@3 >= 1.28 * one.get@2";
    let plan = resolved(&["--resp", "2,3", "--gate", gate]).unwrap();
    assert_eq!(plan.gates[0].to_string(), gate);
}

#[test]
fn drivers_without_an_operation_are_left_out_of_it() {
    for words in [&["--rate", "50"][..], &["spawn-cluster:redis-server"]] {
        let plan = resolved(words).unwrap();
        let names = plan.drivers.iter().map(|driver| driver.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["one.fast"], "{words:?}");
        let sentences = plan.left_out.join(" ");
        assert!(sentences.contains("Left out: one do"), "{sentences}");
    }
    let plan = resolved(&["--rate", "50"]).unwrap();
    assert_eq!(plan.rate(), Some(50));
    assert!(
        !resolved(&["spawn-cluster:redis-server"])
            .unwrap()
            .with_faults
    );
}

#[test]
fn call_that_waits_during_a_fault_is_given_the_time_that_was_asked_for() {
    assert_eq!(resolved(&[]).unwrap().patience, Duration::from_secs(8));
    let plan = resolved(&["--patience", "70s"]).unwrap();
    assert_eq!(plan.patience, Duration::from_secs(70));
    for words in ["7s", "2h"] {
        let refused = resolved(&["--patience", words]).unwrap_err();
        assert_eq!(refused.to_string(), "--patience: from 8s to 10m.");
    }
}

#[test]
fn manifests_that_are_not_valid_are_refused() {
    for (text, reason) in [
        ("", "missing field"),
        (
            "language = \"x\"\ncommand = []\n[[client]]\nname = \"a\"\nmodes = [\"sync\"]\nresp = [2]",
            "command is empty",
        ),
        (
            "language = \"x\"\ncommand = [\"x\"]\nclient = []",
            "1 to 64",
        ),
        (
            "language = \"x\"\ncommand = [\"x\"]\n[[client]]\nname = \"a b\"\nmodes = [\"sync\"]\nresp = [2]",
            "letters, digits",
        ),
        (
            "language = \"x\"\ncommand = [\"x\"]\n[[client]]\nname = \"a\"\nmodes = []\nresp = [2]",
            "no modes",
        ),
        (
            "language = \"x\"\ncommand = [\"x\"]\n[[client]]\nname = \"a\"\nmodes = [\"sync\"]\nresp = [4]",
            "`resp` lists",
        ),
        (
            "language = \"x\"\ncommand = [\"x\"]\n[[client]]\nname = \"a\"\nmodes = [\"dance\"]\nresp = [2]",
            "unknown variant",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("driver.toml"), text).unwrap();
        let failure = in_folder(dir.path()).expect_err(text);
        assert_eq!(failure.exit(), Exit::BadFile);
        assert!(failure.to_string().contains(reason), "{failure}");
    }
}

/// Two rows of `one`, one of them with the operation that `one.fast` has as well.
#[test]
fn estimate_counts_rows_and_faults() {
    let words = ["embedded", "--ops", "get,pipeline-10", "--reference", "one"];
    let seconds = |more: &[&str]| {
        let plan = resolved(&[&words, more].concat()).unwrap();
        plan.describe().estimate().unwrap().most.as_secs_f64()
    };
    let row = 0.35 + 0.6 + 1.0 + 0.15;
    let without = seconds(&["--no-faults"]);
    assert!((without - 0.5 - 2.0 * row).abs() < 0.01, "{without}");
    let longer = seconds(&["--no-faults", "--duration", "3s"]);
    assert!((longer - without - 2.0 * 2.0).abs() < 0.01, "{longer}");
    // The patience of 8 s, less what most clients do not use of it.
    assert!((seconds(&[]) - without - 6.8).abs() < 0.01);
}
