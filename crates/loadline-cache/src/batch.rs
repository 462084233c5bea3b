//! Writes that happen as one.

use std::time::Duration;

/// A write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write<'b> {
    Put {
        key: &'b [u8],
        value: &'b [u8],
        ttl: Option<Duration>,
    },
    Delete {
        key: &'b [u8],
    },
}

impl<'b> Write<'b> {
    pub(crate) fn key(&self) -> &'b [u8] {
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
    /// The keys and the values, in the order of the writes.
    bytes: Vec<u8>,
    writes: Vec<Extent>,
}

/// A write in the bytes of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    key_end: usize,
    end: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put(Option<Duration>),
    Delete,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `value` at `key`, without an expiry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.put_copy(key, value, None)
    }

    /// Puts `value` at `key` for the time `ttl` from when the batch is applied.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> &mut Self {
        self.put_copy(key, value, Some(ttl))
    }

    /// Puts a value at a key, for the time `ttl` if there is one. `key` and `value` append them to the bytes of the batch, and
    /// must not change those that are there.
    pub fn put_with(
        &mut self,
        ttl: Option<Duration>,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        key(&mut self.bytes);
        let key_end = self.bytes.len();
        value(&mut self.bytes);
        self.add(key_end, Kind::Put(ttl))
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(key);
        self.add(self.bytes.len(), Kind::Delete)
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

    /// Bytes of the keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all writes and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.writes.clear();
    }

    /// The keys in the order of their writes, each with its value, or with `None` if it is removed.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.writes().map(|write| match write {
            Write::Put { key, value, .. } => (key, Some(value)),
            Write::Delete { key } => (key, None),
        })
    }

    pub(crate) fn writes(&self) -> impl ExactSizeIterator<Item = Write<'_>> + Clone {
        let mut begin = 0;
        self.writes.iter().map(move |extent| {
            let key = &self.bytes[begin..extent.key_end];
            let value = &self.bytes[extent.key_end..extent.end];
            begin = extent.end;
            match extent.kind {
                Kind::Put(ttl) => Write::Put { key, value, ttl },
                Kind::Delete => Write::Delete { key },
            }
        })
    }

    fn put_copy(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> &mut Self {
        self.put_with(
            ttl,
            |out| out.extend_from_slice(key),
            |out| out.extend_from_slice(value),
        )
    }

    fn add(&mut self, key_end: usize, kind: Kind) -> &mut Self {
        self.writes.push(Extent {
            key_end,
            end: self.bytes.len(),
            kind,
        });
        self
    }
}
