//! Streams: entries with growing ids, and groups of consumers.

mod add;
mod claim;
mod group;
mod ids;
mod info;
mod read;

use loadline_resp::encode::{self, Sink};
use loadline_store::{Edit, Group, Stream, StreamEdit, StreamEntry, StreamId, Value, View};

use super::refusal::{Refusal, WRONG_TYPE, shown};
use super::reply::Reply;
use super::{Call, Effect, Keys, Listed, ONE, listed, sub};
use crate::notify::{Class, What};
use crate::settings::Settings;

/// The key behind a subcommand.
const SECOND: Keys = Keys::At(2, 2, 1);

pub(super) const TABLE: &[Listed] = &[
    listed("XADD", -5, ONE, add::xadd),
    listed("XTRIM", -4, ONE, add::xtrim),
    listed("XDEL", -3, ONE, add::xdel),
    listed("XSETID", -3, ONE, add::xsetid),
    listed("XLEN", 2, ONE, read::xlen),
    listed("XRANGE", -4, ONE, read::xrange),
    listed("XREVRANGE", -4, ONE, read::xrevrange),
    listed("XREAD", -4, Keys::Streams, read::xread),
    listed("XREADGROUP", -7, Keys::Streams, read::xread),
    listed("XGROUP", -2, SECOND, group::xgroup).with(&[
        sub(
            "CREATE",
            -5,
            "<key> <groupname> <id|$> [option]\nCreate a new consumer group. Options are:\n* MKSTREAM\n  Create the empty stream if it does not exist.\n* ENTRIESREAD entries_read\n  Set the group's entries_read counter (internal use).",
        ),
        sub(
            "CREATECONSUMER",
            5,
            "<key> <groupname> <consumer>\nCreate a new consumer in the specified group.",
        ),
        sub(
            "DELCONSUMER",
            5,
            "<key> <groupname> <consumer>\nRemove the specified consumer.",
        ),
        sub(
            "DESTROY",
            4,
            "<key> <groupname>\nRemove the specified group.",
        ),
        sub(
            "SETID",
            -5,
            "<key> <groupname> <id|$> [ENTRIESREAD entries_read]\nSet the current group ID and entries_read counter.",
        ),
    ]),
    listed("XACK", -4, ONE, group::xack),
    listed("XPENDING", -3, ONE, group::xpending),
    listed("XCLAIM", -6, ONE, claim::xclaim),
    listed("XAUTOCLAIM", -6, ONE, claim::xautoclaim),
    listed("XINFO", -2, SECOND, info::xinfo).with(&[
        sub(
            "CONSUMERS",
            4,
            "<key> <groupname>\nShow consumers of <groupname>.",
        ),
        sub("GROUPS", 3, "<key>\nShow the stream consumer groups."),
        sub(
            "STREAM",
            -3,
            "<key> [FULL [COUNT <count>]\nShow information about the stream.",
        ),
    ]),
];

/// Whether connections that watch the key see a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    ByWatchers,
    /// As in Redis, the state of groups is not watched.
    ByNone,
}

/// Changes of a stream. Most commands make one, which needs no allocation.
#[derive(Default)]
struct Edits<'w> {
    first: Option<StreamEdit<'w>>,
    more: Vec<StreamEdit<'w>>,
}

impl<'w> Edits<'w> {
    fn push(&mut self, edit: StreamEdit<'w>) {
        match self.first {
            None => self.first = Some(edit),
            Some(_) => self.more.push(edit),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &StreamEdit<'w>> {
        self.first.iter().chain(&self.more)
    }
}

/// A stream that is being changed, with the changes so far.
struct Changes<'s, 'w> {
    stream: &'s mut Stream,
    edits: Edits<'w>,
}

impl<'w> Changes<'_, 'w> {
    fn perform(&mut self, edit: StreamEdit<'w>) {
        self.stream.perform(&edit);
        self.edits.push(edit);
    }

    /// The group of this name.
    fn group(&self, name: &[u8]) -> Result<&Group, Refusal> {
        Ok(self.stream.group(name).ok_or("ERR no such group")?)
    }

    /// Notes that a consumer has sent a command, and returns whether it is new. If it is not, that is not worth a record in the
    /// log.
    fn see(&mut self, group: &'w [u8], consumer: &'w [u8], seen_ms: u64) -> bool {
        let is_known = self
            .stream
            .group(group)
            .is_some_and(|group| group.consumer(consumer).is_some());
        let edit = StreamEdit::See {
            group,
            consumer,
            seen_ms,
        };
        if is_known {
            self.stream.perform(&edit);
        } else {
            self.perform(edit);
        }
        !is_known
    }
}

/// Changes the stream at `key`, which is made if it is missing and `change` changes it.
fn edit<'w, R>(
    call: &mut Call<'_>,
    key: &[u8],
    seen: Seen,
    change: impl FnOnce(&mut Changes<'_, 'w>) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    let fresh = || Value::Stream(Box::new(Stream::new()));
    let (effect, is_part) = call.modify(key, fresh, |value| {
        let Value::Stream(stream) = value else {
            return Err(WRONG_TYPE.into());
        };
        let edits = Edits::default();
        let mut changes = Changes { stream, edits };
        let result = change(&mut changes)?;
        let edits = changes.edits;
        Ok(Effect::of(edits.first.is_some(), (result, edits)))
    })?;
    let (result, edits) = match effect {
        Effect::Same((result, _)) => return Ok(result),
        Effect::Changed(changed) => changed,
    };
    let (database, before) = (call.session.database, call.shared.watched.changes);
    if seen == Seen::ByWatchers {
        call.shared.watched.touch(database, key);
    }
    if is_part {
        if let Some(persistence) = &mut call.shared.persistence {
            let log = persistence.change(database, key);
            for edit in edits.iter() {
                log.edit(database, key, Edit::Stream(edit));
            }
        }
    } else {
        call.touched(key);
    }
    for event in edits.iter().filter_map(event_of) {
        let watched = &mut call.shared.watched;
        watched.note_what(database, key, What::Of(Class::STREAM, event));
    }
    call.count_as(before, edits.iter().map(counted).sum());
    Ok(result)
}

/// The number of changes that Redis counts for one. It counts the entries that XTRIM removes, and not those that XADD does.
fn counted(edit: &StreamEdit<'_>) -> usize {
    match edit {
        StreamEdit::Trim { .. } => 0,
        StreamEdit::Delete(ids) | StreamEdit::Acknowledge { ids, .. } => ids.len(),
        _ => 1,
    }
}

/// The event of a change, for keyspace notifications. A group is set by two commands.
fn event_of(edit: &StreamEdit<'_>) -> Option<&'static str> {
    Some(match edit {
        StreamEdit::Append { .. } => "xadd",
        StreamEdit::Delete(_) => "xdel",
        StreamEdit::Trim { .. } => "xtrim",
        StreamEdit::SetIds { .. } => "xsetid",
        StreamEdit::SetGroup { .. } => "xgroup-",
        StreamEdit::RemoveGroup(_) => "xgroup-destroy",
        StreamEdit::See { .. } => "xgroup-createconsumer",
        StreamEdit::RemoveConsumer { .. } => "xgroup-delconsumer",
        _ => return None,
    })
}

/// Passes the stream at `key` to a closure; `None` if there is no key.
fn look<R>(
    call: &mut Call<'_>,
    key: &[u8],
    look: impl FnOnce(Option<&Stream>, &mut Reply<'_>) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    call.show(key, |value, reply| match value {
        Some(View::Stream(stream)) => look(Some(stream), reply),
        Some(_) => Err(WRONG_TYPE.into()),
        None => look(None, reply),
    })
}

/// Whether there is a stream at `key`.
fn has_stream(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Refusal> {
    look(call, key, |stream, _| Ok(stream.is_some()))
}

/// Writes an id.
fn put_id(out: &mut (impl Sink + ?Sized), id: StreamId) {
    const MOST_BYTES: usize = 41;
    let mut bytes = [0; MOST_BYTES];
    let mut length = 0;
    let mut put = |part: &str| {
        bytes[length..][..part.len()].copy_from_slice(part.as_bytes());
        length += part.len();
    };
    put(itoa::Buffer::new().format(id.ms));
    put("-");
    put(itoa::Buffer::new().format(id.seq));
    encode::bulk(out, &bytes[..length]);
}

/// Writes an entry: its id, and its fields with their values.
fn put_entry(out: &mut (impl Sink + ?Sized), entry: &StreamEntry<'_>) {
    encode::array_header(out, 2);
    put_id(out, entry.id);
    let pairs = entry.pairs();
    encode::array_header(out, 2 * pairs.len() as u64);
    for (field, value) in pairs {
        encode::bulk(out, field);
        encode::bulk(out, value);
    }
}

/// Writes entries, at most `most` of them, if that is not 0.
fn put_entries<'s>(
    out: &mut (impl Sink + ?Sized),
    entries: impl Iterator<Item = StreamEntry<'s>>,
    most: usize,
) {
    let most = if most == 0 { usize::MAX } else { most };
    let entries: Vec<StreamEntry<'s>> = entries.take(most).collect();
    encode::array_header(out, entries.len() as u64);
    entries.iter().for_each(|entry| put_entry(out, entry));
}

/// The limits of blocks that settings ask for.
fn limits(settings: &Settings) -> loadline_store::BlockLimits {
    loadline_store::BlockLimits {
        bytes: settings.stream_node_max_bytes,
        entries: settings.stream_node_max_entries,
    }
}

/// The error for a group that is not there.
fn no_group(key: &[u8], group: &[u8]) -> Refusal {
    let (key, group) = (shown(key, key.len()), shown(group, group.len()));
    [
        b"NOGROUP No such key '",
        key,
        b"' or consumer group '",
        group,
        b"'",
    ]
    .into()
}

/// Whether entries from `start` on were deleted, as far as the stream remembers.
fn has_gaps(stream: &Stream, start: StreamId) -> bool {
    let deleted = stream.max_deleted_id();
    !stream.is_empty()
        && deleted != StreamId::MIN
        && stream.first_id() <= deleted
        && start <= deleted
}

/// The number of entries that were added up to `id`; `None` where that is unknown.
fn added_up_to(stream: &Stream, id: StreamId) -> Option<u64> {
    let added = stream.entries_added();
    if added == 0 {
        return Some(0);
    }
    if stream.is_empty() && id <= stream.last_id() {
        return Some(added);
    }
    let (first, deleted) = (stream.first_id(), stream.max_deleted_id());
    match id.cmp(&stream.last_id()) {
        std::cmp::Ordering::Equal => Some(added),
        std::cmp::Ordering::Greater => None,
        std::cmp::Ordering::Less if deleted == StreamId::MIN || deleted < first => {
            let before = added.wrapping_sub(stream.len());
            match id.cmp(&first) {
                std::cmp::Ordering::Less => Some(before),
                std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
                std::cmp::Ordering::Greater => None,
            }
        }
        std::cmp::Ordering::Less => None,
    }
}
