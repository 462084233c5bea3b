//! The state of the masters of a cluster whose changes are reported, independent of the shell that connects to them.

use std::time::{Duration, Instant};

use super::Invalidation;
use crate::Error;
use crate::cluster::Node;

/// Interval at which the map of a cluster is asked for.
const MAP_PERIOD: Duration = Duration::from_secs(1);
/// The same while a master does not report its changes.
const MAP_PAUSE: Duration = Duration::from_millis(100);

/// A connection that reports changes.
pub(crate) trait Reports {
    /// The reason why it does not report at the moment.
    fn outage(&self) -> Option<Error>;
}

/// The masters, each with its connection.
#[derive(Debug)]
pub(crate) struct Masters<S> {
    nodes: Vec<(Node, S)>,
    /// The reason why a master has no connection.
    missing: Option<Error>,
    gap: Option<Invalidation>,
    /// When all masters were last known to report.
    whole_at: Instant,
    /// Counts up, so that the nodes are heard in turn.
    turn: usize,
}

impl<S: Reports> Masters<S> {
    /// For a consumer that begins with these connections: they are no gap.
    pub(crate) fn new(nodes: Vec<(Node, S)>, now: Instant) -> Self {
        Self {
            nodes,
            missing: None,
            gap: None,
            whole_at: now,
            turn: 0,
        }
    }

    /// The nodes that have a connection.
    pub(crate) fn known(&self) -> Vec<Node> {
        self.nodes.iter().map(|(node, _)| node.clone()).collect()
    }

    /// Takes a map, with new connections to `opened`, and the reason why there is none to another one of its masters. Drops
    /// the connections to nodes that are no masters any more.
    pub(crate) fn take(
        &mut self,
        masters: &[Node],
        opened: Vec<(Node, S)>,
        missing: Option<Error>,
        now: Instant,
    ) {
        let before = self.nodes.len();
        self.nodes.retain(|(node, _)| masters.contains(node));
        let has_changed = self.nodes.len() < before || !opened.is_empty();
        self.nodes.extend(opened);
        self.missing = missing;
        if has_changed {
            let outage = Some(now.saturating_duration_since(self.whole_at));
            self.gap = Some(Invalidation::Gap { outage });
        }
        if self.outage().is_none() {
            self.whole_at = now;
        }
    }

    /// The time until the map is to be asked for again.
    pub(crate) fn pause(&self) -> Duration {
        match self.nodes.is_empty() || self.outage().is_some() {
            true => MAP_PAUSE,
            false => MAP_PERIOD,
        }
    }

    pub(crate) fn outage(&self) -> Option<Error> {
        let mut nodes = self.nodes.iter();
        let outage = || nodes.find_map(|(_, source)| source.outage());
        self.missing.clone().or_else(outage)
    }

    /// The gap that is to be announced, once.
    pub(crate) fn take_gap(&mut self) -> Option<Invalidation> {
        self.gap.take()
    }

    pub(crate) fn sources(&mut self) -> impl Iterator<Item = &mut S> {
        self.nodes.iter_mut().map(|(_, source)| source)
    }

    /// The first result that `next` returns for a node. Each call begins with another node.
    pub(crate) fn in_turn<R>(&mut self, mut next: impl FnMut(&mut S) -> Option<R>) -> Option<R> {
        self.turn = self.turn.wrapping_add(1);
        let count = self.nodes.len();
        (0..count).find_map(|place| next(&mut self.nodes[(self.turn % count + place) % count].1))
    }
}

/// The masters that are not `known`.
pub(crate) fn unknown(masters: &[Node], known: &[Node]) -> Vec<Node> {
    let unknown = masters.iter().filter(|master| !known.contains(master));
    unknown.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(bool);

    impl Reports for Fake {
        fn outage(&self) -> Option<Error> {
            self.0.then(|| Error::server(b"ERR it is away"))
        }
    }

    fn node(port: u16) -> Node {
        Node::new("n", port)
    }

    #[test]
    fn nodes_follow_the_map_and_a_change_is_a_gap() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let known = vec![(node(1), Fake(false)), (node(2), Fake(false))];
        let mut masters = Masters::new(known, begin);
        let map = [node(3), node(2)];
        assert_eq!(unknown(&map, &masters.known()), [node(3)]);
        assert!(masters.take_gap().is_none());
        masters.take(&map[1..], vec![], None, at(10));
        assert!(matches!(masters.take_gap(), Some(Invalidation::Gap { .. })));
        masters.take(&map, vec![(node(3), Fake(true))], None, at(30));
        let Some(Invalidation::Gap { outage }) = masters.take_gap() else {
            panic!("a new master is a gap");
        };
        assert_eq!(outage, Some(Duration::from_millis(20)));
        assert_eq!(masters.known(), [node(2), node(3)]);
        assert!(masters.outage().is_some() && masters.pause() == MAP_PAUSE);
        // Nothing is new, and it is still away.
        masters.take(&map, vec![], None, at(50));
        assert!(masters.take_gap().is_none());
        masters.sources().for_each(|source| source.0 = false);
        assert_eq!(masters.pause(), MAP_PERIOD);
        masters.take(&[], vec![], None, at(60));
        assert_eq!(masters.pause(), MAP_PAUSE);
    }

    #[test]
    fn nodes_are_heard_in_turn() {
        let nodes = (1..4).map(|port| (node(port), Fake(port == 2)));
        let mut masters = Masters::new(nodes.collect(), Instant::now());
        let heard = |masters: &mut Masters<Fake>| {
            let mut all = Vec::new();
            let none: Option<()> = masters.in_turn(|source| {
                all.push(source.0);
                None
            });
            assert!(none.is_none());
            all
        };
        assert_eq!(heard(&mut masters), [true, false, false]);
        assert_eq!(heard(&mut masters), [false, false, true]);
        assert_eq!(heard(&mut masters), [false, true, false]);
        let mut none = Masters::<Fake>::new(vec![], Instant::now());
        assert_eq!(heard(&mut none), Vec::<bool>::new());
    }
}
