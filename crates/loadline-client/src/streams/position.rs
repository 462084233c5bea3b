//! The position of a reader in a stream, and whether entries were removed before it read them.
//!
//! Redis counts all entries that were ever added (`entries-added`, since 7.0), so a reader that counts the entries it
//! reads knows how many were before its position. If none of the entries up to the position are left, the number of
//! removed entries equals the number before the position, or some were removed unread.

use std::cmp::Ordering;

use loadline_resp::Reply;

use super::{Event, StreamId};
use crate::{Error, FromReply};

/// The reply to `XINFO STREAM`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// The number of entries in the stream.
    pub(super) len: u64,
    /// The number of entries that were ever added.
    pub(super) added: u64,
    /// The id of the last added entry.
    pub(super) latest: StreamId,
    /// The id of the first entry in the stream.
    pub(super) first: Option<StreamId>,
}

impl FromReply for Info {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        const EXPECTED: &str = "the reply to XINFO STREAM of Redis 7.0 or later";
        let missing = || Error::Type {
            expected: EXPECTED,
            got: "a map without the number of entries added",
        };
        let items = match reply.into_without_attributes() {
            Reply::Map(pairs) => pairs,
            Reply::Array(items) => {
                let mut items = items.into_iter();
                std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
            }
            other => return Err(Error::unfit(EXPECTED, &other)),
        };
        let (mut info, mut added) = (Self::default(), None);
        for (name, value) in items {
            match name.as_bytes() {
                Some(b"length") => info.len = FromReply::from_reply(value)?,
                Some(b"entries-added") => added = Some(FromReply::from_reply(value)?),
                Some(b"last-generated-id") => info.latest = FromReply::from_reply(value)?,
                Some(b"recorded-first-entry-id") => {
                    let first: StreamId = FromReply::from_reply(value)?;
                    info.first = Some(first).filter(|first| *first > StreamId::MIN);
                }
                _ => {}
            }
        }
        info.added = added.ok_or_else(missing)?;
        Ok(info)
    }
}

/// A position in a stream: after the last entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamPosition {
    pub(super) last: StreamId,
    /// The number of entries that were added up to here, if it is known.
    position: Option<u64>,
    /// The latest id of the stream that was seen.
    seen: StreamId,
}

impl StreamPosition {
    /// Before all entries in the stream.
    pub(super) fn oldest(info: &Info) -> Self {
        Self {
            last: StreamId::MIN,
            position: Some(info.added.saturating_sub(info.len)),
            seen: info.latest,
        }
    }

    /// After all entries in the stream.
    pub(super) fn latest(info: &Info) -> Self {
        Self::after(info.latest, info)
    }

    /// After this id, whether its entry exists or not.
    pub(super) fn after(last: StreamId, info: &Info) -> Self {
        Self {
            last,
            position: (last == info.latest).then_some(info.added),
            seen: info.latest,
        }
    }

    /// One more entry was read.
    pub(super) fn read(&mut self, id: StreamId) {
        self.last = id;
        self.seen = self.seen.max(id);
        self.position = self.position.map(|position| position + 1);
    }

    /// The event about the current state of the stream, if there is one. It must be called whenever the reader has
    /// caught up: entries that were removed unread in the middle are seen only then.
    pub(super) fn judge(&mut self, info: &Info) -> Option<Event> {
        let (after, latest) = (self.last, info.latest);
        let rewound = Event::Rewound { after, latest };
        if latest < self.seen {
            self.restart(info);
            return Some(rewound);
        }
        self.seen = latest;
        if latest < after {
            // Entries before the position were not asked for.
            self.position = None;
            return None;
        }
        let gone = info.added.saturating_sub(info.len);
        let before = if latest == after {
            info.added
        } else if info.first.is_none_or(|first| first > after) {
            gone
        } else {
            // Some entries that were read still exist, so the removed ones can all be older.
            return None;
        };
        let position = self.position.replace(before);
        match position {
            Some(position) if position > before => {
                self.restart(info);
                Some(rewound)
            }
            Some(position) if position < before => Some(Event::Trimmed {
                after,
                entries: Some(before - position),
            }),
            None if latest > after && gone > 0 => Some(Event::Trimmed {
                after,
                entries: None,
            }),
            _ => None,
        }
    }

    /// This is another stream than before; what it holds up to the place is not read.
    fn restart(&mut self, info: &Info) {
        self.seen = info.latest;
        self.position = match info.latest.cmp(&self.last) {
            Ordering::Less => None,
            Ordering::Equal => Some(info.added),
            Ordering::Greater => {
                let whole = info.first.is_none_or(|first| first > self.last);
                whole.then_some(info.added.saturating_sub(info.len))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    /// A stream whose entries were added one by one; what is true of it is known.
    #[derive(Clone, Default)]
    struct Stream {
        added: u64,
        there: Vec<u64>,
    }

    impl Stream {
        fn add(&mut self, count: u64) {
            for _ in 0..count {
                self.added += 1;
                self.there.push(self.added);
            }
        }

        fn trim(&mut self, len: usize) {
            let gone = self.there.len().saturating_sub(len);
            self.there.drain(..gone);
        }

        fn info(&self) -> Info {
            Info {
                len: self.there.len() as u64,
                added: self.added,
                latest: id(self.added),
                first: self.there.first().map(|first| id(*first)),
            }
        }

        /// Reads up to this number of entries and returns how many there were.
        fn read(&self, place: &mut StreamPosition, count: usize) -> usize {
            let after = place.last;
            let new = self.there.iter().filter(|ms| id(**ms) > after);
            new.take(count).map(|ms| place.read(id(*ms))).count()
        }
    }

    fn trimmed(event: Option<Event>) -> Option<u64> {
        match event {
            Some(Event::Trimmed { entries, .. }) => entries,
            None => Some(0),
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn entries_trimmed_after_reading_are_not_missed() {
        let mut stream = Stream::default();
        stream.add(10);
        let mut place = StreamPosition::oldest(&stream.info());
        stream.read(&mut place, 10);
        stream.trim(0);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(0));
        stream.add(1);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(0));
    }

    #[test]
    fn entries_trimmed_before_reading_are_counted_once() {
        let mut stream = Stream::default();
        stream.add(10);
        let mut place = StreamPosition::latest(&stream.info());
        stream.add(10);
        stream.trim(3);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(7));
        assert_eq!(trimmed(place.judge(&stream.info())), Some(0));
        assert_eq!(stream.read(&mut place, 10), 3);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(0));
        stream.add(4);
        stream.trim(0);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(4));
    }

    #[test]
    fn removal_in_the_middle_is_reported_after_catching_up() {
        let mut stream = Stream::default();
        stream.add(10);
        let mut place = StreamPosition::oldest(&stream.info());
        stream.read(&mut place, 2);
        stream.there.retain(|ms| *ms != 5 && *ms != 6);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(0));
        stream.read(&mut place, 10);
        assert_eq!(trimmed(place.judge(&stream.info())), Some(2));
    }

    #[test]
    fn place_of_which_the_number_is_not_known_is_doubted_only_with_reason() {
        let mut stream = Stream::default();
        stream.add(10);
        let mut whole = StreamPosition::after(id(4), &stream.info());
        assert!(whole.judge(&stream.info()).is_none());
        assert_eq!(stream.read(&mut whole, 10), 6);
        assert!(whole.judge(&stream.info()).is_none());
        stream.trim(3);
        let mut doubted = StreamPosition::after(id(4), &stream.info());
        assert_eq!(trimmed(doubted.judge(&stream.info())), None);
        assert_eq!(stream.read(&mut doubted, 10), 3);
        assert!(doubted.judge(&stream.info()).is_none());
        // Entries before the place are of no interest.
        let mut ahead = StreamPosition::after(id(12), &stream.info());
        assert!(ahead.judge(&stream.info()).is_none());
        stream.add(5);
        assert!(ahead.judge(&stream.info()).is_none());
        assert_eq!(stream.read(&mut ahead, 10), 3);
        assert!(ahead.judge(&stream.info()).is_none());
    }

    #[test]
    fn lost_stream_is_reported_as_rewound() {
        let mut stream = Stream::default();
        stream.add(10);
        let mut place = StreamPosition::oldest(&stream.info());
        stream.read(&mut place, 10);
        let lost = |event| matches!(event, Some(Event::Rewound { after, .. }) if after == id(10));
        let mut deleted = place;
        assert!(lost(deleted.judge(&Info::default())));
        assert!(deleted.judge(&Info::default()).is_none());
        // The new one has entries already when it is looked at.
        let mut made_anew = place;
        let anew = Info {
            len: 2,
            added: 2,
            latest: id(12),
            first: Some(id(11)),
        };
        assert!(lost(made_anew.judge(&anew)));
        assert!(made_anew.judge(&anew).is_none());
        // An older copy came back, and went on from there.
        let mut restored = place;
        let copy = Info {
            len: 8,
            added: 8,
            latest: id(12),
            first: Some(id(1)),
        };
        assert!(restored.judge(&copy).is_none());
        restored.read(id(11));
        restored.read(id(12));
        assert!(matches!(restored.judge(&copy), Some(Event::Rewound { .. })));
    }

    proptest::proptest! {
        /// Against the plain version, which knows each entry: what was never read and is gone.
        #[test]
        fn every_unread_entry_that_was_removed_is_counted(
            steps in proptest::collection::vec((0u64..4, 0usize..12, 1usize..6), 1..60),
        ) {
            let mut stream = Stream::default();
            let mut place = StreamPosition::oldest(&stream.info());
            let (mut read, mut told) = (0, 0);
            for (add, len, count) in steps {
                stream.add(add);
                stream.trim(len);
                told += trimmed(place.judge(&stream.info())).unwrap();
                read += stream.read(&mut place, count) as u64;
            }
            read += stream.read(&mut place, usize::MAX) as u64;
            told += trimmed(place.judge(&stream.info())).unwrap();
            proptest::prop_assert_eq!(read + told, stream.added);
        }
    }
}
