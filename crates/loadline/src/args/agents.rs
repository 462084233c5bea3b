//! Arguments of `loadline agent`, and of commands with several load generators.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{DisplayArgs, LoginArgs, TlsArgs};
use crate::units;

pub(super) const HELP: &str = "\
Examples:
  Once, with the plan:
    loadline run redis://db --workload get --rate 300k --duration 60s --agents 3 \\
      --coordinator redis://other --run nightly-7 --secret-file secret.txt --html all.html
  On two other machines, with ranks 1 and 2:
    loadline agent --coordinator redis://other --run nightly-7 --secret-file secret.txt --rank 1

The coordinator is a Redis or Valkey server that is not measured. An agent runs only a plan that
was signed with the secret, and a plan names neither files nor programs. The rank also comes from
JOB_COMPLETION_INDEX, SLURM_PROCID, OMPI_COMM_WORLD_RANK or PMI_RANK. An agent that loses the
coordinator stops, and keeps its record as loadline-RUN-RANK.json, for `loadline merge`.
docs/scale.md has more.
Exit codes: 0 done, 4 incomplete: an agent or the coordinator was lost, 64 usage, 65 bad file,
69 target or coordinator unavailable, 70 internal error.";

/// The same load from several machines: one of the load generators
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) membership: MembershipArgs,
    /// File for the record of this agent alone [default: none, unless the run fails]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
}

/// The place of a load generator in a run with several of them.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agents")]
pub(crate) struct MembershipArgs {
    /// Server that coordinates the agents; it is not measured
    // Kept as text: it may hold a password.
    #[arg(long, hide_short_help = true, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// Name of the common run, the same for all agents
    #[arg(long, hide_short_help = true, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// File with the secret that signs the plan, the same for all agents
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Number of this agent, from 0 [default: from Kubernetes, Slurm or MPI]
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) rank: Option<u32>,
    /// Time for all agents to join
    #[arg(long, hide_short_help = true, value_name = "T", value_parser = units::duration, default_value = "60s")]
    pub(crate) join_timeout: Duration,
}

/// Several load generators that run the plan of a command together.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agents")]
pub(crate) struct AgentsArgs {
    /// Number of load generators that share --rate; everything else applies to each of them
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = units::small_count, requires = "coordinator")]
    pub(crate) agents: Option<u32>,
    /// Time without a message after which an agent is lost; the default detects it within 2.5s [default: 2200ms]
    #[arg(long, hide_short_help = true, value_name = "T", value_parser = units::duration, requires = "agents")]
    pub(crate) lease: Option<Duration>,
    /// Go on without lost agents as long as there are N; not if targets are compared [default: stop]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = units::small_count, requires = "agents")]
    pub(crate) degraded: Option<u32>,
    #[command(flatten)]
    pub(crate) membership: MembershipArgs,
    /// The words that say what is measured, as they were typed.
    #[arg(skip)]
    pub(crate) words: Vec<String>,
    /// The words that say what is concluded from it, and how the agents meet, as they were typed.
    #[arg(skip)]
    pub(crate) further: Vec<String>,
}
