//! The memory that waiting requests hold. One test, since the allocator counts for the whole process.

#![cfg(feature = "tokio")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use loadline_client::commands::{get, set};
use loadline_client::multiplexed::{Connection, Running};
use loadline_client::{Client, Error, Request};
use loadline_null::{NullServer, Reads};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LIMIT_BYTES: usize = 16 << 20;
/// Requests between two turns of the connection's task.
const BATCH: usize = 100;
const REPLY_BYTES: usize = 4000;

/// Answers the handshake of each connection and nothing after it.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut hello = [0; 4096];
            assert!(stream.read(&mut hello).unwrap() > 0);
            stream.write_all(b"%1\r\n+proto\r\n:3\r\n").unwrap();
            open.push(stream);
        }
    });
    address
}

/// Submits `GET` whose callers do not take the replies until the queue is full. Returns the bytes that are allocated.
async fn fill_with_replies(connection: &Connection) -> f64 {
    let most = 3 * LIMIT_BYTES / REPLY_BYTES;
    let mut callers = Vec::with_capacity(most);
    let region = Region::new(COUNTED);
    while callers.len() < most {
        let mut running = connection.run(get::<String>("key"));
        match submit(&mut running).await {
            None => callers.push(running),
            Some(Error::QueueFull { .. }) => break,
            Some(error) => panic!("{error}"),
        }
        if callers.len() % BATCH == 0 {
            // Its reply follows all others.
            match connection.run(get::<String>("key")).await {
                Ok(_) => {}
                Err(Error::QueueFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let change = region.change();
    change.bytes_allocated as f64 - change.bytes_deallocated as f64
}

/// Polls a request for the first time, which submits it; its error if it was refused.
async fn submit<T: std::fmt::Debug, Q: Request<Output = Result<T, Error>>>(
    running: &mut Running<'_, Q>,
) -> Option<Error> {
    let poll =
        |cx: &mut std::task::Context<'_>| Poll::Ready(std::pin::Pin::new(&mut *running).poll(cx));
    match std::future::poll_fn(poll).await {
        Poll::Pending => None,
        Poll::Ready(replied) => Some(replied.unwrap_err()),
    }
}

/// Submits `SET` until the queue is full. Returns the number of requests and the bytes that are allocated for them.
async fn fill(connection: &Connection, value: &str, callers_wait: bool) -> (usize, f64) {
    // The memory of the callers is not the connection's.
    let mut callers = Vec::with_capacity(LIMIT_BYTES / value.len());
    let region = Region::new(COUNTED);
    for number in 0u64.. {
        let mut running = connection.run(set(number, value));
        match submit(&mut running).await {
            None if callers_wait => callers.push(running),
            None => {}
            Some(Error::QueueFull { .. }) => break,
            Some(error) => panic!("{error}"),
        }
        if number % BATCH as u64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let change = region.change();
    let held = change.bytes_allocated as f64 - change.bytes_deallocated as f64;
    (callers.len(), held)
}

#[test]
fn full_queue_holds_its_limit_in_memory() {
    let url = format!(
        "redis://{}?max_queue_bytes={LIMIT_BYTES}&response_timeout=off",
        silent()
    );
    let client = Client::open(&url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (short, long) = ("x".repeat(64), "x".repeat(10_000));
    for (value, callers_wait) in [(&short, true), (&long, true), (&short, false)] {
        let (requests, held) = runtime.block_on(async {
            let connection = client.multiplexed().await.unwrap();
            fill(&connection, value, callers_wait).await
        });
        let share = held / LIMIT_BYTES as f64;
        println!(
            "values of {} bytes, {requests} callers wait: {held} bytes are held, {share:.2} of the limit",
            value.len()
        );
        assert!((0.8..=1.2).contains(&share), "{share:.2} of the limit");
    }

    let server = NullServer::start(Reads::Sized(Arc::new(AtomicUsize::new(REPLY_BYTES)))).unwrap();
    let address = server.address().unwrap();
    let url = format!("redis://{address}?max_queue_bytes={LIMIT_BYTES}");
    let client = Client::open(&url).unwrap();
    let held = runtime.block_on(async {
        let connection = client.multiplexed().await.unwrap();
        fill_with_replies(&connection).await
    });
    let share = held / LIMIT_BYTES as f64;
    println!("replies that were not taken: {held} bytes are held, {share:.2} of the limit");
    assert!((0.8..=1.2).contains(&share), "{share:.2} of the limit");
}
