//! Decoding of values. The bytes come from a client, so lengths are not trusted and decompression is bounded.

use loadline_store::{Bytes, Fields, List, Members, SortedSet, Value};

use super::reader::Reader;
use super::{container, kind, listpack, stream};
use crate::commands::numbers::{double, integer};
use crate::commands::{hashes, sets, sorted_sets};
use crate::settings::Settings;

/// Decodes the type and the value; `None` if it is malformed, empty, of an unknown type or followed by other
/// bytes.
pub(super) fn decode(payload: &[u8], settings: &Settings) -> Option<Value> {
    let (&kind, rest) = payload.split_first()?;
    let mut reader = Reader::new(rest);
    let value = match kind {
        kind::STRING => Value::String(reader.string()?.into_owned()),
        kind::LIST => Value::List(reader.list()?),
        kind::LIST_QUICKLIST_2 => Value::List(reader.nodes()?),
        kind::SET => Value::Set(reader.set(settings)?),
        kind::SET_INTSET => Value::Set(reader.intset(settings)?),
        kind::HASH => Value::Hash(reader.hash(settings)?),
        kind::HASH_LISTPACK => Value::Hash(reader.packed_hash(settings)?),
        kind::HASH_TIMED => Value::Hash(reader.timed_hash(settings)?),
        kind::HASH_TIMED_LISTPACK => Value::Hash(reader.packed_timed_hash(settings)?),
        kind::SET_LISTPACK => Value::Set(reader.packed_set(settings)?),
        kind::ZSET_2 => Value::Sorted(reader.sorted_set(settings)?),
        kind::ZSET_LISTPACK => Value::Sorted(reader.packed_sorted_set(settings)?),
        kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => {
            Value::Stream(Box::new(stream::read(&mut reader, kind)?))
        }
        _ => return None,
    };
    (reader.is_at_end() && !value.is_empty_collection()).then_some(value)
}

impl Reader<'_> {
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

    fn timed_hash(&mut self, settings: &Settings) -> Option<Fields> {
        let first = u64::from_le_bytes(self.array()?);
        let mut fields = Fields::new();
        self.each(|reader| {
            let at = match reader.length()? {
                0 => None,
                later => Some(first.checked_add(later - 1)?),
            };
            let field = reader.string()?;
            let value = reader.string()?;
            put_field(&mut fields, &field, &value, settings)?;
            fields.set_expiry(&field, at);
            Some(())
        })?;
        Some(fields)
    }

    /// Fields, values and times in turn, behind the first time.
    fn packed_timed_hash(&mut self, settings: &Settings) -> Option<Fields> {
        self.array::<8>()?;
        let pack = self.string()?;
        let mut elements: Vec<Vec<u8>> = Vec::new();
        listpack::read(&pack, |element| {
            elements.push(element.to_vec());
            Some(())
        })?;
        let mut fields = Fields::new();
        let triples = elements.chunks_exact(3);
        triples.remainder().is_empty().then_some(())?;
        for triple in triples {
            put_field(&mut fields, &triple[0], &triple[1], settings)?;
            let at = u64::try_from(integer(&triple[2]).ok()?).ok()?;
            fields.set_expiry(&triple[0], (at > 0).then_some(at));
        }
        Some(fields)
    }

    fn packed_set(&mut self, settings: &Settings) -> Option<Members> {
        let pack = self.string()?;
        let mut members = Members::new();
        listpack::read(&pack, |member| {
            sets::add(&mut members, member, settings).then_some(())
        })?;
        Some(members)
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
