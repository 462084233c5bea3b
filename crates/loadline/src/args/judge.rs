//! Arguments of the commands that judge: compare, baseline, gate and prove.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use loadline_measure::work::WorkRules;

use super::{
    AgentsArgs, ConnectionArgs, DataArgs, DisplayArgs, LengthArgs, LimitArgs, LoadArgs, PlanArgs,
    ResultArgs, RunArgs,
};
use crate::slowdown::InjectedSlowdown;
use crate::spelling::Setting;
use crate::units;

pub(super) const COMPARE_HELP: &str = "\
Examples:
  loadline compare embedded spawn:redis-server
  loadline compare spawn:redis-server spawn:/opt/redis-8/redis-server --workload get
  loadline compare redis://db.internal --like-config io-threads=4
  loadline compare monday.json tuesday.json
  loadline compare redis://one redis://other --agents 3 --coordinator redis://third --run c1 \\
    --secret-file secret.txt

Targets are measured in interleaved rounds, with three processes for each server that Loadline
starts, until the median response time is known to 1 % (24 to 40 rounds; 10 to 40 on existing
servers). Records were measured at different times, so they allow only weak conclusions. A
regression is a warning if the lower bound is above 2 % and the estimate above 5 %, and critical
if the lower bound is above 20 %. Two records of `loadline failover` are compared by their
outages and losses, which needs 8 rounds in each (docs/failover.md).
With --agents N, N load generators run the rounds together (`loadline agent --help`).
Exit codes: 0 no regression, 1 warning, 2 critical, 3 inconclusive (with --strict) or not
comparable, 4 an agent was lost, 64 usage, 65 not a record, 69 target unavailable, 70 internal
error, 130 interrupted.";

pub(super) const BASELINE_HELP: &str = "\
Examples:
  loadline baseline save redis.json spawn:redis-server --workload get --workload set
  loadline baseline add redis.json
  loadline baseline show redis.json
  loadline baseline save cluster.json cluster://db:7000 --agents 3 --coordinator redis://other \\
    --run b1 --secret-file secret.txt

A baseline holds separate runs of one plan, each in fresh processes; eight or more are needed
before the gate can distinguish a regression from day-to-day variation. Every time is also stored
relative to an echo over loopback in the same round. With --agents N, N load generators make each
run together (`loadline agent --help`); `add` and `gate` then need as many.";

pub(super) const GATE_HELP: &str = "\
Examples:
  loadline gate redis.json
  loadline gate redis.json redis://staging --junit gate.xml --markdown summary.md
  loadline gate redis.json --limit 'get.p99<5ms' --strict
  loadline gate failover-before.json failover-after.json
  loadline gate baseline.json spawn:redis-server --policy classic

The candidate is measured with the plan of the baseline; before an alarm it is measured again in
fresh processes. Policy strict: a warning if the lower bound is above 2 % and the estimate above
5 %, critical if the lower bound is above 20 %. Policy classic judges a file with
metrics such as set_latency_us by the thresholds in it. Limits are judged on raw figures.
A baseline of N agents needs --agents N (`loadline agent --help`).
Exit codes: 0 no regression, 1 warning, 2 critical, 3 inconclusive (with --strict) or not
comparable, 4 an agent was lost, 64 usage, 65 not a baseline, 69 target unavailable, 70 internal
error, 130 interrupted.";

pub(super) const PROVE_HELP: &str = "\
Examples:
  loadline prove
  loadline prove --runs 20 --workload set
  loadline prove --runs 40 --plant none,tail+10
  loadline prove --runs 100 --plant work+0,work+1,work+2

Compares the embedded server with itself, and with itself made slower by 5 and 10 percent by a
loop that burns CPU in the server for every command. If valgrind is installed, it also compares
instructions per operation, with 0 and 1 percent more of them. --plant chooses, also a delay in
the path. Prints how often the verdict was right on this machine, with the intervals of
those shares, and how long one takes. If interrupted, it prints the results so far.
Exit codes: 0 done, 64 usage, 69 server not started, 70 internal error, 130 interrupted.";

/// The work to measure, apart from the targets.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub(crate) length: LengthArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) counting: CountingArgs,
}

/// Instructions per operation.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Work per operation")]
pub(crate) struct CountingArgs {
    /// Count instructions per operation: of servers that Loadline starts or, in `modes`, of the client
    #[arg(long, value_enum, value_name = "SOURCE", default_value = "auto")]
    pub(crate) instructions: Instructions,
}

/// Whether and how instructions per operation are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Instructions {
    /// With valgrind if it is installed, for 10 seconds at most
    Auto,
    /// With valgrind, however long it takes; fails without it
    Valgrind,
    /// Do not count
    #[default]
    Off,
}

impl Instructions {
    /// Whether counts were requested; `None` if there are to be none.
    pub(crate) fn is_asked(self) -> Option<bool> {
        match self {
            Self::Off => None,
            Self::Auto => Some(false),
            Self::Valgrind => Some(true),
        }
    }
}

/// The thresholds of verdicts about work: instructions per operation, not time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Work per operation")]
pub(crate) struct WorkArgs {
    /// Warn from this many more instructions per operation [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub(crate) work_warning: Option<f64>,
    /// Critical from this many more instructions per operation [default: 20%]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub(crate) work_critical: Option<f64>,
    /// Keep callgrind's profiles of all passes in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) profile: Option<PathBuf>,
}

impl WorkArgs {
    /// The thresholds, with the defaults where none were given.
    pub(crate) fn rules(&self) -> WorkRules {
        let defaults = WorkRules::default();
        WorkRules {
            warning: self.work_warning.unwrap_or(defaults.warning),
            critical: self.work_critical.unwrap_or(defaults.critical),
        }
    }
}

/// Options of a judgement and its outputs.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Exit with 3 if the result is inconclusive
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// Is B slower than A? Two targets, or two records
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Reference: a TARGET or a record
    #[arg(value_name = "A")]
    pub(crate) a: String,
    /// Candidate: a TARGET or a record; with --like-config, the program of the candidate
    #[arg(value_name = "B", required_unless_present = "like_config")]
    pub(crate) b: Option<String>,
    /// Start two servers here with the settings of the running server A, one of them with CHANGE
    ///
    /// Settings are read with CONFIG GET, and nothing is changed on A. Those about place, logins, TLS, replication and
    /// clustering are left out. CHANGE is NAME=VALUE, such as io-threads=4; repeat the flag for several.
    #[arg(long, value_name = "CHANGE", num_args = 0..=1, value_parser = Setting::parse)]
    pub(crate) like_config: Option<Vec<Setting>>,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
}

/// What is normal here? Store runs as a reference for later ones
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct BaselineArgs {
    #[command(subcommand)]
    pub(crate) command: BaselineCommand,
}

/// Actions on a baseline.
#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Measure the normal performance and save it to a new file
    #[command(after_help = BASELINE_HELP)]
    Save(Box<BaselineSaveArgs>),
    /// Measure again with the same plan and add the run to the file
    #[command(after_help = BASELINE_HELP)]
    Add(Box<BaselineAddArgs>),
    /// Show what is in the file
    #[command(after_help = BASELINE_HELP)]
    Show(BaselineShowArgs),
}

/// `loadline baseline save`.
#[derive(Debug, Args)]
pub(crate) struct BaselineSaveArgs {
    /// The baseline to write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Server to measure [default: spawn:redis-server if it is found, else embedded]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Runs, each in fresh processes [default: 8]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    /// Its words are the plan that the baseline keeps.
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
}

/// `loadline baseline add`.
#[derive(Debug, Args)]
pub(crate) struct BaselineAddArgs {
    /// The baseline
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Server to measure [default: the target of the baseline]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Runs to add [default: 1]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
}

/// `loadline baseline show`.
#[derive(Debug, Args)]
pub(crate) struct BaselineShowArgs {
    /// The baseline
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Did it get slower than the baseline?
#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    /// The baseline, or a file with metrics such as set_latency_us and thresholds
    #[arg(value_name = "BASELINE")]
    pub(crate) baseline: PathBuf,
    /// Candidate: a TARGET or a record [default: the target of the baseline]
    #[arg(value_name = "CANDIDATE")]
    pub(crate) candidate: Option<String>,
    /// Policy of the gate [default: strict, or classic for a file of that kind]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) policy: Option<PolicyArg>,
    /// Warn when the estimated regression is at least this [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub(crate) warning: Option<f64>,
    /// Critical when the regression is at least this with certainty [default: 20%]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub(crate) critical: Option<f64>,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
}

/// The policy of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// By the spread of the baseline's own runs
    Strict,
    /// By fixed percentages
    Classic,
}

/// Can a verdict be trusted on this machine?
#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// Comparisons of each kind [default: 2, or 1 if those take over 150 s]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) runs: Option<u32>,
    /// Injected slowdowns, separated by commas [default: none, cpu+5, cpu+10, work+0 and work+1]
    ///
    /// `none`, or a kind with a percentage: cpu+10 (CPU time in the server, as a share of the median), tail+10 (the
    /// same, as a share of the corrected p99), delay+10 (in the path) or work+1 (instructions in the server, counted
    /// with valgrind; work+0 counts two equal servers).
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) plant: Vec<InjectedSlowdown>,
    /// A built-in workload
    #[arg(long, value_name = "NAME", default_value = "get")]
    pub(crate) workload: String,
    /// Seed of all random choices [default: random]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Write the result as JSON; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
}

/// The words that a baseline keeps, read again.
#[derive(Debug, Parser)]
#[command(name = "baseline", disable_help_flag = true, no_binary_name = true)]
struct BaselineWords {
    #[command(flatten)]
    measure: MeasureArgs,
}

impl MeasureArgs {
    /// As `loadline run` takes it, for `targets`.
    pub(crate) fn over(self, targets: Vec<String>) -> RunArgs {
        RunArgs {
            targets,
            limits: LimitArgs::default(),
            strict: false,
            length: self.length,
            load: self.load,
            data: self.data,
            connection: self.connection,
            agents: AgentsArgs::default(),
            results: ResultArgs::default(),
        }
    }

    /// Reads words that say what is measured, as they would be typed.
    ///
    /// # Errors
    /// The error in them, in a sentence.
    pub(crate) fn from_words(words: &[String]) -> Result<Self, String> {
        match BaselineWords::try_parse_from(words) {
            Ok(kept) => Ok(kept.measure),
            Err(error) => {
                let text = error.render().to_string();
                let first = text.lines().next().unwrap_or_default();
                Err(first.trim_start_matches("error: ").to_owned())
            }
        }
    }
}
