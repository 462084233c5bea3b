//! Operations as they are written in the body of a record.
//!
//! `docs/store-format.md` draws the bytes.

/// An operation on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op<'b> {
    /// Number of the database, below [`DATABASES`].
    pub(crate) database: u8,
    pub(crate) kind: Kind<'b>,
}

/// What an operation does.
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
    /// Bytes of the string of the key are replaced, or added at its end.
    Patch {
        key: &'b [u8],
        offset: u32,
        bytes: &'b [u8],
    },
    /// All keys of the database go.
    Clear,
    /// The database and another one exchange their numbers.
    Exchange { other: u8 },
    /// All segments before this one are without meaning from now on.
    Oldest { segment: u32 },
}

/// What kind of collection a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Set = 1,
    /// Its elements are fields and values in turn.
    Hash = 2,
    List = 3,
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
            rest.take(length)?;
            count += 1;
        }
        let is_paired = form != Form::Hash || count.is_multiple_of(2);
        is_paired.then_some(Self(bytes))
    }
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

/// Number of databases that the first byte of an operation can name.
pub(crate) const DATABASES: u8 = 16;

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
const OLDEST: u8 = 14;

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
            | Kind::Patch { key, .. } => Some(key),
            Kind::Clear | Kind::Exchange { .. } | Kind::Oldest { .. } => None,
        }
    }

    /// Appends the bytes of the operation.
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        debug_assert!(self.database < DATABASES);
        let first = |code: u8| code | self.database << 4;
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
            Kind::Patch { key, offset, bytes } => {
                body.push(first(PATCH));
                put_pair(body, &offset.to_le_bytes(), key, bytes);
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
        let first = |code: u8| code | self.database << 4;
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

    /// The operation at the front of `body`, with its length. Values of at least `left_out` bytes are left out. `None`
    /// where the bytes are none.
    pub(crate) fn decode(body: &'b [u8], left_out: usize) -> Option<(Self, usize)> {
        let mut rest = Rest(body);
        let [first] = rest.array()?;
        let kind = match first & 0xf {
            code @ (PUT | PUT_UNTIL) => rest.string(code, left_out)?,
            DELETE => {
                let key_bytes = rest.key_length()?;
                Kind::Delete {
                    key: rest.take(key_bytes)?,
                }
            }
            EXPIRE => {
                let key_bytes = rest.key_length()?;
                let at = u64::from_le_bytes(rest.array()?);
                Kind::Expire {
                    expires_at: (at != NEVER).then_some(at),
                    key: rest.take(key_bytes)?,
                }
            }
            code @ (PUT_COLLECTION | ADD | TAKE) => rest.collection(code)?,
            SET_ITEM => {
                let (index, key, item) = rest.pair()?;
                let index = u32::from_le_bytes(index);
                Kind::SetItem { key, index, item }
            }
            PATCH => {
                let (offset, key, bytes) = rest.pair()?;
                let offset = u32::from_le_bytes(offset);
                let end = offset as usize + bytes.len();
                if end > LONGEST_PATCHED {
                    return None;
                }
                Kind::Patch { key, offset, bytes }
            }
            CLEAR => Kind::Clear,
            EXCHANGE => {
                let [other] = rest.array()?;
                if other >= DATABASES {
                    return None;
                }
                Kind::Exchange { other }
            }
            OLDEST => Kind::Oldest {
                segment: u32::from_le_bytes(rest.array()?),
            },
            _ => return None,
        };
        let op = Self {
            database: first >> 4,
            kind,
        };
        Some((op, body.len() - rest.0.len()))
    }
}

/// Operations of a record's body, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Ops<'b> {
    /// What has not been read yet.
    rest: &'b [u8],
    /// The offset of the next operation in the body, and the length of that.
    at: usize,
    end: usize,
    /// Values of at least this length are left out.
    left_out: usize,
}

impl<'b> Ops<'b> {
    /// Of a body that is whole: its checksum is right, or this process has written it.
    pub(crate) fn new(body: &'b [u8]) -> Self {
        Self {
            rest: body,
            at: 0,
            end: body.len(),
            left_out: usize::MAX,
        }
    }

    /// Of a body of `bytes` bytes at the front of `rest`, without its values of at least `left_out` bytes.
    pub(crate) fn without_values(rest: &'b [u8], bytes: usize, left_out: usize) -> Self {
        Self {
            rest,
            at: 0,
            end: bytes,
            left_out,
        }
    }

    /// Whether all of the body has been read. Where the iterator ends before, the rest is no operation.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// What follows the operations that have been read.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Ops<'b> {
    /// The offset behind the operation in the body, and the operation. A string's value ends there.
    type Item = (usize, Op<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let (op, bytes) = Op::decode(self.rest, self.left_out)?;
        let whole = match op.kind {
            Kind::PutLeftOut { bytes: value, .. } => {
                (bytes - CRC_BYTES).saturating_add(value as usize)
            }
            _ => bytes,
        };
        let at = self.at.saturating_add(whole);
        if at > self.end {
            return None;
        }
        self.rest = &self.rest[bytes..];
        self.at = at;
        Some((at, op))
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

/// The part of a body that has not been read yet.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// What [`put_pair`] has written: the number, the key, and what belongs to it.
    fn pair<const N: usize>(&mut self) -> Option<([u8; N], &'b [u8], &'b [u8])> {
        let key_bytes = self.key_length()?;
        let value_bytes = self.length()?;
        Some((
            self.array()?,
            self.take(key_bytes)?,
            self.take(value_bytes)?,
        ))
    }

    /// What follows the first byte of an operation that puts a string. Values of at least `left_out` bytes are left out.
    #[inline]
    fn string(&mut self, code: u8, left_out: usize) -> Option<Kind<'b>> {
        let key_bytes = self.key_length()?;
        let value_bytes = self.length()?;
        let expires_at = match code {
            PUT => None,
            _ => Some(u64::from_le_bytes(self.array()?)),
        };
        let key = self.take(key_bytes)?;
        if value_bytes >= left_out {
            return Some(Kind::PutLeftOut {
                key,
                bytes: u32::try_from(value_bytes).ok()?,
                crc: u32::from_le_bytes(self.array()?),
                expires_at,
            });
        }
        Some(Kind::Put {
            key,
            value: self.take(value_bytes)?,
            expires_at,
        })
    }

    /// What follows the first byte of an operation with elements.
    fn collection(&mut self, code: u8) -> Option<Kind<'b>> {
        let [shape] = self.array()?;
        let form = match shape & 0xf {
            1 => Form::Set,
            2 => Form::Hash,
            3 => Form::List,
            _ => return None,
        };
        // The members and fields that go have no values with them.
        let content = if code == TAKE { Form::Set } else { form };
        let (is_ordered, at_front) = (shape & HAS_NO_ORDER == 0, shape & AT_FRONT != 0);
        if code == PUT_COLLECTION {
            let (at, key, elements) = self.pair()?;
            let at = u64::from_le_bytes(at);
            return Some(Kind::PutCollection {
                key,
                form,
                is_ordered,
                expires_at: (at != NEVER).then_some(at),
                elements: Elements::read(content, elements)?,
            });
        }
        let ([], key, elements) = self.pair()?;
        let elements = Elements::read(content, elements)?;
        Some(match code {
            ADD => Kind::Add {
                key,
                form,
                at_front,
                elements,
            },
            _ => Kind::Take {
                key,
                form,
                at_front,
                elements,
            },
        })
    }

    /// The length of a key that a table can hold.
    fn key_length(&mut self) -> Option<usize> {
        self.length().filter(|bytes| *bytes <= MAX_KEY_BYTES)
    }

    /// A length below 2^32.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0_u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let length = u32::try_from(length).ok()?;
                return usize::try_from(length).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both_ways(op: Op<'_>) {
        let mut body = vec![];
        op.encode(&mut body);
        assert_eq!(Op::decode(&body, usize::MAX), Some((op, body.len())));
        for cut in 0..body.len() {
            assert_eq!(
                Op::decode(&body[..cut], usize::MAX),
                None,
                "{op:?} cut at {cut}"
            );
        }
    }

    #[test]
    fn operations_are_read_as_they_were_written() {
        let long = vec![7; 300];
        let kinds = [
            Kind::Put {
                key: b"",
                value: b"",
                expires_at: None,
            },
            Kind::Put {
                key: b"k",
                value: &long,
                expires_at: None,
            },
            Kind::Put {
                key: &long,
                value: b"v",
                expires_at: Some(0),
            },
            Kind::Delete { key: b"key" },
            Kind::Expire {
                key: b"key",
                expires_at: Some(9),
            },
            Kind::Expire {
                key: b"key",
                expires_at: None,
            },
            Kind::SetItem {
                key: b"key",
                index: 7,
                item: b"",
            },
            Kind::Patch {
                key: b"key",
                offset: 300,
                bytes: &long,
            },
            Kind::Clear,
            Kind::Exchange { other: 15 },
            Kind::Oldest { segment: 7 },
        ];
        for kind in kinds {
            for database in [0, 15] {
                both_ways(Op { database, kind });
            }
        }
    }

    #[test]
    fn operations_with_elements_are_read_as_they_were_written() {
        let long = vec![7; 300];
        let mut elements = vec![];
        for element in [&b"one"[..], b"", &long, b"2"] {
            Elements::push(&mut elements, element);
        }
        let read: Vec<&[u8]> = Elements::new(&elements).collect();
        assert_eq!(read, [&b"one"[..], b"", &long, b"2"]);
        let kinds = [
            Kind::PutCollection {
                key: &long,
                form: Form::Set,
                is_ordered: false,
                expires_at: Some(7),
                elements: Elements::new(&elements),
            },
            Kind::PutCollection {
                key: b"",
                form: Form::Hash,
                is_ordered: true,
                expires_at: None,
                elements: Elements::new(&elements),
            },
            Kind::Add {
                key: b"key",
                form: Form::List,
                at_front: true,
                elements: Elements::new(&elements),
            },
            Kind::Take {
                key: b"key",
                form: Form::Hash,
                at_front: false,
                elements: Elements::new(&elements),
            },
        ];
        for kind in kinds {
            for database in [0, 15] {
                both_ways(Op { database, kind });
            }
        }
    }

    #[test]
    fn values_that_are_left_out_count_in_the_body() {
        // A put, a deletion and a put with an expiry, in database 3. The values have 100 bytes.
        let without =
            b"\x31\x03\x64key\x09\0\0\0\x33\x03key\x32\x03\x64\x05\0\0\0\0\0\0\0key\x09\0\0\0";
        let put = |expires_at| Kind::PutLeftOut {
            key: b"key",
            bytes: 100,
            crc: 9,
            expires_at,
        };
        let kinds = [put(None), Kind::Delete { key: b"key" }, put(Some(5))];
        let expected = [106, 111, 225].into_iter().zip(kinds);
        let mut ops = Ops::without_values(without, 225, 100);
        let read: Vec<_> = ops.by_ref().map(|(end, op)| (end, op.kind)).collect();
        assert_eq!(read, expected.collect::<Vec<_>>());
        assert!(ops.is_at_end() && ops.rest().is_empty());
        // Lengths at which no operation ends.
        for bytes in [1, 105, 224, 226] {
            let mut ops = Ops::without_values(without, bytes, 100);
            ops.by_ref().for_each(drop);
            assert!(!ops.is_at_end(), "{bytes}");
        }
    }

    #[test]
    fn operations_that_cannot_be_are_refused() {
        for bytes in [
            // A form that there is not, a hash with a field alone, an element that is not whole.
            &[ADD, 4, 1, 0, b'k'][..],
            &[ADD, 2, 1, 2, b'k', 1, b'f'],
            &[ADD, 1, 1, 1, b'k', 1],
            // A database that there is not, a string that would be too long.
            &[EXCHANGE, 16],
            &[PATCH, 1, 1, 0, 0, 0, 0x20, b'k', b'v'],
        ] {
            assert_eq!(Op::decode(bytes, usize::MAX), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(body: Vec<u8>) {
            let mut ops = Ops::new(&body);
            let read = ops.by_ref().count();
            prop_assert!(read <= body.len());
        }
    }
}
