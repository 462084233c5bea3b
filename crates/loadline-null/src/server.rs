//! The sockets of the server: one thread for all connections.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};

use crate::answers::{Answers, Reads};

/// The name of the thread, by which its CPU time is found.
pub const THREAD: &str = "null-server";

/// The most bytes of one read.
const READ_BYTES: usize = 256 << 10;
const UNTIL: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

const CONNECTION: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);
/// The peer sends no more.
const ENDED: EventFlags = EventFlags::HUP
    .union(EventFlags::RDHUP)
    .union(EventFlags::ERR);

/// A socket that accepts connections. Dropping it removes the file of a unix socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    place: Address,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listener {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// If no port is free.
    pub fn loopback() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let place = Address::Tcp(listener.local_addr()?);
        Self::of(listener.into(), place)
    }

    /// Listens on a unix socket.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let place = Address::Unix(path.to_owned());
        Self::of(UnixListener::bind(path)?.into(), place)
    }

    fn of(fd: OwnedFd, place: Address) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, place })
    }

    /// The address, if it is one of TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.place {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.place {
            // A file that is gone needs no removal.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A null server on a thread of its own. Dropping it ends the thread and its connections.
#[derive(Debug)]
pub struct NullServer {
    place: Address,
    /// The thread ends with the other end of this.
    until: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl NullServer {
    /// Starts a server on a free port of loopback.
    ///
    /// # Errors
    /// If no port is free or no thread can be started.
    pub fn start(reads: Reads) -> io::Result<Self> {
        Self::on(Listener::loopback()?, reads)
    }

    /// Starts a server on a listener.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn on(listener: Listener, reads: Reads) -> io::Result<Self> {
        let (until, end) = UnixStream::pair()?;
        let place = listener.place.clone();
        let thread = thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || serve(&listener, &end, &reads))?;
        Ok(Self {
            place,
            until: Some(until),
            thread: Some(thread),
        })
    }

    /// The address, if it listens on TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.place {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The path of the socket, if it listens on one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Address::Tcp(_) => None,
            Address::Unix(path) => Some(path),
        }
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and its connections end with it in any case.
            let _ = thread.join();
        }
    }
}

struct Connection {
    stream: OwnedFd,
    answers: Answers,
    /// Replies that the socket did not take. While there are some, nothing is read.
    owed: Vec<u8>,
    /// The peer sends no more, and the end of what it sent is still to be read.
    ended: bool,
}

/// Answers the connections of `listener` until the stream `until` ends.
///
/// # Errors
/// If the operating system refuses to wait or to accept.
pub fn serve(listener: &Listener, until: impl AsFd, reads: &Reads) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&epoll, &listener.fd, LISTENER, EventFlags::IN)?;
    watch(&epoll, &until, UNTIL, EventFlags::IN | EventFlags::HUP)?;
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; READ_BYTES];
    let mut replies = Vec::with_capacity(READ_BYTES);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => {
                    while let Some(stream) = accept(listener)? {
                        let token = stream.as_raw_fd() as u64;
                        watch(&epoll, &stream, token, CONNECTION)?;
                        connections.insert(token, Connection::new(stream, reads));
                    }
                }
                UNTIL if read(until.as_fd(), &mut [0; 64])? == 0 => return Ok(()),
                UNTIL => {}
                token => {
                    let Some(connection) = connections.get_mut(&token) else {
                        continue;
                    };
                    let flags = event.flags;
                    connection.ended |= flags.intersects(ENDED);
                    if connection.turn(&mut buffer, &mut replies).is_err() {
                        connections.remove(&token);
                    }
                }
            }
        }
    }
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, token: u64, flags: EventFlags) -> Result<(), Errno> {
    epoll::add(epoll, fd, EventData::new_u64(token), flags)
}

fn accept(listener: &Listener) -> io::Result<Option<OwnedFd>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = match accept_with(&listener.fd, flags) {
        Ok(stream) => stream,
        // A connection that ended before it was accepted is no reason to stop.
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if listener.address().is_some() {
        sockopt::set_tcp_nodelay(&stream, true)?;
    }
    Ok(Some(stream))
}

impl Connection {
    fn new(stream: OwnedFd, reads: &Reads) -> Self {
        Self {
            stream,
            answers: Answers::new(reads.clone()),
            owed: Vec::new(),
            ended: false,
        }
    }

    /// Reads and answers what has arrived. Any error ends the connection, and so does its end.
    fn turn(&mut self, buffer: &mut [u8], replies: &mut Vec<u8>) -> io::Result<()> {
        replies.clear();
        replies.append(&mut self.owed);
        loop {
            if !replies.is_empty() && !self.send(replies)? {
                return Ok(());
            }
            let bytes = match recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.answers
                .take(&buffer[..bytes], replies)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // A short read was the last one, except for the end, which causes no other event.
            if bytes < buffer.len() && !self.ended {
                if !replies.is_empty() {
                    self.send(replies)?;
                }
                return Ok(());
            }
        }
    }

    /// Whether the socket took everything. What it did not take is owed.
    fn send(&mut self, replies: &mut Vec<u8>) -> io::Result<bool> {
        let mut written = 0;
        while written < replies.len() {
            match send(&self.stream, &replies[written..], SendFlags::NOSIGNAL) {
                Ok(bytes) => written += bytes,
                Err(Errno::AGAIN) => {
                    self.owed.extend_from_slice(&replies[written..]);
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        replies.clear();
        Ok(true)
    }
}
