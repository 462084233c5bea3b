//! `loadline __client`: the client of a sweep in a separate process, whose instructions are counted.

use std::process::ExitCode;

use super::surroundings;
use crate::args::ClientArgs;
use crate::plan::{self, Plan};
use crate::spelling::Target;
use crate::subjects;

pub(super) fn run(args: &ClientArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_modes(&args.modes, &surroundings())?;
    let mut base = Plan {
        // The server holds the keys of the run.
        allow_non_empty: true,
        ..plan.base.clone()
    };
    if let Some(url) = &args.counted_target {
        base.targets = vec![Target::parse(url)?];
    }
    subjects::obey(&plan, &base, &args.counted_run)?;
    Ok(ExitCode::SUCCESS)
}
