//! Writes that happen as one.

use std::time::Duration;

use crate::clock::{millis, now_ms};

/// A write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        expires_at: Option<u64>,
    },
    Delete {
        key: Vec<u8>,
    },
}

/// Writes that happen as one: readers see all of them or none, and so does the store after a crash.
///
/// Of several writes of one key the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub(crate) writes: Vec<Write>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `value` at `key`, without an expiry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.write_put(key, value, None)
    }

    /// Puts `value` at `key` for the time `ttl` from now on.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> &mut Self {
        self.write_put(key, value, Some(now_ms().saturating_add(millis(ttl))))
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.writes.push(Write::Delete { key: key.to_vec() });
        self
    }

    /// Number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Removes all writes and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.writes.clear();
    }

    fn write_put(&mut self, key: &[u8], value: &[u8], expires_at: Option<u64>) -> &mut Self {
        self.writes.push(Write::Put {
            key: key.to_vec(),
            value: value.to_vec(),
            expires_at,
        });
        self
    }
}
