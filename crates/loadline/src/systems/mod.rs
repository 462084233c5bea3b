//! Opens what a TARGET names: servers, clusters, child processes, and the path to them.

mod admin;
pub(crate) mod application;
pub(crate) mod callgrind;
mod cgroup;
pub(crate) mod client;
mod cluster;
pub(crate) mod connect;
pub(crate) mod coordinator;
mod counters;
mod divide;
pub(crate) mod drivers;
pub(crate) mod engines;
mod environment;
pub(crate) mod faulty;
pub(crate) mod hints;
mod keys;
pub(crate) mod link;
mod network;
mod nodes;
pub(crate) mod null;
mod opened;
mod sentinel;
pub(crate) mod servers;
pub(crate) mod site;
pub(crate) mod strace;
pub(crate) mod threads;
mod tls;
mod watch;

pub(crate) use admin::{Admin, Refusals};
pub(crate) use cluster::ClusterAccess;
pub(crate) use counters::{Counters, SECTIONS, process, together};
pub(crate) use keys::Holders;
pub(crate) use nodes::Asked;
pub(crate) use opened::{Access, Opened};
pub(crate) use watch::Watch;
