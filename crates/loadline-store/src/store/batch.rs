//! Writes that happen as one.

use std::time::Duration;

use crate::clock::{millis, now_ms};
use crate::log::op::{Kind, Op};

/// Writes that happen as one: readers see all of them or none, and so does the store after a crash.
///
/// Of several writes of one key the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The writes as the log holds them.
    pub(crate) body: Vec<u8>,
    writes: usize,
    pub(crate) longest_key: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `value` at `key`, without an expiry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.put_until(key, value, None)
    }

    /// Puts `value` at `key` for the time `ttl` from now on.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> &mut Self {
        self.put_until(key, value, Some(now_ms().saturating_add(millis(ttl))))
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.add(Kind::Delete { key })
    }

    /// Number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes == 0
    }

    /// Removes all writes and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.body.clear();
        self.writes = 0;
        self.longest_key = 0;
    }

    /// Puts `value` at `key` until `expires_at`, in milliseconds since the Unix epoch; `None` for no expiry.
    pub fn put_until(&mut self, key: &[u8], value: &[u8], expires_at: Option<u64>) -> &mut Self {
        self.add(Kind::Put {
            key,
            value,
            expires_at,
        })
    }

    fn add(&mut self, kind: Kind<'_>) -> &mut Self {
        let op = Op { database: 0, kind };
        op.encode(&mut self.body);
        self.longest_key = self.longest_key.max(op.key().map_or(0, <[u8]>::len));
        self.writes += 1;
        self
    }
}
