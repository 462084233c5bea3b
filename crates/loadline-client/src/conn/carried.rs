//! The state that commands give to a connection, and what becomes of it on the next one.
//!
//! A database, a login, a name, and modes such as client-side caching are set again as part of the next
//! handshake. A transaction that was begun, keys that are watched, and a stream of messages end with their
//! connection: the next request fails with an error that says so.

use std::fmt;
use std::io;

use loadline_resp::{Decoder, Limits, Protocol, Reply};

use crate::credentials::Password;
use crate::request::Summary;
use crate::{Error, Flags};

/// The state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    settings: Settings,
    /// Whether the server queues commands for `EXEC`, and those of them that change the state.
    transaction: Option<Vec<Change>>,
    watching: bool,
    /// The command after which the server sends messages that look like replies.
    streaming: Option<&'static str>,
    /// Whether a request may have left a state that only `RESET` surely undoes.
    altered: bool,
    /// The command whose effect ended with the last connection, until a request has failed for it.
    lost: Option<&'static str>,
}

/// Settings that the next connection gets again, in place of the configured ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(super) login: Option<(Option<String>, Password)>,
    pub(super) name: Option<String>,
    pub(super) database: Option<u32>,
    pub(super) readonly: Option<bool>,
    pub(super) protocol: Option<Protocol>,
    /// The last command of each mode, as it was sent.
    pub(super) modes: Vec<(&'static str, Vec<u8>)>,
}

/// The effect of a command on the state of its connection.
#[derive(Clone, Debug)]
enum Change {
    None,
    Login(Option<String>, Password),
    Name(String),
    Database(u32),
    Readonly(bool),
    Hello(Box<Settings>),
    Mode(&'static str, Vec<u8>),
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Reset,
    Stream(&'static str),
}

/// The server's reaction to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The reply is nil: a transaction did not run.
    Nil,
    Refused,
}

impl Outcome {
    /// Reads the outcome from the bytes of a reply.
    pub(crate) fn of(reply: &[u8]) -> Self {
        match reply {
            [b'-' | b'!', ..] => Self::Refused,
            [b'_', ..] | [b'*' | b'$', b'-', ..] => Self::Nil,
            _ => Self::Done,
        }
    }
}

impl Carried {
    /// Whether a request with these flags neither changes the state nor depends on it.
    #[inline]
    pub(crate) fn leaves(&self, flags: Flags) -> bool {
        !flags.contains(Flags::DEDICATED)
            && self.transaction.is_none()
            && !self.watching
            && self.streaming.is_none()
            && self.lost.is_none()
    }

    /// Lets a request that does not [leave](Self::leaves) the state alone pass. It must not be sent to any
    /// other connection than this one.
    ///
    /// # Errors
    /// The state that it may rely on has ended with the last connection, which is said once. `Usage` if the
    /// server sends messages that look like replies.
    pub(crate) fn admit(&mut self, summary: &Summary) -> Result<(), Error> {
        let lost = self.lost.take();
        let begins_anew = matches!(summary.name, "WATCH" | "UNWATCH" | "DISCARD" | "RESET");
        if let Some(command) = lost
            && !begins_anew
        {
            let lost = io::Error::new(io::ErrorKind::ConnectionReset, StateLost(command));
            return Err(Error::connection(lost, false));
        }
        if self.streaming.is_some() && summary.name != "RESET" {
            return Err(Error::Usage(
                "the server sends messages on this connection that look like replies; RESET ends that",
            ));
        }
        let followed = matches!(
            summary.name,
            "WATCH" | "UNWATCH" | "EXEC" | "DISCARD" | "RESET" | "WAIT"
        );
        let alone = summary.commands == 1;
        self.altered |= summary.flags.contains(Flags::DEDICATED) && !(alone && followed);
        Ok(())
    }

    /// Follows the commands of a request, as far as they were answered. Gives the protocol if it is another
    /// one from here on.
    pub(crate) fn follow(&mut self, mut wire: &[u8], outcomes: &[Outcome]) -> Option<Protocol> {
        let mut protocol = None;
        for &outcome in outcomes {
            let Ok(Some((command, used))) = Decoder::new(Limits::default()).decode(wire) else {
                break;
            };
            let change = Change::of(&command, &wire[..used]);
            wire = &wire[used..];
            protocol = self.follow_one(change, outcome).or(protocol);
        }
        protocol
    }

    fn follow_one(&mut self, change: Change, outcome: Outcome) -> Option<Protocol> {
        match (change, outcome) {
            // It ends the transaction and the watch, with any result.
            (Change::Exec, _) => {
                self.watching = false;
                let queued = self.transaction.take()?;
                if outcome != Outcome::Done {
                    return None;
                }
                let protocols = queued.into_iter().map(|change| self.make(change));
                protocols.fold(None, |before, after| after.or(before))
            }
            (_, Outcome::Refused | Outcome::Nil) => None,
            (change @ (Change::Discard | Change::Reset), _) => self.make(change),
            (change, Outcome::Done) => match &mut self.transaction {
                Some(queued) => {
                    if !matches!(change, Change::None) {
                        queued.push(change);
                    }
                    None
                }
                None => self.make(change),
            },
        }
    }

    fn make(&mut self, change: Change) -> Option<Protocol> {
        let settings = &mut self.settings;
        match change {
            Change::None | Change::Exec => {}
            Change::Login(user, password) => settings.login = Some((user, password)),
            Change::Name(name) => settings.name = Some(name),
            Change::Database(database) => settings.database = Some(database),
            Change::Readonly(readonly) => settings.readonly = Some(readonly),
            Change::Hello(hello) => {
                settings.login = hello.login.or_else(|| settings.login.take());
                settings.name = hello.name.or_else(|| settings.name.take());
                settings.protocol = hello.protocol;
                return hello.protocol;
            }
            Change::Mode(mode, command) => {
                settings.modes.retain(|(known, _)| *known != mode);
                settings.modes.push((mode, command));
            }
            Change::Multi => self.transaction = Some(Vec::new()),
            Change::Discard => (self.transaction, self.watching) = (None, false),
            Change::Watch => self.watching = true,
            Change::Unwatch => self.watching = false,
            Change::Stream(command) => self.streaming = Some(command),
            Change::Reset => {
                let altered = self.altered;
                *self = Self {
                    altered,
                    ..Self::default()
                };
                return Some(Protocol::Resp2);
            }
        }
        None
    }

    /// The connection is gone.
    pub(crate) fn broke(&mut self) {
        let transaction = self.transaction.take().map(|_| "MULTI");
        let watch = std::mem::take(&mut self.watching).then_some("WATCH");
        let stream = self.streaming.take();
        self.lost = transaction.or(watch).or(stream).or(self.lost);
    }

    /// Settings that the next handshake makes again.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the server sends messages that look like replies, so that no request can be answered.
    pub(crate) fn is_streaming(&self) -> bool {
        self.streaming.is_some()
    }

    /// Whether a request may have left a state that the next owner would notice.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_altered(&self) -> bool {
        self.altered || self.watching || self.transaction.is_some()
    }

    /// The state is that of a new connection.
    #[cfg(feature = "tokio")]
    pub(crate) fn was_reset(&mut self) {
        *self = Self::default();
    }
}

impl Change {
    fn of(command: &Reply<'_>, wire: &[u8]) -> Self {
        let Reply::Array(words) = command else {
            return Self::None;
        };
        let word = |at: usize| words.get(at).and_then(Reply::as_bytes).unwrap_or_default();
        let text = |at: usize| String::from_utf8(word(at).to_vec()).ok();
        let name = word(0).to_ascii_uppercase();
        match (name.as_slice(), words.len()) {
            (b"SELECT", 2) => match text(1).and_then(|number| number.parse().ok()) {
                Some(database) => Self::Database(database),
                None => Self::None,
            },
            (b"AUTH", 2) => text(1).map_or(Self::None, |password| {
                Self::Login(None, Password::new(password))
            }),
            (b"AUTH", 3) => match (text(1), text(2)) {
                (user, Some(password)) => Self::Login(user, Password::new(password)),
                _ => Self::None,
            },
            (b"HELLO", 2..) => hello(&text),
            (b"CLIENT", 3..) => client(&word(1).to_ascii_uppercase(), text(2), wire),
            (b"READONLY", _) => Self::Readonly(true),
            (b"READWRITE", _) => Self::Readonly(false),
            (b"MULTI", _) => Self::Multi,
            (b"EXEC", _) => Self::Exec,
            (b"DISCARD", _) => Self::Discard,
            (b"WATCH", _) => Self::Watch,
            (b"UNWATCH", _) => Self::Unwatch,
            (b"RESET", _) => Self::Reset,
            (b"MONITOR", _) => Self::Stream("MONITOR"),
            (b"SUBSCRIBE", _) => Self::Stream("SUBSCRIBE"),
            (b"PSUBSCRIBE", _) => Self::Stream("PSUBSCRIBE"),
            (b"SSUBSCRIBE", _) => Self::Stream("SSUBSCRIBE"),
            _ => Self::None,
        }
    }
}

/// `HELLO version [AUTH user password] [SETNAME name]`.
fn hello(text: &impl Fn(usize) -> Option<String>) -> Change {
    let mut settings = Settings {
        protocol: match text(1).as_deref() {
            Some("2") => Some(Protocol::Resp2),
            Some("3") => Some(Protocol::Resp3),
            _ => return Change::None,
        },
        ..Settings::default()
    };
    let mut at = 2;
    while let Some(option) = text(at).filter(|option| !option.is_empty()) {
        if option.eq_ignore_ascii_case("AUTH") {
            let password = text(at + 2).unwrap_or_default();
            settings.login = Some((text(at + 1), Password::new(password)));
            at += 3;
        } else {
            settings.name = text(at + 1);
            at += 2;
        }
    }
    Change::Hello(Box::new(settings))
}

fn client(subcommand: &[u8], argument: Option<String>, wire: &[u8]) -> Change {
    let mode = match subcommand {
        b"SETNAME" => return argument.map_or(Change::None, Change::Name),
        b"TRACKING" => "CLIENT TRACKING",
        b"NO-EVICT" => "CLIENT NO-EVICT",
        b"NO-TOUCH" => "CLIENT NO-TOUCH",
        _ => return Change::None,
    };
    Change::Mode(mode, wire.to_vec())
}

/// The reason why a request fails that may rely on a state that is gone.
#[derive(Debug)]
struct StateLost(&'static str);

impl fmt::Display for StateLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the effect of {} ended with the connection", self.0)
    }
}

impl std::error::Error for StateLost {}

/// Whether a request was refused since the state that it may rely on is gone.
pub(crate) fn is_state_lost(error: &Error) -> bool {
    match error {
        Error::Connection { source, .. } => source
            .get_ref()
            .is_some_and(|source| source.is::<StateLost>()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use loadline_resp::encode;

    use super::*;

    fn wire(commands: &[&str]) -> Vec<u8> {
        let mut wire = Vec::new();
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            encode::command(&mut wire, &words);
        }
        wire
    }

    fn follow(carried: &mut Carried, commands: &[&str]) -> Option<Protocol> {
        let outcomes = vec![Outcome::Done; commands.len()];
        carried.follow(&wire(commands), &outcomes)
    }

    fn fails(carried: &mut Carried, name: &'static str) -> bool {
        let summary = Summary {
            commands: 1,
            flags: Flags::NONE,
            name,
            wait: std::time::Duration::ZERO,
        };
        carried.admit(&summary).is_err()
    }

    #[test]
    fn settings_are_those_of_the_last_command_that_was_done() {
        let mut carried = Carried::default();
        follow(
            &mut carried,
            &["SELECT 3", "auth me pw", "client setname a", "SELECT 4"],
        );
        carried.follow(&wire(&["SELECT 99"]), &[Outcome::Refused]);
        let settings = carried.settings();
        assert_eq!(settings.database, Some(4));
        assert_eq!(settings.name.as_deref(), Some("a"));
        let login = settings.login.as_ref().unwrap();
        assert_eq!((login.0.as_deref(), login.1.reveal()), (Some("me"), "pw"));
        assert!(!format!("{carried:?}").contains("pw"));
        carried.broke();
        assert_eq!(carried.settings().database, Some(4));
        assert!(!fails(&mut carried, "GET"), "nothing is lost");
        let spoken = follow(&mut carried, &["HELLO 2 AUTH you other SETNAME b"]);
        assert_eq!(spoken, Some(Protocol::Resp2));
        assert_eq!(carried.settings().name.as_deref(), Some("b"));
        follow(&mut carried, &["RESET"]);
        assert_eq!(carried.settings().database, None);
    }

    #[test]
    fn queued_settings_take_effect_with_exec() {
        let mut carried = Carried::default();
        follow(&mut carried, &["MULTI", "SELECT 2", "SET k v"]);
        assert_eq!(carried.settings().database, None);
        follow(&mut carried, &["EXEC"]);
        assert_eq!(carried.settings().database, Some(2));
        follow(&mut carried, &["WATCH k", "MULTI", "SELECT 5"]);
        carried.follow(&wire(&["EXEC"]), &[Outcome::Nil]);
        assert_eq!(carried.settings().database, Some(2));
        carried.broke();
        assert!(!fails(&mut carried, "GET"), "the transaction was over");
    }

    #[test]
    fn lost_connection_state_fails_one_request() {
        for begun in ["MULTI", "WATCH k", "MONITOR"] {
            let mut carried = Carried::default();
            follow(&mut carried, &[begun]);
            carried.broke();
            assert!(!carried.leaves(Flags::READ_ONLY));
            assert!(fails(&mut carried, "GET"), "{begun}");
            assert!(!fails(&mut carried, "GET"), "{begun}");
            follow(&mut carried, &[begun]);
            carried.broke();
            assert!(!fails(&mut carried, "WATCH"), "{begun}: it begins anew");
        }
    }

    #[test]
    fn outcomes_are_read_from_the_start_of_a_reply() {
        for (reply, outcome) in [
            (&b"+OK\r\n"[..], Outcome::Done),
            (b"-ERR no\r\n", Outcome::Refused),
            (b"!3\r\nERR\r\n", Outcome::Refused),
            (b"_\r\n", Outcome::Nil),
            (b"*-1\r\n", Outcome::Nil),
            (b"*0\r\n", Outcome::Done),
            (b"", Outcome::Done),
        ] {
            assert_eq!(Outcome::of(reply), outcome);
        }
    }
}
