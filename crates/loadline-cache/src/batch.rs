//! Writes that happen as one.

use std::time::Duration;

/// A write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        ttl: Option<Duration>,
    },
    Delete {
        key: Vec<u8>,
    },
}

impl Write {
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Writes that happen as one: others see all of them or none.
///
/// On a cluster their keys have to be in one slot, which a common hash tag ensures: of `{order:7}:state` only
/// `order:7` decides on the slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

    /// Puts `value` at `key` for the time `ttl` from when the batch is applied.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> &mut Self {
        self.write_put(key, value, Some(ttl))
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

    fn write_put(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> &mut Self {
        self.writes.push(Write::Put {
            key: key.to_vec(),
            value: value.to_vec(),
            ttl,
        });
        self
    }

    /// The same for a store of this process.
    pub(crate) fn to_store(&self) -> loadline_store::Batch {
        let mut batch = loadline_store::Batch::new();
        for write in &self.writes {
            match write {
                Write::Put { key, value, ttl } => match ttl {
                    Some(ttl) => batch.put_for(key, value, *ttl),
                    None => batch.put(key, value),
                },
                Write::Delete { key } => batch.delete(key),
            };
        }
        batch
    }
}
