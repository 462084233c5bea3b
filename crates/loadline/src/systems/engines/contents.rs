//! The keys and values for measuring memory and disk.

use std::time::Duration;

use loadline_cache::{Batch, Error, KeyValue};
use loadline_load::values::{ValueData, ValueSize, Values};

use super::Names;

/// Keys of a write.
const BATCH: usize = 100;
/// Prefix of the keys.
const PREFIX: &str = "loadline:footprint:";

/// Keys, each with a value derived from it.
#[derive(Debug)]
pub(crate) struct Contents {
    names: Names,
    values: Values,
    /// The values that are overwritten. SQLite leaves out a write that changes nothing.
    older: Values,
}

impl Contents {
    /// # Errors
    /// If values of this size are invalid.
    pub(crate) fn new(keys: u64, size: ValueSize, seed: u64) -> anyhow::Result<Self> {
        Ok(Self {
            names: Names::new(PREFIX, keys),
            older: Values::new(size.clone(), ValueData::Random, !seed)?,
            values: Values::new(size, ValueData::Random, seed)?,
        })
    }

    /// Writes every key twice, the second time another value and in scattered order, and returns the bytes of keys and
    /// values. What is written stays for `ttl`, or without a limit.
    ///
    /// # Errors
    /// The error of the store; the same for all functions here.
    pub(crate) fn write_twice(
        &self,
        store: &dyn KeyValue,
        ttl: Option<Duration>,
    ) -> Result<u64, Error> {
        self.write(store, &self.older, ttl, |place| place)?;
        self.write(store, &self.values, ttl, |place| {
            self.names.scattered(place)
        })
    }

    /// Writes every key once, in order.
    pub(crate) fn write_once(&self, store: &dyn KeyValue) -> Result<u64, Error> {
        self.write(store, &self.values, None, |place| place)
    }

    fn write(
        &self,
        store: &dyn KeyValue,
        values: &Values,
        ttl: Option<Duration>,
        order: impl Fn(u64) -> u64,
    ) -> Result<u64, Error> {
        let mut batch = Batch::new();
        let mut bytes = 0;
        for place in 0..self.names.keys() {
            self.names.put(order(place), values, ttl, &mut batch);
            if batch.len() == BATCH || place + 1 == self.names.keys() {
                bytes += batch.bytes() as u64;
                store.apply(&batch)?;
                batch.clear();
            }
        }
        Ok(bytes)
    }

    /// The key and the value at `place` of a scattered order.
    pub(crate) fn pair(&self, place: u64, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let number = self.names.scattered(place);
        key.clear();
        value.clear();
        self.names.append(number, key);
        self.values.append(number, value);
    }

    /// Counts keys that are missing or have a different value.
    pub(crate) fn missing(&self, store: &dyn KeyValue) -> Result<u64, Error> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut missing = 0;
        for number in 0..self.names.keys() {
            key.clear();
            value.clear();
            self.names.append(number, &mut key);
            let is_there = store.get_into(&key, &mut value)? && self.values.matches(number, &value);
            missing += u64::from(!is_there);
        }
        Ok(missing)
    }
}
