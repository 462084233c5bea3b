//! The gate: whether something got slower, and how certain that is.
//!
//! Every kind of comparison results in a [`Judged`], which `loadline-report` writes as a [`Judgement`] in words: a run against a stored [`Baseline`] ([`strict`]), a
//! run against the file of numbers of another tool ([`classic`]), two subjects measured together
//! ([`Judgement::of_comparisons`]) and two records of different times ([`records`]).

pub mod baseline;
mod both;
mod candidate;
pub mod classic;
mod control;
mod cpu_wait;
mod fingerprint;
mod judgement;
mod limits;
mod pairs;
mod pooled;
mod reason;
pub mod records;
#[cfg(test)]
mod simulations;
mod spread;
pub mod strict;
pub(crate) mod student;
#[cfg(test)]
mod weather;
mod work;

pub use baseline::{Baseline, BaselineCase, BaselineRun, Measured};
pub use candidate::Candidate;
pub use fingerprint::Difference;
pub use judgement::{Basis, Judgement, Outcome, Policy, Row, RowVerdict, SCHEMA};
pub use limits::{
    of_cases as limits_of_cases, of_run as limits_of_run, of_trials as limits_of_trials, outcome_of,
};
pub use reason::{
    Change, Collapse, Counted, FailoverReason, Gap, Grounds, Judged, JudgedRow, LimitGrounds,
    Reason, RecordReason, Remark, Remedy, RepetitionGrounds, RunsFound, Side,
};
pub use strict::{Thresholds, judge, judge_by};
pub use work::of_two as of_works;
