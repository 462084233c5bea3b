//! Redis Cluster: keys are divided into slots, and slots between nodes.

pub(crate) mod batch;
pub(crate) mod builder;
#[cfg(feature = "tokio")]
mod client;
mod join;
pub(crate) mod plan;
#[cfg(feature = "tokio")]
mod refresh;
mod refusal;
pub(crate) mod replies;
mod route;
mod slot;
pub(crate) mod topology;
pub(crate) mod view;

pub use builder::Builder;
#[cfg(feature = "tokio")]
pub use client::Cluster;
pub use slot::{SLOTS, slot_of};
pub use topology::Node;

/// Which nodes read.
///
/// Replicas lag behind their master, so what they read may be older than what was just written. A request
/// that also writes goes to masters as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// Masters only.
    #[default]
    Master,
    /// The replicas of the slot in turn; its master where it has none, or where the replica does not answer.
    Replica,
    /// All nodes of the slot in turn.
    Any,
}
