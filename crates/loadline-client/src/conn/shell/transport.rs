//! The sockets of tokio: reads and writes that do not wait, with or without TLS.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
#[cfg(feature = "tls")]
use tokio::time::timeout_at;

use crate::conn::dial;
use crate::sentinel::Lease;
use crate::{Address, Config, Error};

/// A socket of tokio's.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: AnySocket,
    /// The server that sentinels have named for it.
    lease: Option<Arc<Lease>>,
}

#[derive(Debug)]
enum AnySocket {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::TlsStream<tls::Socket>>),
}

impl Transport {
    /// Connects, and does the handshake of TLS.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub(crate) async fn connect(config: &Config, deadline: Instant) -> Result<Self, Error> {
        let Address::Sentinel(sentinel) = &config.address else {
            let socket = AnySocket::connect(config, &config.address, deadline).await?;
            return Ok(Self {
                socket,
                lease: None,
            });
        };
        let lease = sentinel.find_async(config).await?;
        let socket = AnySocket::connect(config, &lease.address, deadline).await?;
        let held = lease.holds(socket.as_fd());
        held.map_err(|error| Error::connection(error, false))?;
        let lease = Some(lease);
        Ok(Self { socket, lease })
    }

    /// The server that sentinels have named.
    pub(crate) fn named_address(&self) -> Option<&Address> {
        self.lease.as_ref().map(|lease| &lease.address)
    }

    /// Reads into `buf`; see [`AnySocket::poll_read`].
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = self.socket.poll_read(cx, buf);
        if let (Poll::Ready(Ok(0)), Some(lease)) = (&read, &self.lease)
            && let Some(reason) = lease.end_reason()
        {
            return Poll::Ready(Err(reason));
        }
        read
    }

    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_write(cx, bytes)
    }

    /// Sends what was taken and is still held back, which only TLS does.
    #[inline]
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_flush(cx)
    }
}

impl AnySocket {
    async fn connect(config: &Config, address: &Address, deadline: Instant) -> Result<Self, Error> {
        let lost = |error| Error::connection(error, false);
        match address {
            Address::Unix(path) => {
                let socket = UnixStream::connect(path).await.map_err(lost)?;
                Ok(Self::Unix(socket))
            }
            Address::Tcp { host, port } => {
                let socket = dial(config, host, *port, deadline).await.map_err(lost)?;
                Ok(Self::Tcp(socket))
            }
            #[cfg(feature = "tls")]
            Address::Tls { host, port } => {
                let session = config.tls.session(host)?;
                let socket = dial(config, host, *port, deadline).await.map_err(lost)?;
                let stream = tls::handshake(session, socket);
                let stream = match timeout_at(deadline.into(), stream).await {
                    Ok(stream) => stream,
                    Err(_) => Err(dial::no_answer()),
                };
                let stream = stream.map_err(|error| lost(crate::tls::explained(error)))?;
                Ok(Self::Tls(Box::new(stream)))
            }
            #[cfg(not(feature = "tls"))]
            Address::Tls { .. } => Err(Error::Tls(
                "this build of the client has no TLS (feature `tls`)".into(),
            )),
            Address::Sentinel(_) => unreachable!("sentinels name addresses of servers"),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.socket.as_fd(),
        }
    }

    /// Reads into `buf`. After a read that did not fill it, the next one waits for news of the socket and
    /// makes no system call, since nothing can be left to read.
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        let read = match self {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, &mut buf),
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, &mut buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => return tls::poll_read(stream, cx, buf.initialize_unfilled()),
        };
        read.map_ok(|()| buf.filled().len())
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => tls::poll_write(stream, cx, bytes),
        }
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => {
                let _ = cx;
                Poll::Ready(Ok(()))
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => tls::poll_flush(stream, cx),
        }
    }
}

/// Connects to the first address of a host that answers within its share of the time.
async fn dial(config: &Config, host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let addresses = dial::in_order(tokio::net::lookup_host((host, port)).await?);
    let mut last = dial::no_address();
    for (tried, address) in addresses.iter().enumerate() {
        let share = dial::share(deadline, addresses.len() - tried);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                dial::prepare(&socket, config)?;
                return Ok(socket);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = dial::no_answer(),
        }
    }
    Err(last)
}

#[cfg(feature = "tls")]
mod tls {
    use std::io::{self, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::task::{Context, Poll, ready};

    use rustls::ClientConnection;
    use tokio::net::TcpStream;

    use crate::tls::TlsStream;

    /// A socket as rustls wants it: it reads and writes what it can at once, or says `WouldBlock`.
    #[derive(Debug)]
    pub(crate) struct Socket(TcpStream);

    impl AsFd for Socket {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Read for Socket {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.try_read(buf)
        }
    }

    impl Write for Socket {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.try_write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type Stream = TlsStream<Socket>;

    pub(crate) async fn handshake(
        session: ClientConnection,
        socket: TcpStream,
    ) -> io::Result<Stream> {
        let mut stream = TlsStream::new(session, Socket(socket));
        loop {
            match stream.shake_hands() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done.map(|()| stream),
            }
            if stream.session.wants_write() {
                stream.socket.0.writable().await?;
            } else {
                stream.socket.0.readable().await?;
            }
        }
    }

    pub(crate) fn poll_read(
        stream: &mut Stream,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match stream.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(stream.socket.0.poll_read_ready(cx))?;
        }
    }

    pub(crate) fn poll_write(
        stream: &mut Stream,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(stream.socket.0.poll_write_ready(cx))?;
        }
    }

    pub(crate) fn poll_flush(stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match stream.send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(stream.socket.0.poll_write_ready(cx))?;
        }
    }
}
