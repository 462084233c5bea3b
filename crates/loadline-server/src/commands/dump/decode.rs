//! Decoding of values. The bytes come from a client, so lengths are not trusted and decompression is bounded.

use std::borrow::Cow;

use loadline_store::{Bytes, Fields, List, Members, SortedSet, Value};

use super::{container, kind, length, listpack};
use crate::commands::LARGEST;
use crate::commands::numbers::double;
use crate::commands::{hashes, sets, sorted_sets};
use crate::settings::Settings;

/// Decodes the type and the value; `None` if it is malformed, empty, of an unknown type or followed by other
/// bytes.
pub(super) fn decode(payload: &[u8], settings: &Settings) -> Option<Value> {
    let (&kind, rest) = payload.split_first()?;
    let mut reader = Reader {
        rest,
        room: LARGEST,
    };
    let value = match kind {
        kind::STRING => Value::String(reader.string()?.into_owned()),
        kind::LIST => Value::List(reader.list()?),
        kind::LIST_QUICKLIST_2 => Value::List(reader.nodes()?),
        kind::SET => Value::Set(reader.set(settings)?),
        kind::SET_INTSET => Value::Set(reader.intset(settings)?),
        kind::HASH => Value::Hash(reader.hash(settings)?),
        kind::HASH_LISTPACK => Value::Hash(reader.packed_hash(settings)?),
        kind::ZSET_2 => Value::Sorted(reader.sorted_set(settings)?),
        kind::ZSET_LISTPACK => Value::Sorted(reader.packed_sorted_set(settings)?),
        _ => return None,
    };
    (reader.rest.is_empty() && !value.is_empty_collection()).then_some(value)
}

/// Reads from the front of a payload.
struct Reader<'p> {
    rest: &'p [u8],
    /// The remaining budget for all decompressed strings, in bytes.
    room: usize,
}

impl<'p> Reader<'p> {
    fn bytes(&mut self, count: usize) -> Option<&'p [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<u64> {
        let [first] = self.array()?;
        match first {
            0..0x40 => Some(first.into()),
            0x40..0x80 => {
                let [second] = self.array()?;
                Some(u64::from(first & 0x3F) << 8 | u64::from(second))
            }
            length::FOUR_BYTES => Some(u32::from_be_bytes(self.array()?).into()),
            length::EIGHT_BYTES => Some(u64::from_be_bytes(self.array()?)),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Cow<'p, [u8]>> {
        let number = match *self.rest.first()? {
            length::INT8 => signed_after_type(self.bytes(2)?),
            length::INT16 => signed_after_type(self.bytes(3)?),
            length::INT32 => signed_after_type(self.bytes(5)?),
            length::LZF => {
                self.bytes(1)?;
                return self.compressed().map(Cow::Owned);
            }
            _ => {
                let length = usize::try_from(self.length()?).ok()?;
                return self.bytes(length).map(Cow::Borrowed);
            }
        };
        Some(number.to_string().into_bytes().into())
    }

    fn compressed(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.length()?).ok()?;
        let original = usize::try_from(self.length()?).ok()?;
        self.room = self.room.checked_sub(original)?;
        decompress(self.bytes(length)?, original)
    }

    /// Reads a count and calls `read` that many times. Fails at the end of the payload, however large the
    /// count is.
    fn each(&mut self, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        for _ in 0..self.length()? {
            read(self)?;
        }
        Some(())
    }

    fn list(&mut self) -> Option<List> {
        let mut items = List::new();
        self.each(|reader| {
            items.push_back(&reader.string()?);
            Some(())
        })?;
        Some(items)
    }

    fn nodes(&mut self) -> Option<List> {
        let mut items = List::new();
        self.each(|reader| {
            let container = reader.length()?;
            let node = reader.string()?;
            match container {
                container::PLAIN => items.push_back(&node),
                container::PACKED => listpack::read(&node, |item| {
                    items.push_back(item);
                    Some(())
                })?,
                _ => return None,
            }
            Some(())
        })?;
        Some(items)
    }

    fn set(&mut self, settings: &Settings) -> Option<Members> {
        let mut members = Members::new();
        self.each(|reader| sets::add(&mut members, &reader.string()?, settings).then_some(()))?;
        Some(members)
    }

    fn intset(&mut self, settings: &Settings) -> Option<Members> {
        let set = self.string()?;
        let width = u32::from_le_bytes(*set.first_chunk()?) as usize;
        let count = u32::from_le_bytes(*set.get(4..)?.first_chunk()?) as usize;
        let numbers = set.get(8..)?;
        if ![2, 4, 8].contains(&width) || numbers.len() != count.checked_mul(width)? {
            return None;
        }
        let mut members = Members::new();
        let mut last = None;
        for number in numbers.chunks_exact(width).map(listpack::signed) {
            if last >= Some(number) {
                return None;
            }
            last = Some(number);
            sets::add(&mut members, number.to_string().as_bytes(), settings);
        }
        Some(members)
    }

    fn hash(&mut self, settings: &Settings) -> Option<Fields> {
        let mut fields = Fields::new();
        self.each(|reader| {
            let field = reader.string()?;
            let value = reader.string()?;
            put_field(&mut fields, &field, &value, settings)
        })?;
        Some(fields)
    }

    fn packed_hash(&mut self, settings: &Settings) -> Option<Fields> {
        let mut fields = Fields::new();
        self.pairs(|field, value| put_field(&mut fields, field, value, settings))?;
        Some(fields)
    }

    fn sorted_set(&mut self, settings: &Settings) -> Option<SortedSet> {
        let mut set = SortedSet::new();
        self.each(|reader| {
            let member = reader.string()?;
            let score = f64::from_le_bytes(reader.array()?);
            put_score(&mut set, &member, score, settings)
        })?;
        Some(set)
    }

    fn packed_sorted_set(&mut self, settings: &Settings) -> Option<SortedSet> {
        let mut set = SortedSet::new();
        self.pairs(|member, score| put_score(&mut set, member, double(score)?, settings))?;
        Some(set)
    }

    /// Passes the elements of a listpack to `show` in pairs.
    fn pairs(&mut self, mut show: impl FnMut(&[u8], &[u8]) -> Option<()>) -> Option<()> {
        let pack = self.string()?;
        let mut first: Option<Vec<u8>> = None;
        listpack::read(&pack, |element| match first.take() {
            Some(first) => show(&first, element),
            None => {
                first = Some(element.to_vec());
                Some(())
            }
        })?;
        first.is_none().then_some(())
    }
}

/// Adds a field; `None` if it is a duplicate.
fn put_field(fields: &mut Fields, field: &[u8], value: &[u8], settings: &Settings) -> Option<()> {
    if fields.contains(field) {
        return None;
    }
    hashes::set_field(fields, field, Bytes::from(value), settings);
    Some(())
}

/// Adds a member; `None` if it is a duplicate, or its score is no number.
fn put_score(set: &mut SortedSet, member: &[u8], score: f64, settings: &Settings) -> Option<()> {
    if score.is_nan() || set.view().score(member).is_some() {
        return None;
    }
    sorted_sets::set_score(set, member, score, settings);
    Some(())
}

/// The number after the type byte.
fn signed_after_type(bytes: &[u8]) -> i64 {
    listpack::signed(&bytes[1..])
}

/// Decompresses LibLZF data to `original` bytes. The input is a sequence of instructions. A byte below 32 is
/// one less than the number of literal bytes that follow. Any other byte has three bits of a length and
/// starts a distance of thirteen bits; length plus two bytes are copied from that distance back in the
/// output.
fn decompress(input: &[u8], original: usize) -> Option<Vec<u8>> {
    /// The output of one copy, which takes at least two bytes of input.
    const LONGEST_COPY: usize = 7 + 255 + 2;
    if original > input.len().saturating_mul(LONGEST_COPY) {
        return None;
    }
    let mut out = Vec::with_capacity(original);
    let mut input = input.iter();
    while let Some(&command) = input.next() {
        let command = usize::from(command);
        if command < 32 {
            let (taken, rest) = input.as_slice().split_at_checked(command + 1)?;
            out.extend_from_slice(taken);
            input = rest.iter();
        } else {
            let mut length = 2 + (command >> 5);
            if length == 2 + 7 {
                length += usize::from(*input.next()?);
            }
            let distance = ((command & 0x1F) << 8) + usize::from(*input.next()?) + 1;
            let from = out.len().checked_sub(distance)?;
            // The source of a copy can overlap its output.
            for at in from..from + length {
                out.push(out[at]);
            }
        }
        if out.len() > original {
            return None;
        }
    }
    (out.len() == original).then_some(out)
}
