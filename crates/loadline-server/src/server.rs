//! The event loop.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::Error;
use crate::connection::{Bounds, Connection, Next};
use crate::listen::{Listener, ServerConfig};
use crate::state::{Shared, wall_ms};

const READ_BYTES: usize = 64 << 10;
const EVENTS: usize = 256;
/// The longest the loop sleeps: expired keys are looked for as often, and the stop is noticed.
const LONGEST_SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Shards per database that are swept for expired keys in a turn that finds time for it.
const SWEEP_SHARDS: usize = 16;
const SWEEP_EVERY_MS: u64 = 100;

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    listeners: Vec<Listener>,
    epoll: OwnedFd,
    connections: HashMap<u64, Connection>,
    shared: Shared,
    next_token: u64,
    swept_at: u64,
}

impl Server {
    /// Listens where `config` says.
    ///
    /// # Errors
    /// [`Error::Unprotected`] for an address that other machines reach without a password,
    /// [`Error::Nowhere`] without any place, [`Error::Listen`] where a place is taken.
    pub fn bind(config: ServerConfig) -> Result<Self, Error> {
        if config.listen.is_empty() {
            return Err(Error::Nowhere);
        }
        let listeners = config
            .listen
            .iter()
            .map(|listen| Listener::bind(listen, config.password.is_some()))
            .collect::<Result<Vec<_>, _>>()?;
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        for (token, listener) in listeners.iter().enumerate() {
            epoll::add(
                &epoll,
                listener,
                EventData::new_u64(token as u64),
                EventFlags::IN,
            )
            .map_err(Error::system("epoll_ctl"))?;
        }
        let port = listeners
            .iter()
            .find_map(Listener::address)
            .map_or(0, |address| address.port());
        let shared = Shared::new(config.password.clone(), config.max_clients, port);
        let next_token = listeners.len() as u64;
        Ok(Self {
            config,
            listeners,
            epoll,
            connections: HashMap::new(),
            shared,
            next_token,
            swept_at: 0,
        })
    }

    /// The TCP addresses it listens on, with the ports that were taken.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(Listener::address)
            .collect()
    }

    /// Serves until `stop` is set, which is looked at ten times a second, or a client sends SHUTDOWN.
    ///
    /// # Errors
    /// [`Error::System`] when the operating system refuses to wait for events.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Ordering::Relaxed) && !self.shared.shutdown {
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&LONGEST_SLEEP),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::system("epoll_wait")(errno)),
            }
            self.shared.now = wall_ms();
            for event in &events {
                let token = event.data.u64();
                match self.listeners.get(token as usize) {
                    Some(_) => self.accept(token as usize),
                    None => self.turn(token, &mut buffer),
                }
            }
            self.sweep();
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) {
        // One that went away between its arrival and now is no reason to stop listening, and neither
        // is a full table of open files: the next event brings it back.
        while let Ok(stream) = self.listeners[listener].accept() {
            if self.connections.len() >= self.config.max_clients {
                let _ = rustix::io::write(&stream, b"-ERR max number of clients reached\r\n");
                continue;
            }
            let token = self.next_token;
            self.next_token += 1;
            if epoll::add(
                &self.epoll,
                &stream,
                EventData::new_u64(token),
                EventFlags::IN,
            )
            .is_err()
            {
                continue;
            }
            let bounds = Bounds {
                request_bytes: self.config.max_request_bytes,
                output_bytes: self.config.max_output_bytes,
            };
            let (address, local_address) = stream.addresses();
            let session = self.shared.session(address, local_address);
            self.connections
                .insert(token, Connection::new(stream, session, bounds));
            self.shared.stats.connections += 1;
            self.shared.clients = self.connections.len();
        }
    }

    fn turn(&mut self, token: u64, buffer: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let was_blocked = connection.is_blocked();
        let next = connection.turn(&mut self.shared, buffer);
        let flags = match next {
            Next::Close => None,
            Next::Write => Some(EventFlags::OUT),
            Next::Read => Some(EventFlags::IN),
        };
        let moved = match flags {
            // The usual case: nothing changes, and the kernel is not asked.
            Some(flags) if was_blocked == (flags == EventFlags::OUT) => Ok(()),
            Some(flags) => epoll::modify(
                &self.epoll,
                &connection.stream,
                EventData::new_u64(token),
                flags,
            ),
            None => Err(Errno::CONNRESET),
        };
        if moved.is_err() {
            self.close(token);
        }
        if std::mem::take(&mut self.shared.killed) {
            self.close_killed();
        }
    }

    fn close(&mut self, token: u64) {
        if let Some(mut connection) = self.connections.remove(&token) {
            let session = connection.session();
            self.shared.peers.remove(&session.id);
            self.shared.watched.forget(session);
        }
        self.shared.clients = self.connections.len();
    }

    fn close_killed(&mut self) {
        let killed: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.is_killed())
            .map(|(token, _)| *token)
            .collect();
        killed.into_iter().for_each(|token| self.close(token));
    }

    /// Active expiry: a bounded part of the keyspace at a time.
    fn sweep(&mut self) {
        if self.shared.now < self.swept_at + SWEEP_EVERY_MS {
            return;
        }
        self.swept_at = self.shared.now;
        let freed: usize = self
            .shared
            .databases
            .iter()
            .map(|database| database.expire_some(self.shared.now, SWEEP_SHARDS))
            .sum();
        self.shared.stats.expired += freed as u64;
    }
}
