//! `loadline run`: measures targets.

use std::process::ExitCode;

use loadline_measure::gate::{self, Outcome, RowVerdict};

use super::surroundings;
use crate::args::RunArgs;
use crate::files;
use crate::plan;
use crate::recording;
use crate::session::{self, Ending, Results, Shell, finish};

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve(args, &surroundings())?;
    let limits = plan::limits(&args.limits.limit, &plan)?;
    if args.plan.dry_run {
        files::print(&plan.describe_with(&limits).to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shell = Shell::start(&args.display)?;
    let mut recorded = session::measure(&plan, &shell)?;
    let record = &mut recorded.record;
    record.limits = gate::limits_of_cases(&record.cases, &limits);
    let mut results = Results::of_record("run", record, &plan.outputs, &shell.printer)?;
    results.broken = recorded
        .broken
        .or_else(|| recording::refuse_errors(record).err());
    if !limits.is_empty() && !record.run.cut_short {
        let outcome = gate::outcome_of(&record.limits);
        let code = match outcome {
            Outcome::Critical => 2,
            Outcome::Inconclusive if args.limits.strict => 3,
            _ => 0,
        };
        results.ending = Ending::answer(outcome.name(), code);
        // The limits that are broken, and those that could not be judged.
        let rows = record.limits.iter();
        results.remarks = rows
            .filter(|row| row.verdict != RowVerdict::Equivalent)
            .map(|row| row.sentence())
            .collect();
    }
    Ok(finish(results, &shell.printer)?)
}
