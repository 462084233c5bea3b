//! Handles whose runtime has ended, and closures that use the connection whose reply they read.

use std::future::Future;
use std::time::Duration;

use loadline_client::commands::{get, incr, set};
use loadline_client::{Error, cmd, pool};
use rustix::process::Signal;

use crate::server::{Redis, runtime};

/// Longer than anything here takes, and shorter than a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a future on a runtime of its own, and fails where it hangs.
fn on_another_runtime<T>(future: impl Future<Output = T>) -> T {
    let finished = runtime().block_on(async { tokio::time::timeout(PATIENCE, future).await });
    finished.expect("the request hangs")
}

#[test]
fn connection_whose_runtime_has_ended_is_closed() {
    let redis = Redis::start();
    let client = redis
        .builder()
        .response_timeout(Some(Duration::from_secs(60)))
        .build();
    let first = runtime();
    let connection = first.block_on(client.multiplexed()).unwrap();
    let mut dedicated = first.block_on(client.dedicated()).unwrap();
    // One request is in flight when the runtime ends.
    redis.signal(Signal::STOP);
    let waiting = connection.clone();
    let mut in_flight = Box::pin(async move { waiting.run(incr("n")).await });
    first.block_on(async {
        let short = Duration::from_millis(50);
        assert!(tokio::time::timeout(short, &mut in_flight).await.is_err());
    });
    drop(first);
    redis.signal(Signal::CONT);
    let error = on_another_runtime(in_flight).unwrap_err();
    assert!(error.maybe_executed(), "it was sent: {error}");
    assert!(!connection.is_connected());
    assert!(!dedicated.is_connected());
    let closed = Error::Closed {
        maybe_executed: false,
    }
    .to_string();
    let error = on_another_runtime(connection.run(set("k", 1))).unwrap_err();
    assert_eq!(error.to_string(), closed);
    let error = on_another_runtime(dedicated.run(set("k", 1))).unwrap_err();
    assert_eq!(error.to_string(), closed);
}

#[test]
fn pool_whose_runtime_has_ended_is_closed() {
    let redis = Redis::start();
    let limits = pool::Limits {
        min: 1,
        max: 1,
        wait: Duration::from_secs(60),
        ..pool::Limits::default()
    };
    let first = runtime();
    let pool = first.block_on(redis.client().pool(limits)).unwrap();
    drop(first);
    let error = on_another_runtime(pool.get()).unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error}");
}

#[test]
fn reader_of_a_reply_may_use_its_connection_but_for_requests() {
    let redis = Redis::start();
    let (done, ended) = std::sync::mpsc::channel();
    let client = redis.client();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let connection = client.multiplexed().await.unwrap();
            connection.run(set("k", "value")).await.unwrap();
            let inner = connection
                .run_with(get::<()>("k"), |reply| {
                    assert_eq!(reply.as_bytes(), Some(&b"value"[..]));
                    assert!(connection.is_connected());
                    assert!(connection.protocol().is_some());
                    assert!(connection.buffer_bytes() > 0);
                    assert_eq!(connection.take_push(), None);
                    // A runtime cannot be entered twice, but a future can be asked by hand.
                    let mut running = std::pin::pin!(connection.run(get::<String>("k")));
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    match running.as_mut().poll(&mut context) {
                        std::task::Poll::Ready(answer) => answer,
                        std::task::Poll::Pending => panic!("it would wait for itself"),
                    }
                })
                .await
                .unwrap();
            assert!(matches!(inner, Err(Error::Usage(_))), "{inner:?}");
            // Another connection is free to be used, and so is this one afterwards.
            let value: String = connection.run(get("k")).await.unwrap();
            assert_eq!(value, "value");
            let _: String = connection.run(cmd("PING")).await.unwrap();
        });
        done.send(()).unwrap();
    });
    assert!(
        ended.recv_timeout(PATIENCE).is_ok(),
        "the closure waits for its own connection"
    );
}

/// Polls a future once, outside of any runtime.
fn error_without_runtime<T>(opening: impl Future<Output = Result<T, Error>>) -> Error {
    let mut opening = std::pin::pin!(opening);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match opening.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => error,
        std::task::Poll::Ready(Ok(_)) => panic!("it needs a runtime"),
        std::task::Poll::Pending => panic!("it waits for a runtime that is not there"),
    }
}

#[test]
fn opening_without_a_runtime_is_an_error() {
    let client = loadline_client::Client::open("redis://localhost:1").unwrap();
    let cluster = loadline_client::cluster::Cluster::open("cluster://localhost:1");
    for error in [
        error_without_runtime(client.multiplexed()),
        error_without_runtime(client.dedicated()),
        error_without_runtime(client.pool(pool::Limits::default())),
        error_without_runtime(client.pubsub()),
        error_without_runtime(client.tracking("")),
        error_without_runtime(cluster),
    ] {
        let text = error.to_string();
        assert!(matches!(error, Error::Usage(_)), "{text}");
        assert!(text.contains("runtime of tokio"), "{text}");
    }
}
