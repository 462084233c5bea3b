//! A server of our own that is given commands, over a connection that stays.

use loadline_client::{OwnedReply, blocking};

use super::connect::{Endpoint, command};
use crate::exit::Failure;
use crate::spelling::Server;

/// A server and a connection to it.
pub(super) struct Ruled {
    pub(super) server: Server,
    connection: blocking::Connection,
}

impl Ruled {
    /// # Errors
    /// If it does not answer.
    pub(super) fn open(server: &Server) -> Result<Self, Failure> {
        let connection = Endpoint::local(server.clone())
            .open()
            .map_err(|error| Failure::unavailable(format!("{server}: {error}.")))?;
        let server = server.clone();
        Ok(Self { server, connection })
    }

    /// # Errors
    /// If the server refuses.
    pub(super) fn tell(&mut self, words: &[&str]) -> Result<(), Failure> {
        self.ask(words).map(drop)
    }

    /// # Errors
    /// If the server refuses.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<OwnedReply, Failure> {
        let told = self.connection.run(command(words));
        told.map_err(|error| {
            let words = words.join(" ");
            Failure::unavailable(format!("{}: {words} failed: {error}.", self.server))
        })
    }
}
