use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// MessagePack, by serde. Structs are maps with the names of their fields, so that fields can be added.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessagePack;

const ID: u8 = 2;

impl<V: Serialize + DeserializeOwned> Codec<V> for MessagePack {
    fn id(&self) -> u8 {
        ID
    }

    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        rmp_serde::encode::write_named(bytes, value)?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        Ok(rmp_serde::from_slice(bytes)?)
    }
}
