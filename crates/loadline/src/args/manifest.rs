//! Arguments of `loadline agents`: what starts the load generators of a command.

use clap::{Args, Subcommand};

use super::{BaselineArgs, CapacityArgs, CompareArgs, GateArgs, RunArgs};

pub(super) const HELP: &str = "\
Examples:
  loadline agents manifest --kubernetes redis://db --rate 1M --duration 60s --agents 8 \\
    --coordinator redis://other --run nightly-7 --image registry.example/loadline:1 > job.json
  loadline agents manifest --slurm redis://db --agents 8 --coordinator redis://other --run n7
  loadline agents manifest --mpi redis://db --agents 8 --coordinator redis://other --run n7
  loadline agents manifest --kubernetes capacity cluster://db:7000 --slo 'p99<5ms' --agents 8 \\
    --coordinator redis://other --run n8 > job.json

The agents execute `loadline run`, or the command after the launcher, which is written as
without agents. Secrets are named, never printed: for Kubernetes, in the Secret `loadline-RUN`
with the keys `secret` and, if needed, `target-password` and `coordinator-password`. There,
`gate` reads the key `baseline.json` of the ConfigMap `loadline-RUN`, and `baseline save` prints
the baseline. docs/scale.md has more.
Exit codes: 0 done, 64 usage, 65 not a baseline.";

/// The same load from several machines: what starts them
#[derive(Debug, Args)]
pub(crate) struct AgentsCommandArgs {
    #[command(subcommand)]
    pub(crate) command: AgentsCommand,
}

/// Commands about several load generators.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Print a Job for Kubernetes, a script for Slurm, or a command line for MPI
    #[command(after_help = HELP)]
    Manifest(Box<ManifestArgs>),
}

/// Print a Job for Kubernetes, a script for Slurm, or a command line for MPI
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct ManifestArgs {
    #[command(flatten)]
    pub(crate) launcher: LauncherArgs,
    /// Container image, for Kubernetes
    #[arg(long, value_name = "IMAGE", default_value = "loadline:latest")]
    pub(crate) image: String,
    #[command(flatten)]
    pub(crate) measured: RunArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ManifestCommand>,
}

/// The command of the agents, if it is not `run`.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum ManifestCommand {
    /// Agents of `loadline capacity`
    Capacity(Box<CapacityArgs>),
    /// Agents of `loadline compare`
    Compare(Box<CompareArgs>),
    /// Agents of `loadline baseline`
    Baseline(Box<BaselineArgs>),
    /// Agents of `loadline gate`
    Gate(Box<GateArgs>),
}

/// The launcher of the agents.
#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Launcher")]
pub(crate) struct LauncherArgs {
    /// An Indexed Job, as JSON
    #[arg(long)]
    pub(crate) kubernetes: bool,
    /// A script for sbatch
    #[arg(long)]
    pub(crate) slurm: bool,
    /// A command line of mpirun
    #[arg(long)]
    pub(crate) mpi: bool,
}
