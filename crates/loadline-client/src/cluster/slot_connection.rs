//! A connection with one owner that follows a slot.

use std::sync::Arc;

use super::client::{Cluster, Hub};
use super::plan::Plan;
use super::slot_of;
use super::topology::Node;
use crate::Request;
use crate::multiplexed::Connection;

/// A connection with one owner to the master of a slot, for writes that `WAIT` follows.
///
/// `WAIT` is about the writes of its connection, so it is sent together with them, on a connection of their own. Redirections and
/// failovers are followed as by the [`Cluster`]: a refused write is sent with its `WAIT` to the node that serves
/// the slot. Both are not sent again once the write may have been executed, under any [`RetryPolicy`](crate::RetryPolicy).
///
/// ```no_run
/// use std::time::Duration;
///
/// use loadline_client::cluster::Cluster;
/// use loadline_client::commands::{set, wait};
///
/// # async fn example() -> Result<(), loadline_client::Error> {
/// let cluster = Cluster::open("cluster://10.0.0.1:7000").await?;
/// let mut connection = cluster.slot_connection("{user:7}");
/// let write = set("{user:7}:name", "Ann");
/// let (done, replicas) = connection.run((write, wait(1, Duration::from_millis(100)))).await;
/// done?;
/// let is_confirmed = replicas? >= 1;
/// # drop(is_confirmed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SlotConnection {
    pub(super) hub: Arc<Hub>,
    pub(super) slot: u16,
    /// The connection to the node of the last request.
    pub(super) open: Option<(Node, Connection)>,
}

impl Cluster {
    /// Returns a connection with one owner to the master that serves a key, which follows its slot to another master.
    ///
    /// Nothing is sent before the first request.
    #[must_use]
    pub fn slot_connection(&self, key: impl AsRef<[u8]>) -> SlotConnection {
        SlotConnection {
            hub: Arc::clone(&self.shared),
            slot: slot_of(key.as_ref()),
            open: None,
        }
    }
}

impl SlotConnection {
    /// Runs a command, or several as a pipeline, all with keys of the slot or without keys. `WAIT` and `WAITAOF` follow the
    /// writes that they are about in the same request.
    ///
    /// Other keys, and commands that block or change the state of their connection, fail with
    /// [`Error::Usage`](crate::Error::Usage).
    pub async fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        let Self { hub, slot, open } = self;
        let plan = |request| Plan::on_slot(request, *slot);
        let mut connect = |node: &Node| match open {
            Some((known, connection)) if known == node => connection.clone(),
            _ => {
                let config = hub.plain.node(node);
                let connection = Connection::to_node(config, false, &hub.runtime);
                *open = Some((node.clone(), connection.clone()));
                connection
            }
        };
        hub.run(request, &plan, &mut connect).await
    }
}
