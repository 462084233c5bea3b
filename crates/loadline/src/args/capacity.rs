//! Arguments of `loadline capacity`.

use std::time::Duration;

use clap::Args;

use super::{AgentsArgs, ArrivalsArg, ConnectionArgs, DataArgs, ResultArgs, TrafficArgs};
use crate::units;

pub(super) const HELP: &str = "\
Examples:
  loadline capacity spawn:redis-server
  loadline capacity redis://localhost --slo 'p99.9<5ms' --workload set --max-time 3m
  loadline capacity redis://db --slo 'p95<1ms' --pipeline 4 --html capacity.html
  loadline capacity spawn:redis-server --junit capacity.xml
  loadline capacity cluster://db:7000 --agents 8 --coordinator redis://other --run c1 \\
    --secret-file secret.txt

The search starts from a closed loop, brackets and bisects with trials in an open loop, and
confirms its answer: trials at the rate and at the next higher rate alternate until five more
have held than failed at the lower rate, and the reverse at the higher rate. A trial that exceeds
the limit while the machine is disturbed (a CPU that pauses, other processes, a late generator)
is repeated if that can be the reason. Without enough undisturbed trials the answer is an
interval. The record holds every trial. The report names the bottleneck: the server's CPU, the
generator, or the path between them.
With --agents N, the search is made with 1, 2, 4 and up to N load generators (`loadline agent
--help`), as long as they carry more together: then either the target is the limit, or they are.
Keys are written only under `loadline:RUN-ID:` and removed afterwards.
Exit codes: 0 done (also if no rate stays within the limit), 3 no rate was confirmed (with
--strict), 4 an agent was lost, 64 usage, 65 bad file, 69 target unavailable or operations fail,
70 internal error, 130 interrupted.";

/// What load does it carry within a limit?
#[derive(Debug, Args)]
pub(crate) struct CapacityArgs {
    /// Server: redis://..., embedded, spawn:redis-server
    // Kept as text: clap quotes values that it cannot read, and a target may hold a password.
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Limit on a percentile of the response time
    #[arg(long, value_name = "LIMIT", default_value = "p99<2ms")]
    pub(crate) slo: String,

    /// Least time of a trial; a high percentile needs longer trials [default: 300ms]
    #[arg(long, value_name = "T", value_parser = units::duration, help_heading = "Length")]
    pub(crate) duration: Option<Duration>,
    /// Time for the whole search with its confirmation [default: 60s; 120s for each number of agents]
    #[arg(long, value_name = "T", value_parser = units::duration, help_heading = "Length")]
    pub(crate) max_time: Option<Duration>,
    /// End with exit code 3 where no rate was confirmed
    #[arg(long, help_heading = "Limits")]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) load: CapacityLoadArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// The commands to send; the search sets the rate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct CapacityLoadArgs {
    /// Built-in workload or TOML file [default: get]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) workload: Option<String>,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    /// Spacing of the operations [default: poisson]
    #[arg(long, value_enum, value_name = "PROCESS")]
    pub(crate) arrivals: Option<ArrivalsArg>,
}
