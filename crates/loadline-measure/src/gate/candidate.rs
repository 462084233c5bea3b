//! The runs that are compared with a baseline.

use super::baseline::BaselineRun;
use crate::record::Environment;

/// A candidate: one run, or two of the same.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The run.
    pub first: &'a BaselineRun,
    /// The run in new processes that was made because [`Judgement::needs_second_run`](super::Judgement::needs_second_run) asked for it.
    pub second: Option<&'a BaselineRun>,
    /// The environment of the runs.
    pub environment: &'a Environment,
    /// The identity of their work.
    pub workload_hash: &'a str,
}
