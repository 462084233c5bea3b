//! The behaviour of a client while a server or a connection fails: facts with counts.

use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

vocabulary! {
    /// A failure of the server or the connection.
    pub enum Fault {
        /// The connection is closed after the server has executed a command and before its reply arrives.
        ReplyCut = "reply cut",
        /// The server refuses connections for a second, and has closed those that were open.
        Away = "away",
        /// A connection delivers nothing more, and new ones work.
        Silent = "silent",
        /// The server accepts connections and answers nothing.
        Frozen = "frozen",
        /// The server replies with `-LOADING`.
        Loading = "loading",
        /// The server replies with `-READONLY`.
        ReadOnly = "readonly",
        /// A reply of 200,000 nested arrays.
        Nested = "nested arrays",
        /// A reply that declares a string of 10 GiB.
        HugeBulk = "10 GiB bulk",
    }
}

vocabulary! {
    /// The end of the driver's process.
    pub enum Ending {
        /// As it should.
        Well = "well",
        /// It ended early by itself or by a signal.
        Crashed = "crashed",
        /// It was stopped while a call had not returned, which might have returned later.
        Waiting = "waiting",
    }
}

/// Operations by the outcome that the client reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Operations {
    /// Calls that returned a reply.
    pub acknowledged: u64,
    /// Calls that returned an error reply of the server.
    pub failed: u64,
    /// Calls that ended with any other error, so their outcome is not known to the caller.
    pub unknown: u64,
}

/// The behaviour of one client during one fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Behaviour {
    /// The client, as in the table.
    pub subject: String,
    /// The driver.
    pub driver: String,
    /// The fault.
    pub fault: Fault,
    /// Operations by their outcome.
    pub operations: Operations,
    /// Times that the fault occurred.
    pub faults: u64,
    /// Writes that the server executed more than once.
    pub executed_twice: Option<u64>,
    /// Writes that the client acknowledged and the server had not executed.
    pub lost: Option<u64>,
    /// The longest call during the fault, in nanoseconds: the time until an error, or until it continued. A call that
    /// never returned counts up to the end of the run.
    pub longest_call_ns: Option<u64>,
    /// From the end of the fault to the next acknowledged operation; `None` if there was none.
    pub recovery_ns: Option<u64>,
    /// The largest resident memory of the process.
    pub max_rss_bytes: Option<u64>,
    /// End of the process.
    pub ending: Ending,
    /// Message of the process when it ended early, in a sentence.
    pub cause: Option<String>,
    /// The errors that the client reported, by kind.
    pub errors: std::collections::BTreeMap<String, u64>,
}
