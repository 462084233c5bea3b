//! Readers of streams that go on where they were when their connection has to be made again.
//!
//! `StreamReader` reads a stream by itself: each entry once, in order. `GroupReader` is a consumer of a
//! group, which shares the entries among its consumers, and hands out those that a consumer has taken and
//! not acknowledged once more. What a reader cannot get because it was removed before is said, in its place
//! among the entries. Each reads ahead on a connection of its own. Both need the feature `tokio`;
//! [`blocking::StreamReader`](crate::blocking::StreamReader) and
//! [`blocking::GroupReader`](crate::blocking::GroupReader) are the same for one thread, and need no feature.
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
mod place;
pub(crate) mod progress;
#[cfg(feature = "tokio")]
mod reader;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use loadline_resp::Reply;

use crate::args::ArgWriter;
use crate::flags::{Flags, Keys, Meta};
use crate::{Arg, Command, Config, Error, FromReply, ToArgs};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use group::GroupReader;
use place::Info;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use reader::StreamReader;

/// Entries that are asked for at once.
const BATCH: u64 = 100;
/// How long the server waits for an entry before the question is put again, where no keepalive says.
const WAIT: Duration = Duration::from_secs(5);

/// The id of an entry. Ids grow along a stream.
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
    /// Its fields and their values, in the order in which they were written; a name may come twice.
    pub fields: Vec<(Bytes, Bytes)>,
}

impl Entry {
    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Bytes> {
        let found = self
            .fields
            .iter()
            .find(|(name, _)| name == field.as_bytes());
        found.map(|(_, value)| value)
    }
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// With the first entry that is there.
    Oldest,
    /// With the first entry that is added from now on.
    Latest,
    /// After the entry of this id.
    After(StreamId),
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An entry.
    Entry(Entry),
    /// Entries were removed (`XTRIM`, `XADD MAXLEN`, `XDEL`) before they were read. Those trimmed are told
    /// before the entries that follow them, those deleted at the latest once the reader has caught up.
    Trimmed {
        /// The last entry that was handed out before.
        after: StreamId,
        /// How many are missing. `None` where the reader began at an id whose number nobody knows: perhaps
        /// none are.
        entries: Option<u64>,
    },
    /// The stream is not the one that was read before: it was deleted, or the server lost it or came back
    /// with an older copy. Entries up to `after` are not handed out again, and those that were lost are
    /// nobody's knowledge.
    Rewound {
        /// The last entry that was handed out before.
        after: StreamId,
        /// The latest id of the stream that is there now.
        latest: StreamId,
    },
    /// An entry that this consumer of a group had taken, and that was removed since; there is nothing left
    /// of it to hand out. It can be acknowledged.
    Deleted(StreamId),
}

impl Event {
    /// The id of the entry that this is about, and which can be acknowledged; `None` for what is said of the
    /// stream.
    #[must_use]
    pub fn id(&self) -> Option<StreamId> {
        match self {
            Self::Entry(entry) => Some(entry.id),
            Self::Deleted(id) => Some(*id),
            Self::Trimmed { .. } | Self::Rewound { .. } => None,
        }
    }

    /// The same said of what comes behind another entry.
    fn behind(self, after: StreamId) -> Self {
        match self {
            Self::Trimmed { entries, .. } => Self::Trimmed { after, entries },
            Self::Rewound { latest, .. } => Self::Rewound { after, latest },
            other => other,
        }
    }
}

/// What a read gives: for its one key the entries, whose fields are nil where they were removed.
pub(crate) type Reads = Option<Vec<(Bytes, Vec<(StreamId, Option<Vec<(Bytes, Bytes)>>)>)>>;

fn entries(reads: Reads) -> impl Iterator<Item = (StreamId, Option<Entry>)> {
    let entries = reads.into_iter().flatten().flat_map(|(_, entries)| entries);
    entries.map(|(id, fields)| (id, fields.map(|fields| Entry { id, fields })))
}

pub(crate) fn xinfo(key: impl Arg) -> Command<impl ToArgs, Info> {
    const META: Meta = Meta {
        name: "XINFO",
        flags: Flags::READ_ONLY,
        keys: Keys::At(1),
    };
    Command::new(META, ("STREAM", key))
}

/// A stream that nobody has written to is not there, which is as good as an empty one.
fn none_if_missing(info: Result<Info, Error>) -> Result<Info, Error> {
    match info {
        Err(Error::Server(answer)) if answer.text().contains("no such key") => Ok(Info::default()),
        other => other,
    }
}

/// How long the server may wait for an entry, so that a silent one is noticed as early as elsewhere.
pub(crate) fn wait_of(config: &Config) -> Duration {
    config.keepalive.unwrap_or(WAIT)
}

/// How long an outage may last before the consumer is told.
pub(crate) fn patience_of(config: &Config) -> Duration {
    config.response_timeout.unwrap_or(Duration::MAX)
}

/// How long a server that reads its data is left to it.
pub(crate) const LOADING_PAUSE: Duration = Duration::from_millis(10);

/// Whether it is worth while to read again. A request that was not even sent has waited for a connection as
/// long as it may; a server that has just come back reads its data first.
pub(crate) fn passes(error: &Error) -> bool {
    error.maybe_executed() || error.is_server_code("LOADING")
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
    fn a_removed_entry_has_no_fields() {
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
