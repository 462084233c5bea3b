//! `loadline link`: latency and faults in front of a real server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::redis::Redis;
use crate::util::{Dir, PATIENCE, converse, signal, wait_until};

#[test]
fn commands_fail_as_the_faults_say_and_each_fault_is_printed() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let to = format!("127.0.0.1:{}", redis.port());
    let words = [
        "link",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
        "--latency",
        "10ms",
        "--fault",
        "cut-reply@incr:2",
        "--fault",
        "reply=-LOADING busy@SET:1",
        "--seed",
        "7",
    ];
    let mut process = dir.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let (address, rest) = first
        .strip_prefix("Listening on ")
        .unwrap()
        .split_once(", ")
        .unwrap();
    assert_eq!(rest, format!("forwarding to {to}; seed 7."));

    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut client = connect();
    let sent = Instant::now();
    client
        .write_all(b"INCR k\r\nGET k\r\nINCR k\r\nGET k\r\n")
        .unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert_eq!(received, ":1\r\n$1\r\n1\r\n");
    assert!(sent.elapsed() >= Duration::from_millis(10));
    converse(
        connect(),
        "SET k 9\r\nGET k\r\n",
        "-LOADING busy\r\n$1\r\n2\r\n",
    );

    signal(process.id(), "TERM");
    let mut status = None;
    wait_until("the link ends", || {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    let [cut, reply, sum] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(cut.ends_with("  cut-reply@incr:2"), "{cut}");
    assert!(reply.ends_with("  reply=-LOADING busy@SET:1"), "{reply}");
    assert_eq!(sum, "2 faults in 2 connections.");
}

#[test]
fn links_that_cannot_be_end_with_64_or_69() {
    let dir = Dir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
    let address = taken.1.to_string();
    let link = |listen: &str, fault: &str, code, reason: &str| {
        let words = [
            "link", "--listen", listen, "--to", &address, "--fault", fault,
        ];
        dir.run(&words).failed(code, reason);
    };
    link("127.0.0.1:0", "explode@1s", 64, "expected cut");
    link("127.0.0.1:0", "cut-reply@1s", 64, "only at a message");
    link("127.0.0.1", "freeze@1s", 64, "address");
    link(&address, "freeze@1s", 69, "cannot listen");
}
