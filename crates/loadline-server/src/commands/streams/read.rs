//! Entries that are read: XLEN, XRANGE, XREVRANGE, XREAD and XREADGROUP.

use loadline_resp::{Protocol, encode};
use loadline_store::{Consumer, Stream, StreamEdit, StreamId, View};

use super::ids;
use super::{Changes, Seen, added_up_to, edit, has_gaps, look, put_entries, put_entry};
use crate::commands::numbers::integer;
use crate::commands::refusal::{Refusal, SYNTAX, shown};
use crate::commands::{Call, Words, is};

/// The most entries that a client gets that has waited without COUNT.
const WAITED_COUNT: usize = 1_000;

pub(super) fn xlen(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    look(call, words[1], |stream, reply| {
        reply.integer(stream.map_or(0, Stream::len) as i64);
        Ok(())
    })
}

pub(super) fn xrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let interval = (ids::start(words[2])?, ids::end(words[3])?);
    range(call, words, interval, false)
}

pub(super) fn xrevrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let interval = (ids::start(words[3])?, ids::end(words[2])?);
    range(call, words, interval, true)
}

fn range(
    call: &mut Call<'_>,
    words: Words<'_>,
    (start, end): (StreamId, StreamId),
    is_reversed: bool,
) -> Result<(), Refusal> {
    let mut count = None;
    for option in words[4..].chunks(2) {
        match *option {
            [word, value] if is(word, "COUNT") => {
                count = Some(usize::try_from(integer(value)?).unwrap_or(0));
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    look(call, words[1], |stream, reply| {
        match stream {
            None => reply.array(0),
            Some(_) if count == Some(0) => reply.null_array(),
            Some(stream) if is_reversed => {
                let entries = stream.range_back(start, end);
                put_entries(reply.out, entries, count.unwrap_or(0));
            }
            Some(stream) => {
                let entries = stream.range(start, end);
                put_entries(reply.out, entries, count.unwrap_or(0));
            }
        }
        Ok(())
    })
}

/// XREAD or XREADGROUP.
#[derive(Debug)]
struct Request<'w> {
    /// The time to wait in milliseconds, 0 for ever; `None` to not wait.
    block_ms: Option<u64>,
    /// The most entries of each stream; 0 for all.
    count: usize,
    /// The group and the consumer.
    group: Option<(&'w [u8], &'w [u8])>,
    needs_no_ack: bool,
    /// The position of the first key.
    first: usize,
    keys: &'w [&'w [u8]],
    ids: &'w [&'w [u8]],
}

impl<'w> Request<'w> {
    fn parse(words: Words<'w>) -> Result<Self, Refusal> {
        let is_group = is(words[0], "XREADGROUP");
        let mut request = Self {
            block_ms: None,
            count: 0,
            group: None,
            needs_no_ack: false,
            first: 0,
            keys: &[],
            ids: &[],
        };
        let mut place = 1;
        while let Some(word) = words.get(place) {
            let rest = &words[place + 1..];
            if is(word, "BLOCK") && !rest.is_empty() {
                let time = integer(rest[0])
                    .map_err(|_| "ERR timeout is not an integer or out of range")?;
                let time = u64::try_from(time).map_err(|_| "ERR timeout is negative")?;
                request.block_ms = Some(time);
                place += 1;
            } else if is(word, "COUNT") && !rest.is_empty() {
                request.count = usize::try_from(integer(rest[0])?).unwrap_or(0);
                place += 1;
            } else if is(word, "STREAMS") && !rest.is_empty() {
                if !rest.len().is_multiple_of(2) {
                    return Err("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.".into());
                }
                request.first = place + 1;
                (request.keys, request.ids) = rest.split_at(rest.len() / 2);
                break;
            } else if is(word, "GROUP") && rest.len() >= 2 {
                if !is_group {
                    return Err("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.".into());
                }
                request.group = Some((rest[0], rest[1]));
                place += 2;
            } else if is(word, "NOACK") {
                if !is_group {
                    return Err("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.".into());
                }
                request.needs_no_ack = true;
            } else {
                return Err(SYNTAX.into());
            }
            place += 1;
        }
        if request.keys.is_empty() {
            return Err(SYNTAX.into());
        }
        if is_group && request.group.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        Ok(request)
    }

    /// The entry after which to read a stream.
    fn position(&self, key: &[u8], word: &[u8], stream: Option<&Stream>) -> Result<After, Refusal> {
        if let Some((group, _)) = self.group
            && stream.and_then(|stream| stream.group(group)).is_none()
        {
            let (key, group) = (shown(key, key.len()), shown(group, group.len()));
            return Err([
                b"NOGROUP No such key '",
                key,
                b"' or consumer group '",
                group,
                b"' in XREADGROUP with GROUP option",
            ]
            .into());
        }
        match (shown(word, word.len()), self.group) {
            (b"$", Some(_)) => Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.".into()),
            (b"$", None) => Ok(After::Id(stream.map_or(StreamId::MIN, Stream::last_id))),
            (b">", Some(_)) => Ok(After::Delivered),
            (b">", None) => Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.".into()),
            _ => {
                let id = ids::strict(word, 0)?;
                // The greatest id stands for new entries of a group.
                let is_new = self.group.is_some() && id == StreamId::MAX;
                Ok(if is_new { After::Delivered } else { After::Id(id) })
            }
        }
    }
}

/// The position from which on entries are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Id(StreamId),
    /// The last entry that was delivered to the group.
    Delivered,
}

pub(super) fn xread(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let request = Request::parse(words)?;
    if call.has_waited() {
        return read_changed(call, &request);
    }
    let mut positions = Vec::with_capacity(request.keys.len());
    for (key, word) in request.keys.iter().zip(request.ids) {
        let position = look(call, key, |stream, _| request.position(key, word, stream))?;
        positions.push(position);
    }
    let (mut found, mut out) = (0, Vec::new());
    for (key, position) in request.keys.iter().zip(&positions) {
        if has_entries(call, &request, key, *position)? {
            found += 1;
            read_one(call, &request, key, *position, request.count, &mut out)?;
        }
    }
    if found > 0 {
        put_streams(call, found, &out);
    } else if let Some(time) = request.block_ms.filter(|_| !call.session.may_not_block) {
        let mut again = crate::commands::blocking::owned(words);
        for (place, position) in positions.iter().enumerate() {
            if let After::Id(id) = position {
                let place = request.first + request.keys.len() + place;
                again[place] = id.to_string().into_bytes();
            }
        }
        let deadline = (time > 0).then(|| call.now().saturating_add(time));
        call.wait_for(again, request.keys, deadline, request.group.is_some());
    } else {
        call.reply().null_array();
    }
    Ok(())
}

/// Reads the stream that has changed, for a client that has waited for it.
fn read_changed(call: &mut Call<'_>, request: &Request<'_>) -> Result<(), Refusal> {
    let count = match request.count {
        0 => WAITED_COUNT,
        count => count,
    };
    let pairs = request.keys.iter().zip(request.ids);
    let changed = pairs.filter(|(key, _)| call.changed == Some(**key));
    for (key, word) in changed.collect::<Vec<_>>() {
        let last_id = call.store().inspect(key, call.now(), |value| match value {
            Some(View::Stream(stream)) => {
                let group = request.group.map(|(group, _)| stream.group(group));
                Some((
                    stream.last_id(),
                    group.map(|group| group.map(|group| group.last_id)),
                ))
            }
            _ => None,
        });
        let (last_id, position) = match (last_id, request.group) {
            (None, None) => continue,
            (None, Some(_)) => return Err("UNBLOCKED the stream key no longer exists".into()),
            (Some((_, Some(None))), _) => {
                return Err(
                    "NOGROUP the consumer group this client was blocked on no longer exists".into(),
                );
            }
            (Some((last_id, Some(Some(delivered)))), _) => (last_id, (After::Delivered, delivered)),
            (Some((last_id, None)), _) => {
                let id = ids::strict(word, 0)?;
                (last_id, (After::Id(id), id))
            }
        };
        if last_id > position.1 {
            let mut out = Vec::new();
            read_one(call, request, key, position.0, count, &mut out)?;
            put_streams(call, 1, &out);
            return Ok(());
        }
    }
    call.wait_for(Vec::new(), &[], None, false);
    Ok(())
}

/// Writes streams with their entries.
fn put_streams(call: &mut Call<'_>, count: usize, streams: &[u8]) {
    let mut reply = call.reply();
    match reply.protocol {
        Protocol::Resp2 => reply.array(count),
        Protocol::Resp3 => reply.map(count),
    }
    reply.encoded(streams);
}

/// Whether there is something to read at once.
fn has_entries(
    call: &mut Call<'_>,
    request: &Request<'_>,
    key: &[u8],
    position: After,
) -> Result<bool, Refusal> {
    look(call, key, |stream, _| {
        let Some(stream) = stream else {
            return Ok(false);
        };
        let after = match (position, request.group) {
            // Entries that were delivered before are read in any case.
            (After::Id(_), Some(_)) => return Ok(true),
            (After::Id(id), None) => id,
            (After::Delivered, group) => {
                let group = group.and_then(|(group, _)| stream.group(group));
                group.map_or(StreamId::MAX, |group| group.last_id)
            }
        };
        Ok(stream.last_entry_id().is_some_and(|last| last > after))
    })
}

/// Reads a stream and appends its key and entries to `out`.
fn read_one(
    call: &mut Call<'_>,
    request: &Request<'_>,
    key: &[u8],
    position: After,
    count: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    if call.protocol() == Protocol::Resp2 {
        encode::array_header(out, 2);
    }
    encode::bulk(out, key);
    let Some((group, consumer)) = request.group else {
        let After::Id(id) = position else {
            return Ok(());
        };
        return look(call, key, |stream, _| {
            let start = id.next().unwrap_or(StreamId::MIN);
            if let Some(stream) = stream {
                put_entries(out, stream.range(start, StreamId::MAX), count);
            }
            Ok(())
        });
    };
    let (now, protocol) = (call.now(), call.protocol());
    let needs_no_ack = request.needs_no_ack;
    let before = call.shared.watched.changes;
    let is_new = edit(call, key, Seen::ByNone, |changes| {
        let is_new = changes.see(group, consumer, now);
        match position {
            After::Id(id) => {
                read_pending(changes, (group, consumer), id, count, now, (out, protocol))
            }
            After::Delivered => deliver(changes, (group, consumer), count, now, needs_no_ack, out),
        }?;
        Ok(is_new)
    })?;
    // A stream counts once, and so does a new consumer.
    call.count_as(before, 1 + usize::from(is_new));
    Ok(())
}

/// Reads entries that were delivered to the consumer before, which counts as another delivery.
fn read_pending<'w>(
    changes: &mut Changes<'_, 'w>,
    (group, consumer): (&'w [u8], &'w [u8]),
    after: StreamId,
    count: usize,
    now: u64,
    (out, protocol): (&mut Vec<u8>, Protocol),
) -> Result<(), Refusal> {
    let most = if count == 0 { usize::MAX } else { count };
    let found = changes.group(group)?;
    let pending = found.consumer(consumer).map(Consumer::pending);
    let start = after.next().unwrap_or(StreamId::MIN);
    let ids = pending
        .into_iter()
        .flat_map(|pending| pending.range(start..));
    let ids: Vec<StreamId> = ids.take(most).copied().collect();
    let mut entries = Vec::new();
    encode::array_header(out, ids.len() as u64);
    for id in ids {
        match changes.stream.get(id) {
            Some(entry) => {
                put_entry(out, &entry);
                let pending = changes.group(group)?.pending().get(&id);
                let deliveries = pending.map_or(0, |pending| pending.deliveries);
                entries.push((id, deliveries.saturating_add(1)));
            }
            None => {
                encode::array_header(out, 2);
                super::put_id(out, id);
                encode::null_array(out, protocol);
            }
        }
    }
    if !entries.is_empty() {
        changes.perform(StreamEdit::Deliver {
            group,
            consumer,
            delivered_ms: now,
            entries,
        });
    }
    Ok(())
}

/// Delivers new entries to a consumer.
fn deliver<'w>(
    changes: &mut Changes<'_, 'w>,
    (group, consumer): (&'w [u8], &'w [u8]),
    count: usize,
    now: u64,
    needs_no_ack: bool,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let most = if count == 0 { usize::MAX } else { count };
    let found = changes.group(group)?;
    let (mut last_id, mut entries_read) = (found.last_id, found.entries_read);
    let stream = &*changes.stream;
    let start = last_id.next().unwrap_or(StreamId::MIN);
    let entries: Vec<_> = stream.range(start, StreamId::MAX).take(most).collect();
    encode::array_header(out, entries.len() as u64);
    let mut delivered = Vec::with_capacity(entries.len());
    for entry in &entries {
        let id = entry.id;
        if id > last_id {
            entries_read = match entries_read {
                Some(read) if !has_gaps(stream, id) => Some(read.saturating_add(1)),
                _ if stream.entries_added() > 0 => added_up_to(stream, id),
                before => before,
            };
            last_id = id;
        }
        put_entry(out, entry);
        delivered.push((id, 1));
    }
    if delivered.is_empty() {
        return Ok(());
    }
    changes.perform(StreamEdit::SetGroup {
        group,
        last_id,
        entries_read,
    });
    if !needs_no_ack {
        changes.perform(StreamEdit::Deliver {
            group,
            consumer,
            delivered_ms: now,
            entries: delivered,
        });
    }
    Ok(())
}
