//! A password goes to the server and nowhere else.

use crate::util::{Dir, Ended};

const PASSWORD: &str = "hunter2-tell-nobody";

#[track_caller]
fn keeps_quiet(ended: &Ended) {
    assert!(
        !ended.stdout.contains(PASSWORD) && !ended.stderr.contains(PASSWORD),
        "{}\n{}\n{}",
        ended.words,
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn no_message_holds_a_password() {
    let dir = Dir::new();
    let url = |rest: &str| format!("redis://ann:{PASSWORD}@{rest}");
    let (good, bad_port, bad_path) = (
        url("127.0.0.1:1"),
        url("127.0.0.1:99999999"),
        url("127.0.0.1:1/x"),
    );
    let (cluster, http) = (
        format!("cluster://ann:{PASSWORD}@a:1,b:2"),
        format!("http://ann:{PASSWORD}@a"),
    );
    let flag = format!("--password={PASSWORD}");
    for words in [
        &["run", &good, "--dry-run"][..],
        &["run", &bad_port],
        &["run", &bad_path],
        &["run", &cluster],
        &["run", &http],
        &["run", "--connections", &good],
        &["run", "--key-dist", &good],
        &["run", "--workload", &good],
        &["run", "--nope", &good],
        &["run", &flag],
        &["report", &good],
        &["serve", "--listen", &good],
        &[&good],
    ] {
        let ended = dir.run(words);
        assert!(!ended.stdout.is_empty() || !ended.stderr.is_empty());
        keeps_quiet(&ended);
    }
}

#[test]
fn password_from_elsewhere_is_not_shown_either() {
    let dir = Dir::new();
    dir.write("secret.txt", PASSWORD);
    let words = [
        "run",
        "redis://127.0.0.1:1",
        "--user",
        "ann",
        "--password-file",
        "secret.txt",
        "--dry-run",
    ];
    let ended = dir.run(&words);
    keeps_quiet(&ended);
    assert!(ended.succeeded().contains("redis://ann:***@127.0.0.1:1"));
    let words = ["run", "redis://127.0.0.1:1", "--dry-run"];
    let ended = Ended::of(
        &words,
        dir.command(&words)
            .env("LOADLINE_REDIS_PASSWORD", PASSWORD)
            .output()
            .unwrap(),
    );
    keeps_quiet(&ended);
    assert!(ended.succeeded().contains("redis://:***@127.0.0.1:1"));
}
