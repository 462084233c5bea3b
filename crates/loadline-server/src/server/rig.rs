//! Tests drive the event loop turn by turn, over unix sockets, where what was written can be read at once.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::Durability;
use crate::listen::Listen;

/// A server that is driven turn by turn. Its syncs hang from [`hang`](Self::hang) on.
pub(super) struct Rig {
    pub(super) server: Server,
    pub(super) dir: tempfile::TempDir,
    pub(super) events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl Rig {
    /// One with a log, whose replies wait for the disk.
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = ServerConfig {
            dir: Some(dir.path().join("data")),
            durability: Durability::Always,
            ..ServerConfig::default()
        };
        Self::with(dir, config)
    }

    pub(super) fn in_memory() -> Self {
        Self::with(tempfile::tempdir().unwrap(), ServerConfig::default())
    }

    fn with(dir: tempfile::TempDir, config: ServerConfig) -> Self {
        let config = ServerConfig {
            listen: vec![Listen::Unix(dir.path().join("socket"))],
            ..config
        };
        Self {
            server: Server::bind(config).unwrap(),
            dir,
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; READ_BYTES],
        }
    }

    /// One that hangs after a first write, with a connection.
    pub(super) fn hanging() -> (Self, UnixStream) {
        let mut rig = Self::new();
        let mut stream = rig.connect();
        rig.send(&mut stream, "SET k old");
        rig.until_said(&mut stream, "+OK\r\n");
        rig.hang();
        (rig, stream)
    }

    pub(super) fn connect(&mut self) -> UnixStream {
        let stream = UnixStream::connect(self.dir.path().join("socket")).unwrap();
        stream.set_nonblocking(true).unwrap();
        let before = self.server.shared.next_id;
        while self.server.shared.next_id == before {
            self.turn();
        }
        stream
    }

    pub(super) fn turn(&mut self) {
        self.server
            .turn(&AtomicBool::new(false), &mut self.events, &mut self.buffer)
            .unwrap();
    }

    /// Sends a line, which is read in one turn.
    pub(super) fn send(&mut self, stream: &mut UnixStream, line: &str) {
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.turn();
    }

    pub(super) fn until_said(&mut self, stream: &mut UnixStream, expected: &str) {
        let mut text = said(stream);
        while text != expected {
            assert!(expected.starts_with(&text), "{text}");
            self.turn();
            text += &said(stream);
        }
    }

    pub(super) fn persistence(&mut self) -> &mut Persistence {
        self.server.shared.persistence.as_mut().unwrap()
    }

    /// No sync reaches further than what is written now.
    pub(super) fn hang(&mut self) {
        let persistence = self.persistence();
        persistence.hangs_at = Some(persistence.log.position());
    }

    /// The sync ends.
    pub(super) fn go_on(&mut self) {
        let persistence = self.persistence();
        persistence.log.sync().unwrap();
        persistence.hangs_at = None;
        self.server.answer(false);
    }
}

/// The bytes that have arrived. The end of the stream is shown as `(end)`.
pub(super) fn said(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    let end = match stream.read_to_end(&mut bytes) {
        Ok(_) => "(end)",
        Err(error) if error.kind() == ErrorKind::WouldBlock => "",
        Err(error) => panic!("{error}"),
    };
    String::from_utf8(bytes).unwrap() + end
}
