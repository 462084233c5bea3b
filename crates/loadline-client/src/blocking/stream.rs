//! The sockets of blocking connections.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use super::dial;
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
    /// Connects by `deadline`; every IP address that a name has is tried.
    pub(super) fn connect(
        config: &Config,
        address: &Address,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let lost = |error| Error::connection(error, false);
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix).map_err(lost),
            Address::Tcp { host, port } => dial::connect(config, host, *port, deadline)
                .map(Self::Tcp)
                .map_err(lost),
            #[cfg(feature = "tls")]
            Address::Tls { host, port } => {
                let session = config.tls.session(host)?;
                let socket = dial::connect(config, host, *port, deadline).map_err(lost)?;
                let mut stream = crate::tls::TlsStream::new(session, socket);
                shake_hands(&mut stream, deadline)
                    .map_err(|error| lost(crate::tls::explained(error)))?;
                Ok(Self::Tls(Box::new(stream)))
            }
            #[cfg(not(feature = "tls"))]
            Address::Tls { .. } => Err(Error::Tls(
                "this build of the client has no TLS (feature `tls`)".into(),
            )),
            Address::Sentinel(_) => unreachable!("sentinels name addresses of servers"),
        }
    }

    /// Sets the time for which each read and write may block from now on.
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

    /// Reads what is there, without waiting; `WouldBlock` if nothing is.
    pub(super) fn read_now(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let received = match self {
            Self::Tcp(socket) => recv(socket, buf, RecvFlags::DONTWAIT),
            Self::Unix(socket) => recv(socket, buf, RecvFlags::DONTWAIT),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let peek = RecvFlags::DONTWAIT | RecvFlags::PEEK;
                if !stream.has_plaintext() {
                    // Received bytes can be read without waiting, even if they are only a message within TLS.
                    recv(&stream.socket, &mut [0; 1][..], peek)?;
                }
                return stream.read_some(buf);
            }
        };
        received.map(|(bytes, _)| bytes).map_err(io::Error::from)
    }

    /// Reads with one system call. `WouldBlock` if nothing came in time, or within TLS only a part.
    #[inline]
    pub(super) fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read_some(buf),
            other => other.read(buf),
        }
    }

    /// Takes bytes, and writes with one system call; within TLS some of them may be held back.
    #[inline]
    pub(super) fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write_some(bytes),
            other => other.write(bytes),
        }
    }

    /// Whether bytes were taken and are held back.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, reason = "only TLS has buffers of its own")
    )]
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Self::Tls(stream) = self {
            return stream.session.wants_write();
        }
        false
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

#[cfg(feature = "tls")]
fn shake_hands(stream: &mut crate::tls::TlsStream<TcpStream>, deadline: Instant) -> io::Result<()> {
    // A peer can send byte by byte, so the deadline is looked at before each read and write.
    while stream.session.is_handshaking() || stream.session.wants_write() {
        let left = dial::remaining(deadline).map_err(|_| crate::conn::dial::no_answer())?;
        both(&stream.socket, Some(left))?;
        match stream.step() {
            Err(error) if super::timed_out(&error) => {}
            done => done?,
        }
    }
    Ok(())
}

fn both(socket: &TcpStream, timeout: Option<Duration>) -> io::Result<()> {
    socket.set_read_timeout(timeout)?;
    socket.set_write_timeout(timeout)
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
