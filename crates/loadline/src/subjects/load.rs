//! The keys of a run, brought in before its blocks.

use loadline_load::Control;

use super::wire::{self, Place};
use super::{failure, masters, ram};
use crate::exit::Failure;
use crate::plan::Case;
use crate::targets::{Access, Opened};

/// Brings every key of the case's space in, once per run.
///
/// # Errors
/// That the target refused a key or went away.
pub(crate) fn load(
    target: &mut Opened,
    case: &Case,
    run_id: &str,
    seed: u64,
    control: &Control,
) -> Result<(), Failure> {
    if target.loaded.contains(&case.workload.space) || !target.can(case) {
        return Ok(());
    }
    let prefix = case.prefix(run_id);
    let outcome = match &target.access {
        Access::Server(server) => {
            let place = Place {
                through: server.endpoint.clone(),
                direct: server.endpoint.clone(),
                prefix,
                keys: case.keys,
            };
            wire::load(&place, case, seed, control)
        }
        Access::Cluster(cluster) => masters::load(cluster, case, &prefix, seed, control),
        Access::Ram(store) => ram::load(store, case, &prefix, seed, control),
    };
    let outcome = outcome.map_err(|error| failure(&target.name, &error))?;
    if let Some((kind, count)) = outcome
        .iter()
        .flat_map(|outcome| outcome.errors.iter())
        .next()
    {
        return Err(not_loaded(&target.name, case, kind, count));
    }
    target.loaded.push(case.workload.space.clone());
    Ok(())
}

/// That `count` keys of `case` were refused with errors of `kind`, and what to do about it.
pub(super) fn not_loaded(name: &str, case: &Case, kind: &str, count: u64) -> Failure {
    let advice = match kind {
        "READONLY" => "It is a replica that takes no writes: name its primary.",
        "OOM" => "Its maxmemory is reached: raise it, or lower --keys or --value-size.",
        "CLUSTERDOWN" | "MOVED" | "ASK" => {
            "It is a node of a cluster, or its slots are on the move: `cluster://HOST:PORT` is the whole of one."
        }
        "NOPERM" => "Let its user write keys under `loadline:`, or name another user in the URL.",
        "LOADING" => "It still reads its data set: wait until it is done.",
        "MISCONF" => "It cannot save its data set and takes no writes: see its log.",
        "NOREPLICAS" => "It asks for replicas (min-replicas-to-write) and has too few.",
        _ => "See the server's log for why it refuses them.",
    };
    Failure::unavailable(format!(
        "{name}: {count} of {} keys of {} could not be loaded: {kind}.\n{advice}",
        case.keys, case.name
    ))
}
