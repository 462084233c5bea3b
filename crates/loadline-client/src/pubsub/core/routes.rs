//! On which lane a subscription belongs, and how it gets from one to another.
//!
//! Channels and patterns are on the main lane, which may be to any node, since nodes tell each other what is
//! published. A sharded channel is known only to the nodes of its slot, so it is on the lane to the master of
//! that slot, and follows the slot. Its new lane announces possible gaps once the subscription is
//! confirmed there.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;

use super::lane::Lane;
use super::{Core, LaneId};
use crate::cluster::topology::Topology;
use crate::cluster::{Node, Refusal, slot_of};
use crate::pubsub::Kind;
use crate::pubsub::tickets::TicketId;
use crate::pubsub::wanted::Standing;
use crate::{Config, Error};

/// How many redirections a name follows before it waits for a new map.
const MOST_MOVES: u8 = 5;

/// What is known of a cluster.
#[derive(Debug)]
pub(super) struct Routes {
    topology: Topology,
    /// Nodes to connect to where the map names none.
    seeds: Vec<Node>,
    /// Counts up, so that the main lane tries one node after the other.
    turn: usize,
    lanes: u64,
    /// Whether something has shown that the map is old.
    stale: bool,
    /// Lanes without a driver.
    new: Vec<LaneId>,
    #[cfg(feature = "tokio")]
    pub(super) starter: Option<Waker>,
    #[cfg(feature = "tokio")]
    pub(super) refresher: Option<Waker>,
}

impl Core {
    /// The subscriptions on a cluster. The main lane begins with the node that `turn` says.
    pub(crate) fn of_cluster(
        config: Config,
        topology: Topology,
        seeds: Vec<Node>,
        turn: usize,
        now: Instant,
    ) -> Self {
        let mut core = Self::new(Arc::new(config), now);
        core.routes = Some(Routes {
            topology,
            seeds,
            turn,
            lanes: LaneId::MAIN.0,
            stale: false,
            new: Vec::new(),
            #[cfg(feature = "tokio")]
            starter: None,
            #[cfg(feature = "tokio")]
            refresher: None,
        });
        core
    }

    /// The node that the next connection of a lane is to; `None` on a single server. The
    /// main lane takes another one each time.
    pub(crate) fn target(&mut self, id: LaneId) -> Option<Node> {
        let routes = self.routes.as_mut()?;
        let lane = self.lanes.get_mut(&id)?;
        if id == LaneId::MAIN {
            let nodes: Vec<&Node> = match routes.topology.nodes().collect::<Vec<_>>() {
                nodes if nodes.is_empty() => routes.seeds.iter().collect(),
                nodes => nodes,
            };
            let place = routes.turn.checked_rem(nodes.len())?;
            routes.turn = routes.turn.wrapping_add(1);
            lane.node = Some(nodes[place].clone());
        }
        lane.node.clone()
    }

    /// How many nodes the main lane can be to; one on a single server.
    pub(crate) fn candidates(&self) -> usize {
        let routes = self.routes.as_ref();
        let count = routes.map(|routes| routes.topology.nodes().count().max(routes.seeds.len()));
        count.unwrap_or(1).max(1)
    }

    /// Lanes that are to be driven from now on.
    pub(crate) fn take_new(&mut self) -> Vec<LaneId> {
        let routes = self.routes.as_mut();
        routes.map_or_else(Vec::new, |routes| std::mem::take(&mut routes.new))
    }

    /// Whether a new map is wanted.
    pub(crate) fn is_stale(&self) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.stale)
    }

    /// Whether a lane is not needed any more.
    pub(crate) fn has_ended(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_none_or(|lane| lane.ended)
    }

    /// Removes a lane whose driver has ended.
    pub(crate) fn remove(&mut self, lane: LaneId) {
        self.lanes.remove(&lane);
        self.queue.forget(lane);
    }

    /// Takes over a new map. What belongs elsewhere goes there, and what belonged nowhere is tried again.
    pub(crate) fn install(&mut self, topology: Topology, now: Instant, wake: &mut Vec<Waker>) {
        let Some(routes) = self.routes.as_mut() else {
            return;
        };
        routes.topology = topology;
        routes.stale = false;
        for (kind, name) in self.wanted.names() {
            if kind != Kind::Shard {
                continue;
            }
            let standing = self.wanted.of(kind).entry(name.clone()).or_default();
            standing.moves = 0;
            let lane = standing.lane;
            let owner = self.owner(&name);
            let node = lane.and_then(|lane| self.lanes.get(&lane)?.node.as_ref());
            // A map without an owner is no reason to leave a node that serves the slot.
            if node.is_none() || (owner.is_some() && node != owner.as_ref()) {
                self.displace(&name, now);
            }
        }
        // The main lane's driver looks whether its node is still there.
        self.nudge(LaneId::MAIN);
        wake.append(&mut self.nudged);
    }

    /// Puts a subscription on its lane, and asks for it there if that stands.
    pub(super) fn place(&mut self, kind: Kind, name: &Bytes, now: Instant) {
        let lane = self.lane_of(kind, name, now);
        let Some(standing) = self.wanted.of(kind).get_mut(name) else {
            return;
        };
        (standing.lane, standing.asked, standing.confirmed) = (lane, None, false);
        let Some((id, lane)) = lane.and_then(|id| Some((id, self.lanes.get_mut(&id)?))) else {
            return;
        };
        if let Some(since) = standing.lost_since {
            lane.lose(since);
            self.queue.hold(id);
        }
        if lane.is_ready() {
            let number = lane.ask_subscribe(kind, name, now);
            standing.asked = Some(number);
            if standing.lost_since.is_some() {
                lane.resubscribed_by = Some(number);
            }
            self.nudge(id);
        }
    }

    /// Takes a sharded channel from its lane to where it belongs. Whether it stood there still, nobody
    /// knows, so a gap begins with the last byte of that lane.
    fn displace(&mut self, name: &Bytes, now: Instant) {
        let Some(standing) = self.wanted.of(Kind::Shard).get_mut(name) else {
            return;
        };
        if let Some(id) = standing.lane.take()
            && let Some(lane) = self.lanes.get_mut(&id)
        {
            if standing.confirmed {
                standing.lost_since.get_or_insert(lane.session.heard());
            }
            if standing.asked.is_some() && lane.is_ready() {
                lane.ask_unsubscribe(Kind::Shard, name.clone(), None, now);
            }
            lane.left = true;
            self.nudge(id);
        }
        self.place(Kind::Shard, name, now);
    }

    /// The server has ended the subscription to a sharded channel unasked, since its slot went elsewhere.
    /// It is asked again, and says where.
    pub(super) fn ended_by_server(&mut self, id: LaneId, name: &[u8], now: Instant) {
        let Some(name) = self.wanted.name(Kind::Shard, name) else {
            return;
        };
        let since = self.lane(id).heard_before;
        let Some(standing) = self.wanted.of(Kind::Shard).get_mut(&name) else {
            return;
        };
        if standing.lane != Some(id) || !standing.confirmed {
            return;
        }
        standing.confirmed = false;
        standing.lost_since.get_or_insert(since);
        let lane = self.lane(id);
        lane.lose(since);
        let number = lane.ask_subscribe(Kind::Shard, &name, now);
        lane.resubscribed_by = Some(number);
        self.queue.hold(id);
        if let Some(standing) = self.wanted.of(Kind::Shard).get_mut(&name) {
            standing.asked = Some(number);
        }
    }

    /// Sends a sharded channel that a node has refused to where it says; whether it said so.
    pub(super) fn redirected(
        &mut self,
        id: LaneId,
        name: &Bytes,
        error: &Error,
        now: Instant,
    ) -> bool {
        let Some(refusal) = self.refusal(id, error) else {
            return false;
        };
        let Some(standing) = self.wanted.of(Kind::Shard).get_mut(name) else {
            return true;
        };
        (standing.lane, standing.asked) = (None, None);
        standing.moves = standing.moves.saturating_add(1);
        let follows = standing.moves <= MOST_MOVES;
        self.lane(id).left = true;
        match (refusal, self.routes.as_mut()) {
            (Refusal::Moved(slot, node), Some(routes)) if follows => {
                routes.topology.moved(slot, node);
                self.place(Kind::Shard, name, now);
            }
            // It is placed again with the next map.
            _ => self.want_map(),
        }
        true
    }

    /// Why a node of a cluster did not take a question, if that is because of its slots.
    pub(super) fn refusal(&mut self, id: LaneId, error: &Error) -> Option<Refusal> {
        let Error::Server(answer) = error else {
            return None;
        };
        let lane = self.lane(id);
        Refusal::read(answer.text(), lane.node.as_ref()?)
    }

    /// Ends a subscription on its lane; whether the server is asked to.
    pub(super) fn leave(
        &mut self,
        id: LaneId,
        kind: Kind,
        name: Bytes,
        standing: &Standing,
        ticket: Option<TicketId>,
        now: Instant,
    ) -> bool {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return false;
        };
        lane.left = true;
        if standing.asked.is_none() {
            return false;
        }
        lane.ask_unsubscribe(kind, name, ticket, now);
        self.nudge(id);
        true
    }

    /// A lane to a node that serves nothing of interest any more has ended.
    pub(super) fn end_if_unused(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let may_end = id != LaneId::MAIN && lane.left && lane.expected.is_empty();
        if may_end {
            lane.left = false;
            lane.ended = !self.wanted.is_on(id);
        }
    }

    /// The main lane leaves a node that is no longer on the map: such a node receives no messages any more.
    pub(super) fn leave_lost_node(&self, id: LaneId) -> Result<(), Error> {
        let (Some(routes), Some(lane)) = (&self.routes, self.lanes.get(&id)) else {
            return Ok(());
        };
        let Some(node) = lane.node.as_ref().filter(|_| id == LaneId::MAIN) else {
            return Ok(());
        };
        let lost = lane.is_ready()
            && routes.topology.covered() > 0
            && !routes.topology.nodes().any(|known| known == node);
        if lost {
            return Err(Error::Cluster(format!(
                "the node {node} is not on the map of the cluster any more; another one is taken"
            )));
        }
        Ok(())
    }

    /// Something has shown that the map is old.
    pub(super) fn want_map(&mut self) {
        let Some(routes) = self.routes.as_mut() else {
            return;
        };
        routes.stale = true;
        #[cfg(feature = "tokio")]
        self.nudged.extend(routes.refresher.take());
    }

    /// The lane of a subscription, added if necessary; none if no node serves its slot.
    fn lane_of(&mut self, kind: Kind, name: &[u8], now: Instant) -> Option<LaneId> {
        if kind != Kind::Shard || self.routes.is_none() {
            return Some(LaneId::MAIN);
        }
        let Some(node) = self.owner(name) else {
            self.want_map();
            return None;
        };
        let to_node = |id: &LaneId, lane: &Lane| {
            let fits = *id != LaneId::MAIN && !lane.ended && lane.node.as_ref() == Some(&node);
            fits.then_some(*id)
        };
        if let Some(id) = self.lanes.iter().find_map(|(id, lane)| to_node(id, lane)) {
            return Some(id);
        }
        let routes = self.routes.as_mut()?;
        routes.lanes += 1;
        let id = LaneId(routes.lanes);
        routes.new.push(id);
        #[cfg(feature = "tokio")]
        self.nudged.extend(routes.starter.take());
        let lane = Lane::new(Some(node), &self.config, now);
        self.lanes.insert(id, Box::new(lane));
        Some(id)
    }

    /// The master of a channel's slot.
    fn owner(&self, name: &[u8]) -> Option<Node> {
        let shard = self.routes.as_ref()?.topology.shard(slot_of(name))?;
        Some(shard.master.clone())
    }

    /// The driver of this lane has something to do.
    #[cfg_attr(
        not(feature = "tokio"),
        expect(clippy::unused_self, reason = "one thread drives all lanes")
    )]
    fn nudge(&mut self, lane: LaneId) {
        #[cfg(feature = "tokio")]
        if let Some(lane) = self.lanes.get_mut(&lane) {
            self.nudged.extend(lane.driver.take());
        }
        #[cfg(not(feature = "tokio"))]
        let _ = lane;
    }
}
