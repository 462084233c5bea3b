//! The arguments of `loadline link`.

use clap::Args;

use super::PathArgs;

pub(super) const HELP: &str = "\
Examples:
  loadline link --listen 127.0.0.1:7000 --to 127.0.0.1:6379 --latency 10ms
  loadline link --listen 127.0.0.1:7000 --to db:6379 --fault cut-reply@INCR:/100
  loadline link --listen 127.0.0.1:7000 --to db:6379 --fault freeze@30s+2s --fault refuse@~1m
  loadline link --listen unix:///tmp/l.sock --to db:6379 --fault 'reply=-LOADING busy@SET:5'

A fault is KIND[@WHEN][+TIME], where TIME is how long it lasts:
  cut reset half-open            the connection ends in order, by a reset, or only at the server
  black-hole freeze              everything sent vanishes, or is held until the fault is over
  refuse slow-close=T delay=T    connections are refused, close later, or get data later
  cut-reply reply=TEXT           the connection ends after the command was executed and instead
                                 of its reply, or TEXT is the reply and the server sees nothing
WHEN is a time since the start or the number of a command: 10s, INCR:5, any:1000. With `/`, it
repeats at that distance (/10s, INCR:/5), and with `~`, at distances drawn around it.
At a command, only its connection is affected; cut=all, freeze=all and so on affect all of them.
Without WHEN, a fault lasts from the start on. docs/link.md describes the faults.

It prints each fault as it happens, and ends on Ctrl-C or SIGTERM.
Exit codes: 0 done, 64 usage, 69 cannot listen, 70 internal error.";

/// Latency and faults between any client and server
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// Address to listen on: ADDR:PORT or unix:///PATH; port 0 selects a free port
    #[arg(long, value_name = "A")]
    pub(crate) listen: String,
    /// Address of the server: HOST:PORT or unix:///PATH
    #[arg(long, value_name = "B")]
    pub(crate) to: String,
    /// Round-trip time added to the path [default: 0]
    #[arg(long, value_name = "T")]
    pub(crate) latency: Option<String>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Fault, such as cut-reply@INCR:5 or freeze@10s+2s; repeatable
    #[arg(long, value_name = "FAULT", help_heading = "Faults")]
    pub(crate) fault: Vec<String>,
    /// Seed of jitter and of drawn distances [default: random]
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) seed: Option<u64>,
}
