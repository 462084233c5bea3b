//! Groups of consumers: XGROUP, XACK and XPENDING.

use std::collections::BTreeSet;

use loadline_store::{Group, Pending, Stream, StreamEdit, StreamId};

use super::ids;
use super::{Seen, edit, look, no_group, put_id};
use crate::commands::numbers::integer;
use crate::commands::refusal::{Refusal, SYNTAX, no_such_form, shown};
use crate::commands::{Call, Words, is};

/// The options of XGROUP CREATE and SETID.
#[derive(Debug, Default)]
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(words: Words<'_>) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let creates = is(words[1], "CREATE");
        let mut rest = words.get(5..).unwrap_or_default().iter();
        while let Some(word) = rest.next() {
            if creates && is(word, "MKSTREAM") {
                options.makes_stream = true;
            } else if is(word, "ENTRIESREAD")
                && let Some(value) = rest.next()
            {
                options.entries_read = match integer(value)? {
                    -1 => None,
                    number => Some(
                        u64::try_from(number)
                            .map_err(|_| "ERR value for ENTRIESREAD must be positive or -1")?,
                    ),
                };
            } else {
                return Err(no_such_form(words));
            }
        }
        Ok(options)
    }
}

pub(super) fn xgroup(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (word, key, group) = (words[1], words[2], words[3]);
    let options = Options::parse(words)?;
    let (is_there, has_group) = look(call, key, |stream, _| {
        let group = stream.and_then(|stream| stream.group(group));
        Ok((stream.is_some(), group.is_some()))
    })?;
    if !options.makes_stream {
        if !is_there {
            return Err("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.".into());
        }
        let needs_group = ["SETID", "CREATECONSUMER", "DELCONSUMER"];
        if !has_group && needs_group.iter().any(|name| is(word, name)) {
            let (key, group) = (shown(key, key.len()), shown(group, group.len()));
            return Err([
                b"NOGROUP No such consumer group '",
                group,
                b"' for key name '",
                key,
                b"'",
            ]
            .into());
        }
    }
    match words[4..] {
        [id, ..] if is(word, "CREATE") && words.len() <= 8 => create(call, words, id, &options),
        [id, ..] if is(word, "SETID") && words.len() != 6 && words.len() <= 7 => {
            set_position(call, (key, group), id, &options)
        }
        [] if is(word, "DESTROY") => {
            if has_group {
                edit(call, key, Seen::ByNone, |changes| {
                    changes.perform(StreamEdit::RemoveGroup(group));
                    Ok(())
                })?;
                // Clients that wait for its entries get an error.
                let database = call.session.database;
                call.shared.watched.note_ready(database, key);
            }
            call.reply().flag(has_group);
            Ok(())
        }
        [consumer] if is(word, "CREATECONSUMER") => create_consumer(call, (key, group), consumer),
        [consumer] if is(word, "DELCONSUMER") => remove_consumer(call, (key, group), consumer),
        _ => Err(no_such_form(words)),
    }
}

fn create(
    call: &mut Call<'_>,
    words: Words<'_>,
    id: &[u8],
    options: &Options,
) -> Result<(), Refusal> {
    let (key, group) = (words[2], words[3]);
    let given = match id {
        b"$" => None,
        id => Some(ids::strict(id, 0)?),
    };
    let seen = if call.has(key) {
        Seen::ByNone
    } else {
        Seen::ByWatchers
    };
    let is_new = edit(call, key, seen, |changes| {
        if changes.stream.group(group).is_some() {
            return Ok(false);
        }
        changes.perform(StreamEdit::SetGroup {
            group,
            last_id: given.unwrap_or(changes.stream.last_id()),
            entries_read: options.entries_read,
        });
        Ok(true)
    })?;
    if !is_new {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    call.reply().ok();
    Ok(())
}

fn set_position(
    call: &mut Call<'_>,
    (key, group): (&[u8], &[u8]),
    id: &[u8],
    options: &Options,
) -> Result<(), Refusal> {
    let given = match id {
        b"$" => None,
        id => Some(ids::id(id, 0)?),
    };
    edit(call, key, Seen::ByNone, |changes| {
        changes.perform(StreamEdit::SetGroup {
            group,
            last_id: given.unwrap_or(changes.stream.last_id()),
            entries_read: options.entries_read,
        });
        Ok(())
    })?;
    call.reply().ok();
    Ok(())
}

fn create_consumer(
    call: &mut Call<'_>,
    (key, group): (&[u8], &[u8]),
    consumer: &[u8],
) -> Result<(), Refusal> {
    let seen_ms = call.now();
    let is_new = edit(call, key, Seen::ByNone, |changes| {
        let is_new = changes.group(group)?.consumer(consumer).is_none();
        if is_new {
            changes.see(group, consumer, seen_ms);
        }
        Ok(is_new)
    })?;
    call.reply().flag(is_new);
    Ok(())
}

fn remove_consumer(
    call: &mut Call<'_>,
    (key, group): (&[u8], &[u8]),
    consumer: &[u8],
) -> Result<(), Refusal> {
    let pending = edit(call, key, Seen::ByNone, |changes| {
        let known = changes.group(group)?.consumer(consumer);
        let pending = known.map(|consumer| consumer.pending().len());
        if pending.is_some() {
            changes.perform(StreamEdit::RemoveConsumer { group, consumer });
        }
        Ok(pending.unwrap_or(0))
    })?;
    call.reply().count(pending);
    Ok(())
}

pub(super) fn xack(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (key, group) = (words[1], words[2]);
    let has_group = look(call, key, |stream, _| {
        Ok(stream.and_then(|stream| stream.group(group)).is_some())
    })?;
    if !has_group {
        call.reply().count(0);
        return Ok(());
    }
    let ids = words[3..].iter().map(|word| ids::strict(word, 0));
    let ids: BTreeSet<StreamId> = ids.collect::<Result<_, _>>()?;
    let count = edit(call, key, Seen::ByNone, |changes| {
        let pending = changes.group(group)?.pending();
        let ids = ids.into_iter().filter(|id| pending.contains_key(id));
        let ids: Vec<StreamId> = ids.collect();
        let count = ids.len();
        if count > 0 {
            changes.perform(StreamEdit::Acknowledge { group, ids });
        }
        Ok(count)
    })?;
    call.reply().count(count);
    Ok(())
}

/// A part of the pending entries.
#[derive(Debug)]
struct Part<'w> {
    least_idle: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'w [u8]>,
}

impl<'w> Part<'w> {
    fn parse(words: Words<'w>) -> Result<Self, Refusal> {
        let mut place = 3;
        let mut least_idle = 0;
        if is(words[3], "IDLE") {
            least_idle = integer(words[4])?;
            if words.len() < 8 {
                return Err(SYNTAX.into());
            }
            place = 5;
        }
        let count = integer(words[place + 2])?;
        Ok(Self {
            least_idle,
            start: ids::start(words[place])?,
            end: ids::end(words[place + 1])?,
            count: usize::try_from(count).unwrap_or(0),
            consumer: words.get(place + 3).copied(),
        })
    }
}

pub(super) fn xpending(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let part = match words.len() {
        3 => None,
        6..=9 => Some(Part::parse(words)?),
        _ => return Err(SYNTAX.into()),
    };
    let now = call.now();
    look(call, words[1], |stream, reply| {
        let group = stream.and_then(|stream: &Stream| stream.group(words[2]));
        let group = group.ok_or_else(|| no_group(words[1], words[2]))?;
        let Some(part) = part else {
            summarize(group, reply);
            return Ok(());
        };
        let is_of = |pending: &Pending| {
            part.consumer
                .is_none_or(|consumer| pending.consumer() == consumer)
        };
        // With a consumer, its entries are few among those of others.
        let ids: Vec<StreamId> = match part.consumer {
            _ if part.start > part.end => Vec::new(),
            Some(name) => {
                let own = group.consumer(name).map(loadline_store::Consumer::pending);
                let own = own
                    .into_iter()
                    .flat_map(|own| own.range(part.start..=part.end));
                own.copied().collect()
            }
            None => {
                let all = group.pending().range(part.start..=part.end);
                all.map(|(id, _)| *id).collect()
            }
        };
        let idle = |pending: &Pending| now as i64 - pending.delivered_ms as i64;
        let chosen = ids.into_iter().filter_map(|id| {
            let pending = group.pending().get(&id)?;
            let is_chosen = part.least_idle == 0 || idle(pending) >= part.least_idle;
            (is_chosen && is_of(pending)).then_some((id, pending))
        });
        let chosen: Vec<(StreamId, &Pending)> = chosen.take(part.count).collect();
        reply.array(chosen.len());
        for (id, pending) in chosen {
            reply.array(4);
            put_id(reply.out, id);
            reply.bulk(pending.consumer());
            reply.integer(idle(pending).max(0));
            reply.integer(pending.deliveries as i64);
        }
        Ok(())
    })
}

/// Writes the number of pending entries, the first and the last of them, and the consumers that have some.
fn summarize(group: &Group, reply: &mut crate::commands::reply::Reply<'_>) {
    let pending = group.pending();
    reply.array(4);
    reply.count(pending.len());
    let (Some((first, _)), Some((last, _))) = (pending.first_key_value(), pending.last_key_value())
    else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    put_id(reply.out, *first);
    put_id(reply.out, *last);
    let consumers = group.consumers();
    let consumers = consumers.filter(|(_, consumer)| !consumer.pending().is_empty());
    let consumers: Vec<_> = consumers.collect();
    reply.array(consumers.len());
    for (name, consumer) in consumers {
        reply.array(2);
        reply.bulk(name);
        reply.bulk(consumer.pending().len().to_string().as_bytes());
    }
}
