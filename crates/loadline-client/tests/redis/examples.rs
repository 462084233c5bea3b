//! The examples, each against a server of its own.

#![expect(dead_code, reason = "an example has a main function of its own")]

use loadline_client::commands::{get, mget, pttl, xlen};
use loadline_client::{blocking, cmd};

use crate::server::{Redis, runtime};

#[path = "../../examples/blocking.rs"]
mod blocking_connection;
#[path = "../../examples/pipeline.rs"]
mod pipeline;
#[path = "../../examples/pubsub.rs"]
mod pubsub;
#[path = "../../examples/script.rs"]
mod script;
#[path = "../../examples/stream_group.rs"]
mod stream_group;
/// The tests of certificates run it.
#[cfg(feature = "tls")]
#[path = "../../examples/tls.rs"]
pub(crate) mod tls;
#[path = "../../examples/tokio.rs"]
mod tokio_connection;
#[path = "../../examples/transaction.rs"]
mod transaction;

/// A server, and a connection to look at what an example did.
fn server() -> (Redis, blocking::Connection) {
    let redis = Redis::start();
    let connection = redis.client().blocking().unwrap();
    (redis, connection)
}

#[test]
fn blocking_writes_its_keys() {
    let (redis, mut connection) = server();
    blocking_connection::run(&redis.url()).unwrap();
    let values: Vec<Option<String>> = connection
        .run(mget([
            "example:greeting",
            "example:visits",
            "example:session",
        ]))
        .unwrap();
    let expected = ["hello", "1", "token"].map(|value| Some(value.to_owned()));
    assert_eq!(values, expected);
    assert!(connection.run(pttl("example:session")).unwrap() > 0);
}

#[test]
fn tokio_counts_to_a_hundred() {
    let (redis, mut connection) = server();
    runtime()
        .block_on(tokio_connection::run(&redis.url()))
        .unwrap();
    assert_eq!(connection.run(get::<i64>("example:count")).unwrap(), 100);
}

#[test]
fn pipeline_writes_a_thousand_keys() {
    let (redis, mut connection) = server();
    pipeline::run(&redis.url()).unwrap();
    assert_eq!(connection.run(cmd::<u64>("DBSIZE")).unwrap(), 1002);
}

#[test]
fn transaction_moves_money_and_loses_none() {
    let (redis, mut connection) = server();
    transaction::run(&redis.url()).unwrap();
    let balances: Vec<i64> = connection
        .run(mget(["example:ann", "example:bob"]))
        .unwrap();
    assert_eq!(balances, [20, 100]);
}

#[test]
fn script_takes_from_the_stock() {
    let (redis, mut connection) = server();
    script::run(&redis.url()).unwrap();
    assert_eq!(connection.run(get::<i64>("example:stock")).unwrap(), 4);
}

#[test]
fn pubsub_hears_three_messages() {
    let (redis, _) = server();
    let heard = runtime().block_on(pubsub::run(&redis.url())).unwrap();
    assert_eq!(heard, ["message 1", "message 2", "message 3"]);
}

#[test]
fn stream_group_handles_every_order_once() {
    let (redis, mut connection) = server();
    assert_eq!(
        stream_group::run(&redis.url()).unwrap(),
        ["bread", "cake", "pie"]
    );
    assert_eq!(connection.run(xlen("example:orders")).unwrap(), 3);
    let pending: Vec<loadline_client::OwnedReply> = connection
        .run(cmd("XPENDING").arg(("example:orders", "bakers", "-", "+", 10)))
        .unwrap();
    assert!(pending.is_empty(), "all were acknowledged");
}
