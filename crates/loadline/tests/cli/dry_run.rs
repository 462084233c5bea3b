//! `--dry-run` prints the plan and touches nothing.

use std::io::ErrorKind;
use std::net::TcpListener;

use crate::util::Dir;

#[test]
fn dry_run_connects_to_nothing_and_writes_nothing() {
    let dir = Dir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let target = format!("redis://{}", listener.local_addr().unwrap());
    let words = [
        "run",
        &target,
        "embedded",
        "--dry-run",
        "--json",
        "out.json",
        "--html",
        "out.html",
        "--seed",
        "5",
        "--rate",
        "20k",
    ];
    let text = dir.run(&words).succeeded();
    for wanted in [
        target.as_str(),
        "embedded",
        "open loop at 20000",
        "seed 5",
        "getset-70-30",
        "GET {key}",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
    assert_eq!(
        listener.accept().map(drop).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert!(dir.is_empty());
}

#[test]
fn without_a_redis_server_on_path_the_built_in_one_is_measured_alone() {
    let dir = Dir::new();
    let output = dir
        .command(&["run", "--dry-run"])
        .env("PATH", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("embedded") && !text.contains("spawn:"),
        "{text}"
    );
}
