//! Listening sockets and the configuration of the server.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};

use crate::settings::{DebugCommand, Eviction};
use crate::stream::Stream;
use crate::tls::{Encrypted, Tls};
use crate::{Durability, Error};

/// An address to listen on.
#[derive(Debug, Clone)]
pub enum Listen {
    /// A TCP address; port 0 selects a free port.
    Tcp(SocketAddr),
    /// A TCP address for encrypted connections, by [`ServerConfig::tls`].
    Tls(SocketAddr),
    /// A unix socket, removed when the server ends.
    Unix(PathBuf),
}

/// The most connections waiting to be accepted; the system has its own limit. With the standard library's
/// 128, some of many simultaneous connections would retry after a second.
const BACKLOG: i32 = 4096;

/// Silence of a peer after which the kernel probes it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The addresses to listen on.
    pub listen: Vec<Listen>,
    /// The certificates of encrypted connections. Without them, there are none.
    pub tls: Option<Tls>,
    /// The password of the default user; without one, clients do not have to authenticate.
    pub password: Option<String>,
    /// The file of users that ACL LOAD reads and ACL SAVE writes. It is read at the start, and must be there.
    pub acl_file: Option<PathBuf>,
    /// The most connections at a time.
    pub max_clients: usize,
    /// The longest time from the acceptance of an encrypted connection to the end of its handshake. A connection
    /// that exceeds it is closed.
    pub handshake_timeout: Duration,
    /// The most bytes that a connection can hold in an incomplete request, in requests that wait for earlier
    /// replies to be read, and in the commands and keys of a transaction. A connection that exceeds it is
    /// closed.
    pub max_request_bytes: usize,
    /// The most bytes of pending replies per connection. Requests wait while replies are pending, so only a
    /// single command or transaction with a larger reply can exceed it; its connection is then closed.
    pub max_output_bytes: usize,
    /// The directory of the log; without one the data is in memory only.
    pub dir: Option<PathBuf>,
    /// Durability of a change when its reply leaves; without a directory it has no effect.
    pub durability: Durability,
    /// The data size in bytes at which `eviction` starts; 0 for no limit. CONFIG SET can change both.
    pub max_memory_bytes: u64,
    /// The eviction policy at that limit.
    pub eviction: Eviction,
    /// The clients that can call DEBUG.
    pub debug_command: DebugCommand,
    /// A known slowdown, to test whether a measurement detects it.
    #[cfg(feature = "slowdown")]
    pub slowdown: Option<crate::Slowdown>,
    /// Receives warnings for the operator while the server runs, one sentence each. The default discards
    /// them.
    pub on_warning: fn(&str),
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            tls: None,
            password: None,
            acl_file: None,
            max_clients: 10_000,
            handshake_timeout: Duration::from_secs(10),
            max_request_bytes: 1 << 30,
            max_output_bytes: 1 << 30,
            dir: None,
            durability: Durability::default(),
            max_memory_bytes: 0,
            eviction: Eviction::None,
            debug_command: DebugCommand::No,
            #[cfg(feature = "slowdown")]
            slowdown: None,
            on_warning: |_| {},
        }
    }
}

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(crate) fn bind(listen: &Listen, config: &ServerConfig) -> Result<Self, Error> {
        let bound = match listen {
            Listen::Tcp(address) | Listen::Tls(address)
                if config.password.is_none() && !address.ip().is_loopback() =>
            {
                return Err(Error::Unprotected { address: *address });
            }
            Listen::Tcp(address) => bind_tcp(*address).map(Self::Tcp),
            Listen::Tls(_) if config.tls.is_none() => Err(io::Error::other(
                "there is no certificate for its connections",
            )),
            Listen::Tls(address) => bind_tcp(*address).map(Self::Tls),
            Listen::Unix(path) => bind_unix(path).and_then(|listener| {
                listener.set_nonblocking(true)?;
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Self::Unix(listener, path.clone()))
            }),
        };
        bound.map_err(|source| {
            let place = match listen {
                Listen::Tcp(address) | Listen::Tls(address) => address.to_string(),
                Listen::Unix(path) => path.display().to_string(),
            };
            Error::Listen { place, source }
        })
    }

    /// Accepts a connection, an encrypted one with the certificate of `tls`; `WouldBlock` when none is waiting.
    pub(crate) fn accept(&self, tls: Option<&Tls>) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => accept_tcp(listener).map(Stream::Tcp),
            Self::Tls(listener) => {
                let socket = accept_tcp(listener)?;
                let tls = tls.ok_or(io::ErrorKind::ConnectionAborted)?;
                let encrypted = Encrypted::new(socket, Arc::clone(&tls.config));
                Ok(Stream::Tls(Box::new(encrypted?)))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
        }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // It can already be gone, which is fine.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn accept_tcp(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    Ok(stream)
}

/// Listens on a unix socket. A killed server leaves its socket file behind; a socket that refuses connections
/// belongs to no process and is replaced.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let refusal = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        bound => return bound,
    };
    let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
    let is_left_behind = is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !is_left_behind {
        return Err(refusal);
    }
    std::fs::remove_file(path)?;
    UnixListener::bind(path)
}

/// Makes the kernel probe a silent peer. Without it, a peer whose machine is gone would keep its connection
/// and memory forever. The times are those of Redis.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEP_ALIVE)?;
    set_tcp_keepintvl(stream, KEEP_ALIVE / 3)?;
    set_tcp_keepcnt(stream, 3)?;
    Ok(())
}
