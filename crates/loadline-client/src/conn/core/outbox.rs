//! The bytes of requests, from their encoding until their replies.
//!
//! They are kept until they are answered, since a request may have to be sent again. No byte is copied on
//! the way: what callers wrote is taken out whole, written, and set aside.

use std::collections::VecDeque;

/// A buffer larger than this is not used again.
const KEPT_BYTES: usize = 256 << 10;
/// Requests that wait are kept in buffers of about this size, so that none has to grow to the size of the queue.
const CHUNK_BYTES: usize = if cfg!(test) { 64 } else { 256 << 10 };
/// Emptied buffers that are kept for use again.
const KEPT_SPARES: usize = 4;

/// All outgoing bytes of a connection. Positions count the bytes of requests from the start of the
/// connection on.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Of the handshake.
    pub(super) greeting: Vec<u8>,
    /// Of requests that were not taken out yet, in front of those in `pending`. None is empty, or has room to spare.
    waiting: VecDeque<Vec<u8>>,
    /// The bytes in `waiting`.
    waiting_bytes: usize,
    /// Of requests that were not taken out yet.
    pub(super) pending: Vec<u8>,
    /// Number of bytes of requests that are gone, at the start of `waiting`, or of `pending` if there are none.
    gone: usize,
    /// Taken out, but not written completely.
    partial: Option<Outgoing>,
    /// Written, and not answered completely.
    sent: VecDeque<Sent>,
    spares: Vec<Vec<u8>>,
    taken: u64,
    written: u64,
    answered: u64,
}

/// Bytes that the driver writes.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    from: usize,
    greeting: bool,
}

impl Outgoing {
    /// The bytes that are left to write.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

#[derive(Debug)]
struct Sent {
    bytes: Vec<u8>,
    /// Where the first request starts in `bytes`.
    from: usize,
    /// The position after the last byte.
    end: u64,
}

impl Outbox {
    pub(super) fn has_requests(&self) -> bool {
        self.is_within_request() || self.has_untaken()
    }

    /// Whether there are requests of which nothing was taken out.
    fn has_untaken(&self) -> bool {
        self.pending.len() + self.waiting_bytes > self.gone
    }

    /// Whether bytes were taken out and not written completely.
    pub(super) fn is_within_request(&self) -> bool {
        self.partial.is_some()
    }

    /// Whether any request on this connection was answered.
    pub(super) fn has_answers(&self) -> bool {
        self.answered > 0
    }

    /// Bytes of requests that are not answered.
    #[inline]
    pub(super) fn unanswered(&self) -> u64 {
        let untaken = self.pending.len() + self.waiting_bytes - self.gone;
        self.taken - self.answered + untaken as u64
    }

    /// Bytes that were taken out of requests that are not answered.
    pub(super) fn taken_unanswered(&self) -> u64 {
        self.taken - self.answered
    }

    /// Bytes that the operating system took of requests that are not answered.
    #[inline]
    pub(super) fn written_unanswered(&self) -> usize {
        usize::try_from(self.written - self.answered).expect("what is in memory has a size")
    }

    pub(super) fn take_greeting(&mut self) -> Option<Outgoing> {
        if self.greeting.is_empty() {
            return None;
        }
        Some(Outgoing {
            bytes: std::mem::take(&mut self.greeting),
            from: 0,
            greeting: true,
        })
    }

    /// The rest of what was taken out before.
    pub(super) fn take_partial(&mut self) -> Option<Outgoing> {
        self.partial.take()
    }

    pub(super) fn take_requests(&mut self) -> Option<Outgoing> {
        if let Some(partial) = self.take_partial() {
            return Some(partial);
        }
        if !self.has_untaken() {
            return None;
        }
        let bytes = match self.waiting.pop_front() {
            None => {
                let spare = self.spares.pop().unwrap_or_default();
                std::mem::replace(&mut self.pending, spare)
            }
            Some(bytes) => {
                self.waiting_bytes -= bytes.len();
                bytes
            }
        };
        let from = std::mem::take(&mut self.gone);
        self.taken += (bytes.len() - from) as u64;
        self.sent.push_back(Sent {
            bytes: Vec::new(),
            from,
            end: self.taken,
        });
        Some(Outgoing {
            bytes,
            from,
            greeting: false,
        })
    }

    pub(super) fn wrote(&mut self, mut outgoing: Outgoing, bytes: usize) {
        outgoing.from += bytes;
        let rest = outgoing.from < outgoing.bytes.len();
        if outgoing.greeting {
            if rest {
                let mut unwritten = outgoing.bytes.split_off(outgoing.from);
                unwritten.append(&mut self.greeting);
                self.greeting = unwritten;
            }
            return;
        }
        self.written += bytes as u64;
        if rest {
            self.partial = Some(outgoing);
        } else if let Some(sent) = self.sent.back_mut() {
            sent.bytes = outgoing.bytes;
        }
    }

    /// The first bytes of what is written and not answered: those of the oldest request.
    pub(super) fn oldest(&self, len: usize) -> &[u8] {
        let holds = |sent: &&Sent| sent.end > self.answered;
        let Some(sent) = self.sent.iter().find(holds) else {
            return &[];
        };
        // While a buffer is being written, its bytes are in `partial`.
        let bytes = match &self.partial {
            Some(partial) if sent.bytes.is_empty() => &partial.bytes,
            _ => &sent.bytes,
        };
        let start = sent.end - (bytes.len() - sent.from) as u64;
        let skip = usize::try_from(self.answered.saturating_sub(start));
        let from = sent.from + skip.expect("what is in memory has a size");
        bytes.get(from..from + len).unwrap_or_default()
    }

    /// Notes that the oldest request, of `bytes` bytes, is answered.
    #[inline]
    pub(super) fn answered(&mut self, bytes: usize) {
        self.answered += bytes as u64;
    }

    /// Begins another buffer if the requests in `pending` are many.
    #[inline]
    pub(super) fn put_aside(&mut self) {
        if self.pending.len() >= CHUNK_BYTES {
            self.put_pending_aside();
        }
    }

    #[cold]
    fn put_pending_aside(&mut self) {
        let mut full = std::mem::take(&mut self.pending);
        full.shrink_to_fit();
        self.waiting_bytes += full.len();
        self.waiting.push_back(full);
    }

    /// Drops the oldest request, of `bytes` bytes, which was not taken out.
    pub(super) fn drop_front(&mut self, bytes: usize) {
        self.gone += bytes;
        if let Some(first) = self.waiting.front() {
            if self.gone == first.len() {
                self.waiting_bytes -= std::mem::take(&mut self.gone);
                self.waiting.pop_front();
            }
        } else if self.gone == self.pending.len()
            || self.gone > KEPT_BYTES && self.gone > self.pending.len() / 2
        {
            // A buffer of which all is gone is never put aside: the next request would not be in the first one.
            self.pending.drain(..self.gone);
            self.gone = 0;
        }
    }

    /// Empties the buffers whose requests are all answered.
    #[inline]
    pub(super) fn forget_answered(&mut self) {
        while let Some(sent) = self.sent.front()
            && sent.end <= self.answered
        {
            let mut bytes = self.sent.pop_front().expect("it was just looked at").bytes;
            if bytes.capacity() <= KEPT_BYTES && self.spares.len() < KEPT_SPARES {
                bytes.clear();
                self.spares.push(bytes);
            }
        }
    }

    /// Takes the bytes of all unanswered requests out; the positions start afresh.
    pub(super) fn take_all(&mut self) -> Taken {
        self.forget_answered();
        if let (Some(partial), Some(sent)) = (self.partial.take(), self.sent.back_mut()) {
            sent.bytes = partial.bytes;
        }
        let mut buffers = VecDeque::with_capacity(self.sent.len() + self.waiting.len() + 1);
        for sent in self.sent.drain(..) {
            // Only the oldest can hold requests that are answered and others that are not.
            let from = sent.from + sent.bytes_before(self.answered);
            buffers.push_back((sent.bytes, from));
        }
        buffers.extend(self.take_untaken().buffers);
        *self = Self {
            spares: std::mem::take(&mut self.spares),
            ..Self::default()
        };
        Taken { buffers }
    }

    /// Takes the bytes of the requests out that were not taken out before.
    pub(super) fn take_untaken(&mut self) -> Taken {
        self.waiting_bytes = 0;
        let mut gone = std::mem::take(&mut self.gone);
        let waiting = self.waiting.drain(..);
        let untaken = waiting.chain([std::mem::take(&mut self.pending)]);
        let buffers = untaken.map(|bytes| (bytes, std::mem::take(&mut gone)));
        Taken {
            buffers: buffers.collect(),
        }
    }

    pub(super) fn shrink(&mut self) {
        self.spares.clear();
        if self.pending.is_empty() {
            self.pending = Vec::new();
        }
    }

    pub(super) fn capacity(&self) -> usize {
        let spares: usize = self.spares.iter().map(Vec::capacity).sum();
        let sent: usize = self.sent.iter().map(|sent| sent.bytes.capacity()).sum();
        let partial = self.partial.as_ref().map_or(0, |out| out.bytes.capacity());
        let kept = self.greeting.capacity() + self.pending.capacity() + self.waiting_bytes;
        kept + partial + spares + sent
    }
}

/// The bytes of requests that were taken out, oldest first. A buffer is freed once its last request was read.
#[derive(Debug)]
pub(super) struct Taken {
    /// The buffers, and where the next request starts in each.
    buffers: VecDeque<(Vec<u8>, usize)>,
}

impl Taken {
    /// The bytes of the next request, which has this length. A request is never in two buffers.
    pub(super) fn next(&mut self, len: usize) -> &[u8] {
        while let Some((bytes, from)) = self.buffers.front()
            && *from == bytes.len()
        {
            self.buffers.pop_front();
        }
        let Some((bytes, from)) = self.buffers.front_mut() else {
            return &[];
        };
        let start = *from;
        *from += len;
        &bytes[start..*from]
    }
}

impl Sent {
    /// Number of its bytes before a position.
    fn bytes_before(&self, position: u64) -> usize {
        let len = (self.bytes.len() - self.from) as u64;
        let start = self.end - len;
        usize::try_from(position.saturating_sub(start)).expect("what is in memory has a size")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_whose_requests_are_all_gone_is_not_put_aside() {
        let mut outbox = Outbox::default();
        let first = vec![b'a'; CHUNK_BYTES];
        let second = vec![b'b'; CHUNK_BYTES];
        outbox.pending.extend_from_slice(&first);
        outbox.drop_front(first.len());
        outbox.put_aside();
        outbox.pending.extend_from_slice(&second);
        outbox.put_aside();
        outbox.drop_front(10);
        assert_eq!(outbox.unanswered(), second.len() as u64 - 10);
        let taken = outbox.take_requests().unwrap();
        assert_eq!(taken.bytes(), &second[10..]);
    }
}
