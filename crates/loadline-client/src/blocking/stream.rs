//! The sockets of blocking connections.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use crate::{Address, Config, Error};

/// The socket of a connection, with or without TLS. It blocks until it is set to do otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A socket in the file system.
    Unix(UnixStream),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::TlsStream<TcpStream>>),
}

impl Stream {
    /// Connects by `deadline`; every address that a name has is tried.
    pub(super) fn connect(config: &Config, deadline: Instant) -> Result<Self, Error> {
        let lost = |error| Error::connection(error, false);
        match &config.address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix).map_err(lost),
            Address::Tcp { host, port } => dial(host, *port, deadline).map(Self::Tcp).map_err(lost),
            #[cfg(feature = "tls")]
            Address::Tls { host, port } => {
                let session = config.tls.session(host)?;
                let socket = dial(host, *port, deadline).map_err(lost)?;
                let timeout = remaining(deadline).map_err(lost)?;
                socket.set_read_timeout(Some(timeout)).map_err(lost)?;
                let mut stream = crate::tls::TlsStream::new(session, socket);
                stream.shake_hands().map_err(lost)?;
                Ok(Self::Tls(Box::new(stream)))
            }
            #[cfg(not(feature = "tls"))]
            Address::Tls { .. } => Err(Error::Tls(
                "this build of the client has no TLS (feature `tls`)".into(),
            )),
        }
    }

    /// How long each read and write may block from now on.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        // Zero is refused by the standard library, and would be without end for the system.
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_micros(1)));
        match self {
            Self::Tcp(socket) => both(socket, timeout),
            Self::Unix(socket) => {
                socket.set_read_timeout(timeout)?;
                socket.set_write_timeout(timeout)
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => both(&stream.socket, timeout),
        }
    }

    /// What is there already, without waiting; `WouldBlock` where nothing is, or where this kind of stream
    /// cannot tell.
    pub(super) fn read_now(&self, buf: &mut [u8]) -> io::Result<usize> {
        let received = match self {
            Self::Tcp(socket) => recv(socket, buf, RecvFlags::DONTWAIT),
            Self::Unix(socket) => recv(socket, buf, RecvFlags::DONTWAIT),
            #[cfg(feature = "tls")]
            Self::Tls(_) => return Err(io::ErrorKind::WouldBlock.into()),
        };
        received.map(|(bytes, _)| bytes).map_err(io::Error::from)
    }
}

impl Stream {
    /// Whether there is something to read that the operating system does not know of any more.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, reason = "only TLS has buffers of its own")
    )]
    pub(super) fn has_plaintext(&mut self) -> bool {
        #[cfg(feature = "tls")]
        if let Self::Tls(stream) = self {
            return stream.has_plaintext();
        }
        false
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

fn both(socket: &TcpStream, timeout: Option<Duration>) -> io::Result<()> {
    socket.set_read_timeout(timeout)?;
    socket.set_write_timeout(timeout)
}

fn dial(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, remaining(deadline)?) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn remaining(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buf),
            Self::Unix(socket) => socket.read(buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(buf),
            Self::Unix(socket) => socket.write(buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            Self::Unix(socket) => socket.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
        }
    }
}
