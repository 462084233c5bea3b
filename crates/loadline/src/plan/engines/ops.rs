//! The operations of a comparison of engines.

use std::time::Duration;

use loadline_measure::engines::Operation as Named;

use crate::args::EngineOpArg;
use crate::workload::{self, Definition, Operation};

/// The key space that all operations share.
const SPACE: &str = "engines";

/// An operation: its commands in Redis syntax, and the keys of a call.
pub(super) struct Shape {
    pub(super) workload: Definition,
    pub(super) batch: Option<u32>,
}

impl Shape {
    /// The shape of `op`. Written keys live for `ttl`.
    pub(super) fn of(op: EngineOpArg, batch: u32, ttl: Option<Duration>) -> Self {
        let put = match ttl {
            None => "SET {key} {value}".to_owned(),
            Some(ttl) => format!("SET {{key}} {{value}} PX {}", ttl.as_millis()),
        };
        const GET: &str = "GET {key}";
        const DELETE: &str = "DEL {key}";
        // No command of Redis reads the pairs from a key on. Servers do not get this one.
        const SCAN: &str = "GETRANGE {key} 0 -1";
        let (name, commands, batch) = match op {
            EngineOpArg::Put => (Named::Put, vec![put.clone()], None),
            EngineOpArg::Get => (Named::Get, vec![GET.into()], None),
            EngineOpArg::Delete => (Named::Delete, vec![DELETE.into()], None),
            EngineOpArg::BatchPut => (Named::BatchPut, vec![put.clone()], Some(batch)),
            EngineOpArg::BatchGet => (Named::BatchGet, vec![GET.into()], Some(batch)),
            EngineOpArg::BatchDelete => (Named::BatchDelete, vec![DELETE.into()], Some(batch)),
            EngineOpArg::Reads => (Named::ConcurrentGet, vec![GET.into()], None),
            EngineOpArg::Writes => (Named::ConcurrentPut, vec![put.clone()], None),
            EngineOpArg::Mixed => {
                let commands = vec![format!("70:{GET}"), format!("30:{put}")];
                (Named::ConcurrentMixed, commands, None)
            }
            EngineOpArg::Scan => (Named::Scan, vec![SCAN.into()], Some(batch)),
            EngineOpArg::Sustained => (Named::SustainedPut, vec![put.clone()], None),
        };
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let mut workload = workload::over_strings(name.as_str(), SPACE, &commands);
        if ttl.is_some() {
            let load = Operation::parse([put]);
            workload.load = Some(load.expect("a SET with a time to live is a command"));
        }
        Self { workload, batch }
    }
}

/// Threads that perform `op` unless a number is given.
pub(super) fn default_threads(op: EngineOpArg, cpus: u32) -> u32 {
    match op {
        EngineOpArg::Reads | EngineOpArg::Writes | EngineOpArg::Mixed => cpus.max(2),
        _ => 1,
    }
}

/// Whether `op` removes keys.
pub(super) fn removes(op: EngineOpArg) -> bool {
    matches!(op, EngineOpArg::Delete | EngineOpArg::BatchDelete)
}
