//! A store of this process.

use std::ops::ControlFlow;
use std::time::Duration;

use loadline_store::Store;

use super::KeyValue;
use crate::requests::PAGE_KEYS;
use crate::{Batch, Error};

#[derive(Debug)]
pub(crate) struct LocalStore {
    store: Store,
}

impl LocalStore {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }
}

impl KeyValue for LocalStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.store.get(key)?)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        Ok(self.store.put(key, value)?)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        Ok(self.store.put_for(key, value, ttl)?)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.store.delete(key)?)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        Ok(self.store.compare_and_swap(key, expected, next)?)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        Ok(self.store.apply(&batch.to_store())?)
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let mut cursor = 0;
        loop {
            let show = |key: &[u8], value: &[u8]| visit(key, value);
            cursor = (self.store).scan(cursor, PAGE_KEYS as usize, prefix, show)?;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    fn scan_keys(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (mut cursor, mut flow) = (0, ControlFlow::Continue(()));
        loop {
            let show = |key: &[u8], _: &[u8]| {
                if flow.is_continue() {
                    flow = visit(key);
                }
            };
            cursor = (self.store).scan(cursor, PAGE_KEYS as usize, prefix, show)?;
            if cursor == 0 || flow.is_break() {
                return Ok(());
            }
        }
    }
}
