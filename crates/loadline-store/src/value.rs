//! Values of keys, and the times at which keys go.

use crate::fields::Fields;
use crate::list::List;
use crate::sorted::{SortedSet, SortedView};
use crate::stream::Stream;
use crate::table::Table;

/// The members of a set.
pub type Members = Table<()>;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Bytes.
    String(Vec<u8>),
    /// Members.
    Set(Members),
    /// Fields with a value each.
    Hash(Fields),
    /// Items in a row.
    List(List),
    /// Members with a score each, in order.
    Sorted(SortedSet),
    /// Entries with growing ids.
    Stream(Box<Stream>),
}

impl Value {
    /// The kind, as `TYPE` names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.view().kind()
    }

    /// Memory in bytes in addition to the value itself, without what an allocator adds.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::String(bytes) => bytes.capacity(),
            Self::Set(members) => members.memory_bytes(),
            Self::Hash(fields) => fields.memory_bytes(),
            Self::List(items) => items.memory_bytes(),
            Self::Sorted(set) => set.memory_bytes(),
            Self::Stream(stream) => stream.memory_bytes(),
        }
    }

    /// Whether nothing is left in it, so that its key goes. An empty string is something, and so is a stream that
    /// remembers its ids.
    #[must_use]
    pub fn is_empty_collection(&self) -> bool {
        match self {
            Self::String(_) | Self::Stream(_) => false,
            Self::Set(members) => members.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Sorted(set) => set.is_empty(),
        }
    }

    /// The value where it lies.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        match self {
            Self::String(bytes) => View::String(bytes),
            Self::Set(members) => View::Set(members),
            Self::Hash(fields) => View::Hash(fields),
            Self::List(items) => View::List(items),
            Self::Sorted(set) => View::Sorted(set.view()),
            Self::Stream(stream) => View::Stream(stream),
        }
    }
}

/// The value of a key, borrowed from its place in the store.
#[derive(Debug, Clone, Copy)]
pub enum View<'v> {
    /// Bytes.
    String(&'v [u8]),
    /// Members.
    Set(&'v Members),
    /// Fields with a value each.
    Hash(&'v Fields),
    /// Items in a row.
    List(&'v List),
    /// Members with a score each, in order.
    Sorted(SortedView<'v>),
    /// Entries with growing ids.
    Stream(&'v Stream),
}

impl View<'_> {
    /// The kind, as `TYPE` names it.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Sorted(_) => "zset",
            Self::Stream(_) => "stream",
        }
    }

    /// A copy that stays.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::String(bytes) => Value::String(bytes.to_vec()),
            Self::Set(members) => Value::Set(members.clone()),
            Self::Hash(fields) => Value::Hash(fields.clone()),
            Self::List(items) => Value::List(items.clone()),
            Self::Sorted(set) => Value::Sorted(set.to_set()),
            Self::Stream(stream) => Value::Stream(Box::new(stream.clone())),
        }
    }
}

/// The form of a value in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A string as it was put, in one piece with its key.
    Packed,
    /// The same, kept as text even where it reads as a number.
    PackedText,
    /// A string that was changed in place and has room to grow.
    Growing,
    /// A collection whose elements are in order, and a sorted set that is packed.
    Ordered,
    /// A collection whose elements have no order, and a sorted set that is not packed.
    Hashed,
}

/// A value and when it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// When it goes, in milliseconds since the Unix epoch; `None` for never.
    pub expires_at: Option<u64>,
}

impl Entry {
    /// An entry that stays.
    #[must_use]
    pub fn lasting(value: Value) -> Self {
        Self {
            value,
            expires_at: None,
        }
    }

    /// The same, gone from `expires_at` (milliseconds since the Unix epoch) on.
    #[must_use]
    pub fn until(self, expires_at: u64) -> Self {
        Self {
            expires_at: Some(expires_at),
            ..self
        }
    }
}

/// The effect of a change on a key.
#[derive(Debug)]
pub enum Change {
    /// It stays as it is, or as it was changed in place.
    Keep,
    /// It holds this from now on.
    Put(Entry),
    /// It goes.
    Remove,
}

/// The effect of a change on the time at which a key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It stays as it is.
    Keep,
    /// It is this one, in milliseconds since the Unix epoch; `None` for never.
    At(Option<u64>),
    /// The key goes at once.
    Now,
}
