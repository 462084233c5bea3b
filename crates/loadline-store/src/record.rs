//! The bytes of one entry in the memory of its shard.
//!
//! ```text
//! | flags: u8 | key_bytes: 1 or 2 | value_bytes: 1 or 2 | expires_at: u64 or nothing | key | value |
//! ```
//!
//! A length below 128 takes one byte. A longer one takes two: its lower seven bits with the highest bit set,
//! then the remainder. A key or value of more than [`LONGEST`] bytes, and every collection but a packed sorted set, lies
//! outside of the record; its place in the slab of the shard (u32) is in the record instead, and a flag says so. Numbers are
//! little-endian.
//!
//! A flag says that the value is in the log only. The number of its segment, the offset in the segment's file, the
//! length, and the checksum, u32 each, are in the record instead. The highest bit of the length says that the checksum is
//! to be verified.
//!
//! A key of 16 bytes with a value of 64 takes 83 bytes here. An allocation of its own would take 96, with a
//! pointer and a length of 16 bytes in a table that is half empty after it has grown.
//!
//! Two bytes before each record are the stamp of the last access, which belongs to the page.

/// The longest key or value inside a record.
pub(crate) const LONGEST: usize = 256;

const HAS_EXPIRY: u8 = 1;
const KEY_IS_HELD: u8 = 1 << 1;
const VALUE_IS_HELD: u8 = 1 << 2;
/// A string that is kept as text even where it reads as a number.
const IS_TEXT: u8 = 1 << 3;
/// The entry is gone, and the record garbage.
const IS_GARBAGE: u8 = 1 << 6;
/// The count of recent uses of the entry.
const USES: u8 = 3 << USES_SHIFT;
const USES_SHIFT: u32 = 4;

/// The largest count of uses that a record keeps.
pub(crate) const MOST_USES: u8 = USES >> USES_SHIFT;

/// The value is in the log only.
const IS_OUTSIDE: u8 = 1 << 7;

const EXPIRY_BYTES: usize = 8;
const OUTSIDE_BYTES: usize = 16;

/// Both together: the value is a packed sorted set.
const IS_SORTED: u8 = IS_TEXT | IS_OUTSIDE;

/// In the length of a value in the log: its checksum is to be verified.
const IS_UNVERIFIED: u32 = 1 << 31;

/// Where a value lies that is in the log only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) segment: u32,
    /// Offset in the segment's file.
    pub(crate) offset: u32,
    /// Below 2^31: a record is shorter.
    pub(crate) bytes: u32,
    /// The CRC-32C of the value, if it was not verified since the store was opened.
    pub(crate) unverified: Option<u32>,
}

/// The expiry of an entry that had one and has none any more. Nothing goes that late.
const NEVER: u64 = u64::MAX;

/// A key or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'b> {
    Inline(&'b [u8]),
    /// Its place in the slab.
    Held(u32),
}

/// Where the parts of a record begin and end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'b> {
    bytes: &'b [u8],
    key_begin: usize,
    value_begin: usize,
    end: usize,
}

impl<'b> Record<'b> {
    /// The record at the start of `bytes`.
    #[inline]
    pub(crate) fn read(bytes: &'b [u8]) -> Self {
        let (key_bytes, at) = read_length(bytes, 1);
        let (value_bytes, at) = read_length(bytes, at);
        let key_begin = at + EXPIRY_BYTES * usize::from(bytes[0] & HAS_EXPIRY != 0);
        let value_begin = key_begin + key_bytes;
        Self {
            bytes,
            key_begin,
            value_begin,
            end: value_begin + value_bytes,
        }
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &'b [u8] {
        &self.bytes[..self.end]
    }

    #[inline]
    pub(crate) fn key(&self) -> Part<'b> {
        let part = &self.bytes[self.key_begin..self.value_begin];
        part_of(part, self.bytes[0] & KEY_IS_HELD != 0)
    }

    #[inline]
    pub(crate) fn value(&self) -> Part<'b> {
        let part = &self.bytes[self.value_begin..self.end];
        part_of(part, self.bytes[0] & VALUE_IS_HELD != 0)
    }

    /// The expiry in milliseconds since the Unix epoch.
    #[inline]
    pub(crate) fn expires_at(&self) -> Option<u64> {
        if !self.has_expiry_field() {
            return None;
        }
        let at = &self.bytes[self.key_begin - EXPIRY_BYTES..];
        let at = u64::from_le_bytes(*at.first_chunk().expect("the flags announce an expiry"));
        (at != NEVER).then_some(at)
    }

    /// Where the value lies, if in the log only.
    #[inline]
    pub(crate) fn outside(&self) -> Option<Outside> {
        if self.bytes[0] & IS_SORTED != IS_OUTSIDE {
            return None;
        }
        let value = &self.bytes[self.value_begin..self.end];
        let number = |at: usize| value[at..].first_chunk().copied();
        let length = u32::from_le_bytes(number(8)?);
        let crc = u32::from_le_bytes(number(12)?);
        Some(Outside {
            segment: u32::from_le_bytes(number(0)?),
            offset: u32::from_le_bytes(number(4)?),
            bytes: length & !IS_UNVERIFIED,
            unverified: (length & IS_UNVERIFIED != 0).then_some(crc),
        })
    }

    /// Whether an expiry can be set in place.
    pub(crate) fn has_expiry_field(&self) -> bool {
        self.bytes[0] & HAS_EXPIRY != 0
    }

    pub(crate) fn is_text(&self) -> bool {
        self.bytes[0] & IS_SORTED == IS_TEXT
    }

    /// Whether the value is a packed sorted set.
    #[inline]
    pub(crate) fn is_sorted(&self) -> bool {
        self.bytes[0] & IS_SORTED == IS_SORTED
    }

    pub(crate) fn is_garbage(&self) -> bool {
        self.bytes[0] & IS_GARBAGE != 0
    }

    /// The count of recent uses of the entry, at most [`MOST_USES`].
    pub(crate) fn uses(&self) -> u8 {
        (self.bytes[0] & USES) >> USES_SHIFT
    }

    /// Where the bytes of a key and a value lie in the record.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.key_begin, self.value_begin)
    }
}

fn part_of(bytes: &[u8], is_held: bool) -> Part<'_> {
    if is_held {
        let place = bytes.first_chunk().expect("a place has four bytes");
        return Part::Held(u32::from_le_bytes(*place));
    }
    Part::Inline(bytes)
}

#[inline]
fn read_length(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = usize::from(bytes[at]);
    if first < 128 {
        return (first, at + 1);
    }
    (first - 128 + (usize::from(bytes[at + 1]) << 7), at + 2)
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length <= LONGEST);
    if length < 128 {
        out.push(length as u8);
    } else {
        out.extend([(length & 127) as u8 | 128, (length >> 7) as u8]);
    }
}

/// The bytes that the record of these parts takes.
#[inline]
pub(crate) fn bytes_of(key: Part<'_>, value: Part<'_>, notes: Notes) -> usize {
    let each = |part| {
        let bytes = match part {
            Part::Inline(bytes) => bytes.len(),
            Part::Held(_) => size_of::<u32>(),
        };
        1 + usize::from(bytes >= 128) + bytes
    };
    let expiry = EXPIRY_BYTES * usize::from(notes.expires_at.is_some());
    1 + each(key) + each(value) + expiry
}

/// The facts in a record about its entry, besides key and value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Notes {
    pub(crate) expires_at: Option<u64>,
    pub(crate) uses: u8,
    /// Whether the value is in the log only.
    pub(crate) is_outside: bool,
    /// Whether the value is a packed sorted set.
    pub(crate) is_sorted: bool,
}

/// Appends a record.
pub(crate) fn append(out: &mut Vec<u8>, key: Part<'_>, value: Part<'_>, notes: Notes) {
    let (key_place, value_place);
    let mut flags = notes.uses << USES_SHIFT;
    let key = match key {
        Part::Inline(bytes) => bytes,
        Part::Held(place) => {
            flags |= KEY_IS_HELD;
            key_place = place.to_le_bytes();
            &key_place[..]
        }
    };
    let value = match value {
        Part::Inline(bytes) => bytes,
        Part::Held(place) => {
            flags |= VALUE_IS_HELD;
            value_place = place.to_le_bytes();
            &value_place[..]
        }
    };
    if notes.expires_at.is_some() {
        flags |= HAS_EXPIRY;
    }
    if notes.is_outside {
        flags |= IS_OUTSIDE;
    }
    if notes.is_sorted {
        flags |= IS_SORTED;
    }
    out.push(flags);
    write_length(out, key.len());
    write_length(out, value.len());
    if let Some(at) = notes.expires_at {
        out.extend(at.to_le_bytes());
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Sets the expiry of the record at the start of `bytes` in place and says whether there was room for it.
pub(crate) fn set_expiry(bytes: &mut [u8], expires_at: Option<u64>) -> bool {
    let record = Record::read(bytes);
    if !record.has_expiry_field() {
        return expires_at.is_none();
    }
    let at = record.key_begin - EXPIRY_BYTES;
    let field = expires_at.unwrap_or(NEVER).to_le_bytes();
    bytes[at..at + EXPIRY_BYTES].copy_from_slice(&field);
    true
}

/// Marks a record whose entry is gone.
pub(crate) fn set_garbage(bytes: &mut [u8]) {
    bytes[0] |= IS_GARBAGE;
}

/// Marks a string as text, or not.
#[inline]
pub(crate) fn set_text(bytes: &mut [u8], is_text: bool) {
    bytes[0] = bytes[0] & !IS_TEXT | if is_text { IS_TEXT } else { 0 };
}

/// Sets where the value lies of an entry whose value is in the log only.
pub(crate) fn set_outside(bytes: &mut [u8], outside: Outside) {
    let record = Record::read(bytes);
    if record.outside().is_none() {
        return;
    }
    let at = record.value_begin;
    bytes[at..at + OUTSIDE_BYTES].copy_from_slice(&outside_value(outside));
}

/// The value of a record that represents one in the log only.
pub(crate) fn outside_value(outside: Outside) -> [u8; OUTSIDE_BYTES] {
    let mut bytes = [0; OUTSIDE_BYTES];
    bytes[..4].copy_from_slice(&outside.segment.to_le_bytes());
    bytes[4..8].copy_from_slice(&outside.offset.to_le_bytes());
    let mut length = outside.bytes;
    if let Some(crc) = outside.unverified {
        length |= IS_UNVERIFIED;
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
    }
    bytes[8..12].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Sets how often the entry was used lately.
#[inline]
pub(crate) fn set_uses(bytes: &mut [u8], uses: u8) {
    bytes[0] = bytes[0] & !USES | uses << USES_SHIFT;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(longest: usize) -> impl Strategy<Value = Result<Vec<u8>, u32>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..=longest);
        prop_oneof![4 => bytes.prop_map(Ok), 1 => any::<u32>().prop_map(Err)]
    }

    fn of(part: &Result<Vec<u8>, u32>) -> Part<'_> {
        match part {
            Ok(bytes) => Part::Inline(bytes),
            Err(place) => Part::Held(*place),
        }
    }

    proptest! {
        #[test]
        fn record_holds_what_was_put_into_it(
            key in part(LONGEST),
            value in part(LONGEST),
            at in proptest::option::of(0..NEVER),
            next in proptest::option::of(0..NEVER),
            uses in 0..=MOST_USES,
        ) {
            let notes = Notes { expires_at: at, uses, ..Notes::default() };
            let mut bytes = b"before".to_vec();
            append(&mut bytes, of(&key), of(&value), notes);
            let end = bytes.len();
            bytes.extend(b"behind");
            let record = Record::read(&bytes[6..]);
            prop_assert_eq!((record.key(), record.value()), (of(&key), of(&value)));
            prop_assert_eq!((record.expires_at(), record.uses()), (at, uses));
            prop_assert_eq!(record.bytes(), &bytes[6..end]);
            prop_assert_eq!(end - 6, bytes_of(of(&key), of(&value), notes));

            let was_set = set_expiry(&mut bytes[6..], next);
            prop_assert_eq!(was_set, at.is_some() || next.is_none());
            set_uses(&mut bytes[6..], 1);
            let record = Record::read(&bytes[6..]);
            prop_assert!(!record.is_text() && record.outside().is_none());
            set_text(&mut bytes[6..], true);
            let record = Record::read(&bytes[6..]);
            prop_assert_eq!((record.key(), record.value()), (of(&key), of(&value)));
            prop_assert_eq!((record.expires_at(), record.uses()), (if was_set { next } else { at }, 1));
            prop_assert!(record.is_text() && !record.is_garbage());
            set_garbage(&mut bytes[6..]);
            prop_assert!(Record::read(&bytes[6..]).is_garbage());
        }
    }

    #[test]
    fn value_can_be_in_the_log_only() {
        let outside = Outside {
            segment: 7,
            offset: u32::MAX,
            bytes: 5_000,
            unverified: Some(u32::MAX - 1),
        };
        for expires_at in [None, Some(3)] {
            let notes = Notes {
                expires_at,
                is_outside: true,
                ..Notes::default()
            };
            let mut bytes = Vec::new();
            let value = outside_value(outside);
            append(
                &mut bytes,
                Part::Inline(b"key"),
                Part::Inline(&value),
                notes,
            );
            let record = Record::read(&bytes);
            assert_eq!(record.outside(), Some(outside));
            assert_eq!(
                (record.key(), record.expires_at()),
                (Part::Inline(&b"key"[..]), expires_at)
            );
            let moved = Outside {
                segment: 9,
                offset: 1,
                unverified: None,
                ..outside
            };
            set_outside(&mut bytes, moved);
            let record = Record::read(&bytes);
            assert_eq!(record.outside(), Some(moved));
            assert_eq!(
                (record.key(), record.expires_at()),
                (Part::Inline(&b"key"[..]), expires_at)
            );
        }
    }

    #[test]
    fn short_entry_takes_three_bytes_besides_key_and_value() {
        let mut bytes = Vec::new();
        append(
            &mut bytes,
            Part::Inline(&[b'k'; 16]),
            Part::Inline(&[b'v'; 64]),
            Notes::default(),
        );
        assert_eq!(bytes.len(), 83);
    }
}
