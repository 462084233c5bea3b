//! Stalls and pauses of CPUs.

use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

vocabulary! {
    /// The cause of a stall.
    pub enum StallCause {
        /// The server did not answer although it had a CPU.
        Server = "server",
        /// The generator did not send or read.
        Generator = "generator",
        /// The host of this virtual machine did not run one of its CPUs.
        Host = "host",
        /// Other programs used the CPU.
        Contention = "contention",
        /// The server's control group had used up its CPU quota.
        Quota = "quota",
        /// The server or the path to it; which of them cannot be determined from here.
        ServerOrPath = "server or path",
    }
}

/// A period in which operations waited and no reply arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// The rank of the agent that observed it, in a merged record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<u64>,
    /// The round, from 0.
    pub round: u64,
    /// The start within the round.
    pub start_ns: u64,
    /// The duration until the next reply, or until the end of the round.
    pub length_ns: u64,
    /// Operations in flight at the end.
    #[serde(default)]
    pub in_flight: u64,
    /// The part that is explained by the generator's own thread.
    #[serde(default)]
    pub generator_ns: u64,
    /// The part in which a CPU of this machine did not run.
    #[serde(default)]
    pub paused_ns: u64,
    /// The part in which the server waited for a CPU, at most; `None` if that was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_wait_ns: Option<u64>,
    /// The cause.
    pub cause: StallCause,
}

/// Pauses of this machine's CPUs, over all rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPauses {
    /// The number of observed CPUs.
    pub cpus: u64,
    /// Whether they were observed in real time; otherwise, other threads on a CPU look like a pause.
    pub real_time: bool,
    /// The number of pauses.
    pub count: u64,
    /// The sum of all pauses of all CPUs.
    pub total_ns: u64,
    /// The longest one.
    pub longest_ns: u64,
    /// CPU time of other processes than the load generator and, on this machine, the server; `None` if it is not known of
    /// each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_ns: Option<u64>,
    /// CPU time that the host gave to other machines (steal), in the same rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<u64>,
}

/// The facts that determine the cause of a stall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Whether the server is on this machine, without a link in between.
    pub is_direct: bool,
    /// Whether CPUs were observed in real time.
    pub watched_in_real_time: bool,
    /// Whether the CPU quota of the server's control group stopped it often enough to be its limit.
    pub is_throttled: bool,
}

impl StallCause {
    /// The cause of `stall`: whatever explains at least half of it. A CPU that did not run also stops the
    /// generator, so it is considered first.
    #[must_use]
    pub fn of(stall: &Stall, around: &Surroundings) -> Self {
        let explains = |ns: u64| ns.saturating_mul(2) >= stall.length_ns;
        if explains(stall.paused_ns) {
            if around.watched_in_real_time {
                Self::Host
            } else {
                Self::Contention
            }
        } else if explains(stall.generator_ns) {
            Self::Generator
        } else if !around.is_direct {
            Self::ServerOrPath
        } else if stall.server_wait_ns.is_some_and(explains) {
            if around.is_throttled {
                Self::Quota
            } else {
                Self::Contention
            }
        } else {
            Self::Server
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECT: Surroundings = Surroundings {
        is_direct: true,
        watched_in_real_time: true,
        is_throttled: false,
    };

    #[test]
    fn cause_explains_at_least_half_of_a_stall() {
        let stall = |generator_ns, paused_ns| Stall {
            length_ns: 1_000,
            generator_ns,
            paused_ns,
            ..Stall::default()
        };
        let starved = |server_wait_ns| Stall {
            server_wait_ns: Some(server_wait_ns),
            ..stall(0, 0)
        };
        let remote = Surroundings {
            is_direct: false,
            ..DIRECT
        };
        let unsure = Surroundings {
            watched_in_real_time: false,
            ..DIRECT
        };
        let throttled = Surroundings {
            is_throttled: true,
            ..DIRECT
        };
        for (stall, around, cause) in [
            (stall(0, 0), DIRECT, StallCause::Server),
            (stall(499, 499), DIRECT, StallCause::Server),
            (stall(500, 0), DIRECT, StallCause::Generator),
            (stall(900, 500), DIRECT, StallCause::Host),
            (stall(900, 500), unsure, StallCause::Contention),
            (stall(0, 0), remote, StallCause::ServerOrPath),
            (starved(499), DIRECT, StallCause::Server),
            (starved(500), DIRECT, StallCause::Contention),
            (starved(500), remote, StallCause::ServerOrPath),
            (starved(499), throttled, StallCause::Server),
            (starved(500), throttled, StallCause::Quota),
            (stall(600, 0), remote, StallCause::Generator),
        ] {
            assert_eq!(StallCause::of(&stall, &around), cause, "{stall:?}");
        }
    }
}
