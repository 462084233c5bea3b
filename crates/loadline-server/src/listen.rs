//! Where a server listens, and what it allows.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};

use crate::Error;
use crate::settings::Eviction;
use crate::state::Origin;

/// A place to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket in the file system, removed again at the end.
    Unix(PathBuf),
}

/// Connections that may wait to be taken in; the system has a bound of its own. The standard library has
/// 128, and where more come at once, some have to try again after a second.
const BACKLOG: i32 = 4096;

/// How long a peer may be silent before it is asked whether it is there.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// What every command does beyond its own work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// Time that it keeps the CPU busy.
    pub burn: Duration,
    /// Rounds of a loop of a few instructions; a count of instructions finds them, a clock does not.
    pub work: u32,
}

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Password of the default user; without one no client has to authenticate.
    pub password: Option<String>,
    /// Connections at a time.
    pub max_clients: usize,
    /// Bytes that a connection may hold: of an incomplete request, of requests that wait until the replies
    /// to those before are read, and of the commands and keys of a transaction. One that sends more is
    /// closed.
    pub max_request_bytes: usize,
    /// Bytes of replies that wait for a connection at most. Requests that come while some wait are executed
    /// later, so that it takes one command (or transaction) with a larger reply to get there; its
    /// connection is closed.
    pub max_output_bytes: usize,
    /// Bytes of data at which `eviction` begins; 0 for no limit. CONFIG SET can change both.
    pub max_memory_bytes: u64,
    /// What happens at that limit.
    pub eviction: Eviction,
    /// A slowdown that is known, to see whether a measurement finds it.
    pub slowdown: Option<Slowdown>,
    /// Receives what an operator should know of while the server runs, one sentence at a time. The default
    /// discards it.
    pub on_warning: fn(&str),
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            password: None,
            max_clients: 10_000,
            max_request_bytes: 1 << 30,
            max_output_bytes: 1 << 30,
            max_memory_bytes: 0,
            eviction: Eviction::None,
            slowdown: None,
            on_warning: |_| {},
        }
    }
}

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(crate) fn bind(listen: &Listen, password: bool) -> Result<Self, Error> {
        let bound = match listen {
            Listen::Tcp(address) if !password && !address.ip().is_loopback() => {
                return Err(Error::Unprotected { address: *address });
            }
            Listen::Tcp(address) => TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Self::Tcp(listener))
            }),
            Listen::Unix(path) => bind_unix(path).and_then(|listener| {
                listener.set_nonblocking(true)?;
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Self::Unix(listener, path.clone()))
            }),
        };
        bound.map_err(|source| {
            let place = match listen {
                Listen::Tcp(address) => address.to_string(),
                Listen::Unix(path) => path.display().to_string(),
            };
            Error::Listen { place, source }
        })
    }

    /// Accepts a connection; `WouldBlock` when none is waiting.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                Ok(Stream::Tcp(stream))
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
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // It can be gone already, which is fine.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens on a socket in the file system. A server that was killed leaves its socket behind: one that
/// refuses connections belongs to no process and is replaced.
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

/// Has the kernel ask a silent peer whether it is still there, or one whose machine is gone would hold
/// its place and its memory for good. The times are those of Redis.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEP_ALIVE)?;
    set_tcp_keepintvl(stream, KEEP_ALIVE / 3)?;
    set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Where the connection comes from and where it arrived, as CLIENT LIST shows it.
    pub(crate) fn origin(&self) -> Origin {
        let shown = |address: io::Result<SocketAddr>| {
            address.map_or_else(|_| "?:0".into(), |address| address.to_string())
        };
        match self {
            Self::Tcp(stream) => Origin {
                address: shown(stream.peer_addr()),
                local_address: shown(stream.local_addr()),
                fd: stream.as_raw_fd(),
                is_unix: false,
            },
            Self::Unix(stream) => {
                let path = stream.local_addr().ok();
                let path = path.as_ref().and_then(|address| address.as_pathname());
                let place = path.map_or_else(|| "?".into(), |path| path.display().to_string());
                Origin {
                    address: format!("{place}:0"),
                    local_address: format!("{place}:0"),
                    fd: stream.as_raw_fd(),
                    is_unix: true,
                }
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
