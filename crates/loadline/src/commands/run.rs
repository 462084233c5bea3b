//! `loadline run`: measures targets.

use std::process::ExitCode;

use loadline_measure::gate::{self, Outcome, Row, RowVerdict};

use super::joint::{self, Joint, Led, Together};
use super::surroundings;
use crate::args::RunArgs;
use crate::plan::{self, Outputs, Plan};
use crate::session::{self, Ending, Recorded, Results};

/// The name of the command in its last line.
const NAME: &str = "run";

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve(args, &surroundings())?;
    if let Some(agents) = args.agents.agents {
        return together(agents, args, &plan);
    }
    let limits = plan::limits(&args.limits, &plan)?;
    session::execute(
        NAME,
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

/// The run of several agents.
fn together(agents: u32, args: &RunArgs, plan: &Plan) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::resolve(&args.results.outputs)?;
    let joint = Joint {
        agents: &args.agents,
        connection: &args.connection,
        limits: &args.limits,
        results: &args.results,
        targets: &args.targets,
        words: &args.agents.words,
        plan,
    };
    let Together {
        record,
        limits,
        printer,
    } = match joint::lead(agents, &joint)? {
        Led::Ended(code) => return Ok(code),
        Led::Measured(together) => *together,
    };
    let mut recorded = Recorded {
        record,
        broken: None,
    };
    let is_complete = !recorded.is_cut_short();
    if is_complete {
        let judged = gate::limits_of_cases(&recorded.record.cases, &limits);
        recorded.record.limits = loadline_report::rows(judged);
        recorded = recorded.refuse_errors();
    }
    let mut results = Results::of_record(NAME, &recorded.record, &outputs, &printer)?;
    results.broken = recorded.broken;
    if !is_complete {
        results.ending = Ending::incomplete();
    } else if !limits.is_empty() {
        judge(&recorded.record.limits, args.strict, &mut results);
    }
    Ok(session::finish(&results, &printer))
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
