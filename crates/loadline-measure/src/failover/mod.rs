//! Failover: the fate of each write of a load during which something failed, and how long writers waited.
//!
//! A [`History`] lists every write with its outcome as the client reported it, and how many times the server has executed
//! it. Each write has a key of its own, so a write that was lost or executed twice is known for certain; a counter for each
//! writer could not tell a repeated write from an ambiguous one.

mod audit;
mod clocks;
mod events;
mod messages;
mod pool;
mod reads;
mod scores;
mod timeline;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

pub use audit::{Audit, Loss, audit};
pub use clocks::{Clocks, Gap, clocks, outage_began};
pub use events::Events;
pub use messages::{Heard, receive};
pub use pool::{PoolUse, Turns};
pub use reads::{Read, ReadFrom, Reads, Stale, reads};
pub use scores::{Score, Spread, scores};
pub use timeline::{Timeline, errors, timeline};

vocabulary! {
    /// A kind of write.
    pub enum Kind {
        /// `SET` of a new key. A second execution does not show.
        Set = "set",
        /// `INCR` of a new key, whose value is the number of executions.
        Incr = "incr",
        /// A transaction (MULTI, EXEC) of two `INCRBY` of a new key by 1, whose value is twice the number of executions.
        Multi = "multi",
        /// `EVAL` of an INCR of a new key, whose value is the number of executions.
        Lua = "lua",
        /// `XADD` to a new stream, whose length is the number of executions.
        Xadd = "xadd",
        /// A transaction that watches a new key, reads it, and adds 1 and what it has read to it. After n executions, the value
        /// is 2^n - 1.
        Watch = "watch",
        /// `PUBLISH` of a numbered message to a channel, which a subscriber receives as many times as it was executed.
        Publish = "publish",
    }
}

vocabulary! {
    /// The part that fails.
    pub enum Fault {
        /// The process ends with SIGKILL. The server is started again, or a replica takes its place.
        Kill = "kill",
        /// The process is stopped with SIGSTOP for a time, and continues.
        Stop = "stop",
        /// The server closes the connections of its clients by CLIENT KILL.
        ClientKill = "client-kill",
        /// Every connection is reset.
        Reset = "reset",
        /// Connections end after a write was executed and before its reply arrives.
        Cut = "cut",
        /// A connection delivers nothing more and is not closed; new ones work.
        BlackHole = "black-hole",
        /// The server's end of a connection is closed and the client is not notified; new ones work.
        HalfOpen = "half-open",
        /// Connections are closed, and new ones are refused for a time.
        Refused = "refused",
        /// The server is a replica for a time, and refuses writes with READONLY.
        ReadOnly = "read-only",
        /// The server closes the connections of its clients, which are notified later.
        SlowClose = "slow-close",
        /// The process ends with SIGKILL, is started again, and refuses commands with LOADING until it has read its data.
        Loading = "loading",
        /// Slots of a master are moved to another one, key by key.
        SlotsMoved = "slots-moved",
        /// The file system of the append-only file is full for a time.
        FullDisk = "full-disk",
        /// The server closes connections, and has as many clients as it takes for a time.
        MaxClients = "max-clients",
        /// A replica ends with SIGKILL.
        ReplicaLoss = "replica-loss",
        /// A replica becomes the master by command, and the master its replica.
        Planned = "planned",
        /// The client and the master are cut off from the other servers, of which one becomes the master.
        Partition = "partition",
        /// A replica receives nothing from its master for a time, and goes on answering.
        Lag = "lag",
        /// Somebody else causes it, if there is one. Times count from the beginning of the longest outage.
        Observed = "observed",
    }
}

vocabulary! {
    /// Servers that fail together and take each other's place.
    pub enum Topology {
        /// One redis-server.
        Standalone = "standalone",
        /// A master and a replica, which is promoted by hand.
        Replica = "replica",
        /// A master and two replicas under three sentinels.
        Sentinel = "sentinel",
        /// Three masters, each with a replica.
        Cluster = "cluster",
        /// The server of this project with a directory.
        Embedded = "embedded",
    }
}

/// The outcome of a write as the client reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A reply confirmed it.
    Acknowledged,
    /// A reply confirmed it, and WAIT did not confirm enough replicas.
    Unconfirmed,
    /// An error that says that it was not executed.
    Refused,
    /// Any other end: it may have been executed.
    Ambiguous,
}

/// One write. Times are nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its writer and its place there.
    pub id: WriteId,
    /// Its kind: the index in [`History::kinds`].
    pub kind: usize,
    /// The time at which it was due.
    pub due_ns: u64,
    /// The time of the call.
    pub invoked_ns: u64,
    /// The time of its outcome.
    pub completed_ns: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// The kind of its error, if it had one: the index in [`History::errors`].
    pub error: Option<usize>,
    /// The executions found in the server afterwards, or by the subscriber of messages.
    pub executions: u64,
    /// Whether it is a message that was not received, and the subscriber announced a gap in its place.
    pub announced: bool,
}

impl Operation {
    /// The time from when it was due to its outcome.
    #[must_use]
    pub fn response_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.due_ns)
    }
}

/// A write, by its writer and its place among the writes of that writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteId {
    /// The number of the writer.
    pub writer: u32,
    /// The place, counted from 0.
    pub sequence: u64,
}

/// The writes of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The kinds of write.
    pub kinds: Vec<Kind>,
    /// Every write.
    pub operations: Vec<Operation>,
    /// Every read.
    pub reads: Vec<Read>,
    /// The kinds of errors.
    pub errors: Vec<String>,
    /// When the fault began, in nanoseconds since the start of the load.
    pub fault_ns: u64,
    /// When it ended, if it did.
    pub fault_end_ns: Option<u64>,
    /// When a server accepted writes again, if it was watched.
    pub ready_ns: Option<u64>,
    /// Checks of the pool that found its minimum of connections usable, if the writers have one: begin and end.
    pub pool_checks: Option<Vec<(u64, u64)>>,
    /// When the load ended.
    pub end_ns: u64,
}

/// The results of `loadline failover`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failover {
    /// The servers.
    pub topology: Topology,
    /// The client; empty if each trial has its own.
    pub client: String,
    /// The clients that are compared, by the names of their drivers, with their versions; empty without a comparison.
    pub clients: BTreeMap<String, String>,
    /// Writes that were due per second.
    pub rate: u64,
    /// The number of writers, which take turns.
    pub writers: u64,
    /// The smallest and the largest number of connections, if the writers have a pool.
    pub pool: Option<PoolSize>,
    /// The WAIT after each write, if there is one.
    pub wait: Option<Wait>,
    /// The replicas without which a master refuses writes, if it does.
    pub min_replicas: Option<MinReplicas>,
    /// The servers that answer the reads; `None` without reads.
    pub reads: Option<ReadFrom>,
    /// One for each fault.
    pub trials: Vec<Trial>,
    /// Clients that took no part in a repetition of a fault, once for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A client that took no part in one repetition of a fault, because its driver was not ready or did not reach the fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// The driver of the client.
    pub client: String,
    /// The fault, as [`Trial::fault_name`] returns it.
    pub fault: String,
}

/// The size of a pool, in connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolSize {
    /// The fewest.
    pub min: u64,
    /// The most.
    pub max: u64,
}

/// A WAIT after each write: without enough replicas, the write is not acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// The replicas that must have received it.
    pub replicas: u64,
    /// The longest time for that, in nanoseconds.
    pub timeout_ns: u64,
}

/// A master with fewer replicas refuses writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MinReplicas {
    /// The fewest replicas (`min-replicas-to-write`).
    pub replicas: u64,
    /// The longest time since a replica has answered (`min-replicas-max-lag`), in nanoseconds.
    pub max_lag_ns: u64,
}

/// The load during one fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// The driver of its client, if several are compared.
    pub client: Option<String>,
    /// The fault.
    pub fault: Fault,
    /// The durability of the servers, such as `memory`, `interval:1s` or `always`.
    pub durability: String,
    /// Times that the fault occurred.
    pub faults: u64,
    /// The fate of the writes, by kind.
    pub audits: Vec<Audit>,
    /// The fate of the reads, if there were any.
    pub reads: Option<Reads>,
    /// The use of the pool, if the writers have one.
    pub pool: Option<PoolUse>,
    /// The times of the outage.
    pub clocks: Clocks,
    /// Errors that the client reported, by kind.
    pub errors: BTreeMap<String, u64>,
    /// The course of the load.
    pub timeline: Timeline,
}

impl Failover {
    /// The client, or the clients that are compared.
    #[must_use]
    pub fn client_names(&self) -> String {
        if self.clients.is_empty() {
            return self.client.clone();
        }
        let names: Vec<&str> = self.clients.values().map(String::as_str).collect();
        crate::words::list(&names)
    }
}

impl Fault {
    /// The fault, with the durability where it matters.
    #[must_use]
    pub fn name_with(&self, durability: &str) -> String {
        match self {
            Self::Kill => format!("{self}, {durability}"),
            _ => self.to_string(),
        }
    }
}

impl Trial {
    /// The client, if several are compared, and the fault.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.client {
            Some(client) => format!("{client}: {}", self.fault_name()),
            None => self.fault_name(),
        }
    }

    /// The fault, with the durability where it matters.
    #[must_use]
    pub fn fault_name(&self) -> String {
        self.fault.name_with(&self.durability)
    }

    /// Acknowledged writes that are not in the server.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sum(Audit::lost)
    }

    /// Writes that were executed more than once.
    #[must_use]
    pub fn twice(&self) -> u64 {
        self.sum(|audit| audit.twice.unwrap_or(0))
    }

    /// Writes whose outcome the caller does not know.
    #[must_use]
    pub fn ambiguous(&self) -> u64 {
        self.sum(|audit| audit.ambiguous)
    }

    /// Acknowledged writes.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.sum(|audit| audit.acknowledged)
    }

    /// Writes that the client called not executed, and that are in the server.
    #[must_use]
    pub fn refused_there(&self) -> u64 {
        self.sum(|audit| audit.refused_there)
    }

    /// Reads without a write that their reader had acknowledged before.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.reads.as_ref().map_or(0, Reads::stale)
    }

    /// Connections that the server still had after the load and that the pool did not count, as far as is known.
    #[must_use]
    pub fn leaked(&self) -> u64 {
        self.pool.and_then(|pool| pool.leaked).unwrap_or(0)
    }

    /// Calls for a connection of the pool that were served before one that had waited longer.
    #[must_use]
    pub fn out_of_turn(&self) -> u64 {
        self.pool.map_or(0, |pool| pool.out_of_turn)
    }

    fn sum(&self, of: impl Fn(&Audit) -> u64) -> u64 {
        self.audits.iter().map(of).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
