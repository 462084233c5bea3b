//! Servers that are not the ones to ask: they load their data, or have become replicas.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::{get, incr, set};
use loadline_client::{Client, Error};

use crate::fake::{answer, greet, read, serve};
use crate::server::runtime;

const LOADING: &[u8] = b"-LOADING Redis is loading the dataset in memory\r\n";
const READONLY: &[u8] = b"-READONLY You can't write against a read only replica.\r\n";

/// A server that replies `LOADING` to a number of requests, over all connections.
fn loading(requests: usize) -> Client {
    let left = Arc::new(AtomicUsize::new(requests));
    let address = serve(move |mut stream, _| {
        greet(&mut stream);
        loop {
            let asked = read(&mut stream);
            for _ in asked.iter().filter(|&&byte| byte == b'*') {
                let count = |left: usize| left.checked_sub(1);
                let (most, least) = (Ordering::Relaxed, Ordering::Relaxed);
                let loads = left.fetch_update(most, least, count).is_ok();
                let reply = if loads { LOADING } else { b":7\r\n" };
                if stream.write_all(reply).is_err() {
                    return;
                }
            }
            if asked.is_empty() {
                return;
            }
        }
    });
    // One that goes on loading is given up soon.
    let timeout = if requests == usize::MAX {
        "400ms"
    } else {
        "60s"
    };
    Client::open(&format!("redis://{address}?response_timeout={timeout}")).unwrap()
}

#[test]
fn server_that_loads_its_data_is_waited_for() {
    let mut connection = loading(5).blocking().unwrap();
    // It was not executed before, so that it does not matter that it is a write.
    assert_eq!(connection.run(incr("n")).unwrap(), 7);
    // Nothing of these pipelines is executed four times.
    let mut connection = loading(12).blocking().unwrap();
    let (a, b, c) = connection.run((incr("n"), incr("n"), incr("n")));
    assert_eq!([a, b, c].map(Result::unwrap), [7, 7, 7]);
    assert_eq!(connection.run(incr("n")).unwrap(), 7);
    // A pipeline that was executed in part is not sent again.
    let mut connection = loading(2).blocking().unwrap();
    let (a, b, c) = connection.run((incr("n"), incr("n"), incr("n")));
    for refused in [a, b] {
        let error = refused.unwrap_err();
        assert!(error.is_server_code("LOADING"), "{error}");
    }
    assert_eq!(c.unwrap(), 7);
    assert_eq!(connection.run(incr("n")).unwrap(), 7);
    runtime().block_on(async {
        let connection = loading(12).multiplexed().await.unwrap();
        let requests: Vec<_> = (0..10)
            .map(|_| {
                let connection = connection.clone();
                tokio::spawn(async move { connection.run((incr("n"), incr("n"))).await })
            })
            .collect();
        for request in requests {
            let (first, second) = request.await.unwrap();
            // A pipeline that was executed in part is not sent again.
            let parts = [first, second].map(|part| part.map_err(|error| error.to_string()));
            assert!(
                parts.iter().all(Result::is_ok) || parts[0].is_err(),
                "{parts:?}"
            );
        }
        assert_eq!(connection.run(incr("n")).await.unwrap(), 7);
    });
}

#[test]
fn server_that_goes_on_loading_is_waited_for_as_long_as_the_caller_wants() {
    let begun = Instant::now();
    let mut connection = loading(usize::MAX).blocking().unwrap();
    let error = connection.run(incr("n")).unwrap_err();
    // On a busy machine the time can also end within the last attempt.
    let late = matches!(error, Error::Timeout { .. });
    assert!(late || error.is_server_code("LOADING"), "{error}");
    for error in connection
        .run(&[incr("n"), incr("n")])
        .into_iter()
        .map(Result::unwrap_err)
    {
        let late = matches!(error, Error::Timeout { .. });
        assert!(late || error.is_server_code("LOADING"), "{error}");
    }
    runtime().block_on(async {
        let connection = loading(usize::MAX).multiplexed().await.unwrap();
        let error = connection.run(incr("n")).await.unwrap_err();
        let late = matches!(error, Error::Timeout { .. });
        assert!(late || error.is_server_code("LOADING"), "{error}");
    });
    let took = begun.elapsed();
    assert!(
        took > Duration::from_millis(400) && took < Duration::from_secs(60),
        "{took:?}"
    );
}

/// The first connection is to a server that has become a replica, the others are to its successor.
fn demoted() -> Client {
    let address = serve(|mut stream, number| {
        greet(&mut stream);
        if number == 0 {
            answer(&mut stream, &[READONLY; 10]);
        } else {
            answer(&mut stream, &[&b"+OK\r\n"[..]; 10]);
        }
    });
    Client::open(&format!("redis://{address}")).unwrap()
}

#[test]
fn server_that_has_become_a_replica_is_left() {
    let mut connection = demoted().blocking().unwrap();
    let error = connection.run(set("k", 1)).unwrap_err();
    assert!(error.is_server_code("READONLY"), "{error}");
    connection.run(set("k", 1)).unwrap();
    runtime().block_on(async {
        let connection = demoted().multiplexed().await.unwrap();
        let error = connection.run(set("k", 1)).await.unwrap_err();
        assert!(error.is_server_code("READONLY"), "{error}");
        connection.run(set("k", 1)).await.unwrap();
    });
}

#[test]
fn server_that_stays_a_replica_is_not_left_for_each_write() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = serve(move |mut stream, number| {
        counted.fetch_max(number + 1, Ordering::Relaxed);
        greet(&mut stream);
        answer(&mut stream, &[READONLY; 1000]);
    });
    let client = Client::open(&format!("redis://{address}")).unwrap();
    let mut connection = client.blocking().unwrap();
    let begun = Instant::now();
    for _ in 0..100 {
        let error = connection.run(set("k", 1)).unwrap_err();
        assert!(error.is_server_code("READONLY"), "{error}");
    }
    let most = 2 + begun.elapsed().as_secs() as usize;
    let connections = connections.load(Ordering::Relaxed);
    assert!(connections <= most, "{connections} connections");
}

/// Counts the connections of a subscriber within a time.
fn storm(run: impl FnOnce(&Client)) -> usize {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = serve(move |mut stream, number| {
        counted.fetch_max(number + 1, Ordering::Relaxed);
        greet(&mut stream);
        // It confirms what is asked for, and hangs up.
        if !read(&mut stream).is_empty() {
            let _ = stream.write_all(b">3\r\n+subscribe\r\n$1\r\nc\r\n:1\r\n");
        }
    });
    run(&Client::open(&format!("redis://{address}")).unwrap());
    connections.load(Ordering::Relaxed)
}

#[test]
fn server_that_confirms_and_hangs_up_is_not_stormed_by_subscribers() {
    let blocking = storm(|client| {
        let mut pubsub = client.blocking_pubsub().unwrap();
        pubsub.subscribe("c").unwrap();
        let end = Instant::now() + Duration::from_secs(2);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            pubsub.next(left);
        }
    });
    let tasks = storm(|client| {
        runtime().block_on(async {
            let pubsub = client.pubsub().await.unwrap();
            pubsub.subscribe("c").await.unwrap();
            tokio::time::sleep(Duration::from_secs(2)).await;
        });
    });
    println!("connections within 2 s: blocking {blocking}, tokio {tasks}");
    // The pauses of an outage of 2 s are 12.5 to 25 ms each after the first few.
    assert!((5..400).contains(&blocking), "{blocking}");
    assert!((5..400).contains(&tasks), "{tasks}");
}

#[test]
fn reply_of_many_nils_is_refused_before_it_fills_the_memory() {
    let address = serve(|mut stream, _| {
        greet(&mut stream);
        answer(&mut stream, &[b"*16000000\r\n_\r\n_\r\n"]);
    });
    let client = Client::open(&format!("redis://{address}?retry=never")).unwrap();
    let mut connection = client.blocking().unwrap();
    let error = connection.run(get::<Vec<Option<String>>>("k")).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    runtime().block_on(async {
        let connection = client.multiplexed().await.unwrap();
        let error = connection
            .run(get::<Vec<Option<String>>>("k"))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
    });
}
