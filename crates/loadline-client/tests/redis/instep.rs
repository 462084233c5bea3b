//! A connection that cannot prove that it is in step with its server is closed.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline_client::commands::{echo, get, incr, ping, set};
use loadline_client::{Client, Error, FromReply, OwnedReply, Reply, cmd};

use crate::fake::{answer, greet, read, serve};
use crate::server::{Redis, runtime};

/// Longer than a request that follows at once takes to follow.
const LATER: Duration = Duration::from_millis(20);

#[test]
fn reply_that_comes_unasked_shifts_no_other() {
    let (read_one, one_was_read) = channel();
    let one_was_read = Arc::new(Mutex::new(one_was_read));
    let (written, was_written) = channel();
    let address = serve(move |mut stream, number| {
        greet(&mut stream);
        if number > 0 {
            return answer(&mut stream, &[b"$3\r\nnew\r\n"]);
        }
        read(&mut stream);
        stream.write_all(b"$3\r\none\r\n").unwrap();
        one_was_read.lock().unwrap().recv().unwrap();
        stream.write_all(b"$7\r\nunasked\r\n").unwrap();
        written.send(()).unwrap();
        answer(&mut stream, &[b"$3\r\ntwo\r\n"]);
    });
    let client = Client::open(&format!("redis://{address}")).unwrap();
    let mut connection = client.blocking().unwrap();
    assert_eq!(connection.run(get::<String>("k")).unwrap(), "one");
    read_one.send(()).unwrap();
    was_written.recv().unwrap();
    std::thread::sleep(LATER);
    // Nothing was written to the connection that is out of step, so this one can be sent to the next.
    assert_eq!(connection.run(get::<String>("k")).unwrap(), "new");
}

#[test]
fn surplus_reply_fails_the_request_that_it_came_with() {
    let address = serve(|mut stream, _| {
        greet(&mut stream);
        answer(&mut stream, &[b"$5\r\nstale\r\n$4\r\nreal\r\n", b"+OK\r\n"]);
    });
    let url = format!("redis://{address}?retry=never");
    let mut connection = Client::open(&url).unwrap().blocking().unwrap();
    let error = connection.run(get::<String>("k")).unwrap_err();
    assert!(error.to_string().contains("not asked for"), "{error}");
    assert!(!connection.is_connected());
    let error = connection.run_ref(&get::<()>("k")).unwrap_err();
    assert!(error.to_string().contains("not asked for"), "{error}");
}

#[test]
fn monitor_s_lines_are_not_taken_for_replies() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let mut other = redis.client().blocking().unwrap();
    connection.run(cmd::<()>("MONITOR")).unwrap();
    other.run(set("k", "value")).unwrap();
    let line = connection.wait_push(Duration::from_secs(5)).unwrap();
    let line = match &line {
        Some(OwnedReply::Simple(line)) => String::from_utf8_lossy(line),
        other => panic!("{other:?}"),
    };
    assert!(line.contains("\"SET\""), "{line}");
    other.run(set("k", "value")).unwrap();
    let error = connection.run(get::<String>("k")).unwrap_err();
    assert!(error.to_string().contains("MONITOR"), "{error}");
    assert!(!error.maybe_executed(), "{error}");
    for word in ["a", "b", "c"] {
        assert_eq!(connection.run(echo::<String>(word)).unwrap(), word);
    }
    runtime().block_on(async {
        let mut own = redis.client().dedicated().await.unwrap();
        own.run(cmd::<()>("MONITOR")).await.unwrap();
        let refused = own.run(get::<String>("k")).await.unwrap_err();
        assert!(!refused.maybe_executed(), "{refused}");
    });
}

/// A value whose reader panics.
struct Panics;

impl FromReply for Panics {
    fn from_reply(_: Reply<'_>) -> Result<Self, Error> {
        panic!("the reader of a reply panics, as the test wants it to")
    }
}

#[test]
fn panic_while_replies_are_read_hands_none_of_them_to_the_next_request() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let words = [echo::<String>("a"), echo("b"), echo("c")];
    let mut count = 0;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        connection.run_each(&words, |_| {
            count += 1;
            assert!(
                count < 2,
                "the reader of a reply panics, as the test wants it to"
            );
        })
    }));
    assert!(caught.is_err());
    assert_eq!(connection.run(echo::<String>("next")).unwrap(), "next");
    let pair = (cmd::<Panics>("ECHO").arg("x"), echo::<String>("y"));
    let caught = catch_unwind(AssertUnwindSafe(|| connection.run(pair)));
    assert!(caught.is_err());
    assert_eq!(connection.run(echo::<String>("next")).unwrap(), "next");
    assert_eq!(connection.run(incr("n")).unwrap(), 1);
}

#[test]
fn unwritten_requests_are_never_ambiguous() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(ping()).unwrap();
    for n in 1..=3 {
        redis.ask("CLIENT KILL TYPE normal SKIPME yes");
        std::thread::sleep(LATER);
        // The end of the connection is seen before the write goes to it.
        assert_eq!(connection.run(incr("n")).unwrap(), n);
    }
}

#[test]
fn connection_that_cannot_be_opened_has_executed_nothing() {
    let hangs_up = serve(|mut stream, _| {
        read(&mut stream);
    });
    let client = Client::open(&format!("redis://{hangs_up}?connect_timeout=2s")).unwrap();
    let mut errors = vec![
        client.blocking().unwrap_err(),
        client.blocking_pubsub().unwrap_err(),
    ];
    runtime().block_on(async {
        errors.push(client.multiplexed().await.unwrap_err());
        errors.push(client.dedicated().await.unwrap_err());
        errors.push(client.pubsub().await.unwrap_err());
    });
    for error in errors {
        assert!(!error.maybe_executed(), "{error}");
    }
}

#[test]
fn debug_shows_no_buffer() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(set("k", "hunter2")).unwrap();
    let text = [format!("{connection:?}"), format!("{connection:#?}")].concat();
    let bytes = format!("{:?}", b"hunter2");
    let bytes = bytes.trim_matches(['[', ']']);
    assert!(text.contains("127.0.0.1"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains(bytes), "{text}");
    assert!(text.len() < 1000, "{text}");
    runtime().block_on(async {
        let connection = redis.client().multiplexed().await.unwrap();
        connection.run(set("k", "hunter2")).await.unwrap();
        let running = connection.run(cmd::<String>("GET").arg("k"));
        let text = format!("{connection:?} {running:?}");
        assert!(!text.contains("hunter2") && !text.contains(bytes), "{text}");
        let pubsub = redis.client().pubsub().await.unwrap();
        let text = format!("{pubsub:?} {:?}", redis.client().blocking_pubsub().unwrap());
        assert!(text.len() < 1000, "{text}");
    });
}
