//! Groups of arguments that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use loadline_load::values::ValueSize;

use super::{ArrivalsArg, ColorArg, ValueDataArg};
use crate::units::{self, KeyDistSpec};

/// Length of a measurement.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Length")]
pub(crate) struct LengthArgs {
    /// Operations per case and target
    #[arg(long, value_name = "N", value_parser = units::positive_count, conflicts_with = "duration")]
    pub(crate) ops: Option<u64>,
    /// Time per case and target
    #[arg(long, value_name = "T", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// Warm-up time, not measured [default: 500ms, less for short runs]
    #[arg(long, hide_short_help = true, value_name = "T", value_parser = units::duration)]
    pub(crate) warmup: Option<Duration>,
    /// Rounds into which the time or the operations are split [default: 10]
    ///
    /// A short run has fewer. Several servers that are started for the run get 10 to 40 rounds, until their
    /// ratios are precise.
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) rounds: Option<u32>,
}

/// The commands to send.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Built-in workload or TOML file; repeatable
    ///
    /// Without it, the cases are get, set, getset-70-30, and get with pipeline 16.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) workload: Vec<String>,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    /// Operations in flight over all connections, instead of --pipeline
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = units::small_count, conflicts_with = "pipeline")]
    pub(crate) in_flight: Option<u32>,
    /// Operations per second (open loop) [default: closed loop]
    ///
    /// Without a rate the loop is closed: each connection sends the next operation after the last reply.
    #[arg(long, value_name = "OPS", value_parser = units::count)]
    pub(crate) rate: Option<u64>,
    /// Spacing of the operations of an open loop [default: uniform]
    #[arg(
        long,
        hide_short_help = true,
        value_enum,
        value_name = "PROCESS",
        requires = "rate"
    )]
    pub(crate) arrivals: Option<ArrivalsArg>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
}

/// The load of one case, however its rate is chosen.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct TrafficArgs {
    /// Command to send, such as '3:GET {key}'; repeatable for a mix
    ///
    /// A leading number and colon set its weight in the mix. docs/workloads.md lists the placeholders.
    #[arg(long, value_name = "[WEIGHT:]COMMAND", conflicts_with = "workload")]
    pub(crate) command: Vec<String>,
    /// Connections per target [default: 50]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) connections: Option<u32>,
    /// Threads of the load generator [default: half the cores]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) threads: Option<u32>,
    /// Operations in flight on each connection [default: 1]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) pipeline: Option<u32>,
    /// Keys per command of mget and mset [default: 10]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) batch: Option<u32>,
    /// Round-trip time added to the path of every target [default: 0]
    #[arg(long, value_name = "T")]
    pub(crate) latency: Option<String>,
}

/// Properties of the path other than its latency.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct PathArgs {
    /// Variation of the added delay [default: none]
    ///
    /// T is the standard deviation (normal, the default), the largest deviation (uniform), or the scale of a
    /// heavy tail (pareto).
    #[arg(long, hide_short_help = true, value_name = "T[:DIST]")]
    pub(crate) jitter: Option<String>,
    /// Bandwidth limit per direction, such as 10Mbit or 1MiB/s [default: no limit]
    #[arg(long, hide_short_help = true, value_name = "RATE")]
    pub(crate) bandwidth: Option<String>,
}

/// Keys and values.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Number of keys [default: 100k, fewer for large keys]
    #[arg(long, value_name = "N", value_parser = units::positive_count)]
    pub(crate) keys: Option<u64>,
    /// Key distribution, such as zipf:0.99 [default: that of the workload]
    ///
    /// One of uniform, zipf:S, gaussian, sequential, hotspot:K:P and latest.
    #[arg(long, value_name = "DIST", value_parser = units::key_dist)]
    pub(crate) key_dist: Option<KeyDistSpec>,
    /// Value size: SIZE, A..B or zipf:A..B [default: 64B, 100B for ycsb]
    #[arg(long, value_name = "SIZE", value_parser = units::value_size)]
    pub(crate) value_size: Option<ValueSize>,
    /// Content of values [default: random]
    #[arg(long, hide_short_help = true, value_enum, value_name = "KIND")]
    pub(crate) value_data: Option<ValueDataArg>,
    /// Check every value that is read
    #[arg(long, hide_short_help = true)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
}

/// The seed, and which servers can be measured.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct ChoiceArgs {
    /// Seed of all random choices [default: random]
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Measure a server that already holds keys
    #[arg(long, hide_short_help = true)]
    pub(crate) allow_non_empty: bool,
}

/// Options of connections.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Protocol version [default: 2; 3 in `loadline modes`]
    #[arg(long, hide_short_help = true, value_name = "2|3", value_parser = units::resp)]
    pub(crate) resp: Option<u8>,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// Encrypted connections.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct TlsArgs {
    /// Trusted certificates (PEM) [default: those of the system]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        conflicts_with = "tls_insecure"
    )]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        requires = "tls_cert"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long, hide_short_help = true)]
    pub(crate) tls_insecure: bool,
}

/// Credentials for an existing server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct LoginArgs {
    /// User name, unless the URL has one
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the password, unless the URL has one
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// Files to write; `-` is standard output.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write the record as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report in Markdown
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the figures as CSV
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the result as JUnit XML
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

/// The output of a command that measures.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ResultArgs {
    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
}

/// The use of a plan.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct PlanArgs {
    /// Print the resolved plan and exit
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Options of the terminal.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct DisplayArgs {
    /// Print neither progress nor a report
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print all findings of the doctor in a terminal, not just the first three
    #[arg(long, hide_short_help = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Use of colors
    #[arg(long, hide_short_help = true, value_enum, value_name = "WHEN", default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
}
