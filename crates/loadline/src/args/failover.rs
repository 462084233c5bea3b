//! Arguments of `loadline failover`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ChoiceArgs, LimitArgs, LoginArgs, ResultArgs, TlsArgs};
use crate::units;

pub(super) const HELP: &str = "\
Examples:
  loadline failover
  loadline failover cluster --fault kill,stop
  loadline failover embedded --durability process,always --fault kill --html failover.html
  loadline failover standalone --fault cut --rate 5k --json failover.json
  loadline failover cluster --fault kill --operations all
  loadline failover cluster --fault kill --rounds 8 --json before.json
  loadline failover replica --fault lag,kill --reads replica
  loadline failover cluster --fault partition --wait 1:100ms
  loadline failover cluster --fault partition --min-replicas 1:2s
  loadline failover --client loadline,redis-py,go-redis --fault kill,cut
  loadline failover redis://localhost --watch --duration 2m
  loadline failover sentinel --workload manager --limit 'reconnect<1s' --limit 'kill.pool_recovery<2s'

Topologies, started on loopback for the run and removed afterwards:
  standalone   one redis-server (the default)
  replica      a master and a replica, which is promoted by hand and takes the master's port
  sentinel     a master and two replicas under three sentinels
  cluster      three masters, each with a replica
  embedded     our own server with a directory

Faults:
  kill         SIGKILL; the server is started again, or a replica takes its place
  stop         SIGSTOP for 1 s (cluster: 3 s, sentinel: 5 s, in which a replica takes over)
  client-kill  the server closes all connections by CLIENT KILL
  reset        every connection is reset
  cut          connections end after a write was executed and before its reply
  black-hole   a connection delivers nothing more and stays open
  planned      a replica becomes the master by command (not standalone, embedded)
  partition    client and a master are cut off from the others for 1 s (cluster: 3 s,
               sentinel: 5 s), which promote a replica (not standalone, embedded)
  lag          the replica receives nothing for 1 s and goes on answering (replica only)
  With --fault only:
  half-open    the server's end of a connection is closed, and the client is not notified
  refused      connections are closed, and new ones are refused for 1 s
  slow-close   the server closes all connections, and clients are notified 1 s later
  loading      SIGKILL, and the server reads its data for about 1 s (LOADING; standalone only)
  slots-moved  slots of a master are moved to another one, key by key (cluster only)
  full-disk    the disk of the server is full for 1 s (MISCONF; standalone only, as root)
  read-only    the server is a replica for 1 s and refuses writes (standalone, replica only)
  max-clients  connections are closed, and the server takes no clients for 1 s (not sentinel,
               embedded)
  replica-loss SIGKILL of a replica (not standalone, embedded)

Writers send SET and INCR (or --operations) to new keys at a rate (open loop) before, during and after the fault.
Then every key is read: the report says which acknowledged writes are lost, which writes were
executed twice, and how long nobody could write. docs/failover.md explains audit and clocks.
With --wait, a write counts as acknowledged if WAIT also confirms N replicas within T, and as
unknown otherwise; each write takes a connection of a pool of 2 to 10, in a cluster of one for
each master.
With --client, drivers of `loadline clients` run at the same time, each in a process of its own
that sends one INCR after the other, and are compared.
With --watch, nothing is broken: the same load runs on a TARGET that runs already (redis://,
sentinel:// or cluster://) while somebody else causes an outage, and ends after --duration.
Limits: reconnect (until every writer had a new write acknowledged), outage, and with --workload
manager pool_recovery (until two connections of each pool are usable); `default` selects
reconnect<1s and pool_recovery<2s.
Exit codes: 0 done, 2 a limit is broken, 3 inconclusive (with --strict), 64 usage, 69 a server or program is unavailable,
70 internal error (also if the counts do not add up), 130 interrupted.";

/// What happens to my writes when the server goes away?
#[derive(Debug, Args)]
pub(crate) struct FailoverArgs {
    /// Servers to start: standalone, replica, sentinel, cluster or embedded [default: standalone];
    /// with --watch, servers that run already
    #[arg(value_name = "TOPOLOGY|TARGET")]
    pub(crate) topology: Option<String>,
    /// Faults to cause, as a comma list, or `all` [default: kill to lag in the list below]
    #[arg(long, value_name = "A,B|all", value_delimiter = ',')]
    pub(crate) fault: Vec<String>,
    /// Durability for `kill`, as a comma list [default: memory,interval:1s; embedded: process]
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    pub(crate) durability: Vec<String>,
    /// Observe an outage of TARGET that somebody else causes
    #[arg(
        long,
        requires = "topology",
        conflicts_with_all = ["fault", "durability", "server", "client", "rounds", "wait", "reads", "min_replicas"]
    )]
    pub(crate) watch: bool,
    /// Clients to compare: names of drivers (see `loadline clients --list`), or directories of some
    #[arg(
        long,
        value_name = "DRIVER",
        value_delimiter = ',',
        conflicts_with_all = ["rate", "writers", "operations", "wait", "reads", "workload"]
    )]
    pub(crate) client: Vec<String>,
    /// Server program [default: redis-server]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) server: Option<PathBuf>,
    /// Writes per second of all writers [default: 2k]
    #[arg(long, value_name = "OPS", value_parser = units::positive_count, help_heading = "Load")]
    pub(crate) rate: Option<u64>,
    /// Number of writers, which share one client [default: 6]
    #[arg(long, value_name = "N", value_parser = units::small_count, help_heading = "Load")]
    pub(crate) writers: Option<u32>,
    /// Kinds of write that take turns: set, incr, multi, lua, xadd, watch and publish, as a comma list, or `all` [default: set,incr]
    #[arg(
        long,
        value_name = "A,B|all",
        value_delimiter = ',',
        help_heading = "Load"
    )]
    pub(crate) operations: Vec<String>,
    /// WAIT for N replicas, up to T, after each write [example: 1:100ms]
    #[arg(long, value_name = "N:T", help_heading = "Load")]
    pub(crate) wait: Option<String>,
    /// Let masters refuse writes without N replicas that answered in the last T, in whole seconds
    /// (min-replicas-to-write and min-replicas-max-lag) [example: 1:2s]
    #[arg(long, value_name = "N:T", help_heading = "Load")]
    pub(crate) min_replicas: Option<String>,
    /// Read as often as write, from the `master` or from a `replica`, and count stale reads
    #[arg(long, value_name = "FROM", help_heading = "Load")]
    pub(crate) reads: Option<String>,
    /// Load of an application, in place of one shared connection
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Load")]
    pub(crate) workload: Option<FailoverWorkload>,
    /// Time of the load after the fault [default: 2s to 8s; with --watch 1m]
    #[arg(long, value_name = "T", value_parser = units::duration, help_heading = "Load")]
    pub(crate) duration: Option<Duration>,
    /// Repetitions of every fault; `compare` and `gate` need 8 to judge times [default: 1, or 5 with --client]
    #[arg(long, value_name = "N", value_parser = units::small_count, help_heading = "Load")]
    pub(crate) rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Exit with 3 if a limit cannot be judged
    #[arg(long, requires = "limit", help_heading = "Limits")]
    pub(crate) strict: bool,
    /// Write every call and its outcome as JSON lines in the form of Jepsen's histories
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// The load of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailoverWorkload {
    /// The Redis manager of a game server: a pool of 2 to 10 connections
    Manager,
}
