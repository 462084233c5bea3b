//! What an application does with connections, where that is more than sending commands on one.

use std::fmt;

use super::PIPELINE_BATCH;

/// A task that goes through `loadline-client`, as an application would do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Commands in batches: a batch is written at once, and all its replies are read.
    Pipeline,
    /// A message from one connection until another has received it.
    PubSub,
    /// An entry from one connection until another, which was waiting for it, has received it.
    Stream,
    /// Making a pool of two to ten connections and using one of them.
    PoolInit,
    /// Making a connection and using it.
    Connect,
    /// What connections take in memory, in the client and in the server.
    ConnectionMemory,
}

impl Task {
    /// Connections that `connection_memory` opens in one block.
    pub(crate) const MEMORY_CONNECTIONS: u32 = 200;
    /// What a block makes at most, where making is what is measured: a closed connection keeps its
    /// port for a minute, and there are not many.
    const MOST_MADE: u64 = 250;

    /// Commands that it sends beside those of its operations.
    pub(crate) fn needs(&self) -> &'static [&'static str] {
        match self {
            Self::Pipeline | Self::PoolInit | Self::Connect => &[],
            Self::PubSub => &["SUBSCRIBE"],
            Self::Stream => &["XREAD", "PING"],
            Self::ConnectionMemory => &["CLIENT"],
        }
    }

    /// Connections that are open at once.
    pub(crate) fn connections(self) -> u32 {
        match self {
            Self::Pipeline | Self::Connect => 1,
            Self::PubSub | Self::Stream | Self::PoolInit => 2,
            Self::ConnectionMemory => Self::MEMORY_CONNECTIONS,
        }
    }

    /// Operations that one call performs.
    pub(crate) fn batch(self) -> u32 {
        match self {
            Self::Pipeline => PIPELINE_BATCH,
            _ => 1,
        }
    }

    /// The most operations of a block, where there is such a bound.
    pub(crate) fn most_per_block(self) -> Option<u64> {
        match self {
            Self::Pipeline | Self::PubSub | Self::Stream => None,
            Self::PoolInit | Self::Connect => Some(Self::MOST_MADE),
            Self::ConnectionMemory => Some(Self::MEMORY_CONNECTIONS.into()),
        }
    }

    /// Whether there is a state to warm up to.
    pub(crate) fn warms_up(self) -> bool {
        self != Self::ConnectionMemory
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipeline => "in batches of 100, each written at once and then read",
            Self::PubSub => "from PUBLISH until another connection has the message",
            Self::Stream => {
                "from XADD until another connection's XREAD, which waited, has the entry"
            }
            Self::PoolInit => "makes a pool of 2 to 10 connections and sends a PING",
            Self::Connect => "makes a connection and sends a PING",
            Self::ConnectionMemory => {
                "opens 200 connections in a process of their own, once in each block"
            }
        })
    }
}
