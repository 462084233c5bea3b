//! A request on its way through a cluster, as a state that replies change.
//!
//! The plain version: send each unit to the node of its slot. Send a refused unit (`MOVED`, `ASK`) to the node that
//! the refusal names, and a unit that cannot be served yet after a pause. End when every unit has an answer or the
//! time is over. A refused unit was not executed, so it can always be sent again. After a lost connection the retry
//! policy decides.
//!
//! Commands on the same slot are executed in their order: a refused command is not sent again after a later command
//! on its slot was executed, and fails with the refusal.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::ReadFrom;
use super::plan::Plan;
use super::refusal::Refusal;
use super::replies::Outcome;
use super::topology::{Node, Shard, Topology};
use crate::conn::backoff::Backoff;
use crate::conn::session::MOST_TRIES;
use crate::flags::Flags;
use crate::request::{Replies, Request, Requests, Summary};
use crate::{Config, Error, RetryPolicy};

/// The number of redirections that a unit follows.
const MOST_REDIRECTIONS: u8 = 5;

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Batch<'p> {
    plan: &'p Plan,
    policy: RetryPolicy,
    deadline: Option<Instant>,
    fates: Vec<Fate>,
    backoff: Backoff,
    rounds: u32,
    /// The slots and masters that redirections named.
    moved: Vec<(u16, Node)>,
    /// Whether a node was lost or did not serve, in this round.
    trouble: bool,
}

/// The state of a unit and its history.
#[derive(Debug)]
struct Fate {
    state: UnitState,
    via: Via,
    redirections: u8,
    /// Number of tries in which a node may have executed it, on connections that are gone.
    tries: u8,
    /// The error of the last of these. It is the outcome if no node answers after it, since a refusal says
    /// nothing about the earlier try.
    lost: Option<Error>,
}

#[derive(Debug)]
enum UnitState {
    /// To be sent, with the outcomes if that becomes impossible.
    Open(Vec<Outcome>),
    Done(Vec<Outcome>),
    /// Not executed, and not to be sent again.
    GivenUp(Vec<Outcome>),
}

/// Where a unit is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Via {
    /// To a node of its slot.
    Slot,
    /// To the master of its slot.
    Master,
    /// To this node.
    Node(Node),
    /// To this node, which serves it only after `ASKING`.
    Asking(Node),
}

/// Units for one node, as one request.
#[derive(Debug)]
pub(crate) struct Group<'p> {
    pub(crate) node: Node,
    plan: &'p Plan,
    units: Vec<GroupUnit>,
}

#[derive(Debug)]
struct GroupUnit {
    unit: usize,
    asking: bool,
}

/// The next action after a round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// End: every unit has its answer.
    Finish,
    /// Another round after this pause.
    Again(Duration),
}

impl<'p> Batch<'p> {
    pub(crate) fn new(plan: &'p Plan, config: &Config, now: Instant) -> Self {
        let allowed = config
            .response_timeout
            .and_then(|timeout| timeout.checked_add(plan.wait()));
        let open = |_| Fate {
            state: UnitState::Open(Vec::new()),
            via: Via::Slot,
            redirections: 0,
            tries: 0,
            lost: None,
        };
        Self {
            plan,
            policy: config.retry,
            deadline: allowed.and_then(|allowed| now.checked_add(allowed)),
            fates: plan.units().iter().map(open).collect(),
            backoff: Backoff::new(),
            rounds: 0,
            moved: Vec::new(),
            trouble: false,
        }
    }

    /// The deadline of the request.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The deadline of the replies to this round. In the first round the connections ensure it themselves.
    pub(crate) fn limit(&self) -> Option<Instant> {
        self.deadline.filter(|_| self.rounds > 1)
    }

    /// The units to send in this round, by node. `turn` decides which replica reads. If the time is over since the last
    /// round, for example as the map was asked for until now, the open units are given up.
    pub(crate) fn groups(
        &mut self,
        topology: &Topology,
        from: ReadFrom,
        turn: u64,
        now: Instant,
    ) -> Vec<Group<'p>> {
        if self.rounds > 0 && self.deadline.is_some_and(|deadline| now >= deadline) {
            self.fates.iter_mut().for_each(Fate::give_up);
        }
        let plan = self.plan;
        let from = if plan.reads() { from } else { ReadFrom::Master };
        let mut groups: Vec<Group<'p>> = Vec::new();
        // The node of each slot in this round. In the first round all units of a slot go to the same node.
        let mut taken: HashMap<u16, Option<Node>> = HashMap::new();
        for (unit, fate) in self.fates.iter_mut().enumerate() {
            let UnitState::Open(last) = &mut fate.state else {
                continue;
            };
            let slot = plan.units()[unit].slot();
            let node = fate.via.node(slot, topology, from, turn);
            if self.rounds > 0
                && taken.entry(slot).or_insert_with(|| node.cloned()).as_ref() != node
            {
                // It waits for the units before it.
                continue;
            }
            let Some(node) = node else {
                self.trouble = true;
                *last = repeated(plan, unit, &unserved(slot));
                continue;
            };
            let asking = matches!(fate.via, Via::Asking(_));
            let unit = GroupUnit { unit, asking };
            match groups.iter_mut().find(|group| group.node == *node) {
                Some(group) => group.units.push(unit),
                None => groups.push(Group {
                    node: node.clone(),
                    plan,
                    units: vec![unit],
                }),
            }
        }
        self.rounds += 1;
        groups
    }

    /// Takes the outcomes of a group's commands, in their order.
    pub(crate) fn settle(&mut self, group: &Group<'p>, outcomes: Vec<Outcome>) {
        self.settle_rest(group, 0, outcomes);
    }

    /// As [`Batch::settle`], if the answers to the first units were handed out already.
    pub(crate) fn settle_rest(
        &mut self,
        group: &Group<'p>,
        handed_out: usize,
        outcomes: Vec<Outcome>,
    ) {
        let (handed_out, rest) = group.units.split_at(handed_out);
        for GroupUnit { unit, .. } in handed_out {
            self.fates[*unit].state = UnitState::Done(Vec::new());
        }
        let mut outcomes = outcomes.into_iter();
        let mut lost = Vec::new();
        for &GroupUnit { unit, asking } in rest {
            if asking {
                // If it was refused, so is the command after it.
                outcomes.next();
            }
            let commands = self.plan.units()[unit].summary().commands as usize;
            let outcomes: Vec<Outcome> = outcomes.by_ref().take(commands).collect();
            if let Some(error) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
                lost.push((unit, error.clone()));
                continue;
            }
            let own = outcomes.len() - self.plan.units()[unit].waits();
            match Refusal::of(&outcomes[..own], &group.node) {
                None => self.fates[unit].state = UnitState::Done(outcomes),
                Some(refusal) => self.refused(unit, refusal, outcomes),
            }
        }
        self.lost(lost);
    }

    /// The next action. If the time is over, the open units are given up.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.keep_order();
        let open = |fate: &Fate| matches!(fate.state, UnitState::Open(_));
        if !self.fates.iter().any(open) {
            return Next::Finish;
        }
        let pause = if self.trouble {
            self.backoff.failed(now)
        } else {
            Duration::ZERO
        };
        self.trouble = false;
        if self
            .deadline
            // The answer after the pause needs some time too.
            .is_some_and(|deadline| now + 2 * pause >= deadline)
        {
            self.fates.iter_mut().for_each(Fate::give_up);
            return Next::Finish;
        }
        Next::Again(pause)
    }

    /// The slots whose new masters were named by redirections since the last call.
    pub(crate) fn take_moved(&mut self) -> Vec<(u16, Node)> {
        std::mem::take(&mut self.moved)
    }

    /// Whether the map can be wrong: a node was lost or does not serve its slots.
    pub(crate) fn is_troubled(&self) -> bool {
        self.trouble
    }

    /// The outcomes of the commands of the request, without those that were handed out.
    pub(crate) fn finish(self) -> Vec<Outcome> {
        let plan = self.plan;
        let fates = self.fates.into_iter().enumerate();
        let outcomes = fates.map(|(unit, fate)| match (fate.state, fate.lost) {
            (UnitState::Done(last), _) => last,
            (UnitState::Open(_) | UnitState::GivenUp(_), Some(lost)) => repeated(plan, unit, &lost),
            (UnitState::Open(last) | UnitState::GivenUp(last), None) => last,
        });
        plan.answer(outcomes.collect())
    }

    fn refused(&mut self, unit: usize, refusal: Refusal, outcomes: Vec<Outcome>) {
        let fate = &mut self.fates[unit];
        fate.state = UnitState::Open(outcomes);
        fate.via = match refusal {
            Refusal::Moved(slot, node) => {
                self.moved.push((slot, node.clone()));
                fate.redirections += 1;
                Via::Node(node)
            }
            Refusal::Ask(node) => {
                fate.redirections += 1;
                Via::Asking(node)
            }
            Refusal::Later => {
                self.trouble = true;
                Via::Master
            }
        };
        if fate.redirections > MOST_REDIRECTIONS {
            fate.give_up();
        }
    }

    /// Handles the units of a group whose connection failed. They were one request, and are sent again together or
    /// not at all.
    fn lost(&mut self, lost: Vec<(usize, Error)>) {
        let together = lost.iter().fold(Flags::READ_ONLY, |flags, (unit, _)| {
            flags.together(self.plan.units()[*unit].summary().flags)
        });
        for (unit, error) in lost {
            self.trouble |= !matches!(
                error,
                Error::Usage(_) | Error::QueueFull { .. } | Error::Closed { .. }
            );
            let fate = &mut self.fates[unit];
            let reads = self.plan.units()[unit].summary().flags;
            let harmless = !error.maybe_executed() || reads.contains(Flags::READ_ONLY);
            if matches!(error, Error::Timeout { .. }) && harmless && fate.has_last() {
                // The deadline cut this round off, and says less than the last reply.
                fate.give_up();
                continue;
            }
            fate.tries += u8::from(error.maybe_executed());
            // A connection that is closed does not come back: the runtime of the cluster has ended.
            let broken = matches!(error, Error::Connection { .. });
            let allowed = !error.maybe_executed() || self.policy.allows(together);
            let error = error.with_executed(fate.tries > 0);
            let outcomes = repeated(self.plan, unit, &error);
            fate.lost = error.maybe_executed().then_some(error);
            fate.via = Via::Master;
            fate.state = if broken && allowed && fate.tries < MOST_TRIES {
                UnitState::Open(outcomes)
            } else {
                UnitState::Done(outcomes)
            };
        }
    }

    /// Gives up units that must not be sent any more, since a later command on their slot was executed. A key that
    /// is being moved is not on the node that executed the others, so its order is kept.
    fn keep_order(&mut self) {
        if self.plan.reads() || self.fates.len() == 1 {
            return;
        }
        let mut executed = HashSet::new();
        for (fate, unit) in self.fates.iter_mut().zip(self.plan.units()).rev() {
            match &fate.state {
                UnitState::Done(_) => {
                    executed.insert(unit.slot());
                }
                UnitState::Open(_) if !matches!(fate.via, Via::Asking(_)) => {
                    if executed.contains(&unit.slot()) {
                        fate.give_up();
                    }
                }
                UnitState::Open(_) | UnitState::GivenUp(_) => {}
            }
        }
    }
}

impl Group<'_> {
    /// The indexes of its units in the plan.
    pub(crate) fn units(&self) -> impl ExactSizeIterator<Item = usize> {
        self.units.iter().map(|unit| unit.unit)
    }
}

impl Fate {
    /// Whether a round before brought a reply, or the reason why there was none.
    fn has_last(&self) -> bool {
        matches!(&self.state, UnitState::Open(last) if !last.is_empty())
    }

    fn give_up(&mut self) {
        if let UnitState::Open(last) = &mut self.state {
            self.state = UnitState::GivenUp(std::mem::take(last));
        }
    }
}

impl Via {
    fn node<'n>(
        &'n self,
        slot: u16,
        topology: &'n Topology,
        from: ReadFrom,
        turn: u64,
    ) -> Option<&'n Node> {
        match self {
            Self::Node(node) | Self::Asking(node) => Some(node),
            Self::Master => Some(&topology.shard(slot)?.master),
            Self::Slot => Some(reader(topology.shard(slot)?, from, turn)),
        }
    }
}

/// The node of a shard from which a request reads.
fn reader(shard: &Shard, from: ReadFrom, turn: u64) -> &Node {
    let replicas = shard.replicas.len() as u64;
    let choices = match from {
        ReadFrom::Master => return &shard.master,
        ReadFrom::Near if shard.near > 0 => shard.near as u64,
        ReadFrom::Replica | ReadFrom::Near => replicas,
        ReadFrom::Any => replicas + 1,
    };
    // The index after the replicas is the master, which also reads if there are none.
    let choice = turn.checked_rem(choices).unwrap_or(replicas);
    shard.replicas.get(choice as usize).unwrap_or(&shard.master)
}

/// The error for a slot that no node serves.
pub(crate) fn unserved(slot: u16) -> Error {
    Error::Cluster(format!(
        "no node of the cluster serves slot {slot}; nothing was sent"
    ))
}

/// The same error for each command of a unit.
fn repeated(plan: &Plan, unit: usize, error: &Error) -> Vec<Outcome> {
    let commands = plan.units()[unit].summary().commands as usize;
    vec![Err(error.clone()); commands]
}

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
const ASKING_SUMMARY: Summary = Summary {
    commands: 1,
    flags: Flags::READ_ONLY,
    name: "ASKING",
    wait: Duration::ZERO,
};

impl Request for Group<'_> {
    type Output = Vec<Outcome>;

    fn commands(&self) -> usize {
        let units = self.units.iter();
        units
            .map(|GroupUnit { unit, asking }| {
                self.plan.units()[*unit].summary().commands as usize + usize::from(*asking)
            })
            .sum()
    }

    fn encode(&self, out: &mut Requests<'_>) {
        for &GroupUnit { unit, asking } in &self.units {
            if asking {
                out.raw(ASKING, &ASKING_SUMMARY);
            }
            out.raw(self.plan.bytes(unit), self.plan.units()[unit].summary());
        }
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Vec<Outcome> {
        (0..self.commands())
            .map(|_| replies.next().map(|reply| reply.to_owned()))
            .collect()
    }
}
