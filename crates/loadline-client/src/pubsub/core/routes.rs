//! The connection of each subscription, and how a subscription moves to another one.
//!
//! Channels and patterns are on the main connection, which can be to any node, since nodes forward published
//! messages to each other. A sharded channel is known only to the nodes of its slot, so it is on the connection
//! to the master of that slot, and follows the slot. The new connection announces what the channel can have
//! missed, once the node has confirmed it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;

use super::connection::ConnectionState;
use super::{ConnectionId, Core};
use crate::cluster::topology::Topology;
use crate::cluster::{Node, Refusal, slot_of};
use crate::pubsub::Kind;
use crate::pubsub::tickets::TicketId;
use crate::pubsub::wanted::Subscription;
use crate::{Config, Error};

/// The redirections that a name follows before it waits for a new map.
const MOST_MOVES: u8 = 5;

/// The state of a subscriber on a cluster.
#[derive(Debug)]
pub(super) struct Routes {
    topology: Topology,
    /// Nodes to connect to if the map names none.
    seeds: Vec<Node>,
    /// Counts up, so that the main connection tries the nodes in turn.
    turn: usize,
    /// The number of the newest connection.
    newest: u64,
    /// Whether something has shown that the map is outdated.
    stale: bool,
    /// Connections without a driver.
    new: Vec<ConnectionId>,
    #[cfg(feature = "tokio")]
    pub(super) starter: Option<Waker>,
    #[cfg(feature = "tokio")]
    pub(super) refresher: Option<Waker>,
}

impl Core {
    /// The subscriptions on a cluster. `turn` selects the first node of the main connection.
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
            newest: ConnectionId::MAIN.0,
            stale: false,
            new: Vec::new(),
            #[cfg(feature = "tokio")]
            starter: None,
            #[cfg(feature = "tokio")]
            refresher: None,
        });
        core
    }

    /// The node to connect to next; `None` on a single server. The main connection takes another one each
    /// time.
    pub(crate) fn target(&mut self, id: ConnectionId) -> Option<Node> {
        let routes = self.routes.as_mut()?;
        let connection = self.connections.get_mut(&id)?;
        if id == ConnectionId::MAIN {
            let nodes: Vec<&Node> = match routes.topology.nodes().collect::<Vec<_>>() {
                nodes if nodes.is_empty() => routes.seeds.iter().collect(),
                nodes => nodes,
            };
            let place = routes.turn.checked_rem(nodes.len())?;
            routes.turn = routes.turn.wrapping_add(1);
            connection.node = Some(nodes[place].clone());
        }
        let node = connection.node.clone()?;
        connection.session.goes_to(&node);
        Some(node)
    }

    /// The number of nodes that the main connection can use; one on a single server.
    pub(crate) fn candidates(&self) -> usize {
        let routes = self.routes.as_ref();
        let count = routes.map(|routes| routes.topology.nodes().count().max(routes.seeds.len()));
        count.unwrap_or(1).max(1)
    }

    /// Takes the connections that need a driver from now on.
    pub(crate) fn take_new(&mut self) -> Vec<ConnectionId> {
        let routes = self.routes.as_mut();
        routes.map_or_else(Vec::new, |routes| std::mem::take(&mut routes.new))
    }

    /// Whether a new map is wanted.
    pub(crate) fn is_stale(&self) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.stale)
    }

    /// Whether a connection is not needed any more.
    pub(crate) fn has_ended(&self, connection: ConnectionId) -> bool {
        self.connections
            .get(&connection)
            .is_none_or(|connection| connection.ended)
    }

    /// Removes a connection whose driver has ended.
    pub(crate) fn remove(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.queue.forget(connection);
    }

    /// Installs a new map. Subscriptions move to their new nodes, and those without a node are tried again.
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
            let subscription = self.wanted.of(kind).entry(name.clone()).or_default();
            subscription.moves = 0;
            let connection = subscription.connection;
            let owner = self.owner(&name);
            let node =
                connection.and_then(|connection| self.connections.get(&connection)?.node.as_ref());
            // A map without a master for the slot is no reason to leave a node that serves it.
            if node.is_none() || (owner.is_some() && node != owner.as_ref()) {
                self.displace(&name, now);
            }
        }
        // The driver of the main connection checks that its node is still on the map.
        self.nudge(ConnectionId::MAIN);
        wake.append(&mut self.nudged);
    }

    /// Assigns a subscription to its connection, and asks for it if that connection is ready.
    pub(super) fn place(&mut self, kind: Kind, name: &Bytes, now: Instant) {
        let connection = self.connection_of(kind, name, now);
        let Some(subscription) = self.wanted.of(kind).get_mut(name) else {
            return;
        };
        (
            subscription.connection,
            subscription.asked,
            subscription.confirmed,
        ) = (connection, None, false);
        let Some((id, connection)) =
            connection.and_then(|id| Some((id, self.connections.get_mut(&id)?)))
        else {
            return;
        };
        if let Some(since) = subscription.lost_since {
            connection.lose(since);
            self.queue.hold(id);
        }
        if connection.is_ready() {
            let number = connection.ask_subscribe(kind, name, now);
            subscription.asked = Some(number);
            if subscription.lost_since.is_some() {
                connection.resubscribed_by = Some(number);
            }
            self.nudge(id);
        }
    }

    /// Moves a sharded channel to another connection. The old node may have ended the subscription already, so
    /// a gap begins with the last byte of the old connection.
    fn displace(&mut self, name: &Bytes, now: Instant) {
        let Some(subscription) = self.wanted.of(Kind::Shard).get_mut(name) else {
            return;
        };
        if let Some(id) = subscription.connection.take()
            && let Some(connection) = self.connections.get_mut(&id)
        {
            if subscription.confirmed {
                subscription
                    .lost_since
                    .get_or_insert(connection.session.heard());
            }
            if subscription.asked.is_some() && connection.is_ready() {
                connection.ask_unsubscribe(Kind::Shard, name.clone(), None, now);
            }
            connection.left = true;
            self.nudge(id);
        }
        self.place(Kind::Shard, name, now);
    }

    /// The server has ended the subscription to a sharded channel unasked, since its slot has moved. It is
    /// asked again, and its reply names the new node.
    pub(super) fn ended_by_server(&mut self, id: ConnectionId, name: &[u8], now: Instant) {
        let Some(name) = self.wanted.name(Kind::Shard, name) else {
            return;
        };
        let since = self.connection(id).heard_before;
        let Some(subscription) = self.wanted.of(Kind::Shard).get_mut(&name) else {
            return;
        };
        if subscription.connection != Some(id) || !subscription.confirmed {
            return;
        }
        subscription.confirmed = false;
        subscription.lost_since.get_or_insert(since);
        let connection = self.connection(id);
        connection.lose(since);
        let number = connection.ask_subscribe(Kind::Shard, &name, now);
        connection.resubscribed_by = Some(number);
        self.queue.hold(id);
        if let Some(subscription) = self.wanted.of(Kind::Shard).get_mut(&name) {
            subscription.asked = Some(number);
        }
    }

    /// Moves a sharded channel that a node has refused to the node that the refusal names. False if the error
    /// is not about slots.
    pub(super) fn redirected(
        &mut self,
        id: ConnectionId,
        name: &Bytes,
        error: &Error,
        now: Instant,
    ) -> bool {
        let Some(refusal) = self.refusal(id, error) else {
            return false;
        };
        let Some(subscription) = self.wanted.of(Kind::Shard).get_mut(name) else {
            return true;
        };
        (subscription.connection, subscription.asked) = (None, None);
        subscription.moves = subscription.moves.saturating_add(1);
        let follows = subscription.moves <= MOST_MOVES;
        self.connection(id).left = true;
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

    /// Reads an error by which a node of a cluster refuses a slot.
    pub(super) fn refusal(&mut self, id: ConnectionId, error: &Error) -> Option<Refusal> {
        let Error::Server(answer) = error else {
            return None;
        };
        let connection = self.connection(id);
        Refusal::read(answer.text(), connection.node.as_ref()?)
    }

    /// Ends a subscription on its connection. True if the server is asked to end it.
    pub(super) fn leave(
        &mut self,
        id: ConnectionId,
        kind: Kind,
        name: Bytes,
        subscription: &Subscription,
        ticket: Option<TicketId>,
        now: Instant,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        connection.left = true;
        if subscription.asked.is_none() {
            return false;
        }
        connection.ask_unsubscribe(kind, name, ticket, now);
        self.nudge(id);
        true
    }

    /// Ends a connection that carries no subscription any more.
    pub(super) fn end_if_unused(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let may_end = id != ConnectionId::MAIN && connection.left && connection.expected.is_empty();
        if may_end {
            connection.left = false;
            connection.ended = !self.wanted.is_on(id);
        }
    }

    /// Fails if the node of the main connection is not on the map any more: the others forward nothing to it.
    ///
    /// # Errors
    /// `Cluster`, so that another node is taken.
    pub(super) fn leave_lost_node(&self, id: ConnectionId) -> Result<(), Error> {
        let (Some(routes), Some(connection)) = (&self.routes, self.connections.get(&id)) else {
            return Ok(());
        };
        let Some(node) = connection
            .node
            .as_ref()
            .filter(|_| id == ConnectionId::MAIN)
        else {
            return Ok(());
        };
        let lost = connection.is_ready()
            && routes.topology.covered() > 0
            && !routes.topology.nodes().any(|known| known == node);
        if lost {
            return Err(Error::Cluster(format!(
                "the node {node} is not on the map of the cluster any more; another one is taken"
            )));
        }
        Ok(())
    }

    /// Asks for a new map, since something has shown that this one is outdated.
    pub(super) fn want_map(&mut self) {
        let Some(routes) = self.routes.as_mut() else {
            return;
        };
        routes.stale = true;
        #[cfg(feature = "tokio")]
        self.nudged.extend(routes.refresher.take());
    }

    /// The connection of a subscription, which is added if there is none yet; `None` if no node serves its slot.
    fn connection_of(&mut self, kind: Kind, name: &[u8], now: Instant) -> Option<ConnectionId> {
        if kind != Kind::Shard || self.routes.is_none() {
            return Some(ConnectionId::MAIN);
        }
        let Some(node) = self.owner(name) else {
            self.want_map();
            return None;
        };
        let to_node = |id: &ConnectionId, connection: &ConnectionState| {
            let fits = *id != ConnectionId::MAIN
                && !connection.ended
                && connection.node.as_ref() == Some(&node);
            fits.then_some(*id)
        };
        if let Some(id) = self
            .connections
            .iter()
            .find_map(|(id, connection)| to_node(id, connection))
        {
            return Some(id);
        }
        let routes = self.routes.as_mut()?;
        routes.newest += 1;
        let id = ConnectionId(routes.newest);
        routes.new.push(id);
        #[cfg(feature = "tokio")]
        self.nudged.extend(routes.starter.take());
        let connection = ConnectionState::new(Some(node), &self.config, now);
        self.connections.insert(id, Box::new(connection));
        Some(id)
    }

    /// The master of a channel's slot.
    fn owner(&self, name: &[u8]) -> Option<Node> {
        let shard = self.routes.as_ref()?.topology.shard(slot_of(name))?;
        Some(shard.master.clone())
    }

    /// Wakes the driver of this connection.
    #[cfg_attr(
        not(feature = "tokio"),
        expect(clippy::unused_self, reason = "one thread drives all connections")
    )]
    fn nudge(&mut self, connection: ConnectionId) {
        #[cfg(feature = "tokio")]
        if let Some(connection) = self.connections.get_mut(&connection) {
            self.nudged.extend(connection.driver.take());
        }
        #[cfg(not(feature = "tokio"))]
        let _ = connection;
    }
}
