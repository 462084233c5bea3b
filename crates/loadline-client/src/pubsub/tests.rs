//! The core in virtual time, with the bytes of the wire written out.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::core::{ConnectionId, Core};
use super::tickets::TicketId;
use super::{Event, Kind};
use crate::{Config, Error};

const MS: Duration = Duration::from_millis(1);

/// A core, a clock that only the test moves, and what the server would have to answer.
struct Bench {
    core: Core,
    now: Instant,
    wake: Vec<Waker>,
}

impl Bench {
    fn new(url: &str) -> Self {
        let now = Instant::now();
        let core = Core::new(Arc::new(Config::from_url(url).unwrap()), now);
        Self {
            core,
            now,
            wake: Vec::new(),
        }
    }

    /// A bench whose handshake is done.
    fn ready(url: &str) -> Self {
        let mut bench = Self::new(url);
        bench.connect();
        bench
    }

    fn connect(&mut self) -> String {
        self.core.connected(ConnectionId::MAIN, self.now);
        assert!(self.sent().contains("HELLO"));
        self.receive(b"%1\r\n+proto\r\n:3\r\n");
        self.sent()
    }

    /// The commands that were sent since the last call, a line for each.
    fn sent(&mut self) -> String {
        let wire = String::from_utf8(self.core.take_out(ConnectionId::MAIN)).unwrap();
        let lines = wire.split("\r\n").filter(|line| !line.starts_with('$'));
        let text: String = lines
            .map(|line| match line.strip_prefix('*') {
                Some(_) => "\n".to_owned(),
                None => format!("{line} "),
            })
            .collect();
        text.lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.core
            .receive(ConnectionId::MAIN, bytes, self.now, &mut self.wake)
            .unwrap();
    }

    fn confirm(&mut self, verb: &str, name: &str) {
        let push = format!(
            ">3\r\n${}\r\n{verb}\r\n${}\r\n{name}\r\n:1\r\n",
            verb.len(),
            name.len()
        );
        self.receive(push.as_bytes());
    }

    fn publish(&mut self, channel: &str, payload: &str) {
        let push = format!(
            ">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{payload}\r\n",
            channel.len(),
            payload.len()
        );
        self.receive(push.as_bytes());
    }

    fn subscribe(&mut self, name: &'static str) -> TicketId {
        let names = vec![Bytes::from_static(name.as_bytes())];
        self.core.subscribe(Kind::Channel, names, self.now)
    }

    /// Subscribes, and lets the server confirm it.
    fn subscribed(&mut self, name: &'static str) {
        let ticket = self.subscribe(name);
        self.confirm("subscribe", name);
        assert!(matches!(self.settled(ticket), Some(Ok(()))));
        self.sent();
    }

    fn unsubscribe(&mut self, name: &'static str) -> TicketId {
        let names = vec![Bytes::from_static(name.as_bytes())];
        self.core
            .unsubscribe(Kind::Channel, names, self.now, &mut self.wake)
    }

    fn settled(&mut self, ticket: TicketId) -> Option<Result<(), Error>> {
        match self.core.poll_ticket(ticket, Waker::noop()) {
            Poll::Ready(settled) => Some(settled),
            Poll::Pending => None,
        }
    }

    fn breaks(&mut self) {
        let reset = std::io::ErrorKind::ConnectionReset.into();
        let error = Error::connection(reset, true);
        self.core.broke(ConnectionId::MAIN, error, &mut self.wake);
    }

    /// Lets time pass; what turning then gives.
    fn pass(&mut self, time: Duration) -> Result<(), Error> {
        self.now += time;
        self.core.turn(ConnectionId::MAIN, self.now, &mut self.wake)
    }

    /// All events that are there, in short.
    fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Poll::Ready(Some(event)) = self.core.poll_next(Waker::noop()) {
            events.push(match event {
                Event::Message(message) => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let pattern = message
                        .pattern
                        .map(|pattern| format!("({}) ", text(&pattern)));
                    let (channel, payload) = (text(&message.channel), text(&message.payload));
                    format!("{}{channel}: {payload}", pattern.unwrap_or_default())
                }
                Event::Resubscribed { outage } => format!("resubscribed after {outage:?}"),
                Event::Lagged { messages } => format!("lagged by {messages}"),
                Event::Refused { kind, name, error } => {
                    format!(
                        "refused {kind:?} {}: {error}",
                        String::from_utf8_lossy(&name)
                    )
                }
            });
        }
        events
    }
}

#[test]
fn subscription_is_settled_by_its_confirmation_and_brings_messages() {
    let mut bench = Bench::ready("redis://host");
    let ticket = bench.subscribe("news");
    assert_eq!(bench.sent(), "SUBSCRIBE news");
    assert!(bench.settled(ticket).is_none());
    bench.confirm("subscribe", "news");
    assert!(matches!(bench.settled(ticket), Some(Ok(()))));
    bench.publish("news", "one");
    assert_eq!(bench.events(), ["news: one"]);
    let again = bench.subscribe("news");
    assert!(matches!(bench.settled(again), Some(Ok(()))));
    assert_eq!(
        bench.sent(),
        "",
        "a confirmed subscription is not asked for again"
    );
}

#[test]
fn messages_may_be_split_anywhere() {
    let wire = b">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$5\r\nfirst\r\n";
    for cut in 1..wire.len() {
        let mut bench = Bench::ready("redis://host");
        let names = vec![Bytes::from_static(b"n*")];
        bench.core.subscribe(Kind::Pattern, names, bench.now);
        assert_eq!(bench.sent(), "PSUBSCRIBE n*");
        bench.confirm("psubscribe", "n*");
        bench.receive(&wire[..cut]);
        bench.receive(&wire[cut..]);
        bench.receive(wire);
        assert_eq!(bench.events(), ["(n*) news: first", "(n*) news: first"]);
    }
}

#[test]
fn resp2_says_the_same_with_arrays() {
    let mut bench = Bench::new("redis://host?resp=2");
    bench.core.connected(ConnectionId::MAIN, bench.now);
    assert_eq!(bench.sent(), "PING");
    bench.receive(b"+PONG\r\n");
    let ticket = bench.subscribe("news");
    bench.receive(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert!(matches!(bench.settled(ticket), Some(Ok(()))));
    bench.sent();
    bench.pass(6000 * MS).unwrap();
    assert_eq!(bench.sent(), "PING");
    bench
        .receive(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert_eq!(bench.events(), ["news: x"]);
    bench.pass(1500 * MS).unwrap();
}

#[test]
fn reconnect_resubscribes_and_reports_the_gap_before_later_messages() {
    let mut bench = Bench::ready("redis://host");
    bench.subscribed("a");
    bench.subscribed("b");
    bench.publish("a", "1");
    bench.now += 70 * MS;
    bench.breaks();
    assert!(bench.core.outage().is_some());
    bench.now += 30 * MS;
    let mut asked: Vec<_> = bench.connect().lines().map(str::to_owned).collect();
    asked.sort();
    assert_eq!(asked, ["SUBSCRIBE a", "SUBSCRIBE b"]);
    assert!(bench.core.outage().is_none());
    assert_eq!(bench.events(), ["a: 1"]);
    // The order of the questions is that of a hash map; `first` is confirmed first.
    let (first, second) = match bench.core.first_expected().as_deref() {
        Some(b"a") => ("a", "b"),
        _ => ("b", "a"),
    };
    bench.confirm("subscribe", first);
    bench.publish(first, "2");
    assert!(bench.events().is_empty(), "the other is not confirmed yet");
    bench.confirm("subscribe", second);
    let expected = ["resubscribed after 100ms".to_owned(), format!("{first}: 2")];
    assert_eq!(bench.events(), expected);
}

#[test]
fn outage_of_several_attempts_is_reported_once() {
    let mut bench = Bench::ready("redis://host");
    bench.subscribed("a");
    bench.breaks();
    for _ in 0..3 {
        bench.now += 100 * MS;
        bench.connect();
        bench.breaks();
    }
    bench.connect();
    bench.confirm("subscribe", "a");
    assert_eq!(bench.events(), ["resubscribed after 300ms"]);
}

#[test]
fn break_before_anything_stood_is_no_gap() {
    let mut bench = Bench::ready("redis://host");
    let ticket = bench.subscribe("a");
    bench.breaks();
    assert_eq!(bench.connect(), "SUBSCRIBE a");
    bench.confirm("subscribe", "a");
    assert!(matches!(bench.settled(ticket), Some(Ok(()))));
    assert!(bench.events().is_empty());
}

#[test]
fn refusal_goes_to_the_caller_and_after_an_outage_to_the_consumer() {
    let mut bench = Bench::ready("redis://host");
    let ticket = bench.subscribe("secret");
    bench.receive(b"-NOPERM no\r\n");
    assert!(matches!(bench.settled(ticket), Some(Err(Error::Server(_)))));
    assert!(bench.events().is_empty());
    bench.subscribed("a");
    bench.breaks();
    assert_eq!(
        bench.connect(),
        "SUBSCRIBE a",
        "what was refused is not wanted"
    );
    bench.receive(b"-NOPERM no\r\n");
    let events = bench.events();
    assert!(events[0].contains("refused Channel a"), "{events:?}");
    assert!(events[1].contains("resubscribed"), "{events:?}");
    bench.breaks();
    assert_eq!(bench.connect(), "");
}

#[test]
fn subscribing_and_ending_and_subscribing_again_counts_the_last_only() {
    let mut bench = Bench::ready("redis://host");
    let first = bench.subscribe("a");
    let ending = bench.unsubscribe("a");
    let second = bench.subscribe("a");
    assert_eq!(bench.sent(), "SUBSCRIBE a\nUNSUBSCRIBE a\nSUBSCRIBE a");
    assert!(matches!(bench.settled(first), Some(Err(Error::Usage(_)))));
    bench.confirm("subscribe", "a");
    assert!(bench.settled(second).is_none() && bench.settled(ending).is_none());
    bench.confirm("unsubscribe", "a");
    assert!(matches!(bench.settled(ending), Some(Ok(()))));
    assert!(bench.settled(second).is_none());
    bench.confirm("subscribe", "a");
    assert!(matches!(bench.settled(second), Some(Ok(()))));
}

#[test]
fn ended_subscription_yields_nothing_more() {
    let mut bench = Bench::ready("redis://host");
    bench.subscribed("a");
    let ending = bench.unsubscribe("a");
    bench.publish("a", "on its way");
    assert!(bench.events().is_empty());
    bench.breaks();
    assert!(matches!(bench.settled(ending), Some(Ok(()))));
    assert_eq!(bench.connect(), "");
}

#[test]
fn silent_server_is_asked_and_then_given_up() {
    let mut bench = Bench::ready("redis://host?keepalive=5s&response_timeout=2s");
    bench.subscribed("a");
    bench.pass(4999 * MS).unwrap();
    assert_eq!(bench.sent(), "");
    bench.pass(MS).unwrap();
    assert_eq!(bench.sent(), "PING");
    assert_eq!(
        bench.core.next_turn(ConnectionId::MAIN),
        Some(bench.now + 2000 * MS)
    );
    bench.pass(1999 * MS).unwrap();
    let error = bench.pass(MS).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
}

#[test]
fn connection_that_brings_messages_is_not_given_up() {
    let mut bench = Bench::ready("redis://host?response_timeout=2s");
    bench.subscribed("a");
    let late = bench.subscribe("b");
    for _ in 0..4 {
        bench.now += 1900 * MS;
        bench.publish("a", "x");
        bench.pass(Duration::ZERO).unwrap();
    }
    assert!(matches!(
        bench.settled(late),
        Some(Err(Error::Timeout { .. }))
    ));
    assert_eq!(
        bench.sent(),
        "SUBSCRIBE b\nUNSUBSCRIBE b",
        "it has no waiting caller"
    );
}

#[test]
fn wait_for_a_connection_ends_with_the_response_timeout() {
    let mut bench = Bench::ready("redis://host?response_timeout=1s");
    bench.subscribed("a");
    bench.breaks();
    let (new, subscription) = (bench.subscribe("b"), bench.subscribe("a"));
    assert_eq!(
        bench.core.next_turn(ConnectionId::MAIN),
        Some(bench.now + 1000 * MS)
    );
    bench.pass(1000 * MS).unwrap();
    for ticket in [new, subscription] {
        let settled = bench.settled(ticket);
        let unsent = |error: &Error| {
            matches!(
                error,
                Error::Timeout {
                    maybe_executed: false,
                    ..
                }
            )
        };
        assert!(
            matches!(&settled, Some(Err(error)) if unsent(error)),
            "{settled:?}"
        );
    }
    assert_eq!(
        bench.connect(),
        "SUBSCRIBE a",
        "a confirmed subscription is still wanted"
    );
}

#[cfg(feature = "tokio")]
#[test]
fn caller_that_goes_away_takes_nothing_back() {
    let mut bench = Bench::ready("redis://host");
    let ticket = bench.subscribe("a");
    bench.core.abandon(ticket);
    bench.confirm("subscribe", "a");
    bench.publish("a", "1");
    assert_eq!(bench.events(), ["a: 1"]);
}

#[test]
fn unrequested_reply_ends_the_subscription_connection() {
    let unasked: [&[u8]; 5] = [
        b"+OK\r\n",
        b":1\r\n",
        b"-ERR what\r\n",
        b"*1\r\n$4\r\nnews\r\n",
        b">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n",
    ];
    for bytes in unasked {
        let mut bench = Bench::ready("redis://host");
        bench.subscribed("a");
        let received = bench
            .core
            .receive(ConnectionId::MAIN, bytes, bench.now, &mut bench.wake);
        assert!(received.is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
    let mut bench = Bench::ready("redis://host");
    bench.receive(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert!(bench.events().is_empty());
}

#[cfg(feature = "tokio")]
#[test]
fn callers_of_an_ended_driver_get_an_error() {
    let mut bench = Bench::ready("redis://host");
    let ticket = bench.subscribe("a");
    bench.core.finish(&mut bench.wake);
    assert!(matches!(
        bench.settled(ticket),
        Some(Err(Error::Closed { .. }))
    ));
    let ticket = bench.subscribe("b");
    assert!(matches!(
        bench.settled(ticket),
        Some(Err(Error::Closed { .. }))
    ));
    assert!(matches!(
        bench.core.poll_next(Waker::noop()),
        Poll::Ready(None)
    ));
}

/// `CLIENT TRACKING`: its confirmation does not repeat the prefix, and a notice names no prefix.
#[test]
fn changes_of_keys_come_with_their_gaps() {
    let mut bench = Bench::ready("redis://host");
    let names = vec![Bytes::from_static(b"a:"), Bytes::from_static(b"b:")];
    let ticket = bench.core.subscribe(Kind::Keys, names, bench.now);
    let asked = "CLIENT TRACKING ON BCAST PREFIX a:\nCLIENT TRACKING ON BCAST PREFIX b:";
    assert_eq!(bench.sent(), asked);
    bench.receive(b"+OK\r\n");
    assert!(bench.settled(ticket).is_none());
    bench.receive(b"+OK\r\n");
    assert!(matches!(bench.settled(ticket), Some(Ok(()))));
    bench.receive(b">2\r\n$10\r\ninvalidate\r\n*2\r\n$3\r\na:1\r\n$3\r\nb:1\r\n");
    bench.receive(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!(bench.events(), ["a:1: ", "b:1: ", "(*) : "]);
    bench.breaks();
    bench.now += MS;
    // They are asked for again in any order.
    let again = bench.connect();
    assert!(
        again.len() == asked.len() && again.contains("BCAST PREFIX b:"),
        "{again}"
    );
    bench.receive(b"+OK\r\n");
    // Of the first one only. It waits for the notice of the gap.
    bench.receive(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\na:2\r\n");
    assert_eq!(bench.events(), [""; 0]);
    bench.receive(b"-NOPERM no\r\n");
    let events = bench.events();
    assert_eq!(events.len(), 3, "{events:?}");
    let is_refused = |event: &String| event.starts_with("refused Keys ");
    assert!(events.iter().any(is_refused), "{events:?}");
    assert!(
        events.contains(&"resubscribed after 1ms".to_owned()),
        "{events:?}"
    );
    assert_eq!(events[2], "a:2: ");
}

#[test]
fn answer_without_a_question_breaks_the_connection() {
    let mut bench = Bench::ready("redis://host");
    bench.subscribe("news");
    let mut receive = |bytes: &[u8]| {
        let id = ConnectionId::MAIN;
        bench.core.receive(id, bytes, bench.now, &mut bench.wake)
    };
    // A change of keys that are not tracked is no concern of a subscriber.
    assert!(receive(b">2\r\n$10\r\ninvalidate\r\n_\r\n").is_ok());
    assert!(receive(b"+OK\r\n").is_err());
}
