//! Cost of a block: CPU time of the generator and figures of the target.

use std::time::Duration;

/// The CPU cost of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadCost {
    /// CPU time of all threads.
    pub cpu: Duration,
    /// Time in which they were runnable and waited for a CPU (Linux: schedstat).
    pub run_wait: Option<Duration>,
    /// The share of its wall time that the busiest thread worked on a CPU, 0 to 1. Spinning does not count.
    pub busiest: f64,
}

/// The target's own figures for the block, summed over several servers unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TargetCost {
    /// CPU time it used.
    pub cpu: Option<Duration>,
    /// CPU time of the server that used the most.
    pub busiest: Option<Duration>,
    /// Time in which it was runnable and waited for a CPU, if it runs on this machine; the longest among
    /// several threads or servers.
    pub run_wait: Option<Duration>,
    /// Commands that it counted.
    pub commands: Option<u64>,
    /// Execution time of commands that it reports.
    pub execution: Option<Duration>,
    /// Connections that it accepted.
    pub connections: Option<u64>,
}
