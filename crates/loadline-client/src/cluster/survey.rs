//! Which nodes are asked for the map of slots, in which order, and how often.

use std::time::{Duration, Instant};

use super::topology::{Node, Topology};
use super::view::View;
use crate::Error;

/// The map is asked for at most this often, however many requests find it wrong.
pub(crate) const THROTTLE: Duration = Duration::from_millis(100);
/// Number of nodes that are asked at a time.
const AT_A_TIME: usize = 3;

/// When the map was last asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throttle(Option<Instant>);

impl Throttle {
    /// Whether the map may be asked for again, by a caller who began at `now`.
    pub(crate) fn is_due(self, now: Instant) -> bool {
        let since = |asked| now.saturating_duration_since(asked);
        self.0.is_none_or(|asked| since(asked) >= THROTTLE)
    }

    /// The map was asked for.
    pub(crate) fn asked(&mut self, now: Instant) {
        self.0 = Some(now);
    }
}

/// A search for a node that knows the map: some nodes at a time, until one or more have answered.
#[derive(Debug)]
pub(crate) struct Survey {
    left: std::vec::IntoIter<Node>,
    /// The error if no node answers.
    reason: Error,
}

impl Survey {
    /// Starts with the connected nodes, then the others of the map, then the seeds. `turn` decides which of
    /// the nodes is the first.
    pub(crate) fn new(
        topology: &Topology,
        seeds: &[Node],
        turn: u64,
        is_connected: impl Fn(&Node) -> bool,
    ) -> Self {
        let mut nodes: Vec<Node> = topology.nodes().cloned().collect();
        if !nodes.is_empty() {
            // The remainder is below the length.
            let first = turn % nodes.len() as u64;
            nodes.rotate_left(first as usize);
        }
        nodes.sort_by_key(|node| !is_connected(node));
        for seed in seeds {
            if !nodes.contains(seed) {
                nodes.push(seed.clone());
            }
        }
        Self {
            left: nodes.into_iter(),
            reason: Error::Cluster("there is no node to ask for the map of slots".into()),
        }
    }

    /// The nodes to ask next.
    ///
    /// # Errors
    /// The last reason why a node did not answer, if all were asked. Nothing of a caller was executed then.
    pub(crate) fn next(&mut self) -> Result<Vec<Node>, Error> {
        let nodes: Vec<Node> = self.left.by_ref().take(AT_A_TIME).collect();
        if nodes.is_empty() {
            return Err(self.reason.clone());
        }
        Ok(nodes)
    }

    /// Takes the answers of these nodes; the view to believe, if there is one.
    pub(crate) fn took(&mut self, answers: Vec<Result<View, Error>>) -> Option<View> {
        let mut views = Vec::new();
        for answer in answers {
            match answer {
                Ok(view) => views.push(view),
                Err(error) => self.reason = error.with_executed(false),
            }
        }
        View::best(views)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> Node {
        Node::new("node", port)
    }

    #[test]
    fn connected_nodes_are_asked_first_and_seeds_last() {
        let mut topology = Topology::empty();
        (1..=4).for_each(|port| topology.moved(port, node(port)));
        let connected = |asked: &Node| asked.port() == 3;
        let mut survey = Survey::new(&topology, &[node(2), node(9)], 1, connected);
        assert_eq!(survey.next().unwrap(), [node(3), node(2), node(4)]);
        assert!(survey.took(vec![]).is_none());
        assert_eq!(survey.next().unwrap(), [node(1), node(9)]);
        let lost = Error::Closed {
            maybe_executed: true,
        };
        assert!(survey.took(vec![Err(lost)]).is_none());
        let error = survey.next().unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{error}");
        assert!(!error.maybe_executed(), "a question executes nothing");
    }

    #[test]
    fn map_is_asked_for_once_in_a_while() {
        let now = Instant::now();
        let mut throttle = Throttle::default();
        assert!(throttle.is_due(now));
        throttle.asked(now + Duration::from_millis(5));
        assert!(
            !throttle.is_due(now),
            "a caller who began before it was asked"
        );
        assert!(!throttle.is_due(now + THROTTLE));
        assert!(throttle.is_due(now + THROTTLE + Duration::from_millis(5)));
    }
}
