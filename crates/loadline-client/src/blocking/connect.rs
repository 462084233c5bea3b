//! Makes the connection, and makes it again.

use std::time::Instant;

use super::timed::TimedSocket;
use super::{Connection, protocol_error, timed_out};
use crate::config::Peer;
use crate::{Error, meter};

impl Connection {
    /// Connects if there is no connection, again and again until the response timeout has passed since `begun`,
    /// but once to a node of a cluster, which another one may replace.
    #[inline]
    pub(super) fn ensure_connected(&mut self, begun: Instant) -> Result<(), Error> {
        match self.socket {
            Some(_) => self.renew_login(begun),
            None => self.connect_again(begun),
        }
    }

    /// Logs in again if the credentials have been replaced.
    #[inline]
    fn renew_login(&mut self, begun: Instant) -> Result<(), Error> {
        let mut flight = Vec::new();
        if !self.session.renew(&mut flight) {
            return Ok(());
        }
        match self.send_login(&flight) {
            Ok(()) => Ok(()),
            Err(error) => {
                // The request was not sent yet, and the handshake takes the present credentials.
                self.give_up(&error);
                self.connect_again(begun)
            }
        }
    }

    #[cold]
    fn send_login(&mut self, flight: &[u8]) -> Result<(), Error> {
        let after = self.config.connect_timeout;
        let deadline = Instant::now() + after;
        let socket = self.socket.as_mut().expect("there is a connection");
        let written = socket.write_all(flight, Some(deadline));
        written.map_err(|unwritten| Error::connection(unwritten.error, false))?;
        let range = self.next_reply(Some(deadline), after)?;
        self.session.renewed(self.input.text(range));
        self.unavailable = None;
        Ok(())
    }

    #[cold]
    fn connect_again(&mut self, begun: Instant) -> Result<(), Error> {
        let timeout = self.config.response_timeout;
        let deadline = timeout.and_then(|timeout| begun.checked_add(timeout));
        loop {
            let error = match self.connect() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            meter::lost(&self.config, &error);
            let now = Instant::now();
            let pause = self.session.pause(false, now);
            let hopeless = self.config.peer != Peer::Server
                || !matches!(error, Error::Connection { .. } | Error::Timeout { .. });
            if hopeless || deadline.is_some_and(|deadline| now + pause > deadline) {
                return Err(error);
            }
            self.config.pause(pause);
        }
    }

    /// Connects, and does the handshake, once. The send buffer stays as it is.
    ///
    /// # Errors
    /// The reason why there is no connection. No request was sent.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + self.config.connect_timeout;
        let socket = TimedSocket::connect(&self.config, deadline)
            .inspect_err(|error| self.session.unreachable(error))?;
        self.input.reset();
        self.pushes.clear();
        self.unavailable = None;
        self.session.is_to(socket.named_address());
        self.socket = Some(socket);
        if let Err(error) = self.greet(deadline) {
            let error = self.session.explain(error.with_executed(false));
            self.give_up(&error);
            return Err(error);
        }
        self.session.was_useful();
        meter::connected(&self.config);
        Ok(())
    }

    fn greet(&mut self, deadline: Instant) -> Result<(), Error> {
        let after = self.config.connect_timeout;
        let mut flight = Vec::new();
        self.session.connected(Instant::now(), &mut flight);
        loop {
            let socket = self.socket.as_mut().expect("a socket was just opened");
            if !flight.is_empty() {
                let written = socket.write_all(&flight, Some(deadline));
                written.map_err(|unwritten| match unwritten.error {
                    late if timed_out(&late) => Error::Timeout {
                        maybe_executed: false,
                        after,
                    },
                    error => Error::connection(error, false),
                })?;
                flight.clear();
            }
            let range = self.next_reply(Some(deadline), after)?;
            let reply = self.input.read(range).map_err(protocol_error)?;
            if self.session.greeted(&reply, Instant::now(), &mut flight)? {
                return Ok(());
            }
        }
    }
}
