//! The bytes of requests, from their encoding until their replies.
//!
//! They are kept until they are answered, since a request may have to be sent again. No byte is copied on
//! the way: what callers wrote is taken out whole, written, and set aside.

use std::collections::VecDeque;

/// A buffer larger than this is not used again.
const KEPT_BYTES: usize = 256 << 10;
/// Emptied buffers that are kept for use again.
const KEPT_SPARES: usize = 4;

/// All outgoing bytes of a connection. Positions count the bytes of requests from the start of the
/// connection on.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Of the handshake.
    pub(super) greeting: Vec<u8>,
    /// Of requests that were not taken out yet. Those of requests that are gone are at the start.
    pub(super) pending: Vec<u8>,
    /// How many bytes at the start of `pending` are of requests that are gone.
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
    /// What is left to write.
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
        self.is_within_request() || self.pending.len() > self.gone
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
        self.taken - self.answered + (self.pending.len() - self.gone) as u64
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
        if self.pending.len() == self.gone {
            return None;
        }
        let spare = self.spares.pop().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.pending, spare);
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

    /// Drops the oldest request, of `bytes` bytes, which was not taken out.
    pub(super) fn drop_front(&mut self, bytes: usize) {
        self.gone += bytes;
        if self.gone > KEPT_BYTES && self.gone > self.pending.len() / 2 {
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

    /// Takes the bytes of all unanswered requests out, oldest first, as one; the positions start afresh.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        self.forget_answered();
        if let (Some(partial), Some(sent)) = (self.partial.take(), self.sent.back_mut()) {
            sent.bytes = partial.bytes;
        }
        let mut all = Vec::new();
        // Only the oldest can hold requests that are answered and others that are not.
        let mut skip = self
            .sent
            .front()
            .map_or(0, |sent| sent.bytes_before(self.answered));
        for sent in self.sent.drain(..) {
            all.extend_from_slice(&sent.bytes[sent.from + std::mem::take(&mut skip)..]);
        }
        all.extend_from_slice(&self.pending[self.gone..]);
        *self = Self {
            spares: std::mem::take(&mut self.spares),
            ..Self::default()
        };
        all
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
        self.greeting.capacity() + self.pending.capacity() + partial + spares + sent
    }
}

impl Sent {
    /// How many of its bytes are before a position.
    fn bytes_before(&self, position: u64) -> usize {
        let len = (self.bytes.len() - self.from) as u64;
        let start = self.end - len;
        usize::try_from(position.saturating_sub(start)).expect("what is in memory has a size")
    }
}
