//! The engines that a cache can have as a tier: LMDB, redb, fjall and RocksDB.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use loadline_cache::Error;
use loadline_cache::engines::Engine;

use super::{Batch, Handle, Open};
use crate::target::Durability;

/// Opens an engine in `dir` by `open`.
///
/// # Errors
/// The error of the engine.
pub(super) fn open<E: Engine>(
    dir: &Path,
    durability: Durability,
    open: impl FnOnce(&Path, loadline_store::Durability) -> Result<E, Error>,
) -> anyhow::Result<Box<dyn Open>> {
    let durability = match durability {
        Durability::Memory | Durability::Process => loadline_store::Durability::Process,
        Durability::Interval(interval) => loadline_store::Durability::Interval(interval),
        Durability::Always => loadline_store::Durability::Always,
    };
    Ok(Box::new(Embedded(Arc::new(open(dir, durability)?))))
}

/// An engine that all threads share.
#[derive(Debug)]
struct Embedded<E>(Arc<E>);

impl<E: Engine> Open for Embedded<E> {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }

    fn version(&self) -> Option<String> {
        self.0.version()
    }
}

impl<E: Engine> Handle for Embedded<E> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let mut is_there = false;
        self.0.read(std::iter::once(key), |value| {
            if let Some(value) = value {
                out.extend_from_slice(value);
                is_there = true;
            }
        })?;
        Ok(is_there)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write_one(key, Some(value))?)
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write_one(key, None)?)
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut found = 0;
        self.0.read(keys.keys(), |value| {
            if let Some(value) = value {
                out.extend_from_slice(value);
                found += 1;
            }
        })?;
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        let writes = pairs.pairs().map(|(key, value)| (key, Some(value)));
        Ok(self.0.write(writes)?)
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        Ok(self.0.write(keys.keys().map(|key| (key, None)))?)
    }

    fn scan(&mut self, from: &[u8], count: usize, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut found = 0;
        for from in [from, &[]] {
            if found == count {
                break;
            }
            self.0.walk(from, |_, value| {
                out.extend_from_slice(value);
                found += 1;
                match found == count {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
        }
        Ok(found)
    }
}
