//! Child programs never outlive the process that wanted them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use loadline_measure::Record;

use crate::util::{Dir, Ended, is_running, signal, wait_until};

/// The parent is a shell, killed with the one signal that it cannot do anything about.
#[test]
fn child_dies_with_its_killed_parent() {
    let script = format!(
        "{} __child --parent $$ -- sleep 1000 & echo $!; wait",
        env!("CARGO_BIN_EXE_loadline")
    );
    let mut parent = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let child: u32 = line.trim().parse().unwrap();
    // Only once it is the program is it certain that the kernel has been asked.
    wait_until("the child becomes its program", || {
        std::fs::read_to_string(format!("/proc/{child}/comm"))
            .is_ok_and(|name| name.trim() == "sleep")
    });
    assert!(is_running(child));
    signal(parent.id(), "KILL");
    parent.wait().unwrap();
    wait_until("the child ends", || !is_running(child));
}

/// The processes that stand in a directory below `temp`, as the nodes of a cluster do.
pub(crate) fn nodes(temp: &Dir) -> Vec<u32> {
    let temp = temp.path().canonicalize().unwrap();
    let below = |pid: &u32| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        cwd.is_ok_and(|dir| dir.starts_with(&temp))
    };
    let names = std::fs::read_dir("/proc").unwrap();
    let pids = names.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(below).collect()
}

/// A sweep on a cluster of its own, whose temporary files are in `temp`.
fn sweep(dir: &Dir, temp: &Dir) -> Command {
    let words = [
        "modes",
        "spawn-cluster:redis-server",
        "--latency",
        "0",
        "--quiet",
    ];
    let mut command = dir.command(&words);
    command.env("TMPDIR", temp.path()).stderr(Stdio::piped());
    command
}

#[test]
fn killed_run_leaves_neither_nodes_nor_their_directories() {
    let (dir, temp) = (Dir::new(), Dir::new());
    let mut run = sweep(&dir, &temp).spawn().unwrap();
    wait_until("the nodes run", || nodes(&temp).len() == 6);
    let started = nodes(&temp);
    assert!(!temp.is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the nodes end", || {
        !started.iter().any(|pid| is_running(*pid))
    });
    wait_until("their directories are removed", || temp.is_empty());
}

#[test]
fn start_of_a_cluster_ends_with_an_interrupt() {
    let (dir, temp) = (Dir::new(), Dir::new());
    // While the nodes start, while they form the cluster, and in between.
    for started in [1, 3, 6] {
        let run = sweep(&dir, &temp).spawn().unwrap();
        wait_until("the nodes start", || nodes(&temp).len() >= started);
        signal(run.id(), "INT");
        let ended = Ended::of(&["modes"], run.wait_with_output().unwrap());
        // It says so only where the start did not come to its end.
        ended.failed(130, "interrupted while it started. Nothing was measured.");
        assert!(nodes(&temp).is_empty() && temp.is_empty());
    }
}

#[test]
fn run_that_is_interrupted_while_its_cluster_starts_has_a_record_of_nothing() {
    let (dir, temp) = (Dir::new(), Dir::new());
    let words = "run spawn-cluster:redis-server --workload get --quiet --json out.json";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = dir.command(&words);
    let run = command
        .env("TMPDIR", temp.path())
        .stderr(Stdio::piped())
        .spawn();
    let run = run.unwrap();
    wait_until("the nodes start", || nodes(&temp).len() >= 3);
    signal(run.id(), "INT");
    let ended = Ended::of(&words, run.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), ""));
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert!(record.run.cut_short && record.cases.is_empty());
    assert!(temp.is_empty());
}

#[test]
fn only_directories_of_runs_are_tidied_away() {
    let (dir, temp) = (Dir::new(), Dir::new());
    for name in ["loadline-gone", "other"] {
        std::fs::create_dir(temp.path().join(name)).unwrap();
    }
    let tidy = |name: &str| {
        let words = ["__tidy", name];
        let output = dir.command(&words).env("TMPDIR", temp.path()).output();
        Ended::of(&words, output.unwrap())
    };
    let inside = temp.path().join("loadline-gone");
    for name in [
        "other",
        ".",
        "..",
        "/",
        "loadline-gone/..",
        inside.to_str().unwrap(),
    ] {
        tidy(name).failed(64, "not a directory of a run");
    }
    assert!(inside.exists() && temp.path().join("other").exists());
    tidy("loadline-gone").succeeded();
    assert!(!inside.exists() && temp.path().join("other").exists());
    tidy("loadline-gone").succeeded();
}

#[test]
fn child_whose_parent_is_gone_does_not_start() {
    let dir = Dir::new();
    // The parent of this process is the test, which is not process 1.
    dir.run(&["__child", "--parent", "1", "--", "touch", "started"])
        .failed(69, "has ended");
    assert!(dir.is_empty());
}

#[test]
fn child_that_is_no_program_is_reported() {
    let dir = Dir::new();
    let parent = std::process::id().to_string();
    dir.run(&["__child", "--parent", &parent, "--", "/no/such/program"])
        .failed(69, "could not be started");
}
