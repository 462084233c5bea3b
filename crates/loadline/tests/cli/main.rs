//! Black-box tests: the real binary, a directory of its own, and what a user sees.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

mod agents;
mod capacity;
mod children;
mod clients;
mod cluster;
mod distress;
mod doctor;
mod dry_run;
mod engines;
mod failover;
mod judge;
mod kernel;
mod keys;
mod limits;
mod link;
mod manifests;
mod masters;
mod merge;
mod modes;
mod namespaces;
mod outputs;
#[path = "../../../loadline-client/tests/redis/port.rs"]
mod port;
mod redaction;
mod redis;
mod report;
mod run;
mod sentinel;
mod serve;
mod settings;
mod store;
mod suite;
mod tiers;
mod tls;
mod truth;
mod usage;
mod util;
mod work;
