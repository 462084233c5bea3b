//! Limits that a run must keep.

use std::str::FromStr;

use clap::Args;
use loadline_measure::Limit;

/// Limits to keep.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Limit to keep, such as 'xread.p99<10ms' or 'throughput>5k'; repeatable
    ///
    /// A broken limit is a critical result, with exit code 2. `default` selects the limits of a suite.
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Vec<LimitArg>,
}

/// A value of `--limit`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LimitArg {
    /// The limits of the suite that is measured.
    Default,
    /// A limit.
    Is(Limit),
}

impl FromStr for LimitArg {
    type Err = loadline_measure::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "default" {
            return Ok(Self::Default);
        }
        text.parse().map(Self::Is)
    }
}
