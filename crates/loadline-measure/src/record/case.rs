//! One subject under one scenario.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::finite::finite;
use super::stall::{CpuPauses, Stall};
use super::vocabulary::{Arrivals, Mode, Percentiles, SubjectKind};
use crate::Error;
use crate::corrected::Corrected;
use crate::histogram::{Histogram, LatencySummary};
use crate::outliers::Outliers;
use crate::work::Work;

/// The index of a case in `cases`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CaseId(pub usize);

/// The measurements of one subject under one scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The subject.
    pub subject: Subject,
    /// The scenario.
    pub scenario: Scenario,
    /// Operations answered in all rounds, errors included.
    pub ops: u64,
    /// Failed operations, by kind.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Operations in the schedule of an open loop.
    #[serde(default)]
    pub planned: Option<u64>,
    /// Scheduled operations that were never sent.
    #[serde(default)]
    pub not_sent: Option<u64>,
    /// Whether the percentiles of an open loop are exact. They are lower bounds if operations of the schedule were
    /// never sent or never answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<Percentiles>,
    /// Time measured over all rounds, without the warm-up.
    pub duration_ns: u64,
    /// Operations per second of measured time.
    #[serde(serialize_with = "finite")]
    pub throughput_ops_per_s: f64,
    /// From the intended start of an operation to its reply.
    pub response_time_ns: LatencySummary,
    /// From the sending of an operation to its reply.
    pub service_time_ns: LatencySummary,
    /// Lag of the generator: lateness of the starts of operations.
    #[serde(default)]
    pub lag_ns: Option<LatencySummary>,
    /// Share of the reads that found something.
    #[serde(default)]
    pub hit_ratio: Option<f64>,
    /// Whether the warm-up ended and the rounds did not drift.
    #[serde(default)]
    pub steady: bool,
    /// The duration of the warm-up.
    #[serde(default)]
    pub warmup_ns: u64,
    /// Operations in flight by Little's law: throughput times mean response time.
    #[serde(default)]
    pub little: Option<f64>,
    /// Share of one CPU that the busiest thread of the generator worked on; waiting awake is no work.
    #[serde(default)]
    pub client_cpu_busy: Option<f64>,
    /// Share of one CPU that the server used; above 1 if it used several. For a cluster, the busiest master.
    #[serde(default)]
    pub server_cpu_busy: Option<f64>,
    /// The rounds, in the order in which they ran.
    #[serde(default)]
    pub rounds: Vec<RoundSummary>,
    /// The whole histograms.
    #[serde(default)]
    pub histograms: Histograms,
    /// The course of the measurement, interval by interval.
    #[serde(default)]
    pub series: Vec<Interval>,
    /// The longest stalls, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// Pauses of this machine's CPUs, if they were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pauses: Option<CpuPauses>,
    /// Rounds whose throughput lies outside Tukey's fences.
    #[serde(default)]
    pub outliers: Outliers,
    /// Operations executed one at a time after each block, with and without CPU waiting time. `None` if the
    /// server is on another host, or if the case does not execute single operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
    /// The cost of an operation.
    #[serde(default)]
    pub cost: Cost,
    /// Instructions of the server per operation, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Instructions of the client per operation, if they were counted. Of the cells of a call mode, the first holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_work: Option<Work>,
    /// The parts of an operation's time, on average.
    #[serde(default)]
    pub parts_ns: Parts,
}

/// Something that performs operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The name in reports.
    pub name: String,
    /// The kind.
    pub kind: SubjectKind,
    /// The address, secrets redacted.
    pub target: String,
    /// The version, if it has one.
    #[serde(default)]
    pub version: Option<String>,
}

/// The conditions of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The operations, by name.
    pub workload: String,
    /// The suite of the case; its name then describes everything that distinguishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The call mode.
    pub mode: Mode,
    /// The pacing of operations.
    pub pacing: Pacing,
    /// The spacing of starts in an open loop.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Connections.
    pub connections: u64,
    /// Threads of the generator.
    pub threads: u64,
    /// Operations sent on a connection before waiting for a reply.
    pub pipeline: u64,
    /// The limit on operations in flight over all connections.
    #[serde(default)]
    pub in_flight: Option<u64>,
    /// Operations per call.
    #[serde(default = "one")]
    pub batch: u64,
    /// The requested number of operations, if fewer were measured and the rest is extrapolated (a sweep with
    /// a time budget).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops_asked: Option<u64>,
    /// The codec of values: `json`, `msgpack`, `protobuf`; `None` for plain bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// The durability of a write, in comparisons of engines: `memory`, `process`, `interval:1s`, `always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// The number of keys.
    pub keys: u64,
    /// The distribution of keys.
    pub key_dist: String,
    /// The size of values.
    pub value_bytes: ValueBytes,
    /// Round-trip time added by a link.
    #[serde(default)]
    pub latency_ns: u64,
    /// The protocol version.
    pub resp: u64,
}

/// The pacing of operations. In JSON `"closed"`, or operations per second as a number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Pacing {
    /// Each operation starts when the previous reply arrives: suitable for capacity, not for latency.
    #[default]
    Closed,
    /// At this rate per second, independent of replies.
    Rate(f64),
}

/// The size of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ValueBytes {
    /// One size.
    Fixed(u64),
    /// Between two sizes, inclusive.
    Spread {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// The distribution of sizes: `uniform` or `zipf`.
        dist: String,
    },
}

/// One round of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundSummary {
    /// Operations answered, errors included.
    pub ops: u64,
    /// Errors of any kind.
    #[serde(default)]
    pub errors: u64,
    /// Start in nanoseconds since 1970, by the clock of the machine; `None` if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_unix_ns: Option<u64>,
    /// Time measured.
    pub duration_ns: u64,
    /// Operations per second.
    #[serde(serialize_with = "finite")]
    pub throughput_ops_per_s: f64,
    /// Mean response time; `None` without samples.
    #[serde(default)]
    pub response_time_ns_mean: Option<f64>,
    /// Median response time; `None` with too few samples.
    #[serde(default)]
    pub response_time_ns_p50: Option<u64>,
    /// 99th percentile of the response time; `None` with too few samples.
    #[serde(default)]
    pub response_time_ns_p99: Option<u64>,
    /// CPU time of the generator per operation.
    #[serde(default)]
    pub client_cpu_ns_per_op: Option<f64>,
    /// CPU time of the server per operation.
    #[serde(default)]
    pub server_cpu_ns_per_op: Option<f64>,
    /// Share of the round in which the generator's threads were runnable and waited for a CPU, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_wait: Option<f64>,
    /// Share of the round in which the server was runnable and waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_wait: Option<f64>,
    /// Median round trip of the reference in the same round: an echo of the same number of bytes over
    /// loopback, which shows the speed of the machine at that moment. `None` without a reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ns_p50: Option<u64>,
    /// Operations executed one at a time directly after the round's block. `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailSummary>,
}

/// Response times of operations that one connection executed one at a time, over all rounds: see
/// [`corrected`](crate::corrected). Percentiles with too few samples are omitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// The raw times.
    pub raw: LatencySummary,
    /// The times without each operation's CPU waiting time beyond the median of its round.
    pub corrected: LatencySummary,
}

/// The same for one round. Its percentiles are based on at most some thousand operations, so they are only
/// used to compare rounds and never published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailSummary {
    /// Operations.
    pub(crate) ops: u64,
    /// 99th percentile of the raw response times.
    pub(crate) raw_ns_p99: u64,
    /// 99th percentile without CPU waiting time.
    pub corrected_ns_p99: u64,
}

impl From<&Corrected> for Tail {
    fn from(times: &Corrected) -> Self {
        Self {
            raw: times.raw.summary(),
            corrected: times.corrected.summary(),
        }
    }
}

impl TailSummary {
    /// Summarises the operations of a round; `None` without any.
    #[must_use]
    pub fn of(times: &Corrected) -> Option<Self> {
        Some(Self {
            ops: times.count(),
            raw_ns_p99: times.raw.value_at(0.99)?,
            corrected_ns_p99: times.corrected.value_at(0.99)?,
        })
    }
}

/// The whole histograms of a case, as [`Histogram::encode`] writes them. Empty if not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histograms {
    /// Service times of all rounds.
    pub service_time: String,
    /// Response times of all rounds.
    pub response_time: String,
    /// The generator's own lag in all rounds.
    pub lag: Option<String>,
    /// The same round by round.
    pub rounds: Vec<RoundHistograms>,
}

/// The whole histograms of a round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundHistograms {
    /// Service times.
    pub service_time: String,
    /// Response times.
    pub response_time: String,
    /// The generator's own lag.
    pub lag: Option<String>,
}

/// An interval of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The round, from 0.
    #[serde(default)]
    pub round: u64,
    /// The start within the round.
    #[serde(default)]
    pub start_ns: u64,
    /// Operations answered.
    pub ops: u64,
    /// Errors.
    #[serde(default)]
    pub errors: u64,
    /// Median response time in nanoseconds; `None` with too few samples.
    #[serde(default)]
    pub p50: Option<u64>,
    /// 99th percentile of the response time in nanoseconds; `None` with too few samples.
    #[serde(default)]
    pub p99: Option<u64>,
}

/// The cost of an operation. Values that could not be measured are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// CPU time of the generator.
    pub client_cpu_ns_per_op: Option<f64>,
    /// CPU time of the server.
    pub server_cpu_ns_per_op: Option<f64>,
    /// Bytes received.
    pub bytes_in_per_op: Option<f64>,
    /// Bytes sent.
    pub bytes_out_per_op: Option<f64>,
    /// Allocations of the client.
    pub allocations_per_op: Option<f64>,
    /// Mean size of an encoded value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoded_value_bytes: Option<f64>,
    /// Memory of the client per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_bytes_per_connection: Option<f64>,
    /// Memory of the server per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_bytes_per_connection: Option<f64>,
}

/// The parts of an operation's time, on average. Values that were not measured are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// Encoding the command, or the value if it has a codec.
    pub encode: Option<u64>,
    /// Writing to the socket.
    pub write: Option<u64>,
    /// On the path in both directions.
    pub network: Option<u64>,
    /// In the server.
    pub server: Option<u64>,
    /// Reading the reply from the socket.
    pub read: Option<u64>,
    /// Decoding the reply, or the value if it has a codec.
    pub decode: Option<u64>,
    /// The remainder.
    pub unattributed: Option<u64>,
}

impl Case {
    /// Errors of all kinds together.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.values().copied().fold(0, u64::saturating_add)
    }

    /// The name in limits and baselines: the workload, plus pipeline, batch and latency if they differ from
    /// the default, such as `get pipeline 16`. A case of a suite is named by the suite.
    #[must_use]
    pub fn name(&self) -> String {
        let scenario = &self.scenario;
        let mut name = scenario.workload.clone();
        if scenario.suite.is_some() {
            return name;
        }
        for (word, value) in [("pipeline", scenario.pipeline), ("batch", scenario.batch)] {
            if value > 1 {
                name.push_str(&format!(" {word} {value}"));
            }
        }
        if scenario.latency_ns > 0 {
            name.push_str(&format!(" latency {}us", scenario.latency_ns as f64 / 1e3));
        }
        name
    }

    /// Share of the measured time in which the generator's threads waited for a CPU, on average; `None` if it is
    /// unknown for a round.
    #[must_use]
    pub fn client_cpu_wait(&self) -> Option<f64> {
        self.share_of_time(|round| round.client_cpu_wait)
    }

    /// Share of the measured time in which the server waited for a CPU; `None` if it is unknown for a round.
    #[must_use]
    pub fn server_cpu_wait(&self) -> Option<f64> {
        self.share_of_time(|round| round.server_cpu_wait)
    }

    /// The mean of a share of the time of each round.
    fn share_of_time(&self, share: fn(&RoundSummary) -> Option<f64>) -> Option<f64> {
        let (mut part, mut whole) = (0.0, 0.0);
        for round in &self.rounds {
            part += share(round)? * round.duration_ns as f64;
            whole += round.duration_ns as f64;
        }
        (whole > 0.0).then(|| part / whole)
    }

    /// A word before percentiles that are lower bounds: `"at least "`, or nothing.
    #[must_use]
    pub fn at_least(&self) -> &'static str {
        match self.percentiles {
            Some(Percentiles::AtLeast) => "at least ",
            _ => "",
        }
    }

    /// Whether operations started by a schedule.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        matches!(self.scenario.pacing, Pacing::Rate(_))
    }

    /// The distribution of the response times; `None` if it was not stored.
    ///
    /// # Errors
    ///
    /// [`Error::Histogram`] where the text in the record is not a histogram.
    pub fn response_histogram(&self) -> Result<Option<Histogram>, Error> {
        let text = &self.histograms.response_time;
        if text.is_empty() {
            Ok(None)
        } else {
            Histogram::decode(text).map(Some)
        }
    }
}

impl Default for ValueBytes {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

impl Serialize for Pacing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Closed => serializer.serialize_str("closed"),
            Self::Rate(rate) => finite(rate, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Pacing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(String),
            Rate(f64),
        }
        match Written::deserialize(deserializer)? {
            Written::Word(word) if word == "closed" => Ok(Self::Closed),
            Written::Rate(rate) if rate > 0.0 => Ok(Self::Rate(rate)),
            _ => Err(serde::de::Error::custom(
                "a pacing is \"closed\" or a rate above zero",
            )),
        }
    }
}

fn one() -> u64 {
    1
}
