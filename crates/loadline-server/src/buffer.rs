//! Bytes that wait: requests that are not executed yet, and replies that are not written yet.

use loadline_resp::encode::Sink;

/// What a buffer keeps of its memory when it is empty.
const KEPT_BYTES: usize = 64 << 10;

/// Bytes that are appended at the end and used up from the front.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    used: usize,
}

impl Buffer {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.used
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it could hold in the memory that it has.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Consumes a number of bytes. The remainder moves to the front only when it is the smaller part, so
    /// that a byte is moved about once, however small the steps are.
    pub(crate) fn advance(&mut self, count: usize) {
        self.used += count;
        if self.is_empty() {
            self.bytes.clear();
            self.used = 0;
            // A large request or reply is no reason to keep its memory.
            self.bytes.shrink_to(KEPT_BYTES);
        } else if self.used > KEPT_BYTES && self.used > self.bytes.len() / 2 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
    }

    fn truncate(&mut self, len: usize) {
        self.bytes.truncate(self.used + len);
    }
}

/// The replies of a connection. One command may ask for more than there is memory, so there is a bound:
/// beyond it, everything is thrown away and the connection has to be closed.
#[derive(Debug)]
pub(crate) struct Output {
    replies: Buffer,
    bound: usize,
    overflowed: bool,
}

impl Output {
    /// An output of at most `bound` bytes.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            replies: Buffer::default(),
            bound,
            overflowed: false,
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.replies.as_slice()
    }

    pub(crate) fn len(&self) -> usize {
        self.replies.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.replies.capacity()
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.replies.advance(count);
    }

    /// Takes back what was put since it had `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.replies.truncate(len);
    }

    /// Whether there was more than the bound.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    #[cold]
    fn overflow(&mut self) {
        self.overflowed = true;
        self.bound = 0;
        self.replies = Buffer::default();
    }
}

impl Sink for Output {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.len() + bytes.len() > self.bound {
            return self.overflow();
        }
        self.replies.append(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_buffer_is_a_queue(steps in proptest::collection::vec((0..200_000_usize, 0..200_000_usize), 1..20)) {
            let mut buffer = Buffer::default();
            let mut model = Vec::new();
            for (count, used) in steps {
                let bytes: Vec<u8> = (0..count).map(|n| (n / 251 + n) as u8).collect();
                buffer.append(&bytes);
                model.extend_from_slice(&bytes);
                let used = used.min(model.len());
                buffer.advance(used);
                model.drain(..used);
                prop_assert!(buffer.as_slice() == model && buffer.len() == model.len());
                // It never holds more than twice what waits, and a little.
                prop_assert!(buffer.bytes.len() <= 2 * model.len() + 2 * KEPT_BYTES);
            }
        }
    }

    #[test]
    fn an_output_holds_its_bound_and_nothing_beyond_it() {
        let mut output = Output::new(10);
        output.put(b"0123456789");
        output.advance(4);
        output.put(b"0123");
        assert_eq!(
            (output.as_slice(), output.has_overflowed()),
            (&b"4567890123"[..], false)
        );
        output.truncate(6);
        assert_eq!(output.as_slice(), b"456789");
        output.put(b"01234");
        assert!(output.has_overflowed());
        output.put(b"0");
        output.truncate(6);
        assert!(output.as_slice().is_empty());
    }
}
