//! Subscriptions on a cluster in virtual time: which connection asks for what, and which announces a gap.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::core::{ConnectionId, Core};
use super::{Event, Kind};
use crate::Config;
use crate::cluster::topology::Topology;
use crate::cluster::{Node, slot_of};

const NAME: &str = "shard";
const ASK: &str = "*2\r\n$10\r\nSSUBSCRIBE\r\n$5\r\nshard\r\n";

fn map(port: u16) -> Topology {
    let mut topology = Topology::empty();
    topology.moved(slot_of(NAME.as_bytes()), Node::new("n", port));
    topology
}

struct Bench {
    core: Core,
    now: Instant,
}

impl Bench {
    /// A subscriber whose main connection is to the node at port 1, which serves the slot.
    fn new() -> Self {
        let now = Instant::now();
        let config = Config::from_url("redis://seed").unwrap();
        let core = Core::of_cluster(config, map(1), Vec::new(), 0, now);
        let mut bench = Self { core, now };
        bench.connect(ConnectionId::MAIN);
        bench
    }

    fn connect(&mut self, connection: ConnectionId) -> Node {
        let node = self.core.target(connection).unwrap();
        self.core.connected(connection, self.now);
        self.core.take_out(connection);
        self.receive(connection, "%1\r\n+proto\r\n:3\r\n");
        node
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &str) {
        let received = self
            .core
            .receive(connection, bytes.as_bytes(), self.now, &mut Vec::new());
        received.unwrap();
    }

    fn confirm(&mut self, connection: ConnectionId, verb: &str) {
        let push = format!(">3\r\n${}\r\n{verb}\r\n$5\r\nshard\r\n:1\r\n", verb.len());
        self.receive(connection, &push);
    }

    fn sent(&mut self, connection: ConnectionId) -> String {
        String::from_utf8(self.core.take_out(connection)).unwrap()
    }

    /// Subscribes on a new connection, and confirms it there.
    fn subscribed(&mut self) -> ConnectionId {
        let names = vec![Bytes::from_static(NAME.as_bytes())];
        self.core.subscribe(Kind::Shard, names, self.now);
        let connection = self.core.take_new()[0];
        assert_eq!(self.connect(connection), Node::new("n", 1));
        assert_eq!(self.sent(connection), ASK);
        self.confirm(connection, "ssubscribe");
        connection
    }

    fn event(&mut self) -> Option<Event> {
        match self.core.poll_next(Waker::noop()) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }
}

#[test]
fn moved_slot_is_followed_and_its_gap_reported_once_subscribed() {
    let mut bench = Bench::new();
    let old = bench.subscribed();
    bench.now += Duration::from_secs(1);
    bench.confirm(old, "sunsubscribe");
    assert_eq!(
        bench.sent(old),
        ASK,
        "the node that had it knows who has it"
    );
    bench.receive(old, &format!("-MOVED {} n:2\r\n", slot_of(NAME.as_bytes())));
    assert!(bench.event().is_none(), "it is not confirmed again yet");
    let new = bench.core.take_new()[0];
    assert_eq!(bench.connect(new), Node::new("n", 2));
    assert_eq!(bench.sent(new), ASK);
    bench.confirm(new, "ssubscribe");
    match bench.event() {
        Some(Event::Resubscribed { outage }) => assert_eq!(outage, Duration::from_secs(1)),
        other => panic!("{other:?}"),
    }
    assert!(bench.event().is_none(), "it is announced once");
    // Late messages of the old node are dropped.
    bench.receive(old, ">3\r\n$8\r\nsmessage\r\n$5\r\nshard\r\n$1\r\nx\r\n");
    assert!(bench.event().is_none());
    bench.core.turn(old, bench.now, &mut Vec::new()).unwrap();
    assert!(bench.core.has_ended(old) && !bench.core.has_ended(new));
}

#[test]
fn nodes_that_point_at_each_other_are_asked_again_with_a_new_map_only() {
    let mut bench = Bench::new();
    let first = bench.subscribed();
    bench.confirm(first, "sunsubscribe");
    let slot = slot_of(NAME.as_bytes());
    let mut connections = vec![first];
    let mut asked = 0;
    loop {
        let before = asked;
        for connection in connections.clone() {
            if bench.sent(connection).contains(ASK) {
                asked += 1;
                let other = if connection == first { 2 } else { 1 };
                bench.receive(connection, &format!("-MOVED {slot} n:{other}\r\n"));
            }
        }
        for connection in bench.core.take_new() {
            let node = bench.core.target(connection).unwrap();
            assert_eq!(node, Node::new("n", 2));
            bench.core.connected(connection, bench.now);
            bench.core.take_out(connection);
            bench.receive(connection, "%1\r\n+proto\r\n:3\r\n");
            connections.push(connection);
        }
        if asked == before {
            break;
        }
        assert!(asked < 100, "they are asked without end");
    }
    assert_eq!(asked, 6, "the first time, and five redirections");
    assert!(bench.core.is_stale(), "a new map is wanted");
    bench.core.install(map(1), bench.now, &mut Vec::new());
    assert_eq!(bench.sent(first), ASK);
    bench.confirm(first, "ssubscribe");
    assert!(matches!(bench.event(), Some(Event::Resubscribed { .. })));
}

#[test]
fn node_that_is_not_on_the_map_any_more_is_left() {
    let mut bench = Bench::new();
    bench.core.install(map(1), bench.now, &mut Vec::new());
    let turned = bench
        .core
        .turn(ConnectionId::MAIN, bench.now, &mut Vec::new());
    turned.unwrap();
    bench.core.install(map(2), bench.now, &mut Vec::new());
    let turned = bench
        .core
        .turn(ConnectionId::MAIN, bench.now, &mut Vec::new());
    let error = turned.unwrap_err();
    assert!(error.to_string().contains("n:1"), "{error}");
    bench.core.broke(ConnectionId::MAIN, error, &mut Vec::new());
    assert_eq!(bench.connect(ConnectionId::MAIN), Node::new("n", 2));
}
