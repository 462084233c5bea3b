//! Baselines: several runs of one plan on one machine.
//!
//! A run is stored as two numbers per case and metric, `median over rounds of ln m` and `median over rounds
//! of ln(m / m_ref)`, where `m_ref` is the median round trip of the reference in the same round: a plain echo
//! of the same number of bytes. Load on the machine slows both the subject and the reference. How much of the
//! reference is removed depends on how both varied over the runs (`gate::control`): anything between the
//! first number and the second. A throughput falls when times rise, so it is multiplied by `m_ref` instead:
//! `ln(m * m_ref)`. The whole histogram is stored as well, so that an old baseline can be judged by other
//! thresholds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use super::fingerprint;
use crate::metric::Direction;
use crate::metric::Metric;
use crate::quantile::median;
use crate::record::{Case, Environment, Record, RoundSummary, shortened};
use crate::work::Work;
use crate::{Error, Histogram, Limit};

mod json;
#[cfg(test)]
mod tests;

/// The schema that this version writes and reads.
pub const SCHEMA: &str = "loadline.baseline/1";

/// The most runs of a baseline, and the most cases of a run.
const MOST: usize = 1_000;

/// Several runs of one plan on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// The target as written on the command line, secrets redacted.
    pub target: String,
    /// A hash of everything that defines the work; runs with another hash are rejected.
    pub workload_hash: String,
    /// The resolved plan, so that a candidate can be measured in the same way.
    #[serde(default)]
    pub plan: serde_json::Value,
    /// The machine and the server of the first run.
    #[serde(default)]
    pub environment: Environment,
    /// The limits of every candidate.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// The runs, in the order in which they were added.
    pub runs: Vec<BaselineRun>,
}

/// One run of a baseline, or a candidate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineRun {
    /// The run's name, as in its record.
    pub id: String,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// Its cases by name, as [`Case::name`] gives it.
    pub cases: BTreeMap<String, BaselineCase>,
}

/// One case of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineCase {
    /// The measured metrics. Unknown metrics are ignored.
    #[serde(deserialize_with = "known")]
    pub metrics: BTreeMap<Metric, Measured>,
    /// Instructions per operation, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The median round trip of the reference over the rounds; `None` in older baselines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ns_p50: Option<f64>,
    /// Median over the rounds of the share of the time in which generator and server were runnable and waited for a
    /// CPU, added up, from 0 to 1; `None` if it was not observed, and in older baselines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_wait: Option<f64>,
    /// The response times of all rounds, as [`Histogram::encode`] writes them; empty if not stored.
    #[serde(default)]
    pub response_time: String,
}

/// One metric of one case in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The median over the rounds of the logarithm in units of the reference; `None` if the rounds lack the
    /// metric or a value is not above zero, in which case only limits can judge it.
    #[serde(default)]
    pub normalised_ln: Option<f64>,
    /// The same without the reference; `None` in older baselines, which use `raw` instead.
    #[serde(default)]
    pub round_ln: Option<f64>,
    /// The value over all rounds, in the metric's own unit: nanoseconds, operations per second, or a share
    /// from 0 to 1.
    pub raw: f64,
    /// The number of rounds.
    pub rounds: u32,
}

impl Baseline {
    /// Creates a baseline of a target and its plan, without runs.
    #[must_use]
    pub fn new(
        target: String,
        workload_hash: String,
        plan: serde_json::Value,
        environment: Environment,
        limits: Vec<Limit>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            target,
            workload_hash,
            plan,
            environment,
            limits,
            runs: Vec::new(),
        }
    }

    /// Adds a run that was made in `environment`, with the work that `workload_hash` identifies.
    ///
    /// # Errors
    ///
    /// [`Error::Incomparable`] if the run has different work, cases, machine, kernel, server or settings, or
    /// is already in the baseline.
    pub fn add(
        &mut self,
        run: BaselineRun,
        environment: &Environment,
        workload_hash: &str,
    ) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Incomparable(reason));
        if workload_hash != self.workload_hash {
            return refuse(format!(
                "The baseline is of the workload {}, the run of {}; measure with the baseline's plan.",
                shortened(&self.workload_hash),
                shortened(workload_hash)
            ));
        }
        let differences = fingerprint::differences(&self.environment, environment);
        if !differences.is_empty() {
            let sentences: Vec<String> = differences.iter().map(ToString::to_string).collect();
            return refuse(format!(
                "{} Save a baseline of its own for it.",
                sentences.join(" ")
            ));
        }
        if self.runs.iter().any(|held| held.id == run.id) {
            return refuse(format!(
                "the run {} is in it already, and one run counted twice hides how runs differ.",
                shortened(&run.id)
            ));
        }
        if let Some(first) = self.runs.first() {
            let (held, new) = (names(first), names(&run));
            if let Some(case) = held.symmetric_difference(&new).next() {
                let (one, other) = if held.contains(case) {
                    ("the runs before", "the new run")
                } else {
                    ("the new run", "the runs before")
                };
                let case = shortened(case);
                return refuse(format!(
                    "{one} measured the case \"{case}\", {other} did not."
                ));
            }
        }
        run.check("the new run")?;
        if self.runs.len() >= MOST {
            return refuse(format!("a baseline holds {MOST} runs at most."));
        }
        self.runs.push(run);
        Ok(())
    }
}

impl BaselineRun {
    /// Extracts the run of a record, with each case normalised by the reference of its rounds.
    ///
    /// # Errors
    ///
    /// [`Error::Incomparable`] if the record was cut short, has rounds without a reference, has no cases, or
    /// has two cases of the same name (for example of two targets); [`Error::Field`] if a value is
    /// impossible.
    pub fn of_record(record: &Record) -> Result<Self, Error> {
        let refuse = |reason: String| Err(Error::Incomparable(reason));
        let id = shortened(&record.run.id);
        if record.run.cut_short {
            return refuse(format!(
                "the run {id} was cut short, so its rounds are not those that its plan asks for."
            ));
        }
        if record.cases.is_empty() {
            return refuse(format!("the run {id} measured no case."));
        }
        let mut run = Self {
            id: record.run.id.clone(),
            started_at: record.run.started_at.clone(),
            cases: BTreeMap::new(),
        };
        for case in &record.cases {
            let name = case.name();
            let shown = shortened(&name);
            let is_referred = |round: &RoundSummary| round.reference_ns_p50.unwrap_or(0) > 0;
            if case.rounds.is_empty() || !case.rounds.iter().all(is_referred) {
                return refuse(format!(
                    "the case \"{shown}\" of the run {id} was measured without a reference in every round, so the speed of the machine at the time is unknown."
                ));
            }
            if run.cases.insert(name, BaselineCase::new(case)).is_some() {
                return refuse(format!(
                    "the run {id} has two cases called \"{shown}\"; a baseline is of one target, measured in one way."
                ));
            }
        }
        run.check(&format!("the run {id}"))?;
        Ok(run)
    }
}

impl BaselineCase {
    fn new(case: &Case) -> Self {
        let measured = Metric::ALL.into_iter().filter_map(|metric| {
            let raw = metric.of_case(case)?;
            let rounds_of = |reference: Reference| {
                median(&logs_of_rounds(case, metric, reference).unwrap_or_default())
            };
            let rounds = u32::try_from(case.rounds.len()).unwrap_or(u32::MAX);
            let measured = Measured {
                normalised_ln: rounds_of(Reference::TakenOut),
                round_ln: rounds_of(Reference::LeftIn),
                raw,
                rounds,
            };
            Some((metric, measured))
        });
        let references = case
            .rounds
            .iter()
            .filter_map(|round| round.reference_ns_p50);
        Self {
            metrics: measured.collect(),
            work: case.work.clone().map(|work| Work {
                // The gate names functions and draws no graph, and a baseline has many runs.
                frames: Vec::new(),
                ..work
            }),
            reference_ns_p50: median(&references.map(|ns| ns as f64).collect::<Vec<_>>()),
            cpu_wait: Self::cpu_wait_of(case),
            response_time: case.histograms.response_time.clone(),
        }
    }

    /// [`Self::cpu_wait`] of a case.
    pub(super) fn cpu_wait_of(case: &Case) -> Option<f64> {
        let of_round = |round: &RoundSummary| {
            let shares = [round.client_cpu_wait, round.server_cpu_wait];
            let waited = shares
                .into_iter()
                .flatten()
                .reduce(|one, other| one + other);
            waited.map(|share| share.clamp(0.0, 1.0))
        };
        let shares: Vec<f64> = case.rounds.iter().filter_map(of_round).collect();
        median(&shares)
    }

    /// The response times of all rounds; `None` if not stored.
    ///
    /// # Errors
    ///
    /// [`Error::Histogram`] where the text is not a histogram.
    pub fn response_histogram(&self) -> Result<Option<Histogram>, Error> {
        let text = &self.response_time;
        (!text.is_empty())
            .then(|| Histogram::decode(text))
            .transpose()
    }
}

/// The values that runs are compared by, round by round, in units of the reference. A round without a value,
/// such as a median of too few operations, is skipped; `None` if fewer than half of the rounds remain.
///
/// CPU time per operation is not normalised, because it does not include the waiting time that the reference
/// removes. The throughput of an open loop has no value, because the schedule determines it.
pub(super) fn normalised_rounds(case: &Case, metric: Metric) -> Option<Vec<f64>> {
    logs_of_rounds(case, metric, Reference::TakenOut)
}

/// The use of the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reference {
    TakenOut,
    LeftIn,
}

fn logs_of_rounds(case: &Case, metric: Metric, reference: Reference) -> Option<Vec<f64>> {
    let is_of_schedule = matches!(metric, Metric::Throughput | Metric::TimePerOp);
    if is_of_schedule && case.is_open_loop() {
        return None;
    }
    let is_cpu = matches!(metric, Metric::ServerCpu | Metric::ClientCpu);
    let logs = case.rounds.iter().filter_map(|round| {
        let value = positive_ln(metric.of_round(round)?)?;
        if is_cpu {
            return Some(value);
        }
        // Also read when the reference is not removed, so that both results cover the same rounds.
        let of_reference = positive_ln(round.reference_ns_p50? as f64)?;
        Some(match (reference, metric.direction()) {
            (Reference::LeftIn, _) => value,
            (Reference::TakenOut, Direction::LessIsBetter) => value - of_reference,
            (Reference::TakenOut, Direction::MoreIsBetter) => value + of_reference,
        })
    });
    let logs: Vec<f64> = logs.collect();
    (!logs.is_empty() && 2 * logs.len() >= case.rounds.len()).then_some(logs)
}

fn positive_ln(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

fn names(run: &BaselineRun) -> BTreeSet<&str> {
    run.cases.keys().map(String::as_str).collect()
}

fn known<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Metric, Measured>, D::Error> {
    let all = BTreeMap::<String, Measured>::deserialize(deserializer)?;
    let known = all
        .into_iter()
        .filter_map(|(key, measured)| Some((Metric::from_key(&key)?, measured)));
    Ok(known.collect())
}
