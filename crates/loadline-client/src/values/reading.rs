//! A reply as the source of a `Deserialize` type.
//!
//! Replies are nested no deeper than [`Limits::max_depth`](crate::Limits::max_depth), and so is the recursion here.

use std::slice;

use serde_core::de::value::BorrowedStrDeserializer;
use serde_core::de::{
    DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_core::forward_to_deserialize_any;

use super::Fault;
use crate::from_reply::are_pairs;
use crate::{Reply, ServerError};

type Replies<'r> = slice::Iter<'r, Reply<'r>>;

/// A reply, or an element of one.
pub(super) struct Value<'s, 'r> {
    reply: &'r Reply<'r>,
    /// The elements of the list after this one: RESP2 sends a list of pairs flat.
    rest: Option<&'s mut Replies<'r>>,
    /// Whether it is a whole reply.
    whole: bool,
}

impl<'r> Value<'_, 'r> {
    pub(super) fn whole(reply: &'r Reply<'r>) -> Self {
        Self {
            whole: true,
            ..Self::part(reply)
        }
    }

    fn part(reply: &'r Reply<'r>) -> Self {
        Self {
            reply: reply.without_attributes(),
            rest: None,
            whole: false,
        }
    }

    /// The bytes of a string.
    fn bytes(&self) -> Option<&'r [u8]> {
        match *self.reply {
            Reply::Bulk(bytes)
            | Reply::Simple(bytes)
            | Reply::BigNumber(bytes)
            | Reply::Verbatim { text: bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// The text of a string of UTF-8.
    fn text(&self) -> Option<&'r str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// The text of a number.
    fn number(&self) -> Option<String> {
        match self.reply {
            Reply::Integer(number) => Some(number.to_string()),
            Reply::Double(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The elements of an array, set or push message.
    fn list(&self) -> Option<&'r [Reply<'r>]> {
        match self.reply {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items),
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        match self.reply {
            Reply::Map(pairs) => pairs.is_empty(),
            _ => self.list().is_some_and(<[_]>::is_empty),
        }
    }

    /// Lets the visitor take the value as it is; nil is none of the types that come here.
    fn other<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.reply.is_null() {
            return Err(Fault::invalid_type(Unexpected::Other("nil"), &visitor));
        }
        self.deserialize_any(visitor)
    }

    /// A list of exactly this length, or a pair whose second part is the next element.
    fn tuple<V: Visitor<'r>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        match (self.list(), self.rest) {
            (Some(items), _) if items.len() == len => visitor.visit_seq(Elements(items.iter())),
            (Some(items), _) => Err(Fault::invalid_length(items.len(), &visitor)),
            (None, Some(rest)) if len == 2 && self.reply.error_text().is_none() => {
                let Some(second) = rest.next() else {
                    return Err(Fault::invalid_length(1, &visitor));
                };
                visitor.visit_seq(Pair([Some(self.reply), Some(second)]))
            }
            (None, _) => Self::part(self.reply).other(visitor),
        }
    }

    fn map<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        let pairs = match (self.reply, self.list()) {
            (Reply::Map(pairs), _) => Pairs::Mapped(pairs.iter()),
            (_, Some(items)) if are_pairs(items) => Pairs::Nested(items.iter()),
            (_, Some(items)) if items.len() % 2 == 0 => Pairs::Flat(items.iter()),
            (_, Some(_)) => {
                let odd = Unexpected::Other("an array of an odd number of elements");
                return Err(Fault::invalid_type(odd, &visitor));
            }
            _ => return self.other(visitor),
        };
        visitor.visit_map(Entries { pairs, value: None })
    }
}

/// Numbers as they are, and in texts.
macro_rules! numbers {
    ($($name:ident $visit:ident $type:ty;)*) => {$(
        fn $name<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
            let Some(text) = self.text() else {
                return self.other(visitor);
            };
            match text.parse::<$type>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => Err(Fault::invalid_value(Unexpected::Str(text), &visitor)),
            }
        }
    )*};
}

impl<'r> Deserializer<'r> for Value<'_, 'r> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.reply {
            Reply::Integer(number) => visitor.visit_i64(*number),
            Reply::Double(number) => visitor.visit_f64(*number),
            Reply::Boolean(value) => visitor.visit_bool(*value),
            Reply::Null => visitor.visit_unit(),
            Reply::Error(text) | Reply::BlobError(text) => {
                Err(Fault::Server(ServerError::new(text)))
            }
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
                visitor.visit_seq(Elements(items.iter()))
            }
            Reply::Map(_) => self.map(visitor),
            Reply::Simple(bytes)
            | Reply::Bulk(bytes)
            | Reply::BigNumber(bytes)
            | Reply::Verbatim { text: bytes, .. } => match std::str::from_utf8(bytes) {
                Ok(text) => visitor.visit_borrowed_str(text),
                Err(_) => visitor.visit_borrowed_bytes(bytes),
            },
            Reply::Attribute(inner) => Self::part(&inner.reply).deserialize_any(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (self.reply, self.text()) {
            (Reply::Integer(0), _) | (_, Some("0" | "false")) => visitor.visit_bool(false),
            (Reply::Integer(1), _) | (_, Some("1" | "true" | "OK")) => visitor.visit_bool(true),
            _ => self.other(visitor),
        }
    }

    numbers! {
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
    }

    fn deserialize_str<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.number() {
            Some(number) => visitor.visit_string(number),
            None => self.other(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (self.bytes(), self.number()) {
            (Some(bytes), _) => visitor.visit_borrowed_bytes(bytes),
            (None, Some(number)) => visitor.visit_byte_buf(number.into_bytes()),
            (None, None) => self.other(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.reply.is_null() || self.whole && self.is_empty() {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    /// Any reply but an error, as `OK` and nil.
    fn deserialize_unit<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.reply.error_text() {
            Some(_) => self.deserialize_any(visitor),
            None => visitor.visit_unit(),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    /// A map is read as the list of its pairs.
    fn deserialize_seq<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.reply {
            Reply::Map(pairs) => visitor.visit_seq(PairsOf(pairs.iter())),
            _ => self.other(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'r>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.map(visitor)
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.map(visitor)
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.text() {
            Some(name) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
            None => self.other(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }
}

/// The elements of a list.
struct Elements<'r>(Replies<'r>);

impl<'r> SeqAccess<'r> for Elements<'r> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some(reply) = self.0.next() else {
            return Ok(None);
        };
        let element = Value {
            rest: Some(&mut self.0),
            ..Value::part(reply)
        };
        seed.deserialize(element).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The pairs of a map, as a list.
struct PairsOf<'r>(slice::Iter<'r, (Reply<'r>, Reply<'r>)>);

impl<'r> SeqAccess<'r> for PairsOf<'r> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let next = self.0.next();
        next.map(|(key, value)| seed.deserialize(Pair([Some(key), Some(value)])))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Two replies as a list.
struct Pair<'r>([Option<&'r Reply<'r>>; 2]);

impl<'r> Deserializer<'r> for Pair<'r> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'r> SeqAccess<'r> for Pair<'r> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let next = self.0.iter_mut().find_map(Option::take);
        next.map(|reply| seed.deserialize(Value::part(reply)))
            .transpose()
    }
}

/// The pairs of a map in one of its three forms.
enum Pairs<'r> {
    Mapped(slice::Iter<'r, (Reply<'r>, Reply<'r>)>),
    /// Arrays of two.
    Nested(Replies<'r>),
    /// Keys and values in turn.
    Flat(Replies<'r>),
}

impl<'r> Iterator for Pairs<'r> {
    type Item = (&'r Reply<'r>, &'r Reply<'r>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Mapped(pairs) => pairs.next().map(|(key, value)| (key, value)),
            Self::Nested(pairs) => match pairs.next()? {
                Reply::Array(pair) => Some((pair.first()?, pair.get(1)?)),
                _ => None,
            },
            Self::Flat(items) => Some((items.next()?, items.next()?)),
        }
    }
}

/// The keys and values of a map.
struct Entries<'r> {
    pairs: Pairs<'r>,
    /// The value whose key was read last.
    value: Option<&'r Reply<'r>>,
}

impl<'r> MapAccess<'r> for Entries<'r> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'r>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some((key, value)) = self.pairs.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(Value::part(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let value = self.value.take();
        let value = value.ok_or_else(|| Fault::custom("a value was read before its key"))?;
        seed.deserialize(Value::part(value))
    }
}
