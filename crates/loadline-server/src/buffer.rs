//! Buffers for requests that are not yet executed and replies that are not yet written.

use loadline_resp::encode::Sink;

/// The capacity that an empty buffer keeps.
const KEPT_BYTES: usize = 64 << 10;

/// A byte queue: appended at the end, consumed from the front.
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

    /// The bytes that fit without a new allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends bytes of a request that ends where the buffer has a length of `whole`, if that is known. The buffer then grows
    /// to that length at most; else it doubles, as with [`append`](Self::append).
    pub(crate) fn append_request(&mut self, bytes: &[u8], whole: Option<usize>) {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity()
            && let Some(whole) = whole.map(|whole| self.used.saturating_add(whole))
            && whole >= needed
        {
            let doubled = needed.max(2 * self.bytes.capacity());
            let room = doubled.min(whole) - self.bytes.len();
            self.bytes.reserve_exact(room);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Consumes `count` bytes. The remainder moves to the front only when it is the smaller part, so each
    /// byte moves about once however small the steps are.
    pub(crate) fn advance(&mut self, count: usize) {
        self.used += count;
        if self.is_empty() {
            self.bytes.clear();
            self.used = 0;
            // The memory of a large request or reply is not kept.
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

/// A part of the replies of a connection, in bytes since its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// The replies of a connection. Because one command can request more data than fits in memory, the size is
/// bounded: when the bound is exceeded, all replies are discarded and the connection must be closed.
#[derive(Debug)]
pub(crate) struct Output {
    replies: Buffer,
    /// Bytes that were consumed from the front since the beginning.
    consumed: u64,
    bound: usize,
    overflowed: bool,
}

impl Output {
    /// Creates an output of at most `bound` bytes.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            replies: Buffer::default(),
            consumed: 0,
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
        self.consumed += count as u64;
    }

    /// The place behind the last reply, in bytes since the beginning.
    pub(crate) fn end(&self) -> u64 {
        self.consumed + self.len() as u64
    }

    /// Bytes that are pending before `place`, which is counted from the beginning.
    pub(crate) fn pending_before(&self, place: u64) -> usize {
        // It is at most the length of the replies.
        place.saturating_sub(self.consumed) as usize
    }

    /// Truncates the output to `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.replies.truncate(len);
    }

    /// Replaces parts that are pending, each with its begin and its end since the beginning, by `bytes`.
    pub(crate) fn replace(&mut self, parts: &[Part], bytes: &[u8]) {
        if self.overflowed {
            return;
        }
        let old = std::mem::take(&mut self.replies);
        let mut at = 0;
        for part in parts {
            let [begin, end] = [part.begin, part.end].map(|place| self.pending_before(place));
            self.put(&old.as_slice()[at..begin]);
            self.put(bytes);
            at = end;
        }
        self.put(&old.as_slice()[at..]);
    }

    /// Sets the most bytes that can be pending.
    pub(crate) fn set_bound(&mut self, bound: usize) {
        if !self.overflowed {
            self.bound = bound;
        }
    }

    /// Whether the bound was exceeded.
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

    #[inline]
    fn put_parts(&mut self, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if self.len() + bytes > self.bound {
            return self.overflow();
        }
        self.replies.bytes.reserve(bytes);
        parts.iter().for_each(|part| self.replies.append(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buffer_is_a_queue(steps in proptest::collection::vec((0..200_000_usize, 0..200_000_usize), 1..20)) {
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
                // The allocation stays below twice the content plus a constant.
                prop_assert!(buffer.bytes.len() <= 2 * model.len() + 2 * KEPT_BYTES);
            }
        }
    }

    #[test]
    fn output_holds_its_bound_and_nothing_beyond_it() {
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
        // Four bytes were consumed before.
        let part = |begin, end| Part { begin, end };
        output.replace(&[part(4, 5), part(7, 9)], b"x");
        assert_eq!(output.as_slice(), b"x56x9");
        assert_eq!((output.end(), output.pending_before(6)), (9, 2));
        output.put(b"012345");
        assert!(output.has_overflowed());
        output.replace(&[part(4, 5)], b"x");
        output.put(b"0");
        output.truncate(6);
        assert!(output.as_slice().is_empty());
    }
}
