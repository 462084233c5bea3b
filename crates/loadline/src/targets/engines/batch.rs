//! The arguments of a batch.

use loadline_client::{ArgWriter, ToArgs};

/// Keys, each with a value if it is written, in one reusable buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// End of each key and of its value, which is empty if there is none.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of keys and values together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds a key and a value, each appended by a function.
    pub(crate) fn push(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        key(&mut self.bytes);
        let end = self.bytes.len();
        value(&mut self.bytes);
        self.ends.push((end, self.bytes.len()));
    }

    /// Writes `version` over the end of the last value, as far as it fits.
    pub(crate) fn mark(&mut self, version: u64) {
        let Some((begin, end)) = self.ends.last().copied() else {
            return;
        };
        let mark = version.to_le_bytes();
        let bytes = mark.len().min(end - begin);
        self.bytes[end - bytes..].copy_from_slice(&mark[..bytes]);
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.pairs().map(|(key, _)| key)
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        (0..self.ends.len()).map(|place| self.pair(place))
    }

    /// The pair at `place`.
    ///
    /// # Panics
    /// If there are fewer pairs.
    pub(crate) fn pair(&self, place: usize) -> (&[u8], &[u8]) {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (key_end, end) = self.ends[place];
        (&self.bytes[begin..key_end], &self.bytes[key_end..end])
    }
}

/// The keys of a batch as arguments of a command.
#[derive(Debug)]
pub(super) struct Keys<'b>(pub(super) &'b Batch);

impl ToArgs for Keys<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn write_args(&self, out: &mut ArgWriter<'_>) {
        self.0.keys().for_each(|key| out.arg(key));
    }
}

/// Its pairs as arguments of a command.
#[derive(Debug)]
pub(super) struct Pairs<'b>(pub(super) &'b Batch);

impl ToArgs for Pairs<'_> {
    fn count(&self) -> usize {
        2 * self.0.len()
    }

    fn write_args(&self, out: &mut ArgWriter<'_>) {
        for (key, value) in self.0.pairs() {
            out.arg(key);
            out.arg(value);
        }
    }
}
