//! What the event loop needs of a connection: a non-blocking byte stream with a descriptor.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A non-blocking byte stream. Errors of kind `WouldBlock` mean "not now".
pub trait Transport: Send {
    /// The descriptor to wait on.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; zero bytes mean that the peer has closed.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits now.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize>;

    /// Whether a read that did not fill its buffer has emptied the stream, so that the next bytes
    /// raise a new edge. True of plain sockets, false where a layer in between buffers.
    fn short_read_drains(&self) -> bool {
        true
    }

    /// Passes on what an earlier write left in a layer in between; `true` when nothing is left.
    ///
    /// # Errors
    /// As of a write.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}

impl Transport for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(self)
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(self, buf)
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Write::write(self, buf)
    }
}

impl Transport for UnixStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(self)
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(self, buf)
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Write::write(self, buf)
    }
}

/// Opens connections that are ready for commands: connected, encrypted, authenticated, greeted, and
/// set to non-blocking.
pub trait Connect: Sync {
    /// Opens one.
    ///
    /// # Errors
    /// What the operating system or the handshake said.
    fn connect(&self) -> io::Result<Box<dyn Transport>>;
}

/// Tells replies apart on one connection.
pub trait Framing: Send {
    /// Takes all of `bytes`, the next bytes of the stream, and counts the replies that end in them.
    ///
    /// # Errors
    /// A sentence saying what is wrong with the stream; the connection is then of no more use.
    fn feed(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), String>;

    /// The first reply in `bytes`, if it is complete: its length and what it says.
    ///
    /// # Errors
    /// As of [`feed`](Self::feed).
    fn first<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, Reply<'b>)>, String>;
}

/// What a reply says, as far as a load generator cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'b> {
    /// A string.
    Payload(&'b [u8]),
    /// Nothing is there.
    Nil,
    /// The target refused; its sentence.
    Error(&'b [u8]),
    /// Anything else.
    Other,
    /// No reply to a command, but a message that the target sent by itself.
    Push,
}

/// Counts of replies by what they said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All replies to commands.
    pub replies: u64,
    /// Replies that said that nothing is there.
    pub nils: u64,
    /// Replies that were errors, by kind (the first word of the sentence).
    pub errors: Errors,
}

/// Errors by kind. Few kinds are expected, so a list is searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    kinds: Vec<(String, u64)>,
}

impl Errors {
    /// Kinds told apart before the rest is counted as `OTHER`: the target is not trusted to be
    /// brief.
    const MOST_KINDS: usize = 32;

    /// Counts one error that said `sentence`; its kind is the first word of it.
    pub fn count(&mut self, sentence: &[u8]) {
        let word = sentence
            .split(|byte| byte.is_ascii_whitespace())
            .next()
            .unwrap_or_default();
        let word = &word[..word.len().min(32)];
        let kind: String = word
            .iter()
            .map(|&byte| {
                if byte.is_ascii_graphic() {
                    byte as char
                } else {
                    '?'
                }
            })
            .collect();
        self.add(&kind, 1);
    }

    /// Counts `count` errors of `kind`.
    pub fn add(&mut self, kind: &str, count: u64) {
        if count == 0 {
            return;
        }
        let kind = if self.kinds.len() >= Self::MOST_KINDS
            && !self.kinds.iter().any(|(name, _)| name == kind)
        {
            "OTHER"
        } else {
            kind
        };
        match self.kinds.iter_mut().find(|(name, _)| name == kind) {
            Some((_, sum)) => *sum += count,
            None => self.kinds.push((kind.to_owned(), count)),
        }
    }

    /// Moves `count` errors from one kind to another.
    pub(crate) fn rename(&mut self, from: &str, to: &str, count: u64) {
        if let Some((_, sum)) = self.kinds.iter_mut().find(|(name, _)| name == from) {
            *sum = sum.saturating_sub(count);
        }
        self.kinds.retain(|(_, sum)| *sum > 0);
        self.add(to, count);
    }

    /// Adds what another counter has seen.
    pub fn merge(&mut self, other: &Self) {
        for (kind, count) in &other.kinds {
            self.add(kind, *count);
        }
    }

    /// How many there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| count).sum()
    }

    /// The kinds with their counts, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.kinds
            .iter()
            .map(|(kind, count)| (kind.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_kind_and_kinds_are_bounded() {
        let mut errors = Errors::default();
        errors.count(b"WRONGTYPE Operation against a key");
        errors.count(b"WRONGTYPE again");
        errors.count(b"ERR \x1b[31m");
        assert_eq!(
            errors.iter().collect::<Vec<_>>(),
            [("WRONGTYPE", 2), ("ERR", 1)]
        );
        for kind in 0..100 {
            errors.count(format!("KIND{kind}").as_bytes());
        }
        assert_eq!(errors.total(), 103);
        assert_eq!(errors.iter().count(), Errors::MOST_KINDS + 1);
        errors.count(&[0xFF; 1_000]);
        assert!(
            errors
                .iter()
                .all(|(kind, _)| kind.len() <= 32 && kind.is_ascii())
        );
    }
}
