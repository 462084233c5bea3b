//! The doors of the fuzz targets in `fuzz/`: a server that says anything, and the parts of the client that
//! hear it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use loadline_resp::{Limits, OwnedReply, Reply};

use crate::cluster::topology::Topology;
use crate::cluster::{Node, Refusal, SLOTS};
use crate::commands::{get, hgetall, scan, xread};
use crate::conn::core::{Conn, Events, SlotId};
use crate::meter::Meter;
use crate::pubsub::Kind;
use crate::pubsub::core::{ConnectionId, Core};
use crate::{Address, Config, Error, Request, RetryPolicy, cmd};

/// The reply to `HELLO` of a server that knows RESP3.
const HELLO: &[u8] = b"%1\r\n$5\r\nproto\r\n:3\r\n";
/// Memory that a connection and its few requests may take on any replies, beyond four times the bytes
/// that came: vectors grow by doubling, and an element of a reply takes more room than its shortest bytes.
const SPARE_BYTES: usize = 64 << 10;

/// A server, as a fuzz target plays it.
#[derive(Clone, Copy, Debug)]
pub struct Hostile<'a> {
    /// The bytes that it sends.
    pub bytes: &'a [u8],
    /// In pieces of this number of bytes, which is not zero.
    pub piece_bytes: usize,
    /// Whether it answers the handshake as a server should before it sends them.
    pub greets: bool,
    /// Limits beyond which the client refuses a reply.
    pub limits: Limits,
}

impl Hostile<'_> {
    fn config(&self) -> Config {
        let mut config = Config::new(Address::Unix("/nowhere".into()));
        config.limits = self.limits;
        config.retry = RetryPolicy::Never;
        config
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let hello = self.greets.then_some(HELLO);
        hello.into_iter().chain(self.bytes.chunks(self.piece_bytes))
    }
}

/// Runs a connection against a server. Returns the result of each of its requests, and the reason why it broke.
///
/// # Panics
/// Where a request is left without any result, or the memory is out of proportion to the bytes.
#[must_use]
pub fn connection(server: Hostile<'_>) -> Vec<String> {
    let now = Instant::now();
    let mut conn = Conn::new(Arc::new(server.config()), false, now);
    let mut requests = Requests::submit(&mut conn);
    conn.connected(now);
    let mut events = Events::default();
    let mut end = Ok(());
    for piece in server.pieces() {
        while let Some(outgoing) = conn.outgoing() {
            let bytes = outgoing.bytes().len();
            conn.wrote(outgoing, bytes);
        }
        end = conn.receive(piece, now, &mut events);
        let held = conn.buffer_bytes();
        assert!(held <= 4 * server.bytes.len() + SPARE_BYTES, "{held} bytes");
        if end.is_err() {
            break;
        }
    }
    let told = format!("{end:?}");
    let error = end.err().unwrap_or_else(hung_up);
    conn.broke(&error, now, &mut events);
    conn.fail_all(&error, &mut events);
    let mut results = requests.results(&mut conn);
    results.push(told);
    results
}

fn hung_up() -> Error {
    Error::connection(io::ErrorKind::ConnectionReset.into(), true)
}

/// Reads the replies to a request that waits.
type Read = Box<dyn Fn(&mut Conn) -> String>;

/// Requests of many kinds of results.
#[derive(Default)]
struct Requests(Vec<Read>);

impl Requests {
    fn submit(conn: &mut Conn) -> Self {
        let mut all = Self::default();
        all.add(conn, cmd::<OwnedReply>("ECHO"));
        all.add(conn, get::<Option<String>>("k"));
        all.add(conn, (cmd::<i64>("INCR"), cmd::<f64>("INCRBYFLOAT")));
        all.add(conn, hgetall::<BTreeMap<String, Bytes>>("h"));
        all.add(conn, scan::<String>(0, "*", 10));
        all.add(conn, xread::<BTreeMap<String, Bytes>>("s", "0").count(10));
        all.add(conn, cmd::<Vec<(String, Option<bool>)>>("LRANGE"));
        all.add(conn, crate::atomic(cmd::<u16>("DECR")));
        all.add(conn, cmd::<OwnedReply>("ECHO"));
        all
    }

    fn add<Q: Request<Output: Debug> + 'static>(&mut self, conn: &mut Conn, request: Q) {
        let taken = conn.submit(&request, false, Waker::noop(), &mut Meter::begin());
        let (slot, _) = taken.expect("so few requests find room");
        self.0
            .push(Box::new(move |conn| read(conn, slot, &request)));
    }

    fn results(&mut self, conn: &mut Conn) -> Vec<String> {
        self.0.drain(..).map(|read| read(conn)).collect()
    }
}

fn read<Q: Request<Output: Debug>>(conn: &mut Conn, slot: SlotId, request: &Q) -> String {
    match conn.poll(slot, Waker::noop(), Vec::new) {
        Poll::Ready(taken) => format!("{:?}", request.decode(&mut taken.replies())),
        Poll::Pending => panic!("a request waits on a connection that is gone"),
    }
}

/// Runs a subscriber against a server. Returns its events, and the reason why its connection broke.
#[must_use]
pub fn subscriptions(server: Hostile<'_>) -> Vec<String> {
    let now = Instant::now();
    let mut core = Core::new(Arc::new(server.config()), now);
    let mut wake = Vec::new();
    let names = |names: &[&'static str]| names.iter().map(|name| Bytes::from(*name)).collect();
    core.subscribe(Kind::Channel, names(&["a", "b"]), now);
    core.subscribe(Kind::Pattern, names(&["a*"]), now);
    core.subscribe(Kind::Shard, names(&["s"]), now);
    core.subscribe(Kind::Keys, names(&["k"]), now);
    core.connected(ConnectionId::MAIN, now);
    let mut end = Ok(());
    for (number, piece) in server.pieces().enumerate() {
        core.take_out(ConnectionId::MAIN);
        end = core.receive(ConnectionId::MAIN, piece, now, &mut wake);
        if end.is_err() {
            break;
        }
        if number == 0 {
            core.unsubscribe(Kind::Channel, names(&["b"]), now, &mut wake);
        }
    }
    let mut told = vec![format!("{end:?}")];
    core.broke(
        ConnectionId::MAIN,
        end.err().unwrap_or_else(hung_up),
        &mut wake,
    );
    while let Poll::Ready(Some(event)) = core.poll_next(Waker::noop()) {
        told.push(format!("{event:?}"));
    }
    told
}

/// Reads a reply as the map of a cluster, moves slots of it as the text of an error says, and looks whether
/// the map is whole.
///
/// # Panics
/// Where it is not.
pub fn topology(reply: &Reply<'_>, error: &str) {
    let asked = Node::new("asked", 7_000);
    let mut topology = Topology::read(reply, &asked).unwrap_or_else(|_| Topology::empty());
    match Refusal::read(error, &asked) {
        Some(Refusal::Moved(slot, node)) => {
            topology.moved(slot, node.clone());
            let shard = topology.shard(slot).expect("the slot has just moved there");
            assert_eq!(shard.master, node);
        }
        Some(Refusal::Ask(_) | Refusal::Later) | None => {}
    }
    let served = (0..SLOTS).filter(|slot| topology.shard(*slot).is_some());
    assert_eq!(served.count(), topology.covered());
    assert_eq!(topology.homes().len(), topology.masters().len());
    for (turn, &home) in topology.homes().iter().enumerate() {
        assert_eq!(topology.any_slot(turn as u64), home);
    }
    assert!(
        topology
            .masters()
            .iter()
            .all(|master| topology.nodes().any(|node| node == master))
    );
}
