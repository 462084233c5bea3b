//! Values as bytes.

#[cfg(feature = "bitcode")]
mod bitcode;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "message-pack")]
mod message_pack;
#[cfg(feature = "postcard")]
mod postcard;
#[cfg(feature = "prost")]
mod prost;
mod raw;
#[cfg(feature = "rkyv")]
mod rkyv;

#[cfg(feature = "bitcode")]
#[cfg_attr(docsrs, doc(cfg(feature = "bitcode")))]
pub use self::bitcode::Bitcode;
#[cfg(feature = "json")]
#[cfg_attr(docsrs, doc(cfg(feature = "json")))]
pub use self::json::Json;
#[cfg(feature = "message-pack")]
#[cfg_attr(docsrs, doc(cfg(feature = "message-pack")))]
pub use self::message_pack::MessagePack;
#[cfg(feature = "postcard")]
#[cfg_attr(docsrs, doc(cfg(feature = "postcard")))]
pub use self::postcard::Postcard;
#[cfg(feature = "prost")]
#[cfg_attr(docsrs, doc(cfg(feature = "prost")))]
pub use self::prost::Prost;
pub use self::raw::Raw;
#[cfg(feature = "rkyv")]
#[cfg_attr(docsrs, doc(cfg(feature = "rkyv")))]
pub use self::rkyv::{Flat, Rkyv};

/// The reason why a value could not be encoded or decoded.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// Turns values into bytes for the tiers that keep bytes.
///
/// The bytes can have been written by another version of the application, or be damaged: [`decode`](Self::decode) must
/// not panic on any bytes, nor allocate more than a multiple of their length.
pub trait Codec<V>: Send + Sync {
    /// A number that no other codec of the application has. Those of this crate are below 64.
    fn id(&self) -> u8;

    /// Appends the bytes of `value` to `bytes`.
    ///
    /// # Errors
    /// That this value has no representation. It is then kept in memory only.
    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The value of these bytes.
    ///
    /// # Errors
    /// That they are not a value. It then counts as a miss, and the value that is loaded replaces it.
    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    // By name: the derive macros of bitcode and prost would find the modules of the same names.
    #[cfg(feature = "bitcode")]
    use super::Bitcode;
    #[cfg(feature = "json")]
    use super::Json;
    #[cfg(feature = "message-pack")]
    use super::MessagePack;
    #[cfg(feature = "postcard")]
    use super::Postcard;
    #[cfg(feature = "prost")]
    use super::Prost;
    use super::{Codec, Raw};
    #[cfg(feature = "rkyv")]
    use super::{Flat, Rkyv};

    #[cfg(feature = "prost")]
    #[derive(Clone, PartialEq, ::prost::Message)]
    struct Message {
        #[prost(uint32, tag = "1")]
        number: u32,
        #[prost(string, tag = "2")]
        name: String,
        #[prost(uint64, repeated, tag = "3")]
        parts: Vec<u64>,
    }

    #[cfg_attr(feature = "bitcode", derive(bitcode::Encode, bitcode::Decode))]
    #[cfg_attr(
        feature = "rkyv",
        derive(::rkyv::Archive, ::rkyv::Serialize),
        rkyv(derive(Debug, PartialEq))
    )]
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Value {
        number: u32,
        name: String,
        parts: Vec<u64>,
    }

    /// The value comes back, and what is left of its bytes, other bytes after them, and any bytes at all do no harm.
    fn check<V: PartialEq + std::fmt::Debug>(codec: &dyn Codec<V>, value: &V, other: &[u8]) {
        let mut bytes = b"head".to_vec();
        codec.encode(value, &mut bytes).unwrap();
        assert_eq!(&bytes[..4], b"head");
        let bytes = &bytes[4..];
        assert_eq!(codec.decode(bytes).unwrap(), *value);
        for end in 0..bytes.len() {
            let _ = codec.decode(&bytes[..end]);
        }
        let _ = codec.decode(&[bytes, other].concat());
        let _ = codec.decode(other);
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= other.first().copied().unwrap_or(1);
            let _ = codec.decode(&changed);
        }
    }

    proptest! {
        #[test]
        fn values_come_back_and_garbage_does_no_harm(
            number: u32,
            name in ".{0,20}",
            parts in proptest::collection::vec(any::<u64>(), 0..20),
            other in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            check(&Raw, &name, &other);
            check(&Raw, &other, &other);
            #[cfg(feature = "prost")]
            {
                let (name, parts) = (name.clone(), parts.clone());
                check(&Prost, &Message { number, name, parts }, &other);
            }
            let value = Value { number, name, parts };
            #[cfg(feature = "bitcode")]
            check(&Bitcode, &value, &other);
            #[cfg(feature = "json")]
            check(&Json, &value, &other);
            #[cfg(feature = "message-pack")]
            check(&MessagePack, &value, &other);
            #[cfg(feature = "postcard")]
            check(&Postcard, &value, &other);
            #[cfg(feature = "rkyv")]
            check(&Rkyv, &Flat::new(&value).unwrap(), &other);
            drop(value);
        }
    }

    #[test]
    fn codecs_have_numbers_of_their_own() {
        let mut ids = vec![Codec::<String>::id(&Raw)];
        #[cfg(feature = "bitcode")]
        ids.push(Codec::<Value>::id(&Bitcode));
        #[cfg(feature = "json")]
        ids.push(Codec::<Value>::id(&Json));
        #[cfg(feature = "message-pack")]
        ids.push(Codec::<Value>::id(&MessagePack));
        #[cfg(feature = "postcard")]
        ids.push(Codec::<Value>::id(&Postcard));
        #[cfg(feature = "prost")]
        ids.push(Codec::<Message>::id(&Prost));
        #[cfg(feature = "rkyv")]
        ids.push(Codec::<Flat<Value>>::id(&Rkyv));
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(
            ids.len() == count && ids.iter().all(|id| *id < 64),
            "{ids:?}"
        );
    }
}
