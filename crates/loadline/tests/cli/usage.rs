//! Impossible arguments are refused with exit code 64 and a sentence.

use std::process::Stdio;

use crate::util::{Dir, Ended};

#[test]
fn usage_errors_end_with_64() {
    let dir = Dir::new();
    for (words, reason) in [
        (
            &["nonsense"][..],
            "unknown command `nonsense`; the commands are run, ",
        ),
        (&["modse"], "unknown command `modse`; did you mean `modes`?"),
        (&["run", "embeded"], "did you mean `embedded`?"),
        (
            &["run", "--workload", "gte"],
            "unknown workload `gte`; did you mean `get`?",
        ),
        (&["failover", "sentinels"], "invalid topology `sentinels`"),
        (&["baseline"], "needs a command: save, add, show"),
        (&["run", "--nope"], "unknown argument `--nope`"),
        (&["run", "--ops", "-1"], "no value can be negative"),
        (&["run", "localhost:6379"], "write redis://localhost:6379"),
        (&["run", "cluster://"], "write cluster://HOST:PORT"),
        (
            &["run", "--duration", "10"],
            "--duration: invalid duration `10`: expected a number with a unit, such as `250us`, `10ms` or `2s`",
        ),
        (
            &["run", "--ops", "10", "--duration", "1s"],
            "cannot be used with",
        ),
        (
            &["run", "embedded", "--rate", "0"],
            "--rate: invalid rate `0`: expected 1 to",
        ),
        (&["run", "embedded", "--latency", "1h"], "at most"),
        (&["run", "nonsense"], "unknown target; it is redis://"),
        (
            &["run", "embedded", "--workload", "elephant"],
            "getset-70-30",
        ),
        (
            &["run", "embedded", "--command", "FLUSHALL"],
            "not supported in a workload",
        ),
        (
            &["run", "embedded", "--json", "/no/such/directory/x.json"],
            "there is no directory",
        ),
        (&["serve", "--listen", "localhost"], "invalid"),
        (&["serve", "--listen", "0.0.0.0:0"], "--password-file"),
        (&["serve", "--tls-port", "6380"], "--tls-cert-file"),
        (&["serve", "--tls-auth-clients", "no"], "--tls-port"),
    ] {
        dir.run(words).failed(64, reason);
    }
}

#[test]
fn files_that_cannot_be_read_end_with_65() {
    let dir = Dir::new();
    dir.write("bad.toml", "[[command]]\ntemplate = \"FLUSHALL\"\n");
    dir.write("empty", "");
    for (words, reason) in [
        (
            &["run", "embedded", "--workload", "bad.toml"][..],
            "FLUSHALL",
        ),
        (
            &["run", "embedded", "--workload", "missing.toml"],
            "missing.toml",
        ),
        (
            &["run", "redis://localhost", "--password-file", "missing"],
            "missing",
        ),
        (
            &["run", "redis://localhost", "--password-file", "empty"],
            "no password",
        ),
        (&["report", "missing.json"], "missing.json"),
    ] {
        dir.run(words).failed(65, reason);
    }
}

#[test]
fn help_and_version_are_answers() {
    let dir = Dir::new();
    let version = dir.run(&["--version"]).succeeded();
    for part in ["loadline ", "\ncommit: ", "\ntarget: ", "\nfeatures: "] {
        assert!(version.contains(part), "{version}");
    }
    assert_eq!(dir.run(&["-V"]).succeeded().lines().count(), 1);
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef loadline"),
        ("fish", "complete -c loadline"),
    ] {
        let script = dir.run(&["completions", shell]).succeeded();
        assert!(
            script.contains(part) && script.contains("capacity"),
            "{shell}"
        );
    }
    dir.run(&["__man", "."]).succeeded();
    assert!(dir.read("loadline-run.1").contains("ycsb"));
    assert!(!dir.run(&["--help"]).succeeded().contains("__child"));
    for command in [
        "run",
        "capacity",
        "failover",
        "modes",
        "doctor",
        "compare",
        "baseline",
        "gate",
        "prove",
        "report",
        "link",
        "serve",
        "store",
        "completions",
    ] {
        let help = dir.run(&[command, "--help"]).succeeded();
        assert!(help.contains("Examples:"), "{help}");
        assert_eq!(dir.run(&["help", command]).succeeded(), help);
    }
}

/// The record may be all that is left of a long measurement.
#[test]
fn input_file_is_never_overwritten() {
    let dir = Dir::new();
    dir.write("record.json", "{}");
    for words in [
        &["report", "record.json", "--html", "./record.json"][..],
        &[
            "compare",
            "record.json",
            "other.json",
            "--json",
            "record.json",
        ],
        &["gate", "record.json", "--json", "record.json"],
        &[
            "gate",
            "other.json",
            "record.json",
            "--junit",
            "record.json",
        ],
    ] {
        dir.run(words).failed(64, "would be overwritten");
        assert_eq!(dir.read("record.json"), "{}");
    }
    let twice = ["run", "embedded", "--json", "a.json", "--html", "./a.json"];
    dir.run(&twice)
        .failed(64, "cannot both be written to a.json");
}

#[test]
fn help_of_a_command_begins_with_what_the_list_says_of_it() {
    let dir = Dir::new();
    let list = dir.run(&["--help"]).succeeded();
    let commands = list.lines().skip_while(|line| *line != "Commands:").skip(1);
    let mut found = 0;
    for line in commands.take_while(|line| !line.is_empty()) {
        let (command, says) = line.trim().split_once(' ').unwrap();
        if command == "help" {
            continue;
        }
        let help = dir.run(&[command, "--help"]).succeeded();
        assert_eq!(help.lines().next(), Some(says.trim()), "{command}");
        found += 1;
    }
    assert!(found >= 10, "{list}");
}

/// `loadline run --help | true` must end quietly, and not in a panic.
#[test]
fn closed_pipe_is_no_fault() {
    let dir = Dir::new();
    let words = ["run", "--help"];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = dir
        .command(&words)
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let ended = Ended::of(&words, output);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
