//! Disturbances of the trials of a search.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::curve::Told;
use super::trial::{Disturbance, Verdict};
use crate::quantile;

/// The share of spoiled trials from which a search without an answer is attributed to noise.
const MOST: f64 = 0.25;

/// Disturbances of the trials of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noise {
    /// All trials.
    pub trials: u32,
    /// Spoiled trials: they missed the limit on a disturbed machine and say nothing about the target.
    pub spoiled: u32,
    /// Trials spoiled because a CPU of the machine did not run.
    pub paused: u32,
    /// Trials spoiled because other processes used the CPUs.
    pub contended: u32,
    /// Trials spoiled because the generator started operations late without being busy.
    pub late: u32,
    /// Trials spoiled because the machine was slower than at the beginning of the search.
    pub slower: u32,
    /// Pauses of CPUs per second of all trials.
    pub pauses_per_s: f64,
    /// The longest pause of a trial that was spoiled by one, in nanoseconds: the median of these trials.
    pub pause_ns: Option<u64>,
    /// The 0.99 quantile of the generator's lag in trials spoiled by it, in nanoseconds: the median of these
    /// trials.
    pub lag_ns: Option<u64>,
    /// CPU time of other processes in trials spoiled by them, as a share of one CPU: the median of these
    /// trials.
    pub others: Option<f64>,
}

impl Noise {
    pub(super) fn of(told: &[Told]) -> Self {
        let spoiled_by = |wanted: Disturbance| {
            told.iter()
                .filter(move |told| told.verdict == Verdict::Spoiled(wanted))
        };
        let count = |wanted| spoiled_by(wanted).count() as u32;
        let spoiled = || {
            told.iter()
                .filter(|told| matches!(told.verdict, Verdict::Spoiled(_)))
        };
        let time: Duration = told.iter().map(|told| told.trial.machine.duration).sum();
        let pauses: u64 = told.iter().map(|told| told.trial.machine.pauses).sum();
        let longest = spoiled_by(Disturbance::Pause)
            .map(|told| told.trial.machine.longest_pause.as_nanos() as f64);
        let lag = spoiled().filter_map(|told| told.trial.lag_p99_ns.map(|ns| ns as f64));
        let others =
            spoiled_by(Disturbance::Contention).filter_map(|told| told.trial.machine.others);
        Self {
            trials: told.len() as u32,
            spoiled: spoiled().count() as u32,
            paused: count(Disturbance::Pause),
            contended: count(Disturbance::Contention),
            late: count(Disturbance::Lag),
            slower: count(Disturbance::Drift),
            pauses_per_s: pauses as f64 / time.as_secs_f64().max(1e-9),
            pause_ns: middle(longest).map(|ns| ns as u64),
            lag_ns: middle(lag).map(|ns| ns as u64),
            others: middle(others),
        }
    }

    /// Whether undisturbed trials were rare.
    pub(super) fn is_most(&self) -> bool {
        f64::from(self.spoiled) >= MOST * f64::from(self.trials.max(1))
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile::median(&values.collect::<Vec<f64>>())
}
