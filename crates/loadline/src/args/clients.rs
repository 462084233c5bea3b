//! Arguments of `loadline clients`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use loadline_load::values::ValueSize;

use super::{ChoiceArgs, LoginArgs, ResultArgs};
use crate::units;

pub(super) const HELP: &str = "\
Examples:
  loadline clients
  loadline clients --only redis-py,redis-py.hiredis --ops get,pipeline-100
  loadline clients redis://localhost --reference go-redis --resp 2,3 --json clients.json
  loadline clients --only loadline,go-redis --ops get --rate 5k --duration 15s
  loadline clients spawn-cluster:redis-server --only loadline,redis-rs,go-redis
  loadline clients --only hiredis,redis-py --gate 'hiredis.get >= 1.28 * redis-py.get'
  loadline clients --list
  loadline clients --conformance ./my-driver

Operations: get, set, pipeline-N and set-pipeline-N (N commands in one call), multiplexed-N and
set-multiplexed-N (N concurrent callers on one connection), pool-N and set-pool-N (N concurrent
callers with a pool of connections).

Each client runs in a process of its own, a driver. `cargo xtask drivers --install` installs
those in the directory drivers/; docs/driver-protocol.md describes how to write one, and
docs/clients.md every column.
With --gate the last line contains the result, such as `loadline: clients: critical (2)`.
Exit codes: 0 done, 2 a gate is not passed, 3 inconclusive (with --strict), 64 usage,
65 bad file, 69 driver or target unavailable, 70 internal error, 130 interrupted.";

/// Which client library, in which language, at which settings?
#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    /// Server to call [default: spawn:redis-server if it is found, else embedded]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Drivers to measure [default: all that are installed]
    #[arg(long, value_name = "DRIVER", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Operations [default: get,set,pipeline-10,pipeline-100,multiplexed-64]
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub(crate) ops: Vec<String>,
    /// Driver that the others are compared with [default: redis-py, else the first one]
    #[arg(long, value_name = "DRIVER")]
    pub(crate) reference: Option<String>,
    /// Protocol versions [default: 2]
    #[arg(long, value_name = "2|3", value_delimiter = ',', value_parser = units::resp)]
    pub(crate) resp: Vec<u8>,
    /// Claim about two rows: 'DRIVER.OP >= FACTOR * DRIVER.OP'; repeatable
    #[arg(long, value_name = "CLAIM")]
    pub(crate) gate: Vec<String>,
    /// Exit with 3 if a gate is inconclusive
    #[arg(long, requires = "gate")]
    pub(crate) strict: bool,
    /// Measure everything, for many clients too: takes over a minute from about four clients on
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Skip the runs with faults
    #[arg(long)]
    pub(crate) no_faults: bool,
    /// Time until a call that waits during a fault is given up [default: 8s]
    #[arg(long, value_name = "T", value_parser = units::duration, conflicts_with = "no_faults")]
    pub(crate) patience: Option<Duration>,
    /// List the drivers and exit
    #[arg(long, conflicts_with_all = ["conformance", "gate"])]
    pub(crate) list: bool,
    /// Test a driver: its name, or the directory of its driver.toml
    #[arg(long, value_name = "DRIVER", conflicts_with = "gate")]
    pub(crate) conformance: Option<String>,
    /// Directory of the drivers [default: drivers, here or above the program]
    #[arg(long, value_name = "DIR")]
    pub(crate) drivers: Option<PathBuf>,
    /// Directory of one more driver (of its driver.toml), anywhere; repeatable
    #[arg(long, value_name = "DIR")]
    pub(crate) driver: Vec<PathBuf>,
    /// Number of keys [default: 1k]
    #[arg(long, value_name = "N", value_parser = units::positive_count)]
    pub(crate) keys: Option<u64>,
    /// Size of values [default: 64B]
    #[arg(long, value_name = "SIZE", value_parser = units::value_size)]
    pub(crate) value_size: Option<ValueSize>,
    /// Round-trip time added to the path of every client [default: 0]
    #[arg(long, value_name = "T")]
    pub(crate) latency: Option<String>,
    /// Operations per second of every client (open loop) [default: closed loop]
    #[arg(long, value_name = "OPS", value_parser = units::positive_count, conflicts_with = "gate")]
    pub(crate) rate: Option<u64>,
    /// Time per operation and client [default: 1s]
    #[arg(long, value_name = "T", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// Warm-up time, up to three times as long until it is steady [default: 500ms]
    #[arg(long, value_name = "T", value_parser = units::duration)]
    pub(crate) warmup: Option<Duration>,
    /// Rounds into which the time is split [default: 10]
    #[arg(long, value_name = "N", value_parser = units::small_count)]
    pub(crate) rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}
