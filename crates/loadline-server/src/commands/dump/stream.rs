//! Streams: a listpack for each block, the ids that the stream remembers, and the groups.

use std::cmp::Ordering;

use loadline_store::{Group, Stream, StreamBlock, StreamEdit, StreamId, StreamWords};

use super::kind;
use super::listpack::{self, Listpack};
use super::reader::Reader;
use super::write::{put_length, put_string};

const IS_DELETED: i64 = 1;
const HAS_BLOCK_FIELDS: i64 = 2;

/// The count of entries that a group has read, where it is unknown.
const UNKNOWN: u64 = u64::MAX;

/// Appends a stream.
pub(super) fn put(out: &mut Vec<u8>, stream: &Stream) {
    put_length(out, stream.blocks().len() as u64);
    for block in stream.blocks() {
        put_string(out, &block.id().to_bytes());
        put_string(out, &packed(block));
    }
    put_length(out, stream.len());
    for id in [stream.last_id(), stream.first_id(), stream.max_deleted_id()] {
        put_length(out, id.ms);
        put_length(out, id.seq);
    }
    put_length(out, stream.entries_added());
    put_length(out, stream.groups().len() as u64);
    for (name, group) in stream.groups() {
        put_string(out, name);
        put_group(out, group);
    }
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    put_length(out, group.last_id.ms);
    put_length(out, group.last_id.seq);
    put_length(out, group.entries_read.unwrap_or(UNKNOWN));
    put_length(out, group.pending().len() as u64);
    for (id, pending) in group.pending() {
        out.extend_from_slice(&id.to_bytes());
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        put_length(out, pending.deliveries);
    }
    put_length(out, group.consumers().len() as u64);
    for (name, consumer) in group.consumers() {
        put_string(out, name);
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        put_length(out, consumer.pending().len() as u64);
        for id in consumer.pending() {
            out.extend_from_slice(&id.to_bytes());
        }
    }
}

/// The listpack of a block: the counts of its entries, its fields, and the entries. Each entry ends with the number of its
/// elements.
fn packed(block: StreamBlock<'_>) -> Vec<u8> {
    let mut pack = Listpack::default();
    let number = |pack: &mut Listpack, number: i64| pack.push(number.to_string().as_bytes());
    let deleted = block.entries().filter(|entry| entry.is_deleted()).count();
    number(&mut pack, (block.entries().count() - deleted) as i64);
    number(&mut pack, deleted as i64);
    let names = block.names();
    number(&mut pack, names.len() as i64);
    names.iter().for_each(|name| pack.push(name));
    number(&mut pack, 0);
    for entry in block.entries() {
        let count = entry.pairs().len() as i64;
        let has_block_fields = entry.has_block_fields();
        let flags = i64::from(entry.is_deleted()) * IS_DELETED
            + i64::from(has_block_fields) * HAS_BLOCK_FIELDS;
        number(&mut pack, flags);
        number(&mut pack, entry.id.ms.wrapping_sub(block.id().ms) as i64);
        number(&mut pack, entry.id.seq.wrapping_sub(block.id().seq) as i64);
        if !has_block_fields {
            number(&mut pack, count);
        }
        for (field, value) in entry.pairs() {
            if !has_block_fields {
                pack.push(field);
            }
            pack.push(value);
        }
        number(
            &mut pack,
            if has_block_fields {
                count + 3
            } else {
                2 * count + 4
            },
        );
    }
    pack.finish()
}

/// Reads a stream of one of the kinds; `None` where the bytes are none. Versions before 7.0 do not count entries, and those
/// from 7.2 on also write when consumers were active.
pub(super) fn read(reader: &mut Reader<'_>, kind: u8) -> Option<Stream> {
    let mut stream = Stream::new();
    let mut deleted = Vec::new();
    reader.each(|reader| {
        let id = id(&reader.string()?)?;
        let pack = reader.string()?;
        read_block(&mut stream, &mut deleted, id, &pack)
    })?;
    stream.perform(&StreamEdit::Delete(deleted));
    (stream.len() == reader.length()?).then_some(())?;
    let mut numbers = [0, 0, 0, 0, 0, 0, stream.len()];
    let written = match kind {
        kind::STREAM_LISTPACKS => 2,
        _ => numbers.len(),
    };
    for number in &mut numbers[..written] {
        *number = reader.length()?;
    }
    let [ms, seq, _, _, deleted_ms, deleted_seq, entries_added] = numbers;
    let last_id = StreamId { ms, seq };
    let has_order = stream.last_entry_id().is_none_or(|last| last <= last_id);
    has_order.then_some(())?;
    stream.perform(&StreamEdit::SetIds {
        last_id,
        max_deleted_id: StreamId {
            ms: deleted_ms,
            seq: deleted_seq,
        },
        entries_added,
    });
    reader.each(|reader| read_group(&mut stream, reader, kind))?;
    Some(stream)
}

fn read_block(
    stream: &mut Stream,
    deleted: &mut Vec<StreamId>,
    block: StreamId,
    pack: &[u8],
) -> Option<()> {
    let mut elements = Vec::new();
    listpack::read(pack, |element| {
        elements.push(element.to_vec());
        Some(())
    })?;
    let mut elements = elements.iter().map(Vec::as_slice);
    let number = |element: Option<&[u8]>| super::integer(element?).ok();
    let count = |element: Option<&[u8]>| usize::try_from(number(element)?).ok();
    let (live, gone) = (count(elements.next())?, count(elements.next())?);
    let fields = count(elements.next())?;
    let names: Vec<&[u8]> = elements.by_ref().take(fields).collect();
    (names.len() == fields && number(elements.next())? == 0).then_some(())?;
    let mut begins_block = true;
    for _ in 0..live.checked_add(gone)? {
        let flags = number(elements.next())?;
        let id = StreamId {
            ms: block.ms.wrapping_add(number(elements.next())? as u64),
            seq: block.seq.wrapping_add(number(elements.next())? as u64),
        };
        let words: Vec<&[u8]> = if flags & HAS_BLOCK_FIELDS != 0 {
            let values = elements.by_ref().take(names.len());
            let pairs = names.iter().zip(values);
            pairs.flat_map(|(name, value)| [*name, value]).collect()
        } else {
            let count = count(elements.next())?.checked_mul(2)?;
            let words: Vec<&[u8]> = elements.by_ref().take(count).collect();
            (words.len() == count).then_some(words)?
        };
        number(elements.next())?;
        let is_entry = !words.is_empty() && id > stream.last_id();
        is_entry.then_some(())?;
        stream.perform(&StreamEdit::Append {
            id,
            begins_block: std::mem::take(&mut begins_block),
            fields: StreamWords::Held(words),
        });
        deleted.extend((flags & IS_DELETED != 0).then_some(id));
    }
    elements.next().is_none().then_some(())
}

fn read_group(stream: &mut Stream, reader: &mut Reader<'_>, kind: u8) -> Option<()> {
    let group = reader.string()?;
    stream.group(&group).is_none().then_some(())?;
    let last_id = StreamId {
        ms: reader.length()?,
        seq: reader.length()?,
    };
    let entries_read = match kind {
        kind::STREAM_LISTPACKS => entries_up_to(stream, last_id),
        _ => Some(reader.length()?).filter(|read| *read != UNKNOWN),
    };
    stream.perform(&StreamEdit::SetGroup {
        group: &group,
        last_id,
        entries_read,
    });
    let mut pending = std::collections::BTreeMap::new();
    reader.each(|reader| {
        let id = id(reader.bytes(16)?)?;
        let delivered_ms = u64::from_le_bytes(*reader.bytes(8)?.first_chunk()?);
        pending.insert(id, (delivered_ms, reader.length()?));
        Some(())
    })?;
    reader.each(|reader| {
        let consumer = reader.string()?;
        let seen_ms = u64::from_le_bytes(*reader.bytes(8)?.first_chunk()?);
        if kind == kind::STREAM_LISTPACKS_3 {
            reader.bytes(8)?;
        }
        stream.perform(&StreamEdit::See {
            group: &group,
            consumer: &consumer,
            seen_ms,
        });
        reader.each(|reader| {
            let id = id(reader.bytes(16)?)?;
            let (delivered_ms, deliveries) = pending.remove(&id)?;
            stream.perform(&StreamEdit::Deliver {
                group: &group,
                consumer: &consumer,
                delivered_ms,
                entries: vec![(id, deliveries)],
            });
            Some(())
        })
    })?;
    // Every pending entry is that of a consumer.
    pending.is_empty().then_some(())
}

/// The entries that were ever added up to an id, as far as that is known.
fn entries_up_to(stream: &Stream, id: StreamId) -> Option<u64> {
    let entries = stream.entries_added();
    if stream.is_empty() || id < stream.first_id() {
        return Some(entries - stream.len());
    }
    match id.cmp(&stream.last_id()) {
        Ordering::Less if id == stream.first_id() => Some(entries - stream.len() + 1),
        Ordering::Less => None,
        Ordering::Equal | Ordering::Greater => Some(entries),
    }
}

fn id(bytes: &[u8]) -> Option<StreamId> {
    let (ms, seq) = bytes.split_first_chunk()?;
    Some(StreamId {
        ms: u64::from_be_bytes(*ms),
        seq: u64::from_be_bytes(seq.try_into().ok()?),
    })
}
