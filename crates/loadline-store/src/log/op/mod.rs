//! Operations as they are written in the body of a record.
//!
//! `docs/store-format.md` draws the bytes.

mod decode;
#[cfg(test)]
mod tests;

pub(crate) use decode::Ops;
use decode::Rest;

use crate::stream::Stream;

/// An operation on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op<'b> {
    /// Number of the database, below [`DATABASES`].
    pub(crate) database: u8,
    pub(crate) kind: Kind<'b>,
}

/// The effect of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind<'b> {
    /// The key holds this string from now on.
    Put {
        key: &'b [u8],
        value: &'b [u8],
        /// Milliseconds since the Unix epoch; `None` for never.
        expires_at: Option<u64>,
    },
    /// The same with a value that is left out of a hint.
    PutLeftOut {
        key: &'b [u8],
        /// Bytes of the value.
        bytes: u32,
        /// CRC-32C of the value.
        crc: u32,
        expires_at: Option<u64>,
    },
    /// The key goes.
    Delete { key: &'b [u8] },
    /// The key goes at another time.
    Expire {
        key: &'b [u8],
        expires_at: Option<u64>,
    },
    /// The key holds this collection from now on.
    PutCollection {
        key: &'b [u8],
        form: Form,
        /// Whether its elements are in order.
        is_ordered: bool,
        expires_at: Option<u64>,
        elements: Elements<'b>,
    },
    /// Elements are added to the collection of the key, or fields of a hash get other values.
    Add {
        key: &'b [u8],
        form: Form,
        /// Whether the items of a list are added in front.
        at_front: bool,
        elements: Elements<'b>,
    },
    /// Elements of the collection of the key go; of a list as many as there are here.
    Take {
        key: &'b [u8],
        form: Form,
        at_front: bool,
        elements: Elements<'b>,
    },
    /// An item of the list of the key is replaced.
    SetItem {
        key: &'b [u8],
        index: u32,
        item: &'b [u8],
    },
    /// An item is inserted into the list of the key, in front of the one at an index.
    InsertItem {
        key: &'b [u8],
        index: u32,
        item: &'b [u8],
    },
    /// Items of the list of the key that are equal to this one go.
    RemoveItems {
        key: &'b [u8],
        count: Occurrences,
        item: &'b [u8],
    },
    /// Bytes of the string of the key are replaced, or added at its end.
    Patch {
        key: &'b [u8],
        offset: u32,
        bytes: &'b [u8],
    },
    /// The stream of the key is changed by a [`StreamEdit`](crate::StreamEdit).
    EditStream { key: &'b [u8], edit: &'b [u8] },
    /// All keys of the database go.
    Clear,
    /// The database and another one exchange their numbers.
    Exchange { other: u8 },
    /// All segments before this one are without meaning from now on.
    Oldest { segment: u32 },
}

/// Number of occurrences of an item, the first ones; negative for the last ones, and 0 for all.
pub(crate) type Occurrences = i64;

/// The kind of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Set = 1,
    /// Its elements are fields and values in turn.
    Hash = 2,
    List = 3,
    /// Its elements are members and scores in turn. A score is a number of 8 bytes.
    Sorted = 4,
    /// Its elements are the parts of a stream.
    Stream = 5,
    /// A hash whose elements are fields, values and the times at which the fields go in turn. A time is a number of 8 bytes.
    TimedHash = 6,
    /// Fields of a hash and the times at which they go in turn, without values.
    FieldTimes = 7,
}

/// Elements of a collection, each behind its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elements<'b>(&'b [u8]);

impl<'b> Elements<'b> {
    /// Of bytes that [`push`](Self::push) has written.
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Appends an element to others.
    pub(crate) fn push(elements: &mut Vec<u8>, element: &[u8]) {
        put_length(elements, element.len());
        elements.extend_from_slice(element);
    }

    /// The elements in `bytes`; `None` where they are not whole.
    fn read(form: Form, bytes: &'b [u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let mut count = 0_usize;
        while !rest.0.is_empty() {
            let length = rest.length()?;
            let element = rest.take(length)?;
            count += 1;
            match form {
                Form::Sorted if count.is_multiple_of(2) => drop(score(element)?),
                Form::FieldTimes if count.is_multiple_of(2) => drop(time(element)?),
                Form::TimedHash if count.is_multiple_of(3) => drop(time(element)?),
                _ => {}
            }
        }
        let group = match form {
            Form::Hash | Form::Sorted | Form::FieldTimes => 2,
            Form::TimedHash => 3,
            Form::Set | Form::List | Form::Stream => 1,
        };
        let elements = Self(bytes);
        let is_sound = form != Form::Stream || Stream::from_elements(elements).is_some();
        (count.is_multiple_of(group) && is_sound).then_some(elements)
    }
}

/// The score that an element is; `None` where it is none.
pub(crate) fn score(element: &[u8]) -> Option<f64> {
    let score = f64::from_le_bytes(element.try_into().ok()?);
    (!score.is_nan()).then_some(score)
}

/// The time that an element is, `None` in it for never; `None` where it is none.
#[expect(
    clippy::option_option,
    reason = "an element can be no time, and a time can be never"
)]
pub(crate) fn time(element: &[u8]) -> Option<Option<u64>> {
    let at = u64::from_le_bytes(element.try_into().ok()?);
    Some((at != NEVER).then_some(at))
}

/// The bytes of a time, as an element.
pub(crate) fn time_element(at: Option<u64>) -> [u8; 8] {
    at.unwrap_or(NEVER).to_le_bytes()
}

impl<'b> Iterator for Elements<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let mut rest = Rest(self.0);
        let length = rest.length()?;
        let element = rest.take(length)?;
        *self = Self(rest.0);
        Some(element)
    }
}

/// Longest key, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = (1 << 29) - 1;

/// Longest string that a part of it is written into, in bytes: that of Redis. A longer one could take any amount of memory
/// for a few bytes of the log.
pub(crate) const LONGEST_PATCHED: usize = 512 << 20;

/// Number of databases: those that users have, and [`OWN_DATABASE`].
pub(crate) const DATABASES: u8 = 17;

/// The database of entries of the server itself, such as libraries of functions.
pub(crate) const OWN_DATABASE: u8 = 16;

/// The first byte of an operation: its code in the lower four bits, its database in the upper four. For the database of the server,
/// the lower four are 0 and the upper four hold the code, which is never 0 and therefore never the padding of a record.
fn first_byte(code: u8, database: u8) -> u8 {
    if database == OWN_DATABASE {
        code << 4
    } else {
        code | database << 4
    }
}

/// The code and the database of a first byte.
fn code_and_database(first: u8) -> (u8, u8) {
    match first & 0xf {
        0 => (first >> 4, OWN_DATABASE),
        code => (code, first >> 4),
    }
}

const PUT: u8 = 1;
const PUT_UNTIL: u8 = 2;
const DELETE: u8 = 3;
const EXPIRE: u8 = 4;
const CLEAR: u8 = 5;
const PUT_COLLECTION: u8 = 6;
const ADD: u8 = 7;
const TAKE: u8 = 8;
const SET_ITEM: u8 = 9;
const PATCH: u8 = 10;
const EXCHANGE: u8 = 11;
const INSERT_ITEM: u8 = 12;
const REMOVE_ITEMS: u8 = 13;
const OLDEST: u8 = 14;
const EDIT_STREAM: u8 = 15;

/// Flags in the byte that holds the form of a collection.
const HAS_NO_ORDER: u8 = 1 << 4;
const AT_FRONT: u8 = 1 << 5;

/// Bytes of the checksum of a value that is left out.
pub(crate) const CRC_BYTES: usize = 4;

/// Means "never" in an expiry.
const NEVER: u64 = u64::MAX;

impl<'b> Op<'b> {
    /// The key, where there is one.
    pub(crate) fn key(&self) -> Option<&'b [u8]> {
        match self.kind {
            Kind::Put { key, .. }
            | Kind::PutLeftOut { key, .. }
            | Kind::Delete { key }
            | Kind::Expire { key, .. }
            | Kind::PutCollection { key, .. }
            | Kind::Add { key, .. }
            | Kind::Take { key, .. }
            | Kind::SetItem { key, .. }
            | Kind::InsertItem { key, .. }
            | Kind::RemoveItems { key, .. }
            | Kind::Patch { key, .. }
            | Kind::EditStream { key, .. } => Some(key),
            Kind::Clear | Kind::Exchange { .. } | Kind::Oldest { .. } => None,
        }
    }

    /// Appends the bytes of the operation.
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        debug_assert!(self.database < DATABASES);
        let first = |code: u8| first_byte(code, self.database);
        match self.kind {
            Kind::Put {
                key,
                value,
                expires_at,
            } => {
                body.push(first(if expires_at.is_some() { PUT_UNTIL } else { PUT }));
                put_length(body, key.len());
                put_length(body, value.len());
                if let Some(at) = expires_at {
                    body.extend_from_slice(&at.to_le_bytes());
                }
                body.extend_from_slice(key);
                body.extend_from_slice(value);
            }
            Kind::PutLeftOut { .. } => unreachable!("hints are made of the bytes of a segment"),
            Kind::Delete { key } => {
                body.push(first(DELETE));
                put_length(body, key.len());
                body.extend_from_slice(key);
            }
            Kind::Expire { key, expires_at } => {
                body.push(first(EXPIRE));
                put_length(body, key.len());
                body.extend_from_slice(&expires_at.unwrap_or(NEVER).to_le_bytes());
                body.extend_from_slice(key);
            }
            Kind::PutCollection { .. } | Kind::Add { .. } | Kind::Take { .. } => {
                self.encode_collection(body);
            }
            Kind::SetItem { key, index, item } => {
                body.push(first(SET_ITEM));
                put_pair(body, &index.to_le_bytes(), key, item);
            }
            Kind::InsertItem { key, index, item } => {
                body.push(first(INSERT_ITEM));
                put_pair(body, &index.to_le_bytes(), key, item);
            }
            Kind::RemoveItems { key, count, item } => {
                body.push(first(REMOVE_ITEMS));
                put_pair(body, &count.to_le_bytes(), key, item);
            }
            Kind::Patch { key, offset, bytes } => {
                body.push(first(PATCH));
                put_pair(body, &offset.to_le_bytes(), key, bytes);
            }
            Kind::EditStream { key, edit } => {
                body.push(first(EDIT_STREAM));
                put_pair(body, &[], key, edit);
            }
            Kind::Clear => body.push(first(CLEAR)),
            Kind::Exchange { other } => body.extend([first(EXCHANGE), other]),
            Kind::Oldest { segment } => {
                body.push(first(OLDEST));
                body.extend_from_slice(&segment.to_le_bytes());
            }
        }
    }

    /// Appends the bytes of an operation with elements.
    fn encode_collection(&self, body: &mut Vec<u8>) {
        let first = |code: u8| first_byte(code, self.database);
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        match self.kind {
            Kind::PutCollection {
                key,
                form,
                is_ordered,
                expires_at,
                elements,
            } => {
                body.push(first(PUT_COLLECTION));
                body.push(form as u8 | flag(!is_ordered, HAS_NO_ORDER));
                let at = expires_at.unwrap_or(NEVER).to_le_bytes();
                put_pair(body, &at, key, elements.0);
            }
            Kind::Add {
                key,
                form,
                at_front,
                elements,
            } => {
                let shape = form as u8 | flag(at_front, AT_FRONT);
                body.extend([first(ADD), shape]);
                put_pair(body, &[], key, elements.0);
            }
            Kind::Take {
                key,
                form,
                at_front,
                elements,
            } => {
                let shape = form as u8 | flag(at_front, AT_FRONT);
                body.extend([first(TAKE), shape]);
                put_pair(body, &[], key, elements.0);
            }
            _ => unreachable!("the caller has looked"),
        }
    }
}

/// Appends a length in groups of seven bits, the lowest first; the highest bit of a byte says that
/// another one follows.
fn put_length(body: &mut Vec<u8>, length: usize) {
    let mut left = length;
    while left >= 0x80 {
        body.push(left as u8 | 0x80);
        left >>= 7;
    }
    body.push(left as u8);
}

/// Appends the lengths of a key and of what belongs to it, `number`, and both.
fn put_pair(body: &mut Vec<u8>, number: &[u8], key: &[u8], value: &[u8]) {
    put_length(body, key.len());
    put_length(body, value.len());
    body.extend_from_slice(number);
    body.extend_from_slice(key);
    body.extend_from_slice(value);
}
