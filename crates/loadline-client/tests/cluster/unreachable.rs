//! Nodes that cannot be reached: nothing was written, and the errors say so.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use loadline_client::Error;
use loadline_client::cluster::Builder;
use loadline_client::commands::{get, rpush};

use crate::nodes::runtime;

/// A node that reads what it is sent, and writes what `reply` returns. It hangs up after `None`.
fn start_node(reply: impl FnMut(&str) -> Option<String> + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, reply) = (stream.unwrap(), reply.clone());
            std::thread::spawn(move || serve(stream, reply));
        }
    });
    port
}

fn serve(mut stream: TcpStream, mut reply: impl FnMut(&str) -> Option<String>) {
    let mut buf = [0; 1 << 12];
    while let Ok(bytes @ 1..) = stream.read(&mut buf) {
        let Some(answer) = reply(&String::from_utf8_lossy(&buf[..bytes])) else {
            return;
        };
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

/// The replies of a node that answers the handshake and says that another one serves all slots.
fn naming(host: &str, port: u16) -> impl FnMut(&str) -> Option<String> + Clone + use<> {
    let info = "cluster_current_epoch:1\r\n";
    let len = host.len();
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${len}\r\n{host}\r\n:{port}\r\n");
    let map = format!("${}\r\n{info}\r\n{slots}", info.len());
    move |asked| {
        let pong = if asked.contains("PING") {
            "+PONG\r\n"
        } else {
            ""
        };
        let map = if asked.contains("CLUSTER") { &map } else { "" };
        Some(format!("{pong}{map}"))
    }
}

fn builder(port: u16) -> Builder {
    let url =
        format!("cluster://127.0.0.1:{port}?resp=2&connect_timeout=400ms&response_timeout=1s");
    Builder::from_url(&url).unwrap()
}

#[test]
fn cluster_that_cannot_be_opened_has_executed_nothing() {
    let port = start_node(|asked| asked.contains("PING").then(|| "+PONG\r\n".into()));
    let blocking = builder(port).open_blocking().map(drop).unwrap_err();
    let shared = runtime()
        .block_on(builder(port).open())
        .map(drop)
        .unwrap_err();
    for error in [blocking, shared] {
        assert!(!error.maybe_executed(), "{error}");
    }
}

/// A listener whose queue is full, so that the system drops further attempts to connect.
fn full_listener() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let only = TcpStream::connect(address).unwrap();
    let second = TcpStream::connect_timeout(&address, Duration::from_millis(100));
    assert!(second.is_err(), "the queue is full");
    (listener, only)
}

/// Runs a write, a read and a pipeline on a cluster whose only node is at this address. Returns the errors.
fn check_unreached(host: &'static str, port: u16) -> Vec<Error> {
    let seed = start_node(naming(host, port));
    let mut cluster = builder(seed).open_blocking().unwrap();
    let mut errors = vec![
        cluster.run(rpush("k", "v")).unwrap_err(),
        cluster.run(get::<()>("k")).unwrap_err(),
    ];
    runtime().block_on(async {
        let cluster = builder(seed).open().await.unwrap();
        errors.push(cluster.run(rpush("k", "v")).await.unwrap_err());
        errors.push(cluster.run(get::<()>("k")).await.unwrap_err());
        let pipeline = cluster.run((rpush("k", "v"), rpush("l", "v"))).await;
        errors.extend([pipeline.0.unwrap_err(), pipeline.1.unwrap_err()]);
    });
    for error in &errors {
        assert!(!error.maybe_executed(), "{error}");
    }
    errors
}

/// The name of the node does not resolve, which the last attempt to connect has found out before the deadline.
#[test]
fn error_of_a_node_without_an_address_says_so() {
    for error in check_unreached("nowhere.invalid", 7000) {
        assert!(matches!(error, Error::Connection { .. }), "{error}");
    }
}

/// Each attempt to connect lasts until its limit, and the response timeout cuts off the last one.
#[test]
fn write_to_a_node_that_was_never_reached_has_not_run() {
    let (listener, _only) = full_listener();
    check_unreached("127.0.0.1", listener.local_addr().unwrap().port());
}

/// The node takes connections, and never answers the handshake.
#[test]
fn write_to_a_node_that_never_shakes_hands_has_not_run() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    check_unreached("127.0.0.1", silent.local_addr().unwrap().port());
    silent.set_nonblocking(true).unwrap();
    assert!(silent.accept().is_ok(), "it was tried");
}

/// A map that is asked for until the deadline of a write, since a node does not answer, while the master of the key, which
/// hung up before, takes connections. A write that comes before the question is executed and succeeds.
#[test]
fn write_reported_as_not_executed_is_not_executed_later() {
    let works = Arc::new(AtomicBool::new(false));
    let (wrote, written) = channel();
    let is_up = Arc::clone(&works);
    let master = start_node(move |asked| {
        if !is_up.load(Ordering::Relaxed) {
            return None;
        }
        if asked.contains("RPUSH") {
            wrote.send(asked.contains("late")).unwrap();
        }
        let replies = asked.split("\r\n").map(|word| match word {
            "PING" => "+PONG\r\n",
            "CLUSTER" => "-ERR unknown command\r\n",
            "RPUSH" => ":1\r\n",
            _ => "",
        });
        Some(replies.collect())
    });
    let questions = Arc::new(AtomicU32::new(0));
    let mut map = naming("127.0.0.1", master);
    let seed = start_node(move |asked| {
        if asked.contains("CLUSTER") && questions.fetch_add(1, Ordering::Relaxed) > 0 {
            let works = Arc::clone(&works);
            std::thread::spawn(move || {
                // Meanwhile, the write waits for the map.
                std::thread::sleep(Duration::from_millis(200));
                works.store(true, Ordering::Relaxed);
            });
            return Some(String::new());
        }
        map(asked)
    });
    let url =
        format!("cluster://127.0.0.1:{seed}?resp=2&connect_timeout=9s&response_timeout=500ms");
    let outcome = runtime().block_on(async {
        let cluster = Builder::from_url(&url).unwrap().open().await.unwrap();
        let outcome = cluster.run(rpush("k", "late")).await;
        while cluster.run(rpush("k", "next")).await.is_err() {}
        outcome
    });
    let was_sent = written.try_iter().any(|is_late| is_late);
    if let Err(error) = &outcome {
        assert!(!error.maybe_executed(), "{error}");
    }
    assert_eq!(was_sent, outcome.is_ok(), "{outcome:?}");
}
