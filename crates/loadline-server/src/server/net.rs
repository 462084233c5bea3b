//! Sockets: listeners, connections, and the events of both.

use std::cell::{RefCell, RefMut};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{Shutdown, shutdown};
use rustix::time::Timespec;

use super::{EVENTS, WOKEN};
use crate::connection::{Bounds, Connection, Over};
use crate::listen::{Listener, ServerConfig};
use crate::others::{Nobody, Others};
use crate::state::Shared;
use crate::stream::Stream;

/// The reply to a connection from another machine while there is no password.
const PROTECTED: &[u8] = b"-DENIED The default user has no password, so connections are only accepted from this machine. Set one with CONFIG SET requirepass or ACL SETUSER from there.\r\n";

/// Bytes of one read while a script runs for long.
const READ_BYTES: usize = 16 << 10;
/// Rounds of events between two parts of a script that runs for long, as in Redis.
const ROUNDS: usize = 4;

/// The connections, by their tokens. A script that runs for long serves the others while its own is borrowed.
#[derive(Debug, Default)]
pub(super) struct Connections(HashMap<u64, RefCell<Connection>>);

impl Connections {
    /// A connection, unless its command is running.
    pub(super) fn borrow(&self, token: u64) -> Option<RefMut<'_, Connection>> {
        self.0.get(&token)?.try_borrow_mut().ok()
    }

    pub(super) fn get_mut(&mut self, token: &u64) -> Option<&mut Connection> {
        self.0.get_mut(token).map(RefCell::get_mut)
    }

    pub(super) fn contains_key(&self, token: &u64) -> bool {
        self.0.contains_key(token)
    }

    pub(super) fn insert(&mut self, token: u64, connection: Connection) {
        self.0.insert(token, RefCell::new(connection));
    }

    pub(super) fn remove(&mut self, token: u64) -> Option<Connection> {
        self.0.remove(&token).map(RefCell::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The tokens of the connections for which `is_wanted` returns true.
    pub(super) fn tokens_where(&mut self, is_wanted: impl Fn(&Connection) -> bool) -> Vec<u64> {
        let wanted = |(token, connection): (&u64, &mut RefCell<Connection>)| {
            is_wanted(connection.get_mut()).then_some(*token)
        };
        self.0.iter_mut().filter_map(wanted).collect()
    }
}

/// The sockets of the server.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) config: ServerConfig,
    pub(super) listeners: Vec<Listener>,
    pub(super) epoll: OwnedFd,
    pub(super) connections: Connections,
    /// Accepted connections that are not yet among the others.
    pub(super) newcomers: RefCell<HashMap<u64, Connection>>,
    /// Connections that were served during a script, and whether they are over.
    pub(super) served: RefCell<Vec<(u64, Result<(), Over>)>>,
}

impl Net {
    /// The token of a connection. Tokens from 0 on are those of the listeners, and ids begin with 1.
    pub(super) fn token_of(&self, id: u64) -> u64 {
        self.listeners.len() as u64 + id
    }

    /// Accepts the connections that wait. Returns whether accepting has to pause, because the process has no more file
    /// descriptors.
    pub(super) fn accept(&self, listener: usize, shared: &mut Shared) -> bool {
        loop {
            let clients = self.connections.len() + self.newcomers.borrow().len();
            match self.listeners[listener].accept(shared.tls.as_ref()) {
                Ok(stream) if clients >= self.config.max_clients => {
                    shared.stats.rejected_connections += 1;
                    stream.refuse(b"-ERR max number of clients reached\r\n");
                }
                // The password can have been removed since the start.
                Ok(stream) if shared.acl.is_unprotected() && !stream.origin().is_local => {
                    shared.stats.rejected_connections += 1;
                    stream.refuse(PROTECTED);
                }
                Ok(stream) => self.admit(stream, shared),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // A connection that closed before it was accepted must not stop the server.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => return true,
            }
        }
    }

    fn admit(&self, stream: Stream, shared: &mut Shared) {
        let bounds = Bounds {
            request_bytes: self.config.max_request_bytes,
            output_bytes: self.config.max_output_bytes,
        };
        let session = shared.session(stream.origin());
        let token = self.token_of(session.id);
        let data = EventData::new_u64(token);
        if epoll::add(&self.epoll, &stream, data, EventFlags::IN).is_err() {
            shared.peers.remove(&session.id);
            return;
        }
        shared.has_handshaking |= stream.is_handshaking();
        let connection = Connection::new(stream, session, bounds);
        let mut newcomers = self.newcomers.borrow_mut();
        newcomers.insert(token, connection);
        shared.stats.connections += 1;
        shared.clients = self.connections.len() + newcomers.len();
    }

    pub(super) fn listen(&self, interest: EventFlags) {
        for (token, listener) in self.listeners.iter().enumerate() {
            // It fails only for an unregistered file, and all of them are registered.
            let _ = epoll::modify(
                &self.epoll,
                listener,
                EventData::new_u64(token as u64),
                interest,
            );
        }
    }

    /// Waits for other events of a connection, if they are not those that it waits for.
    pub(super) fn await_events(
        &self,
        token: u64,
        connection: &mut Connection,
        interest: EventFlags,
    ) -> Result<(), Over> {
        // The usual case: no change, so no system call.
        if interest == connection.interest {
            return Ok(());
        }
        connection.interest = interest;
        let data = EventData::new_u64(token);
        epoll::modify(&self.epoll, &connection.stream, data, interest).map_err(|_| Over)
    }
}

/// The other connections while a script runs for long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meanwhile<'n> {
    pub(super) net: &'n Net,
    pub(super) stop: &'n AtomicBool,
    /// Connections whose requests were executed before the script.
    pub(super) turn: &'n [u64],
}

impl Others for Meanwhile<'_> {
    fn serve(&self, shared: &mut Shared) {
        if self.stop.load(Ordering::Relaxed) {
            shared.shut_down_in_script();
        }
        for token in self.turn {
            if let Some(mut connection) = self.net.connections.borrow(*token)
                && !connection.is_settled()
                && can_leave(&connection, shared)
            {
                self.answer(*token, &mut connection, shared, Ok(()));
            }
        }
        let mut buffer = vec![0; READ_BYTES];
        for _ in 0..ROUNDS {
            let mut events = Vec::with_capacity(EVENTS);
            let room = rustix::buffer::spare_capacity(&mut events);
            // An error would come again when the script has ended.
            if epoll::wait(&self.net.epoll, room, Some(&Timespec::default())).is_err() {
                return;
            }
            for event in &events {
                self.serve_event(*event, shared, &mut buffer);
            }
            if events.is_empty() || shared.shutdown {
                return;
            }
        }
    }
}

impl Meanwhile<'_> {
    fn serve_event(&self, event: epoll::Event, shared: &mut Shared, buffer: &mut [u8]) {
        let (token, net) = (event.data.u64(), self.net);
        if net.listeners.get(token as usize).is_some() {
            // Without file descriptors it tries again until the script has ended.
            net.accept(token as usize, shared);
        } else if let Some(newcomer) = net.newcomers.borrow_mut().get_mut(&token) {
            self.serve_one(token, newcomer, shared, buffer);
        } else if token != WOKEN
            && let Some(mut connection) = net.connections.borrow(token)
        {
            self.serve_one(token, &mut connection, shared, buffer);
        }
    }

    fn serve_one(
        &self,
        token: u64,
        connection: &mut Connection,
        shared: &mut Shared,
        buffer: &mut [u8],
    ) {
        let can_leave = can_leave(connection, shared);
        let received = connection.receive(shared, &Nobody, buffer);
        if can_leave || received.is_err() {
            self.answer(token, connection, shared, received);
        } else {
            self.net.served.borrow_mut().push((token, received));
        }
    }

    fn answer(
        &self,
        token: u64,
        connection: &mut Connection,
        shared: &mut Shared,
        received: Result<(), Over>,
    ) {
        let outcome = received.and_then(|()| {
            connection.settle(true, None, shared);
            let interest = connection.flush(shared)?;
            self.net.await_events(token, connection, interest)
        });
        if outcome.is_err() {
            // The peer sees the end at once. The server forgets the connection after the script.
            let _ = epoll::delete(&self.net.epoll, &connection.stream);
            let _ = shutdown(&connection.stream, Shutdown::Both);
        }
        self.net.served.borrow_mut().push((token, outcome));
    }
}

/// Whether the replies of a connection can leave while a script runs. Those that can depend on changes which are not in the log
/// yet wait for its end: the log gets the changes of a script as a whole.
fn can_leave(connection: &Connection, shared: &Shared) -> bool {
    let script = shared.long_script.as_ref();
    let comes_first = script.is_some_and(|script| script.comes_first);
    shared.persistence.is_none()
        || connection.is_settled()
        || comes_first && connection.is_independent()
}
