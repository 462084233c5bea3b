//! Connections to servers: dialled, encrypted, logged in and greeted.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use loadline_load::wire;
use loadline_resp::{Decoder, Limits, OwnedReply, Protocol, encode};

use crate::secret::Secret;
use crate::target::{Address, Server};
use crate::targets::tls::{TlsClient, TlsStream};

/// What our connections call themselves, so that the server's operator can tell them from others.
pub(crate) const CLIENT_NAME: &str = "loadline";
/// How long dialling, and each answer of the handshake, may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The same after an interrupt.
const HURRIED_PATIENCE: Duration = Duration::from_millis(500);
/// The most that one reply to us may hold, in bytes: the longest answer is that to INFO or SCAN.
const LARGEST_REPLY_BYTES: u64 = 16 << 20;
const READ_BYTES: usize = 16 << 10;

/// Where connections go, and how they are made.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    server: Server,
    /// What the user calls the server, where that is not its address.
    name: Option<String>,
    protocol: Protocol,
    tls: Option<TlsClient>,
    /// How long dialling, and each answer, may take.
    patience: Duration,
}

impl Endpoint {
    /// Connections to `server`. A server with TLS needs a `tls`.
    pub(crate) fn new(server: Server, protocol: Protocol, tls: Option<TlsClient>) -> Self {
        Self {
            server,
            name: None,
            protocol,
            tls,
            patience: PATIENCE,
        }
    }

    /// The same for somebody who does not wait long.
    pub(crate) fn hurried(self) -> Self {
        Self {
            patience: HURRIED_PATIENCE,
            ..self
        }
    }

    /// The same, called `name` in sentences: an address that we chose ourselves says nothing to the
    /// user.
    pub(crate) fn named(self, name: String) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    /// What sentences call the server.
    pub(crate) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.server.to_string())
    }

    /// The server at the other end.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Opens a connection that blocks, and waits at most [`PATIENCE`] for every answer.
    ///
    /// # Errors
    /// What the operating system, the other end or the check of its certificate said.
    pub(crate) fn open(&self) -> io::Result<Conversation> {
        let mut conversation = Conversation::new(self.dial()?);
        self.greet(&mut conversation)?;
        Ok(conversation)
    }

    fn dial(&self) -> io::Result<Stream> {
        let (host, port) = match &self.server.address {
            Address::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(self.patience))?;
                socket.set_write_timeout(Some(self.patience))?;
                return Ok(Stream::Unix(socket));
            }
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let socket = dial_tcp(host, port, self.patience)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_write_timeout(Some(self.patience))?;
        match &self.tls {
            Some(tls) if self.server.tls => tls
                .connect(host, socket)
                .map(|stream| Stream::Tls(Box::new(stream)))
                .map_err(named_timeout),
            _ if self.server.tls => Err(io::Error::other("TLS was not set up for this connection")),
            _ => Ok(Stream::Tcp(socket)),
        }
    }

    /// Speaks the wanted version, logs in and selects the database. HELLO is sent only where RESP3 is
    /// wanted, so that servers which are too old for it can be measured too.
    fn greet(&self, conversation: &mut Conversation) -> io::Result<()> {
        let login = &self.server.login;
        let user = login.user.as_deref().unwrap_or("default");
        let password = login.password.as_ref().map(Secret::reveal);
        let ask =
            |conversation: &mut Conversation, shown: &str, command: &[&str]| -> io::Result<()> {
                let reply = conversation.call(command)?;
                match reply.error_text() {
                    None => Ok(()),
                    Some(text) => Err(io::Error::other(format!(
                        "{shown} was answered `{}`",
                        without_arguments(text, password)
                    ))),
                }
            };
        if self.protocol == Protocol::Resp3 {
            let mut hello = vec!["HELLO", "3"];
            hello.extend(
                password
                    .iter()
                    .flat_map(|password| ["AUTH", user, password]),
            );
            ask(conversation, "HELLO 3", &hello)?;
        } else if let Some(password) = password {
            let auth = match &login.user {
                Some(user) => vec!["AUTH", user, password],
                None => vec!["AUTH", password],
            };
            ask(conversation, "AUTH", &auth)?;
        }
        if self.server.database != 0 {
            let database = self.server.database.to_string();
            ask(conversation, "SELECT", &["SELECT", &database])?;
        }
        // A server that wants a password, or is still loading, says so now and not in the first block.
        ask(conversation, "PING", &["PING"])?;
        // One that has no names, or gives us none, is measured all the same.
        conversation
            .call(&["CLIENT", "SETNAME", CLIENT_NAME])
            .map(drop)
    }
}

impl wire::Connect for Endpoint {
    fn connect(&self) -> io::Result<Box<dyn wire::Transport>> {
        self.open()?.into_transport()
    }
}

/// A connection on which one request is answered after the other.
#[derive(Debug)]
pub(crate) struct Conversation {
    stream: Stream,
    decoder: Decoder,
    received: Vec<u8>,
}

impl Conversation {
    fn new(stream: Stream) -> Self {
        let limits = Limits {
            max_bulk_bytes: LARGEST_REPLY_BYTES,
            max_aggregate_len: 1 << 20,
            ..Limits::default()
        };
        Self {
            stream,
            decoder: Decoder::new(limits),
            received: Vec::new(),
        }
    }

    /// Sends a command and waits for its reply, which may be an error; messages that the server sends
    /// by itself are passed over.
    ///
    /// # Errors
    /// What the operating system said, a reply that is too large or no RESP, or no reply in time.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<OwnedReply> {
        self.send(command)?;
        self.answer()
    }

    /// Sends all of `commands` at once and waits for their replies, in order; as [`call`](Self::call)
    /// otherwise. Their replies must be short.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub(crate) fn call_each<A: AsRef<[u8]>>(
        &mut self,
        commands: &[Vec<A>],
    ) -> io::Result<Vec<OwnedReply>> {
        let mut request = Vec::new();
        for command in commands {
            encode::command(&mut request, command);
        }
        self.stream.write_all(&request).map_err(named_timeout)?;
        self.stream.flush().map_err(named_timeout)?;
        commands.iter().map(|_| self.answer()).collect()
    }

    /// The next reply to a command.
    fn answer(&mut self) -> io::Result<OwnedReply> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.reply(deadline)? {
                OwnedReply::Push(_) => {}
                reply => return Ok(reply.into_without_attributes()),
            }
        }
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<()> {
        let mut request = Vec::with_capacity(encode::command_len(command));
        encode::command(&mut request, command);
        self.stream.write_all(&request).map_err(named_timeout)?;
        self.stream.flush().map_err(named_timeout)
    }

    /// Sends a request that is encoded already, and reads into `buffer` until `is_answered` says so of
    /// what has come. Allocates nothing, so that what it takes is what the operation takes.
    ///
    /// # Errors
    /// What the operating system or `is_answered` said, or no reply in time.
    pub(crate) fn exchange(
        &mut self,
        request: &[u8],
        buffer: &mut [u8],
        mut is_answered: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.stream.write_all(request).map_err(named_timeout)?;
        self.stream.flush().map_err(named_timeout)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(closed()),
                Ok(bytes) if is_answered(&buffer[..bytes])? => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(named_timeout(error));
                }
                Ok(_) | Err(_) => {}
            }
            if Instant::now() >= deadline {
                return Err(named_timeout(io::ErrorKind::TimedOut.into()));
            }
        }
    }

    /// Waits for whatever comes next: a reply, or a message that the server sends by itself.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub(crate) fn receive(&mut self) -> io::Result<OwnedReply> {
        self.reply(Instant::now() + PATIENCE)
            .map(OwnedReply::into_without_attributes)
    }

    fn reply(&mut self, deadline: Instant) -> io::Result<OwnedReply> {
        loop {
            let decoded = self
                .decoder
                .decode(&self.received)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if let Some((reply, used)) = decoded {
                let reply = reply.to_owned();
                self.received.drain(..used);
                return Ok(reply);
            }
            // An answer that trickles in keeps every single read short of its timeout.
            if Instant::now() >= deadline {
                return Err(named_timeout(io::ErrorKind::TimedOut.into()));
            }
            if self.received.len() as u64 > LARGEST_REPLY_BYTES {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "its reply is larger than any that was asked for",
                ));
            }
            let mut buffer = [0; READ_BYTES];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(closed()),
                Ok(bytes) => self.received.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(named_timeout(error)),
            }
        }
    }

    /// Hands the connection over to the wire loop, where it does not block.
    fn into_transport(self) -> io::Result<Box<dyn wire::Transport>> {
        if !self.received.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it sent more replies than there were requests",
            ));
        }
        Ok(match self.stream {
            Stream::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Box::new(socket)
            }
            Stream::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Box::new(socket)
            }
            Stream::Tls(stream) => {
                stream.socket().set_nonblocking(true)?;
                stream
            }
        })
    }
}

/// A server's sentence as it may be shown: short, and without control characters.
pub(crate) fn shown_text(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars()
        .take(200)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// A server's sentence about a command with a password: one that does not know the command repeats
/// its arguments.
fn without_arguments(text: &[u8], password: Option<&str>) -> String {
    let text = shown_text(text);
    let text = text.split(", with args").next().unwrap_or_default();
    match password {
        Some(password) => text.replace(password, "***"),
        None => text.to_owned(),
    }
}

fn dial_tcp(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(named_timeout(last))
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")
}

/// A blocking socket reports its timeout as "would block", which says nothing to a person.
fn named_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} seconds", PATIENCE.as_secs()),
        ),
        _ => error,
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buf),
            Self::Unix(socket) => socket.read(buf),
            Self::Tls(stream) => Read::read(stream.as_mut(), buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(buf),
            Self::Unix(socket) => socket.write(buf),
            Self::Tls(stream) => Write::write(stream.as_mut(), buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            Self::Unix(socket) => socket.flush(),
            Self::Tls(stream) => Write::flush(stream.as_mut()),
        }
    }
}

#[cfg(test)]
mod tests;
