//! Arguments of `loadline modes`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use loadline_load::values::ValueSize;

use super::{ChoiceArgs, ConnectionArgs, CountingArgs, PathArgs, ResultArgs};
use crate::units;

pub(super) const HELP: &str = "\
Examples:
  loadline modes
  loadline modes redis://localhost --latency 0,1ms,10ms --mode sync,pipeline,batch
  loadline modes --op get --ops 100,10k --budget 3s --json modes.json
  loadline modes --codec raw,json,msgpack,protobuf --value-size 1KiB --latency 0
  loadline modes spawn-cluster:redis-server --latency 0,10ms --hash-tag

Targets, in addition to those of `loadline run`:
  cluster://[USER:PASS@]HOST:PORT[,...]   a cluster; its other nodes are discovered
  spawn-cluster:redis-server              three masters and three replicas, started for the sweep

Modes: sync (one after the other), async (tasks that share a connection), pipeline (many
commands in one write), batch (MGET, MSET), transaction (MULTI, EXEC), script (EVALSHA).
All modes use loadline-client as an application would. Each cell measures as many operations as
fit its budget; the remainder is extrapolated and marked with ~. A search then finds the best
batch size for each latency.
Exit codes: 0 done, 64 usage, 69 target unavailable, 70 internal error, 130 interrupted.";

/// How should I call it: sync, async, pipeline or batch, under which latency?
#[derive(Debug, Args)]
pub(crate) struct ModesArgs {
    /// Server to call [default: spawn:redis-server if it is found, else embedded]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Call modes [default: all]
    #[arg(long, value_enum, value_name = "MODE", value_delimiter = ',')]
    pub(crate) mode: Vec<Mode>,
    /// Operations [default: both]
    #[arg(long, value_enum, value_name = "OP", value_delimiter = ',')]
    pub(crate) op: Vec<OpArg>,
    /// Other operations: built-in workloads of one command on one key, such as incr, hset or xadd
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "op"
    )]
    pub(crate) workload: Vec<String>,
    /// Encoding of values; time spent in the codec is measured separately [default: raw]
    #[arg(long, value_enum, value_name = "CODEC", value_delimiter = ',')]
    pub(crate) codec: Vec<CodecArg>,
    /// Numbers of operations [default: 100,1k,10k,100k,1M]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::positive_count)]
    pub(crate) ops: Vec<u64>,
    /// Added round-trip times [default: 0,10ms,100ms]
    #[arg(long, value_name = "T", value_delimiter = ',')]
    pub(crate) latency: Vec<String>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Method of adding latency: by packets (l3, needs root), by a proxy (l4), by the kernel (netem)
    #[arg(long, value_enum, value_name = "CLASS", default_value_t = LinkArg::Auto)]
    pub(crate) link: LinkArg,
    /// Operations per call of pipeline, batch, transaction and script [default: 100]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) batch: Option<u32>,
    /// Sizes to try for pipelines and batches [default: 1 to 100k]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::small_count)]
    pub(crate) sizes: Vec<u32>,
    /// Tasks of async [default: 100]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) in_flight: Option<u32>,
    /// Rounds of each cell [default: 3]; sizes are compared in at least 10
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) rounds: Option<u32>,
    /// Time limit of a cell; longer ones are extrapolated [default: 300ms]
    #[arg(long, value_name = "T", value_parser = units::duration)]
    pub(crate) budget: Option<Duration>,
    /// Number of keys, loaded before the sweep [default: 10k]
    #[arg(long, value_name = "N", value_parser = units::positive_count)]
    pub(crate) keys: Option<u64>,
    /// Value size: SIZE, A..B or zipf:A..B; of objects, the size as JSON [default: 64B, 512B with a codec]
    #[arg(long, value_name = "SIZE", value_parser = units::value_size)]
    pub(crate) value_size: Option<ValueSize>,
    /// Put all keys of a cluster into one slot, which transactions and scripts need
    #[arg(long)]
    pub(crate) hash_tag: bool,
    #[command(flatten)]
    pub(crate) counting: CountingArgs,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// The client of a sweep in a process of its own
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The run whose keys are used
    #[arg(long)]
    pub(crate) counted_run: String,
    /// Address of a target that the sweep started
    #[arg(long)]
    pub(crate) counted_target: Option<String>,
    /// The arguments of the sweep
    #[command(flatten)]
    pub(crate) modes: ModesArgs,
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

/// The kinds of values.
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

/// The methods of adding latency.
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
