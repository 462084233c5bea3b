//! Stalls and pauses of CPUs.

use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// A scheduler keeps a runnable thread waiting for a few time slices. A server's waiting time is only known
/// per round, so it does not explain longer stalls.
const LONGEST_WAIT_NS: u64 = 200_000_000;

/// A few time slices: a stall up to this long can be one of the waits that add up to the usual waiting of a round. A
/// longer one needs waiting of its own.
const USUAL_STALL_NS: u64 = 20_000_000;

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
        /// The server or the path to it; which of them cannot be determined from here.
        ServerOrPath = "server or path",
    }
}

/// A period in which operations waited and no reply arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
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
}

/// The facts that determine the cause of a stall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Whether the server is on this machine, without a link in between.
    pub is_direct: bool,
    /// Whether CPUs were observed in real time.
    pub watched_in_real_time: bool,
    /// The server's waiting time for a CPU in the same round.
    pub server_wait_ns: Option<u64>,
    /// Its median waiting time over all rounds. On a crowded machine, many short waits add up to it, and none of them
    /// is a long stall.
    pub usual_wait_ns: u64,
}

impl Surroundings {
    /// The waiting time of the server for a CPU that can belong to `stall`.
    fn wait_for(&self, stall: &Stall) -> Option<u64> {
        let wait_ns = self.server_wait_ns?;
        if stall.length_ns <= USUAL_STALL_NS {
            Some(wait_ns)
        } else if stall.length_ns <= LONGEST_WAIT_NS {
            Some(wait_ns.saturating_sub(self.usual_wait_ns))
        } else {
            None
        }
    }
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
        } else if around.wait_for(stall).is_some_and(explains) {
            Self::Contention
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
        server_wait_ns: Some(0),
        usual_wait_ns: 0,
    };

    #[test]
    fn a_cause_explains_at_least_half_of_a_stall() {
        let stall = |generator_ns, paused_ns| Stall {
            length_ns: 1_000,
            generator_ns,
            paused_ns,
            ..Stall::default()
        };
        let remote = Surroundings {
            is_direct: false,
            ..DIRECT
        };
        let unsure = Surroundings {
            watched_in_real_time: false,
            ..DIRECT
        };
        let starved = Surroundings {
            server_wait_ns: Some(700),
            ..DIRECT
        };
        let long = Stall {
            length_ns: 1_000_000_000,
            ..Stall::default()
        };
        let starved = Surroundings {
            server_wait_ns: Some(700_000_000),
            ..starved
        };
        for (stall, around, cause) in [
            (stall(0, 0), DIRECT, StallCause::Server),
            (stall(499, 499), DIRECT, StallCause::Server),
            (stall(500, 0), DIRECT, StallCause::Generator),
            (stall(900, 500), DIRECT, StallCause::Host),
            (stall(900, 500), unsure, StallCause::Contention),
            (stall(0, 0), remote, StallCause::ServerOrPath),
            (stall(0, 0), starved, StallCause::Contention),
            (stall(600, 0), remote, StallCause::Generator),
            (long, starved, StallCause::Server),
        ] {
            assert_eq!(StallCause::of(&stall, &around), cause, "{stall:?}");
        }
    }

    /// A server that sleeps for 100 ms in each round of 2 s, on a machine where it waits 5 % of its time for a CPU.
    #[test]
    fn usual_waiting_does_not_explain_a_long_stall() {
        let cause = |length_ms: u64, wait_ms: u64| {
            let stall = Stall {
                length_ns: length_ms * 1_000_000,
                ..Stall::default()
            };
            let around = Surroundings {
                server_wait_ns: Some(wait_ms * 1_000_000),
                usual_wait_ns: 100_000_000,
                ..DIRECT
            };
            StallCause::of(&stall, &around)
        };
        assert_eq!(cause(100, 105), StallCause::Server);
        assert_eq!(cause(100, 160), StallCause::Contention);
        assert_eq!(cause(20, 105), StallCause::Contention);
        assert_eq!(cause(21, 105), StallCause::Server);
        assert_eq!(cause(201, 900), StallCause::Server);
    }
}
