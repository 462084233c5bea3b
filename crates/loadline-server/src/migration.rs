//! Keys on their way to another server, for MIGRATE: a thread sends them, so that other clients are served meanwhile.
//!
//! Commands that can change such a key wait until its migration has ended, as during a pause.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use hashbrown::HashSet;

use crate::waker::Waker;

/// The most migrations at a time. Further ones wait.
const MOST: usize = 16;

/// The longest reply of the other server that is read.
const LONGEST_REPLY: usize = 64 << 10;

/// The errors of Redis where the other server is not reached, or stops answering.
const CONNECTING: &str = "IOERR error or timeout connecting to the client";
const WRITING: &str = "IOERR error or timeout writing to target instance";
const READING: &str = "IOERR error or timeout reading from target instance";

/// Keys for another server.
#[derive(Debug)]
pub(crate) struct Errand {
    /// The client of the command.
    pub(crate) client: u64,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The longest time to connect, to write a part of the request, and to get a reply.
    pub(crate) timeout: Duration,
    /// AUTH and SELECT, each with one reply.
    pub(crate) greeting: Vec<u8>,
    pub(crate) greetings: usize,
    /// RESTORE for each key.
    pub(crate) restores: Vec<u8>,
    pub(crate) database: usize,
    pub(crate) keys: Vec<Vec<u8>>,
    /// Whether the keys stay.
    pub(crate) copies: bool,
}

/// The end of an errand.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) client: u64,
    pub(crate) database: usize,
    /// Keys that the other server has, and that do not stay.
    pub(crate) moved: Vec<Vec<u8>>,
    /// The error of the reply; `None` for `OK`.
    pub(crate) refusal: Option<String>,
}

/// All migrations.
#[derive(Debug)]
pub(crate) struct Migrations {
    /// The keys of each client.
    running: BTreeMap<u64, Vec<Vec<u8>>>,
    /// All of these keys, of whichever database.
    keys: HashSet<Vec<u8>>,
    sender: Sender<Ended>,
    receiver: Receiver<Ended>,
    /// Whether commands wait for the end of a migration.
    pub(crate) are_awaited: bool,
    /// Keys whose waiting clients were not served, since their commands would change a key on its way.
    pub(crate) unserved: BTreeSet<(usize, Vec<u8>)>,
}

impl Default for Migrations {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self {
            running: BTreeMap::new(),
            keys: HashSet::new(),
            sender,
            receiver,
            are_awaited: false,
            unserved: BTreeSet::new(),
        }
    }
}

impl Migrations {
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.running.is_empty()
    }

    pub(crate) fn are_full(&self) -> bool {
        self.running.len() >= MOST
    }

    /// Whether a key of any database with this name is on its way.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    /// Starts an errand.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn start(&mut self, errand: Errand, waker: Waker) -> io::Result<()> {
        let (client, keys) = (errand.client, errand.keys.clone());
        let sender = self.sender.clone();
        let thread = thread::Builder::new().name("loadline-migrate".to_owned());
        thread.spawn(move || {
            // The server can have ended.
            let _ = sender.send(errand.run());
            waker.wake();
        })?;
        self.keys.extend(keys.iter().cloned());
        self.running.insert(client, keys);
        Ok(())
    }

    /// The next migration that has ended. Its keys can be changed again.
    pub(crate) fn next_ended(&mut self) -> Option<Ended> {
        if self.are_none() {
            return None;
        }
        let ended = self.receiver.try_recv().ok()?;
        for key in self.running.remove(&ended.client).unwrap_or_default() {
            self.keys.remove(&key);
        }
        Some(ended)
    }
}

impl Errand {
    /// Sends everything and reads the replies.
    fn run(self) -> Ended {
        let mut moved = Vec::new();
        let refusal = self.send(&mut moved).err();
        if self.copies {
            moved.clear();
        }
        Ended {
            client: self.client,
            database: self.database,
            moved,
            refusal,
        }
    }

    /// Adds the keys to `moved` that the other server has taken.
    ///
    /// # Errors
    /// The reply of MIGRATE.
    fn send(&self, moved: &mut Vec<Vec<u8>>) -> Result<(), String> {
        let mut socket = self.connect().map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => CONNECTING,
            _ => WRITING,
        })?;
        let mut replies = Replies {
            timeout: self.timeout,
            bytes: Vec::new(),
        };
        socket.write_all(&self.greeting).map_err(|_| WRITING)?;
        for _ in 0..self.greetings {
            replies.next(&mut socket)??;
        }
        socket.write_all(&self.restores).map_err(|_| WRITING)?;
        let mut outcome = Ok(());
        for key in &self.keys {
            match replies.next(&mut socket)? {
                Ok(()) => moved.push(key.clone()),
                refused => outcome = outcome.and(refused),
            }
        }
        outcome
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let mut failure = io::ErrorKind::AddrNotAvailable.into();
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    socket.set_write_timeout(Some(self.timeout))?;
                    return Ok(socket);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// The replies of the other server, which are a line each.
#[derive(Debug)]
struct Replies {
    timeout: Duration,
    /// What was read behind the last reply.
    bytes: Vec<u8>,
}

impl Replies {
    /// The next reply: nothing, or the error of MIGRATE where it is an error.
    ///
    /// # Errors
    /// The error of MIGRATE where no reply comes in time.
    fn next(&mut self, socket: &mut TcpStream) -> Result<Result<(), String>, String> {
        let line = self.line(socket).map_err(|_| READING)?;
        match line.split_first() {
            Some((b'+', _)) => Ok(Ok(())),
            Some((b'-', text)) => {
                let text = String::from_utf8_lossy(text);
                let text = format!("ERR Target instance replied with error: {text}");
                Ok(Err(text))
            }
            _ => Err(READING.to_owned()),
        }
    }

    /// The next line without its end.
    fn line(&mut self, socket: &mut TcpStream) -> io::Result<Vec<u8>> {
        let begun = Instant::now();
        let mut part = [0; 4_096];
        let mut seen = 0;
        loop {
            if let Some(end) = self.bytes[seen..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.bytes.drain(..=seen + end).collect();
                line.truncate(line.trim_ascii_end().len());
                return Ok(line);
            }
            seen = self.bytes.len();
            let left = self.timeout.saturating_sub(begun.elapsed());
            if left.is_zero() || seen > LONGEST_REPLY {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            match socket.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.bytes.extend_from_slice(&part[..bytes]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The end of an errand of two keys to a server with these replies, which it sends in parts and closes after.
    fn end_after(replies: &[&[u8]], timeout: Duration) -> Ended {
        let replies: Vec<Vec<u8>> = replies.iter().map(|part| part.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            for part in replies {
                // The other side can have closed.
                let _ = socket.write_all(&part);
            }
            let _ = socket.shutdown(std::net::Shutdown::Write);
            // The end of the errand.
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let errand = Errand {
            client: 7,
            host: "localhost".to_owned(),
            port,
            timeout,
            greeting: b"hello".to_vec(),
            greetings: 1,
            restores: b"two".to_vec(),
            database: 3,
            keys: vec![b"a".to_vec(), b"b".to_vec()],
            copies: false,
        };
        let ended = errand.run();
        other.join().unwrap();
        ended
    }

    #[test]
    fn keys_count_as_moved_only_with_a_reply() {
        const LONG: Duration = Duration::from_secs(60);
        let refused = "ERR Target instance replied with error: ERR x";
        for (replies, moved, refusal) in [
            (
                &[&b"+OK\r\n+O"[..], b"K\r\n+OK\r\n"][..],
                &["a", "b"][..],
                None,
            ),
            (&[b"+OK\r\n-ERR x\r\n+OK\r\n"], &["b"], Some(refused)),
            (&[b"-ERR x\r\n+OK\r\n+OK\r\n"], &[], Some(refused)),
            (&[b"+OK\r\n+OK\r\n+OK"], &["a"], Some(READING)),
            (&[b"+OK\r\n$1\r\n"], &[], Some(READING)),
            (&[&[b'+'; 3 * LONGEST_REPLY]], &[], Some(READING)),
            (&[], &[], Some(READING)),
        ] {
            let ended = end_after(replies, LONG);
            let moved: Vec<Vec<u8>> = moved.iter().map(|key| key.as_bytes().to_vec()).collect();
            assert_eq!((ended.moved, ended.refusal.as_deref()), (moved, refusal));
        }
    }
}
