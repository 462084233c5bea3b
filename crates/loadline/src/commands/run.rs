//! `loadline run`: measures targets.

use std::process::ExitCode;

use loadline_load::Control;
use loadline_measure::gate::{self, Outcome, RowVerdict};
use loadline_measure::record::Record;

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::files;
use crate::interrupt::interrupt;
use crate::plan::{self, Surroundings};
use crate::printer::Printer;
use crate::recording;
use crate::session;

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve(args, &Surroundings::look())?;
    let limits = plan::limits(&args.limits.limit, &plan)?;
    if args.dry_run {
        files::print(&plan.to_text_with(&limits))?;
        return Ok(ExitCode::SUCCESS);
    }
    let printer = Printer::new(&args.display);
    let control = Control {
        interrupt: interrupt()?,
        ..Control::default()
    };
    let mut record = session::measure(&plan, &printer, &control)?;
    record.limits = gate::limits_of_cases(&record.cases, &limits);
    plan.outputs.write(&record)?;
    if !printer.quiet && !plan.outputs.use_stdout() {
        files::print(&loadline_report::text(&record, &printer.text_options()))?;
    }
    let code = exit_code(&record)?;
    if limits.is_empty() || record.run.cut_short {
        return Ok(code);
    }
    judge(&record, args.limits.strict, plan.outputs.use_stdout())
}

/// Says which limits are broken or could not be judged, and in the last line what that comes to, which
/// is also how the program ends.
fn judge(record: &Record, strict: bool, stdout_is_taken: bool) -> anyhow::Result<ExitCode> {
    let outcome = gate::outcome_of(&record.limits);
    let code: u8 = match outcome {
        Outcome::Critical => 2,
        Outcome::Inconclusive if strict => 3,
        _ => 0,
    };
    let told = record
        .limits
        .iter()
        .filter(|row| row.verdict != RowVerdict::Equivalent);
    let mut text: String = told.map(|row| format!("{}\n", row.sentence())).collect();
    text.push_str(&format!("loadline: run: {} ({code})", outcome.name()));
    if stdout_is_taken {
        crate::files::write_error(&text);
    } else {
        files::print(&format!("{text}\n"))?;
    }
    Ok(ExitCode::from(code))
}

pub(super) fn exit_code(record: &Record) -> anyhow::Result<ExitCode> {
    if record.run.cut_short {
        return Ok(Exit::Interrupted.into());
    }
    recording::refuse_errors(record)?;
    Ok(ExitCode::SUCCESS)
}
