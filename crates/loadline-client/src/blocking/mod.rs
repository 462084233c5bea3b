//! A connection for one thread: it writes a request, and waits for the replies.
//!
//! A request is one write and, where the replies are short, one read. Timeouts are set on the socket when
//! it is opened and not for each request.
//!
//! ```
//! use loadline_client::Client;
//! use loadline_client::commands::{get, set};
//!
//! let url = "redis://localhost";
//! # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
//! let mut connection = Client::open(url)?.blocking()?;
//! connection.run(set("key", "value"))?;
//! let reply = connection.run_ref(&get::<()>("key"))?;
//! assert_eq!(reply.as_bytes(), Some(&b"value"[..]));
//! # Ok::<(), loadline_client::Error>(())
//! ```

mod cluster;
mod connect;
mod dial;
mod feed;
mod group;
mod halves;
mod input;
mod loading;
mod pubsub;
mod reader;
mod replies;
mod scan;
mod sent;
mod sentinel;
mod socket;
mod step;
mod stream;
mod timed;
mod tracking;
mod wires;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_resp::{OwnedReply, Protocol, Reply};

use crate::conn::session::{MOST_TRIES, Session, Unanswered, Unavailable, fault};
use crate::lending::{Each, LENT_ALONE};
use crate::meter::{self, Failures, Meter};
use crate::request::Summary;
use crate::transaction::{optimistic, transaction_text};
use crate::{Config, Error, Request, Requests, ServerError, ToArgs};
pub use cluster::Cluster;
pub use group::GroupReader;
use input::{Input, Message};
use loading::Waited;
pub use pubsub::PubSub;
pub use reader::StreamReader;
use replies::Incoming;
pub use scan::Scanning;
pub use sent::Sent;
pub(crate) use sentinel::listen;
pub use stream::Stream as Socket;
use timed::{TimedSocket, Unwritten};
pub use tracking::Tracking;

/// Push messages that are kept for the caller; older ones give way.
const KEPT_PUSHES: usize = 1024;
/// A send buffer above this is given back.
const KEPT_OUT_BYTES: usize = 1 << 20;

/// A connection for one thread. See the [module](self).
///
/// If it breaks, the request fails, unless the [`RetryPolicy`](crate::RetryPolicy) lets it be sent again. The
/// next request connects again, at once and then with growing pauses, for as long as the response timeout
/// lasts. A database, a login, a name, and client-side caching that commands have set are set again. A
/// transaction that was begun and keys that were watched are lost, and the next request fails with an error
/// that says so.
pub struct Connection {
    config: Arc<Config>,
    session: Session,
    socket: Option<TimedSocket>,
    out: Vec<u8>,
    input: Input,
    pushes: VecDeque<OwnedReply>,
    /// From when on a request is preceded by a look at the socket.
    look_from: Instant,
    /// The unavailability that the last error reply reported, if it reported any.
    unavailable: Option<Unavailable>,
}

/// The address and whether there is a connection. Buffers are left out, since they hold what was sent.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.config.address)
            .field("connected", &self.is_connected())
            .finish_non_exhaustive()
    }
}

/// The reason why a try failed, and whether the server may know of the request.
struct Failed {
    error: Error,
    maybe_executed: bool,
}

/// Until when a request has to be written and answered.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    write: Option<Instant>,
    reply: Option<Instant>,
    /// The time that the reply has.
    after: Duration,
}

/// A request whose first reply is there.
struct Answered {
    summary: Summary,
    /// Where the first reply is in the receive buffer.
    first: Range<usize>,
    deadlines: Deadlines,
    /// Whether it may have changed the state of the connection.
    bound: bool,
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
        let now = Instant::now();
        Self {
            input: Input::new(config.limits),
            session: Session::new(Arc::clone(&config), now),
            config,
            socket: None,
            out: Vec::new(),
            pushes: VecDeque::new(),
            look_from: now + step::SOON,
            unavailable: None,
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
        let lent = exchanged.and_then(|answered| {
            let reply = self.input.read(answered.first).map_err(protocol_error)?;
            match reply.error_text() {
                Some(text) => Err(Error::server(text)),
                None => Ok(reply),
            }
        });
        let mut failures = Failures::default();
        failures.see(lent.as_ref());
        meter.end(&self.config, request, &failures);
        lent
    }

    /// Runs a command, or several as a pipeline, and lends each reply, in the order of the commands, from the
    /// receive buffer: nothing is copied and nothing is allocated. It is the fastest way to read much.
    ///
    /// ```
    /// # use loadline_client::commands::set;
    /// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
    /// # let mut connection = loadline_client::Client::open(url)?.blocking()?;
    /// # connection.run(set("one", "first"))?;
    /// use loadline_client::commands::get;
    ///
    /// let gets: Vec<_> = ["one", "two"].iter().map(get::<()>).collect();
    /// let mut bytes = 0;
    /// connection.run_each(&gets, |reply| {
    ///     if let Ok(reply) = reply {
    ///         bytes += reply.as_bytes().map_or(0, <[u8]>::len);
    ///     }
    /// })?;
    /// # assert_eq!(bytes, 5);
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The reason why a reply is missing; `read` was called for those before it. Error replies of the server are
    /// lent like any other.
    pub fn run_each<Q: Request>(
        &mut self,
        request: &Q,
        read: impl FnMut(Result<Reply<'_>, ServerError>),
    ) -> Result<(), Error> {
        self.run(Each::new(request, read))
    }

    #[doc = transaction_text!(what)]
    ///
    /// ```
    /// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
    /// # let mut connection = loadline_client::Client::open(url)?.blocking()?;
    /// use loadline_client::commands::{get, set};
    ///
    /// connection.run(set("balance", 21))?;
    /// let doubled = connection.transaction("balance", 10, |connection| {
    ///     let balance: i64 = connection.run(get("balance"))?;
    ///     Ok(set("balance", 2 * balance))
    /// })?;
    /// doubled?;
    /// assert_eq!(connection.run(get::<i64>("balance"))?, 42);
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    ///
    #[doc = transaction_text!(errors)]
    pub fn transaction<Q: Request>(
        &mut self,
        keys: impl ToArgs,
        attempts: u32,
        mut plan: impl FnMut(&mut Self) -> Result<Q, Error>,
    ) -> Result<Q::Output, Error> {
        optimistic!(self, keys, attempts, plan(self))
    }

    /// The number of sockets so far.
    fn sockets(&self) -> u64 {
        self.session.sockets()
    }

    /// The version of the protocol that is spoken.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.session.protocol().unwrap_or_default()
    }

    /// The oldest push message that came along with replies, such as an invalidation of client-side
    /// caching. At most 1,024 are kept.
    pub fn take_push(&mut self) -> Option<OwnedReply> {
        self.pushes.pop_front()
    }

    /// Waits up to `timeout` for a push message.
    ///
    /// # Errors
    /// The connection broke. It is not made again here, since the server has forgotten what it was to send.
    pub fn wait_push(&mut self, timeout: Duration) -> Result<Option<OwnedReply>, Error> {
        if let Some(push) = self.take_push() {
            return Ok(Some(push));
        }
        let Some(socket) = &mut self.socket else {
            return Err(Error::connection(io::ErrorKind::NotConnected.into(), false));
        };
        let set = socket.set_timeout(Some(timeout));
        let set = set.map_err(|error| Error::connection(error, false));
        let waited = set.and_then(|()| self.next_push(timeout));
        waited.inspect_err(|error| self.give_up(error))
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

    /// Whether there is a connection, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Bytes of the connection's own buffers.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.out.capacity() + self.input.capacity()
    }

    fn once<Q: Request>(&mut self, request: &Q, second_try: bool) -> Q::Output {
        let mut meter = Meter::begin();
        let answered = match self.exchange(request, second_try, &mut meter) {
            Ok(answered) => answered,
            Err(error) => return meter.failed(&self.config, request, error),
        };
        let config = Arc::clone(&self.config);
        let mut incoming = Incoming::new(self, &answered);
        let output = meter.decode(&config, request, &mut incoming);
        incoming.finish();
        output
    }

    /// Sends a request, on a new connection if need be, until its first reply is there.
    fn exchange<Q: Request>(
        &mut self,
        request: &Q,
        second_try: bool,
        meter: &mut Meter,
    ) -> Result<Answered, Error> {
        let summary = self.encode(request, second_try, meter)?;
        let now = Instant::now();
        let deadlines = self.deadlines(&summary, now);
        if summary.commands == 0 {
            return Ok(Answered {
                summary,
                first: 0..0,
                deadlines,
                bound: false,
            });
        }
        self.get_in_step(now);
        let (mut attempts, mut tries, mut loading) = (0, 0, None);
        loop {
            let bound = self
                .prepare(&summary, now)
                .map_err(|error| fault(&error, tries))?;
            let mut attempted = self.attempt(&summary, deadlines);
            if !bound && self.may_be_unserved(&summary) {
                match self.wait_or_leave(attempted, &summary, deadlines, &mut loading) {
                    Waited::ForData => continue,
                    Waited::InVain(same) => attempted = same,
                }
            }
            let failed = match attempted {
                Ok(first) => {
                    return Ok(Answered {
                        summary,
                        first,
                        deadlines,
                        bound,
                    });
                }
                Err(failed) => failed,
            };
            attempts += 1;
            tries += u8::from(failed.maybe_executed);
            let error = failed.error;
            let request = Unanswered {
                flags: summary.flags,
                tries,
                maybe_executed: failed.maybe_executed,
                bound,
                overdue: attempts >= MOST_TRIES || matches!(error, Error::Timeout { .. }),
                guilty: !matches!(error, Error::Connection { .. }),
            };
            let again = self.session.repeats(request, &error);
            self.give_up(&error);
            meter::lost(&self.config, &error);
            if !again {
                return Err(fault(&error, tries));
            }
        }
    }

    /// Puts a request into the send buffer.
    fn encode<Q: Request>(
        &mut self,
        request: &Q,
        second_try: bool,
        meter: &mut Meter,
    ) -> Result<Summary, Error> {
        self.out.clear();
        let mut requests = Requests::new(&mut self.out, second_try);
        request.encode(&mut requests);
        let summary = requests.finish()?;
        meter.is(&summary);
        Ok(summary)
    }

    #[inline]
    fn deadlines(&self, summary: &Summary, begun: Instant) -> Deadlines {
        let timeout = self.config.response_timeout;
        let write = timeout.and_then(|timeout| begun.checked_add(timeout));
        let (allowed, reply) = if summary.wait.is_zero() {
            (timeout, write)
        } else {
            let allowed = self.session.allowed(summary.wait);
            let reply = allowed.and_then(|allowed| begun.checked_add(allowed));
            (allowed, reply)
        };
        Deadlines {
            write,
            reply,
            after: allowed.unwrap_or(Duration::MAX),
        }
    }

    /// Connects if need be. Says whether the request may change the state of the connection, or depends on it.
    #[inline]
    fn prepare(&mut self, summary: &Summary, begun: Instant) -> Result<bool, Error> {
        self.ensure_connected(begun)?;
        let bound = !self.session.carried.leaves(summary.flags);
        if bound {
            self.session.carried.admit(summary)?;
        }
        Ok(bound)
    }

    /// One write and the wait for the first reply.
    // See `write_out`.
    #[inline(always)]
    fn attempt(&mut self, summary: &Summary, deadlines: Deadlines) -> Result<Range<usize>, Failed> {
        self.write_out(summary, deadlines)?;
        let first = self.next_reply(deadlines.reply, deadlines.after);
        let first = first.and_then(|first| {
            if summary.commands == 1 {
                self.check_surplus(summary)?;
            }
            Ok(first)
        });
        first.map_err(|error| Failed {
            error,
            maybe_executed: true,
        })
    }

    /// Writes the request; a part of it that was never handed over is known not to have run.
    // One of five steps of every exchange. Calling them takes a tenth of its instructions.
    #[inline(always)]
    fn write_out(&mut self, summary: &Summary, deadlines: Deadlines) -> Result<(), Failed> {
        self.unavailable = None;
        let timeout = self.config.response_timeout;
        let socket = self.socket.as_mut().expect("a connection was ensured");
        let set = socket.set_timeout(timeout);
        let set = set.map_err(|error| Unwritten { error, written: 0 });
        let result = set.and_then(|()| socket.write_all(&self.out, deadlines.write));
        if let Err(Unwritten { error, written }) = result {
            let error = match timeout {
                Some(after) if timed_out(&error) => Error::Timeout {
                    maybe_executed: false,
                    after,
                },
                _ => Error::connection(error, false),
            };
            // A command that lacks its end cannot have run, but those before it in a pipeline can.
            let complete = written == self.out.len();
            return Err(Failed {
                error,
                maybe_executed: complete || (written > 0 && summary.commands > 1),
            });
        }
        if self.out.capacity() > KEPT_OUT_BYTES && self.out.len() < KEPT_OUT_BYTES {
            self.out.shrink_to(KEPT_OUT_BYTES);
        }
        Ok(())
    }

    /// Waits for the next reply; push messages before it are kept.
    // See `write_out`.
    #[inline(always)]
    fn next_reply(
        &mut self,
        deadline: Option<Instant>,
        after: Duration,
    ) -> Result<Range<usize>, Error> {
        loop {
            match self.message(deadline, after)? {
                Message::Reply(range) => {
                    let reply = self.input.text(range.clone());
                    if reply.first() == Some(&b'-') {
                        self.unavailable = self.session.unavailable(reply, Instant::now());
                    }
                    return Ok(range);
                }
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
    // See `write_out`.
    #[inline(always)]
    fn message(&mut self, deadline: Option<Instant>, after: Duration) -> Result<Message, Error> {
        let mut looked = false;
        loop {
            if let Some(message) = self.input.next().map_err(protocol_error)? {
                return Ok(message);
            }
            // A reply that comes with the first read costs no look at the clock.
            let kept = if looked { self.keep(deadline) } else { Ok(()) };
            match kept.and_then(|()| self.receive()) {
                Ok(()) => looked = true,
                Err(error) if timed_out(&error) => {
                    return Err(Error::Timeout {
                        maybe_executed: true,
                        after,
                    });
                }
                Err(error) => return Err(Error::connection(error, true)),
            }
        }
    }

    /// Shortens the timeout of the socket as the deadline comes near.
    fn keep(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        match &mut self.socket {
            Some(socket) => socket.keep(deadline),
            None => Ok(()),
        }
    }

    /// Reads once; nothing may come of it within the timeout of the socket.
    // See `write_out`.
    #[inline(always)]
    fn receive(&mut self) -> io::Result<()> {
        let socket = self.socket.as_mut().expect("a connection was ensured");
        let room = self.input.room();
        let spun = if self.config.spin.is_zero() {
            None
        } else {
            spin(&mut socket.socket, room, self.config.spin)
        };
        let read = spun.unwrap_or_else(|| socket.read_some(room));
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

    fn give_up(&mut self, error: &Error) {
        self.socket = None;
        self.input.reset();
        self.session.broke(error);
    }
}

/// Asks for bytes again and again, for at most `time`; `None` if nothing came.
fn spin(stream: &mut Socket, room: &mut [u8], time: Duration) -> Option<io::Result<usize>> {
    let begun = Instant::now();
    loop {
        match stream.read_now(room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if begun.elapsed() >= time {
                    return None;
                }
                std::hint::spin_loop();
            }
            done => return Some(done),
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
