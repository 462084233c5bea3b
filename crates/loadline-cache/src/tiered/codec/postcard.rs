use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// postcard, by serde: compact and without the names of fields, so that any change of a type is a new schema version.
#[derive(Debug, Clone, Copy, Default)]
pub struct Postcard;

const ID: u8 = 3;

impl<V: Serialize + DeserializeOwned> Codec<V> for Postcard {
    fn id(&self) -> u8 {
        ID
    }

    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        *bytes = ::postcard::to_extend(value, std::mem::take(bytes))?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        let (value, rest) = ::postcard::take_from_bytes(bytes)?;
        match rest {
            [] => Ok(value),
            _ => Err("bytes follow the value".into()),
        }
    }
}
