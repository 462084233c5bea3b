//! The sockets of a subscriber of one thread, which waits for all of them at once.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::timed::TimedSocket;
use super::timed_out;
use crate::pubsub::core::ConnectionId;
use crate::{Config, Error};

/// The socket of one connection of the subscriber.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) id: ConnectionId,
    pub(super) config: Arc<Config>,
    pub(super) socket: Option<TimedSocket>,
    /// When to connect again.
    pub(super) again_at: Instant,
    /// Whether there may be something to read.
    pub(super) readable: bool,
}

impl Wire {
    /// A wire that is to be connected at once.
    pub(super) fn new(id: ConnectionId, config: Arc<Config>, now: Instant) -> Self {
        Self {
            id,
            config,
            socket: None,
            again_at: now,
            readable: false,
        }
    }

    /// The connection is gone, or could not be made; the next attempt has to wait.
    pub(super) fn broke(&mut self, now: Instant, pause: Duration) {
        self.socket = None;
        self.again_at = now + pause;
        self.readable = false;
    }

    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let limit = Instant::now() + self.config.connect_timeout;
        self.socket = Some(TimedSocket::connect(&self.config, limit)?);
        Ok(())
    }

    pub(super) fn write(&mut self, out: &[u8]) -> Result<(), Error> {
        let (Some(socket), false) = (&mut self.socket, out.is_empty()) else {
            return Ok(());
        };
        let timeout = self.config.response_timeout;
        socket.set_timeout(timeout).map_err(lost)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let written = socket.write_all(out, deadline);
        written.map_err(|unwritten| lost(unwritten.error))
    }

    /// Reads once; zero where nothing came by then.
    pub(super) fn read(&mut self, wait: Option<Duration>, buf: &mut [u8]) -> Result<usize, Error> {
        let Some(socket) = &mut self.socket else {
            return Ok(0);
        };
        socket.set_timeout(wait).map_err(lost)?;
        match socket.read_some(buf) {
            Ok(0) => Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => Ok(bytes),
            Err(error) if timed_out(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(lost(error)),
        }
    }
}

/// Waits until one of the wires has something to read, for at most `wait` (`None` is without end), and marks
/// those that have.
pub(super) fn wait_for_any(wires: &mut [&mut Wire], wait: Option<Duration>) -> io::Result<()> {
    let decrypted = |wire: &mut Wire| {
        let socket = wire.socket.as_mut();
        socket.is_some_and(|socket| socket.socket.has_plaintext())
    };
    let mut ready = false;
    for wire in wires.iter_mut() {
        wire.readable = decrypted(wire);
        ready |= wire.readable;
    }
    // The operating system does not know of what is decrypted already.
    let wait = if ready { Some(Duration::ZERO) } else { wait };
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    let with_socket = |wire: &&mut &mut Wire| wire.socket.is_some();
    let mut fds: Vec<PollFd<'_>> = wires
        .iter()
        .filter_map(|wire| wire.socket.as_ref())
        .map(|socket| PollFd::new(&socket.socket, PollFlags::IN))
        .collect();
    match poll(&mut fds, wait.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let events: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    for (wire, event) in wires.iter_mut().filter(with_socket).zip(events) {
        wire.readable |= event;
    }
    Ok(())
}

fn lost(error: io::Error) -> Error {
    Error::connection(error, true)
}
