//! What was typed for `loadline clean`.

use clap::Args;

use super::{LoginArgs, TlsArgs};

pub(super) const HELP: &str = "\
Examples:
  loadline clean redis://localhost
  loadline clean redis://localhost --run 3k9fz0qa

It removes the keys under `loadline:RUN-ID:` and no others, and says how many there were per run.
Do not run it without --run while another run measures this server: that run's keys go too.
Exit codes: 0 done, 64 usage, 69 target not there or some keys not removed.";

/// Remove the keys that an ended run left behind, and nothing else
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// The server or the cluster that the keys are on
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
