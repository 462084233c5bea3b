//! A connection of the event loop.

use std::collections::VecDeque;
use std::io;

use super::transport::{Framing, Transport};
use crate::meter::Meter;
use crate::reply::{Reply, Tally};
use crate::values::Values;

/// Operations of one connection with common times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) intended_ns: u64,
    pub(super) sent_ns: u64,
    /// The number of missing replies.
    pub(super) replies: u32,
    /// Replies per operation; above one, the group is a single operation.
    pub(super) replies_per_op: u32,
}

/// Places in the window that became free at the same time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freed {
    pub(super) at_ns: u64,
    pub(super) places: u32,
}

pub(super) struct Conn<F> {
    pub(super) transport: Box<dyn Transport>,
    framing: F,
    /// Sent and unanswered operations, oldest first.
    groups: VecDeque<Group>,
    /// Operations in `groups`.
    pub(super) in_flight: u32,
    /// Free places with their times; only closed loops keep them.
    pub(super) freed: VecDeque<Freed>,
    /// Intended starts of operations that an open loop assigned to this connection in this turn.
    pub(super) assigned: Vec<u64>,
    /// Bytes that the socket has not accepted.
    unsent: Vec<u8>,
    check: Option<Check>,
    pub(super) alive: bool,
}

/// The state of a connection that verifies replies.
#[derive(Debug, Default)]
struct Check {
    /// The key of each operation in flight whose reply must be that key's payload.
    expected: VecDeque<Option<u64>>,
    /// Received bytes of an incomplete reply.
    partial: Vec<u8>,
}

impl<F: Framing> Conn<F> {
    pub(super) fn new(transport: Box<dyn Transport>, framing: F, verify: bool) -> Self {
        Self {
            transport,
            framing,
            groups: VecDeque::new(),
            in_flight: 0,
            freed: VecDeque::new(),
            assigned: Vec::new(),
            unsent: Vec::new(),
            check: verify.then(Check::default),
            alive: true,
        }
    }

    /// Whether a write is pending, so that nothing more can be sent.
    pub(super) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Resets the state of the last block.
    pub(super) fn reset(&mut self) {
        self.groups.clear();
        self.freed.clear();
        self.assigned.clear();
        self.in_flight = 0;
    }

    /// Writes a batch and keeps what the socket does not accept.
    pub(super) fn send(&mut self, batch: &[u8]) -> io::Result<()> {
        debug_assert!(self.unsent.is_empty());
        let mut written = 0;
        while written < batch.len() {
            match self.transport.write(&batch[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.extend_from_slice(&batch[written..]);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.transport.flush().map(drop)
    }

    /// Writes what the socket did not accept before.
    pub(super) fn resend(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        if unsent.is_empty() {
            return self.transport.flush().map(drop);
        }
        self.send(&unsent)
    }

    /// The sending time of the oldest operation in flight.
    pub(super) fn oldest_sent_ns(&self) -> Option<u64> {
        self.groups.front().map(|group| group.sent_ns)
    }

    /// The first operations in flight: they are sent in the order of their intended starts.
    pub(super) fn oldest(&self) -> Option<&Group> {
        self.groups.front()
    }

    /// Records a group of operations as sent.
    pub(super) fn sent(&mut self, group: Group, ops: u32) {
        self.in_flight += ops;
        self.groups.push_back(group);
    }

    /// Records the expected replies of the next operation, if replies are verified: only the last of them can
    /// be a payload.
    #[inline]
    pub(super) fn expect(&mut self, replies: u32, key: Option<u64>) {
        if let Some(check) = &mut self.check {
            check.expected.extend((1..replies).map(|_| None));
            check.expected.push_back(key);
        }
    }

    /// Processes received bytes: counts replies, and verifies them if requested. Returns the number of
    /// completed replies.
    #[inline]
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        tally: &mut Tally,
        values: &Values,
    ) -> Result<u64, String> {
        let before = tally.replies;
        match &mut self.check {
            None => self.framing.feed(bytes, tally)?,
            Some(check) => check.receive(&mut self.framing, bytes, tally, values)?,
        }
        Ok(tally.replies - before)
    }

    /// Records `replies` replies that arrived by `now_ns` and returns the number of completed operations.
    #[inline]
    pub(super) fn complete(
        &mut self,
        mut replies: u64,
        now_ns: u64,
        meter: &mut Meter<'_>,
    ) -> Result<u32, String> {
        let mut completed = 0;
        while replies > 0 {
            let Some(group) = self.groups.front_mut() else {
                return Err(format!("{replies} unexpected replies arrived"));
            };
            let taken = u64::from(group.replies).min(replies) as u32;
            group.replies -= taken;
            replies -= u64::from(taken);
            let ops = if group.replies_per_op == 1 {
                taken
            } else {
                u32::from(group.replies == 0)
            };
            if ops > 0 {
                meter.record(now_ns, group.intended_ns, group.sent_ns, u64::from(ops));
                completed += ops;
            }
            if group.replies == 0 {
                self.groups.pop_front();
            }
        }
        self.in_flight -= completed;
        Ok(completed)
    }
}

impl Check {
    fn receive<F: Framing>(
        &mut self,
        framing: &mut F,
        bytes: &[u8],
        tally: &mut Tally,
        values: &Values,
    ) -> Result<(), String> {
        self.partial.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((length, reply)) = framing.first(&self.partial[at..])? {
            at += length;
            if reply == Reply::Push {
                continue;
            }
            tally.replies += 1;
            let expected = self.expected.pop_front().flatten();
            match (reply, expected) {
                (Reply::Error(sentence), _) => tally.errors.count(sentence),
                (Reply::Nil, _) => tally.nils += 1,
                (Reply::Payload(payload), Some(key)) if !values.matches(key, payload) => {
                    tally.errors.add("MISMATCH", 1);
                }
                (Reply::Other, Some(_)) => tally.errors.add("MISMATCH", 1),
                _ => {}
            }
        }
        self.partial.drain(..at);
        Ok(())
    }
}
