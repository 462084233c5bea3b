//! `SCAN` over a whole cluster: each master in turn, until every slot was scanned where it was.
//!
//! The plain version: scan each master from cursor zero to zero. That misses the keys of a slot that moves from a
//! master that is still to come to one that is done, and of a slot that is elsewhere in the middle of the scan of a
//! node. So each page is read in one transaction with the slots of its node, and a slot counts as scanned only if its
//! node served it with every page and was not handing it over. The other slots are scanned again. A node that was
//! restarted has another table, for which the cursor has no meaning, so each page also has the identity of the start
//! of the server. Keys of slots that already count are not returned again.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::slot::{SLOTS, slot_of};
use super::topology::{Node, Topology};
use crate::flags::Flags;
use crate::request::Request;
use crate::scan::{run_id, who};
use crate::{Error, FromReply, Reply, Scan, atomic, cmd};

/// The number of scans of a node in a row that may make no slot count.
const MOST_FRUITLESS: u32 = 16;
/// The increase of the pause after each such scan.
const PAUSE: Duration = Duration::from_millis(20);

/// The position of a scan of a cluster: the node that is scanned, its cursor, and the slots that are done.
///
/// See `Cluster::scan_page` and [`blocking::Cluster::scan_page`](crate::blocking::Cluster::scan_page). It takes 2 KiB. A scan
/// can continue from a clone of it, also with another client of the same cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Cursor {
    done: SlotSet,
    current: Option<Current>,
    fruitless: u32,
}

/// The node that is scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Current {
    node: Node,
    /// SlotSet that it served with every page so far.
    served: SlotSet,
    at: u64,
    /// The start of the server that gave the cursor.
    server: String,
}

/// The next question to a node.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) node: Node,
    /// Time to wait before.
    pub(crate) pause: Duration,
    at: u64,
}

/// A page of a node, with the slots of the node at that moment (`CLUSTER NODES`).
#[derive(Debug)]
pub(crate) struct Page {
    next: u64,
    keys: Vec<Bytes>,
    nodes: String,
    /// The start of the server that answered.
    server: String,
}

impl Cursor {
    /// The start of a scan.
    #[must_use]
    pub fn start() -> Self {
        Self {
            done: SlotSet::none(),
            current: None,
            fruitless: 0,
        }
    }

    /// Returns whether every slot was scanned.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.done.count() == usize::from(SLOTS)
    }

    /// Returns the node that is being scanned.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.current.as_ref().map(|current| &current.node)
    }

    /// Returns the number of slots that are done.
    #[must_use]
    pub fn slots_done(&self) -> usize {
        self.done.count()
    }

    /// The next question; `None` if nothing is left.
    ///
    /// # Errors
    /// [`Error::Cluster`] if no node serves a remaining slot, or if slots keep moving.
    pub(crate) fn step(&mut self, topology: &Topology) -> Result<Option<Visit>, Error> {
        if let Some(Current { node, at, .. }) = &self.current {
            return Ok(Some(Visit {
                node: node.clone(),
                pause: Duration::ZERO,
                at: *at,
            }));
        }
        let mut left = (0..SLOTS).filter(|&slot| !self.done.has(slot)).peekable();
        if left.peek().is_none() {
            return Ok(None);
        }
        if self.fruitless > MOST_FRUITLESS {
            // A caller that asks again has waited, or wants to.
            self.fruitless = 0;
            return Err(Error::Cluster(format!(
                "{} slots of the cluster could not be scanned, since they were being moved each time; continue \
                 when the moves are complete",
                left.count()
            )));
        }
        let Some(shard) = left.find_map(|slot| topology.shard(slot)) else {
            return Err(Error::Cluster(format!(
                "{} slots of the cluster could not be scanned, since no node serves them",
                usize::from(SLOTS) - self.done.count()
            )));
        };
        Ok(Some(Visit {
            node: shard.master.clone(),
            pause: PAUSE * self.fruitless,
            at: 0,
        }))
    }

    /// Takes the answer to a step; the keys that were not returned before, in the form that the caller wants.
    ///
    /// # Errors
    /// The error in place of a page, after which the node is scanned from its beginning. [`Error::Type`] if
    /// a key does not have the wanted form.
    pub(crate) fn answered<T: FromReply>(
        &mut self,
        step: Visit,
        page: Result<Page, Error>,
    ) -> Result<Vec<T>, Error> {
        let page = page.inspect_err(|_| self.lost())?;
        let read = |key: Bytes| T::from_reply(Reply::Bulk(&key));
        self.took(step, page).into_iter().map(read).collect()
    }

    /// Takes a page; the keys of it that were not returned before.
    fn took(&mut self, step: Visit, page: Page) -> Vec<Bytes> {
        let served = SlotSet::served(&page.nodes);
        let restarted =
            (self.current.as_ref()).is_some_and(|current| current.server != page.server);
        let served = match &self.current {
            Some(current) => current.served.and(&served),
            None => served,
        };
        let mut keys = page.keys;
        keys.retain(|key| !self.done.has(slot_of(key)));
        if restarted {
            // These keys exist, but the cursor was one of another table.
            self.lost();
        } else if page.next == 0 {
            let before = self.done.count();
            self.done.add(&served);
            self.current = None;
            let fruitless = self.done.count() == before;
            self.fruitless = if fruitless { self.fruitless + 1 } else { 0 };
        } else {
            self.current = Some(Current {
                node: step.node,
                served,
                at: page.next,
                server: page.server,
            });
        }
        keys
    }

    /// The node did not answer. Its cursor has no meaning for another node, so its slots are scanned again.
    fn lost(&mut self) {
        self.current = None;
    }

    /// Whether the last scan of a node made no slot count, so the map can be outdated.
    pub(crate) fn is_fruitless(&self) -> bool {
        self.current.is_none() && self.fruitless > 0
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self::start()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("slots_done", &self.done.count())
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl Visit {
    /// The question for the page, with the slots and the identity of the node.
    pub(crate) fn question<T: FromReply>(
        &self,
        scan: &Scan<T>,
    ) -> impl Request<Output = Result<Option<PageReply>, Error>> + use<T> {
        let nodes = cmd::<String>("CLUSTER NODES").flags(Flags::READ_ONLY);
        atomic((scan.page::<Bytes>(self.at), nodes, who()))
    }
}

/// The replies to the question for a page.
type PageReply = (
    Result<(u64, Vec<Bytes>), Error>,
    Result<String, Error>,
    Result<String, Error>,
);

impl Page {
    /// The page in the replies of a node.
    ///
    /// # Errors
    /// The error reply of the node.
    pub(crate) fn of(answer: Option<PageReply>) -> Result<Self, Error> {
        let (page, nodes, info) = answer.ok_or_else(|| {
            Error::Cluster(
                "a page of a scan was not executed, although no key of it is watched".into(),
            )
        })?;
        let (next, keys) = page?;
        Ok(Self {
            next,
            keys,
            nodes: nodes?,
            server: run_id(&info?)?,
        })
    }
}

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
struct SlotSet(Box<[u64]>);

impl SlotSet {
    fn none() -> Self {
        Self(vec![0; usize::from(SLOTS) / 64].into())
    }

    fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot / 64)] >> (slot % 64) & 1 == 1
    }

    fn insert(&mut self, slot: u16) {
        self.0[usize::from(slot / 64)] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u16) {
        self.0[usize::from(slot / 64)] &= !(1 << (slot % 64));
    }

    fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    fn and(&self, other: &Self) -> Self {
        let both = self.0.iter().zip(&other.0).map(|(one, other)| one & other);
        Self(both.collect())
    }

    fn add(&mut self, other: &Self) {
        for (bits, more) in self.0.iter_mut().zip(&other.0) {
            *bits |= more;
        }
    }

    /// The slots that a node serves according to its own `CLUSTER NODES`, without those that are being moved. Empty
    /// if it is not a master or the text cannot be read: then nothing counts.
    fn served(nodes: &str) -> Self {
        let mut slots = Self::none();
        let mut lines = nodes.lines().map(|line| line.split(' '));
        let own = lines.find_map(|words| {
            let flags = words.clone().nth(2)?;
            let has = |flag| flags.split(',').any(|other| other == flag);
            (has("myself") && has("master")).then_some(words)
        });
        let ranges: Vec<&str> = own.into_iter().flat_map(|words| words.skip(8)).collect();
        let number = |text: &str| text.parse::<u16>().ok().filter(|&slot| slot < SLOTS);
        for range in &ranges {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            if let (Some(first), Some(last)) = (number(first), number(last)) {
                (first..=last).for_each(|slot| slots.insert(slot));
            }
        }
        for moving in ranges.iter().filter_map(|range| range.strip_prefix('[')) {
            if let Some(slot) = moving.split('-').next().and_then(number) {
                slots.remove(slot);
            }
        }
        slots
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotSet({})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a node that serves these slots.
    fn nodes(ranges: &str) -> String {
        format!(
            "a1 10.0.0.1:7000@17000 master - 0 1 1 connected 16383\n\
             b2 10.0.0.2:7000@17000 myself,master - 0 1 2 connected {ranges}\n"
        )
    }

    fn step(at: u64) -> Visit {
        Visit {
            node: Node::new("10.0.0.2", 7000),
            pause: Duration::ZERO,
            at,
        }
    }

    fn page(next: u64, keys: Vec<Bytes>, ranges: &str) -> Page {
        page_of("first", next, keys, ranges)
    }

    /// A page of this start of the server.
    fn page_of(start: &str, next: u64, keys: Vec<Bytes>, ranges: &str) -> Page {
        let info = format!("run_id:{start}\r\n");
        Page::of(Some((Ok((next, keys)), Ok(nodes(ranges)), Ok(info)))).unwrap()
    }

    #[test]
    fn node_that_was_restarted_is_begun_anew() {
        let mut cursor = Cursor::start();
        cursor.took(step(0), page(7, vec![], "0-16383"));
        let key = Bytes::from_static(b"foo");
        let again = page_of("second", 0, vec![key.clone()], "0-16383");
        assert_eq!(cursor.took(step(7), again), [key]);
        assert_eq!((cursor.slots_done(), cursor.node()), (0, None));
        let whole = page_of("second", 0, vec![], "0-16383");
        cursor.took(step(0), whole);
        assert!(cursor.is_finished());
    }

    #[test]
    fn node_says_which_slots_it_serves_and_which_are_on_the_move() {
        let slots = SlotSet::served(&nodes("0-2 7 9-12 [7->-a1] [100-<-a1]"));
        let served: Vec<u16> = (0..SLOTS).filter(|&slot| slots.has(slot)).collect();
        assert_eq!(served, [0, 1, 2, 9, 10, 11, 12]);
        assert_eq!(SlotSet::served("").count(), 0);
        assert_eq!(SlotSet::served(&nodes("x 1-y -3 16384")).count(), 0);
        let replica = nodes("0-9").replace("myself,master", "myself,slave");
        assert_eq!(SlotSet::served(&replica).count(), 0);
    }

    #[test]
    fn only_slots_that_stayed_count_and_their_keys_come_once() {
        let mut cursor = Cursor::start();
        // "foo" is in slot 12182, "bar" in 5061.
        let keys = || vec![Bytes::from_static(b"foo"), Bytes::from_static(b"bar")];
        let first = page(7, keys(), "0-13000");
        assert_eq!(cursor.took(step(0), first), keys());
        assert_eq!(cursor.slots_done(), 0);
        assert!(cursor.took(step(7), page(0, vec![], "0-6000")).is_empty());
        assert_eq!(cursor.slots_done(), 6001);
        assert_eq!(cursor.node(), None);
        let other = page(0, keys(), "0-16383");
        assert_eq!(cursor.took(step(0), other), ["foo"]);
        assert!(cursor.is_finished());
        assert!(cursor.step(&Topology::empty()).unwrap().is_none());
    }

    #[test]
    fn slot_that_comes_back_within_the_scan_of_a_node_does_not_count() {
        let mut cursor = Cursor::start();
        cursor.took(step(0), page(7, vec![], "0-16383"));
        cursor.took(step(7), page(8, vec![], "0-99 101-16383"));
        cursor.took(step(8), page(0, vec![], "0-16383"));
        assert_eq!(cursor.slots_done(), usize::from(SLOTS) - 1);
        assert!(!cursor.is_finished());
    }

    #[test]
    fn scan_of_unsettled_or_unserved_slots_is_an_error() {
        let mut topology = Topology::empty();
        let mut cursor = Cursor::start();
        let error = cursor.step(&topology).unwrap_err().to_string();
        assert!(error.contains("no node serves"), "{error}");
        topology.moved(5, Node::new("10.0.0.2", 7000));
        let mut cursor = Cursor::start();
        for _ in 0..=MOST_FRUITLESS {
            let step = cursor.step(&topology).unwrap().unwrap();
            cursor.took(step, page(0, vec![], "5 [5->-a1]"));
            assert!(cursor.is_fruitless());
        }
        let error = cursor.step(&topology).unwrap_err().to_string();
        assert!(error.contains("being moved"), "{error}");
        assert!(cursor.step(&topology).unwrap().is_some());
    }

    #[test]
    fn node_that_is_lost_is_begun_anew() {
        let mut topology = Topology::empty();
        topology.moved(5, Node::new("10.0.0.2", 7000));
        let mut cursor = Cursor::start();
        let begin = cursor.step(&topology).unwrap().unwrap();
        cursor.took(begin, page(9, vec![], "5"));
        assert_eq!(cursor.step(&topology).unwrap().unwrap().at, 9);
        cursor.lost();
        let anew = cursor.step(&topology).unwrap().unwrap();
        assert_eq!(anew.at, 0);
    }
}
