//! The map of a cluster: which node serves which slot.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use loadline_resp::Frame;

use super::slot::SLOTS;

/// The most masters that a map may have, and the most replicas of one. The specification aims at a
/// thousand nodes in all.
const MOST_MASTERS: usize = 4_096;
const MOST_REPLICAS: usize = 512;
/// The longest host name that the name system knows.
const MOST_HOST_BYTES: usize = 253;
/// No node serves the slot.
const UNSERVED: u16 = u16::MAX;

/// The address of a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    host: Arc<str>,
    port: u16,
}

impl Node {
    /// A node at this host (without brackets) and port.
    #[must_use]
    pub fn new(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// The host name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port that clients use.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads `host:port` of a redirection. An empty host is the host of the node that was asked.
    pub(crate) fn parse(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|&port| port != 0)?;
        let host = host.trim_matches(['[', ']']);
        match host {
            "" => Some(Self::new(Arc::clone(&asked.host), port)),
            "?" => None,
            _ if host.len() > MOST_HOST_BYTES => None,
            _ => Some(Self::new(host, port)),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A master and its replicas, which hold the same slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) master: Node,
    /// Those that are near come first.
    pub(crate) replicas: Vec<Node>,
    /// The number of replicas that are near.
    pub(crate) near: usize,
}

/// The map of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    shards: Vec<Shard>,
    /// The number of the shard that serves each slot, or [`UNSERVED`].
    slots: Box<[u16]>,
    /// The lowest slot of each shard that serves any.
    homes: Vec<u16>,
}

impl Topology {
    /// Whether each slot has the same master as in `other`.
    pub(crate) fn has_masters_of(&self, other: &Self) -> bool {
        let masters = |map: &Self| -> Vec<Node> {
            let masters = map.shards.iter().map(|shard| &shard.master);
            masters.cloned().collect()
        };
        // All nodes list shards in the order of their slots.
        self.slots == other.slots && masters(self) == masters(other)
    }

    /// A map without nodes.
    pub(crate) fn empty() -> Self {
        Self {
            shards: Vec::new(),
            slots: vec![UNSERVED; usize::from(SLOTS)].into(),
            homes: Vec::new(),
        }
    }

    /// Reads the reply to `CLUSTER SLOTS` that came from the node that was asked. Ranges whose master has
    /// no known address are left out.
    ///
    /// # Errors
    /// The reason why the reply is invalid.
    pub(crate) fn read<B: AsRef<[u8]>>(reply: &Frame<B>, asked: &Node) -> Result<Self, String> {
        let ranges = list(reply).ok_or("it is not a list of ranges")?;
        let mut topology = Self::empty();
        for range in ranges {
            let fields = list(range).ok_or("a range is not a list")?;
            let [first, last, members @ ..] = fields else {
                return Err("a range has no bounds".into());
            };
            let (first, last) = bounds(first, last)?;
            if members.len() > 1 + MOST_REPLICAS {
                return Err(format!("a range has more than {MOST_REPLICAS} replicas"));
            }
            let members: Result<Vec<_>, _> =
                members.iter().map(|member| node(member, asked)).collect();
            topology.add(first, last, members?)?;
        }
        topology.settle_in();
        Ok(topology)
    }

    /// Gives the slots to the first of these nodes, and the others to it as replicas.
    fn add(&mut self, first: u16, last: u16, members: Vec<Option<Node>>) -> Result<(), String> {
        let mut members = members.into_iter();
        let Some(Some(master)) = members.next() else {
            return Ok(());
        };
        let shard = self.shard_of(master);
        if self.shards.len() > MOST_MASTERS {
            return Err(format!("it names more than {MOST_MASTERS} masters"));
        }
        let replicas = &mut self.shards[usize::from(shard)].replicas;
        for replica in members.flatten() {
            if replicas.len() > MOST_REPLICAS {
                return Err(format!("a master has more than {MOST_REPLICAS} replicas"));
            }
            if !replicas.contains(&replica) {
                replicas.push(replica);
            }
        }
        for slot in &mut self.slots[usize::from(first)..=usize::from(last)] {
            if *slot != UNSERVED {
                return Err(format!(
                    "two ranges overlap between the slots {first} and {last}"
                ));
            }
            *slot = shard;
        }
        Ok(())
    }

    /// The number of the shard with this master, which is added if there is none.
    fn shard_of(&mut self, master: Node) -> u16 {
        let found = self.shards.iter().position(|shard| shard.master == master);
        let place = found.unwrap_or_else(|| {
            self.shards.push(Shard {
                master,
                replicas: Vec::new(),
                near: 0,
            });
            self.shards.len() - 1
        });
        u16::try_from(place).expect("there are at most as many shards as ranges and slots")
    }

    /// A redirection named another master of a slot.
    pub(crate) fn moved(&mut self, slot: u16, master: Node) {
        let shard = self.shard_of(master);
        self.slots[usize::from(slot)] = shard;
        // The number of nodes in redirections is bounded too: shards without slots are removed.
        if self.shards.len() > MOST_MASTERS {
            self.drop_idle();
        }
        self.settle_in();
    }

    fn drop_idle(&mut self) {
        let old = std::mem::take(&mut self.shards);
        let mut places = vec![UNSERVED; old.len()];
        for slot in &mut self.slots {
            let Some(place) = places.get_mut(usize::from(*slot)) else {
                continue;
            };
            if *place == UNSERVED {
                *place = u16::try_from(self.shards.len()).expect("no more shards than slots");
                self.shards.push(old[usize::from(*slot)].clone());
            }
            *slot = *place;
        }
    }

    /// The shard that serves a slot, if there is one.
    pub(crate) fn shard(&self, slot: u16) -> Option<&Shard> {
        self.shards.get(usize::from(self.slots[usize::from(slot)]))
    }

    /// Moves the replicas that are near in front of the others.
    pub(crate) fn prefer(&mut self, near: &HashSet<Node>) {
        for shard in &mut self.shards {
            shard.replicas.sort_by_key(|node| !near.contains(node));
            shard.near = shard
                .replicas
                .iter()
                .filter(|node| near.contains(node))
                .count();
        }
    }

    fn settle_in(&mut self) {
        let mut seen = vec![false; self.shards.len()];
        let serves = |slot: &u16| {
            let shard = usize::from(self.slots[usize::from(*slot)]);
            seen.get_mut(shard)
                .is_some_and(|seen| !std::mem::replace(seen, true))
        };
        self.homes = (0..SLOTS).filter(serves).collect();
    }

    /// A slot that is served, one or another as `turn` says; zero where none is.
    pub(crate) fn any_slot(&self, turn: u64) -> u16 {
        match self.homes.len() as u64 {
            0 => 0,
            // The remainder is below the length.
            count => self.homes[(turn % count) as usize],
        }
    }

    /// A slot of each shard that serves any. It stays theirs when a replica takes over.
    pub(crate) fn homes(&self) -> &[u16] {
        &self.homes
    }

    /// The masters that serve slots.
    pub(crate) fn masters(&self) -> Vec<Node> {
        let shards = self.homes.iter().filter_map(|&slot| self.shard(slot));
        shards.map(|shard| shard.master.clone()).collect()
    }

    /// The masters with their replicas.
    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// All nodes, masters before their replicas.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.shards
            .iter()
            .flat_map(|shard| std::iter::once(&shard.master).chain(&shard.replicas))
    }

    /// Number of slots that are served.
    pub(crate) fn covered(&self) -> usize {
        self.slots
            .iter()
            .filter(|&&shard| shard != UNSERVED)
            .count()
    }
}

fn list<B>(frame: &Frame<B>) -> Option<&[Frame<B>]> {
    match frame.without_attributes() {
        Frame::Array(items) => Some(items),
        _ => None,
    }
}

fn bounds<B>(first: &Frame<B>, last: &Frame<B>) -> Result<(u16, u16), String> {
    let slot = |frame: &Frame<B>| match frame {
        Frame::Integer(slot) => u16::try_from(*slot).ok().filter(|&slot| slot < SLOTS),
        _ => None,
    };
    match (slot(first), slot(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(format!(
            "a range does not lie within the slots 0 to {}",
            SLOTS - 1
        )),
    }
}

/// A node of a range: host, port, and since Redis 7 remarks. `None` is a node with an unknown address.
fn node<B: AsRef<[u8]>>(frame: &Frame<B>, asked: &Node) -> Result<Option<Node>, String> {
    let Some([host, Frame::Integer(port), rest @ ..]) = list(frame) else {
        return Err("a node is not a host and a port".into());
    };
    let port = u16::try_from(*port)
        .ok()
        .filter(|&port| port != 0)
        .ok_or("a node has a port that is none")?;
    let host = match host.as_bytes() {
        // A node that does not know its own address leaves it out; the one that was asked has one.
        None | Some(b"") => return Ok(Some(Node::new(Arc::clone(&asked.host), port))),
        // A node that should go by its name, and has none.
        Some(b"?") => match remarked_ip(rest) {
            Some(ip) => ip,
            None => return Ok(None),
        },
        Some(host) => host,
    };
    let host = std::str::from_utf8(host).map_err(|_| "a host is not UTF-8")?;
    if host.len() > MOST_HOST_BYTES {
        return Err(format!("a host has more than {MOST_HOST_BYTES} bytes"));
    }
    Ok(Some(Node::new(host, port)))
}

/// The address among the remarks about a node, which follow its id as names and values in turn.
fn remarked_ip<B: AsRef<[u8]>>(rest: &[Frame<B>]) -> Option<&[u8]> {
    let remarks = list(rest.get(1)?)?;
    let pair = remarks
        .chunks_exact(2)
        .find(|pair| pair[0].as_bytes() == Some(b"ip"))?;
    pair[1].as_bytes().filter(|ip| !ip.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_resp::OwnedReply;

    fn asked() -> Node {
        Node::new("seed", 7000)
    }

    fn text(text: &str) -> OwnedReply {
        OwnedReply::Bulk(text.as_bytes().to_vec())
    }

    fn member(host: OwnedReply, port: i64) -> OwnedReply {
        OwnedReply::Array(vec![host, OwnedReply::Integer(port), text("id")])
    }

    fn range(first: i64, last: i64, members: Vec<OwnedReply>) -> OwnedReply {
        let mut fields = vec![OwnedReply::Integer(first), OwnedReply::Integer(last)];
        fields.extend(members);
        OwnedReply::Array(fields)
    }

    fn read(ranges: Vec<OwnedReply>) -> Result<Topology, String> {
        Topology::read(&OwnedReply::Array(ranges), &asked())
    }

    #[test]
    fn ranges_masters_and_replicas_are_read() {
        let topology = read(vec![
            range(0, 99, vec![member(text("a"), 1), member(text("b"), 2)]),
            range(100, 199, vec![member(text("c"), 3)]),
            range(300, 300, vec![member(text("a"), 1), member(text("d"), 4)]),
        ])
        .unwrap();
        let first = topology.shard(99).unwrap();
        assert_eq!(first.master, Node::new("a", 1));
        assert_eq!(first.replicas, [Node::new("b", 2), Node::new("d", 4)]);
        assert_eq!(topology.shard(100).unwrap().master, Node::new("c", 3));
        assert_eq!(topology.shard(300), Some(first));
        assert_eq!(topology.shard(200), None);
        assert_eq!(topology.covered(), 201);
        assert_eq!(topology.nodes().count(), 4);
    }

    #[test]
    fn node_without_an_address_is_the_one_that_was_asked_or_left_out() {
        let unnamed = OwnedReply::Array(vec![
            text("?"),
            OwnedReply::Integer(5),
            text("id"),
            OwnedReply::Array(vec![text("ip"), text("10.0.0.5")]),
        ]);
        let topology = read(vec![
            range(0, 0, vec![member(OwnedReply::Null, 1)]),
            range(1, 1, vec![member(text(""), 2)]),
            range(2, 2, vec![member(text("?"), 3), member(text("b"), 4)]),
            range(3, 3, vec![unnamed]),
        ])
        .unwrap();
        assert_eq!(topology.shard(0).unwrap().master, Node::new("seed", 1));
        assert_eq!(topology.shard(1).unwrap().master, Node::new("seed", 2));
        assert_eq!(topology.shard(2), None);
        assert_eq!(topology.shard(3).unwrap().master, Node::new("10.0.0.5", 5));
    }

    #[test]
    fn impossible_topologies_are_refused() {
        let good = || vec![member(text("a"), 1)];
        for (ranges, says) in [
            (vec![OwnedReply::Integer(1)], "not a list"),
            (vec![OwnedReply::Array(vec![])], "no bounds"),
            (vec![range(5, 4, good())], "within the slots"),
            (vec![range(-1, 4, good())], "within the slots"),
            (vec![range(0, 16_384, good())], "within the slots"),
            (vec![range(0, 9, good()), range(9, 9, good())], "overlap"),
            (vec![range(0, 0, vec![member(text("a"), 0)])], "port"),
            (vec![range(0, 0, vec![member(text("a"), 65_536)])], "port"),
            (vec![range(0, 0, vec![text("a")])], "host and a port"),
            (
                vec![range(0, 0, vec![member(text(&"a".repeat(254)), 1)])],
                "253 bytes",
            ),
            (
                vec![range(
                    0,
                    0,
                    (1..=514).map(|port| member(text("a"), port)).collect(),
                )],
                "512 replicas",
            ),
            (
                (0..4097)
                    .map(|slot| range(slot, slot, vec![member(text("a"), slot + 1)]))
                    .collect(),
                "4096 masters",
            ),
        ] {
            let error = read(ranges).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(Topology::read(&OwnedReply::Null, &asked()).is_err());
    }

    #[test]
    fn maps_differ_in_the_master_of_any_slot_and_not_in_replicas() {
        let mut map = Topology::empty();
        map.moved(1, Node::new("a", 1));
        let mut other = map.clone();
        other.shards[0].replicas.push(Node::new("b", 1));
        assert!(other.has_masters_of(&map) && map.has_masters_of(&other));
        other.moved(2, Node::new("a", 1));
        assert!(!other.has_masters_of(&map));
        let mut other = map.clone();
        other.shards[0].master = Node::new("b", 1);
        assert!(!other.has_masters_of(&map));
    }

    #[test]
    fn redirection_moves_one_slot() {
        let mut topology = read(vec![range(0, 9, vec![member(text("a"), 1)])]).unwrap();
        topology.moved(5, Node::new("b", 2));
        assert_eq!(topology.shard(5).unwrap().master, Node::new("b", 2));
        assert_eq!(topology.shard(6).unwrap().master, Node::new("a", 1));
        topology.moved(16_383, Node::new("a", 1));
        assert_eq!(topology.shards.len(), 2);
    }

    #[test]
    fn redirections_without_end_do_not_fill_the_memory() {
        let mut topology = Topology::empty();
        for number in 0..10_000 {
            topology.moved(number % 3, Node::new(format!("h{number}"), 1));
        }
        assert!(topology.shards.len() <= MOST_MASTERS + 1);
        assert_eq!(
            topology.shard(9_999 % 3).unwrap().master,
            Node::new("h9999", 1)
        );
        assert_eq!(
            topology.shard(9_998 % 3).unwrap().master,
            Node::new("h9998", 1)
        );
    }

    #[test]
    fn addresses_of_redirections_are_read() {
        let parse = |text| Node::parse(text, &asked());
        assert_eq!(parse("127.0.0.1:6381"), Some(Node::new("127.0.0.1", 6381)));
        assert_eq!(parse("::1:6381"), Some(Node::new("::1", 6381)));
        assert_eq!(parse(":6381"), Some(Node::new("seed", 6381)));
        assert_eq!(parse("?:6381"), None);
        assert_eq!(parse("host"), None);
        assert_eq!(parse("host:0"), None);
        assert_eq!(parse("host:70000"), None);
        assert_eq!(Node::new("::1", 1).to_string(), "[::1]:1");
    }
}
