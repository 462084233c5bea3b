//! Requests that are sent again: every example of the table in `docs/delivery.md`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loadline_client::{Client, Error, OwnedReply, RetryPolicy, cmd};

use crate::server::runtime;

const PAGE: &str = include_str!("../../../../docs/delivery.md");

/// A server that hangs up when it gets its first command after the handshake, and answers `OK` to the second.
struct HangsUpOnce {
    url: String,
    commands: Arc<AtomicU32>,
}

impl HangsUpOnce {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}?resp=2", listener.local_addr().unwrap());
        let commands = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&commands);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &counted);
            }
        });
        Self { url, commands }
    }

    /// Waits until the server has got everything, by how often it was asked since the last call.
    fn asked(&self) -> u32 {
        self.commands.swap(0, Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, commands: &AtomicU32) {
    let mut buf = [0; 1 << 12];
    while let Ok(bytes @ 1..) = stream.read(&mut buf) {
        if buf[..bytes].ends_with(b"PING\r\n") {
            stream.write_all(b"+PONG\r\n").unwrap();
            continue;
        }
        if commands.fetch_add(1, Ordering::SeqCst) == 0 {
            return;
        }
        stream.write_all(b"+OK\r\n").unwrap();
    }
}

/// The examples of a cell, each in backticks.
fn examples(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn command(line: &str) -> loadline_client::Cmd<OwnedReply> {
    let mut words = line.split(' ');
    cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>())
}

fn check(server: &HangsUpOnce, line: &str, expected: bool, result: Result<OwnedReply, Error>) {
    let asked = server.asked();
    assert_eq!(asked == 2, expected, "`{line}` was sent {asked} times");
    match result {
        Ok(_) => assert!(expected, "`{line}`"),
        Err(error) => assert!(!expected && error.maybe_executed(), "`{line}`: {error}"),
    }
}

#[test]
fn table_on_idempotent_commands_says_what_is_sent_again() {
    let server = HangsUpOnce::start();
    let client = |policy| {
        let builder = Client::builder().url(&server.url).unwrap();
        builder.retry(policy).build()
    };
    let rows = PAGE
        .split_once("### What `Idempotent` covers")
        .and_then(|(_, rest)| rest.split_once("\n## "))
        .unwrap()
        .0;
    let rows = rows.lines().filter(|line| line.starts_with("| `"));
    let mut checked = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        for (cell, again) in [(cells[2], true), (cells[3], false)] {
            for line in examples(cell) {
                checked += 1;
                for (policy, expected) in [
                    (RetryPolicy::Idempotent, again),
                    (RetryPolicy::ReadOnly, false),
                ] {
                    let mut connection = client(policy).blocking().unwrap();
                    let result = connection.run(command(line));
                    check(&server, line, expected, result);
                }
                let policy = client(RetryPolicy::Idempotent);
                let result = runtime().block_on(async {
                    let connection = policy.multiplexed().await.unwrap();
                    connection.run(command(line)).await
                });
                check(&server, line, again, result);
            }
        }
    }
    println!("{checked} examples");
    assert!(checked > 70, "{checked}");
}
