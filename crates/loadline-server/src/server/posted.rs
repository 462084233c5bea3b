//! Messages to many subscribers, which are written in parts.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::rig::{Rig, said};
use super::*;
use crate::pubsub::{MOST_POSTED, PARTS, SMALLEST_PART};

const SUBSCRIBERS: usize = 200;

/// A server with a publisher and subscribers of `news`.
fn with_subscribers() -> (Rig, UnixStream, Vec<UnixStream>) {
    let mut rig = Rig::in_memory();
    let publisher = rig.connect();
    let subscribers = (0..SUBSCRIBERS).map(|_| {
        let mut stream = rig.connect();
        rig.send(&mut stream, "SUBSCRIBE news");
        assert_eq!(
            said(&mut stream),
            "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
        );
        stream
    });
    let subscribers = subscribers.collect();
    (rig, publisher, subscribers)
}

fn message(text: &str) -> String {
    format!(
        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{text}\r\n",
        text.len()
    )
}

fn reply() -> String {
    format!(":{SUBSCRIBERS}\r\n")
}

/// The reply comes before most subscribers have the message. They get all messages, in order.
#[test]
fn reply_does_not_wait_for_all_subscribers() {
    let (mut rig, mut publisher, mut subscribers) = with_subscribers();
    rig.send(&mut publisher, "PUBLISH news 0");
    assert_eq!(said(&mut publisher), reply());
    let mut texts: Vec<String> = subscribers.iter_mut().map(said).collect();
    let reached = texts.iter().filter(|text| **text == message("0")).count();
    assert_eq!(reached, SMALLEST_PART);
    assert_eq!(
        texts.iter().filter(|text| text.is_empty()).count(),
        SUBSCRIBERS - SMALLEST_PART
    );
    let sleep = rig.server.longest_sleep();
    assert_eq!((sleep.tv_sec, sleep.tv_nsec), (0, 0));
    for number in 1..100 {
        rig.send(&mut publisher, &format!("PUBLISH news {number}"));
        assert_eq!(said(&mut publisher), reply());
    }
    for _ in 0..PARTS {
        rig.turn();
    }
    assert_ne!(rig.server.longest_sleep().tv_nsec, 0);
    let expected: String = (0..100)
        .map(|number| message(&number.to_string()))
        .collect();
    for (text, stream) in texts.iter_mut().zip(&mut subscribers) {
        *text += &said(stream);
        assert_eq!(*text, expected);
    }
    assert_eq!(rig.server.shared.pubsub.message_bytes(), 0);
}

fn request(text: &str) -> String {
    let bytes = text.len();
    format!("*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n${bytes}\r\n{text}\r\n")
}

#[test]
fn long_messages_are_written_at_once() {
    let (mut rig, mut publisher, mut subscribers) = with_subscribers();
    let text = "x".repeat(MOST_POSTED as usize);
    for part in request(&text).as_bytes().chunks(50_000) {
        publisher.write_all(part).unwrap();
        rig.turn();
    }
    assert_eq!(said(&mut publisher), reply());
    for stream in &mut subscribers {
        let first = said(stream);
        assert!(!first.is_empty());
        rig.until_said(stream, message(&text).strip_prefix(&first).unwrap());
    }
}

/// A limit of the output is met by subscribers that do not read, and not because others are written to first.
#[test]
fn messages_that_wait_for_their_part_stay_below_the_limit() {
    const MESSAGES: usize = 20;
    let (mut rig, mut publisher, mut subscribers) = with_subscribers();
    let set = "CONFIG SET client-output-buffer-limit \"pubsub 4000 0 0\"";
    rig.send(&mut publisher, set);
    assert_eq!(said(&mut publisher), "+OK\r\n");
    let text = "x".repeat(900);
    for _ in 0..MESSAGES {
        publisher.write_all(request(&text).as_bytes()).unwrap();
        rig.turn();
    }
    assert_eq!(said(&mut publisher), reply().repeat(MESSAGES));
    for stream in &mut subscribers {
        rig.until_said(stream, &message(&text).repeat(MESSAGES));
    }
}

/// Messages whose turn has not come leave with the last replies.
#[test]
fn messages_leave_before_the_end() {
    let (mut rig, mut publisher, mut subscribers) = with_subscribers();
    rig.send(&mut publisher, "PUBLISH news last");
    rig.server.run(&AtomicBool::new(true)).unwrap();
    assert_eq!(said(&mut publisher), reply());
    for stream in &mut subscribers {
        assert_eq!(said(stream), message("last"));
    }
    let (mut rig, mut publisher, mut subscribers) = with_subscribers();
    publisher
        .write_all(b"PUBLISH news last\r\nSHUTDOWN\r\n")
        .unwrap();
    rig.server.run(&AtomicBool::new(false)).unwrap();
    drop(rig);
    for stream in &mut subscribers {
        assert_eq!(said(stream), message("last") + "(end)");
    }
}

/// Subscribers that go, or unsubscribe, with messages that wait.
#[test]
fn subscribers_end_with_messages_that_wait() {
    let (mut rig, mut publisher, mut subscribers) = with_subscribers();
    rig.send(&mut publisher, "PUBLISH news 0");
    let mut last = subscribers.pop().unwrap();
    drop(subscribers.pop());
    rig.send(&mut last, "UNSUBSCRIBE news");
    let end = "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n";
    assert_eq!(said(&mut last), message("0") + end);
    // It takes over the mailbox of one that went.
    let mut next = rig.connect();
    rig.send(&mut next, "SUBSCRIBE news");
    for _ in 0..PARTS {
        rig.turn();
    }
    assert_eq!(
        said(&mut next),
        "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
    );
    rig.send(&mut publisher, "PUBLISH news 1");
    for _ in 0..PARTS {
        rig.turn();
    }
    assert_eq!(said(&mut next), message("1"));
    assert_eq!(
        said(&mut publisher),
        format!("{}:{}\r\n", reply(), SUBSCRIBERS - 1)
    );
    for stream in &mut subscribers {
        assert_eq!(said(stream), message("0") + &message("1"));
    }
}
