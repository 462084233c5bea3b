//! Histograms, intervals, comparisons and the record of a measurement, as pure functions.
//!
//! Everything here is a function of numbers, without clocks, files or sockets, so every verdict of Loadline
//! can be tested with a table. It is not a benchmark harness (see `loadline-load`) and renders nothing (see
//! `loadline-report`).
//!
//! The main type is [`Record`], which holds all measurements of a run. The other modules compute its
//! contents:
//!
//! - [`histogram`]: times of single operations, and their publishable percentiles;
//! - [`interval`] and [`compare`]: the interval of a median, and two subjects in paired rounds;
//! - [`quantile`]: the one median that the whole workspace uses;
//! - [`corrected`]: tails without CPU waiting time, next to the raw ones;
//! - [`agents`]: the records of several load generators as one;
//! - [`clients`]: rows, gates and behaviour of client libraries;
//! - [`capacity`]: the search for the highest load that keeps a limit;
//! - [`sizes`]: the sizes of a batch that are as good as the best;
//! - [`outliers`] and [`steady`]: rounds far from the others, and where a warm-up ends;
//! - [`doctor`]: the flaws of the benchmark itself, as numbered rules;
//! - [`proof`]: how often such verdicts are right, based on the noise of real comparisons;
//! - [`words`]: numbers as people read them, with three digits and a unit;
//! - [`gate`]: whether something got slower, against a baseline, a pair or a limit.
//!
//! ```
//! use loadline_measure::compare::{Rules, Verdict, paired};
//! use loadline_measure::metric::Direction;
//!
//! // Median response times of two subjects in ten interleaved rounds, in nanoseconds.
//! let a = [100.0, 104.0, 98.0, 101.0, 99.0, 103.0, 100.0, 97.0, 102.0, 100.0];
//! let b = [119.0, 126.0, 118.0, 120.0, 121.0, 122.0, 119.0, 118.0, 121.0, 120.0];
//! let comparison = paired(&a, &b, Direction::LessIsBetter, &Rules::default())?;
//! assert_eq!(comparison.verdict, Verdict::Slower);
//! assert_eq!(comparison.rounds_slower, 10);
//! # Ok::<(), loadline_measure::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod agents;
pub mod capacity;
pub mod clients;
pub mod compare;
pub mod corrected;
pub mod doctor;
pub mod engines;
mod error;
pub mod failover;
pub mod gate;
pub mod histogram;
pub mod interval;
pub mod limit;
pub mod metric;
pub mod miss_ratio;
pub mod outliers;
pub mod proof;
pub mod quantile;
pub mod record;
pub mod sizes;
pub mod steady;
pub mod summary;
pub mod sweep;
pub mod tiers;
mod vocabulary;
pub mod words;
pub mod work;

pub use error::Error;
pub use histogram::{Histogram, LatencySummary};
pub use limit::Limit;
pub use metric::Metric;
pub use record::Record;
