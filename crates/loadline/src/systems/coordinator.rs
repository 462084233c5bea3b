//! The coordinator of several agents: a server that is not measured, with a plan, two streams and the agents' records.
//!
//! Everything there is signed with the secret of the run, and what is not is ignored.

use std::time::Duration;

use loadline_client::Error;
use loadline_client::blocking::Connection;
use loadline_resp::{Frame, OwnedReply};
use ring::{digest, hmac};

use super::admin::Admin;
use super::connect::{Endpoint, command};
use super::tls;
use crate::exit::Failure;
use crate::plan::{KEYS, Membership};

/// The longest plan or message that is read, in bytes.
const LONGEST_MESSAGE: usize = 1 << 20;
/// The longest record that is sent or read, in bytes.
pub(crate) const LONGEST_RECORD: usize = 15 << 20;
/// Entries of one read.
const ENTRIES: &str = "500";
/// Entries that a stream keeps, about.
const KEPT: &str = "100000";
/// Everything is removed at the end of a run, and after this time at the latest.
const EXPIRY_MS: &str = "86400000";
/// Time for agents to read what is last.
const LAST_MS: &str = "10000";
/// Stands in the place of a plan once a command has no further runs.
const NO_MORE: &str = "no more";

/// The streams of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// From the agents to the leader.
    Reports,
    /// From the leader to the agents.
    Orders,
}

/// A connection to the coordinator of a run.
#[derive(Debug)]
pub(crate) struct Coordinator {
    endpoint: Endpoint,
    connection: Connection,
    seal: Seal,
}

/// Signs texts of a run.
#[derive(Debug, Clone)]
struct Seal {
    /// The name of the run.
    run: String,
    key: hmac::Key,
}

/// The content of the place of a plan.
#[derive(Debug)]
pub(crate) enum Published {
    /// No plan yet, or that of a run that has ended.
    Nothing,
    /// The plan of a run.
    Plan(String),
    /// The command of the last plan has no further runs.
    NoMore,
}

/// The place in a stream up to which it was read.
#[derive(Debug)]
pub(crate) struct Cursor {
    stream: Stream,
    last: String,
}

impl Cursor {
    /// The beginning of `stream`.
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            last: "0-0".to_owned(),
        }
    }
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Reports => "reports",
            Self::Orders => "orders",
        }
    }
}

impl Coordinator {
    /// Connects to the coordinator, and returns the identifier of its process as well, if it says that.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub(crate) fn open(membership: &Membership) -> Result<(Self, Option<String>), Failure> {
        let server = membership.coordinator.clone();
        let tls = match server.tls {
            true => tls::trust(&membership.tls, &[])?,
            false => loadline_client::Tls::default(),
        };
        let endpoint = Endpoint::new(server, loadline_client::Protocol::Resp2, tls)
            .named(format!("the coordinator {}", membership.coordinator));
        let mut admin = Admin::open(&endpoint)?;
        let info = admin.info(&["server"])?;
        // A lease is shorter than the usual patience.
        let endpoint = endpoint.hurried();
        let connection = connect(&endpoint)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, membership.secret.reveal().as_bytes());
        let coordinator = Self {
            endpoint,
            connection,
            seal: Seal {
                run: membership.run.clone(),
                key,
            },
        };
        Ok((coordinator, info.get("run_id").map(ToOwned::to_owned)))
    }

    /// Another connection, for another thread.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        Ok(Self {
            connection: connect(&self.endpoint)?,
            endpoint: self.endpoint.clone(),
            seal: self.seal.clone(),
        })
    }

    /// Publishes the plan of the run and its streams.
    ///
    /// # Errors
    /// A usage error if there is a run of this name; if the coordinator does not answer.
    pub(crate) fn publish(&mut self, plan: &str) -> Result<(), Failure> {
        let (key, sealed) = (self.key_of("plan"), self.seal.sealed("plan", plan));
        if matches!(self.plan(), Ok(Published::NoMore)) {
            let removed = self.run_command(&[b"DEL" as &[u8], key.as_bytes()]);
            removed.map_err(|error| self.failure(&error))?;
        }
        let replied = self.run_command(&[
            b"SET",
            key.as_bytes(),
            &sealed,
            b"NX",
            b"PX",
            EXPIRY_MS.as_bytes(),
        ]);
        match replied.map_err(|error| self.failure(&error))? {
            reply if reply.is_null() => Err(Failure::usage(format!(
                "--run {}: there is a run of this name already; choose another name.",
                self.seal.run
            ))),
            _ => {
                for stream in [Stream::Reports, Stream::Orders] {
                    let key = self.key_of(stream.name());
                    let opened = [
                        self.run_command(&[b"XADD" as &[u8], key.as_bytes(), b"*", b"opened", b""]),
                        self.run_command(&[
                            b"PEXPIRE" as &[u8],
                            key.as_bytes(),
                            EXPIRY_MS.as_bytes(),
                        ]),
                    ];
                    let failed = opened.into_iter().find_map(Result::err);
                    if let Some(error) = failed {
                        return Err(self.failure(&error));
                    }
                }
                Ok(())
            }
        }
    }

    /// The plan of the run, as far as there is one.
    ///
    /// # Errors
    /// If the coordinator does not answer, and for a plan that is not signed with the secret.
    pub(crate) fn plan(&mut self) -> Result<Published, Failure> {
        let key = self.key_of("plan");
        let reply = self.run_command(&[b"GET" as &[u8], key.as_bytes()]);
        let reply = reply.map_err(|error| self.failure(&error))?;
        if reply.is_null() {
            return Ok(Published::Nothing);
        }
        match self.seal.unsealed("plan", &reply, LONGEST_MESSAGE) {
            Some(plan) if plan == NO_MORE => Ok(Published::NoMore),
            Some(plan) => Ok(Published::Plan(plan)),
            None => Err(Failure::usage(format!(
                "The plan of run {} is not signed with the secret of --secret-file; all agents need the same secret.",
                self.seal.run
            ))),
        }
    }

    /// The time of its clock since 1970.
    ///
    /// # Errors
    /// If it does not answer with a time.
    pub(crate) fn time(&mut self) -> Result<Duration, Error> {
        let reply = self.run_command(&[b"TIME" as &[u8]])?;
        let number = |part: &OwnedReply| std::str::from_utf8(part.as_bytes()?).ok()?.parse().ok();
        let time = match &reply {
            Frame::Array(parts) => match &parts[..] {
                [seconds, micros] => number(seconds).zip(number(micros)),
                _ => None,
            },
            _ => None,
        };
        let (seconds, micros): (u64, u64) = time.unwrap_or_default();
        // The years until 2500, so that no sum of times overflows.
        Ok(
            Duration::from_secs(seconds.min(1 << 34))
                + Duration::from_micros(micros.min(1_000_000)),
        )
    }

    /// Adds a message to `stream`.
    ///
    /// # Errors
    /// If it was not acknowledged; it may have been added.
    pub(crate) fn add(&mut self, stream: Stream, message: &str) -> Result<(), Error> {
        let key = self.key_of(stream.name());
        let sealed = self.seal.sealed(stream.name(), message);
        // A stream that is gone is that of a run that has ended.
        let words: [&[u8]; 9] = [
            b"XADD",
            key.as_bytes(),
            b"NOMKSTREAM",
            b"MAXLEN",
            b"~",
            KEPT.as_bytes(),
            b"*",
            b"message",
            &sealed,
        ];
        self.run_command(&words).map(drop)
    }

    /// The signed messages of a stream after `cursor`, which is moved.
    ///
    /// # Errors
    /// If the coordinator does not answer.
    pub(crate) fn read(&mut self, cursor: &mut Cursor) -> Result<Vec<String>, Error> {
        let key = self.key_of(cursor.stream.name());
        let words: [&[u8]; 6] = [
            b"XREAD",
            b"COUNT",
            ENTRIES.as_bytes(),
            b"STREAMS",
            key.as_bytes(),
            cursor.last.as_bytes(),
        ];
        let reply = self.run_command(&words)?;
        let mut messages = Vec::new();
        for entry in entries(&reply) {
            let Frame::Array(parts) = entry else { continue };
            let [id, Frame::Array(fields)] = &parts[..] else {
                continue;
            };
            if let Some(id) = id.as_bytes().and_then(|id| std::str::from_utf8(id).ok()) {
                id.clone_into(&mut cursor.last);
            }
            if let [_, sealed] = &fields[..] {
                messages.extend(
                    self.seal
                        .unsealed(cursor.stream.name(), sealed, LONGEST_MESSAGE),
                );
            }
        }
        Ok(messages)
    }

    /// Stores the record of the agent `rank`.
    ///
    /// # Errors
    /// If the coordinator does not acknowledge it.
    pub(crate) fn keep_record(&mut self, rank: u32, record: &str) -> Result<(), Error> {
        let name = format!("record:{rank}");
        let (key, sealed) = (self.key_of(&name), self.seal.sealed(&name, record));
        self.run_command(&[
            b"SET" as &[u8],
            key.as_bytes(),
            &sealed,
            b"PX",
            EXPIRY_MS.as_bytes(),
        ])
        .map(drop)
    }

    /// The record of the agent `rank`, if there is a signed one.
    ///
    /// # Errors
    /// If the coordinator does not answer.
    pub(crate) fn record(&mut self, rank: u32) -> Result<Option<String>, Error> {
        let name = format!("record:{rank}");
        let key = self.key_of(&name);
        let reply = self.run_command(&[b"GET" as &[u8], key.as_bytes()])?;
        Ok(self.seal.unsealed(&name, &reply, LONGEST_RECORD + 1_024))
    }

    /// Removes everything but what the agents still have to read.
    ///
    /// # Errors
    /// If the coordinator does not answer.
    pub(crate) fn tidy(&mut self, agents: u32) -> Result<(), Error> {
        let mut keys = vec!["plan".to_owned(), Stream::Reports.name().to_owned()];
        keys.extend((0..agents).map(|rank| format!("record:{rank}")));
        for name in keys {
            let key = self.key_of(&name);
            self.run_command(&[b"DEL" as &[u8], key.as_bytes()])?;
        }
        // Agents read the last order within their lease.
        let orders = self.key_of(Stream::Orders.name());
        self.run_command(&[b"PEXPIRE" as &[u8], orders.as_bytes(), LAST_MS.as_bytes()])
            .map(drop)
    }

    /// Tells the agents that wait for the next plan that there is none.
    ///
    /// # Errors
    /// If the coordinator does not acknowledge it.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let (key, sealed) = (self.key_of("plan"), self.seal.sealed("plan", NO_MORE));
        self.run_command(&[
            b"SET" as &[u8],
            key.as_bytes(),
            &sealed,
            b"PX",
            LAST_MS.as_bytes(),
        ])
        .map(drop)
    }

    fn run_command(&mut self, words: &[&[u8]]) -> Result<OwnedReply, Error> {
        self.connection.run(command(words))
    }

    fn failure(&self, error: &Error) -> Failure {
        Failure::unavailable(format!("{} failed: {error}.", self.endpoint.name()))
    }

    fn key_of(&self, name: &str) -> String {
        format!("{KEYS}agents:{}:{name}", self.seal.run)
    }
}

impl Seal {
    /// The signature of `text` as the content of `name` in this run, and the text.
    fn sealed(&self, name: &str, text: &str) -> Vec<u8> {
        let tag = hmac::sign(&self.key, &self.signed(name, text.as_bytes()));
        [tag.as_ref(), text.as_bytes()].concat()
    }

    /// The text that was sealed for `name`; `None` for anything else, and for a text that is too long.
    fn unsealed(&self, name: &str, reply: &OwnedReply, longest: usize) -> Option<String> {
        let bytes = reply.as_bytes().filter(|_| !reply.is_error())?;
        let (tag, text) = bytes.split_at_checked(digest::SHA256_OUTPUT_LEN)?;
        if text.len() > longest {
            return None;
        }
        hmac::verify(&self.key, &self.signed(name, text), tag).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }

    fn signed(&self, name: &str, text: &[u8]) -> Vec<u8> {
        [self.run.as_bytes(), b"\0", name.as_bytes(), b"\0", text].concat()
    }
}

/// The entries in the reply of XREAD for one stream.
fn entries(reply: &OwnedReply) -> &[OwnedReply] {
    let Frame::Array(streams) = reply else {
        return &[];
    };
    match streams.first() {
        Some(Frame::Array(stream)) => match &stream[..] {
            [_, Frame::Array(entries)] => entries,
            _ => &[],
        },
        _ => &[],
    }
}

fn connect(endpoint: &Endpoint) -> Result<Connection, Failure> {
    endpoint.open().map_err(|error| {
        Failure::unavailable(format!("{} cannot be used: {error}.", endpoint.name()))
    })
}

/// The SHA-256 digest of `text` in hexadecimal digits.
pub(crate) fn digest_of(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seal(run: &str, secret: &str) -> Seal {
        Seal {
            run: run.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        }
    }

    #[test]
    fn text_is_read_only_in_its_place_of_its_run() {
        let own = seal("one", "secret");
        let sealed = own.sealed("plan", "text");
        let read = |seal: &Seal, name: &str, bytes: &[u8], longest: usize| {
            seal.unsealed(name, &Frame::Bulk(bytes.to_vec()), longest)
        };
        assert_eq!(read(&own, "plan", &sealed, 4).as_deref(), Some("text"));
        assert_eq!(read(&own, "plan", &sealed, 3), None);
        assert_eq!(read(&own, "orders", &sealed, 4), None);
        assert_eq!(read(&seal("two", "secret"), "plan", &sealed, 4), None);
        assert_eq!(read(&seal("one", "other"), "plan", &sealed, 4), None);
        let mut changed = sealed.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(read(&own, "plan", &changed, 4), None);
        assert_eq!(read(&own, "plan", b"short", 4), None);
        assert_eq!(own.unsealed("plan", &Frame::Integer(1), 4), None);
    }

    proptest! {
        #[test]
        fn no_reply_makes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), depth in 0..5) {
            let mut reply = Frame::Bulk(bytes.clone());
            for _ in 0..depth {
                reply = Frame::Array(vec![Frame::Bulk(bytes.clone()), reply]);
            }
            prop_assert!(entries(&reply).len() <= 2);
            prop_assert_eq!(seal("one", "secret").unsealed("plan", &reply, 1_000), None);
        }
    }
}
