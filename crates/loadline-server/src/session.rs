//! The state of one connection.

use std::sync::Arc;

use loadline_resp::Protocol;

use crate::buffer::Part;
use crate::peer::Peer;
use crate::pubsub::Subscriptions;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    pub(crate) database: usize,
    pub(crate) authenticated: bool,
    /// The name of the user.
    pub(crate) user: Vec<u8>,
    /// Whether all commands are allowed: the client has authenticated, and does not get messages between replies.
    pub(crate) is_free: bool,
    pub(crate) closing: bool,
    /// The commands queued since MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watches: Vec<Watch>,
    /// Bytes of the watched keys.
    pub(crate) watched_bytes: usize,
    /// A command that waits. Later commands wait behind it.
    pub(crate) waiting: Option<Waiting>,
    /// The replies to commands whose changes are not yet as durable as requested.
    pub(crate) unconfirmed: Vec<Part>,
    /// Whether a reply of this turn depends on the data.
    pub(crate) has_seen_data: bool,
    pub(crate) replies: Replies,
    /// Messages of a command whose replies are not wanted.
    pub(crate) pushed: Vec<u8>,
    pub(crate) subscriptions: Subscriptions,
    /// Whether it tracks keys.
    pub(crate) is_tracking: bool,
    /// Bytes of the prefixes of keys that it tracks.
    pub(crate) prefix_bytes: usize,
    /// Whether a command must reply at once: it is a part of a transaction.
    pub(crate) may_not_block: bool,
    /// The state that other connections can see.
    pub(crate) peer: Arc<Peer>,
}

/// A command that waits.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// For the end of a pause.
    ForPause(Vec<Vec<u8>>),
    /// For a key.
    ForKeys { words: Vec<Vec<u8>>, at_end: AtEnd },
    /// For another server that gets keys, in a request of this many bytes.
    ForMigration { held_bytes: usize },
    /// The command found no data again.
    Unserved,
}

impl Waiting {
    fn held_bytes(&self) -> usize {
        match self {
            Self::ForPause(words) => words.iter().map(Vec::len).sum(),
            // The keys are held a second time.
            Self::ForKeys { words, .. } => 2 * words.iter().map(Vec::len).sum::<usize>(),
            Self::ForMigration { held_bytes } => *held_bytes,
            Self::Unserved => 0,
        }
    }
}

/// The reply at the end of the time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AtEnd {
    NullArray,
    Zero,
    /// An error, as the reply to a wrong password.
    Refusal(&'static str),
}

/// Whether a client wants replies, as set by CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// Off for the current command, and on again after it.
    Skip,
    /// Becomes [`Skip`](Self::Skip) with the next command.
    SkipNext,
}

impl Replies {
    /// Whether the reply to the current command is dropped.
    pub(crate) fn are_dropped(self) -> bool {
        matches!(self, Self::Off | Self::Skip)
    }

    /// The mode for the next command.
    pub(crate) fn after_command(self) -> Self {
        match self {
            Self::Skip => Self::On,
            Self::SkipNext => Self::Skip,
            Self::On | Self::Off => self,
        }
    }
}

impl Session {
    /// Bytes of queued commands, watched keys and subscriptions.
    pub(crate) fn held_bytes(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, Queue::held_bytes);
        queued + self.held_bytes_outside_queue()
    }

    pub(crate) fn held_bytes_outside_queue(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, Waiting::held_bytes);
        waiting + self.watched_bytes + self.prefix_bytes + self.subscriptions.held_bytes
    }

    /// Notes after a change of the authentication, the protocol or the subscriptions whether all commands are allowed.
    pub(crate) fn note_mode(&mut self) {
        let is_subscriber = self.protocol == Protocol::Resp2 && !self.subscriptions.are_none();
        self.is_free = self.authenticated && !is_subscriber;
    }
}

/// A key that a connection watches.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    /// Whether it existed when the connection started to watch.
    pub(crate) was_there: bool,
}

/// A transaction being queued. Its commands share one buffer, because separate allocations for a million
/// short commands would take many times their size.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    /// The end of each word in the bytes.
    word_ends: Vec<usize>,
    /// The end of each command in the words.
    command_ends: Vec<usize>,
    /// Whether a command could not be queued, so that EXEC must fail.
    pub(crate) spoilt: bool,
    /// Whether a command adds data.
    pub(crate) grows: bool,
    /// Whether a command writes.
    pub(crate) writes: bool,
    /// Whether one of these runs no script.
    pub(crate) needs_replicas: bool,
}

impl Queue {
    pub(crate) fn push(&mut self, words: &[&[u8]]) {
        for word in words {
            self.bytes.extend_from_slice(word);
            self.word_ends.push(self.bytes.len());
        }
        self.command_ends.push(self.word_ends.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.command_ends.len()
    }

    /// Iterates over the words of each command.
    pub(crate) fn commands(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let word = |index: usize| {
            let begin = index.checked_sub(1).map_or(0, |last| self.word_ends[last]);
            &self.bytes[begin..self.word_ends[index]]
        };
        let mut begin = 0;
        self.command_ends.iter().map(move |end| {
            let words = begin..*end;
            begin = *end;
            words.map(word).collect()
        })
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len() + (self.word_ends.len() + self.command_ends.len()) * size_of::<usize>()
    }
}
