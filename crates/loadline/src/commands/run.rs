//! `loadline run`: measures targets.

use std::process::ExitCode;

use loadline_measure::gate::{self, Outcome, Row, RowVerdict};

use super::{agent, surroundings};
use crate::args::RunArgs;
use crate::plan;
use crate::session::{self, Ending, Results};

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let Some(agents) = args.agents.agents {
        return agent::lead(agents, args);
    }
    let plan = plan::resolve(args, &surroundings())?;
    let limits = plan::limits(&args.limits, &plan)?;
    session::execute(
        "run",
        &args.results,
        &plan.describe_with(&limits),
        |shell| {
            let mut recorded = session::measure(&plan, shell)?;
            let judged = gate::limits_of_cases(&recorded.record.cases, &limits);
            recorded.record.limits = loadline_report::rows(judged);
            Ok(recorded.refuse_errors())
        },
        |record, _, results| {
            if !limits.is_empty() && !record.run.cut_short {
                judge(&record.limits, args.strict, results);
            }
        },
    )
}

/// Ends the run with the outcome of its limits.
pub(super) fn judge(limits: &[Row], strict: bool, results: &mut Results) {
    let outcome = gate::outcome_of(limits);
    let code = match outcome {
        Outcome::Critical => 2,
        Outcome::Inconclusive if strict => 3,
        _ => 0,
    };
    results.ending = Ending::answer(outcome.name(), code);
    // Limits that are broken or could not be judged.
    let rows = limits.iter();
    results.remarks = rows
        .filter(|row| row.verdict != RowVerdict::Equivalent)
        .map(loadline_report::row_sentence)
        .collect();
}
