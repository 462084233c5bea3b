//! What a run must keep.

use clap::Args;

/// What must be kept.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Limit to keep, such as 'xread.p99<10ms' or 'throughput>5k'; repeatable
    ///
    /// A limit that is broken ends the run with exit code 2. `default` selects the limits of a suite.
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// Exit with 3 if a limit cannot be judged
    #[arg(long, requires = "limit")]
    pub(crate) strict: bool,
}
