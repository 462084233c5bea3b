//! The plan of `loadline clean`.

use std::slice;

use super::{Surroundings, TlsFiles, is_run_id, targets};
use crate::args::CleanArgs;
use crate::exit::Failure;
use crate::spelling::Target;

/// A removal of keys, resolved.
#[derive(Debug)]
pub(crate) struct CleanPlan {
    pub(crate) target: Target,
    pub(crate) tls: TlsFiles,
    /// The run whose keys are removed; `None` for all runs.
    pub(crate) run: Option<String>,
}

/// Resolves the arguments of `loadline clean`.
///
/// # Errors
/// A usage error for an invalid target or run id; a bad file if the password file cannot be read.
pub(crate) fn resolve(args: &CleanArgs, around: &Surroundings) -> Result<CleanPlan, Failure> {
    let mut target = Target::parse(&args.target)?;
    if let Some(id) = args.run.as_ref().filter(|id| !is_run_id(id)) {
        let why = "copy it from a key of the run, such as `loadline:3k9fz0cd:...`";
        return Err(Failure::invalid("--run", "run id", id, why));
    }
    targets::refuse_unused_tls(slice::from_ref(&target), &args.tls)?;
    targets::log_in(slice::from_mut(&mut target), &args.login, around)?;
    Ok(CleanPlan {
        target,
        tls: TlsFiles::given(&args.tls),
        run: args.run.clone(),
    })
}
