//! Redis Cluster: keys are divided into slots, and slots between nodes.
//!
//! `Cluster` (feature `tokio`) is shared by any number of tasks and has one multiplexed connection to each node that is
//! used; [`blocking::Cluster`](crate::blocking::Cluster) is for one thread. Both run commands, pipelines, scripts and
//! transactions. They discover the other nodes, follow slots that move (`MOVED`, `ASK`), wait for a replica that takes
//! over, and obey the [`RetryPolicy`](crate::RetryPolicy): a write that a lost node may have executed is not silently
//! sent to another.
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # async fn example() -> Result<(), loadline_client::Error> {
//! use loadline_client::atomic;
//! use loadline_client::cluster::{Builder, Cluster, ReadFrom};
//! use loadline_client::commands::{get, incr, mget, set};
//!
//! let cluster = Cluster::open("cluster://10.0.0.1:7000,10.0.0.2:7000").await?;
//! cluster.run(set("a", 1)).await?;
//! // The commands of a pipeline go to their nodes at the same time.
//! let (a, visits) = cluster.run((get::<i64>("a"), incr("visits"))).await;
//! // These keys are in different slots, so the command is executed in parts.
//! let values: Vec<Option<i64>> = cluster.run(mget(["a", "b", "c"])).await?;
//! // A transaction needs its keys in one slot, by a common hash tag.
//! let user = cluster.run(atomic((set("{user:7}:name", "Ann"), incr("{user:7}:visits")))).await?;
//! // Replicas take load off their masters, and lag behind them.
//! let builder = Builder::from_url("cluster://10.0.0.1:7000")?;
//! let reader = builder.read_from(ReadFrom::Replica).open().await?;
//! # drop((a, visits, values, user, reader));
//! # Ok(())
//! # }
//! ```
//!
//! | command | where it is executed |
//! | --- | --- |
//! | with keys of one slot | on the master of the slot, or as [`ReadFrom`] says |
//! | `MGET`, `MSET`, `DEL`, `UNLINK`, `EXISTS`, `TOUCH` of several slots | in parts, not atomically |
//! | any other, or a transaction, with keys of several slots | nowhere: an [`Error::Usage`](crate::Error) |
//! | `DBSIZE`, `KEYS`, `FLUSHDB`, `FLUSHALL`, `RANDOMKEY`, `SCRIPT LOAD`, `EXISTS`, `FLUSH` | on all masters; their replies are joined |
//! | `PING`, `ECHO`, `TIME`, `PUBLISH` and others without keys | on one node, in turn |
//! | `SCAN` | `Cluster::scan` goes from master to master |
//! | `INFO`, `CONFIG` and others about one node | nowhere; `Cluster::connection` connects to one |
//! | `WAIT` | with the write before it, on a [`SlotConnection`] or a connection of [`Pools`] |
//! | `BLPOP`, `WATCH` and others that block or change their connection | nowhere; `Cluster::dedicated` connects to the node of a key |

/// The methods by which both clients of a cluster describe its nodes.
macro_rules! node_methods {
    () => {
        /// Returns the masters that serve slots, according to the current map.
        #[must_use]
        pub fn masters(&self) -> Vec<Node> {
            self.map().masters()
        }

        /// Returns all nodes, each master before its replicas, according to the current map.
        #[must_use]
        pub fn nodes(&self) -> Vec<Node> {
            self.map().nodes().cloned().collect()
        }

        /// Returns the master that serves a key, according to the current map.
        #[must_use]
        pub fn master_of(&self, key: impl AsRef<[u8]>) -> Option<Node> {
            let map = self.map();
            let shard = map.shard(slot_of(key.as_ref()))?;
            Some(shard.master.clone())
        }

        /// Returns the replicas of the master that serves a key, according to the current map.
        #[must_use]
        pub fn replicas_of(&self, key: impl AsRef<[u8]>) -> Vec<Node> {
            let map = self.map();
            let shard = map.shard(slot_of(key.as_ref()));
            shard.map_or_else(Vec::new, |shard| shard.replicas.clone())
        }
    };
}
pub(crate) use node_methods;

pub(crate) mod batch;
pub(crate) mod builder;
#[cfg(feature = "tokio")]
mod client;
mod join;
pub(crate) mod plan;
#[cfg(feature = "tokio")]
mod pools;
#[cfg(feature = "tokio")]
mod refresh;
mod refusal;
pub(crate) mod replies;
mod route;
pub(crate) mod scan;
mod slot;
#[cfg(feature = "tokio")]
mod slot_connection;
pub(crate) mod survey;
#[cfg(test)]
mod tests;
pub(crate) mod topology;
pub(crate) mod view;

pub use builder::Builder;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use client::Cluster;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use pools::{Lent, Pools};
pub(crate) use refusal::Refusal;
pub(crate) use route::routing_keys;
pub use scan::Cursor;
pub use slot::{SLOTS, slot_of};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use slot_connection::SlotConnection;
pub use topology::Node;

/// The nodes that execute reads.
///
/// Replicas lag behind their master, so a read can miss the latest writes. A request that also writes goes to masters
/// as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// Masters only.
    #[default]
    Master,
    /// The replicas of the slot in turn; its master if it has none or if the replica does not answer.
    Replica,
    /// The replicas of the slot that [`Builder::near`] names, in turn; as `Replica` if it names none of them. If the
    /// replica does not answer, its master.
    Near,
    /// All nodes of the slot in turn.
    Any,
}
