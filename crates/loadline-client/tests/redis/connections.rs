//! Features of connections other than running commands: lent replies, waiting, spinning, pushes and counters.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use loadline_client::commands::*;
use loadline_client::{Error, OwnedReply, Password, atomic, cmd};

use crate::server::{Redis, runtime};

#[test]
fn replies_are_lent_without_a_copy() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(set("k", "value")).unwrap();
    let reply = connection.run_ref(&get::<()>("k")).unwrap();
    assert_eq!(reply.as_bytes(), Some(&b"value"[..]));
    let error = connection.run_ref(&incr("k")).unwrap_err();
    assert!(matches!(error, Error::Server(_)));
    let two = connection.run_ref(&(ping(), ping()));
    assert!(matches!(two, Err(Error::Usage(_))));
    connection.run(ping()).unwrap();
}

#[test]
fn socket_is_given_away_after_the_handshake() {
    let redis = Redis::start_with(&["--requirepass", "secret"]);
    let builder = redis.builder().password(Password::new("secret"));
    let connection = builder.client_name("given").build().blocking().unwrap();
    let mut socket = connection.into_socket().unwrap();
    socket.write_all(b"CLIENT GETNAME\r\n").unwrap();
    let mut reply = [0; 11];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"$5\r\ngiven\r\n");
}

#[test]
fn each_reply_of_a_pipeline_is_lent_in_its_order() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let sets: Vec<_> = (0..1_000).map(|n| set(n, n)).collect();
    connection
        .run(&sets)
        .into_iter()
        .collect::<Result<(), _>>()
        .unwrap();
    let gets: Vec<_> = (0..1_000).map(get::<()>).collect();
    let mut read = Vec::new();
    connection
        .run_each(&gets, |reply| {
            let text = reply.unwrap().as_bytes().unwrap().to_vec();
            read.push(String::from_utf8(text).unwrap().parse::<u32>().unwrap());
        })
        .unwrap();
    assert!(read.into_iter().eq(0..1_000));
    // An error is lent in its place, and so are nil and numbers.
    connection.run(set("text", "no number")).unwrap();
    let mut read = Vec::new();
    connection
        .run_each(&(get::<()>("none"), incr("text"), incr("n")), |reply| {
            read.push(reply.map(|reply| format!("{reply:?}")));
        })
        .unwrap();
    assert_eq!(read[0].as_deref(), Ok("Null"));
    assert_eq!(read[1].as_ref().unwrap_err().code(), "ERR");
    assert_eq!(read[2].as_deref(), Ok("Integer(1)"));
    connection.run(ping()).unwrap();
}

#[test]
fn commands_that_wait_may_take_longer_than_a_reply() {
    let redis = Redis::start();
    let timeout = Some(Duration::from_secs(1));
    let client = redis.builder().response_timeout(timeout).build();
    let wait = Duration::from_millis(1_100);
    let mut connection = client.blocking().unwrap();
    let begun = Instant::now();
    assert_eq!(connection.run(blpop::<String>("l", wait)).unwrap(), None);
    assert!(begun.elapsed() >= wait);
    runtime().block_on(async {
        let shared = client.multiplexed().await.unwrap();
        let refused = shared.run(blpop::<String>("l", wait)).await;
        assert!(matches!(refused, Err(Error::Usage(_))));
        let mut own = client.dedicated().await.unwrap();
        let begun = Instant::now();
        assert_eq!(own.run(blpop::<String>("l", wait)).await.unwrap(), None);
        assert!(begun.elapsed() >= wait);
        shared.run(rpush("l", "x")).await.unwrap();
        let popped = own.run(blpop::<String>("l", Duration::MAX)).await.unwrap();
        assert_eq!(popped, Some(("l".into(), "x".into())));
        own.run(watch("k")).await.unwrap();
        shared.run(set("k", 1)).await.unwrap();
        assert_eq!(own.run(atomic(set("k", 2))).await.unwrap().map(drop), None);
        assert!(own.run(atomic(set("k", 2))).await.unwrap().is_some());
    });
}

#[test]
fn unix_sockets_and_spinning() {
    let redis = Redis::start();
    let url = format!("{}?spin=200us&db=3&client_name=spinner", redis.unix_url());
    let client = loadline_client::Client::open(&url).unwrap();
    let mut connection = client.blocking().unwrap();
    assert_eq!(connection.run(incr("n")).unwrap(), 1);
    let list = connection.run(cmd::<String>("CLIENT LIST")).unwrap();
    assert!(
        list.contains("name=spinner") && list.contains("db=3"),
        "{list}"
    );
    runtime().block_on(async {
        let connection = client.multiplexed().await.unwrap();
        assert_eq!(connection.run(incr("n")).await.unwrap(), 2);
    });
}

#[test]
fn push_messages_come_beside_replies() {
    let redis = Redis::start();
    let client = redis.client();
    let mut other = client.blocking().unwrap();
    let mut connection = client.blocking().unwrap();
    connection
        .run(cmd::<()>("CLIENT TRACKING").arg("ON"))
        .unwrap();
    connection.run(get::<Option<String>>("k")).unwrap();
    other.run(set("k", 1)).unwrap();
    let push = connection
        .wait_push(Duration::from_secs(5))
        .unwrap()
        .unwrap();
    assert!(matches!(push, OwnedReply::Push(_)), "{push:?}");
    assert_eq!(
        connection.wait_push(Duration::from_millis(20)).unwrap(),
        None
    );
    assert_eq!(connection.run(get::<i64>("k")).unwrap(), 1);
}

#[cfg(feature = "metrics")]
#[test]
fn requests_are_counted_by_name() {
    let redis = Redis::start();
    let client = redis.client();
    let mut connection = client.blocking().unwrap();
    connection.run(set("k", "text")).unwrap();
    connection.run_ref(&get::<()>("k")).unwrap();
    connection.run(incr("k")).unwrap_err();
    runtime().block_on(async {
        let shared = client.multiplexed().await.unwrap();
        let (wrong, fine) = shared.run((incr("k"), get::<String>("k"))).await;
        assert!(wrong.is_err() && fine.is_ok());
        shared.run(get::<String>("k")).await.unwrap();
    });
    let seen: Vec<_> = client
        .metrics()
        .snapshot()
        .into_iter()
        .map(|(name, counts)| {
            assert!(counts.response_time.quantile(0.5).unwrap() > Duration::ZERO);
            (name, counts.requests, counts.errors)
        })
        .collect();
    let expected = [
        ("GET", 2, 0),
        ("INCR", 1, 1),
        ("SET", 1, 0),
        ("pipeline", 1, 1),
    ];
    assert_eq!(seen, expected);
}
