//! Keys of a cache.

use std::borrow::Cow;
use std::hash::Hash;

/// A key. Tiers below memory know it by its bytes, which must differ for different keys.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The bytes of the key.
    fn bytes(&self) -> Cow<'_, [u8]>;
}

macro_rules! text {
    ($($key:ty: $bytes:ident),*) => {$(
        impl Key for $key {
            fn bytes(&self) -> Cow<'_, [u8]> {
                Cow::Borrowed(self.$bytes())
            }
        }
    )*};
}

text!(String: as_bytes, Box<str>: as_bytes, &'static str: as_bytes, Vec<u8>: as_ref, Box<[u8]>: as_ref);

/// Numbers in decimal, readable with `redis-cli`.
macro_rules! numbers {
    ($($key:ty),*) => {$(
        impl Key for $key {
            fn bytes(&self) -> Cow<'_, [u8]> {
                Cow::Owned(self.to_string().into_bytes())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);
