//! The keys of a call for several.

use loadline_cache::{Error, KeyValue};

/// Keys in one reusable buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Empty between calls; its memory serves again.
    slices: Vec<&'static [u8]>,
}

impl Keys {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds the key that `append` appends.
    pub(crate) fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The key at `place`.
    ///
    /// # Panics
    /// If there are fewer keys.
    pub(crate) fn key(&self, place: usize) -> &[u8] {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[place]]
    }

    /// Appends the values of all keys to `out`, and returns the number of values. One transaction if the store has
    /// transactions.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) fn read(&mut self, store: &dyn KeyValue, out: &mut Vec<u8>) -> Result<usize, Error> {
        let mut keys: Vec<&[u8]> = std::mem::take(&mut self.slices);
        keys.extend((0..self.len()).map(|place| self.key(place)));
        let mut found = 0;
        let read = store.visit_many(&keys, 0, &mut |value| {
            if let Some(value) = value {
                out.extend_from_slice(value);
                found += 1;
            }
        });
        keys.clear();
        // Collecting an empty vector as one of another lifetime keeps its memory.
        self.slices = keys.into_iter().map(|_| unreachable!()).collect();
        read.map(|()| found)
    }
}
