use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// JSON, by serde: readable with `redis-cli`, and the slowest here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

const ID: u8 = 1;

impl<V: Serialize + DeserializeOwned> Codec<V> for Json {
    fn id(&self) -> u8 {
        ID
    }

    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        serde_json::to_writer(bytes, value)?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
