//! `loadline run`: measures targets.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use loadline_load::Control;
use loadline_measure::record::Record;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::measuring;
use crate::plan::{self, Surroundings};
use crate::printer::Printer;

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve(args, &Surroundings::look())?;
    if args.dry_run {
        files::print(&plan.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let printer = Printer::new(&args.display);
    let control = Control {
        interrupt: interrupt()?,
        ..Control::default()
    };
    let record = measuring::measure(&plan, &printer, &control)?;
    plan.outputs.write(&record)?;
    if !printer.quiet && !plan.outputs.use_stdout() {
        files::print(&loadline_report::text(&record, &printer.text_options()))?;
    }
    exit_code(&record)
}

/// Set when the run is to end: Ctrl-C, or a polite kill.
pub(super) fn interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context("signals cannot be caught")?;
    }
    Ok(flag)
}

pub(super) fn exit_code(record: &Record) -> anyhow::Result<ExitCode> {
    if record.run.cut_short {
        return Ok(Exit::Interrupted.into());
    }
    let errors = record.errors();
    if errors > 0 {
        let kinds: Vec<String> = record
            .cases
            .iter()
            .flat_map(|case| {
                case.errors.iter().map(|(kind, count)| {
                    format!(
                        "{count} {kind} in {}, {}",
                        case.subject.name, case.scenario.workload
                    )
                })
            })
            .collect();
        return Err(Failure::unavailable(format!("{errors} operations failed: {}.\nThe figures count them, so they are no measure of success.", kinds.join("; "))).into());
    }
    Ok(ExitCode::SUCCESS)
}
