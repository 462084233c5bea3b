//! What a run must keep.

use clap::Args;

/// What must be kept.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// A limit on what is measured, such as 'xread.p99<10ms' or 'throughput>5k', or `default` for
    /// those of the suite; repeat it for several. A broken one ends with exit code 2
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// End with exit code 3 where a limit cannot be judged
    #[arg(long, requires = "limit")]
    pub(crate) strict: bool,
}
