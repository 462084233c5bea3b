//! What `loadline modes` is asked.

use std::time::Duration;

use clap::{Args, ValueEnum};
use loadline_load::values::ValueSize;

use super::{DisplayArgs, LoginArgs, OutputArgs, TlsArgs};
use crate::units;

pub(super) const HELP: &str = "\
Examples:
  loadline modes
  loadline modes redis://localhost --latency 0,1ms,10ms --mode sync,pipeline,batch
  loadline modes --op get --ops 100,10k --budget 3s --json modes.json
  loadline modes --codec raw,json,msgpack,protobuf --value-size 1KiB --latency 0
  loadline modes spawn-cluster:redis-server --latency 0,10ms --hash-tag

Targets, beside those of `loadline run`:
  cluster://[USER:PASS@]HOST:PORT[,...]   a cluster; the nodes named here name the others
  spawn-cluster:redis-server              three masters and three replicas, started for the sweep

Modes: sync (one after the other), async (tasks that share a connection), pipeline (many
commands in one write), batch (MGET, MSET), transaction (MULTI, EXEC), script (EVALSHA).
They go through loadline-client as an application would use it. A cell is measured on as many
operations as fit its budget; the rest is extrapolated, and marked with ~.
Then the best batch size is looked for, under each latency.
Exit codes: 0 done, 64 usage, 69 target not there, 70 our fault, 130 interrupted.";

/// How should I call it: sync, async, pipeline or batch, under which latency?
#[derive(Debug, Args)]
pub(crate) struct ModesArgs {
    /// What to call [default: spawn:redis-server where it is found, else embedded]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Ways to call it [default: all]
    #[arg(long, value_enum, value_name = "MODE", value_delimiter = ',')]
    pub(crate) mode: Vec<Mode>,
    /// Operations [default: both]
    #[arg(long, value_enum, value_name = "OP", value_delimiter = ',')]
    pub(crate) op: Vec<OpArg>,
    /// Other operations than get and set: built-in workloads of one command on one key, such as
    /// incr, hset, hget, lpush, sadd, zadd, xadd
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "op"
    )]
    pub(crate) workload: Vec<String>,
    /// What values are: bytes as they are (raw), or objects that are encoded before SET and decoded
    /// after GET, which is timed apart [default: raw]
    #[arg(long, value_enum, value_name = "CODEC", value_delimiter = ',')]
    pub(crate) codec: Vec<CodecArg>,
    /// How many operations, for each cell [default: 100,1k,10k,100k,1M]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::positive_count)]
    pub(crate) ops: Vec<u64>,
    /// Added round-trip times [default: 0,10ms,100ms]
    #[arg(long, value_name = "T", value_delimiter = ',')]
    pub(crate) latency: Vec<String>,
    /// How much the delay of each direction varies: T is the deviation (normal, the default), the
    /// most to either side (uniform), or the scale of a heavy tail (pareto) [default: none]
    #[arg(long, value_name = "T[:DIST]")]
    pub(crate) jitter: Option<String>,
    /// How much fits through in each direction, such as 10Mbit or 1MiB/s [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub(crate) bandwidth: Option<String>,
    /// How latency is added: by packets (l3, needs root), by a proxy (l4), by the kernel (netem)
    #[arg(long, value_enum, value_name = "CLASS", default_value_t = LinkArg::Auto)]
    pub(crate) link: LinkArg,
    /// Operations per call of pipeline, batch, transaction and script [default: 100]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) batch: Option<u32>,
    /// Sizes among which the best pipeline and the best batch are looked for [default: 1 to 10k]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::small_count)]
    pub(crate) sizes: Vec<u32>,
    /// Tasks of async [default: 100]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) in_flight: Option<u32>,
    /// The most time for a cell; what takes longer is extrapolated [default: 1s]
    #[arg(long, value_name = "T", value_parser = units::duration)]
    pub(crate) budget: Option<Duration>,
    /// Keys loaded before and touched by the load [default: 10k]
    #[arg(long, value_name = "N", value_parser = units::positive_count)]
    pub(crate) keys: Option<u64>,
    /// SIZE, A..B or zipf:A..B; of an object, its size as JSON [default: 64B, 512B with a codec]
    #[arg(long, value_name = "SIZE", value_parser = units::value_size)]
    pub(crate) value_size: Option<ValueSize>,
    /// On a cluster: gives all keys one hash tag, so that they are in one slot and on one node. Without it
    /// there are no transactions and scripts over many keys there
    #[arg(long)]
    pub(crate) hash_tag: bool,
    /// Makes the choices repeatable [default: a new one]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Measure a server that holds keys already
    #[arg(long)]
    pub(crate) allow_non_empty: bool,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
    /// Print the resolved plan and touch nothing
    #[arg(long, help_heading = "Output")]
    pub(crate) dry_run: bool,
}

/// Ways to call a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// One operation after the other
    Sync,
    /// Tasks that share a connection
    Async,
    /// Many commands in one write
    Pipeline,
    /// One command for many keys
    Batch,
    /// Many commands between MULTI and EXEC
    Transaction,
    /// One script over many keys
    Script,
}

/// Operations whose calls are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpArg {
    /// Read a value
    Get,
    /// Write a value
    Set,
}

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodecArg {
    /// Bytes as they are
    Raw,
    /// JSON
    Json,
    /// MessagePack
    Msgpack,
    /// Protocol Buffers
    Protobuf,
}

/// How latency is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkArg {
    /// netem where it is possible, else l3, else l4
    Auto,
    /// Packets between two network devices of our own
    L3,
    /// A proxy that holds bytes back
    L4,
    /// The kernel's own emulator
    Netem,
}
