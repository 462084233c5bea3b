//! One connection: bytes in, requests executed, bytes out.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering};

use loadline_resp::{Limits, RequestParser, encode};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::buffer::{Buffer, Output};
use crate::commands::{self, Refusal};
use crate::lookahead::Lookahead;
use crate::others::Others;
use crate::session::{Queue, Session, Waiting};
use crate::settings::OutputLimit;
use crate::state::Shared;
use crate::stream::Stream;
use crate::waiting::Release;

/// The pending replies at which execution of further requests pauses. Waiting requests take less memory than
/// their replies would.
const PAUSE_BYTES: usize = 1 << 20;

/// The most turns whose replies a connection holds back. It is not read while it holds that many.
pub(crate) const MOST_HELD: usize = 16;

/// The most bytes written to one connection before the next one gets its turn.
const WRITE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    session: Session,
    parser: RequestParser,
    /// Incomplete requests, and requests that wait because many replies are pending.
    input: Buffer,
    output: Output,
    /// The replies before this place, counted in bytes since the beginning, can leave.
    released: u64,
    /// Replies behind them, which wait until the log has reached the disk.
    held: VecDeque<Held>,
    /// Whether requests wait for replies to be written.
    paused: bool,
    /// Whether reading has ended, because the peer has finished or was closed. Remaining requests are
    /// executed and their replies written.
    finished: bool,
    /// Whether a malformed request ended the connection.
    malformed: bool,
    drain: Option<Drain>,
    bounds: Bounds,
    /// Bytes of replies that count in [`Shared::output_bytes`].
    counted: usize,
    /// Bytes of memory that count in [`Shared::client_bytes`].
    weight: usize,
    /// The events that the event loop currently waits for.
    pub(crate) interest: EventFlags,
}

/// The limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) request_bytes: usize,
    pub(crate) output_bytes: usize,
}

/// The replies of a turn that wait until the log has reached the disk.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The place behind the last of them.
    end: u64,
    /// The position of the log that they wait for.
    position: u64,
}

/// The end of a connection after a malformed request. Further input is discarded, because closing a socket
/// with unread bytes resets the connection, and the peer would lose the error reply.
#[derive(Debug)]
struct Drain {
    left_bytes: usize,
    until_ms: u64,
}

impl Drain {
    const BYTES: usize = 64 << 20;
    const TIME_MS: u64 = 2_000;
}

/// The connection is over: the peer is gone, or all replies are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

impl Connection {
    pub(crate) fn new(stream: Stream, session: Session, bounds: Bounds) -> Self {
        let mut parser = RequestParser::new(Limits::default());
        parser.set_authenticated(session.authenticated);
        let own = &session.peer.gauges.own;
        own.store(size_of::<Self>() + stream.held_bytes(), Ordering::Relaxed);
        Self {
            stream,
            session,
            parser,
            input: Buffer::default(),
            output: Output::new(bounds.output_bytes),
            released: 0,
            held: VecDeque::new(),
            paused: false,
            finished: false,
            malformed: false,
            drain: None,
            bounds,
            counted: 0,
            weight: 0,
            interest: EventFlags::IN,
        }
    }

    /// Whether another connection has killed this one.
    pub(crate) fn is_killed(&self) -> bool {
        self.session.peer.killed.load(Ordering::Relaxed)
    }

    /// Whether it discards its input.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Whether it has discarded input for long enough.
    pub(crate) fn is_drained(&self, now_ms: u64) -> bool {
        self.drain
            .as_ref()
            .is_some_and(|drain| now_ms >= drain.until_ms)
    }

    /// Executes the command that was postponed by a pause.
    pub(crate) fn resume(&mut self, shared: &mut Shared, others: &dyn Others) -> Result<(), Over> {
        commands::resume(&mut self.session, shared, &mut self.output, others);
        self.go_on(shared, others)
    }

    /// Executes the command that waits for `key`, and returns whether it has its reply.
    pub(crate) fn wake(&mut self, shared: &mut Shared, key: &[u8]) -> bool {
        // An item that a peer which has gone would get would be lost. The event of its end follows.
        if self.stream.is_abandoned() {
            return false;
        }
        self.prepare_output(shared);
        commands::wake(&mut self.session, shared, &mut self.output, key)
    }

    /// Ends the wait of a command.
    pub(crate) fn release_waiting(&mut self, shared: &mut Shared, how: Release) {
        self.prepare_output(shared);
        commands::release(&mut self.session, shared, &mut self.output, how);
    }

    /// Replies to a MIGRATE that has ended.
    pub(crate) fn end_migration(
        &mut self,
        shared: &mut Shared,
        noted: u64,
        refusal: Option<String>,
    ) {
        self.prepare_output(shared);
        commands::reply_migrated(&mut self.session, shared, &mut self.output, noted, refusal);
    }

    /// Executes requests that have waited.
    pub(crate) fn go_on(&mut self, shared: &mut Shared, others: &dyn Others) -> Result<(), Over> {
        self.take(&[], shared, others);
        self.gauge();
        if self.output.has_overflowed() {
            return Err(Over);
        }
        Ok(())
    }

    /// Ends a turn: the replies since the last one can leave, or are held back until the log has reached the disk up to
    /// `unsynced`. That is the case for those that depend on the data, and for all behind replies that are held back.
    /// If the changes could not be written, turns the replies to commands that wrote into errors. Returns the position
    /// that the replies of this turn wait for.
    pub(crate) fn settle(
        &mut self,
        is_committed: bool,
        unsynced: Option<u64>,
        shared: &mut Shared,
    ) -> Option<u64> {
        let begin = self.held.back().map_or(self.released, |held| held.end);
        if !is_committed {
            let old = self.session.unconfirmed.iter();
            let old = old.take_while(|part| part.begin < begin).count();
            self.refuse_unconfirmed(old, shared);
        }
        let has_seen_data = std::mem::take(&mut self.session.has_seen_data);
        let position = match self.held.back() {
            Some(last) => Some(unsynced.unwrap_or(last.position)),
            None => unsynced.filter(|_| has_seen_data),
        };
        let end = self.output.end();
        match position {
            Some(position) if end > begin => {
                self.held.push_back(Held { end, position });
                Some(position)
            }
            Some(_) => None,
            None => {
                self.released = end;
                self.session.unconfirmed.clear();
                None
            }
        }
    }

    /// Replaces the replies to commands that wrote by errors, except for the first ones.
    fn refuse_unconfirmed(&mut self, first: usize, shared: &mut Shared) {
        let Some(Refusal(text)) = shared.misconfigured() else {
            return;
        };
        let mut error = Vec::new();
        encode::error(&mut error, &text);
        let unconfirmed = &self.session.unconfirmed[first..];
        unconfirmed
            .iter()
            .for_each(|_| shared.stats.count_error(&text));
        self.output.replace(unconfirmed, &error);
        self.session.unconfirmed.truncate(first);
    }

    /// Lets the replies leave that waited for `position` of the log or one before.
    pub(crate) fn release(&mut self, position: u64) {
        while let Some(held) = self.held.pop_front_if(|held| held.position <= position) {
            self.released = held.end;
        }
        let released = self.released;
        let unconfirmed = &mut self.session.unconfirmed;
        let confirmed = unconfirmed.partition_point(|part| part.end <= released);
        unconfirmed.drain(..confirmed);
    }

    /// Lets all replies leave that are held back, those to commands that wrote as errors: the log did not reach the disk.
    pub(crate) fn refuse_held(&mut self, shared: &mut Shared) {
        if self.held.is_empty() {
            return;
        }
        self.refuse_unconfirmed(0, shared);
        self.held.clear();
        self.released = self.output.end();
    }

    /// Whether no replies wait for the end of the turn, or for the disk.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_holding() && self.output.end() == self.released
    }

    /// Whether no reply waits for the disk.
    pub(crate) fn is_independent(&self) -> bool {
        !self.is_holding() && !self.session.has_seen_data
    }

    /// Whether replies are held back until the log has reached the disk.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes of requests and replies that wait.
    #[cfg(test)]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Whether it is not read until replies that are held back have left.
    fn is_full(&self) -> bool {
        self.is_holding() && (self.held.len() >= MOST_HELD || self.output.len() > PAUSE_BYTES)
    }

    /// Whether a command is postponed by a pause.
    pub(crate) fn is_postponed(&self) -> bool {
        matches!(self.session.waiting, Some(Waiting::ForPause(_)))
    }

    /// Reads once and executes the complete requests. The replies wait for [`flush`](Self::flush). A peer can
    /// send a whole pipeline before it reads replies: its requests wait, up to their limit.
    pub(crate) fn receive(
        &mut self,
        shared: &mut Shared,
        others: &dyn Others,
        buffer: &mut [u8],
    ) -> Result<(), Over> {
        if self.drain.is_some() {
            return self.discard(buffer);
        }
        if self.is_full() {
            return Ok(());
        }
        let bytes = if self.finished {
            0
        } else {
            self.read(shared, buffer)?
        };
        // No one will read the reply.
        let waiting = &self.session.waiting;
        let is_waiting = matches!(
            waiting,
            Some(Waiting::ForKeys { .. } | Waiting::ForMigration { .. })
        );
        if self.finished && is_waiting {
            return Err(Over);
        }
        if bytes > 0 || self.paused {
            self.take(&buffer[..bytes], shared, others);
        }
        self.gauge();
        let waiting = self.input.len() + self.parser.held_bytes() + self.session.held_bytes();
        if waiting > self.bounds.request_bytes || self.output.has_overflowed() {
            return Err(Over);
        }
        Ok(())
    }

    /// Records the buffer sizes for CLIENT LIST.
    fn gauge(&self) {
        let gauges = &self.session.peer.gauges;
        let set = |gauge: &AtomicUsize, value: usize| gauge.store(value, Ordering::Relaxed);
        set(&gauges.input, self.input.len());
        set(&gauges.input_room, self.input.capacity() - self.input.len());
        set(&gauges.arguments, self.parser.held_bytes());
        let queue = self.session.queue.as_ref();
        set(&gauges.queued, queue.map_or(0, |queue| queue.len() + 1));
        set(&gauges.queued_bytes, queue.map_or(0, Queue::held_bytes));
        set(&gauges.held, self.session.held_bytes_outside_queue());
        let peak = gauges.output_peak.load(Ordering::Relaxed);
        set(&gauges.output_peak, peak.max(self.output.len()));
    }

    /// Writes replies until there are none, the socket is full or it is another connection's turn. Returns
    /// the events to wait for.
    pub(crate) fn flush(&mut self, shared: &mut Shared) -> Result<EventFlags, Over> {
        let interest = self.write(shared)?;
        let gauges = &self.session.peer.gauges;
        gauges.output.store(self.output.len(), Ordering::Relaxed);
        gauges
            .output_room
            .store(self.output.capacity(), Ordering::Relaxed);
        let is_writing = interest.contains(EventFlags::OUT);
        gauges.is_writing.store(is_writing, Ordering::Relaxed);
        self.count(self.output.len(), shared);
        Ok(interest)
    }

    /// Counts bytes of replies that wait.
    fn count(&mut self, bytes: usize, shared: &mut Shared) {
        if bytes != self.counted {
            shared.output_bytes = shared.output_bytes + bytes - self.counted;
            self.counted = bytes;
        }
    }

    /// Bytes of output that the socket did not take.
    pub(crate) fn waiting_output_bytes(&self, shared: &mut Shared) -> usize {
        let slot = self.session.subscriptions.slot();
        let messages = slot.map_or(0, |slot| shared.pubsub.mailbox(slot).held_bytes());
        self.output.len() + messages
    }

    /// Bytes of memory of the connection, with the messages that wait for it.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Whether it stays open when clients use too much memory.
    pub(crate) fn is_kept(&self) -> bool {
        self.session.peer.is_kept.load(Ordering::Relaxed)
    }

    /// Computes the bytes of its memory, and counts them.
    pub(crate) fn weigh(&mut self, shared: &mut Shared) {
        let slot = self.session.subscriptions.slot();
        let messages = slot.map_or(0, |slot| shared.pubsub.mailbox(slot).held_bytes());
        let bytes = self.session.peer.gauges.total() + messages;
        shared.client_bytes = shared.client_bytes + bytes - self.weight;
        self.weight = bytes;
    }

    /// Ends what the state of the server holds about the connection.
    pub(crate) fn forget(&mut self, shared: &mut Shared) {
        self.count(0, shared);
        shared.client_bytes -= self.weight;
        shared.peers.remove(&self.session.id);
        shared.watched.forget(&mut self.session);
        shared.watched.end_wait(self.session.id);
        shared.monitors.remove(self.session.id);
        shared.watched.tracking.forget(self.session.id);
        if self.session.is_tracking {
            shared.note_tracking();
        }
        shared.pubsub.forget(&mut self.session.subscriptions);
    }

    fn write(&mut self, shared: &mut Shared) -> Result<EventFlags, Over> {
        let reading = if self.finished || self.is_full() {
            EventFlags::empty()
        } else {
            EventFlags::IN
        };
        let reading = match reading {
            // The next turn reads them.
            EventFlags::IN if self.stream.has_more() => reading | EventFlags::OUT,
            reading => reading,
        };
        let mut written = 0;
        loop {
            match self.stream.send() {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(reading | EventFlags::OUT),
                Err(_) => return Err(Over),
            }
            let released = self.output.pending_before(self.released);
            if released == 0 {
                break;
            }
            if written >= WRITE_BYTES {
                return Ok(reading | EventFlags::OUT);
            }
            let part = IoSlice::new(&self.output.as_slice()[..released]);
            match self.stream.write(&[part]) {
                Ok(bytes) => {
                    shared.stats.bytes_out += bytes as u64;
                    let peer = &self.session.peer;
                    peer.active_ms.store(shared.now, Ordering::Relaxed);
                    written += bytes;
                    self.output.advance(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(reading | EventFlags::OUT),
                Err(_) => return Err(Over),
            }
        }
        if self.is_holding() {
            return Ok(reading);
        }
        if !self.session.subscriptions.are_none() && self.write_messages(written, shared)? {
            return Ok(reading | EventFlags::OUT);
        }
        if self.paused {
            // There is room now, so the next turn executes the waiting requests.
            return Ok(reading | EventFlags::OUT);
        }
        if self.malformed {
            return self.begin_drain(shared);
        }
        if self.finished {
            return Err(Over);
        }
        Ok(reading)
    }

    /// Writes messages to a subscriber, which are behind its replies. Returns whether some are left.
    fn write_messages(&mut self, mut written: usize, shared: &mut Shared) -> Result<bool, Over> {
        /// The most messages in one system call.
        const TOGETHER: usize = 256;
        let Some(slot) = self.session.subscriptions.slot() else {
            return Ok(false);
        };
        loop {
            let mailbox = shared.pubsub.mailbox(slot);
            if mailbox.has_overflowed() {
                return Err(Over);
            }
            if mailbox.bytes() == 0 {
                return match self.stream.send() {
                    Ok(()) => Ok(false),
                    Err(Errno::AGAIN) => Ok(true),
                    Err(_) => Err(Over),
                };
            }
            if written >= WRITE_BYTES {
                return Ok(true);
            }
            let parts = mailbox.parts().take(TOGETHER).map(IoSlice::new);
            let parts: Vec<IoSlice<'_>> = parts.collect();
            match self.stream.write(&parts) {
                Ok(bytes) => {
                    drop(parts);
                    mailbox.advance(bytes);
                    shared.stats.bytes_out += bytes as u64;
                    written += bytes;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(true),
                Err(_) => return Err(Over),
            }
        }
    }

    /// Ends the stream of replies, so that the peer sees the end immediately, and continues to read for a
    /// while.
    fn begin_drain(&mut self, shared: &mut Shared) -> Result<EventFlags, Over> {
        if self.drain.is_none() {
            self.stream.end().map_err(|_| Over)?;
            self.drain = Some(Drain {
                left_bytes: Drain::BYTES,
                until_ms: shared.now + Drain::TIME_MS,
            });
            shared.has_draining = true;
        }
        Ok(EventFlags::IN)
    }

    /// Reads once and discards the data.
    fn discard(&mut self, buffer: &mut [u8]) -> Result<(), Over> {
        let drain = self.drain.as_mut().ok_or(Over)?;
        match self.stream.read(buffer) {
            Ok(0) => Err(Over),
            Ok(bytes) => {
                drain.left_bytes = drain.left_bytes.checked_sub(bytes).ok_or(Over)?;
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(_) => Err(Over),
        }
    }

    /// Reads once and returns the number of bytes; 0 if there are none now, or at the end.
    fn read(&mut self, shared: &mut Shared, buffer: &mut [u8]) -> Result<usize, Over> {
        match self.stream.read(buffer) {
            Ok(0) => {
                self.finished = true;
                Ok(0)
            }
            Ok(bytes) => {
                shared.stats.bytes_in += bytes as u64;
                let peer = &self.session.peer;
                peer.active_ms.store(shared.now, Ordering::Relaxed);
                Ok(bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_) => Err(Over),
        }
    }

    /// The limit of pending output for connections of this class.
    pub(crate) fn output_limit(&self, shared: &Shared) -> OutputLimit {
        let limits = &shared.settings.output_limits;
        if self.session.subscriptions.are_none() {
            limits.normal
        } else {
            limits.pubsub
        }
    }

    /// Bounds the output before commands are executed, and moves messages to it that come before their replies.
    pub(crate) fn prepare_output(&mut self, shared: &mut Shared) {
        let hard = self.output_limit(shared).hard;
        let bound = match usize::try_from(hard) {
            Ok(0) | Err(_) => self.bounds.output_bytes,
            Ok(hard) => hard.min(self.bounds.output_bytes),
        };
        self.output.set_bound(bound);
        if let Some(slot) = self.session.subscriptions.slot() {
            shared.pubsub.mailbox(slot).move_to(&mut self.output);
        }
        let tracking = &mut shared.watched.tracking;
        if tracking.has_messages()
            && let Some(messages) = tracking.take_messages(self.session.id)
        {
            encode::Sink::put(&mut self.output, &messages);
        }
    }

    /// Appends lines about commands for a client that watches them.
    pub(crate) fn show(&mut self, lines: &[u8], shared: &mut Shared) {
        self.prepare_output(shared);
        encode::Sink::put(&mut self.output, lines);
    }

    /// Executes the complete requests. They are parsed where they were read; only the remainder is copied.
    fn take(&mut self, bytes: &[u8], shared: &mut Shared, others: &dyn Others) {
        self.prepare_output(shared);
        if self.input.is_empty() {
            let used = self.execute(bytes, shared, others);
            if used < bytes.len() {
                let rest = &bytes[used..];
                let awaited = self.parser.awaited_len(rest);
                self.input.append_request(rest, awaited);
            }
        } else {
            let awaited = self.parser.awaited_len(self.input.as_slice());
            self.input.append_request(bytes, awaited);
            let mut input = std::mem::take(&mut self.input);
            let used = self.execute(input.as_slice(), shared, others);
            input.advance(used);
            self.input = input;
        }
        if self.session.closing {
            self.finished = true;
            self.input = Buffer::default();
        }
    }

    /// Executes requests from the front of `bytes` and returns their size in bytes.
    fn execute(&mut self, bytes: &[u8], shared: &mut Shared, others: &dyn Others) -> usize {
        let mut at = 0;
        let mut ahead = Lookahead::default();
        self.paused = false;
        while !self.session.closing
            && !self.output.has_overflowed()
            && self.session.waiting.is_none()
        {
            if self.output.len() > PAUSE_BYTES {
                self.paused = at < bytes.len();
                return at;
            }
            let mut next = ahead.next();
            if next.is_none() && self.session.authenticated && self.parser.is_between_requests() {
                ahead.look(&bytes[at..]);
                ahead.warm(&mut shared.databases[self.session.database]);
                next = ahead.next();
            }
            if let Some((words, used)) = next {
                at += used;
                commands::execute(words, &mut self.session, shared, &mut self.output, others);
            } else {
                match self.parser.parse(&bytes[at..]) {
                    Ok((used, Some(request))) => {
                        at += used;
                        let words: Vec<&[u8]> = request.iter().collect();
                        commands::execute(
                            &words,
                            &mut self.session,
                            shared,
                            &mut self.output,
                            others,
                        );
                    }
                    Ok((used, None)) => return at + used,
                    Err(error) => {
                        encode::error(&mut self.output, format!("ERR {error}").as_bytes());
                        self.session.closing = true;
                        self.malformed = true;
                    }
                }
            }
            if !self.session.authenticated {
                // Those of a client that has yet to authenticate are limited.
                ahead.clear();
            }
            self.parser.set_authenticated(self.session.authenticated);
            // Clients that wait for what was changed are served before the next request.
            if shared.watched.waiting.has_work() && shared.long_script.is_none() {
                return at;
            }
        }
        at
    }
}
