//! The socket of a connection, for a program that writes and reads RESP by itself.

use std::io;

use super::{Connection, Socket};
use crate::Error;

impl Connection {
    /// Gives the socket away: for an event loop, or for requests that are encoded beforehand. The handshake is
    /// done; the response timeout of the [`Config`](crate::Config) is set on the socket.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// use loadline_client::Client;
    ///
    /// let url = "redis://localhost";
    /// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
    /// let mut socket = Client::open(url)?.blocking()?.into_socket()?;
    /// socket.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    /// let mut reply = [0; 7];
    /// socket.read_exact(&mut reply)?;
    /// assert_eq!(&reply, b"+PONG\r\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Connection`] if the connection is broken, or has received bytes that it did not ask for.
    pub fn into_socket(mut self) -> Result<Socket, Error> {
        let lost = |kind, why: &str| Error::connection(io::Error::new(kind, why), false);
        let Some(timed) = self.socket.take() else {
            return Err(lost(
                io::ErrorKind::NotConnected,
                "there is no connection to give away",
            ));
        };
        let mut socket = timed.into_socket(self.config.response_timeout)?;
        if !self.input.is_empty() || socket.has_plaintext() {
            return Err(lost(
                io::ErrorKind::InvalidData,
                "the server sent more replies than there were requests",
            ));
        }
        Ok(socket)
    }
}
