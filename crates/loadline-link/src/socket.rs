//! Listening and connecting sockets.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    getsockname, listen, socket_with, sockopt,
};

use crate::Error;
use crate::address::Address;

/// A listening socket. Dropping it removes the file of a unix socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    /// The bound address, with the port that the kernel chose.
    pub(crate) address: Address,
    keeps_file: bool,
}

/// Number of connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 1_024;

impl Listener {
    pub(crate) fn bind(address: &Address) -> Result<Self, Error> {
        Self::try_bind(address).map_err(|errno| Error::Listen {
            address: address.clone(),
            source: errno.into(),
        })
    }

    fn try_bind(address: &Address) -> Result<Self, Errno> {
        let fd = socket(address)?;
        let address = match address {
            Address::Tcp(tcp) => {
                sockopt::set_socket_reuseaddr(&fd, true)?;
                bind(&fd, tcp)?;
                Address::Tcp(SocketAddr::try_from(getsockname(&fd)?)?)
            }
            Address::Unix(path) => {
                remove_stale_socket(path);
                bind(&fd, &SocketAddrUnix::new(path)?)?;
                address.clone()
            }
        };
        listen(&fd, BACKLOG)?;
        Ok(Self {
            fd,
            address,
            keeps_file: false,
        })
    }

    /// Leaves the file of a unix socket in place, so that connecting is refused instead of failing with a
    /// missing file.
    pub(crate) fn keep_file(&mut self) {
        self.keeps_file = true;
    }

    /// Accepts the next connection; fails with [`Errno::AGAIN`] if none is pending.
    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        let stream = accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        if matches!(self.address, Address::Tcp(_)) {
            sockopt::set_tcp_nodelay(&stream, true)?;
        }
        Ok(stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address
            && !self.keeps_file
        {
            remove_stale_socket(path);
        }
    }
}

/// Starts to connect. The socket becomes writable or reports an error once the attempt ends.
pub(crate) fn start_connecting(address: &Address) -> Result<OwnedFd, Errno> {
    let fd = socket(address)?;
    let connecting = match address {
        Address::Tcp(tcp) => {
            sockopt::set_tcp_nodelay(&fd, true)?;
            connect(&fd, tcp)
        }
        Address::Unix(path) => connect(&fd, &SocketAddrUnix::new(path)?),
    };
    match connecting {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    }
}

/// A socket that does not block, for an address of this kind.
fn socket(address: &Address) -> Result<OwnedFd, Errno> {
    let family = match address {
        Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Removes a stale socket file. Leaves any other file in place, and binding to it then fails.
fn remove_stale_socket(path: &Path) {
    let is_socket = path
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket {
        // If it cannot be removed, binding reports the reason.
        let _ = std::fs::remove_file(path);
    }
}
