//! Keys of a cache.

use std::borrow::Cow;
use std::hash::Hash;

/// A key. Tiers below memory know it by its bytes, which must differ for different keys.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The bytes of the key.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Whether [`from_bytes`](Self::from_bytes) reads what [`bytes`](Self::bytes) writes. [`Tier::tracked`](super::Tier::tracked)
    /// needs it.
    const IS_READABLE: bool = false;

    /// The key with these bytes, if they are of a key.
    #[must_use]
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let _ = bytes;
        None
    }
}

macro_rules! text {
    ($($key:ty: $bytes:ident, $read:expr;)*) => {$(
        impl Key for $key {
            fn bytes(&self) -> Cow<'_, [u8]> {
                Cow::Borrowed(self.$bytes())
            }

            const IS_READABLE: bool = true;

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let read: fn(&[u8]) -> Option<Self> = $read;
                read(bytes)
            }
        }
    )*};
}

text! {
    String: as_bytes, |bytes| str::from_utf8(bytes).ok().map(str::to_owned);
    Box<str>: as_bytes, |bytes| str::from_utf8(bytes).ok().map(Box::from);
    Vec<u8>: as_ref, |bytes| Some(bytes.to_vec());
    Box<[u8]>: as_ref, |bytes| Some(bytes.into());
}

impl Key for &'static str {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }
}

/// Numbers in decimal, readable with `redis-cli`.
macro_rules! numbers {
    ($($key:ty),*) => {$(
        impl Key for $key {
            fn bytes(&self) -> Cow<'_, [u8]> {
                Cow::Owned(self.to_string().into_bytes())
            }

            const IS_READABLE: bool = true;

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                str::from_utf8(bytes).ok()?.parse().ok()
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        fn check<K: Key + std::fmt::Debug>(key: &K, other: &[u8]) {
            assert_eq!(K::from_bytes(&key.bytes()).as_ref(), Some(key));
            assert_eq!(K::from_bytes(other), None);
            assert!(K::IS_READABLE);
        }
        check(&7_u32, b"-7");
        check(&-7_i128, b"seven");
        check(&"key".to_owned(), &[0xff]);
        check(&Box::<str>::from("key"), &[0xff]);
        assert_eq!(Vec::from_bytes(&[0xff]), Some(vec![0xff]));
        assert_eq!(<&'static str>::from_bytes(b"key"), None);
    }
}
