//! DUMP and RESTORE: values in the format of Redis' RDB files, version 10, and 12 for hashes whose fields expire.
//!
//! A payload is a type byte, the value, the version in two bytes and a CRC-64 of everything before it, little
//! endian. DUMP does not compress; Redis compresses strings of more than 20 bytes and reads both forms.
//! RESTORE reads the types that Redis 7.0 to 8.2 write for strings, sets, hashes, lists, sorted sets and streams,
//! compressed or not.

mod decode;
mod encode;
mod listpack;
mod reader;
mod stream;
mod write;

use crc::{CRC_64_REDIS, Crc, Table};
use loadline_store::{Entry, LastAccess, Value, View};

use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX};
use super::{Call, Listed, ONE, Words, is, listed};
use crate::settings::Settings;
use decode::decode;
use encode::encode;
use reader::Reader;
use write::put_string;

pub(super) const TABLE: &[Listed] = &[
    listed("DUMP", 2, ONE, dump),
    listed("RESTORE", -4, ONE, restore),
];

const VERSION: u16 = 10;

/// The version that added hashes whose fields expire, and the newest that is read.
const NEWEST_VERSION: u16 = 12;

/// Bytes of the version and the checksum.
const FOOTER_BYTES: usize = 10;

static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The types of values.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const HASH: u8 = 4;
    pub(super) const ZSET_2: u8 = 5;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const STREAM_LISTPACKS: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const ZSET_LISTPACK: u8 = 17;
    pub(super) const LIST_QUICKLIST_2: u8 = 18;
    pub(super) const STREAM_LISTPACKS_2: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    pub(super) const STREAM_LISTPACKS_3: u8 = 21;
    pub(super) const HASH_TIMED: u8 = 24;
    pub(super) const HASH_TIMED_LISTPACK: u8 = 25;
}

/// The first two bits of a length, and the types of strings that follow the last of them.
mod length {
    pub(super) const SIX_BITS: u8 = 0 << 6;
    pub(super) const FOURTEEN_BITS: u8 = 1 << 6;
    pub(super) const FOUR_BYTES: u8 = 0x80;
    pub(super) const EIGHT_BYTES: u8 = 0x81;
    pub(super) const INT8: u8 = 0xC0;
    pub(super) const INT16: u8 = 0xC1;
    pub(super) const INT32: u8 = 0xC2;
    pub(super) const LZF: u8 = 0xC3;
}

/// The containers of a list's items.
mod container {
    pub(super) const PLAIN: u64 = 1;
    pub(super) const PACKED: u64 = 2;
}

fn dump(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let payload = call.show(words[1], |value, _| value.map(dumped));
    call.reply().maybe(payload.as_deref());
    Ok(())
}

/// A value as DUMP replies with it.
#[must_use]
pub fn dumped(value: View<'_>) -> Vec<u8> {
    sealed(encode(value))
}

/// Bytes of a value as DUMP replies with it, without its type and the footer.
pub(super) fn value_bytes(value: View<'_>) -> usize {
    encode(value).len() - 1
}

/// The value that RESTORE makes of what DUMP replies with for this one.
pub(super) fn read_again(value: View<'_>, settings: &Settings) -> Option<Value> {
    decode(&encode(value), settings)
}

/// The value of a payload that DUMP replied with; `None` if its checksum is wrong, or its format is not known.
#[must_use]
pub fn restored(payload: &[u8]) -> Option<Value> {
    decode(verified(payload)?, &Settings::default())
}

/// A payload with its footer.
fn sealed(mut payload: Vec<u8>) -> Vec<u8> {
    let version = match payload.first() {
        Some(&kind::HASH_TIMED) => NEWEST_VERSION,
        _ => VERSION,
    };
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Marks of a library of functions, and of one as versions before 7.0 wrote it.
const FUNCTION: u8 = 245;
const OLD_FUNCTION: u8 = 246;

/// The payload of FUNCTION DUMP.
pub(super) fn of_functions<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        payload.push(FUNCTION);
        put_string(&mut payload, text);
    }
    sealed(payload)
}

/// The texts of the libraries in such a payload.
///
/// # Errors
/// The reply of FUNCTION RESTORE.
pub(super) fn functions_in(payload: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    let content = verified(payload).ok_or("ERR DUMP payload version or checksum are wrong")?;
    let mut reader = Reader::new(content);
    let mut texts = Vec::new();
    while !reader.is_at_end() {
        let kind = reader.array::<1>().ok_or("ERR can not read data type")?;
        let text = match kind {
            [FUNCTION] => reader.string(),
            // It is not read: only previews of version 7.0 wrote it.
            [OLD_FUNCTION] => None,
            _ => return Err("ERR given type is not a function".into()),
        };
        texts.push(
            text.ok_or("ERR Failed loading library payload")?
                .into_owned(),
        );
    }
    Ok(texts)
}

/// The options of RESTORE.
#[derive(Debug, Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if is(word, "REPLACE") {
                options.replaces = true;
            } else if is(word, "ABSTTL") {
                options.is_absolute = true;
            } else if is(word, "IDLETIME")
                && options.frequency.is_none()
                && let Some(seconds) = rest.next()
            {
                let seconds = u64::try_from(integer(seconds)?);
                let seconds = seconds.map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?;
                options.idle_seconds = Some(seconds);
            } else if is(word, "FREQ")
                && options.idle_seconds.is_none()
                && let Some(frequency) = rest.next()
            {
                let frequency = u8::try_from(integer(frequency)?);
                let frequency =
                    frequency.map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
                options.frequency = Some(frequency);
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }

    /// The last access to the restored key. The policy of eviction decides which of the two options has an effect.
    fn last_access(&self) -> LastAccess {
        let LastAccess {
            idle_seconds,
            frequency,
        } = LastAccess::NEW;
        LastAccess {
            idle_seconds: self.idle_seconds.unwrap_or(idle_seconds),
            frequency: self.frequency.unwrap_or(frequency),
        }
    }
}

fn restore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (key, payload) = (words[1], words[3]);
    let options = Options::parse(&words[4..])?;
    if !options.replaces && call.has(key) {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let life = integer(words[2])?;
    let life = u64::try_from(life).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
    let value = verified(payload).ok_or("ERR DUMP payload version or checksum are wrong")?;
    let mut value = decode(value, &call.shared.settings).ok_or("ERR Bad data format")?;
    let now = call.now();
    if let Value::Hash(fields) = &mut value {
        fields.take_expired(now);
    }
    let expires_at = match life {
        0 => None,
        _ if options.is_absolute => Some(life),
        _ => Some(now.saturating_add(life)),
    };
    if expires_at.is_some_and(|at| at <= now) || value.is_empty_collection() {
        call.remove(key);
    } else if let Value::String(bytes) = &value {
        call.put_string(key, bytes, expires_at);
    } else {
        call.put(key, Entry { value, expires_at });
    }
    call.store()
        .set_last_access(key, options.last_access(), now);
    call.reply().ok();
    Ok(())
}

/// The part of a payload before its footer, if version and checksum are right.
fn verified(payload: &[u8]) -> Option<&[u8]> {
    let (value, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER_BYTES)?)?;
    let version = u16::from_le_bytes(*footer.first_chunk()?);
    let checksum = u64::from_le_bytes(*footer.last_chunk()?);
    let is_sound = version <= NEWEST_VERSION
        && CHECKSUM.checksum(&payload[..payload.len() - size_of::<u64>()]) == checksum;
    is_sound.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_store::List;
    use proptest::prelude::*;

    /// Integers of all widths, and byte strings of all lengths that have different headers.
    fn word() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (-40_000_i64..40_000).prop_map(|number| number.to_string().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..70),
            (0..9_000_usize).prop_map(|length| vec![b'x'; length]),
        ]
    }

    proptest! {
        #[test]
        fn dumped_value_is_restored(words in proptest::collection::vec(word(), 1..40)) {
            let settings = Settings::default();
            let mut list = List::new();
            words.iter().for_each(|word| list.push_back(word));
            let (mut members, mut fields) = (loadline_store::Members::new(), loadline_store::Fields::new());
            let mut sorted = loadline_store::SortedSet::new();
            for pair in words.chunks(2) {
                let score = pair.len() as f64 / 3.0 - pair[0].len() as f64;
                super::super::sorted_sets::set_score(&mut sorted, &pair[0], score, &settings);
                super::super::sets::add(&mut members, &pair[0], &settings);
                let value = pair.last().expect("a chunk has an element").as_slice().into();
                super::super::hashes::set_field(&mut fields, &pair[0], value, &settings);
            }
            let mut timed = fields.clone();
            for word in words.iter().step_by(4) {
                timed.set_expiry(word, Some(7_000 + word.len() as u64));
            }
            for value in [Value::String(words[0].clone()), Value::List(list), Value::Set(members), Value::Hash(fields), Value::Hash(timed), Value::Sorted(sorted)] {
                let encoded = encode(value.view());
                prop_assert_eq!(decode(&encoded, &settings), Some(value));
            }
        }

        #[test]
        fn hostile_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in prop_oneof![Just(0_u8), Just(1), Just(2), Just(4), Just(5), Just(11), Just(16), Just(17), Just(18), Just(19), Just(20), Just(21), Just(24), Just(25)]) {
            let mut payload = vec![kind];
            payload.extend_from_slice(&bytes);
            let _ = decode(&payload, &Settings::default());
        }

        #[test]
        fn damage_is_refused_or_read(words in proptest::collection::vec(word(), 1..10), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut list = List::new();
            words.iter().for_each(|word| list.push_back(word));
            let mut encoded = encode(Value::List(list).view());
            let at = at.index(encoded.len());
            encoded[at] = byte;
            let _ = decode(&encoded, &Settings::default());
        }
    }
}
