//! The masters of a cluster, sharing the load of a case over the wire.
//!
//! The load generator formats its commands beforehand and does not look at keys while it runs, so it cannot send
//! each key to the right node. Instead, every connection belongs to one master, and all keys of that connection
//! carry a hash tag whose slot that master serves. Each master has an equal part of the keys and of the
//! operations.

use loadline_client::blocking;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::{Control, Error};

use super::wire::{self, LoadServer, WireSubject};
use crate::exit::Failure;
use crate::plan::Case;
use crate::systems::ClusterAccess;

/// One case on all masters.
pub(super) struct ClusterSubject<'t> {
    access: &'t ClusterAccess,
    case: &'t Case,
    prefix: String,
    seed: u64,
    subject: WireSubject<'t>,
    /// Whether a server replied in the last block that a slot has moved.
    has_moved: bool,
}

impl<'t> ClusterSubject<'t> {
    /// Opens the connections of `case` to every master.
    ///
    /// # Errors
    /// If a connection cannot be opened, or there are fewer connections than masters.
    pub(super) fn open(
        access: &'t ClusterAccess,
        case: &'t Case,
        prefix: String,
        seed: u64,
    ) -> Result<Self, Failure> {
        let places = places(access, &access.cluster, case, &prefix)?;
        Ok(Self {
            subject: WireSubject::open(&access.name, &places, case, seed)?,
            access,
            case,
            prefix,
            seed,
            has_moved: false,
        })
    }

    /// Reads the slot map again and reconnects. The keys moved with their slots.
    fn follow(&mut self) -> Result<(), Failure> {
        let cluster = self.access.look_again()?;
        let places = places(self.access, &cluster, self.case, &self.prefix)?;
        self.subject = WireSubject::open(&self.access.name, &places, self.case, self.seed)?;
        Ok(())
    }
}

impl Subject for ClusterSubject<'_> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        if self.has_moved {
            self.follow()
                .map_err(|failure| Error::Subject(Box::new(failure)))?;
        }
        let outcome = self.subject.block(stop, seed, control)?;
        self.has_moved = outcome.errors.iter().any(|(kind, _)| kind == "MOVED");
        Ok(outcome)
    }
}

/// Loads the keys of `case` on every master, without links. The returned outcome is that of the first master that
/// refused a key, otherwise of the last one.
///
/// # Errors
/// If a connection cannot be opened, or all connections are lost.
pub(super) fn load(
    access: &ClusterAccess,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<Option<Outcome>, Error> {
    let places = places(access, &access.cluster, case, prefix);
    let places = places.map_err(|failure| Error::Subject(Box::new(failure)))?;
    let mut loaded = None;
    for place in &places {
        loaded = wire::load(place, case, seed, control)?;
        if loaded
            .as_ref()
            .is_some_and(|outcome| outcome.errors.total() > 0)
        {
            break;
        }
    }
    Ok(loaded)
}

/// The parts of `case` according to the slot map of `cluster`: one for each hash tag.
fn places(
    access: &ClusterAccess,
    cluster: &blocking::Cluster,
    case: &Case,
    prefix: &str,
) -> Result<Vec<LoadServer>, Failure> {
    let keys = case.keys.div_ceil(access.tags.len() as u64);
    let place = |tag: &String| {
        let master = cluster.master_of(tag).ok_or_else(|| {
            Failure::unavailable(format!(
                "{}: no node serves the slot of {{{tag}}}.\nSee `redis-cli --cluster check`.",
                access.name
            ))
        })?;
        let (direct, through) = access.endpoints(&master);
        Ok(LoadServer {
            through,
            direct,
            prefix: format!("{prefix}{{{tag}}}:"),
            keys,
        })
    };
    access.tags.iter().map(place).collect()
}
