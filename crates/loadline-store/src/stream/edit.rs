//! Changes of streams, as commands make them and the log keeps them.
//!
//! `docs/store-format.md` draws the bytes.

use std::ops::Deref;

use super::id::{Bits, StreamId, put_bytes, put_id, put_number};

/// The fields of an entry in turn with their values: those of a command where they are, or read from the log.
#[derive(Debug, Clone)]
pub enum StreamWords<'e> {
    /// Those of a command.
    Lent(&'e [&'e [u8]]),
    /// Those of a log.
    Held(Vec<&'e [u8]>),
}

impl<'e> Deref for StreamWords<'e> {
    type Target = [&'e [u8]];

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Lent(words) => words,
            Self::Held(words) => words,
        }
    }
}

impl PartialEq for StreamWords<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for StreamWords<'_> {}

/// A change of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEdit<'e> {
    /// An entry was added.
    Append {
        /// Greater than all before.
        id: StreamId,
        /// Whether it begins a block.
        begins_block: bool,
        /// Fields in turn with their values.
        fields: StreamWords<'e>,
    },
    /// Entries were deleted.
    Delete(Vec<StreamId>),
    /// Entries went from the front.
    Trim {
        /// Blocks that went as a whole.
        blocks: usize,
        /// Entries of the next block that were marked as deleted.
        marked: usize,
    },
    /// The ids that the stream remembers were set.
    SetIds {
        /// The greatest id so far.
        last_id: StreamId,
        /// The greatest id that was deleted.
        max_deleted_id: StreamId,
        /// Number of entries that were ever added.
        entries_added: u64,
    },
    /// A group was added, or has read on.
    SetGroup {
        /// Its name.
        group: &'e [u8],
        /// The last entry that was delivered.
        last_id: StreamId,
        /// Entries that were delivered, if that is known.
        entries_read: Option<u64>,
    },
    /// A group was removed.
    RemoveGroup(&'e [u8]),
    /// A consumer has sent a command. A new one was added.
    See {
        /// Its group.
        group: &'e [u8],
        /// Its name.
        consumer: &'e [u8],
        /// The time, in milliseconds since the Unix epoch.
        seen_ms: u64,
    },
    /// A consumer was removed with its pending entries.
    RemoveConsumer {
        /// Its group.
        group: &'e [u8],
        /// Its name.
        consumer: &'e [u8],
    },
    /// Entries were delivered to a consumer that is there.
    Deliver {
        /// Its group.
        group: &'e [u8],
        /// Its name.
        consumer: &'e [u8],
        /// The time, in milliseconds since the Unix epoch.
        delivered_ms: u64,
        /// Entries, each with the number of its deliveries.
        entries: Vec<(StreamId, u64)>,
    },
    /// Entries are no longer pending.
    Acknowledge {
        /// The group.
        group: &'e [u8],
        /// The entries.
        ids: Vec<StreamId>,
    },
}

const APPEND: u8 = 1;
const APPEND_TO_BLOCK: u8 = 2;
const DELETE: u8 = 3;
const TRIM: u8 = 4;
const SET_IDS: u8 = 5;
const SET_GROUP: u8 = 6;
const REMOVE_GROUP: u8 = 7;
const SEE: u8 = 8;
const REMOVE_CONSUMER: u8 = 9;
const DELIVER: u8 = 10;
const ACKNOWLEDGE: u8 = 11;

/// The number that represents a count that can be unknown.
pub(super) fn known(count: Option<u64>) -> u64 {
    count.map_or(0, |count| count.saturating_add(1))
}

/// The count that a number represents.
pub(super) fn count(number: u64) -> Option<u64> {
    number.checked_sub(1)
}

impl<'e> StreamEdit<'e> {
    /// Appends the bytes of the edit.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Append {
                id,
                begins_block,
                fields,
            } => {
                out.push(if *begins_block {
                    APPEND
                } else {
                    APPEND_TO_BLOCK
                });
                put_id(out, *id);
                fields.iter().for_each(|word| put_bytes(out, word));
            }
            Self::Delete(ids) => {
                out.push(DELETE);
                put_ids(out, ids);
            }
            Self::Trim { blocks, marked } => {
                out.push(TRIM);
                put_number(out, *blocks as u64);
                put_number(out, *marked as u64);
            }
            Self::SetIds {
                last_id,
                max_deleted_id,
                entries_added,
            } => {
                out.push(SET_IDS);
                put_ids(out, &[*last_id, *max_deleted_id]);
                put_number(out, *entries_added);
            }
            _ => self.encode_group(out),
        }
    }

    /// Appends the bytes of a change of a group.
    fn encode_group(&self, out: &mut Vec<u8>) {
        let put_names = |out: &mut Vec<u8>, code: u8, names: &[&[u8]]| {
            out.push(code);
            names.iter().for_each(|name| put_bytes(out, name));
        };
        match self {
            Self::SetGroup {
                group,
                last_id,
                entries_read,
            } => {
                put_names(out, SET_GROUP, &[group]);
                put_id(out, *last_id);
                put_number(out, known(*entries_read));
            }
            Self::RemoveGroup(group) => put_names(out, REMOVE_GROUP, &[group]),
            Self::See {
                group,
                consumer,
                seen_ms,
            } => {
                put_names(out, SEE, &[group, consumer]);
                put_number(out, *seen_ms);
            }
            Self::RemoveConsumer { group, consumer } => {
                put_names(out, REMOVE_CONSUMER, &[group, consumer]);
            }
            Self::Deliver {
                group,
                consumer,
                delivered_ms,
                entries,
            } => {
                put_names(out, DELIVER, &[group, consumer]);
                put_number(out, *delivered_ms);
                for (id, deliveries) in entries {
                    put_id(out, *id);
                    put_number(out, *deliveries);
                }
            }
            Self::Acknowledge { group, ids } => {
                put_names(out, ACKNOWLEDGE, &[group]);
                put_ids(out, ids);
            }
            _ => unreachable!("the caller has looked"),
        }
    }

    /// Reads an edit; `None` where the bytes are none.
    pub(crate) fn decode(bytes: &'e [u8]) -> Option<Self> {
        let mut rest = Bits(bytes);
        let code = rest.byte()?;
        let edit = match code {
            APPEND | APPEND_TO_BLOCK => {
                let id = rest.id()?;
                let mut fields = Vec::new();
                while !rest.is_at_end() {
                    fields.push(rest.bytes()?);
                }
                (!fields.is_empty() && fields.len().is_multiple_of(2)).then_some(())?;
                Self::Append {
                    id,
                    begins_block: code == APPEND,
                    fields: StreamWords::Held(fields),
                }
            }
            DELETE => Self::Delete(ids(&mut rest)?),
            TRIM => Self::Trim {
                blocks: usize::try_from(rest.number()?).ok()?,
                marked: usize::try_from(rest.number()?).ok()?,
            },
            SET_IDS => Self::SetIds {
                last_id: rest.id()?,
                max_deleted_id: rest.id()?,
                entries_added: rest.number()?,
            },
            SET_GROUP => Self::SetGroup {
                group: rest.bytes()?,
                last_id: rest.id()?,
                entries_read: count(rest.number()?),
            },
            REMOVE_GROUP => Self::RemoveGroup(rest.bytes()?),
            SEE => Self::See {
                group: rest.bytes()?,
                consumer: rest.bytes()?,
                seen_ms: rest.number()?,
            },
            REMOVE_CONSUMER => Self::RemoveConsumer {
                group: rest.bytes()?,
                consumer: rest.bytes()?,
            },
            DELIVER => {
                let (group, consumer) = (rest.bytes()?, rest.bytes()?);
                let delivered_ms = rest.number()?;
                let mut entries = Vec::new();
                while !rest.is_at_end() {
                    entries.push((rest.id()?, rest.number()?));
                }
                Self::Deliver {
                    group,
                    consumer,
                    delivered_ms,
                    entries,
                }
            }
            ACKNOWLEDGE => Self::Acknowledge {
                group: rest.bytes()?,
                ids: ids(&mut rest)?,
            },
            _ => return None,
        };
        rest.is_at_end().then_some(edit)
    }
}

/// Appends ids.
fn put_ids(out: &mut Vec<u8>, ids: &[StreamId]) {
    ids.iter().for_each(|id| put_id(out, *id));
}

/// All ids that are left.
fn ids(rest: &mut Bits<'_>) -> Option<Vec<StreamId>> {
    let mut ids = Vec::new();
    while !rest.is_at_end() {
        ids.push(rest.id()?);
    }
    Some(ids)
}
