//! The sockets of a subscriber of one thread, which waits for all of them at once.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::stream::Stream;
use super::timed_out;
use crate::conn::backoff::Backoff;
use crate::pubsub::core::LaneId;
use crate::{Config, Error};

/// The socket of one lane.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) lane: LaneId,
    pub(super) config: Arc<Config>,
    pub(super) stream: Option<Stream>,
    backoff: Backoff,
    /// When to connect again.
    pub(super) again_at: Instant,
    /// Whether there may be something to read.
    pub(super) readable: bool,
}

impl Wire {
    /// A wire that is to be connected at once.
    pub(super) fn new(lane: LaneId, config: Arc<Config>, now: Instant) -> Self {
        Self {
            lane,
            config,
            stream: None,
            backoff: Backoff::new(),
            again_at: now,
            readable: false,
        }
    }

    /// The connection is gone, or could not be made; the next one has to wait.
    pub(super) fn broke(&mut self, was_useful: bool) {
        if self.stream.take().is_some() && was_useful {
            self.backoff.connected();
        }
        let now = Instant::now();
        self.again_at = now + self.backoff.failed(now);
        self.readable = false;
    }

    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let limit = Instant::now() + self.config.connect_timeout;
        self.stream = Some(Stream::connect(&self.config, limit)?);
        Ok(())
    }

    pub(super) fn write(&mut self, out: &[u8]) -> Result<(), Error> {
        let (Some(stream), false) = (&mut self.stream, out.is_empty()) else {
            return Ok(());
        };
        let timeout = stream.set_timeout(self.config.response_timeout);
        let written = timeout.and_then(|()| stream.write_all(out));
        written.map_err(lost)
    }

    /// Reads once; zero where nothing came by then.
    pub(super) fn read(&mut self, wait: Option<Duration>, buf: &mut [u8]) -> Result<usize, Error> {
        let Some(stream) = &mut self.stream else {
            return Ok(0);
        };
        stream.set_timeout(wait).map_err(lost)?;
        match stream.read(buf) {
            Ok(0) => Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => Ok(bytes),
            Err(error) if timed_out(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(lost(error)),
        }
    }
}

/// Waits until one of the wires has something to read, at most so long (`None` is without end), and marks
/// those that have.
pub(super) fn wait_for_any(wires: &mut [Wire], wait: Option<Duration>) -> io::Result<()> {
    let decrypted = |wire: &mut Wire| wire.stream.as_mut().is_some_and(Stream::has_plaintext);
    let mut ready = false;
    for wire in &mut *wires {
        wire.readable = decrypted(wire);
        ready |= wire.readable;
    }
    // What is decrypted already is no news to the operating system.
    let wait = if ready { Some(Duration::ZERO) } else { wait };
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    let with_stream = |wire: &&mut Wire| wire.stream.is_some();
    let mut fds: Vec<PollFd<'_>> = wires
        .iter()
        .filter_map(|wire| wire.stream.as_ref())
        .map(|stream| PollFd::new(stream, PollFlags::IN))
        .collect();
    match poll(&mut fds, wait.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let events: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    for (wire, event) in wires.iter_mut().filter(with_stream).zip(events) {
        wire.readable |= event;
    }
    Ok(())
}

fn lost(error: io::Error) -> Error {
    Error::connection(error, true)
}
