//! Arguments of `loadline engines`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use loadline_load::values::ValueSize;

use super::{ChoiceArgs, LengthArgs, ResultArgs};
use crate::units::{self, KeyDistSpec};

pub(super) const HELP: &str = "\
Examples:
  loadline engines
  loadline engines map store redis --durability memory --keys 1M
  loadline engines store redis --op get,put --value-size 100B,1KiB --json engines.json
  loadline engines store fjall --op sustained --durability process --keys 1M
  loadline engines --op put --threads 64 --durability always
  loadline engines --thorough
  loadline engines --workload writeup

Engines: map (a plain hash table), store (our own), heed (LMDB), redb, fjall, redis (redis-server
over TCP), redis-unix (over a Unix socket), embedded (our own server over TCP), spawn:PROGRAM,
spawn-unix:PROGRAM. A build with --features rocksdb,sqlite has those, too.

Classes of durability: memory (nothing survives the process), process (acknowledged writes
survive kill -9), interval:T (synced to disk every T), always (synced before every reply).
Engines are compared within a class only, in interleaved rounds, one call at a time on each
thread. An engine that does not have a class is left out of it, and the report says why.
docs/engines.md describes every column.
Exit codes: 0 done, 64 usage, 69 engine unavailable, 70 internal error, 130 interrupted.";

/// Which engine for my data: in process, or Redis behind a socket?
#[derive(Debug, Args)]
pub(crate) struct EnginesArgs {
    /// Engines to measure [default: all of this build, with redis, redis-unix and embedded if redis-server is found]
    #[arg(value_name = "ENGINE")]
    pub(crate) engines: Vec<String>,
    /// Set of operations with its own sizes and limits
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) workload: Option<EngineWorkloadArg>,
    /// Operations [default: put, get, batch-put, batch-get and mixed; with --thorough all but sustained and scan]
    #[arg(long, value_enum, value_name = "OP", value_delimiter = ',')]
    pub(crate) op: Vec<EngineOpArg>,
    /// Measure all operations, and memory, disk and recovery in every class of durability; takes three times as long
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Classes of durability [default: memory,process,always]
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    pub(crate) durability: Vec<String>,
    /// Engine that the others are compared with [default: redis, else the first one]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) reference: Option<String>,
    /// Directory for the files of the engines [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Operations per call of the batches [default: 100]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) batch: Option<u32>,
    /// Threads of each operation [default: 1; for reads, writes and mixed the number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) threads: Option<u32>,
    /// Number of keys [default: 100k]
    #[arg(long, value_name = "N", value_parser = units::positive_count)]
    pub(crate) keys: Option<u64>,
    /// Key distribution, such as zipf:0.99 [default: uniform]
    #[arg(long, value_name = "DIST", value_parser = units::key_dist)]
    pub(crate) key_dist: Option<KeyDistSpec>,
    /// Value sizes, measured one after the other [default: 100B]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = units::value_size)]
    pub(crate) value_size: Vec<ValueSize>,
    /// Memory budget for the cache of each engine that has one [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) memory: Option<u64>,
    #[command(flatten)]
    pub(crate) length: LengthArgs,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

impl EnginesArgs {
    /// Time per operation and engine, where nothing is said: ten blocks of 50 ms.
    pub(crate) const DEFAULT_LENGTH: Duration = Duration::from_millis(500);
}

/// A set of operations and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineWorkloadArg {
    /// A cache of 10,000 keys that live for 30 minutes, as in a write-up that claims to beat Redis
    Writeup,
}

/// A mix of operations on engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineOpArg {
    /// Write a value over another
    Put,
    /// Read a value
    Get,
    /// Remove a key
    Delete,
    /// Write many values at once
    BatchPut,
    /// Read many values at once
    BatchGet,
    /// Remove many keys at once
    BatchDelete,
    /// Read from several threads
    Reads,
    /// Write from several threads
    Writes,
    /// 70 % reads and 30 % writes from several threads
    Mixed,
    /// Write ten times as much as the data, over the data; only if named
    Sustained,
    /// Read the pairs from a key on, in the order that the engine has; only if named, and not on servers
    Scan,
}

/// Fills or opens an engine, and says what that takes
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// The engine
    #[arg(long)]
    pub(crate) engine: String,
    /// Its class of durability
    #[arg(long)]
    pub(crate) durability: String,
    /// Its directory
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Keys that it holds
    #[arg(long)]
    pub(crate) keys: u64,
    /// Their values
    #[arg(long, value_parser = units::value_size)]
    pub(crate) value_size: ValueSize,
    /// Source of values
    #[arg(long)]
    pub(crate) seed: u64,
    /// Operations
    #[arg(long, value_enum)]
    pub(crate) step: EngineStep,
    /// Operations to count
    #[arg(long, default_value_t = 0)]
    pub(crate) ops: u64,
    /// Bytes of its cache of blocks or pages
    #[arg(long, value_parser = units::size)]
    pub(crate) memory: Option<u64>,
    /// The most keys of a cache
    #[arg(long, requires = "ttl")]
    pub(crate) max_keys: Option<u64>,
    /// Time to live of its keys
    #[arg(long, value_parser = units::duration, requires = "max_keys")]
    pub(crate) ttl: Option<Duration>,
}

/// Task of a child process with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineStep {
    /// Write every key twice, and wait
    Fill,
    /// Open it, read one key, then look for missing ones, and wait
    Open,
    /// Read keys
    Get,
    /// Write keys
    Put,
    /// Remove keys
    Delete,
}
