//! The operations of a comparison of engines.

use std::time::Duration;

use loadline_measure::engines::Operation as Named;

use crate::args::EngineOpArg;
use crate::workload::{self, Definition, Operation};

/// The key space that all operations share.
const SPACE: &str = "engines";

/// An operation: its commands in Redis syntax, and its concurrency.
pub(super) struct Shape {
    pub(super) workload: Definition,
    pub(super) batch: Option<u32>,
    pub(super) threads: u32,
}

impl Shape {
    /// The shape of `op`. Written keys live for `ttl`.
    pub(super) fn of(op: EngineOpArg, batch: u32, threads: u32, ttl: Option<Duration>) -> Self {
        let put = match ttl {
            None => "SET {key} {value}".to_owned(),
            Some(ttl) => format!("SET {{key}} {{value}} PX {}", ttl.as_millis()),
        };
        const GET: &str = "GET {key}";
        const DELETE: &str = "DEL {key}";
        // No command of Redis reads the pairs from a key on. Servers do not get this one.
        const SCAN: &str = "GETRANGE {key} 0 -1";
        let (name, commands, batch, threads) = match op {
            EngineOpArg::Put => (Named::Put, vec![put.clone()], None, 1),
            EngineOpArg::Get => (Named::Get, vec![GET.into()], None, 1),
            EngineOpArg::Delete => (Named::Delete, vec![DELETE.into()], None, 1),
            EngineOpArg::BatchPut => (Named::BatchPut, vec![put.clone()], Some(batch), 1),
            EngineOpArg::BatchGet => (Named::BatchGet, vec![GET.into()], Some(batch), 1),
            EngineOpArg::BatchDelete => (Named::BatchDelete, vec![DELETE.into()], Some(batch), 1),
            EngineOpArg::Reads => (Named::ConcurrentGet, vec![GET.into()], None, threads),
            EngineOpArg::Writes => (Named::ConcurrentPut, vec![put.clone()], None, threads),
            EngineOpArg::Mixed => {
                let commands = vec![format!("70:{GET}"), format!("30:{put}")];
                (Named::ConcurrentMixed, commands, None, threads)
            }
            EngineOpArg::Scan => (Named::Scan, vec![SCAN.into()], Some(batch), 1),
            EngineOpArg::Sustained => (Named::SustainedPut, vec![put.clone()], None, 1),
        };
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let mut workload = workload::over_strings(name.as_str(), SPACE, &commands);
        if ttl.is_some() {
            let load = Operation::parse([put]);
            workload.load = Some(load.expect("a SET with a time to live is a command"));
        }
        Self {
            workload,
            batch,
            threads,
        }
    }
}
