//! The command line as it was typed. Nothing is resolved here: the plan says what it means.

mod agents;
mod capacity;
mod clean;
mod clients;
mod engines;
mod failover;
mod groups;
mod judge;
mod limits;
mod link;
mod manifest;
mod merge;
mod modes;
mod refusal;
mod tiers;
mod words;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::units;

pub(crate) use agents::{AgentArgs, AgentsArgs, MembershipArgs};
pub(crate) use capacity::CapacityArgs;
pub(crate) use clean::CleanArgs;
pub(crate) use clients::ClientsArgs;
pub(crate) use engines::{EngineArgs, EngineOpArg, EngineStep, EngineWorkloadArg, EnginesArgs};
pub(crate) use failover::{FailoverArgs, FailoverWorkload};
pub(crate) use groups::{
    ChoiceArgs, ConnectionArgs, DataArgs, DisplayArgs, LengthArgs, LoadArgs, LoginArgs, OutputArgs,
    PathArgs, PlanArgs, ResultArgs, TlsArgs, TrafficArgs,
};
pub(crate) use judge::{
    BaselineAddArgs, BaselineArgs, BaselineCommand, BaselineSaveArgs, BaselineShowArgs,
    CompareArgs, CountingArgs, GateArgs, Instructions, JudgeArgs, MeasureArgs, PolicyArg,
    ProveArgs,
};
pub(crate) use limits::{LimitArg, LimitArgs};
pub(crate) use link::LinkArgs;
pub(crate) use manifest::{AgentsCommand, AgentsCommandArgs, ManifestArgs, ManifestCommand};
pub(crate) use merge::MergeArgs;
pub(crate) use modes::{ClientArgs, CodecArg, LinkArg, Mode, ModesArgs, OpArg};
pub(crate) use refusal::refusal;
pub(crate) use tiers::TiersArgs;

/// Text of `--version`; `-V` prints the number alone.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("LOADLINE_COMMIT"),
    "\ntarget: ",
    env!("LOADLINE_TARGET"),
    "\nfeatures: ",
    env!("LOADLINE_FEATURES")
);

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "loadline",
    version,
    long_version = VERSION,
    about = "A performance lab for Redis and for everything a team uses around it or instead of it",
    max_term_width = 100,
    after_help = "Without a command, `loadline run` is executed.\nExample: loadline run                     measures the built-in server and redis-server\n         loadline run redis://localhost   measures an existing server"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// Message of clap: a usage error, or help and version.
    pub(crate) fn read(words: Vec<OsString>) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(words)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Some((_, matches)) = matches.subcommand() {
            cli.command.note_words(matches);
        }
        Ok(cli)
    }
}

/// The commands. The arguments of those that were not typed are never built; since they are built
/// late, the sentence above a command's own arguments is the one that its help begins with.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// How fast is it for this workload?
    #[command(after_help = RUN_EXAMPLES, after_long_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// What load does it carry within a limit?
    #[command(after_help = capacity::HELP)]
    Capacity(Box<CapacityArgs>),
    /// How should I call it: sync, async, pipeline or batch, under which latency?
    #[command(after_help = modes::HELP)]
    Modes(Box<ModesArgs>),
    /// RAM, embedded store, Redis or recompute: which tier pays for this object?
    #[command(after_help = tiers::HELP)]
    Tiers(Box<TiersArgs>),
    /// Which engine for my data: in process, or Redis behind a socket?
    #[command(after_help = engines::HELP)]
    Engines(Box<EnginesArgs>),
    /// Which client library, in which language, at which settings?
    #[command(after_help = clients::HELP)]
    Clients(Box<ClientsArgs>),
    /// What happens to my writes when the server goes away?
    #[command(after_help = failover::HELP)]
    Failover(Box<FailoverArgs>),
    /// What about this setup would make a measurement misleading?
    #[command(after_help = DOCTOR_HELP)]
    Doctor(Box<DoctorArgs>),
    /// Is B slower than A? Two targets, or two records
    #[command(after_help = judge::COMPARE_HELP)]
    Compare(Box<CompareArgs>),
    /// What is normal here? Store runs as a reference for later ones
    #[command(after_help = judge::BASELINE_HELP)]
    Baseline(BaselineArgs),
    /// Did it get slower than the baseline?
    #[command(after_help = judge::GATE_HELP)]
    Gate(Box<GateArgs>),
    /// Can a verdict be trusted on this machine?
    #[command(after_help = judge::PROVE_HELP)]
    Prove(ProveArgs),
    /// Remove the keys left by earlier runs, and nothing else
    #[command(after_help = clean::HELP)]
    Clean(Box<CleanArgs>),
    /// Show a record again as text, Markdown, HTML, CSV or JUnit
    #[command(after_help = REPORT_HELP)]
    Report(ReportArgs),
    /// The same load from several machines: one of the load generators
    #[command(after_help = agents::HELP)]
    Agent(Box<AgentArgs>),
    /// The same load from several machines: what starts them
    #[command(after_help = manifest::HELP)]
    Agents(AgentsCommandArgs),
    /// The same load from several machines: their records as one
    #[command(after_help = merge::HELP)]
    Merge(MergeArgs),
    /// Latency and faults between any client and server
    #[command(after_help = link::HELP)]
    Link(LinkArgs),
    /// Our store as a Redis-compatible server
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Check, repair, compact, export or import a store's directory
    #[command(after_help = STORE_HELP)]
    Store(StoreArgs),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Writes the manual pages into a directory
    #[command(name = "__man", hide = true)]
    Man(ManArgs),
    /// Becomes a child program that ends with its parent
    #[command(name = "__child", hide = true)]
    Child(ChildArgs),
    /// Removes a directory once the program that made it has ended
    #[command(name = "__tidy", hide = true)]
    Tidy(TidyArgs),
    /// Holds connections and says what they take in memory
    #[command(name = "__connections", hide = true)]
    Connections,
    /// Calls the target of a sweep while the client's instructions are counted
    #[command(name = "__client", hide = true)]
    Client(Box<ClientArgs>),
    /// Drives the client of this project
    #[command(name = "__driver", hide = true)]
    Driver,
    /// Serves as the target `embedded`
    #[command(name = "__embedded", hide = true)]
    Embedded(EmbeddedArgs),
    /// Fills or opens an engine, and says what that takes
    #[command(name = "__engine", hide = true)]
    Engine(EngineArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  loadline run
  loadline run redis://localhost --workload get --pipeline 16 --duration 10s
  loadline run embedded spawn:redis-server --rate 20k --html report.html

`loadline run --help` lists all options, targets and workloads.";

const COMPLETIONS_HELP: &str = "\
Examples:
  loadline completions bash > ~/.local/share/bash-completion/completions/loadline
  loadline completions zsh > ~/.zfunc/_loadline
  loadline completions fish > ~/.config/fish/completions/loadline.fish";

const RUN_HELP: &str = "\
Examples:
  loadline run
  loadline run redis://localhost --workload get --connections 50 --pipeline 16 --duration 10s
  loadline run embedded spawn:redis-server --workload ycsb-a --rate 20k --html report.html
  loadline run redis://db --command '3:GET {key}' --command 'SET {key} {value} EX 60' --dry-run

Targets (several targets are measured in interleaved rounds and compared):
  redis://[USER:PASS@]HOST:PORT[/DB]   a running server; rediss:// is TLS, unix:///PATH a socket
  embedded                             our own server, as a child process (the default)
  spawn:redis-server[?config=FILE]     a server program, started for the run on a free port
  ram                                  our store in this process, without a wire
  cluster://HOST:PORT[,HOST:PORT]      a cluster; spawn-cluster:redis-server starts one
  sentinel://HOST:PORT[,...]/NAME[/DB] the master that sentinels name when the run begins;
                                       spawn-sentinel:redis-server starts one with two replicas

Workloads:
  ping get set del incr mget mset getset-70-30 sadd smembers hset hget lpush lrange zadd xadd
  xread publish ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f
  the suites manager and manager-classic, several cases each
  or a TOML file; docs/workloads.md describes them and the placeholders of --command

Without --rate the loop is closed and finds capacity. For reliable latencies, use --rate.
Keys are written only under `loadline:RUN-ID:` and removed afterwards. A password comes from
the URL, from LOADLINE_REDIS_PASSWORD or from --password-file.
With --limit the last line contains the result, such as `loadline: run: critical (2)`.
With --agents N, N load generators run the plan together (`loadline agent --help`).
Exit codes: 0 done, 2 a limit is broken, 3 inconclusive (with --strict), 4 an agent was lost,
64 usage, 65 bad file, 69 target unavailable, 70 internal error, 130 interrupted.";

const DOCTOR_HELP: &str = "\
Examples:
  loadline doctor spawn:redis-server
  loadline doctor redis://db.example:6379 --strict --json doctor.json
  loadline doctor cluster://db.example:7000

It examines the machine, the server and its settings, and runs probes for a few seconds: idle
round trips, the bottleneck under load, hits and misses, dead code, a null server. docs/doctor.md
describes every rule. On a server that holds keys it only reads settings and pings, unless
--allow-non-empty is given. Keys are written under `loadline:RUN-ID:` and removed afterwards.
Exit codes: 0 done, regardless of findings; with --strict 1 for a warning and 2 for a critical
finding; 64 usage, 65 bad file, 69 target unavailable, 70 internal error, 130 interrupted.";

const REPORT_HELP: &str = "\
Examples:
  loadline report run.json
  loadline report run.json --html report.html --csv -

Exit codes: 0 done, 64 usage, 65 not a record.";

const STORE_HELP: &str = "\
Examples:
  loadline store check data
  loadline store repair data               says what would be dropped
  loadline store repair data --drop        drops it
  loadline store export data > data.resp
  loadline store import copy < data.resp

An export contains SET, RESTORE, SELECT and FUNCTION LOAD in the Redis protocol, so `redis-cli --pipe` loads it as well.
docs/store-format.md describes the files.
Exit codes: 0 done, 64 usage, 65 damaged or not an export, 69 no store, in use or no room.";

const SERVE_HELP: &str = "\
Examples:
  loadline serve
  loadline serve --listen 127.0.0.1:7000 --unix /tmp/loadline.sock
  loadline serve --listen 0.0.0.0:6379 --password-file secret.txt

It listens on 127.0.0.1:6379 by default, keeps its keys in memory, and ends on
Ctrl-C or SIGTERM. An address that others can reach is refused without a password.";

/// How fast is it for this workload?
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Servers to measure [default: embedded, and spawn:redis-server if it is found]
    // Kept as text: clap quotes values that it cannot read, and a target may hold a password.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,

    #[command(flatten)]
    pub(crate) length: LengthArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Exit with 3 if a limit cannot be judged
    #[arg(long, requires = "limit", help_heading = "Limits")]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// What about this setup would make a measurement misleading?
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The server or the cluster to examine
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Exit with 1 for a warning and with 2 for a critical finding
    #[arg(long)]
    pub(crate) strict: bool,
    /// Threads of the generator in the planned measurement [default: half the cores]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) threads: Option<u32>,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// Show a record again as text, Markdown, HTML, CSV or JUnit
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The record: a file that `--json` wrote
    #[arg(value_name = "RECORD")]
    pub(crate) record: PathBuf,
    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
}

/// Our store as a Redis-compatible server
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; repeatable; port 0 selects a free port [default: 127.0.0.1:6379]
    #[arg(long, value_name = "ADDR:PORT", value_parser = units::socket_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Socket in the file system to listen on
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ServeTlsArgs,
    /// File with the password that clients must send
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// File with the users that clients can authenticate as, in the format of Redis
    #[arg(long, value_name = "FILE")]
    pub(crate) aclfile: Option<PathBuf>,
    /// Directory to keep the data in; made if it does not exist [default: none, the data is in memory only]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Durability of acknowledged writes: `process` (they survive the end of the server), `interval:1s` (also
    /// a power failure, but for the last second) or `always` (also a power failure) [default: process]
    #[arg(long, value_name = "CLASS", requires = "dir")]
    pub(crate) durability: Option<String>,
    /// Memory limit of the data, such as `512MiB`; 0 for none [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) maxmemory: Option<u64>,
    /// At the limit: refuse writes, or remove keys, by the names of Redis (with `volatile-`, only keys with an expiry)
    #[arg(long, value_enum, value_name = "POLICY", default_value = "noeviction")]
    pub(crate) maxmemory_policy: EvictionArg,
    /// Clients that can call DEBUG, by the name of redis-server: none, those of this machine, or all
    #[arg(long, value_enum, value_name = "WHO", default_value = "no")]
    pub(crate) enable_debug_command: DebugCommandArg,
}

/// Encrypted connections, with the names of redis-server.
#[derive(Debug, Args)]
pub(crate) struct ServeTlsArgs {
    /// Port for encrypted connections (TLS), at 127.0.0.1 or the given address. Without --listen and --unix, all
    /// connections are encrypted
    #[arg(
        long,
        value_name = "[ADDR:]PORT",
        value_parser = units::tls_address,
        requires_all = ["tls_cert_file", "tls_key_file"]
    )]
    pub(crate) tls_port: Option<SocketAddr>,
    /// The server's certificate, with those between it and its authority, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_port")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_port")]
    pub(crate) tls_key_file: Option<PathBuf>,
    /// The authorities of the certificates of clients, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_port")]
    pub(crate) tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients need a certificate [default: yes]
    #[arg(long, value_enum, value_name = "WHEN", requires = "tls_port")]
    pub(crate) tls_auth_clients: Option<AuthClientsArg>,
}

/// The values of `--tls-auth-clients`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthClientsArg {
    /// Every client needs a certificate
    Yes,
    /// Certificates of clients are not asked for
    No,
    /// A certificate of a client is verified if there is one
    Optional,
}

/// The server of the target `embedded`, with the slowdowns that `prove` injects
#[derive(Debug, Args)]
pub(crate) struct EmbeddedArgs {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// CPU time that every command wastes
    #[arg(long, value_name = "T", value_parser = units::duration, default_value = "0s")]
    pub(crate) burn_per_command: Duration,
    /// Rounds of a loop of a few instructions that every command executes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) work_per_command: u32,
}

/// The values of `--enable-debug-command`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DebugCommandArg {
    No,
    Local,
    Yes,
}

/// The policies at the memory limit, by the names of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvictionArg {
    Noeviction,
    AllkeysLru,
    AllkeysLfu,
    AllkeysRandom,
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
}

/// Check, repair, compact, export or import a store's directory
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) action: StoreAction,
}

/// Actions on a store's directory.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum StoreAction {
    /// Verify every record; change nothing
    Check(StoreDirArgs),
    /// Count keys, bytes and files
    Stat(StoreDirArgs),
    /// Write all entries anew, so that the files contain nothing else
    Compact(StoreDirArgs),
    /// Say what of a damaged store would be dropped, or drop it
    Repair {
        #[command(flatten)]
        dir: StoreDirArgs,
        /// Drop it
        #[arg(long)]
        drop: bool,
    },
    /// Write all entries to standard output as Redis commands
    Export(StoreDirArgs),
    /// Read an export from standard input; makes the directory if it does not exist
    Import(StoreDirArgs),
}

/// A store's directory.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreDirArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: ShellArg,
}

/// Shells with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

/// Writes the manual pages into a directory
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Becomes a child program that ends with its parent
#[derive(Debug, Args)]
pub(crate) struct ChildArgs {
    /// The process whose end is to be the child's end
    #[arg(long)]
    pub(crate) parent: u32,
    /// A file that the program reads in place of random numbers
    #[arg(long)]
    pub(crate) random: Option<PathBuf>,
    /// The most bytes of its address space
    #[arg(long)]
    pub(crate) memory: Option<u64>,
    /// A directory that becomes a small file system, which only it sees
    #[arg(long)]
    pub(crate) disk: Option<PathBuf>,
    /// The program, and what it is called with
    #[arg(last = true, required = true)]
    pub(crate) program: Vec<std::ffi::OsString>,
}

/// Removes a directory once the program that made it has ended
#[derive(Debug, Args)]
pub(crate) struct TidyArgs {
    /// Its name among the temporary files
    pub(crate) name: std::ffi::OsString,
}

/// The distribution of starts in an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalsArg {
    /// Evenly spaced
    Uniform,
    /// At random, as from many independent users
    Poisson,
}

/// Whether values can be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueDataArg {
    /// Random bytes
    Random,
    /// A short text over and over
    Compressible,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    /// In a terminal that has them
    #[default]
    Auto,
    /// Also in a pipe
    Always,
    /// Nowhere
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_shows_an_example() {
        let mut cli = Cli::command();
        for command in cli
            .get_subcommands_mut()
            .filter(|command| !command.is_hide_set())
        {
            let help = command.render_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
            let (_, examples) = help.split_once("Example").expect("asserted above");
            let longest = examples.lines().map(str::len).max();
            assert!(longest < Some(98), "clap would wrap a line of {longest:?}");
        }
    }

    /// A terminal of 48 lines and 100 columns shows the short help of `run` as a whole.
    #[test]
    fn short_help_of_run_fits_a_screen_and_the_long_one_has_all() {
        let mut cli = Cli::command();
        cli.build();
        let run = cli.find_subcommand_mut("run").unwrap();
        let (short, long) = (
            run.render_help().to_string(),
            run.render_long_help().to_string(),
        );
        let lines = short.lines().count();
        assert!(lines <= 48, "{lines} lines:\n{short}");
        for flag in ["--ops", "--workload", "--rate", "--json", "--dry-run"] {
            assert!(short.contains(flag), "{flag}:\n{short}");
        }
        for flag in ["--tls-ca", "--seed", "--jitter"] {
            assert!(!short.contains(flag) && long.contains(flag), "{flag}");
        }
    }

    #[test]
    fn bare_numbers_are_refused_where_a_unit_is_needed() {
        for flag in [
            ["--duration", "10"],
            ["--value-size", "64"],
            ["--warmup", "1"],
        ] {
            let error = Cli::try_parse_from(["loadline", "run", flag[0], flag[1]])
                .unwrap_err()
                .to_string();
            assert!(error.contains("expected a number with a unit"), "{error}");
        }
    }
}
