//! Allocations of each operation, and memory of a connection. One test, since the allocator counts for the
//! whole process.

#![cfg(feature = "tokio")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use loadline_client::commands::{get, set};
use loadline_client::pubsub::PubSub;
use loadline_client::{Client, blocking, multiplexed};
use loadline_null::{NullServer, Reads};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A value of 64 bytes, the length of what is read.
const VALUE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const BLOCKS: usize = 10;
const OPERATIONS: usize = 100;
/// The most that a connection may hold.
const CONNECTION_BYTES: isize = 12 << 10;

/// Allocations per operation in a block, after some operations to warm up. It is the least of several blocks: a
/// connection that is quiet for a moment gives its buffers back, and the machine can pause at any time.
fn per_operation(mut operation: impl FnMut()) -> f64 {
    let mut block = || {
        let region = Region::new(COUNTED);
        (0..OPERATIONS).for_each(|_| operation());
        in_a_block(&region)
    };
    block();
    (0..BLOCKS).map(|_| block()).fold(f64::INFINITY, f64::min)
}

fn in_a_block(region: &Region<'_, System>) -> f64 {
    let change = region.change();
    (change.allocations + change.reallocations) as f64 / OPERATIONS as f64
}

#[test]
fn operations_allocate_what_they_return_and_nothing_else() {
    // It allocates nothing meanwhile, so it takes the place of a server that is another process.
    let server = NullServer::start(Reads::Sized(Arc::new(AtomicUsize::new(64)))).unwrap();
    let url = format!("redis://{}", server.address().unwrap());
    let client = Client::open(&url).unwrap();
    let mut connection = client.blocking().unwrap();
    let owned = per_operation(|| {
        let value: String = connection.run(get("key")).unwrap();
        assert_eq!(value.len(), 64);
    });
    let borrowed = per_operation(|| {
        let reply = connection.run_ref(&get::<()>("key")).unwrap();
        assert_eq!(reply.as_bytes().map(<[u8]>::len), Some(64));
    });
    let written = per_operation(|| connection.run(set("key", VALUE)).unwrap());
    println!("blocking: {owned} per owned GET, {borrowed} per borrowed GET, {written} per SET");
    assert_eq!((owned, borrowed, written), (1.0, 0.0, 0.0));
    let gets: Vec<_> = (0..10).map(|_| get::<()>("key")).collect();
    let lent = per_operation(|| {
        let mut bytes = 0;
        let read = connection.run_each(&gets, |reply| {
            bytes += reply.unwrap().as_bytes().map_or(0, <[u8]>::len);
        });
        read.unwrap();
        assert_eq!(bytes, 640);
    });
    assert_eq!(lent, 0.0, "per pipeline of 10 whose replies are lent");

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let shared = runtime.block_on(client.multiplexed()).unwrap();
    // Within one task, since entering the runtime allocates by itself.
    let (owned, borrowed, written) = runtime.block_on(async {
        let owned = shared_per_operation(async || {
            let value: String = shared.run(get("key")).await.unwrap();
            assert_eq!(value.len(), 64);
        })
        .await;
        let borrowed = shared_per_operation(async || {
            let bytes = shared
                .run_with(get::<()>("key"), |reply| {
                    reply.as_bytes().map_or(0, <[u8]>::len)
                })
                .await;
            assert_eq!(bytes.unwrap(), 64);
        })
        .await;
        let written = shared_per_operation(async || {
            shared.run(set("key", VALUE)).await.unwrap();
        })
        .await;
        (owned, borrowed, written)
    });
    println!("multiplexed: {owned} per owned GET, {borrowed} per borrowed GET, {written} per SET");
    assert_eq!((owned, borrowed, written), (1.0, 0.0, 0.0));

    let (blocking, multiplexed) = memory(&client, &runtime);
    let subscribing = memory_of_subscribing(&client, &runtime);
    assert!(subscribing > 0, "something else was counted");
    println!(
        "on the heap per connection: blocking {blocking} bytes, multiplexed {multiplexed}, \
         subscribing {subscribing}"
    );
    let most = blocking.max(multiplexed).max(subscribing);
    assert!(most <= CONNECTION_BYTES, "{most} bytes");
}

/// The same for operations of a task.
async fn shared_per_operation(mut operation: impl AsyncFnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for number in 0..=BLOCKS {
        let region = Region::new(COUNTED);
        for _ in 0..OPERATIONS {
            operation().await;
        }
        // The first block is to warm up.
        if number > 0 {
            least = least.min(in_a_block(&region));
        }
    }
    least
}

/// Bytes that were allocated in a region and are still held, for each of ten connections.
fn held(region: &Region<'_, System>) -> isize {
    let change = region.change();
    (change.bytes_allocated as isize - change.bytes_deallocated as isize) / 10
}

/// Bytes that each of ten connections holds on the heap after it was used, and those that the other end
/// holds, which are counted too.
fn memory(client: &Client, runtime: &tokio::runtime::Runtime) -> (isize, isize) {
    let region = Region::new(COUNTED);
    let mut all: Vec<blocking::Connection> = Vec::with_capacity(10);
    for _ in 0..10 {
        let mut connection = client.blocking().unwrap();
        let _: String = connection.run(get("key")).unwrap();
        all.push(connection);
    }
    let blocking = held(&region);
    drop(all);
    let region = Region::new(COUNTED);
    let shared: Vec<multiplexed::Connection> = runtime.block_on(async {
        let mut all = Vec::with_capacity(10);
        for _ in 0..10 {
            let connection = client.multiplexed().await.unwrap();
            let _: String = connection.run(get("key")).await.unwrap();
            all.push(connection);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        all
    });
    let multiplexed = held(&region);
    drop(shared);
    (blocking, multiplexed)
}

/// The same for connections that wait for messages.
fn memory_of_subscribing(client: &Client, runtime: &tokio::runtime::Runtime) -> isize {
    // Tasks give their memory back when they have ended.
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    let region = Region::new(COUNTED);
    let all: Vec<PubSub> = runtime.block_on(async {
        let mut all = Vec::with_capacity(10);
        for _ in 0..10 {
            all.push(client.pubsub().await.unwrap());
        }
        all
    });
    let subscribing = held(&region);
    drop(all);
    subscribing
}
