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
    /// The key goes.
    Delete { key: &'b [u8] },
    /// The key goes at another time.
    Expire {
        key: &'b [u8],
        expires_at: Option<u64>,
    },
    /// All keys of the database go.
    Clear,
    /// All segments before this one are without meaning from now on.
    Oldest { segment: u32 },
}

/// Longest key, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = (1 << 29) - 1;

/// Number of databases that the first byte of an operation can name.
pub(crate) const DATABASES: u8 = 16;

const PUT: u8 = 1;
const PUT_UNTIL: u8 = 2;
const DELETE: u8 = 3;
const EXPIRE: u8 = 4;
const CLEAR: u8 = 5;
const OLDEST: u8 = 14;

/// Stands for "never" in an expiry.
const NEVER: u64 = u64::MAX;

impl<'b> Op<'b> {
    /// The key, where there is one.
    pub(crate) fn key(&self) -> Option<&'b [u8]> {
        match self.kind {
            Kind::Put { key, .. } | Kind::Delete { key } | Kind::Expire { key, .. } => Some(key),
            Kind::Clear | Kind::Oldest { .. } => None,
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
            Kind::Clear => body.push(first(CLEAR)),
            Kind::Oldest { segment } => {
                body.push(first(OLDEST));
                body.extend_from_slice(&segment.to_le_bytes());
            }
        }
    }

    /// The operation at the front of `body`, with its length. `None` where the bytes are none.
    pub(crate) fn decode(body: &'b [u8]) -> Option<(Self, usize)> {
        let mut rest = Rest(body);
        let [first] = rest.array()?;
        let kind = match first & 0xf {
            code @ (PUT | PUT_UNTIL) => {
                let key_bytes = rest.key_length()?;
                let value_bytes = rest.length()?;
                let expires_at = match code {
                    PUT => None,
                    _ => Some(u64::from_le_bytes(rest.array()?)),
                };
                Kind::Put {
                    key: rest.take(key_bytes)?,
                    value: rest.take(value_bytes)?,
                    expires_at,
                }
            }
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
            CLEAR => Kind::Clear,
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
    body: &'b [u8],
    at: usize,
}

impl<'b> Ops<'b> {
    /// Of a body that is whole: its checksum is right, or this process has written it.
    pub(crate) fn new(body: &'b [u8]) -> Self {
        Self { body, at: 0 }
    }

    /// Whether all of the body has been read. Where the iterator ends before, the rest is no operation.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.body.len()
    }
}

impl<'b> Iterator for Ops<'b> {
    /// The offset behind the operation in the body, and the operation. A string's value ends there.
    type Item = (usize, Op<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        let (op, bytes) = Op::decode(&self.body[self.at..])?;
        self.at += bytes;
        Some((self.at, op))
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
        assert_eq!(Op::decode(&body), Some((op, body.len())));
        for cut in 0..body.len() {
            assert_eq!(Op::decode(&body[..cut]), None, "{op:?} cut at {cut}");
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
            Kind::Clear,
            Kind::Oldest { segment: 7 },
        ];
        for kind in kinds {
            for database in [0, 15] {
                both_ways(Op { database, kind });
            }
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
