//! A socket whose reads and writes end by a deadline, at no cost for those that are quick.
//!
//! The timeout that is set on a socket holds for each call, so a peer that reads or writes byte by byte could
//! make a request last for ever. The deadline is looked at after each call that did not do all, and the timeout
//! of the socket is shortened only when much of the time is gone.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::Stream;
use super::timed_out;
use crate::sentinel::Lease;
use crate::{Address, Config, Error};

/// The system rounds the timeout of a socket up to its ticks of 1 to 10 ms, twice. Shorter waits than this use `poll`,
/// which is exact, at the cost of one more system call.
const EXACT_BELOW: Duration = Duration::from_millis(50);

/// A socket, and the timeout that is set on it.
#[derive(Debug)]
pub(super) struct TimedSocket {
    pub(super) socket: Stream,
    timeout: Option<Duration>,
    /// The server that sentinels have named for it.
    lease: Option<Arc<Lease>>,
}

/// The error that kept bytes from being written, and the number of those that were written.
pub(super) struct Unwritten {
    pub(super) error: io::Error,
    pub(super) written: usize,
}

impl TimedSocket {
    /// Connects by `deadline`.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub(super) fn connect(config: &Config, deadline: Instant) -> Result<Self, Error> {
        let lease = match &config.address {
            Address::Sentinel(sentinel) => Some(sentinel.find(config, deadline)?),
            _ => None,
        };
        let address = lease
            .as_ref()
            .map_or(&config.address, |lease| &lease.address);
        let socket = Stream::connect(config, address, deadline)?;
        if let Some(lease) = &lease {
            let held = lease.holds(&socket);
            held.map_err(|error| Error::connection(error, false))?;
        }
        let mut timed = Self {
            socket,
            timeout: None,
            lease,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        // The timeout of the handshake of TLS may still be set.
        let set = timed.force_timeout(Some(left));
        set.map_err(|error| Error::connection(error, false))?;
        Ok(timed)
    }

    /// The server that sentinels have named.
    pub(super) fn named_address(&self) -> Option<&Address> {
        self.lease.as_ref().map(|lease| &lease.address)
    }

    /// Gives the socket away, with this timeout.
    pub(super) fn into_socket(mut self, timeout: Option<Duration>) -> Result<Stream, Error> {
        let set = self.set_timeout(timeout);
        set.map_err(|error| Error::connection(error, false))?;
        Ok(self.socket)
    }

    /// Sets how long each read and write may block; it costs nothing if that is so already.
    #[inline]
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.timeout == timeout {
            return Ok(());
        }
        self.force_timeout(timeout)
    }

    fn force_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(timeout)?;
        self.timeout = timeout;
        Ok(())
    }

    /// Shortens the timeout if a call that begins now could last much longer than the deadline.
    ///
    /// # Errors
    /// `TimedOut` if the deadline has passed.
    pub(super) fn keep(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let Some(deadline) = deadline else {
            return Ok(());
        };
        let left = super::dial::remaining(deadline)?;
        if self.timeout.is_none_or(|timeout| left < timeout / 8 * 7) {
            self.force_timeout(Some(left))?;
        }
        Ok(())
    }

    /// Reads with one system call, or with two if the timeout is short. `WouldBlock` if nothing came in time, or within
    /// TLS only a part.
    #[inline]
    pub(super) fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(timeout) = self.timeout
            && timeout < EXACT_BELOW
            && !self.socket.has_plaintext()
        {
            wait_for(&self.socket, timeout)?;
        }
        let read = self.socket.read_some(buf);
        if let (Ok(0), Some(lease)) = (&read, &self.lease)
            && let Some(reason) = lease.end_reason()
        {
            return Err(reason);
        }
        read
    }

    /// Waits up to `patience` until there is something to read. An error counts as something: reading returns it.
    pub(super) fn is_readable_within(&mut self, patience: Duration) -> bool {
        let is_silent = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.socket.has_plaintext()
            || !wait_for(&self.socket, patience).is_err_and(|error| is_silent(&error))
    }

    /// Writes all of the bytes by the deadline.
    // See `Connection::write_out`.
    #[inline(always)]
    pub(super) fn write_all(
        &mut self,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<(), Unwritten> {
        let mut written = 0;
        loop {
            match self.socket.write_some(&bytes[written..]) {
                Ok(0) if written < bytes.len() && !self.socket.has_unsent() => {
                    let error = io::ErrorKind::WriteZero.into();
                    return Err(Unwritten { error, written });
                }
                Ok(more) => written += more,
                Err(error) if timed_out(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Unwritten { error, written }),
            }
            if written == bytes.len() && !self.socket.has_unsent() {
                return Ok(());
            }
            if let Err(error) = self.keep(deadline) {
                return Err(Unwritten { error, written });
            }
        }
    }
}

/// Waits until there is something to read; `WouldBlock` if nothing comes within `timeout`.
#[cold]
fn wait_for(socket: &Stream, timeout: Duration) -> io::Result<()> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref())? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}
