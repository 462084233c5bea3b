//! From replies to values.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use bytes::Bytes;
use loadline_resp::{OwnedReply, Reply};

use crate::Error;

/// A type that a reply can be read as.
///
/// Nil is read only by `Option`: into any other type it is an [`Error::Type`]. `u8` is none, so that
/// `Vec<u8>` can be the bytes of a string and not a list of numbers.
#[diagnostic::on_unimplemented(
    message = "a reply cannot be read as `{Self}`",
    label = "the reply is to have this type",
    note = "text, bytes, numbers, lists, tuples, maps and `Option` can be read, and with the feature `serde` also `Json<T>` and `Serde<T>`; implement `FromReply` for a type of your own"
)]
pub trait FromReply: Sized {
    /// Reads the reply.
    ///
    /// # Errors
    /// [`Error::Type`] where the reply does not fit, [`Error::Server`] where it is (or holds) an error.
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error>;

    /// Reads the elements of a list of this type. Pairs differ from the rest: RESP2 sends a list of them
    /// flat, with their parts in turn.
    ///
    /// # Errors
    /// As [`FromReply::from_reply`].
    fn list_from(items: Vec<Reply<'_>>) -> Result<Vec<Self>, Error> {
        items.into_iter().map(Self::from_reply).collect()
    }
}

/// The reply as it is, errors within it too.
impl FromReply for OwnedReply {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        Ok(reply.to_owned())
    }
}

/// Any reply but nil or an error; its content is not looked at.
impl FromReply for () {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        if reply.is_null() || reply.is_error() {
            return Err(Error::unfit("an acknowledgement", &reply));
        }
        Ok(())
    }
}

impl<T: FromReply> FromReply for Option<T> {
    #[inline]
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        if reply.is_null() {
            return Ok(None);
        }
        T::from_reply(reply).map(Some)
    }
}

/// An error within a reply stays one element of it.
impl<T: FromReply> FromReply for Result<T, crate::ServerError> {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        if let Some(text) = reply.error_text() {
            return Ok(Err(crate::ServerError::new(text)));
        }
        T::from_reply(reply).map(Ok)
    }
}

impl FromReply for Vec<u8> {
    #[inline]
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        bytes_of(reply, "bytes")
    }
}

impl FromReply for Bytes {
    #[inline]
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        bytes_of(reply, "bytes").map(Self::from)
    }
}

impl FromReply for String {
    // In line, with `read`, it saves 45 instructions of a blocking GET.
    #[inline(always)]
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        const EXPECTED: &str = "a string of UTF-8";
        // It is checked after the copy, which is aligned as the check is fastest.
        Self::from_utf8(bytes_of(reply, EXPECTED)?).map_err(|_| Error::Type {
            expected: EXPECTED,
            got: "a string that is not UTF-8",
        })
    }
}

/// The text of a reply that has one, or of a number, as bytes of its own.
#[inline(always)]
fn bytes_of(reply: Reply<'_>, expected: &'static str) -> Result<Vec<u8>, Error> {
    if let Reply::Bulk(bytes) = reply {
        // It owns nothing, which the compiler does not see where it drops a reply of any kind.
        std::mem::forget(reply);
        return Ok(bytes.to_vec());
    }
    text_of(&reply, expected).map(Text::into_vec)
}

/// The text of a reply that has one, or of a number.
pub(crate) enum Text<'a> {
    Borrowed(&'a [u8]),
    Owned(String),
}

impl Text<'_> {
    #[cfg(feature = "serde")]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(text) => text.as_bytes(),
        }
    }

    fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Borrowed(bytes) => bytes.to_vec(),
            Self::Owned(text) => text.into_bytes(),
        }
    }
}

#[inline]
pub(crate) fn text_of<'a>(reply: &'a Reply<'_>, expected: &'static str) -> Result<Text<'a>, Error> {
    match reply.without_attributes() {
        Reply::Bulk(bytes)
        | Reply::Simple(bytes)
        | Reply::BigNumber(bytes)
        | Reply::Verbatim { text: bytes, .. } => Ok(Text::Borrowed(bytes)),
        Reply::Integer(number) => Ok(Text::Owned(number.to_string())),
        Reply::Double(number) => Ok(Text::Owned(number.to_string())),
        other => Err(Error::unfit(expected, other)),
    }
}

/// An integer reply, a string of its digits, or a boolean, which RESP3 has in the place of 1 and 0.
macro_rules! integers {
    ($($type:ty, $expected:literal;)*) => {$(
        impl FromReply for $type {
            #[inline]
            fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
                let too_large = || Error::Type {
                    expected: $expected,
                    got: "a number out of its range",
                };
                match reply.without_attributes() {
                    Reply::Integer(number) => Self::try_from(*number).map_err(|_| too_large()),
                    Reply::Boolean(is_one) => Ok(Self::from(*is_one)),
                    Reply::Bulk(text) | Reply::Simple(text) | Reply::BigNumber(text) => {
                        let digits = std::str::from_utf8(text).unwrap_or_default();
                        digits.parse().map_err(|_| Error::unfit($expected, &reply))
                    }
                    other => Err(Error::unfit($expected, other)),
                }
            }
        }
    )*};
}

integers! {
    u16, "an integer of 16 bits without sign";
    u32, "an integer of 32 bits without sign";
    u64, "an integer of 64 bits without sign";
    usize, "a size";
    i16, "an integer of 16 bits";
    i32, "an integer of 32 bits";
    i64, "an integer of 64 bits";
    isize, "an integer of the size of a pointer";
}

impl FromReply for f64 {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        const EXPECTED: &str = "a number";
        match reply.without_attributes() {
            Reply::Double(number) => Ok(*number),
            Reply::Integer(number) => Ok(*number as Self),
            Reply::Bulk(text) | Reply::Simple(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| Error::unfit(EXPECTED, &reply)),
            other => Err(Error::unfit(EXPECTED, other)),
        }
    }
}

/// True for `1` and `OK`, false for `0`.
impl FromReply for bool {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        match reply.without_attributes() {
            Reply::Boolean(value) => Ok(*value),
            Reply::Integer(0) | Reply::Bulk(b"0") => Ok(false),
            Reply::Integer(1) | Reply::Bulk(b"1") | Reply::Simple(b"OK") => Ok(true),
            other => Err(Error::unfit("a boolean", other)),
        }
    }
}

/// The elements of an array, set or push message.
fn list<'a>(reply: Reply<'a>, expected: &'static str) -> Result<Vec<Reply<'a>>, Error> {
    match reply.into_without_attributes() {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Ok(items),
        other => Err(Error::unfit(expected, &other)),
    }
}

/// The pairs of a map, of an array of pairs, or of an array in which keys and values alternate.
fn pairs<'a>(reply: Reply<'a>) -> Result<Vec<(Reply<'a>, Reply<'a>)>, Error> {
    let items = match reply.into_without_attributes() {
        Reply::Map(pairs) => return Ok(pairs),
        other => list(other, "a map")?,
    };
    paired(items)
}

/// Whether this is a list of pairs and not one in which their parts alternate.
pub(crate) fn are_pairs(items: &[Reply<'_>]) -> bool {
    items
        .iter()
        .all(|item| matches!(item, Reply::Array(pair) if pair.len() == 2))
}

fn paired<'a>(items: Vec<Reply<'a>>) -> Result<Vec<(Reply<'a>, Reply<'a>)>, Error> {
    if are_pairs(&items) {
        return items.into_iter().map(pair).collect();
    }
    if items.len() % 2 == 1 {
        return Err(Error::Type {
            expected: "pairs",
            got: "an array of an odd number of elements",
        });
    }
    let mut items = items.into_iter();
    let mut pairs = Vec::with_capacity(items.len() / 2);
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn pair<'a>(reply: Reply<'a>) -> Result<(Reply<'a>, Reply<'a>), Error> {
    let mut items = list(reply, "a pair")?.into_iter();
    match (items.next(), items.next(), items.next()) {
        (Some(key), Some(value), None) => Ok((key, value)),
        _ => Err(Error::Type {
            expected: "a pair",
            got: "an array of another length",
        }),
    }
}

impl<T: FromReply> FromReply for Vec<T> {
    /// A map is read as the list of its pairs.
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        match reply.into_without_attributes() {
            Reply::Map(pairs) => pairs
                .into_iter()
                .map(|(key, value)| T::from_reply(Reply::Array(vec![key, value])))
                .collect(),
            other => T::list_from(list(other, "a list")?),
        }
    }
}

impl<T: FromReply + Eq + Hash, S: BuildHasher + Default> FromReply for HashSet<T, S> {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        list(reply, "a set")?
            .into_iter()
            .map(T::from_reply)
            .collect()
    }
}

impl<T: FromReply + Ord> FromReply for BTreeSet<T> {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        list(reply, "a set")?
            .into_iter()
            .map(T::from_reply)
            .collect()
    }
}

impl<K: FromReply + Eq + Hash, V: FromReply, S: BuildHasher + Default> FromReply
    for HashMap<K, V, S>
{
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        both(pairs(reply)?).collect()
    }
}

impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        both(pairs(reply)?).collect()
    }
}

fn both<K: FromReply, V: FromReply>(
    pairs: Vec<(Reply<'_>, Reply<'_>)>,
) -> impl Iterator<Item = Result<(K, V), Error>> {
    pairs
        .into_iter()
        .map(|(key, value)| Ok((K::from_reply(key)?, V::from_reply(value)?)))
}

impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        let (first, second) = pair(reply)?;
        Ok((A::from_reply(first)?, B::from_reply(second)?))
    }

    fn list_from(items: Vec<Reply<'_>>) -> Result<Vec<Self>, Error> {
        both(paired(items)?).collect()
    }
}

/// A tuple is read from an array of exactly its length.
macro_rules! tuples {
    ($($len:literal $expected:literal $($part:ident),+;)*) => {$(
        impl<$($part: FromReply),+> FromReply for ($($part,)+) {
            fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
                let items = list(reply, $expected)?;
                if items.len() != $len {
                    return Err(Error::Type {
                        expected: $expected,
                        got: "an array of another length",
                    });
                }
                let mut items = items.into_iter();
                Ok(($($part::from_reply(items.next().expect("the length was checked"))?,)+))
            }
        }
    )*};
}

tuples! {
    1 "an array of 1 element" A;
    3 "an array of 3 elements" A, B, C;
    4 "an array of 4 elements" A, B, C, D;
    5 "an array of 5 elements" A, B, C, D, E;
    6 "an array of 6 elements" A, B, C, D, E, F;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_is_read_by_option_only() {
        assert_eq!(Option::<String>::from_reply(Reply::Null).unwrap(), None);
        for failed in [
            String::from_reply(Reply::Null).map(drop),
            i64::from_reply(Reply::Null).map(drop),
            f64::from_reply(Reply::Null).map(drop),
            bool::from_reply(Reply::Null).map(drop),
            <()>::from_reply(Reply::Null),
            Vec::<u8>::from_reply(Reply::Null).map(drop),
            Vec::<String>::from_reply(Reply::Null).map(drop),
            HashMap::<String, String>::from_reply(Reply::Null).map(drop),
        ] {
            assert!(
                matches!(failed, Err(Error::Type { got: "nil", .. })),
                "{failed:?}"
            );
        }
    }

    #[test]
    fn maps_are_read_from_maps_and_from_flat_arrays_and_from_pairs() {
        let (key, value) = (Reply::Bulk(b"a"), Reply::Bulk(b"1"));
        let expected = BTreeMap::from([("a".to_owned(), 1i64)]);
        let pair = Reply::Array(vec![key.clone(), value.clone()]);
        for reply in [
            Reply::Map(vec![(key.clone(), value.clone())]),
            Reply::Array(vec![key, value]),
            Reply::Array(vec![pair]),
        ] {
            assert_eq!(
                BTreeMap::<String, i64>::from_reply(reply).unwrap(),
                expected
            );
        }
        let odd = Reply::Array(vec![Reply::Integer(1)]);
        assert!(BTreeMap::<String, i64>::from_reply(odd).is_err());
    }

    #[test]
    fn numbers_are_read_from_digits_and_refused_out_of_range() {
        assert_eq!(u16::from_reply(Reply::Bulk(b"65535")).unwrap(), 65535);
        assert!(u16::from_reply(Reply::Integer(65536)).is_err());
        assert!(u64::from_reply(Reply::Integer(-1)).is_err());
        assert_eq!(f64::from_reply(Reply::Bulk(b"inf")).unwrap(), f64::INFINITY);
        assert!(i64::from_reply(Reply::Bulk(b"x")).is_err());
    }

    /// `CF.INSERT` replies with a list of 1 and -1, in RESP3 of true and -1.
    #[test]
    fn boolean_among_numbers_is_one_or_zero() {
        let items = [
            Reply::Boolean(true),
            Reply::Integer(-1),
            Reply::Boolean(false),
        ];
        let numbers = Vec::<i64>::from_reply(Reply::Array(items.to_vec())).unwrap();
        assert_eq!(numbers, [1, -1, 0]);
    }

    #[test]
    fn error_within_an_array_is_an_error_unless_asked_for() {
        let reply = || Reply::Array(vec![Reply::Integer(1), Reply::Error(b"ERR no")]);
        let failed = Vec::<i64>::from_reply(reply());
        assert!(matches!(failed, Err(Error::Server(_))));
        let each = Vec::<Result<i64, crate::ServerError>>::from_reply(reply()).unwrap();
        assert_eq!(each[0], Ok(1));
        assert_eq!(each[1].as_ref().unwrap_err().code(), "ERR");
    }

    #[test]
    fn list_of_pairs_may_be_flat() {
        let flat = Reply::Array(vec![Reply::Bulk(b"a"), Reply::Bulk(b"1.5")]);
        let nested = Reply::Array(vec![Reply::Array(vec![
            Reply::Bulk(b"a"),
            Reply::Double(1.5),
        ])]);
        let map = Reply::Map(vec![(Reply::Bulk(b"a"), Reply::Double(1.5))]);
        for reply in [flat, nested, map] {
            let scores = Vec::<(String, f64)>::from_reply(reply).unwrap();
            assert_eq!(scores, [("a".to_owned(), 1.5)]);
        }
        assert!(
            Vec::<(String, f64)>::from_reply(Reply::Array(vec![]))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn tuples_want_their_length() {
        let three = Reply::Array(vec![Reply::Integer(1), Reply::Bulk(b"x"), Reply::Null]);
        let read: (i64, String, Option<String>) = FromReply::from_reply(three.clone()).unwrap();
        assert_eq!(read, (1, "x".into(), None));
        assert!(<(i64, String)>::from_reply(three).is_err());
    }
}
