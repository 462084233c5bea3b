//! Encoding of values.

use loadline_store::{Fields, View};

use super::listpack::Listpack;
use super::write::{put_length, put_string};
use super::{container, kind, stream};
use crate::commands::numbers::{integer, packed_score_text};

/// The largest listpack of a list before a new one starts.
const NODE_BYTES: usize = 8 << 10;

/// The type and the bytes of a value, without the footer.
pub(super) fn encode(value: View<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        View::String(bytes) => {
            out.push(kind::STRING);
            put_string(&mut out, bytes);
        }
        View::Set(members) if members.is_ordered() => {
            out.push(kind::SET_INTSET);
            let numbers = members
                .iter()
                .filter_map(|(member, ())| integer(member).ok());
            put_string(&mut out, &intset(&numbers.collect::<Vec<_>>()));
        }
        View::Set(members) => {
            out.push(kind::SET);
            put_length(&mut out, members.len() as u64);
            members
                .iter()
                .for_each(|(member, ())| put_string(&mut out, member));
        }
        View::Hash(fields) if fields.have_expiries() => {
            out.push(kind::HASH_TIMED);
            put_timed(&mut out, fields);
        }
        View::Hash(fields) if fields.is_ordered() => {
            out.push(kind::HASH_LISTPACK);
            let mut pack = Listpack::default();
            for (field, value) in fields.iter() {
                pack.push(field);
                pack.push(value);
            }
            put_string(&mut out, &pack.finish());
        }
        View::Hash(fields) => {
            out.push(kind::HASH);
            put_length(&mut out, fields.len() as u64);
            for (field, value) in fields.iter() {
                put_string(&mut out, field);
                put_string(&mut out, value);
            }
        }
        View::List(items) => {
            out.push(kind::LIST_QUICKLIST_2);
            put_nodes(&mut out, items.iter());
        }
        View::Sorted(set) if set.is_packed() => {
            out.push(kind::ZSET_LISTPACK);
            let mut pack = Listpack::default();
            for (member, score) in set.iter() {
                pack.push(member);
                pack.push(packed_score_text(score).as_bytes());
            }
            put_string(&mut out, &pack.finish());
        }
        View::Sorted(set) => {
            out.push(kind::ZSET_2);
            put_length(&mut out, set.len() as u64);
            // Redis adds a member in front faster than behind others, so the last one comes first.
            for (member, score) in set.range_reversed(0..set.len()) {
                put_string(&mut out, member);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        View::Stream(value) => {
            out.push(kind::STREAM_LISTPACKS_2);
            stream::put(&mut out, value);
        }
    }
    out
}

/// Writes a hash whose fields expire: the first time, and for each field its time as the difference to that plus one, 0 for
/// never.
fn put_timed(out: &mut Vec<u8>, fields: &Fields) {
    let times = fields
        .iter()
        .filter_map(|(field, _)| fields.expires_at(field));
    let first = times.min().unwrap_or_default();
    out.extend_from_slice(&first.to_le_bytes());
    put_length(out, fields.len() as u64);
    for (field, value) in fields.iter() {
        let at = fields.expires_at(field);
        put_length(out, at.map_or(0, |at| at - first + 1));
        put_string(out, field);
        put_string(out, value);
    }
}

/// Writes the items of a list, in listpacks of bounded size.
fn put_nodes<'i>(out: &mut Vec<u8>, items: impl Iterator<Item = &'i [u8]>) {
    let mut nodes = vec![Listpack::default()];
    for item in items {
        if let Some(last) = nodes
            .last_mut()
            .filter(|last| last.has_room(item, NODE_BYTES))
        {
            last.push(item);
        } else {
            let mut next = Listpack::default();
            next.push(item);
            nodes.push(next);
        }
    }
    put_length(out, nodes.len() as u64);
    for node in nodes {
        put_length(out, container::PACKED);
        put_string(out, &node.finish());
    }
}

/// Encodes sorted numbers, each with the width of the widest one.
fn intset(numbers: &[i64]) -> Vec<u8> {
    let fits = |least: i64, most: i64| numbers.iter().all(|number| (least..=most).contains(number));
    let width: usize = if fits(i16::MIN.into(), i16::MAX.into()) {
        2
    } else if fits(i32::MIN.into(), i32::MAX.into()) {
        4
    } else {
        8
    };
    let mut out = Vec::with_capacity(8 + width * numbers.len());
    out.extend_from_slice(&(width as u32).to_le_bytes());
    out.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    out
}
