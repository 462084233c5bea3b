//! Serving clients that wait for keys.

use std::sync::atomic::AtomicBool;

use super::Server;
use super::net::Meanwhile;
use crate::connection::Over;

impl Server {
    /// Serves clients whose keys have changed, and releases those whose waits have ended. Their later requests wait for
    /// the end of the turn.
    pub(super) fn serve_waiting(&mut self) {
        while self.shared.watched.waiting.has_work() {
            for (id, how) in self.shared.watched.waiting.take_released() {
                let token = self.net.token_of(id);
                if let Some(connection) = self.net.connections.get_mut(&token) {
                    connection.release_waiting(&mut self.shared, how);
                    self.served.push(token);
                }
            }
            if let Some(place) = self.shared.watched.waiting.next_changed() {
                for (id, needs_key) in self.shared.watched.waiting.clients_of(&place) {
                    let (database, key) = &place;
                    let store = &self.shared.databases[*database];
                    let is_there = store.inspect(key, self.shared.now, |value| value.is_some());
                    let token = self.net.token_of(id);
                    if (is_there || needs_key)
                        && let Some(connection) = self.net.connections.get_mut(&token)
                        && connection.wake(&mut self.shared, key)
                    {
                        self.served.push(token);
                    }
                }
            }
        }
    }

    /// Serves the clients that wait for keys that the connection has changed, and goes on with its requests, which were
    /// interrupted for that.
    pub(super) fn serve_and_go_on(&mut self, stop: &AtomicBool, token: u64) {
        while self.shared.watched.waiting.has_work() {
            self.serve_waiting();
            if self.go_on(stop, token) == Some(Err(Over)) {
                self.close(token);
            }
        }
    }

    /// Executes the requests of clients that have waited, after those of all others.
    pub(super) fn go_on_with_served(&mut self, stop: &AtomicBool) {
        self.shared.time_out_waiting();
        self.serve_waiting();
        while !self.served.is_empty() {
            for token in std::mem::take(&mut self.served) {
                match self.go_on(stop, token) {
                    Some(Ok(())) => self.turn.push(token),
                    Some(Err(Over)) => self.close(token),
                    None => {}
                }
                self.serve_and_go_on(stop, token);
            }
        }
    }

    /// Ends the migrations whose keys have arrived, or could not be sent. Their clients may have gone.
    pub(super) fn end_migrations(&mut self) {
        while let Some(ended) = self.shared.migrations.next_ended() {
            let noted = self.shared.noted();
            self.shared.end_migration(&ended);
            let token = self.net.token_of(ended.client);
            if let Some(connection) = self.net.connections.get_mut(&token) {
                connection.end_migration(&mut self.shared, noted, ended.refusal);
                self.served.push(token);
            }
        }
    }

    fn go_on(&mut self, stop: &AtomicBool, token: u64) -> Option<Result<(), Over>> {
        let others = Meanwhile {
            net: &self.net,
            stop,
            turn: &self.turn,
        };
        let mut connection = self.net.connections.borrow(token)?;
        Some(connection.go_on(&mut self.shared, &others))
    }
}
