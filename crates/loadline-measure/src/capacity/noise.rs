//! What disturbed the trials of a search.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::curve::Told;
use super::trial::{Disturbance, Verdict};
use crate::quantile;

/// From this share of spoiled trials on, a search that came to no end did so for want of clean ones.
const MOST: f64 = 0.25;

/// What disturbed the trials of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noise {
    /// All trials.
    pub trials: u32,
    /// Those that missed the limit while the machine was disturbed, and say nothing of the target.
    pub spoiled: u32,
    /// Of those: a CPU of the machine did not run.
    pub paused: u32,
    /// Other processes had the CPUs.
    pub contended: u32,
    /// The generator started operations late, though it was not busy.
    pub late: u32,
    /// The machine was slower than at the beginning of the search.
    pub slower: u32,
    /// How often a CPU did not run, per second of all trials.
    pub pauses_per_s: f64,
    /// The longest pause of a trial that was spoiled by one, in nanoseconds: the middle one of those.
    pub pause_ns: Option<u64>,
    /// The 0.99 quantile of how late the generator started operations in spoiled trials, in nanoseconds: the
    /// middle one of those.
    pub lag_ns: Option<u64>,
    /// CPU time of other processes in trials that were spoiled by them, as a share of one CPU: the middle
    /// one of those.
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

    /// Whether clean trials were hard to have.
    pub(super) fn is_most(&self) -> bool {
        f64::from(self.spoiled) >= MOST * f64::from(self.trials.max(1))
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile::median(&values.collect::<Vec<f64>>())
}
