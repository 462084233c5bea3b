//! A server for the tests of an application: each reply comes from a closure.
//!
//! Code under test uses real connections to it, so it needs no trait of its own for the client. For a server that
//! behaves as Redis does, in the same process, start one of the crate `loadline-server`.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use loadline_resp::{Decoder, Limits, OwnedReply, Protocol, encode};

type Answer = dyn FnMut(&[Bytes]) -> OwnedReply + Send;

/// A server on a free port of this machine, which ends when it is dropped.
///
/// It answers the handshake of the client and `PING` by itself, and transactions with the replies of the closure to
/// their commands. All other commands are recorded, and passed to the closure with their name first, as they were sent.
///
/// ```
/// use loadline_client::testing::{FakeServer, text};
/// use loadline_client::commands::get;
/// use loadline_client::{Client, OwnedReply};
///
/// let server = FakeServer::start(|command| match &command[0][..] {
///     b"GET" => text("a value"),
///     _ => OwnedReply::Error(b"ERR not expected here".to_vec()),
/// })?;
/// let mut connection = Client::open(server.url())?.blocking()?;
/// assert_eq!(connection.run(get::<String>("key"))?, "a value");
/// assert_eq!(server.commands(), [["GET", "key"]]);
///
/// // The next request finds its connection broken, as in an outage, and a read is sent again.
/// server.disconnect();
/// assert_eq!(connection.run(get::<String>("key"))?, "a value");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FakeServer {
    url: String,
    address: SocketAddr,
    shared: Arc<ServerState>,
    listener: Option<JoinHandle<()>>,
}

struct ServerState {
    ended: AtomicBool,
    state: Mutex<State>,
    answer: Mutex<Box<Answer>>,
}

#[derive(Default)]
struct State {
    commands: Vec<Vec<Bytes>>,
    sockets: Vec<TcpStream>,
}

impl FakeServer {
    /// Starts a server whose replies come from `answer`.
    ///
    /// # Errors
    /// The reason why there is no port.
    pub fn start(answer: impl FnMut(&[Bytes]) -> OwnedReply + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerState {
            ended: AtomicBool::new(false),
            state: Mutex::default(),
            answer: Mutex::new(Box::new(answer)),
        });
        let accepting = Arc::clone(&shared);
        Ok(Self {
            url: format!("redis://{address}"),
            address,
            shared,
            listener: Some(thread::spawn(move || accept(&listener, &accepting))),
        })
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The commands that the closure was asked to answer so far, in their order.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<Bytes>> {
        self.shared.state().commands.clone()
    }

    /// Breaks all connections. New ones are accepted.
    pub fn disconnect(&self) {
        for socket in self.shared.state().sockets.drain(..) {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.disconnect();
        // The listener wakes up for one more connection.
        if TcpStream::connect(self.address).is_ok()
            && let Some(listener) = self.listener.take()
        {
            // A panic of it was shown by its thread.
            let _ = listener.join();
        }
    }
}

impl ServerState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply to a command of the application.
    fn answer(&self, command: &[Bytes]) -> OwnedReply {
        self.state().commands.push(command.to_vec());
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer(command)
    }
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState")
            .field("commands", &self.state().commands.len())
            .finish_non_exhaustive()
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    for socket in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(socket) = socket else { continue };
        let Ok(kept) = socket.try_clone() else {
            continue;
        };
        shared.state().sockets.push(kept);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // The client sees that the connection ends.
            let _ = serve(socket, &shared);
        });
    }
}

/// Answers the commands of one connection until it ends.
fn serve(mut socket: TcpStream, shared: &ServerState) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut input, mut session) = (Vec::new(), Session::default());
    let mut buffer = vec![0; 16 << 10];
    loop {
        let bytes = socket.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..bytes]);
        let (mut out, mut start) = (Vec::new(), 0);
        loop {
            let decoded = Decoder::new(Limits::default()).decode(&input[start..]);
            let decoded =
                decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let Some((command, end)) = decoded else { break };
            start += end;
            let reply = session.reply(&words(&command.to_owned()), shared);
            encode::reply(&mut out, &reply, session.protocol);
        }
        input.drain(..start);
        socket.write_all(&out)?;
    }
}

/// The words of a command.
fn words(command: &OwnedReply) -> Vec<Bytes> {
    match command {
        OwnedReply::Array(words) => words
            .iter()
            .map(|word| Bytes::copy_from_slice(word.as_bytes().unwrap_or_default()))
            .collect(),
        _ => Vec::new(),
    }
}

/// The state of a connection.
#[derive(Default)]
struct Session {
    protocol: Protocol,
    /// The replies of a transaction that has begun.
    transaction: Option<Vec<OwnedReply>>,
}

impl Session {
    fn reply(&mut self, command: &[Bytes], shared: &ServerState) -> OwnedReply {
        let Some(name) = command.first() else {
            return OwnedReply::Error(b"ERR a command needs a name".to_vec());
        };
        match &name.to_ascii_uppercase()[..] {
            b"HELLO" => {
                let version = if command.get(1).is_some_and(|version| version == "3") {
                    3
                } else {
                    2
                };
                self.protocol = if version == 3 {
                    Protocol::Resp3
                } else {
                    Protocol::Resp2
                };
                OwnedReply::Map(vec![(text("proto"), OwnedReply::Integer(version))])
            }
            b"PING" => OwnedReply::Simple(b"PONG".to_vec()),
            b"AUTH" | b"SELECT" | b"READONLY" | b"WATCH" | b"UNWATCH" | b"RESET" => ok(),
            b"CLIENT"
                if command
                    .get(1)
                    .is_some_and(|sub| sub.eq_ignore_ascii_case(b"SETNAME")) =>
            {
                ok()
            }
            b"MULTI" => {
                self.transaction = Some(Vec::new());
                ok()
            }
            b"DISCARD" => {
                self.transaction = None;
                ok()
            }
            b"EXEC" => match self.transaction.take() {
                Some(replies) => OwnedReply::Array(replies),
                None => OwnedReply::Error(b"ERR EXEC without MULTI".to_vec()),
            },
            _ => {
                let reply = shared.answer(command);
                let Some(replies) = &mut self.transaction else {
                    return reply;
                };
                replies.push(reply);
                OwnedReply::Simple(b"QUEUED".to_vec())
            }
        }
    }
}

/// The reply `OK`.
#[must_use]
pub fn ok() -> OwnedReply {
    OwnedReply::Simple(b"OK".to_vec())
}

/// A string as a reply.
#[must_use]
pub fn text(bytes: impl AsRef<[u8]>) -> OwnedReply {
    OwnedReply::Bulk(bytes.as_ref().to_vec())
}
