//! Child programs never outlive the process that wanted them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::util::{Dir, is_running, signal, wait_until};

/// The parent is a shell, killed with the one signal that it cannot do anything about.
#[test]
fn a_child_dies_with_its_killed_parent() {
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

#[test]
fn a_child_whose_parent_is_gone_does_not_start() {
    let dir = Dir::new();
    // The parent of this process is the test, which is not process 1.
    dir.run(&["__child", "--parent", "1", "--", "touch", "started"])
        .failed(69, "has ended");
    assert!(dir.is_empty());
}

#[test]
fn a_child_that_is_no_program_is_reported() {
    let dir = Dir::new();
    let parent = std::process::id().to_string();
    dir.run(&["__child", "--parent", &parent, "--", "/no/such/program"])
        .failed(69, "could not be started");
}
