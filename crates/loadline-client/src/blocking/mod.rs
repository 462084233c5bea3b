//! A connection for one thread: it writes a request, and waits for the replies.
//!
//! A request is one write and, where the replies are short, one read. Timeouts are set on the socket when
//! it is opened and not for each request.
//!
//! ```no_run
//! use loadline_client::Client;
//! use loadline_client::commands::{get, set};
//!
//! let mut connection = Client::open("redis://localhost")?.blocking()?;
//! connection.run(set("key", "value"))?;
//! let reply = connection.run_ref(&get::<()>("key"))?;
//! assert_eq!(reply.as_bytes(), Some(&b"value"[..]));
//! # Ok::<(), loadline_client::Error>(())
//! ```

mod cluster;
mod connect;
mod feed;
mod group;
mod halves;
mod input;
mod interleaved;
mod pubsub;
mod reader;
mod replies;
mod scan;
mod socket;
mod stream;
mod wires;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_resp::{OwnedReply, Protocol, Reply};

use crate::conn::backoff::Backoff;
use crate::lending::{Each, LENT_ALONE};
use crate::meter::{self, Meter};
use crate::request::Summary;
use crate::{Atomic, Config, Error, Request, Requests, ServerError, ToArgs, commands};
pub use cluster::Cluster;
pub use group::GroupReader;
use input::{Input, Message};
pub use pubsub::PubSub;
pub use reader::StreamReader;
use replies::{Discarded, Incoming};
pub use scan::Scanning;
pub use stream::Stream as Socket;
use stream::Stream;

/// How often a request is sent at most, whatever the policy.
const MOST_TRIES: u32 = 3;
/// Push messages that are kept for the caller; older ones give way.
const KEPT_PUSHES: usize = 1024;
/// A send buffer above this is given back.
const KEPT_OUT_BYTES: usize = 1 << 20;

/// A connection for one thread. See the [module](self).
///
/// Where it breaks, the request fails, unless the [`RetryPolicy`](crate::RetryPolicy) lets it be sent
/// again; the next request connects again, at once and then with growing pauses, for as long as the
/// response timeout lasts.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    stream: Option<Stream>,
    protocol: Protocol,
    out: Vec<u8>,
    input: Input,
    pushes: VecDeque<OwnedReply>,
    backoff: Backoff,
    watch: Watch,
}

/// What became of the keys that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    None,
    /// The server watches.
    Kept,
    /// The server watched, but that connection is gone; the next transaction must not be executed.
    Lost,
}

/// Why a try failed, and whether the server may know of the request.
struct Failed {
    error: Error,
    maybe_executed: bool,
}

impl Connection {
    /// Connects once.
    pub(crate) fn open(config: Arc<Config>) -> Result<Self, Error> {
        let mut connection = Self::unopened(config);
        connection.connect()?;
        Ok(connection)
    }

    /// A connection that the first request will make.
    fn unopened(config: Arc<Config>) -> Self {
        let input = Input::new(config.limits);
        Self {
            config,
            stream: None,
            protocol: Protocol::Resp2,
            out: Vec::new(),
            input,
            pushes: VecDeque::new(),
            backoff: Backoff::new(),
            watch: Watch::None,
        }
    }

    /// Runs a command, or several as a pipeline.
    pub fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        let output = self.once(&request, false);
        if request.wants_second_try(&output) {
            return self.once(&request, true);
        }
        output
    }

    /// Runs one command, and lends its reply from the receive buffer: nothing is copied.
    ///
    /// # Errors
    /// As for any request; [`Error::Server`] where the reply is an error. [`Error::Usage`] where the
    /// request is more than one command.
    pub fn run_ref<Q: Request>(&mut self, request: &Q) -> Result<Reply<'_>, Error> {
        if request.commands() != 1 {
            return Err(LENT_ALONE);
        }
        let mut meter = Meter::begin();
        let exchanged = self.exchange(request, false, &mut meter);
        let lent = exchanged.and_then(|(_, first, _)| {
            let reply = self.input.read(first).map_err(protocol_error)?;
            match reply.error_text() {
                Some(text) => Err(Error::server(text)),
                None => Ok(reply),
            }
        });
        meter.end(&self.config, u64::from(lent.is_err()));
        lent
    }

    /// Runs a command, or several as a pipeline, and lends each reply, in the order of the commands, from the
    /// receive buffer: nothing is copied and nothing is allocated. It is the fastest way to read much.
    ///
    /// ```no_run
    /// # let mut connection = loadline_client::Client::open("redis://localhost")?.blocking()?;
    /// use loadline_client::commands::get;
    ///
    /// let gets: Vec<_> = ["one", "two"].iter().map(get::<()>).collect();
    /// let mut bytes = 0;
    /// connection.run_each(&gets, |reply| {
    ///     if let Ok(reply) = reply {
    ///         bytes += reply.as_bytes().map_or(0, <[u8]>::len);
    ///     }
    /// })?;
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Why not every reply came; `read` was called for those that did. Errors that the server answered with are
    /// lent as any reply.
    pub fn run_each<Q: Request>(
        &mut self,
        request: &Q,
        read: impl FnMut(Result<Reply<'_>, ServerError>),
    ) -> Result<(), Error> {
        self.run(Each::new(request, read))
    }

    /// Runs a transaction that depends on what is read before it: watches the keys, lets `plan` read and
    /// say what to write, executes that at once, and starts again as often as a key has changed meanwhile.
    ///
    /// ```no_run
    /// # let mut connection = loadline_client::Client::open("redis://localhost")?.blocking()?;
    /// use loadline_client::commands::{get, set};
    ///
    /// let (doubled,) = connection.transaction("balance", |connection| {
    ///     let balance: i64 = connection.run(get("balance"))?;
    ///     Ok((set("balance", 2 * balance),))
    /// })?;
    /// doubled?;
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `plan` or the connection said. A transaction that may have been executed is not repeated.
    pub fn transaction<Q: Request>(
        &mut self,
        keys: impl ToArgs,
        mut plan: impl FnMut(&mut Self) -> Result<Q, Error>,
    ) -> Result<Q::Output, Error> {
        loop {
            self.run(commands::watch(&keys))?;
            let request = match plan(self) {
                Ok(request) => request,
                Err(error) => {
                    self.run(commands::unwatch())?;
                    return Err(error);
                }
            };
            let transaction: Atomic<Q> = crate::atomic(request);
            if let Some(output) = self.run(transaction)? {
                return Ok(output);
            }
        }
    }

    /// The version of the protocol that is spoken.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The oldest push message that came along with replies, such as an invalidation of client-side
    /// caching. At most 1,024 are kept.
    pub fn take_push(&mut self) -> Option<OwnedReply> {
        self.pushes.pop_front()
    }

    /// Waits, at most so long, for a push message. What the server was asked before is answered already,
    /// so nothing else can come.
    ///
    /// # Errors
    /// That the connection broke. It is not made again, since the server has forgotten what it was to send.
    pub fn wait_push(&mut self, timeout: Duration) -> Result<Option<OwnedReply>, Error> {
        if let Some(push) = self.take_push() {
            return Ok(Some(push));
        }
        let Some(stream) = &self.stream else {
            return Err(Error::connection(io::ErrorKind::NotConnected.into(), false));
        };
        let lost = |error| Error::connection(error, false);
        stream.set_timeout(Some(timeout)).map_err(lost)?;
        let waited = self.next_push(timeout);
        match (&waited, &self.stream) {
            (Ok(_), Some(stream)) => stream
                .set_timeout(self.config.response_timeout)
                .map_err(lost)?,
            _ => self.give_up(),
        }
        waited
    }

    fn next_push(&mut self, timeout: Duration) -> Result<Option<OwnedReply>, Error> {
        let deadline = Instant::now().checked_add(timeout);
        let range = match self.message(deadline, timeout) {
            // The messages of RESP2 are arrays, and look like replies.
            Ok(Message::Push(range) | Message::Reply(range)) => range,
            Err(Error::Timeout { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let push = self.input.read(range).map_err(protocol_error)?;
        Ok(Some(push.to_owned()))
    }

    /// Whether the connection stands, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Bytes of the connection's own buffers.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.out.capacity() + self.input.capacity()
    }

    fn once<Q: Request>(&mut self, request: &Q, second_try: bool) -> Q::Output {
        let mut meter = Meter::begin();
        let (summary, first, deadline) = match self.exchange(request, second_try, &mut meter) {
            Ok(sent) => sent,
            Err(error) => return meter.failed(&self.config, request, error),
        };
        let config = Arc::clone(&self.config);
        if self.watch == Watch::Lost && matches!(summary.name, "MULTI" | "EXEC") {
            self.watch = Watch::None;
            let left = summary.commands;
            return meter.decode(&config, request, &mut Discarded { left });
        }
        let mut incoming = Incoming {
            first: Some(first),
            left: summary.commands,
            deadline,
            fault: None,
            connection: self,
        };
        let output = meter.decode(&config, request, &mut incoming);
        incoming.finish();
        self.follow_watch(summary.name);
        output
    }

    fn follow_watch(&mut self, name: &str) {
        match name {
            "WATCH" => self.watch = Watch::Kept,
            "UNWATCH" | "MULTI" | "EXEC" | "DISCARD" | "RESET" => self.watch = Watch::None,
            _ => {}
        }
    }

    /// Sends a request, on a new connection if need be, until its first reply is there. Says where that
    /// stands, and until when the others have to be there.
    fn exchange<Q: Request>(
        &mut self,
        request: &Q,
        second_try: bool,
        meter: &mut Meter,
    ) -> Result<(Summary, Range<usize>, Option<Instant>), Error> {
        self.out.clear();
        let mut requests = Requests::new(&mut self.out, second_try);
        request.encode(&mut requests);
        let summary = requests.finish()?;
        meter.is(&summary);
        if summary.commands == 0 {
            return Ok((summary, 0..0, None));
        }
        let mut tries = 0;
        // Whether a connection that is gone may have carried the request to its execution.
        let mut carried = false;
        loop {
            self.ensure_connected()
                .map_err(|error| error.with_executed(carried))?;
            if self.watch == Watch::Lost && matches!(summary.name, "MULTI" | "EXEC") {
                return Ok((summary, 0..0, None));
            }
            tries += 1;
            let Failed {
                error,
                maybe_executed,
            } = match self.attempt(&summary) {
                Ok((first, deadline)) => return Ok((summary, first, deadline)),
                Err(failed) => failed,
            };
            self.give_up();
            meter::lost(&self.config, &error);
            carried |= maybe_executed;
            let again = !maybe_executed || self.config.retry.allows(summary.flags);
            let lost = matches!(error, Error::Connection { .. });
            if !again || !lost || tries >= MOST_TRIES {
                return Err(error.with_executed(carried));
            }
        }
    }

    /// One write and the wait for the first reply.
    fn attempt(&mut self, summary: &Summary) -> Result<(Range<usize>, Option<Instant>), Failed> {
        self.write_out(summary)?;
        let allowed =
            (self.config.response_timeout).and_then(|timeout| timeout.checked_add(summary.wait));
        let deadline = allowed.and_then(|allowed| Instant::now().checked_add(allowed));
        let after = allowed.unwrap_or(Duration::MAX);
        self.next_reply(deadline, after)
            .map(|first| (first, deadline))
            .map_err(|error| Failed {
                error,
                maybe_executed: true,
            })
    }

    /// Writes the request; a part of it that was never handed over is known not to have run.
    fn write_out(&mut self, summary: &Summary) -> Result<(), Failed> {
        let mut written = 0;
        let stream = self.stream.as_mut().expect("a connection was ensured");
        while written < self.out.len() {
            let error = match stream.write(&self.out[written..]) {
                Ok(bytes) if bytes > 0 => {
                    written += bytes;
                    continue;
                }
                Ok(_) => io::ErrorKind::WriteZero.into(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let error = match self.config.response_timeout {
                Some(after) if timed_out(&error) => Error::Timeout {
                    maybe_executed: false,
                    after,
                },
                _ => Error::connection(error, false),
            };
            // A command that lacks its end cannot have run, but those before it in a pipeline can.
            return Err(Failed {
                error,
                maybe_executed: written > 0 && summary.commands > 1,
            });
        }
        if self.out.capacity() > KEPT_OUT_BYTES && self.out.len() < KEPT_OUT_BYTES {
            self.out.shrink_to(KEPT_OUT_BYTES);
        }
        Ok(())
    }

    /// Waits for the next reply; push messages before it are kept.
    #[inline]
    fn next_reply(
        &mut self,
        deadline: Option<Instant>,
        after: Duration,
    ) -> Result<Range<usize>, Error> {
        loop {
            match self.message(deadline, after)? {
                Message::Reply(range) => return Ok(range),
                Message::Push(range) => self.keep_push(range)?,
            }
        }
    }

    fn keep_push(&mut self, range: Range<usize>) -> Result<(), Error> {
        let push = self.input.read(range).map_err(protocol_error)?.to_owned();
        if self.pushes.len() == KEPT_PUSHES {
            self.pushes.pop_front();
        }
        self.pushes.push_back(push);
        Ok(())
    }

    /// Waits for the next message of any kind.
    #[inline]
    fn message(&mut self, deadline: Option<Instant>, after: Duration) -> Result<Message, Error> {
        let mut looked = false;
        loop {
            if let Some(message) = self.input.next().map_err(protocol_error)? {
                return Ok(message);
            }
            // A reply that comes with the first read costs no look at the clock.
            if looked && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::Timeout {
                    maybe_executed: true,
                    after,
                });
            }
            self.receive()
                .map_err(|error| Error::connection(error, true))?;
            looked = true;
        }
    }

    /// Reads once; nothing may come of it within the timeout of the socket.
    fn receive(&mut self) -> io::Result<()> {
        let stream = self.stream.as_mut().expect("a connection was ensured");
        let room = self.input.room();
        let mut read = Err(io::ErrorKind::WouldBlock.into());
        if !self.config.spin.is_zero() {
            read = spin(stream, room, self.config.spin);
        }
        if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            read = stream.read(room);
        }
        match read {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            Ok(bytes) => {
                self.input.received(bytes);
                Ok(())
            }
            Err(error) if timed_out(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn give_up(&mut self) {
        self.stream = None;
        self.input.reset();
        if self.watch == Watch::Kept {
            self.watch = Watch::Lost;
        }
    }
}

/// Asks for bytes again and again, for at most so long.
fn spin(stream: &Stream, room: &mut [u8], time: Duration) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match stream.read_now(room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < time => {
                std::hint::spin_loop();
            }
            done => return done,
        }
    }
}

/// Whether the socket gave up waiting; which of the two it says depends on the system.
fn timed_out(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn protocol_error(source: loadline_resp::Error) -> Error {
    Error::Protocol {
        maybe_executed: true,
        source,
    }
}
