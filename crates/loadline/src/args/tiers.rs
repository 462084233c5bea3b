//! Arguments of `loadline tiers`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ArrivalsArg, ChoiceArgs, LengthArgs, LoginArgs, ResultArgs};
use crate::units::{self, KeyDistSpec};

pub(super) const HELP: &str = "\
Examples:
  loadline tiers
  loadline tiers redis heed store --latency 500us,1ms --html tiers.html
  loadline tiers --object-file profile.bin --load-cost 3ms --hit-ratio 60%
  loadline tiers redis --load-command './render-page 17' --duration 2s
  loadline tiers --reproduce
  loadline tiers --trace cluster52.csv
  loadline tiers --key-dist zipf:0.99 --keys 100k --ram 64MiB --rate 1k

Tiers: redis (redis-server over TCP), redis-unix (over a Unix socket), embedded (our own server
over TCP), redis://HOST:PORT (a running server), store (our own store), heed (LMDB), redb, fjall.
The object is a procedural floor of a game of 100x100 tiles, or your own bytes. It is recomputed,
read from memory, and read from and written to each tier, in interleaved rounds. Connections,
keys and objects are prepared outside of what is timed; their costs have rows of their own.
docs/tiers.md describes every figure and the verdict.
Exit codes: 0 done, 64 usage, 65 bad file, 69 tier unavailable, 70 internal error,
130 interrupted.";

/// RAM, embedded store, Redis or recompute: which tier pays for this object?
#[derive(Debug, Args)]
pub(crate) struct TiersArgs {
    /// Tiers below memory [default: all of this build, with redis and redis-unix if redis-server is found]
    // Kept as text: clap quotes values that it cannot read, and a URL may hold a password.
    #[arg(value_name = "TIER")]
    pub(crate) tiers: Vec<String>,
    /// The object that the tiers keep [default: floor]
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["object_file", "load_command"])]
    pub(crate) object: Option<ObjectArg>,
    /// Size of the floor in tiles [default: 100x100]
    #[arg(long, value_name = "WxH", conflicts_with_all = ["object_file", "load_command"])]
    pub(crate) floor: Option<String>,
    /// A sample of your own object, as the bytes that a tier would keep
    #[arg(
        long,
        value_name = "FILE",
        requires = "load_cost",
        conflicts_with = "load_command"
    )]
    pub(crate) object_file: Option<PathBuf>,
    /// Time to recompute that object
    #[arg(long, value_name = "T", value_parser = units::duration, requires = "object_file")]
    pub(crate) load_cost: Option<Duration>,
    /// Shell command that writes the object to standard output; its time is the cost to recompute it
    #[arg(long, value_name = "COMMAND")]
    pub(crate) load_command: Option<String>,
    /// Round-trip times added to the first tier over TCP, each measured as a tier of its own
    #[arg(long, value_name = "T", value_delimiter = ',')]
    pub(crate) latency: Vec<String>,
    /// Expected share of the reads that a tier answers [default: 80%]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub(crate) hit_ratio: Option<f64>,
    /// Objects per call of the batches [default: 10,100]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::small_count)]
    pub(crate) batch: Vec<u32>,
    /// Trace of an application, for the memory that a hit ratio takes: Twitter's CSV, oracleGeneral or MONITOR output
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Measure the flaws of a known benchmark on purpose, and the same operations without them
    #[arg(long, conflicts_with_all = ["object_file", "load_command"])]
    pub(crate) reproduce: bool,
    /// Run a whole cache under load instead: its keys follow this distribution, such as zipf:0.99
    ///
    /// One of uniform, zipf:S, gaussian, sequential, hotspot:K:P and latest.
    #[arg(
        long,
        visible_alias = "distribution",
        value_name = "DIST",
        value_parser = units::key_dist,
        conflicts_with_all = ["batch", "hit_ratio", "reproduce", "trace", "warmup"]
    )]
    pub(crate) key_dist: Option<KeyDistSpec>,
    /// Number of keys of that load [default: 100k]
    #[arg(long, value_name = "N", value_parser = units::positive_count, requires = "key_dist")]
    pub(crate) keys: Option<u64>,
    /// Size of the memory tier under load [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "key_dist")]
    pub(crate) ram: Option<u64>,
    /// Most bytes written to each tier below memory under load [default: 8 times --ram]
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "key_dist")]
    pub(crate) tier_size: Option<u64>,
    /// Gets per second of that load (open loop) [default: closed loop]
    ///
    /// Response times then count from the intended start of a get, so they contain the wait for earlier gets.
    #[arg(long, value_name = "OPS", value_parser = units::count, requires = "key_dist")]
    pub(crate) rate: Option<u64>,
    /// Spacing of the gets of an open loop [default: uniform]
    #[arg(long, value_enum, value_name = "PROCESS", requires = "rate")]
    pub(crate) arrivals: Option<ArrivalsArg>,
    /// Directory for the files of embedded stores [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) length: LengthArgs,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// Objects that the program makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectArg {
    /// A procedural floor of a game
    Floor,
}
