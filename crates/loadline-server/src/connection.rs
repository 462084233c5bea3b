//! One connection: bytes in, requests executed, bytes out.

use std::sync::atomic::Ordering;

use loadline_resp::{Limits, RequestParser, encode};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::commands;
use crate::listen::Stream;
use crate::state::{Session, Shared};

/// What a buffer keeps of its memory when it is empty.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    session: Session,
    parser: RequestParser,
    /// The beginning of a request whose end is still to come.
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Nothing more is read: it has said all, or been told to go. What is left is written.
    finished: bool,
    limits: Bounds,
    /// What the event loop was last told to wait for.
    pub(crate) interest: EventFlags,
}

/// How much a connection may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) request_bytes: usize,
    pub(crate) output_bytes: usize,
}

/// It is over: the peer is gone, or all has been said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

impl Connection {
    pub(crate) fn new(stream: Stream, session: Session, limits: Bounds) -> Self {
        let mut parser = RequestParser::new(Limits::default());
        parser.set_authenticated(session.authenticated);
        Self {
            stream,
            session,
            parser,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            finished: false,
            limits,
            interest: EventFlags::IN,
        }
    }

    /// Whether another connection has killed this one.
    pub(crate) fn is_killed(&self) -> bool {
        self.session.peer.killed.load(Ordering::Relaxed)
    }

    /// What the connection is in the middle of.
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Takes what is there with one read and executes it. The replies wait for
    /// [`flush`](Self::flush). A peer that does not read its replies may go on sending, as clients do
    /// that send a whole pipeline before they read, until they fill the bound.
    pub(crate) fn receive(&mut self, shared: &mut Shared, buffer: &mut [u8]) -> Result<(), Over> {
        if self.finished {
            return Ok(());
        }
        match rustix::io::read(&self.stream, &mut *buffer) {
            Ok(0) => self.finished = true,
            Ok(bytes) => {
                shared.stats.bytes_in += bytes as u64;
                let peer = &self.session.peer;
                peer.active_ms.store(shared.now, Ordering::Relaxed);
                self.take(&buffer[..bytes], shared);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Err(Over),
        }
        let waiting = self.output.len() - self.written;
        let taken = self.input.len() + self.session.queued_bytes();
        if taken > self.limits.request_bytes || waiting > self.limits.output_bytes {
            return Err(Over);
        }
        Ok(())
    }

    /// Writes replies until there are none or the socket is full, and says what to wait for.
    pub(crate) fn flush(&mut self, shared: &mut Shared) -> Result<EventFlags, Over> {
        let reading = if self.finished {
            EventFlags::empty()
        } else {
            EventFlags::IN
        };
        while self.written < self.output.len() {
            match rustix::io::write(&self.stream, &self.output[self.written..]) {
                Ok(bytes) => {
                    shared.stats.bytes_out += bytes as u64;
                    self.written += bytes;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.forget_written();
                    return Ok(reading | EventFlags::OUT);
                }
                Err(_) => return Err(Over),
            }
        }
        self.output.clear();
        self.written = 0;
        // A large reply is no reason to keep its memory.
        self.output.shrink_to(KEPT_BYTES);
        if self.finished {
            return Err(Over);
        }
        Ok(reading)
    }

    /// Gives up what is written of an output that never gets empty, before it is most of it.
    fn forget_written(&mut self) {
        if self.written > KEPT_BYTES && self.written > self.output.len() / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// Executes the requests that are complete. They are parsed where they were read; only what is
    /// left of an incomplete one is copied.
    fn take(&mut self, bytes: &[u8], shared: &mut Shared) {
        if self.input.is_empty() {
            let used = self.execute(bytes, shared);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.input.extend_from_slice(bytes);
            let mut input = std::mem::take(&mut self.input);
            let used = self.execute(&input, shared);
            input.drain(..used);
            if input.is_empty() {
                input.shrink_to(KEPT_BYTES);
            }
            self.input = input;
        }
        if self.session.closing {
            self.finished = true;
            self.input = Vec::new();
        }
    }

    fn execute(&mut self, bytes: &[u8], shared: &mut Shared) -> usize {
        let mut at = 0;
        while !self.session.closing {
            match self.parser.parse(&bytes[at..]) {
                Ok((used, Some(request))) => {
                    at += used;
                    commands::execute(&request, &mut self.session, shared, &mut self.output);
                    let authenticated = self.session.authenticated;
                    self.parser.set_authenticated(authenticated);
                    if self.output.len() - self.written > self.limits.output_bytes {
                        // The caller closes it; nothing more is to be executed before.
                        return at;
                    }
                }
                Ok((used, None)) => return at + used,
                Err(error) => {
                    encode::error(&mut self.output, format!("ERR {error}").as_bytes());
                    self.session.closing = true;
                }
            }
        }
        at
    }
}
