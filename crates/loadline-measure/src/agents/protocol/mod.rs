//! The protocol of agents that run one plan together, as two state machines without clocks and sockets.
//!
//! A [`Leader`] and one [`Member`] per agent exchange messages through streams of a coordinator, a Redis server that is
//! not measured. Members send [`Report`]s, the leader sends [`Order`]s:
//!
//! ```text
//! member   Join ............... Ready 0 ..... Armed 0, Beat, Beat, ..., Ready 1, ..., End
//! leader          Beat, Beat, ......... Arm 0, Beat, Beat, .........., Arm 1, ..., Done or Stop
//! ```
//!
//! All agents begin a case at one time of the coordinator's clock. If the plan compares targets, each of its blocks is a case
//! here. A case that the target does not support is left out by all of them. An agent that is silent for its lease is lost, which
//! stops the run unless fewer agents are allowed, and an agent that cannot renew its lease stops by itself. Messages are
//! numbered by their sender: duplicates are ignored, and a message that overtook others waits for them.
//!
//! Every `now` is the sender's or receiver's own monotonic clock, from an arbitrary start.

mod clock;
mod inbox;
mod leader;
mod member;
#[cfg(test)]
mod simulation;

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::histogram::Histogram;

pub use clock::{ClockOffset, Exchange};
pub use leader::{Leader, Outcome, Terms};
pub use member::{Identity, Member, State};

/// The usual time without a message after which an agent or the leader is lost.
pub const LEASE: Duration = Duration::from_millis(2_200);
/// Interval of the messages that renew a lease.
pub const BEAT: Duration = Duration::from_secs(1);
/// The shortest time from the order to start to the start.
pub const SHORTEST_NOTICE: Duration = Duration::from_millis(500);
/// The same in round trips to the coordinator, of the agent with the longest.
pub const NOTICE_ROUND_TRIPS: u32 = 10;

/// A message of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<T> {
    /// The rank of the agent.
    pub rank: u32,
    /// Random number of its process: another process of the same rank has another one.
    pub incarnation: u64,
    /// Digest of its plan.
    pub plan: String,
    /// Number of the message, from 0.
    pub number: u64,
    /// The content.
    pub body: Said<T>,
}

/// The content of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Said<T> {
    /// The agent has the plan, and knows its offset from the coordinator's clock.
    Join {
        /// Version of Loadline.
        version: String,
        /// The identifier of its own run, which is part of its keys.
        run: String,
        /// Its longest round trip to the coordinator, in nanoseconds.
        round_trip_ns: u64,
    },
    /// Its connections and keys are ready for a case.
    Ready {
        /// Index of the case.
        case: u32,
    },
    /// It will start the case at the ordered time.
    Armed {
        /// Index of the case.
        case: u32,
    },
    /// It is alive.
    Beat {
        /// Measured since the last beat that had any.
        difference: Option<T>,
    },
    /// Its record is complete, or as complete as it will be.
    End {
        /// Everything in its record.
        total: T,
        /// The reason why its plan is not done.
        failure: Option<String>,
        /// Whether the coordinator has its record.
        has_record: bool,
    },
}

/// A message of the leader to all agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Digest of the plan.
    pub plan: String,
    /// Number of the message, from 0.
    pub number: u64,
    /// The content.
    pub body: Ordered,
}

/// The content of an [`Order`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ordered {
    /// The leader is alive.
    Beat,
    /// Start a case.
    Arm {
        /// Index of the case.
        case: u32,
        /// The start in nanoseconds since 1970 of the coordinator's clock.
        start_ns: u64,
    },
    /// Stop, and hand in the record as it is.
    Stop {
        /// The reason, in a sentence.
        why: String,
    },
    /// All records are merged.
    Done,
}

/// An agent that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its rank.
    pub rank: u32,
    /// The reason.
    pub cause: Cause,
    /// The identifier of its own run, if its keys can be left on the target.
    pub run: Option<String>,
}

/// The reason why an agent was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It did not join in time.
    Missing,
    /// It did not confirm the start of a case before that start.
    NotArmed,
    /// It sent nothing for this time, which is its lease.
    Silent(Duration),
    /// A second process has its rank.
    Restarted,
    /// It has another version of Loadline.
    Version(String),
    /// It has another plan.
    Plan,
    /// It left out a case that other agents measure.
    LeftOut,
    /// It did not run its plan to the end, with its own reason.
    Failed(String),
    /// Its messages do not add up to its record.
    WrongSum,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.rank;
        match &self.cause {
            Cause::Missing => write!(f, "agent {rank} did not join"),
            Cause::NotArmed => write!(f, "agent {rank} did not confirm the start in time"),
            Cause::Silent(lease) => {
                write!(f, "agent {rank} sent nothing for {} ms", lease.as_millis())
            }
            Cause::Restarted => write!(f, "agent {rank} is two processes"),
            Cause::Version(version) => write!(f, "agent {rank} is version {version}"),
            Cause::Plan => write!(f, "agent {rank} has another plan"),
            Cause::LeftOut => write!(
                f,
                "agent {rank} left out a case that others measure; give all agents the same rights on the target"
            ),
            Cause::Failed(why) => write!(f, "agent {rank} failed: {why}"),
            Cause::WrongSum => write!(
                f,
                "the messages of agent {rank} do not add up to its record"
            ),
        }
    }
}

/// Operations and response times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Operations answered, errors included.
    pub ops: u64,
    /// Failed operations.
    pub errors: u64,
    /// Response times in nanoseconds.
    pub response: Histogram,
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.ops = self.ops.saturating_add(other.ops);
        self.errors = self.errors.saturating_add(other.errors);
        self.response.merge(&other.response);
    }
}

/// A tally in a message.
#[derive(Serialize, Deserialize)]
struct Written {
    ops: u64,
    errors: u64,
    /// As in a record.
    response: String,
}

impl Serialize for Tally {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            ops: self.ops,
            errors: self.errors,
            response: self.response.encode(),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let response = Histogram::decode(&written.response);
        Ok(Self {
            ops: written.ops,
            errors: written.errors,
            response: response.map_err(serde::de::Error::custom)?,
        })
    }
}

impl Tally {
    /// Everything in a record.
    ///
    /// # Errors
    /// [`Error::Histogram`] for a histogram that cannot be read.
    pub fn of_record(record: &crate::Record) -> Result<Self, Error> {
        let mut all = Self::default();
        for case in &record.cases {
            all += &Self {
                ops: case.ops,
                errors: case.error_count(),
                response: case.response_histogram()?.unwrap_or_default(),
            };
        }
        Ok(all)
    }
}
