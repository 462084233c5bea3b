//! `null-server`: listens on a free loopback port, prints where, and answers until its standard input
//! ends, so that it never outlives who started it. One thread; all replies to one read are one write.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use null_server::answer;
use rustix::event::epoll;

/// The most that one read takes.
const READ_BYTES: usize = 256 << 10;
/// Bytes of one request that are kept at most while its end has not come.
const LONGEST_REQUEST: usize = 1 << 30;
const STANDARD_INPUT: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

const CONNECTION: epoll::EventFlags = epoll::EventFlags::IN
    .union(epoll::EventFlags::OUT)
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);
/// The other side sends no more.
const ENDED: epoll::EventFlags = epoll::EventFlags::HUP
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ERR);

struct Connection {
    stream: TcpStream,
    /// The head of a request whose end has not come.
    partial: Vec<u8>,
    /// Replies that the socket did not take. While there are some nothing is read.
    owed: Vec<u8>,
    /// The other side sends no more; the end of what it sent has to be read yet.
    ended: bool,
}

fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let mut out = io::stdout();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    serve(&listener)
}

fn serve(listener: &TcpListener) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let input = io::stdin();
    watch(&epoll, listener, LISTENER, epoll::EventFlags::IN)?;
    watch(
        &epoll,
        &input,
        STANDARD_INPUT,
        epoll::EventFlags::IN | epoll::EventFlags::HUP,
    )?;
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; READ_BYTES];
    let mut replies = Vec::with_capacity(READ_BYTES);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => accept(&epoll, listener, &mut connections)?,
                STANDARD_INPUT if input.lock().read(&mut [0; 64])? == 0 => return Ok(()),
                STANDARD_INPUT => {}
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

fn watch(epoll: &OwnedFd, fd: impl AsFd, token: u64, flags: epoll::EventFlags) -> io::Result<()> {
    Ok(epoll::add(
        epoll,
        fd,
        epoll::EventData::new_u64(token),
        flags,
    )?)
}

fn accept(
    epoll: &OwnedFd,
    listener: &TcpListener,
    connections: &mut HashMap<u64, Connection>,
) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let token = stream.as_raw_fd() as u64;
        watch(epoll, &stream, token, CONNECTION)?;
        let connection = Connection {
            stream,
            partial: Vec::new(),
            owed: Vec::new(),
            ended: false,
        };
        connections.insert(token, connection);
    }
}

impl Connection {
    /// Takes what is there and answers it. An error ends the connection, and so does its end.
    ///
    /// # Errors
    /// The error of the socket, or that the bytes are no requests.
    fn turn(&mut self, buffer: &mut [u8], replies: &mut Vec<u8>) -> io::Result<()> {
        replies.clear();
        replies.append(&mut self.owed);
        loop {
            if !replies.is_empty() && !self.send(replies)? {
                return Ok(());
            }
            let bytes = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.take(&buffer[..bytes], replies)?;
            // A short read was the last but for the end, of which no other event will tell.
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
            match self.stream.write(&replies[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.owed.extend_from_slice(&replies[written..]);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        replies.clear();
        Ok(true)
    }

    fn take(&mut self, received: &[u8], replies: &mut Vec<u8>) -> io::Result<()> {
        let refused = |_| io::Error::from(io::ErrorKind::InvalidData);
        if self.partial.is_empty() {
            let used = answer(received, replies).map_err(refused)?;
            self.partial.extend_from_slice(&received[used..]);
            return Ok(());
        }
        self.partial.extend_from_slice(received);
        if self.partial.len() > LONGEST_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let used = answer(&self.partial, replies).map_err(refused)?;
        self.partial.drain(..used);
        Ok(())
    }
}
