//! Operations as they are read.

use super::{
    ADD, AT_FRONT, CLEAR, CRC_BYTES, DELETE, EDIT_STREAM, EXCHANGE, EXPIRE, Elements, Form,
    HAS_NO_ORDER, INSERT_ITEM, Kind, LONGEST_PATCHED, MAX_KEY_BYTES, NEVER, OLDEST, OWN_DATABASE,
    Op, PATCH, PUT, PUT_COLLECTION, PUT_UNTIL, REMOVE_ITEMS, SET_ITEM, TAKE, code_and_database,
};

use crate::stream::StreamEdit;

/// Operations of a record's body, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Ops<'b> {
    /// The bytes that have not been read yet.
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

    /// The bytes behind the operations that have been read.
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

impl<'b> Op<'b> {
    /// The operation at the front of `body`, with its length. Values of at least `left_out` bytes are left out. `None`
    /// where the bytes are none.
    pub(crate) fn decode(body: &'b [u8], left_out: usize) -> Option<(Self, usize)> {
        let mut rest = Rest(body);
        let [first] = rest.array()?;
        let (code, database) = code_and_database(first);
        let kind = match code {
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
            INSERT_ITEM => {
                let (index, key, item) = rest.pair()?;
                let index = u32::from_le_bytes(index);
                Kind::InsertItem { key, index, item }
            }
            REMOVE_ITEMS => {
                let (count, key, item) = rest.pair()?;
                let count = i64::from_le_bytes(count);
                Kind::RemoveItems { key, count, item }
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
            EDIT_STREAM => {
                let ([], key, edit) = rest.pair()?;
                StreamEdit::decode(edit)?;
                Kind::EditStream { key, edit }
            }
            CLEAR => Kind::Clear,
            EXCHANGE => {
                let [other] = rest.array()?;
                if other >= OWN_DATABASE {
                    return None;
                }
                Kind::Exchange { other }
            }
            OLDEST => Kind::Oldest {
                segment: u32::from_le_bytes(rest.array()?),
            },
            _ => return None,
        };
        let op = Self { database, kind };
        Some((op, body.len() - rest.0.len()))
    }
}

/// The part of a body that has not been read yet.
pub(super) struct Rest<'b>(pub(super) &'b [u8]);

impl<'b> Rest<'b> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Reads what [`put_pair`](super::put_pair) has written: the number, the key, and what belongs to it.
    fn pair<const N: usize>(&mut self) -> Option<([u8; N], &'b [u8], &'b [u8])> {
        let key_bytes = self.key_length()?;
        let value_bytes = self.length()?;
        Some((
            self.array()?,
            self.take(key_bytes)?,
            self.take(value_bytes)?,
        ))
    }

    /// Reads the part of an operation that puts a string, behind its first byte. Values of at least `left_out` bytes
    /// are left out.
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

    /// Reads the part of an operation with elements, behind its first byte.
    fn collection(&mut self, code: u8) -> Option<Kind<'b>> {
        let [shape] = self.array()?;
        let form = match shape & 0xf {
            1 => Form::Set,
            2 => Form::Hash,
            3 => Form::List,
            4 => Form::Sorted,
            5 if code == PUT_COLLECTION => Form::Stream,
            6 if code == PUT_COLLECTION => Form::TimedHash,
            7 if code == ADD => Form::FieldTimes,
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
    pub(super) fn length(&mut self) -> Option<usize> {
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
