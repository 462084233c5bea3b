//! The scorecard: what each client showed in the repetitions of each fault.

use super::{Audit, Fault, Trial};
use crate::quantile::median;

/// The repetitions of one fault with one client.
#[derive(Debug, Clone, PartialEq)]
pub struct Score<'t> {
    /// The driver of the client.
    pub client: &'t str,
    /// The fault, with the durability where it matters.
    pub name: String,
    /// One of the repetitions.
    pub example: &'t Trial,
    /// Repetitions.
    pub runs: u64,
    /// Times that the fault occurred, in all repetitions.
    pub faults: u64,
    /// Writes that were executed more than once, in all repetitions.
    pub twice: u64,
    /// Repetitions in which no write was acknowledged after the fault.
    pub without_end: u64,
    /// Acknowledged writes that are not in the server, in each repetition.
    pub lost: Spread,
    /// Writes whose outcome the caller does not know, in each repetition.
    pub unknown: Spread,
    /// Writes that the client reported as not executed, in each repetition.
    pub refused: Spread,
    /// The time from the fault to the first error, in nanoseconds; `None` if it was not noticed in one repetition.
    pub detection_ns: Option<Spread>,
    /// The longest time without an acknowledged write, in nanoseconds; `None` without writes.
    pub outage_ns: Option<Spread>,
}

/// A value in several repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// `None` without values.
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        Some(Self {
            median: median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }

    fn of_counts(trials: &[&Trial], of: impl Fn(&Trial) -> u64) -> Self {
        let counts = trials.iter().map(|trial| of(trial) as f64);
        Self::of(counts).expect("a score has a repetition")
    }

    /// Of a time that each repetition has.
    fn of_times(trials: &[&Trial], of: impl Fn(&Trial) -> Option<u64>) -> Option<Self> {
        let times = trials.iter().map(|trial| of(trial).map(|ns| ns as f64));
        Self::of(times.collect::<Option<Vec<f64>>>()?)
    }
}

impl Score<'_> {
    /// The fault.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.example.fault
    }
}

/// The scores of clients that are compared: by fault, in the order of the trials, and there by client.
#[must_use]
pub fn scores(trials: &[Trial]) -> Vec<Score<'_>> {
    let mut faults: Vec<String> = Vec::new();
    let mut clients: Vec<&str> = Vec::new();
    for trial in trials {
        let (fault, client) = (trial.fault_name(), trial.client.as_deref());
        if !faults.contains(&fault) {
            faults.push(fault);
        }
        clients.extend(client.filter(|client| !clients.contains(client)));
    }
    let pairs = faults
        .iter()
        .flat_map(|fault| clients.iter().map(move |client| (fault, *client)));
    pairs
        .filter_map(|(fault, client)| {
            let same = trials.iter().filter(|trial| {
                trial.client.as_deref() == Some(client) && trial.fault_name() == *fault
            });
            score(client, fault, &same.collect::<Vec<_>>())
        })
        .collect()
}

fn score<'t>(client: &'t str, name: &str, trials: &[&'t Trial]) -> Option<Score<'t>> {
    let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum();
    let is_open = |trial: &Trial| {
        let clocks = &trial.clocks;
        let ends = clocks.outage.is_some_and(|gap| gap.is_open);
        u64::from(ends && clocks.first_write_ns.is_none())
    };
    Some(Score {
        client,
        name: name.to_owned(),
        example: trials.first()?,
        runs: trials.len() as u64,
        faults: sum(|trial| trial.faults),
        twice: sum(Trial::twice),
        without_end: sum(is_open),
        lost: Spread::of_counts(trials, Trial::lost),
        unknown: Spread::of_counts(trials, Trial::ambiguous),
        refused: Spread::of_counts(trials, |trial| {
            trial.audits.iter().map(|audit: &Audit| audit.refused).sum()
        }),
        // A call that has not ended is no error.
        detection_ns: Spread::of_times(trials, |trial| {
            trial.errors.keys().next().and(trial.clocks.detection_ns)
        }),
        outage_ns: Spread::of_times(trials, |trial| Some(trial.clocks.outage?.length_ns())),
    })
}
