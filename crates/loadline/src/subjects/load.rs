//! Loads the keys of a run before its blocks.

use loadline_load::Control;

use super::wire::{self, LoadServer};
use super::{calls, engine, failure, masters};
use crate::exit::Failure;
use crate::plan::Case;
use crate::systems::hints::hint;
use crate::systems::{Access, Opened};

/// Loads every key of the case, once per run.
///
/// # Errors
/// If the target refuses a key or the connection is lost.
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
            let place = LoadServer {
                through: server.endpoint.clone(),
                direct: server.endpoint.clone(),
                prefix,
                keys: case.keys,
            };
            wire::load(&place, case, seed, control)
        }
        Access::Cluster(cluster) => masters::load(cluster, case, &prefix, seed, control),
        Access::Engine(engine) if case.durability.is_none() => {
            calls::load(engine, case, &prefix, seed, control)
        }
        Access::Engine(engine) => engine::load(engine, case, &prefix, seed, control).map(|()| None),
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

/// The failure that `count` keys of `case` were refused with errors of `kind`, with advice.
pub(super) fn not_loaded(name: &str, case: &Case, kind: &str, count: u64) -> Failure {
    let advice = hint(kind).unwrap_or("See the server's log for the reason.");
    Failure::unavailable(format!(
        "{name}: {count} of {} keys of {} could not be loaded: {kind}.\n{advice}",
        case.keys, case.name
    ))
}
