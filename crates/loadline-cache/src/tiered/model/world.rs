//! The tier below, and the source.

use std::collections::{HashMap, VecDeque};

use super::super::backlog::Write;
use super::super::failure::Failure;
use super::super::frame::HEADER_BYTES;
use super::super::lower::Written;
use super::{KEYS, Random, version};
use crate::Leased;

/// The tier below, and the source.
pub(super) struct World {
    pub(super) random: Random,
    pub(super) stored: HashMap<Vec<u8>, Vec<u8>>,
    pub(super) leases: HashMap<Vec<u8>, Vec<u8>>,
    /// Writes that were given up by their callers and will still be executed.
    pub(super) late: Vec<(Vec<u8>, Write)>,
    pub(super) is_down: bool,
    pub(super) source: [u64; KEYS],
    /// The version of the last update of each process that has returned.
    pub(super) visible: Vec<[u64; KEYS]>,
    /// The version of the last update of any process that the tier has executed and that has returned.
    pub(super) landed: [u64; KEYS],
    /// Whether the last write was executed at once.
    pub(super) has_executed: bool,
    /// The changes of which processes have not been told yet, if they are at all.
    pub(super) notices: Vec<VecDeque<Vec<u8>>>,
}

/// An update of the source, and then of the tiers.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) key: usize,
    pub(super) version: u64,
    pub(super) may_insert: bool,
    pub(super) has_landed: bool,
}

impl World {
    /// Executes writes, and returns the places of those whose leases have ended.
    fn execute(&mut self, writes: &[(Vec<u8>, Write)]) -> Vec<usize> {
        let mut refused = Vec::new();
        for (place, (key, write)) in writes.iter().enumerate() {
            let lease = self.leases.get(key).map(|token| &token[..]);
            match write {
                Write::Put {
                    token: Some(token), ..
                } if lease != Some(token) => {
                    refused.push(place);
                    continue;
                }
                Write::Put { frame, .. } => self.stored.insert(key.clone(), frame.to_vec()),
                Write::Delete => self.stored.remove(key),
            };
            self.leases.remove(key);
            let notices = self.notices.iter_mut();
            notices.for_each(|notices| notices.push_back(key.clone()));
        }
        self.check();
        refused
    }

    /// Takes leases. Some of them end by themselves, as where the tier evicts them.
    pub(super) fn lease(&mut self, keys: &[&[u8]], token: &[u8]) -> Result<Vec<Leased>, Failure> {
        if self.is_down {
            return Err(match self.random.one_in(2) {
                true => Failure::Refused,
                false => Failure::NotDone,
            });
        }
        self.execute_late();
        for key in keys {
            (self.leases.entry(key.to_vec())).or_insert_with(|| token.to_vec());
            if self.random.one_in(20) {
                self.leases.remove(*key);
            }
        }
        if self.random.one_in(10) {
            return Err(Failure::Unknown);
        }
        let leased = |key: &&[u8]| Leased {
            token: self.leases.get(*key).cloned(),
            value: self.stored.get(*key).cloned(),
        };
        Ok(keys.iter().map(leased).collect())
    }

    /// Panics if the tier has a value from before an update that has landed.
    fn check(&self) {
        for (key, landed) in self.landed.iter().enumerate() {
            let bytes = format!("p:{key}").into_bytes();
            let Some(frame) = self.stored.get(&bytes) else {
                continue;
            };
            let stored = version(&frame[HEADER_BYTES..]);
            assert!(
                stored >= *landed,
                "key {key}: {stored} is stored, but {landed} has landed"
            );
        }
    }

    /// Notes that an update has returned.
    pub(super) fn returned(&mut self, process: usize, change: Change) {
        let Change { key, version, .. } = change;
        let visible = &mut self.visible[process][key];
        *visible = version.max(*visible);
        if change.has_landed {
            self.landed[key] = version.max(self.landed[key]);
        }
    }

    pub(super) fn execute_late(&mut self) {
        let late = std::mem::take(&mut self.late);
        self.execute(&late);
    }

    pub(super) fn read(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        if self.is_down {
            return Err(Failure::NotDone);
        }
        self.execute_late();
        if self.random.one_in(10) {
            return Err(Failure::Unknown);
        }
        let read = |key: &&[u8]| self.stored.get(*key).cloned();
        Ok(keys.iter().map(read).collect())
    }

    pub(super) fn write(&mut self, writes: &[(Vec<u8>, Write)]) -> Written {
        self.has_executed = !self.is_down;
        if self.is_down {
            match self.random.below(4) {
                0 => return Err(Failure::NotDone),
                1 => return Err(Failure::Refused),
                _ => {}
            }
            self.late.extend_from_slice(writes);
            return Err(Failure::Unknown);
        }
        self.execute_late();
        let refused = self.execute(writes);
        match self.random.one_in(10) {
            true => Err(Failure::Unknown),
            false => Ok(refused),
        }
    }
}
