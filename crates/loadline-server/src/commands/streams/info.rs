//! XINFO: what a stream holds.

use loadline_store::{Group, Stream, StreamId};

use super::{added_up_to, has_gaps, look, put_entries, put_entry, put_id};
use crate::commands::numbers::integer;
use crate::commands::refusal::{NO_KEY, Refusal, no_such_form, shown};
use crate::commands::reply::Reply;
use crate::commands::{Call, Words, is};

/// The entries that XINFO STREAM FULL shows of each kind without COUNT.
const SHOWN: i64 = 10;

pub(super) fn xinfo(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let now = call.now();
    look(call, words[2], |stream, reply| {
        let stream = stream.ok_or(NO_KEY)?;
        match words[1..] {
            [word, key, name] if is(word, "CONSUMERS") => {
                let group = stream.group(name).ok_or_else(|| {
                    let (key, name) = (shown(key, key.len()), shown(name, name.len()));
                    Refusal::from([
                        &b"NOGROUP No such consumer group '"[..],
                        name,
                        b"' for key name '",
                        key,
                        b"'",
                    ])
                })?;
                consumers(group, now, reply);
            }
            [word, _] if is(word, "GROUPS") => groups(stream, reply),
            [word, _] if is(word, "STREAM") => summary(stream, reply),
            [word, _, full] if is(word, "STREAM") && is(full, "FULL") => {
                whole(stream, SHOWN as usize, reply);
            }
            [word, _, full, name, count]
                if is(word, "STREAM") && is(full, "FULL") && is(name, "COUNT") =>
            {
                let count = integer(count)?;
                let count = if count < 0 { SHOWN } else { count };
                whole(stream, usize::try_from(count).unwrap_or(0), reply);
            }
            _ => return Err(no_such_form(words)),
        }
        Ok(())
    })
}

fn consumers(group: &Group, now: u64, reply: &mut Reply<'_>) {
    let consumers = group.consumers();
    reply.array(consumers.len());
    for (name, consumer) in consumers {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"pending");
        reply.count(consumer.pending().len());
        reply.bulk(b"idle");
        reply.integer(now.saturating_sub(consumer.seen_ms) as i64);
    }
}

fn groups(stream: &Stream, reply: &mut Reply<'_>) {
    let groups = stream.groups();
    reply.array(groups.len());
    for (name, group) in groups {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.count(group.consumers().len());
        reply.bulk(b"pending");
        reply.count(group.pending().len());
        position(stream, group, reply);
    }
}

/// Writes how far a group has read.
fn position(stream: &Stream, group: &Group, reply: &mut Reply<'_>) {
    let maybe = |reply: &mut Reply<'_>, number: Option<i64>| match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    };
    reply.bulk(b"last-delivered-id");
    put_id(reply.out, group.last_id);
    reply.bulk(b"entries-read");
    maybe(reply, group.entries_read.map(|read| read as i64));
    reply.bulk(b"lag");
    let added = stream.entries_added();
    let read = match group.entries_read {
        _ if added == 0 => Some(0),
        Some(read) if !has_gaps(stream, group.last_id) => Some(read),
        _ => added_up_to(stream, group.last_id),
    };
    maybe(reply, read.map(|read| added.wrapping_sub(read) as i64));
}

/// Writes the numbers and ids of a stream.
fn facts(stream: &Stream, reply: &mut Reply<'_>) {
    reply.bulk(b"length");
    reply.integer(stream.len() as i64);
    reply.bulk(b"radix-tree-keys");
    reply.count(stream.blocks().len());
    reply.bulk(b"radix-tree-nodes");
    let ids = stream.blocks().map(|block| block.id().to_bytes());
    let ids: Vec<[u8; 16]> = ids.collect();
    reply.count(tree_nodes(&ids));
    for (name, id) in [
        ("last-generated-id", stream.last_id()),
        ("max-deleted-entry-id", stream.max_deleted_id()),
    ] {
        reply.bulk(name.as_bytes());
        put_id(reply.out, id);
    }
    reply.bulk(b"entries-added");
    reply.integer(stream.entries_added() as i64);
    reply.bulk(b"recorded-first-entry-id");
    put_id(reply.out, stream.first_id());
}

fn summary(stream: &Stream, reply: &mut Reply<'_>) {
    reply.map(10);
    facts(stream, reply);
    reply.bulk(b"groups");
    reply.count(stream.groups().len());
    let (first, last) = (StreamId::MIN, StreamId::MAX);
    for (name, entry) in [
        ("first-entry", stream.range(first, last).next()),
        ("last-entry", stream.range_back(first, last).next()),
    ] {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => put_entry(reply.out, &entry),
            None => reply.null(),
        }
    }
}

/// Writes a stream with its first entries and all groups, at most `count` entries of each kind, if that is not 0.
fn whole(stream: &Stream, count: usize, reply: &mut Reply<'_>) {
    let most = if count == 0 { usize::MAX } else { count };
    reply.map(9);
    facts(stream, reply);
    reply.bulk(b"entries");
    put_entries(reply.out, stream.range(StreamId::MIN, StreamId::MAX), count);
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        position(stream, group, reply);
        let pending = group.pending();
        reply.bulk(b"pel-count");
        reply.count(pending.len());
        reply.bulk(b"pending");
        reply.array(pending.len().min(most));
        for (id, pending) in pending.iter().take(most) {
            reply.array(4);
            put_id(reply.out, *id);
            reply.bulk(pending.consumer());
            reply.integer(pending.delivered_ms as i64);
            reply.integer(pending.deliveries as i64);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers().len());
        for (name, consumer) in group.consumers() {
            reply.map(4);
            reply.bulk(b"name");
            reply.bulk(name);
            reply.bulk(b"seen-time");
            reply.integer(consumer.seen_ms as i64);
            let own = consumer.pending();
            reply.bulk(b"pel-count");
            reply.count(own.len());
            reply.bulk(b"pending");
            reply.array(own.len().min(most));
            for id in own.iter().take(most) {
                let pending = pending.get(id);
                reply.array(3);
                put_id(reply.out, *id);
                reply.integer(pending.map_or(0, |pending| pending.delivered_ms as i64));
                reply.integer(pending.map_or(0, |pending| pending.deliveries as i64));
            }
        }
    }
}

/// The nodes of a radix tree of Redis with these keys, which are sorted. One with several keys has a node for what they have
/// in common, and one that branches.
fn tree_nodes(keys: &[[u8; 16]]) -> usize {
    fn below(keys: &[[u8; 16]], depth: usize) -> usize {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return 0;
        };
        if keys.len() == 1 {
            return 1 + usize::from(depth < first.len());
        }
        let common = first[depth..].iter().zip(&last[depth..]);
        let common = common.take_while(|(one, other)| one == other).count();
        let branch = depth + common;
        let children = keys.chunk_by(|one, other| one[branch] == other[branch]);
        let children = children.map(|keys| below(keys, branch + 1));
        usize::from(common > 0) + 1 + children.sum::<usize>()
    }
    // Without keys, there is the root.
    below(keys, 0).max(1)
}
