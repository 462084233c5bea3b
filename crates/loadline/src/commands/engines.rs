//! `loadline engines`: engines of one class of durability beside each other, and Redis behind its socket.

use std::process::ExitCode;

use loadline_measure::engines::{self, Engines};

use super::surroundings;
use crate::args::EnginesArgs;
use crate::files;
use crate::plan;
use crate::recording;
use crate::session::{self, Results, Shell, finish};

pub(super) fn run(args: &EnginesArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_engines(args, &surroundings())?;
    if args.plan.dry_run {
        files::print(&plan.describe().to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shell = Shell::start(&args.display)?;
    let footprints = Vec::new();
    let mut recorded =
        session::measure_stages(&plan.base, &plan.stages, plan.to_json(), &shell, |_, _| {
            Ok(())
        })?;
    let record = &mut recorded.record;
    record.findings.extend(plan.left_out.iter().cloned());
    record.engines = Some(Engines {
        reference: plan.reference.clone(),
        needs: engines::needs(&record.cases, &footprints),
        footprints,
    });
    let mut results = Results::of_record("engines", record, &plan.base.outputs, &shell.printer)?;
    results.broken = recorded
        .broken
        .or_else(|| recording::refuse_errors(record).err());
    Ok(finish(results, &shell.printer)?)
}
