//! Connections to servers, made by loadline-client: encrypted, authenticated and greeted.

mod probe;

use std::io;
use std::time::Duration;

use loadline_client::blocking::{Connection, Socket};
use loadline_client::{
    Address, Builder, Client, Cmd, Error, Limits, OwnedReply, Password, Protocol, RetryPolicy, Tls,
    cmd,
};
use loadline_load::wire;

use super::tls::TlsTransport;
use crate::exit::Failure;
use crate::spelling::{self, Server};

/// The name of our connections, so that the server's operator can recognize them.
pub(crate) const CLIENT_NAME: &str = "loadline";
/// Time limit for connecting, and for each reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit after an interrupt, and after a run that failed.
const HURRIED_PATIENCE: Duration = Duration::from_millis(500);
/// Size limit of a reply, in bytes; the longest are those to INFO and SCAN.
const LARGEST_REPLY_BYTES: u64 = 16 << 20;

/// A server, and the configuration of connections to it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    server: Server,
    /// The user's name for the server, if that is not its address.
    name: Option<String>,
    protocol: Protocol,
    tls: Tls,
    patience: Duration,
}

impl Endpoint {
    /// Connections to `server`; `tls` is used if its connections are encrypted.
    pub(crate) fn new(server: Server, protocol: Protocol, tls: Tls) -> Self {
        Self {
            server,
            name: None,
            protocol,
            tls,
            patience: PATIENCE,
        }
    }

    /// Connections to a server of our own on this machine.
    pub(crate) fn local(server: Server) -> Self {
        Self::new(server, Protocol::Resp2, Tls::default())
    }

    /// Does the same with a short time limit for connecting and for each reply.
    pub(crate) fn hurried(self) -> Self {
        Self {
            patience: HURRIED_PATIENCE,
            ..self
        }
    }

    /// Sets the `name` of the server in messages, because an address that this run chose means nothing to the
    /// user.
    pub(crate) fn named(self, name: String) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    /// The name of the server in messages.
    pub(crate) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.server.to_string())
    }

    /// The server at the other end.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// The version of the protocol.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// TLS trust.
    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Opens a connection for one thread.
    ///
    /// # Errors
    /// The reason why the only attempt failed.
    pub(crate) fn open(&self) -> Result<Connection, Error> {
        self.client(self.patience).blocking()
    }

    /// Opens a connection and takes its socket.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) fn socket(&self) -> Result<Socket, Error> {
        self.open()?.into_socket()
    }

    /// Sends one command over a connection of its own.
    ///
    /// # Errors
    /// If there is no reply, or an error as the reply.
    pub(crate) fn say(&self, words: &[&str]) -> Result<OwnedReply, Failure> {
        let replied = self.open().and_then(|mut open| open.run(command(words)));
        replied.map_err(|error| {
            let words = words.join(" ");
            Failure::unavailable(format!("{}: {words} failed: {error}.", self.name()))
        })
    }

    fn client(&self, connect_patience: Duration) -> Client {
        builder(&self.server, &self.tls)
            .protocol(Some(self.protocol))
            .connect_timeout(connect_patience)
            .response_timeout(Some(self.patience))
            .limits(Limits {
                max_bulk_bytes: LARGEST_REPLY_BYTES,
                max_aggregate_len: 1 << 20,
                ..Limits::default()
            })
            .build()
    }
}

impl wire::Connect for Endpoint {
    fn connect(&self) -> io::Result<Box<dyn wire::Transport>> {
        Ok(match self.socket().map_err(io::Error::other)? {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Box::new(socket)
            }
            Socket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Box::new(socket)
            }
            Socket::Tls(stream) => {
                stream.get_ref().set_nonblocking(true)?;
                Box::new(TlsTransport(stream))
            }
            _ => return Err(io::ErrorKind::Unsupported.into()),
        })
    }
}

/// A client of `server` that never repeats a request: a retry would hide the first failure, and its time would be
/// that of two requests.
pub(crate) fn builder(server: &Server, tls: &Tls) -> Builder {
    let builder = Client::builder()
        .address(match &server.address {
            spelling::Address::Tcp { host, port } if server.tls => Address::Tls {
                host: host.clone(),
                port: *port,
            },
            spelling::Address::Tcp { host, port } => Address::Tcp {
                host: host.clone(),
                port: *port,
            },
            spelling::Address::Unix(path) => Address::Unix(path.clone()),
        })
        .database(server.database)
        .client_name(CLIENT_NAME)
        .tls(tls.clone())
        .retry(RetryPolicy::Never);
    match (&server.login.user, &server.login.password) {
        (_, None) => builder,
        (None, Some(password)) => builder.password(Password::new(password.reveal())),
        (Some(user), Some(password)) => builder.login(user, Password::new(password.reveal())),
    }
}

/// The command that consists of these words.
pub(crate) fn command<A: AsRef<[u8]>>(words: &[A]) -> Cmd<OwnedReply> {
    words
        .iter()
        .fold(cmd(""), |command, word| command.arg(word.as_ref()))
}

/// Returns a reply as it is, including an error of the server.
///
/// # Errors
/// If there is no reply.
pub(crate) fn reply_of(replied: Result<OwnedReply, Error>) -> Result<OwnedReply, Error> {
    match replied {
        Err(Error::Server(error)) => Ok(OwnedReply::Error(error.text().as_bytes().to_vec())),
        replied => replied,
    }
}

/// Text of a server, shortened and without control characters, so that it can be shown.
pub(crate) fn shown_text(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars()
        .take(200)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
