//! Where callers wait, and where their replies are put together.

use std::ops::Range;
use std::task::{Poll, Waker};

use loadline_resp::{Limits, Reply};

use crate::conn::scan::{Scanned, Scanner, decode, first_short};
use crate::{Error, Replies};

/// A buffer up to this size is used again.
const SMALL_BYTES: usize = 4 << 10;
/// Bytes of memory of a slot without its buffer.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>() + size_of::<u32>();

/// Names a slot while a caller waits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

/// A slab of slots, used again and again.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bytes of memory of the replies that wait for their callers.
    ready_bytes: usize,
}

#[derive(Debug, Default)]
struct Slot {
    /// The number of its request in the queue.
    number: u64,
    waker: Option<Waker>,
    /// The bytes of the replies as they came.
    replies: Vec<u8>,
    /// Where the text starts, if the replies are one bulk string and nothing else; otherwise zero.
    text_start: u8,
    /// The reason why no more replies will come. It is boxed since few slots have one.
    fault: Option<Box<Error>>,
    done: bool,
}

impl Slots {
    // With `poll` and `SlotReplies::next`, which the caller's task runs for each request, it saves 30 instructions in line.
    #[inline(always)]
    pub(super) fn take(&mut self, number: u64, waker: &Waker) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 callers wait")
        });
        let slot = &mut self.slots[id as usize];
        slot.number = number;
        slot.waker = Some(waker.clone());
        SlotId(id)
    }

    #[inline(always)]
    pub(super) fn poll(
        &mut self,
        id: SlotId,
        waker: &Waker,
        limits: Limits,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Poll<TakenReplies> {
        let slot = &mut self.slots[id.0 as usize];
        if !slot.done {
            match &mut slot.waker {
                Some(known) if known.will_wake(waker) => {}
                known => *known = Some(waker.clone()),
            }
            return Poll::Pending;
        }
        self.ready_bytes -= slot.replies.capacity();
        let taken = TakenReplies {
            replies: std::mem::replace(&mut slot.replies, spare()),
            text_start: std::mem::take(&mut slot.text_start),
            fault: slot.fault.take(),
            limits,
        };
        // With this the slot is as `clear` leaves it: its waker was taken when it was done, and a spare buffer is empty.
        slot.done = false;
        self.free.push(id.0);
        Poll::Ready(taken)
    }

    /// Makes room for the next caller; the number of the request if it was not answered.
    #[inline]
    pub(super) fn release(&mut self, id: SlotId) -> Option<u64> {
        let slot = &mut self.slots[id.0 as usize];
        let unanswered = (!slot.done).then_some(slot.number);
        if slot.done {
            self.ready_bytes -= slot.replies.capacity();
        }
        self.clear(id);
        unanswered
    }

    /// Empties a slot for the next caller.
    #[inline]
    fn clear(&mut self, id: SlotId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.waker = None;
        slot.done = false;
        slot.fault = None;
        slot.text_start = 0;
        slot.replies.clear();
        if slot.replies.capacity() > SMALL_BYTES {
            slot.replies = Vec::new();
        }
        self.free.push(id.0);
    }

    /// Notes that all replies are there, or will not come, and returns the waker of the caller.
    #[inline]
    pub(super) fn complete(&mut self, id: SlotId, fault: Option<Error>) -> Option<Waker> {
        let slot = &mut self.slots[id.0 as usize];
        slot.done = true;
        self.ready_bytes += slot.replies.capacity();
        slot.fault = fault.map(Box::new);
        slot.waker.take()
    }

    /// Takes the last reply, a bulk string at the start of the bytes with its text at `text`, and returns the
    /// waker of the caller.
    #[inline]
    pub(super) fn complete_by(
        &mut self,
        id: SlotId,
        bytes: &[u8],
        text: &Range<usize>,
    ) -> Option<Waker> {
        let slot = &mut self.slots[id.0 as usize];
        if slot.replies.is_empty() {
            // The header of a short string has less than ten bytes.
            slot.text_start = text.start as u8;
        }
        slot.replies.extend_from_slice(&bytes[..text.end + 2]);
        slot.done = true;
        self.ready_bytes += slot.replies.capacity();
        slot.waker.take()
    }

    /// The request starts over under another number.
    pub(super) fn renumber(&mut self, id: SlotId, number: u64) {
        let slot = &mut self.slots[id.0 as usize];
        slot.number = number;
        slot.replies.clear();
    }

    #[inline]
    pub(super) fn replies(&mut self, id: SlotId) -> &mut Vec<u8> {
        &mut self.slots[id.0 as usize].replies
    }

    /// Frees the memory if no caller waits.
    pub(super) fn shrink(&mut self) {
        if self.free.len() == self.slots.len() {
            *self = Self::default();
        }
    }

    /// The number of slots, in use or not.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory of the replies that wait for their callers.
    #[inline]
    pub(super) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Makes room for one more, in small steps.
    pub(super) fn grow(&mut self) {
        if self.free.is_empty() && self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(step(self.slots.len()));
            self.free.reserve_exact(self.slots.capacity());
        }
    }

    /// Frees unused slots at the end, if most are unused.
    pub(super) fn trim(&mut self) {
        let in_use = |slot: &Slot| slot.done || slot.waker.is_some();
        let len = self
            .slots
            .iter()
            .rposition(in_use)
            .map_or(0, |last| last + 1);
        if self.free.len() > self.slots.len() / 2 && len < self.slots.len() {
            self.slots.truncate(len);
            self.slots.shrink_to_fit();
            self.free.retain(|&id| (id as usize) < len);
            self.free.shrink_to(len);
        }
    }

    pub(super) fn capacity(&self) -> usize {
        let replies: usize = self.slots.iter().map(|slot| slot.replies.capacity()).sum();
        replies + self.own_bytes()
    }

    /// Bytes of memory without the buffers of replies.
    pub(super) fn own_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.free.capacity() * size_of::<u32>()
    }
}

/// By how many elements a list of this length grows.
pub(super) fn step(len: usize) -> usize {
    (len / 16).max(16)
}

/// Replies that were taken out of their slot, to be read without holding up others.
#[derive(Debug)]
pub(crate) struct TakenReplies {
    replies: Vec<u8>,
    text_start: u8,
    fault: Option<Box<Error>>,
    limits: Limits,
}

impl TakenReplies {
    #[inline]
    pub(crate) fn replies(&self) -> SlotReplies<'_> {
        SlotReplies {
            rest: &self.replies,
            text_start: self.text_start,
            fault: self.fault.as_deref(),
            limits: self.limits,
        }
    }

    /// The buffer, empty, if it is small enough to be used again.
    #[inline]
    pub(crate) fn into_spare(self) -> Option<Vec<u8>> {
        let mut spare = self.replies;
        spare.clear();
        (spare.capacity() <= SMALL_BYTES).then_some(spare)
    }
}

/// The replies in a slot, one after the other.
#[derive(Debug)]
pub(crate) struct SlotReplies<'s> {
    rest: &'s [u8],
    /// Where the text starts, if what is left is one bulk string and nothing else; otherwise zero.
    text_start: u8,
    fault: Option<&'s Error>,
    limits: Limits,
}

impl<'s> SlotReplies<'s> {
    /// The next reply, of any kind.
    fn next_of_any_kind(&mut self) -> Result<Reply<'s>, Error> {
        let protocol = |source| Error::Protocol {
            maybe_executed: true,
            source,
        };
        let end = match Scanner::new(self.limits)
            .next(self.rest)
            .map_err(protocol)?
        {
            Scanned::Reply(end) if end > 0 => end,
            // The remainder is empty, or the start of a reply whose end never came.
            _ => {
                return Err(self.fault.cloned().unwrap_or(Error::Usage(
                    "the request reads more replies than it has commands",
                )));
            }
        };
        let (reply, rest) = self.rest.split_at(end);
        self.rest = rest;
        decode(reply, self.limits).map_err(protocol)
    }
}

impl Replies for SlotReplies<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        if self.text_start > 0 {
            let start = usize::from(std::mem::take(&mut self.text_start));
            let string = std::mem::take(&mut self.rest);
            return Ok(Reply::Bulk(&string[start..string.len() - 2]));
        }
        if let Some((reply, end)) = first_short(self.rest) {
            self.rest = &self.rest[end..];
            return Ok(reply);
        }
        self.next_of_any_kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(slots: &mut Slots, id: SlotId, count: usize) -> Vec<Result<Vec<u8>, String>> {
        let polled = slots.poll(id, Waker::noop(), Limits::default(), Vec::new);
        let Poll::Ready(taken) = polled else {
            panic!("the replies are there")
        };
        let mut replies = taken.replies();
        let mut next = || match replies.next() {
            Ok(reply) => Ok(reply.as_bytes().unwrap().to_vec()),
            Err(error) => Err(error.to_string()),
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn complete_string_is_read_once_after_any_reply() {
        let mut slots = Slots::default();
        for before in [&b""[..], b"$1\r\na\r\n", b"+OK\r\n$2\r\nhi\r\n"] {
            let id = slots.take(7, Waker::noop());
            slots.replies(id).extend_from_slice(before);
            let woken = slots.complete_by(id, b"$3\r\nend\r\n$4\r\nnext\r\n", &(4..7));
            assert!(woken.is_some());
            let count = before.split(|&byte| byte == b'\n').count() / 2 + 1;
            let mut read = texts(&mut slots, id, count + 1);
            let more = read.pop().unwrap().unwrap_err();
            assert!(more.contains("more replies than"), "{more}");
            assert_eq!(read.pop(), Some(Ok(b"end".to_vec())));
        }
        // The same slot holds something else now.
        let id = slots.take(8, Waker::noop());
        slots.replies(id).extend_from_slice(b"+OK\r\n");
        assert!(slots.complete(id, None).is_some());
        assert_eq!(texts(&mut slots, id, 1), [Ok(b"OK".to_vec())]);
    }
}
