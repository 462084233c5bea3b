//! Readers of streams, which continue at the same position after their connection broke.
//!
//! `StreamReader` reads a whole stream: each entry once, in order. `GroupReader` is a consumer of a group. The
//! server divides the entries of a stream among the consumers of a group, and entries that a consumer did not
//! acknowledge are handed out once more. Entries that were removed before they were read are announced in their
//! place among the others. Both read ahead on a connection of their own and need the feature `tokio`;
//! [`blocking::StreamReader`](crate::blocking::StreamReader) and
//! [`blocking::GroupReader`](crate::blocking::GroupReader) are for one thread and need no feature.
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # mod example {
//! use loadline_client::Client;
//! use loadline_client::streams::{Event, Start, StreamReader};
//!
//! # async fn example() -> Result<(), loadline_client::Error> {
//! let client = Client::open("redis://localhost")?;
//! let mut reader = StreamReader::open(&client, "orders", Start::Latest).await?;
//! loop {
//!     match reader.next().await? {
//!         Event::Entry(entry) => println!("{}: {:?}", entry.id, entry.get("item")),
//!         gap => println!("entries were removed before they were read: {gap:?}"),
//!     }
//! }
//! # }
//! # }
//! ```

#[cfg(feature = "tokio")]
mod feed;
#[cfg(feature = "tokio")]
mod group;
pub(crate) mod membership;
pub(crate) mod patience;
mod position;
pub(crate) mod progress;
#[cfg(feature = "tokio")]
mod reader;
pub(crate) mod steps;
pub(crate) mod text;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use loadline_resp::Reply;

use crate::args::ArgWriter;
use crate::facts;
use crate::flags::Meta;
use crate::{Arg, Command, Config, Error, FromReply, ToArgs};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use group::GroupReader;
use position::Info;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use reader::StreamReader;

/// The number of entries of one read.
const BATCH: u64 = 100;
/// Time that the server waits for an entry before it is asked again, if there is no keepalive.
const WAIT: Duration = Duration::from_secs(5);

/// The id of an entry. Ids increase along a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// Milliseconds since 1970 by the server's clock, unless the writer chose it.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// Before all entries.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl FromStr for StreamId {
    type Err = Error;

    /// Reads `1526919030474-55`, or the milliseconds alone.
    fn from_str(text: &str) -> Result<Self, Error> {
        const WRONG: Error = Error::Type {
            expected: "the id of a stream's entry, such as 1526919030474-55",
            got: "another text",
        };
        let (ms, seq) = text.split_once('-').unwrap_or((text, "0"));
        match (ms.parse(), seq.parse()) {
            (Ok(ms), Ok(seq)) => Ok(Self { ms, seq }),
            _ => Err(WRONG),
        }
    }
}

impl FromReply for StreamId {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        String::from_reply(reply)?.parse()
    }
}

impl Arg for StreamId {
    fn write_arg(&self, out: &mut ArgWriter<'_>) {
        out.arg(self.to_string().as_bytes());
    }
}

impl ToArgs for StreamId {
    fn count(&self) -> usize {
        1
    }

    fn write_args(&self, out: &mut ArgWriter<'_>) {
        self.write_arg(out);
    }
}

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its id.
    pub id: StreamId,
    /// Its fields and their values, in the order in which they were written. A name can occur twice.
    pub fields: Vec<(Bytes, Bytes)>,
}

impl Entry {
    /// Returns the value of the first field with this name.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Bytes> {
        let found = self
            .fields
            .iter()
            .find(|(name, _)| name == field.as_bytes());
        found.map(|(_, value)| value)
    }
}

/// The position at which a reader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// The oldest entry of the stream.
    Oldest,
    /// The first entry that is added from now on.
    Latest,
    /// The first entry after this id.
    After(StreamId),
}

/// An entry, or news of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An entry.
    Entry(Entry),
    /// Entries were removed (`XTRIM`, `XADD MAXLEN`, `XDEL`) before they were read. Trimmed entries are
    /// announced before the entries that follow them, deleted ones at the latest when the reader has caught up.
    Trimmed {
        /// The last entry that was handed out before.
        after: StreamId,
        /// The number of missing entries. `None` if it cannot be determined, since the reader started at an id
        /// that the stream no longer has; it can be zero then.
        entries: Option<u64>,
    },
    /// The stream is not the one that was read before: it was deleted, or the server lost it or restarted with
    /// an older copy. Entries up to `after` are not handed out again; lost entries cannot be determined.
    Rewound {
        /// The last entry that was handed out before.
        after: StreamId,
        /// The latest id of the current stream.
        latest: StreamId,
    },
    /// An entry that this consumer of a group had received, and that was removed from the stream since. Its
    /// fields are gone; it can be acknowledged.
    Deleted(StreamId),
}

impl Event {
    /// Returns the id of the entry, which can be acknowledged; `None` for news of the stream.
    #[must_use]
    pub fn id(&self) -> Option<StreamId> {
        match self {
            Self::Entry(entry) => Some(entry.id),
            Self::Deleted(id) => Some(*id),
            Self::Trimmed { .. } | Self::Rewound { .. } => None,
        }
    }

    /// The same event about what follows another entry.
    fn behind(self, after: StreamId) -> Self {
        match self {
            Self::Trimmed { entries, .. } => Self::Trimmed { after, entries },
            Self::Rewound { latest, .. } => Self::Rewound { after, latest },
            other => other,
        }
    }
}

/// The reply to a read: for its one key the entries, whose fields are nil if they were removed.
pub(crate) type Reads = Option<Vec<(Bytes, Vec<(StreamId, Option<Vec<(Bytes, Bytes)>>)>)>>;

fn entries(reads: Reads) -> impl Iterator<Item = (StreamId, Option<Entry>)> {
    let entries = reads.into_iter().flatten().flat_map(|(_, entries)| entries);
    entries.map(|(id, fields)| (id, fields.map(|fields| Entry { id, fields })))
}

pub(crate) fn xinfo(key: impl Arg) -> Command<impl ToArgs, Info> {
    const META: Meta = facts::of(&["XINFO"]);
    Command::new(META, ("STREAM", key))
}

/// A stream without any entry so far does not exist, which is the same as an empty one.
fn none_if_missing(info: Result<Info, Error>) -> Result<Info, Error> {
    match info {
        Err(Error::Server(answer)) if answer.text().contains("no such key") => Ok(Info::default()),
        other => other,
    }
}

/// Time that the server waits for an entry. A silent server is noticed as early as on other connections.
pub(crate) fn wait_of(config: &Config) -> Duration {
    config.keepalive.unwrap_or(WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written_and_ordered_as_numbers() {
        let id: StreamId = "1526919030474-55".parse().unwrap();
        assert_eq!((id.ms, id.seq), (1_526_919_030_474, 55));
        assert_eq!(id.to_string(), "1526919030474-55");
        assert_eq!("7".parse::<StreamId>().unwrap(), StreamId { ms: 7, seq: 0 });
        assert!("9-10".parse::<StreamId>().unwrap() > "9-9".parse().unwrap());
        for wrong in ["", "-", "a-1", "1-", "1-2-3", "-1-1", "$"] {
            assert!(wrong.parse::<StreamId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn removed_entry_has_no_fields() {
        let entry = |id, fields| Reply::Array(vec![Reply::Bulk(id), fields]);
        let fields = Reply::Array(vec![Reply::Bulk(b"f"), Reply::Bulk(b"v")]);
        let list = Reply::Array(vec![entry(b"1-0", fields), entry(b"2-0", Reply::Null)]);
        let key = Reply::Bulk(b"k");
        for reply in [
            Reply::Map(vec![(key.clone(), list.clone())]),
            Reply::Array(vec![Reply::Array(vec![key, list])]),
        ] {
            let read: Vec<_> = entries(Reads::from_reply(reply).unwrap()).collect();
            let (first, second) = (read[0].1.as_ref().unwrap(), &read[1]);
            assert_eq!(first.get("f").map(|value| &value[..]), Some(&b"v"[..]));
            assert_eq!(first.get("g"), None);
            assert_eq!(second, &(StreamId { ms: 2, seq: 0 }, None));
        }
        assert_eq!(entries(Reads::from_reply(Reply::Null).unwrap()).count(), 0);
    }
}
