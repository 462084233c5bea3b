//! The bytes that were received and not read yet.

use std::ops::Range;

use loadline_resp::{Error, Limits, Reply};

use crate::conn::scan::{Scanned, Scanner, decode};

/// Room for the replies of a quiet connection.
const FIRST_BYTES: usize = 4 << 10;
/// Room for those of a busy one: what one read can bring.
const BUSY_BYTES: usize = 64 << 10;
/// Above this the room is given back once it is empty.
const KEPT_BYTES: usize = 1 << 20;

/// A receive buffer in which replies are found and read in place.
#[derive(Debug)]
pub(super) struct Input {
    buf: Vec<u8>,
    /// Where the first reply that was not taken starts.
    start: usize,
    /// The message from which on messages that were taken stay, if any does.
    held: Option<Range<usize>>,
    /// Position up to which the scanner has come.
    scanned: usize,
    /// Where received bytes end.
    end: usize,
    scanner: Scanner,
    limits: Limits,
    /// Whether the last read filled all the room there was.
    filled: bool,
}

/// The place of a complete message in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Reply(Range<usize>),
    Push(Range<usize>),
}

impl Input {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            buf: Vec::new(),
            start: 0,
            held: None,
            scanned: 0,
            end: 0,
            scanner: Scanner::new(limits),
            limits,
            filled: false,
        }
    }

    /// Forgets all bytes, for a new connection.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Takes the next message if it is complete; its bytes stay in place until the next call of
    /// [`Input::room`].
    // See `Connection::write_out`.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<Message>, Error> {
        if self.scanned == self.end {
            return Ok(None);
        }
        let (used, push) = match self.scanner.next(&self.buf[self.scanned..self.end])? {
            Scanned::Partial => {
                self.scanned = self.end;
                return Ok(None);
            }
            Scanned::Reply(used) => (used, false),
            Scanned::Push(used) => (used, true),
        };
        self.scanned += used;
        let message = self.start..self.scanned;
        self.start = self.scanned;
        Ok(Some(if push {
            Message::Push(message)
        } else {
            Message::Reply(message)
        }))
    }

    /// Takes the next message if it is a bulk string which is complete and short. Returns the place of its text,
    /// which [`Input::text`] lends.
    #[inline(always)]
    pub(super) fn next_bulk(&mut self) -> Option<Range<usize>> {
        let from = self.scanned;
        let text = self.scanner.next_bulk(&self.buf[from..self.end])?;
        self.scanned = from + text.end + 2;
        self.start = self.scanned;
        Some(from + text.start..from + text.end)
    }

    /// The text that [`Input::next_bulk`] found.
    #[inline]
    pub(super) fn text(&self, text: Range<usize>) -> &[u8] {
        &self.buf[text]
    }

    /// The value of a reply that [`Input::next`] found.
    #[inline]
    pub(super) fn read(&self, message: Range<usize>) -> Result<Reply<'_>, Error> {
        decode(&self.buf[message], self.limits)
    }

    /// Room for more bytes; it moves those of messages that were taken out of the way. The memory is never
    /// more than about twice what was received.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end && self.held.is_none() {
            (self.start, self.scanned, self.end) = (0, 0, 0);
            if self.buf.len() > KEPT_BYTES {
                self.buf = Vec::new();
            }
        }
        if self.end == self.buf.len() || self.filled {
            self.make_room();
        }
        &mut self.buf[self.end..]
    }

    /// Makes the buffer larger, or moves its messages to the front.
    #[cold]
    fn make_room(&mut self) {
        let kept = self.held.as_ref().map_or(self.start, |held| held.start);
        let len = self.buf.len();
        if self.filled && len < BUSY_BYTES {
            self.buf.resize((2 * len).max(FIRST_BYTES), 0);
        } else if self.end == len {
            if kept > len / 2 {
                self.buf.copy_within(kept.., 0);
                self.scanned -= kept;
                self.end -= kept;
                self.start -= kept;
                if let Some(held) = &mut self.held {
                    *held = 0..held.len();
                }
            } else {
                self.buf.resize((2 * len).max(FIRST_BYTES), 0);
            }
        }
    }

    /// Keeps `message`, which was just taken, and those behind it until [`Input::release`] or [`Input::rewind`].
    pub(super) fn hold(&mut self, message: Range<usize>) {
        self.held = Some(message);
    }

    /// Lets go of what was kept.
    pub(super) fn release(&mut self) {
        self.held = None;
    }

    /// Gives back what was taken after the message that was kept, to be taken again. Returns the place of that
    /// message.
    pub(super) fn rewind(&mut self) -> Range<usize> {
        let held = self.held.take().unwrap_or(self.start..self.start);
        self.start = held.end;
        self.scanned = held.end;
        self.scanner = Scanner::new(self.limits);
        held
    }

    /// Notes that `bytes` bytes were put into the room.
    #[inline]
    pub(super) fn received(&mut self, bytes: usize) {
        self.end += bytes;
        self.filled = self.end == self.buf.len();
    }

    /// The first byte that waits to be taken.
    #[inline]
    pub(super) fn first(&self) -> Option<u8> {
        self.buf[self.start..self.end].first().copied()
    }

    /// Whether no byte waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.buf.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(input: &mut Input, bytes: &[u8]) {
        let room = input.room();
        assert!(room.len() >= bytes.len());
        room[..bytes.len()].copy_from_slice(bytes);
        input.received(bytes.len());
    }

    #[test]
    fn replies_are_read_in_place_across_pieces() {
        let mut input = Input::new(Limits::default());
        give(&mut input, b"+OK\r\n$5\r\nhe");
        let Some(Message::Reply(ok)) = input.next().unwrap() else {
            panic!("the first reply is complete")
        };
        assert_eq!(input.read(ok).unwrap(), Reply::Simple(b"OK"));
        assert_eq!(input.next().unwrap(), None);
        give(&mut input, b"llo\r\n>1\r\n+x\r\n");
        let Some(Message::Reply(hello)) = input.next().unwrap() else {
            panic!("the second reply is complete")
        };
        assert_eq!(input.read(hello).unwrap(), Reply::Bulk(b"hello"));
        assert!(matches!(input.next().unwrap(), Some(Message::Push(_))));
        assert_eq!(input.next().unwrap(), None);
    }

    #[test]
    fn bulk_strings_are_taken_on_their_own_where_they_are_whole() {
        let mut input = Input::new(Limits::default());
        assert_eq!(input.next_bulk(), None);
        give(&mut input, b"$2\r\nhi\r\n+OK\r\n$5\r\nhe");
        let text = input.next_bulk().expect("a string is there");
        assert_eq!(input.text(text), b"hi");
        assert_eq!(input.next_bulk(), None);
        assert!(matches!(input.next().unwrap(), Some(Message::Reply(_))));
        assert_eq!(input.next_bulk(), None);
        // A part that the scanner has seen is not looked at again.
        assert_eq!(input.next().unwrap(), None);
        give(&mut input, b"llo\r\n$1\r\nx\r\n");
        assert_eq!(input.next_bulk(), None);
        let Some(Message::Reply(hello)) = input.next().unwrap() else {
            panic!("the string is complete")
        };
        assert_eq!(input.read(hello).unwrap(), Reply::Bulk(b"hello"));
        let text = input.next_bulk().expect("another string is there");
        assert_eq!(input.text(text), b"x");
    }

    #[test]
    fn messages_that_are_held_can_be_taken_again() {
        let mut input = Input::new(Limits::default());
        give(&mut input, b"+before\r\n+one\r\n");
        assert!(input.next().unwrap().is_some());
        let Some(Message::Reply(one)) = input.next().unwrap() else {
            panic!("a reply is there")
        };
        input.hold(one);
        for byte in 0..3_000 {
            for piece in format!("+{byte:04}\r\n").as_bytes().chunks(1) {
                give(&mut input, piece);
            }
            assert!(input.next().unwrap().is_some());
        }
        // A part of a message has been scanned.
        for piece in b"+la".chunks(1) {
            give(&mut input, piece);
        }
        assert_eq!(input.next().unwrap(), None);
        let one = input.rewind();
        assert_eq!(input.read(one).unwrap(), Reply::Simple(b"one"));
        for piece in b"st\r\n".chunks(1) {
            give(&mut input, piece);
        }
        for text in (0..3_000)
            .map(|byte| format!("{byte:04}"))
            .chain(["last".into()])
        {
            let Some(Message::Reply(reply)) = input.next().unwrap() else {
                panic!("a reply is there again")
            };
            assert_eq!(input.read(reply).unwrap(), Reply::Simple(text.as_bytes()));
        }
        assert_eq!(input.next().unwrap(), None);
    }

    #[test]
    fn memory_follows_what_was_received_and_is_given_back() {
        let mut input = Input::new(Limits::default());
        give(&mut input, b"$3000000\r\n");
        assert_eq!(input.next().unwrap(), None);
        assert!(
            input.capacity() <= FIRST_BYTES,
            "nothing is reserved for what is announced"
        );
        let mut left = 3_000_002;
        while left > 0 {
            let room = input.room().len().min(left);
            let bytes = if room == left {
                [vec![b'x'; room - 2], b"\r\n".to_vec()].concat()
            } else {
                vec![b'x'; room]
            };
            give(&mut input, &bytes);
            left -= room;
            if left > 0 {
                assert_eq!(input.next().unwrap(), None);
            }
        }
        let Some(Message::Reply(large)) = input.next().unwrap() else {
            panic!("the reply is complete")
        };
        assert_eq!(
            input.read(large).unwrap().as_bytes().unwrap().len(),
            3_000_000
        );
        assert!(input.capacity() <= 8 << 20);
        input.room();
        assert!(input.capacity() <= BUSY_BYTES);
    }
}
