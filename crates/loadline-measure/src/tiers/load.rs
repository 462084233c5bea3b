//! A cache in tiers under load: what answers, how fast, and what the tier below memory saves.

use serde::{Deserialize, Serialize};

use crate::record::Bounds;
use crate::vocabulary::vocabulary;

vocabulary! {
    /// The phases of a load, in their order. Each has the same number of windows.
    pub enum Phase {
        /// All tiers are empty at its start.
        ColdStart = "cold start",
        /// It follows at once.
        Warm = "warm",
        /// Memory is empty at its start, and the tier is not.
        Restart = "restart",
    }
}

/// A load of gets by a distribution of keys, on caches that start empty and are restarted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierLoad {
    /// The distribution of the keys.
    pub key_dist: String,
    /// The number of keys.
    pub keys: u64,
    /// The size of the memory tier.
    pub memory_bytes: u64,
    /// The most bytes that are written to a tier below.
    pub tier_bytes: u64,
    /// Gets per second of each subject in an open loop; `None` in a closed loop.
    pub rate_ops_per_s: Option<f64>,
    /// Gets of each subject in a window, as planned.
    pub window_gets: u64,
    /// The cache that only recomputes, and a cache for each tier below memory. All of them are asked for the same keys.
    pub subjects: Vec<LoadSubject>,
}

/// A cache under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadSubject {
    /// Its name in reports.
    pub name: String,
    /// The tier below memory; `None` if there is none.
    pub tier: Option<String>,
    /// Gets from the cold start until the mean time of a get no longer shifts; `None` if it still does at the restart.
    pub steady_after_gets: Option<u64>,
    /// The time that these gets took.
    pub steady_after_ns: Option<u64>,
    /// Cold start, warm, and after a restart.
    pub phases: Vec<LoadPhase>,
    /// Answers by source, over all phases.
    pub answers: Vec<LoadAnswer>,
    /// The course.
    pub windows: Vec<LoadWindow>,
}

/// A part of the load. Predictions are those of a cache of the same size that evicts the least recently used object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadPhase {
    /// The phase.
    pub name: Phase,
    /// Gets.
    pub gets: u64,
    /// Mean time of a get.
    pub get_ns: f64,
    /// Median time of a get; `None` with too few gets.
    pub get_ns_p50: Option<u64>,
    /// 99th percentile; `None` with too few gets.
    pub get_ns_p99: Option<u64>,
    /// In an open loop: mean time from the intended start of a get to its end.
    pub response_time_ns: Option<f64>,
    /// Median; `None` with too few gets.
    pub response_time_ns_p50: Option<u64>,
    /// 99th percentile; `None` with too few gets.
    pub response_time_ns_p99: Option<u64>,
    /// Share of the gets that memory answers.
    pub memory_hit_ratio: f64,
    /// The same as predicted.
    pub predicted_memory_hit_ratio: f64,
    /// Share of the gets that reach the tier and that it answers; `None` without a tier or without such gets.
    pub tier_hit_ratio: Option<f64>,
    /// The same as predicted.
    pub predicted_tier_hit_ratio: Option<f64>,
    /// Time that a get saves against the cache that only recomputes: the median over the windows. Negative if it takes
    /// more; `None` without a tier.
    pub saves_ns: Option<f64>,
    /// Its interval over the windows; `None` with too few windows.
    pub saves_interval: Option<Bounds>,
    /// Answers by source.
    pub answers: Vec<LoadAnswer>,
}

/// The gets that one tier answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadAnswer {
    /// Source of the answers: `memory`, the tier, or `recompute`.
    pub by: String,
    /// Gets.
    pub gets: u64,
    /// Their share of all gets.
    pub share: f64,
    /// Mean time of a get.
    pub get_ns: f64,
    /// Median time; `None` with too few gets.
    pub get_ns_p50: Option<u64>,
    /// 99th percentile; `None` with too few gets.
    pub get_ns_p99: Option<u64>,
}

/// A window of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadWindow {
    /// The phase that it belongs to.
    pub phase: Phase,
    /// Gets before it.
    pub first_get: u64,
    /// The time that these took.
    pub start_ns: u64,
    /// Gets.
    pub gets: u64,
    /// Mean time of a get.
    pub get_ns: f64,
    /// Median time of a get; `None` with too few gets.
    pub get_ns_p50: Option<u64>,
    /// 99th percentile; `None` with too few gets.
    pub get_ns_p99: Option<u64>,
    /// In an open loop: mean time from the intended start of a get to its end.
    pub response_time_ns: Option<f64>,
    /// Median; `None` with too few gets.
    pub response_time_ns_p50: Option<u64>,
    /// 99th percentile; `None` with too few gets.
    pub response_time_ns_p99: Option<u64>,
    /// Answers by source.
    pub answers: Vec<LoadAnswer>,
}
