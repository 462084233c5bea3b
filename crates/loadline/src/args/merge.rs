//! Arguments of `loadline merge`.

use std::path::PathBuf;

use clap::Args;

use super::{DisplayArgs, OutputArgs};

pub(super) const HELP: &str = "\
Examples:
  On each machine, at the same time:
    loadline run redis://db --workload get --rate 50k --duration 60s --threads 2 \\
      --allow-non-empty --json NAME.json
  Afterwards, with all files in one place:
    loadline merge one.json two.json three.json --json all.json --html all.html

Each run writes keys of its own beside those of the others. Every record must come from the same
plan, version and running server; only seeds may differ. Histograms are added, so percentiles are
those of one recorder that saw every operation. Rates are operations per second of the time in
which any of the runs measured. docs/scale.md has more.
Exit codes: 0 done, 3 not the same measurement, 4 incomplete: a run was cut short, 64 usage,
65 not a record.";

/// The same load from several machines: their records as one
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Records of load generators that ran one plan: files that `loadline run --json` wrote
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub(crate) records: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
}
