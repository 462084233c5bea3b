//! The limits of requested values, and the memory that a plan needs at least.

use loadline_load::values::ValueSize;

use super::{Case, Plan, Surroundings};
use crate::args::LoadArgs;
use crate::exit::Failure;
use crate::spelling::Target;
use crate::units;

const DEFAULT_CONNECTIONS: u32 = 50;
/// An address has some sixty thousand ports, and other programs use some of them.
const MOST_CONNECTIONS: u32 = 50_000;
/// More generator threads than processors only wait for each other.
const MOST_THREADS: u32 = 1_024;
/// Operations in flight on one connection.
const MOST_PIPELINE: u32 = 100_000;
/// Operations in flight on all connections. The start time of each is kept until its reply arrives.
const MOST_IN_FLIGHT: u64 = 10_000_000;
/// Key numbers have at most sixteen digits, and inserts need further numbers.
const MOST_KEYS: u64 = 1_000_000_000_000;
/// The largest value of Redis, in bytes.
const LARGEST_VALUE_BYTES: u64 = 512 << 20;
/// The least memory of a key in Redis 7, in bytes: an entry of 24, an object of 16, and a name of 24.
const LEAST_KEY_BYTES: u64 = 64;

pub(super) fn connections(load: &LoadArgs) -> Result<u32, Failure> {
    let connections = load.traffic.connections.unwrap_or(DEFAULT_CONNECTIONS);
    if connections > MOST_CONNECTIONS {
        let why =
            format!("at most {MOST_CONNECTIONS}, the number of ports available to an address");
        return Err(Failure::invalid("--connections", "count", connections, why)
            .followed_by("Use fewer, or more operations in flight on each (--pipeline)."));
    }
    Ok(connections)
}

pub(super) fn keys(keys: u64) -> Result<u64, Failure> {
    if keys > MOST_KEYS {
        let why = format!("at most {MOST_KEYS}, because key numbers have sixteen digits");
        return Err(Failure::invalid("--keys", "count", keys, why));
    }
    Ok(keys)
}

pub(super) fn value_size(size: ValueSize) -> Result<ValueSize, Failure> {
    if size.max() > LARGEST_VALUE_BYTES {
        let text = units::value_size_text(&size);
        let why = "at most 512MiB, the limit of Redis";
        return Err(Failure::invalid("--value-size", "size", text, why));
    }
    Ok(size)
}

pub(super) fn threads(asked: Option<u32>, connections: u32, cores: u32) -> Result<u32, Failure> {
    match asked {
        Some(threads) if threads > MOST_THREADS => Err(Failure::invalid(
            "--threads",
            "count",
            threads,
            format!("at most {MOST_THREADS}; more than {cores} (the number of CPUs) does not help"),
        )),
        Some(threads) if threads > connections => Err(Failure::invalid(
            "--threads",
            "count",
            threads,
            format!("at most {connections}, the number of connections; every thread needs one"),
        )),
        Some(threads) => Ok(threads),
        // The other half is for the server, which usually runs on the same machine.
        None => Ok((cores / 2).clamp(1, connections)),
    }
}

/// Operations in flight on each connection.
pub(super) fn window(load: &LoadArgs, connections: u32) -> Result<u32, Failure> {
    let pipeline = match (load.traffic.pipeline, load.in_flight) {
        (Some(pipeline), _) => pipeline,
        (None, None) => 1,
        (None, Some(in_flight)) if in_flight.is_multiple_of(connections) => in_flight / connections,
        (None, Some(in_flight)) => {
            return Err(Failure::invalid(
                "--in-flight",
                "count",
                in_flight,
                format!("expected a multiple of {connections}, the number of connections"),
            ));
        }
    };
    if pipeline > MOST_PIPELINE || u64::from(pipeline) * u64::from(connections) > MOST_IN_FLIGHT {
        return Err(Failure::usage(format!(
            "{pipeline} operations in flight on each of {connections} connections are too many: the start time of each is kept in memory until its reply arrives.\nUse at most {MOST_PIPELINE} per connection (--pipeline) and {MOST_IN_FLIGHT} in total (--in-flight)."
        )));
    }
    Ok(pipeline)
}

/// Refuses a plan whose data do not fit into the memory of this machine, on the targets that run here. At least
/// `together` operations of a case are made in one call.
pub(super) fn check_memory(
    plan: &Plan,
    together: u64,
    around: &Surroundings,
) -> Result<(), Failure> {
    let here = plan.targets.iter().map(copies_here).sum::<u64>();
    let needed = plan.least_memory(together).saturating_mul(here);
    match around.memory_bytes {
        Some(spare) if needed > spare => Err(too_large(
            needed,
            &format!("this machine has {} to spare", about(spare)),
        )),
        _ => Ok(()),
    }
}

impl Plan {
    /// Refuses a plan whose data do not fit into a server's memory of `bytes`.
    ///
    /// # Errors
    /// A usage error that states both sizes.
    pub(crate) fn check_server_memory(&self, name: &str, bytes: u64) -> Result<(), Failure> {
        let needed = self.least_memory(1);
        if needed > bytes {
            let has = format!("the machine of {name} has {}", about(bytes));
            return Err(too_large(needed, &has));
        }
        Ok(())
    }

    /// Memory of the keys on a target and of the values in transit, in bytes.
    fn least_memory(&self, together: u64) -> u64 {
        let mut spaces: Vec<(&str, u64)> = Vec::new();
        for case in self
            .cases
            .iter()
            .filter(|case| case.workload.load.is_some())
        {
            let bytes = case
                .keys
                .saturating_mul(LEAST_KEY_BYTES + value_bytes(case));
            let space = case.workload.space.as_str();
            match spaces.iter_mut().find(|(name, _)| *name == space) {
                Some((_, most)) => *most = bytes.max(*most),
                None => spaces.push((space, bytes)),
            }
        }
        let on_their_way = |case: &Case| {
            // Written values are sent piece by piece, but values that are read accumulate at the server.
            let replies = case.workload.can_be_verified().then(|| case.in_flight());
            let operations = replies.unwrap_or(1).max(together);
            operations.saturating_mul(value_bytes(case))
        };
        let most = self.cases.iter().map(on_their_way).max().unwrap_or(0);
        let held = spaces.iter().map(|(_, bytes)| *bytes);
        held.fold(most, u64::saturating_add)
    }
}

/// The number of copies of the data on this machine for `target`.
fn copies_here(target: &Target) -> u64 {
    match target {
        // Every master has a replica.
        Target::SpawnCluster(_) => 2,
        // A master and two replicas.
        Target::SpawnSentinel(_) => 3,
        Target::Cluster(_) | Target::Sentinel(_) => 0,
        Target::Server(server) => u64::from(server.is_local()),
        Target::Embedded | Target::Slowed(_) | Target::Spawn(_) | Target::Engine(_) => 1,
    }
}

/// The size of a value of `case` in bytes: the mean, or the minimum if large values are rare.
fn value_bytes(case: &Case) -> u64 {
    if !case.workload.carries_values() {
        return 0;
    }
    match case.value_size {
        ValueSize::Fixed(bytes) | ValueSize::Zipf(bytes, _) => bytes,
        ValueSize::Range(least, most) => least.midpoint(most),
    }
}

fn too_large(needed: u64, has: &str) -> Failure {
    Failure::usage(format!(
        "The keys and the values in transit need at least {} of memory, and {has}.\nUse fewer keys (--keys), smaller values (--value-size), or fewer operations at a time.",
        about(needed)
    ))
}

/// A size of memory in GiB.
fn about(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
