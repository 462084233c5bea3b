//! One connection: bytes in, requests executed, bytes out.

use std::sync::atomic::Ordering;

use loadline_resp::{Limits, RequestParser, encode};
use rustix::io::Errno;

use crate::commands;
use crate::listen::Stream;
use crate::state::{Session, Shared};

/// What one read takes at most.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    session: Session,
    parser: RequestParser,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    limits: Bounds,
}

/// How much a connection may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) request_bytes: usize,
    pub(crate) output_bytes: usize,
}

/// What is to become of a connection after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for requests.
    Read,
    /// The socket is full: wait until it takes more.
    Write,
    /// It is over.
    Close,
}

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
            limits,
        }
    }

    /// Whether replies wait for the peer to read, so that no more requests are taken.
    pub(crate) fn is_blocked(&self) -> bool {
        self.written < self.output.len()
    }

    /// Whether another connection has killed this one.
    pub(crate) fn is_killed(&self) -> bool {
        self.session.peer.killed.load(Ordering::Relaxed)
    }

    /// What the connection is in the middle of.
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Takes what is there, executes it and writes the replies.
    pub(crate) fn turn(&mut self, shared: &mut Shared, buffer: &mut [u8]) -> Next {
        if self.is_blocked() {
            match self.flush(shared) {
                Next::Read => {}
                next => return next,
            }
        }
        let room = buffer.len().min(READ_BYTES);
        match rustix::io::read(&self.stream, &mut buffer[..room]) {
            Ok(0) => return Next::Close,
            Ok(bytes) => {
                shared.stats.bytes_in += bytes as u64;
                self.session
                    .peer
                    .active_ms
                    .store(shared.now, Ordering::Relaxed);
                self.take(&buffer[..bytes], shared);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Next::Close,
        }
        if self.input.len() > self.limits.request_bytes
            || self.output.len() > self.limits.output_bytes
        {
            return Next::Close;
        }
        self.flush(shared)
    }

    /// Executes the requests that are complete. They are parsed where they were read; only what is
    /// left of an incomplete one is copied.
    fn take(&mut self, bytes: &[u8], shared: &mut Shared) {
        if self.input.is_empty() {
            let used = self.execute(bytes, shared);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.input.extend_from_slice(bytes);
            let input = std::mem::take(&mut self.input);
            let used = self.execute(&input, shared);
            self.input = input;
            self.input.drain(..used);
        }
        if self.session.closing {
            self.input.clear();
        }
    }

    fn execute(&mut self, bytes: &[u8], shared: &mut Shared) -> usize {
        let mut at = 0;
        while !self.session.closing && self.output.len() <= self.limits.output_bytes {
            match self.parser.parse(&bytes[at..]) {
                Ok((used, Some(request))) => {
                    commands::execute(&request, &mut self.session, shared, &mut self.output);
                    at += used;
                    let authenticated = self.session.authenticated;
                    self.parser.set_authenticated(authenticated);
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

    /// Writes replies until there are none or the socket is full.
    fn flush(&mut self, shared: &mut Shared) -> Next {
        while self.is_blocked() {
            match rustix::io::write(&self.stream, &self.output[self.written..]) {
                Ok(bytes) => {
                    shared.stats.bytes_out += bytes as u64;
                    self.written += bytes;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Write,
                Err(_) => return Next::Close,
            }
        }
        self.output.clear();
        self.written = 0;
        // A large reply is no reason to keep its memory.
        self.output.shrink_to(READ_BYTES);
        if self.session.closing {
            Next::Close
        } else {
            Next::Read
        }
    }
}
