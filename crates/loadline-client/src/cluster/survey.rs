//! Which nodes are asked for the map of slots, in which order, and how often.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::topology::{Node, Topology};
use super::view::View;
use crate::Error;

/// Pause between two surveys, however many requests find the map wrong.
pub(crate) const THROTTLE: Duration = Duration::from_millis(100);
/// The shortest pause in the first seconds of an outage, so that a replica that takes over is found soon.
const EARLY_THROTTLE: Duration = Duration::from_millis(25);
/// Pause in that time, in multiples of the duration of the last survey: nodes that answer slowly are asked less often.
const EARLY_MULTIPLE: u32 = 2;
/// Time for which shorter pauses are allowed. Clients that have waited longer must not burden the nodes that are left.
const EARLY: Duration = Duration::from_secs(5);
/// Time without a survey after which the next one belongs to another outage.
const QUIET: Duration = Duration::from_secs(1);
/// Number of nodes that are asked at a time.
const AT_A_TIME: usize = 3;
/// Bounds of the time that other nodes have to contradict the first answer. A node that is frozen takes all of it.
#[cfg(feature = "tokio")]
const GRACE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_millis(50);

/// The time that other nodes have to contradict the first answer, which came after `took`.
#[cfg(feature = "tokio")]
pub(crate) fn grace(took: Duration) -> Duration {
    took.clamp(*GRACE.start(), *GRACE.end())
}

/// Limits how often the map is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throttle {
    last: Option<LastSurvey>,
}

#[derive(Clone, Copy, Debug)]
struct LastSurvey {
    ended: Instant,
    /// Pause before the next one.
    pause: Duration,
    /// Start of the first survey of the same outage.
    outage: Instant,
}

impl Throttle {
    /// Whether the map may be asked for again, by a caller who began at `now`.
    pub(crate) fn is_due(self, now: Instant) -> bool {
        let is_over = |last: LastSurvey| now.saturating_duration_since(last.ended) >= last.pause;
        self.last.is_none_or(is_over)
    }

    /// The time from which on the map may be asked for again; `None` if it was never asked for.
    #[cfg(feature = "tokio")]
    pub(crate) fn due(self) -> Option<Instant> {
        self.last.map(|last| last.ended + last.pause)
    }

    /// The map was asked for from `begun` to `ended`.
    pub(crate) fn asked(&mut self, begun: Instant, ended: Instant) {
        let is_same = |last: &LastSurvey| begun.saturating_duration_since(last.ended) < QUIET;
        let outage = self.last.filter(is_same).map_or(begun, |last| last.outage);
        let pause = if ended.saturating_duration_since(outage) < EARLY {
            let took = ended.saturating_duration_since(begun);
            (took * EARLY_MULTIPLE).clamp(EARLY_THROTTLE, THROTTLE)
        } else {
            THROTTLE
        };
        self.last = Some(LastSurvey {
            ended,
            pause,
            outage,
        });
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
    /// Starts with a replica of a master that is not connected, since it can have taken over and knows that first; then the
    /// connected nodes, the others of the map, and the seeds. `turn` decides which of them is the first.
    pub(crate) fn new(
        topology: &Topology,
        seeds: &[Node],
        turn: u64,
        is_connected: impl Fn(&Node) -> bool,
    ) -> Self {
        // A replica that a redirection has named as a master is on the map twice, and a connection carries one question.
        let mut seen = HashSet::new();
        let nodes = topology.nodes().filter(|node| seen.insert(*node));
        let mut nodes: Vec<Node> = nodes.cloned().collect();
        if !nodes.is_empty() {
            // The remainder is below the length.
            let first = turn % nodes.len() as u64;
            nodes.rotate_left(first as usize);
        }
        let heirs = topology.shards().iter();
        let heirs = heirs.filter(|shard| !is_connected(&shard.master));
        let heirs: Vec<&Node> = heirs.flat_map(|shard| &shard.replicas).collect();
        let heir = turn.checked_rem(heirs.len() as u64);
        let heir = heir.map(|place| heirs[place as usize]);
        nodes.sort_by_key(|node| (Some(node) != heir, !is_connected(node)));
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
    use loadline_resp::OwnedReply;

    use super::*;

    fn text(text: &str) -> OwnedReply {
        OwnedReply::Bulk(text.to_owned().into())
    }

    fn node(port: u16) -> Node {
        Node::new("node", port)
    }

    /// Three masters, the first three nodes, each with a replica.
    fn six_nodes() -> Topology {
        let entry = |port| OwnedReply::Array(vec![text("node"), OwnedReply::Integer(port)]);
        let range = |number: i64| {
            let (slot, nodes) = (OwnedReply::Integer(number), [number, number + 3]);
            let nodes = nodes.map(entry);
            OwnedReply::Array([&[slot.clone(), slot][..], &nodes].concat())
        };
        let ranges = OwnedReply::Array((1..=3).map(range).collect());
        Topology::read(&ranges, &node(1)).unwrap()
    }

    #[test]
    fn replica_that_a_redirection_names_is_asked_once() {
        let mut topology = six_nodes();
        topology.moved(1, node(4));
        for turn in 0..6 {
            let mut survey = Survey::new(&topology, &[], turn, |asked| asked.port() == 4);
            let mut asked = [survey.next().unwrap(), survey.next().unwrap()].concat();
            assert!(survey.next().is_err());
            asked.sort();
            assert_eq!(asked, [1, 2, 3, 4, 5, 6].map(node));
        }
    }

    #[test]
    fn replica_of_a_lost_master_is_asked_first() {
        let topology = six_nodes();
        let connected = |asked: &Node| [1, 3].contains(&asked.port());
        for turn in 0..4 {
            let mut survey = Survey::new(&topology, &[], turn, connected);
            let asked = survey.next().unwrap();
            assert_eq!(asked[0], node(5), "{asked:?}");
            assert!(asked[1..].iter().all(connected), "{asked:?}");
        }
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

    /// The pause after a survey that began at `begun` and took `took`; the time at which the next one may begin.
    fn pause(throttle: &mut Throttle, begun: Instant, took: Duration) -> (Duration, Instant) {
        let ended = begun + took;
        throttle.asked(begun, ended);
        assert!(!throttle.is_due(begun), "a caller who began before it");
        let millisecond = Duration::from_millis(1);
        let pauses = (0..).map(|pause| millisecond * pause);
        let mut due = pauses.filter(|pause| throttle.is_due(ended + *pause));
        let pause = due.next().unwrap();
        (pause, ended + pause)
    }

    #[test]
    fn map_is_asked_for_more_often_at_the_beginning_of_an_outage() {
        let begun = Instant::now();
        let mut throttle = Throttle::default();
        assert!(throttle.is_due(begun));
        let took = Duration::from_millis(2);
        let (mut now, mut surveys) = (begun, 0);
        while now < begun + EARLY - THROTTLE {
            let (pause, next) = pause(&mut throttle, now, took);
            assert_eq!(pause, EARLY_THROTTLE);
            (now, surveys) = (next, surveys + 1);
        }
        assert_eq!(surveys, 182);
        let late = begun + EARLY;
        assert_eq!(pause(&mut throttle, late, took).0, THROTTLE);
        assert_eq!(pause(&mut throttle, late + QUIET, took).0, THROTTLE);
        let next_outage = late + 3 * QUIET;
        assert_eq!(pause(&mut throttle, next_outage, took).0, EARLY_THROTTLE);
    }

    #[test]
    fn nodes_that_answer_slowly_are_asked_less_often() {
        let after = |took| {
            let took = Duration::from_millis(took);
            pause(&mut Throttle::default(), Instant::now(), took).0
        };
        let pauses = [0, 5, 10, 20, 30, 5_000].map(after);
        assert_eq!(
            pauses.map(|pause| pause.as_millis()),
            [25, 25, 25, 40, 60, 100]
        );
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn other_nodes_have_as_long_as_the_first_answer_took() {
        let of = |took| grace(Duration::from_millis(took)).as_millis();
        assert_eq!([0, 10, 20, 80].map(of), [10, 10, 20, 50]);
    }
}
