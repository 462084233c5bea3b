//! Connections to a server, closed from here when the sentinels name another one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::net::{Shutdown, shutdown};

use super::Watch;
use crate::Address;
use crate::cluster::Node;

/// The address of a server for one connection, and its socket once there is one. The connection keeps it as long as it
/// lives; its end makes the sentinels be asked again.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) address: Address,
    pub(super) node: Node,
    watch: Arc<Watch>,
    socket: OnceLock<OwnedFd>,
    is_over: AtomicBool,
}

impl Lease {
    pub(super) fn new(address: Address, node: Node, watch: Arc<Watch>) -> Self {
        Self {
            address,
            node,
            watch,
            socket: OnceLock::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Hands over the socket of the connection, which is closed at once if the sentinels name another server by now.
    ///
    /// # Errors
    /// The operating system has no room for another handle of the socket.
    pub(crate) fn holds(self: &Arc<Self>, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        // A lease is for one socket, so it has none yet.
        let _ = self.socket.set(socket);
        self.watch.register(self);
        Ok(())
    }

    /// Ends the connection: reads and writes fail from now on, also those that wait.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(socket) = self.socket.get() {
            // A connection that has broken already is fine too.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// The reason why the connection has ended, if it has ended from here.
    pub(crate) fn end_reason(&self) -> Option<io::Error> {
        self.is_over.load(Ordering::Acquire).then(|| {
            let what = "the sentinels name another server, so the connection was closed";
            io::Error::new(io::ErrorKind::ConnectionAborted, what)
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            self.watch.lost();
        }
    }
}
