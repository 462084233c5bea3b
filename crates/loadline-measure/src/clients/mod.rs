//! Comparisons of client libraries: what is known about each row besides its times, which client suits which need, and
//! what clients do when a server or a connection fails.

mod behaviour;
mod conclusions;
mod gate;

use serde::{Deserialize, Serialize};

use crate::Metric;
use crate::compare::{self, Paired, Rules};
use crate::record::{Case, Mode, Scenario};

pub use behaviour::{Behaviour, Ending, Fault, Operations};
pub use conclusions::{Advice, Best, FaultFindings, Front, Gain};
pub use gate::{Gate, Side};

/// The results of a comparison of clients besides its cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clients {
    /// The driver that the others are compared with.
    pub reference: String,
    /// One for each case.
    pub rows: Vec<ClientRow>,
    /// Behaviour of the clients during faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behaviour: Vec<Behaviour>,
    /// The sentences about operations that former versions wrote.
    #[serde(rename = "best", skip_serializing)]
    pub former_best: Vec<String>,
    /// The sentence for the users of the reference that former versions wrote; empty without one.
    #[serde(rename = "advice", skip_serializing)]
    pub former_advice: String,
    /// The sentence about all languages that former versions wrote; empty without one.
    #[serde(rename = "beyond", skip_serializing)]
    pub former_beyond: String,
    /// The sentence about the runs with faults that former versions wrote; empty without one.
    #[serde(rename = "faults", skip_serializing)]
    pub former_faults: String,
}

/// Facts about a case besides its times. Values that are not known are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientRow {
    /// Index of the case.
    pub case: usize,
    /// The name of the driver, such as `redis-py.hiredis`.
    pub driver: String,
    /// The language of the client.
    pub language: String,
    /// The runtime, such as `CPython 3.11.7`.
    pub runtime: String,
    /// Operations that the server counted in the same blocks.
    pub counted: Option<u64>,
    /// Whether the server counted as many operations as the driver reported. Without its counts, it is valid.
    pub is_valid: bool,
    /// Commands that the server found in one read from a socket, on average.
    pub commands_per_read: Option<f64>,
    /// The largest resident memory of the driver's process.
    pub max_rss_bytes: u64,
    /// Share of the measured time in the garbage collector.
    pub gc_share: Option<f64>,
    /// System calls of the driver's process per operation, counted by strace in a block of its own.
    pub system_calls_per_op: Option<f64>,
}

impl Clients {
    /// The sentences that former versions wrote.
    pub fn former_sentences(&self) -> impl Iterator<Item = &String> {
        let others = [
            &self.former_advice,
            &self.former_beyond,
            &self.former_faults,
        ];
        let all = self.former_best.iter().chain(others);
        all.filter(|text| !text.is_empty())
    }

    /// The row of the case at `place`.
    #[must_use]
    pub fn row(&self, place: usize) -> Option<&ClientRow> {
        self.rows.iter().find(|row| row.case == place)
    }
}

/// An operation with its call mode, such as `get in pipelines of 100`.
#[must_use]
pub fn operation(scenario: &Scenario) -> String {
    let name = &scenario.workload;
    let in_flight = scenario.in_flight.unwrap_or(1);
    match scenario.mode {
        Mode::Pipeline => format!("{name} in pipelines of {}", scenario.pipeline),
        Mode::Async if scenario.connections > 1 => {
            format!("{name} from {in_flight} callers with a pool")
        }
        Mode::Async => format!("{name} from {in_flight} callers on one connection"),
        _ => name.clone(),
    }
}

fn paired(metric: Metric, one: &Case, other: &Case) -> Option<Paired> {
    let (a, b) = metric.of_pairs(one, other)?;
    compare::paired(&a, &b, metric.direction(), &Rules::default()).ok()
}

#[cfg(test)]
mod tests;
