//! Servers that send what no server should.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use loadline_client::commands::get;
use loadline_client::{Client, Error};

use crate::server::runtime;

/// Greets, and answers the first request on each connection with these bytes; then it is silent.
fn hostile(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // The thread ends with the process of the test.
        for stream in listener.incoming() {
            let (mut stream, bytes) = (stream.unwrap(), bytes.clone());
            std::thread::spawn(move || {
                let mut buf = [0; 4096];
                let mut answer = &b"%1\r\n+proto\r\n:3\r\n"[..];
                while let Ok(read) = stream.read(&mut buf)
                    && read > 0
                    && stream.write_all(answer).is_ok()
                {
                    answer = &bytes;
                }
            });
        }
    });
    address
}

fn nasty() -> Vec<(&'static str, Vec<u8>)> {
    let mut unending = b"$10737418240\r\n".to_vec();
    unending.resize(4 << 20, b'x');
    vec![
        ("200,000 nested arrays", b"*1\r\n".repeat(200_000)),
        ("a negative length", b"$-5\r\n".to_vec()),
        ("an array of two billion", b"*2000000000\r\n".to_vec()),
        ("a string of 10 GiB", unending),
        (
            "no RESP at all",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        ),
        ("a line without an end", vec![b'+'; 1 << 20]),
        ("nested maps", b"%1\r\n+k\r\n".repeat(100_000)),
        (
            "a map of a huge length",
            b"%9223372036854775807\r\n".to_vec(),
        ),
    ]
}

#[test]
fn hostile_replies_are_errors_and_bounded() {
    for (what, bytes) in nasty() {
        let url = format!("redis://{}?response_timeout=1s", hostile(bytes));
        let client = Client::open(&url).unwrap();
        let mut connection = client.blocking().unwrap();
        let error = connection.run(get::<String>("k")).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{what}: {error}");
        assert!(connection.buffer_bytes() < 1 << 20, "{what}");
        runtime().block_on(async {
            let connection = client.multiplexed().await.unwrap();
            let error = connection.run(get::<String>("k")).await.unwrap_err();
            assert!(matches!(error, Error::Protocol { .. }), "{what}: {error}");
            assert!(connection.buffer_bytes() < 1 << 20, "{what}");
        });
    }
}

#[test]
fn announced_length_reserves_nothing_and_silence_is_a_timeout() {
    // Under the limit, so it is waited for.
    let url = format!(
        "redis://{}?response_timeout=200ms&retry=never",
        hostile(b"$536870912\r\nabc".to_vec())
    );
    let client = Client::open(&url).unwrap();
    let mut connection = client.blocking().unwrap();
    let begun = Instant::now();
    let error = connection.run(get::<String>("k")).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(connection.buffer_bytes() < 64 << 10);
    runtime().block_on(async {
        let connection = client.multiplexed().await.unwrap();
        let error = connection.run(get::<String>("k")).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert!(connection.buffer_bytes() < 64 << 10);
    });
}

#[test]
fn server_that_trickles_is_given_up_in_time() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!(
        "redis://{}?response_timeout=300ms&retry=never",
        listener.local_addr().unwrap()
    );
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buf = [0; 4096];
        assert!(stream.read(&mut buf).unwrap() > 0);
        stream.write_all(b"%1\r\n+proto\r\n:3\r\n").unwrap();
        assert!(stream.read(&mut buf).unwrap() > 0);
        stream.write_all(b"$1000\r\n").unwrap();
        // A byte now and then, each well within the timeout.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut connection = Client::open(&url).unwrap().blocking().unwrap();
    let begun = Instant::now();
    let error = connection.run(get::<String>("k")).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn server_that_hangs_up_on_everyone_is_not_stormed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let (count, counted) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buf = [0; 4096];
            // Fails if the peer has already closed the connection, which does not matter here.
            let _ = stream.read(&mut buf);
            let _ = stream.write_all(b"%1\r\n+proto\r\n:3\r\n");
            if count.send(()).is_err() {
                return;
            }
        }
    });
    let begun = Instant::now();
    let mut attempts = 0;
    runtime().block_on(async {
        let connection = Client::open(&url).unwrap().multiplexed().await.unwrap();
        while attempts < 5 || begun.elapsed() < Duration::from_millis(500) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{attempts} attempts"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
            attempts += counted.try_iter().count();
        }
        drop(connection);
    });
    // The pauses are 12.5 to 25 ms each after the first few.
    let took = begun.elapsed();
    let most = 20 + took.as_millis() as usize / 12;
    assert!(attempts < most, "{attempts} attempts in {took:?}");
}

#[test]
fn server_that_hangs_up_after_each_batch_blocks_no_caller() {
    const CALLERS: usize = 256;
    const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!(
        "redis://{}?response_timeout=20s",
        listener.local_addr().unwrap()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buf = [0; 4096];
            let mut requests = vec![0; CALLERS * REQUEST.len()];
            let asked = stream
                .read(&mut buf)
                .and_then(|_| stream.write_all(b"%1\r\n+proto\r\n:3\r\n"))
                .and_then(|()| stream.read_exact(&mut requests));
            if asked.is_err() {
                // The client is done, and hung up.
                return;
            }
            // The end comes while the first half of the callers asks again and the others still sleep.
            stream.write_all(&b"$1\r\nv\r\n".repeat(CALLERS)).unwrap();
        }
    });
    let begun = Instant::now();
    runtime().block_on(async {
        let connection = Client::open(&url).unwrap().multiplexed().await.unwrap();
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let connection = connection.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        let value: String = connection.run(get("k")).await.unwrap();
                        assert_eq!(value, "v");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
    });
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}
