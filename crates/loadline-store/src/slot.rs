//! An entry where it lies in its shard, and one on its way from a key to another.

use std::sync::Arc;

use crate::age::STAMP_BYTES;
use crate::fields::Fields;
use crate::record::{Outside, Part, Record};
use crate::slab::{Held, Slab};
use crate::sorted::SortedView;
use crate::value::{Entry, Shape, Value, View};

/// A string that lies in one piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) expires_at: Option<u64>,
    /// Whether it is kept as text even where it reads as a number.
    pub(crate) is_text: bool,
}

impl<'b> Text<'b> {
    pub(crate) fn new(bytes: &'b [u8], expires_at: Option<u64>) -> Self {
        Self {
            bytes,
            expires_at,
            is_text: false,
        }
    }
}

/// The new value of a key.
#[derive(Debug)]
pub(crate) enum New<'b> {
    /// A string, in one piece.
    String(Text<'b>),
    /// The bytes of a packed sorted set, and its expiry.
    Sorted(&'b [u8], Option<u64>),
    /// A string in the log only.
    Outside(Outside, Option<u64>),
    /// A value that changes in place.
    Entry(Arc<Entry>),
}

/// The former value of a key.
#[derive(Debug)]
pub(crate) enum Loose {
    String {
        bytes: Vec<u8>,
        expires_at: Option<u64>,
        is_text: bool,
    },
    /// A packed sorted set.
    Sorted {
        bytes: Vec<u8>,
        expires_at: Option<u64>,
    },
    Entry(Arc<Entry>),
}

impl Loose {
    pub(crate) fn of(entry: Entry) -> Self {
        match entry.value {
            Value::Sorted(set) => match set.into_packed() {
                Ok(bytes) => Self::Sorted {
                    bytes,
                    expires_at: entry.expires_at,
                },
                Err(set) => Self::Entry(Arc::new(Entry {
                    value: Value::Sorted(set),
                    ..entry
                })),
            },
            Value::String(bytes) => Self::String {
                bytes,
                expires_at: entry.expires_at,
                is_text: false,
            },
            _ => Self::Entry(Arc::new(entry)),
        }
    }

    /// The same as a new value of another key.
    pub(crate) fn renewed(&self) -> New<'_> {
        match self {
            Self::String {
                bytes,
                expires_at,
                is_text,
            } => New::String(Text {
                bytes,
                expires_at: *expires_at,
                is_text: *is_text,
            }),
            Self::Sorted { bytes, expires_at } => New::Sorted(bytes, *expires_at),
            Self::Entry(entry) => New::Entry(Arc::clone(entry)),
        }
    }

    pub(crate) fn into_entry(self) -> Entry {
        match self {
            Self::String {
                bytes, expires_at, ..
            } => Entry {
                value: Value::String(bytes),
                expires_at,
            },
            Self::Sorted { bytes, expires_at } => Entry {
                value: Value::Sorted(SortedView::packed(&bytes).to_set()),
                expires_at,
            },
            Self::Entry(entry) => Arc::unwrap_or_clone(entry),
        }
    }
}

/// The parts of an entry that can expire.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Expiring {
    /// The entry itself.
    pub(crate) entry: bool,
    /// A field of a hash.
    pub(crate) fields: bool,
}

/// An entry where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'s> {
    pub(crate) record: Record<'s>,
    pub(crate) slab: &'s Slab,
}

impl<'s> Slot<'s> {
    #[inline]
    pub(crate) fn key(&self) -> &'s [u8] {
        match self.record.key() {
            Part::Inline(bytes) => bytes,
            Part::Held(place) => match self.slab.get(place) {
                Held::Bytes(bytes) => bytes,
                Held::Free { .. } | Held::Entry(_) => unreachable!("a key is bytes"),
            },
        }
    }

    #[inline]
    pub(crate) fn view(&self) -> View<'s> {
        let piece = |bytes| match self.record.is_sorted() {
            true => View::Sorted(SortedView::packed(bytes)),
            false => View::String(bytes),
        };
        match self.record.value() {
            Part::Inline(bytes) => piece(bytes),
            Part::Held(place) => match self.slab.get(place) {
                Held::Bytes(bytes) => piece(bytes),
                Held::Entry(entry) => entry.value.view(),
                Held::Free { .. } => unreachable!("the record of a free place is gone"),
            },
        }
    }

    /// Whether the value is a string, here or in the log.
    pub(crate) fn is_string(&self) -> bool {
        self.record.outside().is_some() || matches!(self.view(), View::String(_))
    }

    /// The entry of a value that changes in place.
    #[inline]
    pub(crate) fn held_entry(&self) -> Option<&'s Arc<Entry>> {
        match self.record.value() {
            Part::Inline(_) => None,
            Part::Held(place) => match self.slab.get(place) {
                Held::Entry(entry) => Some(entry),
                Held::Bytes(_) | Held::Free { .. } => None,
            },
        }
    }

    #[inline]
    pub(crate) fn expires_at(&self) -> Option<u64> {
        match self.held_entry() {
            Some(entry) => entry.expires_at,
            None => self.record.expires_at(),
        }
    }

    #[inline]
    pub(crate) fn is_gone(&self, now: u64) -> bool {
        self.expires_at().is_some_and(|at| at <= now)
    }

    /// Whether the time of one of its fields has come, if it is a hash.
    #[inline]
    pub(crate) fn has_due_fields(&self, now: u64) -> bool {
        self.fields().is_some_and(|fields| fields.are_due(now))
    }

    #[inline]
    fn fields(&self) -> Option<&'s Fields> {
        match &self.held_entry()?.value {
            Value::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    /// The parts of it that can expire.
    #[inline]
    pub(crate) fn expiring(&self) -> Expiring {
        Expiring {
            entry: self.expires_at().is_some(),
            fields: self.fields().is_some_and(Fields::have_expiries),
        }
    }

    pub(crate) fn to_entry(self) -> Entry {
        Entry {
            value: self.view().to_value(),
            expires_at: self.expires_at(),
        }
    }

    /// A copy; what it shares with the original is copied when one of them changes.
    pub(crate) fn to_loose(self) -> Loose {
        match (self.held_entry(), self.view()) {
            (Some(entry), _) => Loose::Entry(Arc::clone(entry)),
            (None, View::String(bytes)) => Loose::String {
                bytes: bytes.to_vec(),
                expires_at: self.expires_at(),
                is_text: self.record.is_text(),
            },
            (None, View::Sorted(set)) => Loose::of(Entry {
                value: Value::Sorted(set.to_set()),
                expires_at: self.expires_at(),
            }),
            (None, _) => unreachable!("other collections do not lie in one piece"),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self.held_entry().map(|entry| &entry.value) {
            None if self.record.is_sorted() => Shape::Ordered,
            None if self.record.is_text() => Shape::PackedText,
            None => Shape::Packed,
            Some(Value::String(_)) => Shape::Growing,
            Some(Value::Set(members)) if !members.is_ordered() => Shape::Hashed,
            Some(Value::Hash(fields)) if !fields.is_ordered() => Shape::Hashed,
            Some(Value::Sorted(set)) if !set.is_packed() => Shape::Hashed,
            Some(
                Value::Set(_)
                | Value::Hash(_)
                | Value::List(_)
                | Value::Sorted(_)
                | Value::Stream(_),
            ) => Shape::Ordered,
        }
    }

    /// Bytes of memory that it takes outside of the index, without what an allocator adds.
    pub(crate) fn held_bytes(&self) -> usize {
        let outside = |part| match part {
            Part::Inline(_) => 0,
            Part::Held(place) => self.slab.get(place).held_bytes(),
        };
        let record = &self.record;
        STAMP_BYTES + record.bytes().len() + outside(record.key()) + outside(record.value())
    }
}
