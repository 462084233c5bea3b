use super::{Codec, CodecError};

/// Protocol Buffers, by prost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prost;

const ID: u8 = 4;

impl<V: ::prost::Message + Default> Codec<V> for Prost {
    fn id(&self) -> u8 {
        ID
    }

    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        value.encode(bytes)?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        Ok(V::decode(bytes)?)
    }
}
