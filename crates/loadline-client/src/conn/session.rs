//! The life of a connection, from one socket to the next: the handshake, its deadline, what the server was
//! last heard, when to try again, and what may be sent a second time.
//!
//! Every kind of connection has one: the blocking one, the one that tasks share, and those of subscribers. They
//! differ in who waits for which reply, and agree on everything here.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_resp::{Malformed, Protocol, Reply, encode};

use super::attempt::{advised, hung_up};
use super::backoff::Backoff;
use super::carried::{Carried, Outcome};
use super::greeting::Greeting;
use super::unwritten::is_read_only;
use crate::cluster::Node;
use crate::config::Peer;
use crate::{Address, Config, ConnectionEvent, Credentials, Error, Flags, ServerError};

/// The most times that a request is handed to a server, under any policy.
pub(crate) const MOST_TRIES: u8 = 3;
/// The least time between two connections that are given up since the server has become a replica.
const DEMOTION_PAUSE: Duration = Duration::from_secs(1);

/// The least age of a subscribing connection that was of use and has brought messages.
const BUSY_AGE: Duration = Duration::from_millis(5);
/// The least age of one that has brought none.
const QUIET_AGE: Duration = Duration::from_millis(100);

/// The state of a connection that its shells have in common.
#[derive(Debug)]
pub(crate) struct Session {
    config: Arc<Config>,
    phase: Phase,
    pub(crate) carried: Carried,
    /// The version of the credentials with which the connection has logged in last.
    login: u64,
    /// When the last bytes came.
    heard: Instant,
    /// The number of sockets so far.
    sockets: u64,
    /// Start of the time in which the last connection could be used, if it ever could.
    ready_since: Option<Instant>,
    /// The reason why there is no connection.
    outage: Option<Error>,
    /// When the last bytes of a connection came that was lost and is not regained.
    lost_since: Option<Instant>,
    /// The address of the node of a cluster or the server that sentinels name, where the configuration is another one.
    node: Option<Address>,
    backoff: Backoff,
    /// When a connection was last given up because its server had become a replica.
    demoted: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    /// There is no connection.
    Down,
    /// The handshake goes on.
    Greeting {
        greeting: Greeting,
        deadline: Instant,
    },
    /// Requests are written and answered.
    Ready(Protocol),
}

/// The error for the first byte of an alert of TLS.
const TLS_ALERT: loadline_resp::Error = loadline_resp::Error::Malformed(Malformed::Type(0x15));

/// A request on a connection that broke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unanswered {
    pub(crate) flags: Flags,
    /// The number of connections, this one included, on which the server may have executed it.
    pub(crate) tries: u8,
    /// Whether the server may have executed it, or a part of it, on this connection.
    pub(crate) maybe_executed: bool,
    /// Whether it means nothing on another connection.
    pub(crate) bound: bool,
    /// Whether its caller has waited long enough.
    pub(crate) overdue: bool,
    /// Whether its own reply was what broke the connection.
    pub(crate) guilty: bool,
}

/// An error by which a server says that it is not the one to ask now. The command was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// It reads its data into memory; it will answer later.
    Loading,
    /// It has become a replica; the name may stand for another server by now.
    Demoted,
}

impl Session {
    pub(crate) fn new(config: Arc<Config>, now: Instant) -> Self {
        Self {
            config,
            phase: Phase::Down,
            carried: Carried::default(),
            login: 0,
            heard: now,
            sockets: 0,
            ready_since: None,
            outage: None,
            lost_since: None,
            node: None,
            backoff: Backoff::new(),
            demoted: None,
        }
    }

    #[inline]
    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready(_))
    }

    /// When the connection became ready; `None` if it is not.
    #[cfg(feature = "tokio")]
    pub(crate) fn ready_since(&self) -> Option<Instant> {
        self.ready_since.filter(|_| self.is_ready())
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.phase, Phase::Down)
    }

    #[inline]
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self.phase, Phase::Greeting { .. })
    }

    /// The version of the protocol that is spoken, if any is.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        match self.phase {
            Phase::Ready(protocol) => Some(protocol),
            _ => None,
        }
    }

    /// The reason why there is no connection.
    pub(crate) fn outage(&self) -> Option<&Error> {
        self.outage.as_ref()
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn set_outage(&mut self, error: Error) {
        self.outage = Some(error);
    }

    /// Takes note of an attempt to connect that did not get to the handshake.
    pub(crate) fn unreachable(&mut self, error: &Error) {
        self.tell_end(false, error);
        self.outage = Some(error.clone());
    }

    /// Names the node of a cluster to which the next connection goes, where the configuration names another one.
    pub(crate) fn goes_to(&mut self, node: &Node) {
        let (host, port) = (node.host().to_owned(), node.port());
        self.node = Some(match self.config.address {
            Address::Tls { .. } => Address::Tls { host, port },
            _ => Address::Tcp { host, port },
        });
    }

    /// Names the server that the sentinels have named for this connection.
    pub(crate) fn is_to(&mut self, address: Option<&Address>) {
        if let Some(address) = address {
            self.node = Some(address.clone());
        }
    }

    /// Appends an event to the queue of the application, if there is one.
    fn tell(&self, event: impl FnOnce(Address) -> ConnectionEvent) {
        if let Some(events) = &self.config.events {
            let address = self.node.as_ref().unwrap_or(&self.config.address);
            events.push(event(address.clone()));
        }
    }

    fn tell_end(&self, was_ready: bool, error: &Error) {
        if matches!(error, Error::Closed { .. }) {
            // The application ended it.
            return;
        }
        self.tell(|address| {
            let error = error.clone();
            if was_ready {
                ConnectionEvent::Lost { address, error }
            } else {
                ConnectionEvent::Failed { address, error }
            }
        });
    }

    /// The number of sockets so far: another one means another connection at the server.
    pub(crate) fn sockets(&self) -> u64 {
        self.sockets
    }

    // ---- From one socket to the next ----

    /// Begins the handshake on a new socket.
    pub(crate) fn connected(&mut self, now: Instant, out: &mut Vec<u8>) {
        self.heard = now;
        self.sockets += 1;
        // Before they are read: those that replace them meanwhile are sent again, and no replacement is missed.
        self.login = self.credentials_version();
        self.phase = Phase::Greeting {
            greeting: Greeting::resume(&self.config, self.carried.settings(), out),
            deadline: now + self.config.connect_timeout,
        };
    }

    /// Takes a reply of the handshake; true if it was the last one.
    ///
    /// # Errors
    /// `Login` if the server refuses the connection.
    pub(crate) fn greeted(
        &mut self,
        reply: &Reply<'_>,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let Phase::Greeting { greeting, .. } = &mut self.phase else {
            return Ok(true);
        };
        let Some(protocol) = greeting.reply(reply, out)? else {
            return Ok(false);
        };
        self.phase = Phase::Ready(protocol);
        self.ready_since = Some(now);
        self.outage = None;
        let lost = self.lost_since.take();
        self.tell(|address| match lost {
            None => ConnectionEvent::Connected { address },
            Some(since) => ConnectionEvent::Reconnected {
                address,
                outage: now.saturating_duration_since(since),
            },
        });
        Ok(true)
    }

    /// The reason why the connection broke, with the likely cause if that was a handshake without TLS to a server
    /// that expects TLS. Such a server answers with an alert of TLS, or hangs up.
    pub(crate) fn explain(&self, error: Error) -> Error {
        const LIKELY: &str =
            "a server that expects TLS does that, and its URL begins with rediss://";
        let address = self.node.as_ref().unwrap_or(&self.config.address);
        let plain = matches!(address, Address::Tcp { .. });
        if !plain || !self.is_greeting() {
            return error;
        }
        let source = match &error {
            Error::Protocol { source, .. } if *source == TLS_ALERT => {
                io::Error::new(io::ErrorKind::InvalidData, *source)
            }
            Error::Connection { source, .. } if hung_up(source.kind()) => {
                io::Error::new(source.kind(), Arc::clone(source))
            }
            _ => return error,
        };
        Error::connection(advised(source, LIKELY), false)
    }

    fn credentials_version(&self) -> u64 {
        let credentials = self.config.credentials.as_ref();
        credentials.map_or(0, Credentials::version)
    }

    /// Appends an `AUTH` to `out`, in front of the next request, if the credentials have been replaced since the
    /// connection has logged in. [`Session::renewed`] takes its reply.
    #[inline]
    pub(crate) fn renew(&mut self, out: &mut Vec<u8>) -> bool {
        self.config.credentials.is_some() && self.renew_login(out)
    }

    #[cold]
    fn renew_login(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(credentials) = &self.config.credentials else {
            return false;
        };
        let version = credentials.version();
        // A login by a command stays, and in a transaction the server would queue the command.
        let own = self.carried.settings().login.is_some();
        let leaves = self.carried.leaves(Flags::READ_ONLY);
        if version == self.login || own || !leaves || !self.is_ready() {
            return false;
        }
        let (user, password) = credentials.present();
        match &user {
            Some(user) => encode::command(out, &["AUTH", user, password.reveal()]),
            None => encode::command(out, &["AUTH", password.reveal()]),
        }
        self.login = version;
        true
    }

    /// Takes the reply to a renewed login, by its bytes.
    pub(crate) fn renewed(&self, reply: &[u8]) {
        let Some(text) = reply.strip_prefix(b"-") else {
            return;
        };
        // The remainder could repeat the password.
        let code = text.split(|byte| b" \r\n".contains(byte)).next();
        let answer = ServerError::new(code.unwrap_or_default());
        let step = "AUTH";
        self.tell(|address| ConnectionEvent::LoginRefused {
            address,
            error: Error::Login { step, answer },
        });
    }

    /// Takes note of the end of the connection, or of an attempt to make one.
    pub(crate) fn broke(&mut self, error: &Error) {
        let was_ready = self.is_ready();
        if was_ready {
            self.lost_since = Some(self.heard);
        }
        self.tell_end(was_ready, error);
        self.phase = Phase::Down;
        self.outage = Some(error.clone());
        self.carried.broke();
    }

    /// Whether sentinels name the master, so that a request that a replica has refused can be sent there.
    pub(crate) fn follows_sentinels(&self) -> bool {
        matches!(&self.config.address, Address::Sentinel(sentinel) if sentinel.wants_master())
    }

    /// Takes note that the connection is of use.
    pub(crate) fn was_useful(&mut self) {
        self.backoff.connected();
    }

    /// The pause before the next attempt to connect. There is none after a connection that was of use; one
    /// that was not goes on with the pauses of the outage, so that a server that hangs up on every client is
    /// not stormed.
    pub(crate) fn pause(&mut self, was_useful: bool, now: Instant) -> Duration {
        if was_useful {
            self.backoff.connected();
        }
        self.backoff.failed(now)
    }

    /// As [`Session::pause`], for a connection that asks for its subscriptions by itself, so that an answer
    /// does not show that it was of use. It was if it has lasted, and the sooner if it has brought messages.
    pub(crate) fn pause_by_age(&mut self, brought_messages: bool, now: Instant) -> Duration {
        let since = self.ready_since.take();
        let age = since.map(|since| now.saturating_duration_since(since));
        let least = if brought_messages {
            BUSY_AGE
        } else {
            QUIET_AGE
        };
        self.pause(age.is_some_and(|age| age >= least), now)
    }

    // ---- Time ----

    /// Takes note of received bytes.
    #[inline]
    pub(crate) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// When the handshake is overdue, and after what time that is.
    pub(crate) fn greeting_due(&self) -> Option<(Instant, Duration)> {
        match self.phase {
            Phase::Greeting { deadline, .. } => Some((deadline, self.config.connect_timeout)),
            _ => None,
        }
    }

    /// When a connection on which nothing is asked has to be asked whether the server is there.
    pub(crate) fn keepalive_due(&self) -> Option<Instant> {
        self.heard.checked_add(self.config.keepalive?)
    }

    /// Time that a reply may take whose command may wait at the server; `None` is without end.
    #[inline]
    pub(crate) fn allowed(&self, wait: Duration) -> Option<Duration> {
        self.config.response_timeout?.checked_add(wait)
    }

    /// Time that the answer to the question may take whether the server is there. It needs one, however long
    /// other replies may take.
    pub(crate) fn allowed_for_keepalive(&self) -> Option<Duration> {
        self.config.response_timeout.or(self.config.keepalive)
    }

    // ---- Requests ----

    /// Whether a request is sent again after its connection broke for this reason.
    pub(crate) fn repeats(&self, request: Unanswered, error: &Error) -> bool {
        let allowed = !request.maybe_executed || self.config.retry.allows(request.flags);
        allowed
            && !request.bound
            && !request.overdue
            && !request.guilty
            && request.tries < MOST_TRIES
            && !matches!(error, Error::Login { .. } | Error::Closed { .. })
    }

    /// Follows a request that may have changed the state of the connection, as far as it was answered.
    pub(crate) fn follow(&mut self, wire: &[u8], outcomes: &[Outcome]) {
        if let (Some(protocol), Phase::Ready(spoken)) =
            (self.carried.follow(wire, outcomes), &mut self.phase)
        {
            *spoken = protocol;
        }
    }

    /// Whether a reply, by its bytes, says that this server is not the one to ask now. A node of a cluster is
    /// left to the code that knows the others. A server that stays a replica is given up once a second, unless sentinels
    /// name the one to go to.
    #[inline]
    pub(crate) fn unavailable(&mut self, reply: &[u8], now: Instant) -> Option<Unavailable> {
        if reply.first() != Some(&b'-') || self.config.peer != Peer::Server {
            return None;
        }
        if reply.starts_with(b"-LOADING ") {
            return Some(Unavailable::Loading);
        }
        if let Address::Sentinel(_) = &self.config.address {
            let demoted = self.follows_sentinels() && is_read_only(reply);
            return demoted.then_some(Unavailable::Demoted);
        }
        let lately = self
            .demoted
            .is_some_and(|at| now.saturating_duration_since(at) < DEMOTION_PAUSE);
        if !reply.starts_with(b"-READONLY ") || lately {
            return None;
        }
        self.demoted = Some(now);
        Some(Unavailable::Demoted)
    }
}

/// The error of a request that fails for this reason, after `tries` connections may have executed it.
pub(crate) fn fault(error: &Error, tries: u8) -> Error {
    let fault = error.clone().with_executed(tries > 0);
    if tries == 0 || fault.maybe_executed() {
        return fault;
    }
    // This kind of error cannot say that a connection before may have carried the request.
    Error::connection(io::Error::other(fault), true)
}

/// The error for a reply that answers no request.
pub(crate) fn unasked() -> Error {
    let what = "the server sent a reply that was not asked for";
    Error::connection(io::Error::new(io::ErrorKind::InvalidData, what), true)
}
