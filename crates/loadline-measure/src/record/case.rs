//! One subject under one scenario.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::json::finite;
use super::stall::{CpuPauses, Stall};
use super::vocabulary::{Arrivals, Mode, SubjectKind};
use crate::Error;
use crate::corrected::Corrected;
use crate::histogram::{Histogram, LatencySummary};
use crate::outliers::Outliers;
use crate::work::Work;

/// What was measured of one subject under one scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Who was measured.
    pub subject: Subject,
    /// Under what.
    pub scenario: Scenario,
    /// Operations answered in all rounds, errors included.
    pub ops: u64,
    /// Operations that did not get what they asked for, by kind.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Operations that the schedule of an open loop held.
    #[serde(default)]
    pub planned: Option<u64>,
    /// Those of them that were never sent.
    #[serde(default)]
    pub not_sent: Option<u64>,
    /// Time measured, all rounds together, the warm-up not counted.
    pub duration_ns: u64,
    /// Operations per second of measured time.
    #[serde(serialize_with = "finite")]
    pub throughput_ops_per_s: f64,
    /// From the intended start of an operation to its reply.
    pub response_time_ns: LatencySummary,
    /// From the sending of an operation to its reply.
    pub service_time_ns: LatencySummary,
    /// How late the generator itself started operations.
    #[serde(default)]
    pub lag_ns: Option<LatencySummary>,
    /// Share of the reads that found something.
    #[serde(default)]
    pub hit_ratio: Option<f64>,
    /// Whether the warm-up ended and the rounds did not drift; if not, there is no steady state.
    #[serde(default)]
    pub steady: bool,
    /// How long the warm-up took.
    #[serde(default)]
    pub warmup_ns: u64,
    /// Operations in flight by Little's law: throughput times mean response time.
    #[serde(default)]
    pub little: Option<f64>,
    /// Share of one CPU that the busiest thread of the generator worked on; waiting awake is no work.
    #[serde(default)]
    pub client_cpu_busy: Option<f64>,
    /// Share of one CPU that the server used; above 1 where it used several. Of a cluster, the master
    /// that used most.
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
    /// The longest stretches in which operations waited and nothing arrived, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// When CPUs of this machine did not run, where that was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pauses: Option<CpuPauses>,
    /// Rounds whose throughput lies outside Tukey's fences.
    #[serde(default)]
    pub outliers: Outliers,
    /// Operations run one at a time beside the load, with and without the waiting for a CPU. `None`
    /// where the server is not on the same host, or one operation at a time is not what the case is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
    /// What an operation costs.
    #[serde(default)]
    pub cost: Cost,
    /// Instructions per operation, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Where the time of an operation went, on average.
    #[serde(default)]
    pub parts_ns: Parts,
}

/// Something that performs operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What reports call it.
    pub name: String,
    /// What it is.
    pub kind: SubjectKind,
    /// Where it is, secrets redacted.
    pub target: String,
    /// Its version, where it has one.
    #[serde(default)]
    pub version: Option<String>,
}

/// What a subject was put under.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The operations, by name.
    pub workload: String,
    /// The suite that it is a case of; its name then says all that sets it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// How they were called.
    pub mode: Mode,
    /// When operations were meant to start.
    pub pacing: Pacing,
    /// How the starts of an open loop were spaced.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Connections.
    pub connections: u64,
    /// Threads of the generator.
    pub threads: u64,
    /// Operations sent on a connection before a reply is waited for.
    pub pipeline: u64,
    /// The limit on operations in flight over all connections.
    #[serde(default)]
    pub in_flight: Option<u64>,
    /// Operations per call.
    #[serde(default = "one")]
    pub batch: u64,
    /// Operations that were asked for, where fewer may have been measured and the rest is
    /// extrapolated (a sweep with a time budget).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops_asked: Option<u64>,
    /// What values were encoded by and decoded by: `json`, `msgpack`, `protobuf`; `None` for bytes
    /// that are taken as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// What survived of a write, where engines were compared: `memory`, `process`, `interval:1s`, `always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// Keys in the key space.
    pub keys: u64,
    /// How keys are chosen.
    pub key_dist: String,
    /// How large values are.
    pub value_bytes: ValueBytes,
    /// Round-trip time that a link emulator added.
    #[serde(default)]
    pub latency_ns: u64,
    /// The version of the protocol.
    pub resp: u64,
}

/// When operations were meant to start. In JSON `"closed"`, or operations per second as a number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Pacing {
    /// The next one starts when a reply has come: good for capacity, not for claims on latency.
    #[default]
    Closed,
    /// At this many per second, whatever the replies do.
    Rate(f64),
}

/// How large values are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ValueBytes {
    /// All of one size.
    Fixed(u64),
    /// Between two sizes, both included.
    Spread {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// How sizes are chosen: `uniform` or `zipf`.
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
    /// Median round trip of the reference in the same round: an echo of as many bytes over loopback,
    /// which tells how fast the machine was at that moment. `None` where none was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ns_p50: Option<u64>,
    /// Operations run one at a time directly after the round's block. `None` where none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailSummary>,
}

/// Response times of operations that one connection ran one at a time, over all rounds: see
/// [`corrected`](crate::corrected). Percentiles are left out below the samples that they need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// As they were.
    pub raw: LatencySummary,
    /// Without what each operation waited for a CPU beyond the median of its round.
    pub corrected: LatencySummary,
}

/// The same in one round. Its percentiles are of some thousand operations at most, so they are an
/// ingredient of comparisons between rounds, and no report publishes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailSummary {
    /// Operations.
    pub ops: u64,
    /// 99th percentile of the response times as they were.
    pub raw_ns_p99: u64,
    /// 99th percentile without the waiting for a CPU.
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
    /// What a round keeps of its operations; `None` without any.
    #[must_use]
    pub fn of(times: &Corrected) -> Option<Self> {
        Some(Self {
            ops: times.count(),
            raw_ns_p99: times.raw.value_at(0.99)?,
            corrected_ns_p99: times.corrected.value_at(0.99)?,
        })
    }
}

/// The whole histograms of a case, as [`Histogram::encode`] writes them. Empty where not kept.
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

/// A stretch of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The round that it belongs to, from 0.
    #[serde(default)]
    pub round: u64,
    /// Where it starts within its round.
    #[serde(default)]
    pub start_ns: u64,
    /// Operations answered in it.
    pub ops: u64,
    /// Errors in it.
    #[serde(default)]
    pub errors: u64,
    /// Median response time in nanoseconds; `None` with too few samples.
    #[serde(default)]
    pub p50: Option<u64>,
    /// 99th percentile of the response time in nanoseconds; `None` with too few samples.
    #[serde(default)]
    pub p99: Option<u64>,
}

/// What an operation costs. What could not be measured is `None`.
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
    /// Bytes of a value as its codec encoded it, the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoded_value_bytes: Option<f64>,
    /// Memory that the client holds for each of its connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_bytes_per_connection: Option<f64>,
    /// Memory that the server holds for each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_bytes_per_connection: Option<f64>,
}

/// Where the time of an operation went, on average. What was not measured is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// Encoding the command; where values have a codec, encoding one value.
    pub encode: Option<u64>,
    /// Writing it to the socket.
    pub write: Option<u64>,
    /// On the way, there and back.
    pub network: Option<u64>,
    /// In the server.
    pub server: Option<u64>,
    /// Reading the reply from the socket.
    pub read: Option<u64>,
    /// Decoding it; where values have a codec, decoding one value.
    pub decode: Option<u64>,
    /// What is left.
    pub unattributed: Option<u64>,
}

impl Case {
    /// Errors of all kinds together.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.values().copied().fold(0, u64::saturating_add)
    }

    /// What limits and baselines call it: the workload, and what of pipeline, batch and latency is
    /// not as by default, such as `get pipeline 16`. A case of a suite has its name from there.
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

    /// Whether operations started by a schedule.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        matches!(self.scenario.pacing, Pacing::Rate(_))
    }

    /// The whole distribution of the response times; `None` where it was not kept.
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
