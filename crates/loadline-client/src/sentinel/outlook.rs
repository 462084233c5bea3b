//! The master of a name, according to its sentinels: a state that answers and events change. No socket, no clock.
//!
//! Sentinels can disagree for a while. Each failover has an epoch of its own, and the answer with the highest one
//! counts, because a sentinel that was cut off from the others has missed later failovers.

use std::io;
use std::time::{Duration, Instant};

use super::answer::{Answer, SentinelEvent};
use super::names::{Role, Sentinel};
use crate::Error;
use crate::cluster::Node;

/// Interval of questions to a sentinel while a connection looks for the master.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(100);
/// Interval of questions to a sentinel otherwise. Events tell changes sooner.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// Shortest interval of questions, after events too.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(10);
/// Time for which a search by a connection counts as going on.
const SEARCH: Duration = Duration::from_secs(1);
/// Time that the other sentinels have to contradict the first answer of all.
const GRACE: Duration = Duration::from_millis(50);
/// Time for which the replica that a failover has selected is taken for the next master.
pub(super) const SELECTED: Duration = Duration::from_secs(10);
/// Time after which sentinels are believed that name a master of an earlier epoch, if none knows the later one.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(5);
/// Time after a change in which connections try again in short intervals.
const UNSETTLED: Duration = Duration::from_secs(3);
/// The most sentinels of a name.
const MOST_SENTINELS: usize = 16;

/// Knowledge about the servers behind a name.
#[derive(Debug)]
pub(crate) struct Outlook {
    name: String,
    role: Role,
    witnesses: Vec<Witness>,
    /// The master with the epoch of the failover that made it one.
    master: Option<(Node, u64)>,
    /// When a sentinel last named that epoch or a later one.
    confirmed: Instant,
    replicas: Vec<Node>,
    /// The replica that a failover under way has selected, the sentinel that said so, and until when that counts.
    selected: Option<(Node, Node, Instant)>,
    /// When the first answer came.
    first_answer: Option<Instant>,
    /// When a connection last looked for a server.
    wanted: Option<Instant>,
    /// The number of changes so far, and the time of the last one.
    version: u64,
    changed: Option<Instant>,
    /// Counts up, so that replicas are used in turn.
    turn: usize,
}

/// One of the sentinels.
#[derive(Debug)]
struct Witness {
    node: Node,
    /// Its own name for itself, which is the same under all of its addresses.
    id: Option<String>,
    /// Whether the application named it.
    is_given: bool,
    said: Said,
    asked: Option<Instant>,
    /// Whether something happened that only a new answer explains.
    is_due: bool,
}

#[derive(Debug)]
enum Said {
    Nothing,
    Failed(Error),
    Answered(Answer),
}

/// The server that a connection goes to.
#[derive(Debug)]
pub(crate) enum Verdict {
    Go(Node),
    /// Some sentinels have not answered yet. The time is that of the next look, if no change comes before.
    Wait(Option<Instant>),
    /// There is none, for this reason.
    None(Error),
}

impl Outlook {
    pub(crate) fn new(name: &str, role: Role, sentinels: &[Node], now: Instant) -> Self {
        let mut outlook = Self {
            name: name.to_owned(),
            role,
            witnesses: Vec::new(),
            master: None,
            confirmed: now,
            replicas: Vec::new(),
            selected: None,
            first_answer: None,
            wanted: None,
            version: 0,
            changed: None,
            turn: 0,
        };
        for node in sentinels {
            if outlook.find(node).is_none() {
                outlook.witnesses.push(Witness::new(node, None, true));
            }
        }
        outlook
    }

    // ---- The side of the connections ----

    /// The server to connect to at `now`.
    pub(crate) fn verdict(&mut self, now: Instant) -> Verdict {
        self.wanted = Some(now);
        let answered = |witness: &Witness| !matches!(witness.said, Said::Nothing);
        let all_answered = self.witnesses.iter().all(answered);
        let deadline = self.first_answer.map(|first| first + GRACE);
        if !all_answered && deadline.is_none_or(|deadline| now < deadline) {
            return Verdict::Wait(deadline);
        }
        match self.destination(now) {
            Some(node) => Verdict::Go(node),
            None if all_answered => Verdict::None(self.reason()),
            None => Verdict::Wait(None),
        }
    }

    fn destination(&mut self, now: Instant) -> Option<Node> {
        if self.role == Role::Replica && !self.replicas.is_empty() {
            self.turn = self.turn.wrapping_add(1);
            return Some(self.replicas[self.turn % self.replicas.len()].clone());
        }
        if let Some((node, _, until)) = &self.selected
            && now < *until
        {
            return Some(node.clone());
        }
        self.master.as_ref().map(|(node, _)| node.clone())
    }

    /// Whether an open connection to this server may stay.
    pub(crate) fn allows(&self, node: &Node) -> bool {
        if self.role == Role::Replica && !self.replicas.is_empty() {
            return self.replicas.contains(node);
        }
        let is = |other: Option<&Node>| other == Some(node);
        is(self.master.as_ref().map(|(node, _)| node))
            || is(self.selected.as_ref().map(|(node, ..)| node))
    }

    /// A connection broke, or could not be made, so the sentinels are asked again.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.wanted = Some(now);
        self.hurry();
    }

    /// The number of changes so far.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether a failover is under way or just over, so that connections should try again soon.
    pub(crate) fn is_unsettled(&self, now: Instant) -> bool {
        let lately = |changed| now.saturating_duration_since(changed) < UNSETTLED;
        self.selected.is_some() || self.changed.is_some_and(lately)
    }

    // ---- The side of the sentinels ----

    /// All sentinels.
    pub(crate) fn sentinels(&self) -> impl Iterator<Item = &Node> {
        self.witnesses.iter().map(|witness| &witness.node)
    }

    /// When a sentinel is to be asked next; `None` if it is not one any more.
    pub(crate) fn ask_at(&self, sentinel: &Node, now: Instant) -> Option<Instant> {
        let witness = self.find(sentinel)?;
        let Some(asked) = witness.asked else {
            return Some(now);
        };
        let searching = self.wanted.is_some_and(|wanted| asked < wanted + SEARCH);
        Some(match (witness.is_due, searching) {
            (true, _) => asked + ASK_AGAIN,
            (false, true) => asked + ASK_EVERY,
            (false, false) => asked + IDLE,
        })
    }

    /// A sentinel was asked.
    pub(crate) fn asked(&mut self, sentinel: &Node, now: Instant) {
        if let Some(witness) = self.find_mut(sentinel) {
            witness.asked = Some(now);
            witness.is_due = false;
        }
    }

    /// A sentinel answered.
    pub(crate) fn answered(&mut self, sentinel: &Node, answer: Answer, now: Instant) {
        self.expire(now);
        if self.find(sentinel).is_none() {
            return;
        }
        self.first_answer.get_or_insert(now);
        self.meet(sentinel, &answer);
        if let Some(witness) = self.find_mut(sentinel) {
            witness.said = Said::Answered(answer);
        }
        self.decide(now);
    }

    /// The connection to a sentinel broke, or could not be made.
    pub(crate) fn failed(&mut self, sentinel: &Node, error: Error, now: Instant) {
        self.expire(now);
        let Some(witness) = self.find_mut(sentinel) else {
            return;
        };
        witness.said = Said::Failed(error);
        witness.asked = None;
        self.deselect_by(sentinel, now);
        // One that was learned, has gone, and is not named by the others any more.
        let named = |node: &Node| self.answers().any(|answer| answer.names(node));
        let gone: Vec<Node> = self
            .witnesses
            .iter()
            .filter(|witness| !witness.is_given && witness.has_failed() && !named(&witness.node))
            .map(|witness| witness.node.clone())
            .collect();
        self.witnesses
            .retain(|witness| !gone.contains(&witness.node));
        self.decide(now);
    }

    /// A sentinel published an event about the name.
    pub(crate) fn event(&mut self, sentinel: &Node, event: SentinelEvent, now: Instant) {
        self.expire(now);
        if let Some(witness) = self.find_mut(sentinel) {
            witness.is_due = true;
        }
        match event {
            SentinelEvent::Selected(node) => {
                self.selected = Some((node, sentinel.clone(), now + SELECTED));
                self.change(now);
            }
            // A candidate that lost the election says nothing about the failover of the leader.
            SentinelEvent::Aborted => self.deselect_by(sentinel, now),
            SentinelEvent::Changed => self.hurry(),
        }
    }

    fn expire(&mut self, now: Instant) {
        if self
            .selected
            .as_ref()
            .is_some_and(|(_, _, until)| now >= *until)
        {
            self.deselect(now);
        }
    }

    /// Drops the selected replica if this sentinel said so.
    fn deselect_by(&mut self, sentinel: &Node, now: Instant) {
        let selected = self.selected.as_ref();
        if selected.is_some_and(|(_, by, _)| by == sentinel) {
            self.deselect(now);
        }
    }

    fn deselect(&mut self, now: Instant) {
        if self.selected.take().is_some() {
            self.change(now);
        }
    }

    fn hurry(&mut self) {
        for witness in &mut self.witnesses {
            witness.is_due = true;
        }
    }

    fn change(&mut self, now: Instant) {
        self.version += 1;
        self.changed = Some(now);
    }

    /// Learns the name of a sentinel and of the others that it knows.
    fn meet(&mut self, sentinel: &Node, answer: &Answer) {
        if let Some(id) = &answer.id {
            let twin = |other: &Witness| {
                !other.is_given && other.node != *sentinel && other.id.as_ref() == Some(id)
            };
            self.witnesses.retain(|other| !twin(other));
            if let Some(witness) = self.find_mut(sentinel) {
                witness.id = Some(id.clone());
            }
        }
        for (id, node) in &answer.sentinels {
            let same = |known: &Witness| {
                known.node == *node || (id.is_some() && known.id.as_ref() == id.as_ref())
            };
            if !self.witnesses.iter().any(same) && self.witnesses.len() < MOST_SENTINELS {
                self.witnesses.push(Witness::new(node, id.clone(), false));
            }
        }
    }

    /// Takes the master from the answers there are.
    fn decide(&mut self, now: Instant) {
        let Some(epoch) = self.answers().filter_map(Answer::epoch).max() else {
            return;
        };
        let named: Vec<&Node> = self
            .answers()
            .filter(|answer| answer.epoch() == Some(epoch))
            .filter_map(|answer| answer.master.as_ref().map(|(node, _)| node))
            .collect();
        let votes = |node: &Node| named.iter().filter(|&&other| other == node).count();
        // The first of those with the most votes.
        let best = named.iter().rev().max_by_key(|node| votes(node));
        let Some(best) = best.map(|&node| node.clone()) else {
            return;
        };
        let (stays, confirmed) = match &self.master {
            None => (false, true),
            Some((node, known)) if epoch == *known => (votes(node) > 0, true),
            Some((_, known)) if epoch > *known => (false, true),
            // The sentinels were set up anew, or those that know better are away.
            Some(_) => {
                let answering = self.answers().count();
                let is_majority = 2 * answering > self.witnesses.len();
                let is_forgotten = now.saturating_duration_since(self.confirmed) >= FORGOTTEN;
                (!(is_majority && is_forgotten), is_forgotten)
            }
        };
        if confirmed {
            self.confirmed = now;
        }
        if stays {
            self.take_replicas(now);
            return;
        }
        let is_new = self.master.as_ref().is_none_or(|(node, _)| *node != best);
        self.master = Some((best, epoch));
        if is_new {
            self.selected = None;
            self.change(now);
        }
        self.take_replicas(now);
    }

    /// Takes the replicas of the master from the fullest list.
    fn take_replicas(&mut self, now: Instant) {
        let master = self.master.as_ref().map(|(node, _)| node);
        let lists = self
            .answers()
            .filter(|answer| answer.master.as_ref().map(|(node, _)| node) == master);
        let fullest = lists
            .map(|answer| &answer.replicas)
            .max_by_key(|list| list.len());
        let mut replicas = fullest.cloned().unwrap_or_default();
        replicas.sort();
        if replicas != self.replicas {
            self.replicas = replicas;
            self.change(now);
        }
    }

    /// The answers of the sentinels with an open connection.
    fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.witnesses
            .iter()
            .filter_map(|witness| match &witness.said {
                Said::Answered(answer) => Some(answer),
                _ => None,
            })
    }

    /// The reason why there is no server to connect to.
    fn reason(&self) -> Error {
        let asked = self.witnesses.len();
        let answered = self.answers().count();
        let name = &self.name;
        if answered > 0 {
            return Error::Sentinel(format!(
                "no sentinel knows a master named `{name}` ({answered} of {asked} answered)"
            ));
        }
        let mut failures = self
            .witnesses
            .iter()
            .filter_map(|witness| match &witness.said {
                Said::Failed(error) => Some((&witness.node, error)),
                _ => None,
            });
        let Some((node, error)) = failures.next_back() else {
            return Error::Sentinel(format!("no sentinel is known for the master `{name}`"));
        };
        let text = format!(
            "none of {asked} sentinels of `{name}` can be asked; the sentinel at {node}: {error}"
        );
        match error {
            Error::Connection { .. } | Error::Timeout { .. } => {
                Error::connection(io::Error::new(io::ErrorKind::NotConnected, text), false)
            }
            _ => Error::Sentinel(text),
        }
    }

    fn find(&self, sentinel: &Node) -> Option<&Witness> {
        self.witnesses
            .iter()
            .find(|witness| witness.node == *sentinel)
    }

    fn find_mut(&mut self, sentinel: &Node) -> Option<&mut Witness> {
        self.witnesses
            .iter_mut()
            .find(|witness| witness.node == *sentinel)
    }
}

impl Witness {
    fn new(node: &Node, id: Option<String>, is_given: bool) -> Self {
        Self {
            node: node.clone(),
            id,
            is_given,
            said: Said::Nothing,
            asked: None,
            is_due: false,
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.said, Said::Failed(_))
    }
}

impl From<&Sentinel> for Outlook {
    fn from(sentinel: &Sentinel) -> Self {
        let settings = sentinel.settings();
        Self::new(
            &settings.name,
            settings.role,
            &settings.sentinels,
            Instant::now(),
        )
    }
}
