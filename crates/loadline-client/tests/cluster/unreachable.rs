//! Nodes that cannot be reached: nothing was written, and the errors say so.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use loadline_client::cluster::Builder;
use loadline_client::commands::{get, rpush};

use crate::nodes::runtime;

/// A node that answers the handshake and, if it knows a port, says that the node there serves all slots. If
/// it does not, it hangs up on the question for the map.
fn start_node(serving: Option<u16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream, serving));
        }
    });
    port
}

fn serve(mut stream: TcpStream, serving: Option<u16>) {
    let mut buf = [0; 1 << 12];
    while let Ok(bytes @ 1..) = stream.read(&mut buf) {
        let asked = String::from_utf8_lossy(&buf[..bytes]).into_owned();
        if asked.contains("PING") {
            stream.write_all(b"+PONG\r\n").unwrap();
        }
        if !asked.contains("CLUSTER") {
            continue;
        }
        let Some(port) = serving else { return };
        let info = "cluster_current_epoch:1\r\n";
        let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        let answer = format!("${}\r\n{info}\r\n{slots}", info.len());
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

fn builder(port: u16) -> Builder {
    let url =
        format!("cluster://127.0.0.1:{port}?resp=2&connect_timeout=400ms&response_timeout=1s");
    Builder::from_url(&url).unwrap()
}

#[test]
fn a_cluster_that_cannot_be_opened_has_executed_nothing() {
    let port = start_node(None);
    let blocking = builder(port).open_blocking().map(drop).unwrap_err();
    let shared = runtime()
        .block_on(builder(port).open())
        .map(drop)
        .unwrap_err();
    for error in [blocking, shared] {
        assert!(!error.maybe_executed(), "{error}");
    }
}

/// The only node takes connections and never answers, so each attempt to connect lasts until its limit.
#[test]
fn a_write_to_a_node_that_was_never_reached_has_not_run() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let seed = start_node(Some(silent.local_addr().unwrap().port()));
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
    for error in errors {
        assert!(!error.maybe_executed(), "{error}");
    }
    // It was tried: connections wait to be accepted.
    silent.set_nonblocking(true).unwrap();
    assert!(silent.accept().is_ok());
}
