//! The gate: did it get slower, and may that be believed?
//!
//! Every way of asking ends in one [`Judgement`]. What a baseline is and how a run is judged against it
//! stands in [`baseline`] and [`strict`].

pub mod baseline;
mod fingerprint;
mod judgement;
mod limits;
mod spread;
pub mod strict;
mod student;

pub use baseline::{Baseline, BaselineCase, BaselineRun, Measured};
pub use judgement::{Basis, Judgement, Outcome, Policy, Row, RowVerdict, SCHEMA};
pub use limits::of_run as limits_of_run;
pub use strict::{Candidate, Thresholds, judge, judge_by};
