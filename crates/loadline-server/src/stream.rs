//! The socket of a connection, with or without encryption.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, shutdown};

use crate::peer::Origin;
use crate::tls::Encrypted;

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<Encrypted>),
    Unix(UnixStream),
}

impl Stream {
    /// Reads once; for an encrypted connection, as far as the socket and the buffer permit.
    ///
    /// # Errors
    /// `AGAIN` when nothing is there yet, the error of the socket, or `PROTO` after an error of TLS.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Tcp(stream) => rustix::io::read(stream, buffer),
            Self::Unix(stream) => rustix::io::read(stream, buffer),
            Self::Tls(encrypted) => encrypted.read(buffer),
        }
    }

    /// Writes parts in their order and returns the number of bytes that were taken. Encrypted bytes that were
    /// taken can still have to be [sent](Self::send).
    ///
    /// # Errors
    /// `AGAIN` when nothing can be taken, or the error of the socket.
    pub(crate) fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match (self, parts) {
            (Self::Tcp(stream), [part]) => rustix::io::write(stream, part),
            (Self::Unix(stream), [part]) => rustix::io::write(stream, part),
            (Self::Tcp(stream), parts) => rustix::io::writev(stream, parts),
            (Self::Unix(stream), parts) => rustix::io::writev(stream, parts),
            (Self::Tls(encrypted), parts) => encrypted.write(parts),
        }
    }

    /// Sends what is encrypted already.
    ///
    /// # Errors
    /// `AGAIN` when a part is left, or the error of the socket.
    pub(crate) fn send(&mut self) -> Result<(), Errno> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(encrypted) => encrypted.send(),
        }
    }

    /// Whether decrypted bytes or the end of the peer wait to be read, for which there may be no event of the socket.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(encrypted) => encrypted.has_more(),
        }
    }

    /// Whether the peer has gone. Nothing that it sent is taken out.
    pub(crate) fn is_abandoned(&mut self) -> bool {
        if let Self::Tls(encrypted) = self {
            return encrypted.is_abandoned();
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.as_fd(), &mut [0; 1], flags) {
            Ok((_, bytes)) => bytes == 0,
            Err(errno) => errno != Errno::AGAIN && errno != Errno::INTR,
        }
    }

    /// Ends the direction to the peer.
    ///
    /// # Errors
    /// The error of the socket.
    pub(crate) fn end(&mut self) -> Result<(), Errno> {
        if let Self::Tls(encrypted) = self {
            encrypted.say_goodbye();
        }
        shutdown(self.as_fd(), Shutdown::Write)
    }

    /// Sends a last error to a peer that is not served. One that expects encryption only sees the end.
    pub(crate) fn refuse(&self, error: &[u8]) {
        // It is gone in any case.
        let _ = match self {
            Self::Tcp(stream) => rustix::io::write(stream, error),
            Self::Unix(stream) => rustix::io::write(stream, error),
            Self::Tls(_) => Ok(0),
        };
    }

    /// Whether a handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(encrypted) if encrypted.is_handshaking())
    }

    /// Whether a handshake takes longer than `timeout`.
    pub(crate) fn is_overdue(&self, timeout: Duration) -> bool {
        matches!(self, Self::Tls(encrypted) if encrypted.is_overdue(timeout))
    }

    /// Bytes of memory of the encryption, without its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) => 0,
            Self::Tls(_) => size_of::<Encrypted>(),
        }
    }

    /// The remote and local address of the connection, as CLIENT LIST shows them.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Tcp(stream) => tcp_origin(stream),
            Self::Tls(encrypted) => tcp_origin(encrypted.socket()),
            Self::Unix(stream) => {
                let path = stream.local_addr().ok();
                let path = path.as_ref().and_then(|address| address.as_pathname());
                let place = path.map_or_else(|| "?".into(), |path| path.display().to_string());
                Origin {
                    address: format!("{place}:0"),
                    local_address: format!("{place}:0"),
                    fd: stream.as_raw_fd(),
                    is_unix: true,
                    is_local: true,
                }
            }
        }
    }
}

fn tcp_origin(stream: &TcpStream) -> Origin {
    let shown = |address: io::Result<SocketAddr>| {
        address.map_or_else(|_| "?:0".into(), |address| address.to_string())
    };
    let peer = stream.peer_addr();
    Origin {
        is_local: peer
            .as_ref()
            .is_ok_and(|peer| peer.ip().to_canonical().is_loopback()),
        address: shown(peer),
        local_address: shown(stream.local_addr()),
        fd: stream.as_raw_fd(),
        is_unix: false,
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(encrypted) => encrypted.socket().as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
