//! A store of this process.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Duration;

use loadline_store::{Batch as StoreBatch, Keyspace, Store};

use crate::KeyValue;
use crate::batch::Write;
use crate::requests::PAGE_KEYS;
use crate::{Batch, Error};

thread_local! {
    /// A batch as the store has it, whose memory serves again for the next one of the thread.
    static DRAFT: RefCell<StoreBatch> = RefCell::default();
}

impl KeyValue for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get(key)?)
    }

    fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let copy = |value: Option<&[u8]>| {
            if let Some(value) = value {
                out.extend_from_slice(value);
            }
            value.is_some()
        };
        Ok(self.get_with(key, copy)?)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        Ok(self.get_many(keys)?)
    }

    fn visit_many(
        &self,
        keys: &[&[u8]],
        _: u64,
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        match keys {
            [key] => self.get_with(key, visit)?,
            keys => self.get_many_with(keys.iter().copied(), |_, value| visit(value))?,
        }
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        Ok(self.put(key, value)?)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        Ok(self.put_for(key, value, ttl)?)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.delete(key)?)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        Ok(self.compare_and_swap(key, expected, next)?)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        DRAFT.with_borrow_mut(|draft| {
            draft.clear();
            for write in batch.writes() {
                match write {
                    Write::Put { key, value, ttl } => match ttl {
                        Some(ttl) => draft.put_for(key, value, ttl),
                        None => draft.put(key, value),
                    },
                    Write::Delete { key } => draft.delete(key),
                };
            }
            Ok(self.apply(draft)?)
        })
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let mut cursor = 0;
        loop {
            let show = |key: &[u8], value: &[u8]| visit(key, value);
            cursor = self.scan(cursor, PAGE_KEYS as usize, prefix, show)?;
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
            cursor = self.scan(cursor, PAGE_KEYS as usize, prefix, show)?;
            if cursor == 0 || flow.is_break() {
                return Ok(());
            }
        }
    }

    fn scan_from(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, Error> {
        let place = from.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        let (mut cursor, mut shown) = (place % Keyspace::CURSORS, 0);
        while shown < count {
            cursor = self.scan(cursor, count - shown, b"", |key, value| {
                // A part of the store is shown as a whole.
                if shown < count {
                    visit(key, value);
                    shown += 1;
                }
            })?;
            if cursor == 0 {
                break;
            }
        }
        Ok(shown)
    }
}
