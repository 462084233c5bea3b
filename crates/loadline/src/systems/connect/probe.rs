//! Whether a server speaks TLS: asked when a connection without, or with, TLS has failed.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use loadline_client::Error;
use loadline_client::blocking::Connection;

use super::Endpoint;
use crate::spelling::Address;

/// Time limit for the first attempt at a TLS handshake. A server without TLS takes it for an incomplete command
/// and waits silently.
const FIRST_HANDSHAKE: Duration = Duration::from_millis(500);
/// Time limit for connecting to the server, and for its answer.
const ANSWER: Duration = Duration::from_millis(250);
/// The smallest record that makes a TLS server answer: an empty handshake message, to which it sends an alert (RFC
/// 8446, sections 5.1 and 6).
const EMPTY_HELLO: [u8; 9] = [22, 3, 1, 0, 4, 1, 0, 0, 0];
/// The types of TLS records that such an answer can have: alert and handshake.
const RECORD_TYPES: [u8; 2] = [21, 22];

pub(crate) const EXPECTS_TLS: &str = "The server expects TLS: write rediss://HOST:PORT.";
pub(crate) const WITHOUT_TLS: &str =
    "The server answers without TLS on this port: write redis://HOST:PORT, or name its TLS port.";

impl Endpoint {
    /// Does the same as [`open`](Self::open), and fails quickly if only one of the two sides uses TLS.
    ///
    /// # Errors
    /// The reason why the connection failed, with advice if it is known.
    pub(crate) fn open_first(&self) -> Result<Connection, (Error, Option<&'static str>)> {
        let patience = if self.server.tls {
            FIRST_HANDSHAKE.min(self.patience)
        } else {
            self.patience
        };
        let error = match self.client(patience).blocking() {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        if !matches!(
            error,
            Error::Connection { .. } | Error::Timeout { .. } | Error::Protocol { .. }
        ) {
            return Err((error, None));
        }
        if self.server.tls {
            if self.answers(b"PING\r\n", |byte| matches!(byte, b'+' | b'-')) {
                return Err((error, Some(WITHOUT_TLS)));
            }
            // A distant server needs more time.
            return match is_timeout(&error) {
                true => self.open().map_err(|error| (error, None)),
                false => Err((error, None)),
            };
        }
        let expects_tls = self.answers(&EMPTY_HELLO, |byte| RECORD_TYPES.contains(&byte));
        Err((error, expects_tls.then_some(EXPECTS_TLS)))
    }

    /// Whether the first byte of the answer to `question` is as expected.
    fn answers(&self, question: &[u8], is_expected: impl Fn(u8) -> bool) -> bool {
        let Address::Tcp { host, port } = &self.server.address else {
            return false;
        };
        let Ok(mut addresses) = (host.as_str(), *port).to_socket_addrs() else {
            return false;
        };
        let socket = addresses.find_map(|to| TcpStream::connect_timeout(&to, ANSWER).ok());
        let Some(mut socket) = socket else {
            return false;
        };
        let mut first = [0];
        socket.set_read_timeout(Some(ANSWER)).is_ok()
            && socket.write_all(question).is_ok()
            && socket.read_exact(&mut first).is_ok()
            && is_expected(first[0])
    }
}

fn is_timeout(error: &Error) -> bool {
    let waited = |source: &io::Error| {
        matches!(
            source.kind(),
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
        )
    };
    match error {
        Error::Timeout { .. } => true,
        Error::Connection { source, .. } => waited(source),
        _ => false,
    }
}
