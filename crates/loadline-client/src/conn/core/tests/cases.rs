//! Orders of events with one outcome each.

use super::*;

#[test]
fn write_in_flight_fails_and_a_read_is_sent_again() {
    let mut world = ready(RetryPolicy::ReadOnly);
    world.submit(false);
    world.submit(false);
    world.flush(usize::MAX);
    world.break_off(usize::MAX);
    assert_eq!(
        world.callers.keys().collect::<Vec<_>>(),
        [&0],
        "the write has failed"
    );
    world.settle();
    assert_eq!(world.server.executed["0.0"], 2);
    assert_eq!(world.server.executed["1.0"], 1);
}

#[test]
fn write_that_was_not_sent_goes_to_the_next_connection() {
    let mut world = ready(RetryPolicy::Never);
    world.submit(false);
    world.submit(false);
    // All but the last byte of the second, which is a write.
    let outgoing = world.conn.outgoing().unwrap();
    let most = outgoing.bytes().len() - 1;
    world.conn.wrote(outgoing, 0);
    world.flush(most);
    world.break_off(usize::MAX);
    assert_eq!(world.callers.keys().collect::<Vec<_>>(), [&1]);
    world.settle();
    assert_eq!(world.server.executed["1.0"], 1);
}

#[test]
fn read_is_not_sent_again_without_end() {
    let mut world = ready(RetryPolicy::ReadOnly);
    world.submit(false);
    for _ in 0..MOST_TRIES {
        assert_eq!(world.callers.len(), 1);
        world.flush(usize::MAX);
        world.break_off(usize::MAX);
        world.connect();
        exchange(&mut world);
        // The last exchange answered the handshake; the request itself is still in the queue.
    }
    assert!(world.callers.is_empty());
    assert!(world.server.executed["0.0"] <= u32::from(MOST_TRIES));
}

#[test]
fn silent_server_is_given_up_when_a_reply_is_overdue() {
    let mut world = ready(RetryPolicy::ReadOnly);
    world.submit(false);
    world.advance(Duration::ZERO);
    world.flush(usize::MAX);
    assert_eq!(world.conn.next_turn(), Some(world.now + TIMEOUT));
    world.advance(TIMEOUT - Duration::from_millis(1));
    assert!(world.linked);
    world.advance(Duration::from_millis(1));
    assert!(!world.linked, "the connection was kept");
    assert!(world.callers.is_empty(), "the caller still waits");
}

#[test]
fn write_behind_an_overdue_one_fails_with_its_cause() {
    let mut world = ready(RetryPolicy::Never);
    let mut slots = Vec::new();
    let asked = cmd::<i64>("INCR").arg("k");
    for _ in 0..2 {
        let waker = Waker::noop();
        let taken = world.conn.submit(&asked, false, waker, &mut Meter::begin());
        slots.push(taken.unwrap().0);
        world.advance(Duration::ZERO);
        world.flush(usize::MAX);
        world.advance(TIMEOUT / 2);
    }
    let [first, second] = slots[..] else {
        panic!("there are two requests")
    };
    let mut failed = |slot| read(&mut world.conn, slot, Waker::noop(), &asked).unwrap_err();
    let error = failed(first);
    assert!(
        matches!(
            error,
            Error::Timeout {
                maybe_executed: true,
                ..
            }
        ),
        "{error}"
    );
    let error = failed(second);
    assert!(
        matches!(
            error,
            Error::Connection {
                maybe_executed: true,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("earlier request"), "{error}");
}

#[test]
fn quiet_connection_is_asked_and_given_up_without_an_answer() {
    let mut world = ready(RetryPolicy::ReadOnly);
    world.advance(Duration::ZERO);
    assert_eq!(world.conn.next_turn(), Some(world.now + 2 * TIMEOUT));
    world.advance(2 * TIMEOUT);
    world.flush(usize::MAX);
    assert_eq!(world.server.inbox, b"*1\r\n$4\r\nPING\r\n");
    exchange(&mut world);
    world.advance(2 * TIMEOUT);
    assert!(world.linked, "it had answered");
    world.flush(usize::MAX);
    world.advance(TIMEOUT);
    assert!(!world.linked, "it had not answered");
}

#[test]
fn requests_wait_for_a_connection_only_so_long_and_then_did_not_run() {
    let mut world = World::new(RetryPolicy::ReadOnly);
    world.submit(false);
    world.advance(Duration::ZERO);
    world.advance(TIMEOUT / 2);
    world.submit(false);
    world.advance(Duration::ZERO);
    world.advance(TIMEOUT / 2);
    assert_eq!(
        world.callers.keys().collect::<Vec<_>>(),
        [&1],
        "the first has waited long enough"
    );
    world.settle();
    assert!(!world.server.executed.contains_key("0.0"));
    assert_eq!(world.server.executed["1.0"], 1);
}

#[test]
fn request_that_waited_for_the_connection_has_a_quarter_of_its_time_for_the_reply() {
    let instant = Duration::from_millis(1);
    for answers in [true, false] {
        let mut world = World::new(RetryPolicy::Never);
        world.submit(false);
        world.submit(false);
        world.advance(Duration::ZERO);
        world.advance(TIMEOUT - instant);
        world.connect();
        exchange(&mut world);
        world.flush(usize::MAX);
        world.advance(TIMEOUT / 4 - instant);
        assert!(world.linked, "the server had no time to answer");
        if answers {
            exchange(&mut world);
        }
        world.advance(instant);
        assert_eq!((world.linked, world.callers.len()), (answers, 0));
    }
}

#[test]
fn request_cancelled_during_an_outage_is_not_sent() {
    let mut world = World::new(RetryPolicy::ReadOnly);
    world.submit(false);
    world.submit(false);
    world.cancel(0);
    world.settle();
    assert!(!world.server.executed.contains_key("0.0"));
    assert_eq!(world.server.executed["1.0"], 1);
}

#[test]
fn queue_is_bounded_and_says_so() {
    let mut world = World::new(RetryPolicy::ReadOnly);
    let waker = Waker::noop();
    let large = cmd::<()>("SET").arg(("k", "x".repeat(QUEUE_BYTES)));
    assert!(
        world
            .conn
            .submit(&large, false, waker, &mut Meter::begin())
            .is_ok(),
        "one alone may be larger"
    );
    let before = world.conn.out.unanswered();
    let refused = world
        .conn
        .submit(&command(0, 0), false, waker, &mut Meter::begin());
    assert!(matches!(
        refused,
        Err(Error::QueueFull {
            limit_bytes: QUEUE_BYTES
        })
    ));
    assert_eq!(
        world.conn.out.unanswered(),
        before,
        "what was refused left nothing behind"
    );
}

#[test]
fn dedicated_command_is_refused_on_a_shared_connection() {
    let mut world = ready(RetryPolicy::ReadOnly);
    for name in ["BLPOP", "WATCH", "SUBSCRIBE", "MULTI"] {
        let refused = world.conn.submit(
            &cmd::<()>(name).arg("k"),
            false,
            Waker::noop(),
            &mut Meter::begin(),
        );
        assert!(matches!(refused, Err(Error::Usage(_))), "{name}");
    }
    assert!(!world.conn.has_outgoing());
}

#[test]
fn transaction_whose_watch_is_lost_does_not_run() {
    let mut world = ready(RetryPolicy::Idempotent);
    world.conn.shared = false;
    let waker = Waker::noop();
    let (watch, _) = world
        .conn
        .submit(
            &cmd::<String>("WATCH").arg("k"),
            false,
            waker,
            &mut Meter::begin(),
        )
        .unwrap();
    exchange(&mut world);
    let watched = read(&mut world.conn, watch, waker, &cmd::<String>("WATCH"));
    assert!(watched.is_ok());
    world.break_off(0);
    world.connect();
    exchange(&mut world);
    let transaction = crate::atomic(cmd::<()>("SET").arg(("k", 1)));
    let refused = world
        .conn
        .submit(&transaction, false, waker, &mut Meter::begin());
    assert!(matches!(
        refused,
        Err(Error::Connection {
            maybe_executed: false,
            ..
        })
    ));
    assert!(
        world
            .conn
            .submit(&transaction, false, waker, &mut Meter::begin())
            .is_ok(),
        "the next one is a new one"
    );
}

#[test]
fn hostile_bytes_break_the_connection_and_fail_the_request_that_they_answer() {
    for bytes in [
        &b"$-5\r\n"[..],
        b"*2000000000\r\n",
        b"$10737418240\r\n",
        b"!oops\r\n",
        &b"*1\r\n".repeat(200_000),
    ] {
        let mut world = ready(RetryPolicy::ReadOnly);
        world.submit(false);
        world.flush(usize::MAX);
        let mut events = Events::default();
        let broken = world
            .conn
            .receive(bytes, world.now, &mut events)
            .unwrap_err();
        assert!(matches!(broken, Error::Protocol { .. }), "{broken}");
        world.lose(&broken);
        assert!(
            world.callers.is_empty(),
            "the request would bring the same reply again"
        );
        assert!(world.conn.buffer_bytes() < 16 << 10);
    }
}

#[test]
fn unrequested_replies_break_the_connection() {
    let mut world = ready(RetryPolicy::ReadOnly);
    let unasked = world
        .conn
        .receive(b"+OK\r\n", world.now, &mut Events::default());
    assert!(matches!(unasked, Err(Error::Connection { .. })));
    let mut world = ready(RetryPolicy::ReadOnly);
    world.submit(false);
    let early = world
        .conn
        .receive(b"+OK\r\n", world.now, &mut Events::default());
    assert!(
        matches!(early, Err(Error::Connection { .. })),
        "the request was not sent yet"
    );
}

#[test]
fn push_messages_are_delivered_and_answer_no_request() {
    let mut world = ready(RetryPolicy::ReadOnly);
    world.submit(false);
    world.flush(usize::MAX);
    let mut events = Events::default();
    let bytes = b">2\r\n+message\r\n+hello\r\n$3\r\n0.0\r\n";
    for byte in bytes {
        world
            .conn
            .receive(&[*byte], world.now, &mut events)
            .unwrap();
    }
    assert_eq!(events.pushes.len(), 1);
    assert_eq!(events.wake.len(), 1);
}
