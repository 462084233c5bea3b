//! Arguments of `loadline clean`.

use clap::Args;

use super::{LoginArgs, TlsArgs};

pub(super) const HELP: &str = "\
Examples:
  loadline clean redis://localhost
  loadline clean redis://localhost --run 3k9fz0cd

Removes only keys under `loadline:RUN-ID:` and prints the number per run.
Without --run, it also removes the keys of a run in progress on this server.
Exit codes: 0 done, 64 usage, 69 target unavailable or some keys not removed.";

/// Remove the keys left by earlier runs, and nothing else
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// The server, the cluster or the master of a name that the keys are on
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Remove only the keys of this run [default: of all runs]
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}
