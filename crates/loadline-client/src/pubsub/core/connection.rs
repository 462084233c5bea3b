//! One subscribing connection: its questions, the bytes to write, and its session.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loadline_resp::encode;

use crate::cluster::Node;
use crate::conn::scan::Scanner;
use crate::conn::session::Session;
use crate::pubsub::Kind;
use crate::pubsub::tickets::TicketId;
use crate::{Config, Error};

/// Names a connection of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(super) u64);

impl ConnectionId {
    /// The connection for channels and patterns; on a single server, for all.
    pub(crate) const MAIN: Self = Self(0);
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// The node of a cluster that it is to; the main one takes any.
    pub(super) node: Option<Node>,
    pub(super) session: Session,
    pub(super) out: Vec<u8>,
    pub(super) expected: VecDeque<Question>,
    questions: u64,
    pub(super) scanner: Scanner,
    /// The beginning of a message whose end has not come.
    pub(super) partial: Vec<u8>,
    /// When the bytes before the latest ones came.
    pub(super) heard_before: Instant,
    /// Start of the time in which messages may be missing.
    pub(super) lost_since: Option<Instant>,
    /// The last question of those with which all is subscribed again.
    pub(super) resubscribed_by: Option<u64>,
    /// Whether any of those questions had its answer here, and not by a redirection to another node.
    pub(super) regained: bool,
    /// Whether the last connection has brought a message.
    pub(super) brought_messages: bool,
    /// Whether a subscription has left it, so that nothing may be left on it.
    pub(super) left: bool,
    /// Whether it is not needed any more.
    pub(super) ended: bool,
    #[cfg(feature = "tokio")]
    pub(super) driver: Option<Waker>,
}

/// Something that the server has to answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) number: u64,
    at: Instant,
    pub(super) what: Asked,
}

#[derive(Debug)]
pub(super) enum Asked {
    Subscribe(Kind, Bytes),
    Unsubscribe(Kind, Bytes, Option<TicketId>),
    Ping,
}

impl ConnectionState {
    pub(super) fn new(node: Option<Node>, config: &Arc<Config>, now: Instant) -> Self {
        Self {
            node,
            session: Session::new(Arc::clone(config), now),
            out: Vec::new(),
            expected: VecDeque::new(),
            questions: 0,
            scanner: Scanner::new(config.limits),
            partial: Vec::new(),
            heard_before: now,
            lost_since: None,
            resubscribed_by: None,
            regained: false,
            brought_messages: false,
            left: false,
            ended: false,
            #[cfg(feature = "tokio")]
            driver: None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.session.is_ready()
    }

    /// Begins the handshake on a new socket.
    pub(super) fn connected(&mut self, now: Instant) {
        self.scanner = Scanner::new(self.session.config().limits);
        self.partial.clear();
        self.out.clear();
        self.session.connected(now, &mut self.out);
    }

    pub(super) fn ask_subscribe(&mut self, kind: Kind, name: &Bytes, now: Instant) -> u64 {
        let command: &[&[u8]] = match kind {
            Kind::Channel => &[b"SUBSCRIBE", name],
            Kind::Pattern => &[b"PSUBSCRIBE", name],
            Kind::Shard => &[b"SSUBSCRIBE", name],
            Kind::Keys => &[b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", name],
        };
        encode::command(&mut self.out, command);
        self.ask(Asked::Subscribe(kind, name.clone()), now)
    }

    pub(super) fn ask_unsubscribe(
        &mut self,
        kind: Kind,
        name: Bytes,
        ticket: Option<TicketId>,
        now: Instant,
    ) {
        let command: &[&[u8]] = match kind {
            Kind::Channel => &[b"UNSUBSCRIBE", &name],
            Kind::Pattern => &[b"PUNSUBSCRIBE", &name],
            Kind::Shard => &[b"SUNSUBSCRIBE", &name],
            // A prefix cannot be ended alone. No caller keeps the others.
            Kind::Keys => &[b"CLIENT", b"TRACKING", b"OFF"],
        };
        encode::command(&mut self.out, command);
        self.ask(Asked::Unsubscribe(kind, name, ticket), now);
        self.left = true;
    }

    pub(super) fn ask_ping(&mut self, now: Instant) {
        encode::command(&mut self.out, &["PING"]);
        self.ask(Asked::Ping, now);
    }

    fn ask(&mut self, what: Asked, now: Instant) -> u64 {
        self.questions += 1;
        self.expected.push_back(Question {
            number: self.questions,
            at: now,
            what,
        });
        self.questions
    }

    /// The question that the server has answered.
    pub(super) fn answered(&mut self) -> Result<Question, Error> {
        self.expected.pop_front().ok_or_else(unasked)
    }

    /// Messages may be missing since then.
    pub(super) fn lose(&mut self, since: Instant) {
        let earliest = self.lost_since.map_or(since, |before| before.min(since));
        self.lost_since = Some(earliest);
    }

    /// When an answer is overdue, and after what time. Answers wait behind messages, so a connection that
    /// brings anything is not given up.
    pub(super) fn answer_due(&self) -> Option<(Instant, Duration)> {
        if let Some(due) = self.session.greeting_due() {
            return Some(due);
        }
        let question = self.expected.front()?;
        let after = match question.what {
            Asked::Ping => self.session.allowed_for_keepalive(),
            _ => self.session.allowed(Duration::ZERO),
        }?;
        let due = question.at.max(self.session.heard()).checked_add(after)?;
        Some((due, after))
    }

    pub(super) fn ping_due(&self) -> Option<Instant> {
        let quiet = self.is_ready() && self.expected.is_empty();
        quiet.then(|| self.session.keepalive_due()).flatten()
    }
}

pub(super) fn unasked() -> Error {
    let what = "the server sent something that answers no subscription";
    Error::connection(io::Error::new(io::ErrorKind::InvalidData, what), true)
}
