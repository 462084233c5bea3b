//! How a blocking connection comes about, and comes back.

use std::io::Write;
use std::time::{Duration, Instant};

use super::stream::Stream;
use super::{Connection, protocol_error};
use crate::config::Peer;
use crate::conn::greeting::Greeting;
use crate::{Error, meter};

impl Connection {
    /// Connects where there is no connection, again and again for as long as the response timeout lasts,
    /// but once to a node of a cluster, which another one may replace.
    pub(super) fn ensure_connected(&mut self) -> Result<(), Error> {
        if self.stream.is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        let patience = self.config.response_timeout.unwrap_or(Duration::MAX);
        loop {
            let error = match self.connect() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            meter::lost(&self.config, &error);
            let now = Instant::now();
            let pause = self.backoff.failed(now);
            let hopeless = self.config.peer != Peer::Server
                || !matches!(error, Error::Connection { .. } | Error::Timeout { .. });
            if hopeless || now.duration_since(begun).saturating_add(pause) > patience {
                return Err(error.with_executed(false));
            }
            std::thread::sleep(pause);
        }
    }

    /// One attempt to connect and to shake hands. What is in the send buffer stays.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + self.config.connect_timeout;
        let stream = Stream::connect(&self.config, deadline)?;
        let lost = |error| Error::connection(error, false);
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_timeout(Some(left)).map_err(lost)?;
        self.input.reset();
        self.pushes.clear();
        self.stream = Some(stream);
        if let Err(error) = self.greet(deadline) {
            self.stream = None;
            return Err(error.with_executed(false));
        }
        let timeout = self.config.response_timeout;
        if let Some(stream) = &self.stream {
            stream.set_timeout(timeout).map_err(lost)?;
        }
        self.backoff.connected();
        meter::connected(&self.config);
        Ok(())
    }

    fn greet(&mut self, deadline: Instant) -> Result<(), Error> {
        let mut flight = Vec::new();
        let mut greeting = Greeting::start(&self.config, &mut flight);
        loop {
            let stream = self.stream.as_mut().expect("a stream was just opened");
            stream
                .write_all(&flight)
                .map_err(|error| Error::connection(error, false))?;
            flight.clear();
            let range = self.next_reply(Some(deadline), self.config.connect_timeout)?;
            let reply = self.input.read(range).map_err(protocol_error)?;
            if let Some(protocol) = greeting.reply(&reply, &mut flight)? {
                self.protocol = protocol;
                return Ok(());
            }
        }
    }
}
