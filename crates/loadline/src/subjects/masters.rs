//! The masters of a cluster, sharing the load of a case over the wire.
//!
//! The load generator writes its commands beforehand and looks at no key while it runs, so it cannot
//! send each key where it belongs. Instead every connection belongs to one master, and all keys of that
//! connection carry a hash tag whose slot that master serves. Each master has an equal part of the keys
//! and of the operations.

use loadline_client::blocking;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::{Control, Error};

use super::cluster::ClusterAccess;
use super::wire::{self, Place, WireSubject};
use crate::exit::Failure;
use crate::plan::Case;

/// Numbers that are tried as hash tags; every slot has one among them.
const TAGS: u32 = 1_000_000;

/// A hash tag for each master, whose slot it serves; all of one length, so that an operation has as many
/// bytes on every master.
pub(super) fn tags(cluster: &blocking::Cluster) -> Vec<String> {
    let mut wanted = cluster.masters();
    let mut tags = Vec::with_capacity(wanted.len());
    let mut candidates = (0..TAGS).map(tag);
    while !wanted.is_empty() {
        let tag = candidates
            .next()
            .expect("a master serves a slot, and every slot has a tag");
        let owner = cluster.master_of(&tag);
        let place = wanted.iter().position(|one| Some(one) == owner.as_ref());
        if let Some(place) = place {
            wanted.swap_remove(place);
            tags.push(tag);
        }
    }
    tags
}

fn tag(number: u32) -> String {
    format!("{number:06}")
}

/// One case on all masters.
pub(super) struct ClusterSubject<'t> {
    access: &'t ClusterAccess,
    case: &'t Case,
    prefix: String,
    seed: u64,
    subject: WireSubject<'t>,
    /// Whether a server said in the last block that a slot is served elsewhere.
    has_moved: bool,
}

impl<'t> ClusterSubject<'t> {
    /// Opens the connections of `case` to every master.
    ///
    /// # Errors
    /// That a connection cannot be opened, or that there are fewer of them than masters.
    pub(super) fn open(
        access: &'t ClusterAccess,
        case: &'t Case,
        prefix: String,
        seed: u64,
    ) -> Result<Self, Failure> {
        let places = access.places(&access.cluster, case, &prefix)?;
        Ok(Self {
            subject: WireSubject::open(&access.name, &places, case, seed)?,
            access,
            case,
            prefix,
            seed,
            has_moved: false,
        })
    }

    /// Asks who serves the slots now, and connects to those. The keys went with their slots.
    fn follow(&mut self) -> Result<(), Failure> {
        let cluster = self.access.look_again()?;
        let places = self.access.places(&cluster, self.case, &self.prefix)?;
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

/// Brings the keys of `case` in on every master, past all links; the outcome is that of the master that
/// refused one, where one did.
///
/// # Errors
/// That a connection cannot be opened or all are lost.
pub(super) fn load(
    access: &ClusterAccess,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<Option<Outcome>, Error> {
    let places = access.places(&access.cluster, case, prefix);
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

impl ClusterAccess {
    /// Where the parts of `case` are, by what `cluster` knows: a place for each hash tag.
    fn places(
        &self,
        cluster: &blocking::Cluster,
        case: &Case,
        prefix: &str,
    ) -> Result<Vec<Place>, Failure> {
        let keys = case.keys.div_ceil(self.tags.len() as u64);
        let place = |tag: &String| {
            let master = cluster.master_of(tag).ok_or_else(|| {
                Failure::unavailable(format!(
                    "{}: nobody serves the slot of {{{tag}}}.\nSee `redis-cli --cluster check`.",
                    self.name
                ))
            })?;
            let (direct, through) = self.endpoints(&master);
            Ok(Place {
                through,
                direct,
                prefix: format!("{prefix}{{{tag}}}:"),
                keys,
            })
        };
        self.tags.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use loadline_client::cluster::{SLOTS, slot_of};

    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        let mut missing = vec![true; SLOTS.into()];
        for number in 0..TAGS {
            missing[usize::from(slot_of(tag(number).as_bytes()))] = false;
        }
        assert_eq!(missing.iter().filter(|slot| **slot).count(), 0);
        let key = |tag: &str| format!("loadline:run:strings:{{{tag}}}:0001");
        assert_eq!(slot_of(key("000042").as_bytes()), slot_of(b"000042"));
    }
}
