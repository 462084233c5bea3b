use ::bitcode::{DecodeOwned, Encode};

use super::{Codec, CodecError};

/// bitcode: compact, and the fastest here for values of many parts, whose fields it writes column by column. The bytes are
/// those of one version of bitcode and of a type, so that any change of either is a new schema version.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bitcode;

const ID: u8 = 5;

impl<V: Encode + DecodeOwned> Codec<V> for Bitcode {
    fn id(&self) -> u8 {
        ID
    }

    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        bytes.extend_from_slice(&::bitcode::encode(value));
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        Ok(::bitcode::decode(bytes)?)
    }
}
