//! The object that the tiers of a cache keep: the floor of a game, or bytes of the user.

mod compression;
pub(crate) mod encoding;
mod floor;

use std::fmt;

use loadline_cache::codec::Flat;

pub(crate) use compression::Compression;
pub(crate) use encoding::Encoding;
pub(crate) use floor::{Floor, LONGEST_SIDE, SIDE};

/// An object in memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Object {
    Floor(Floor),
    /// A floor that is read in place.
    Flat(Flat<Floor>),
    Bytes(Vec<u8>),
}

/// The encoding of an object for the tiers that keep bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) encoding: Encoding,
    pub(crate) compression: Option<Compression>,
}

impl Object {
    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Floor(floor) => floor.bytes(),
            Self::Flat(floor) => (size_of::<Self>() + floor.bytes().len()) as u64,
            Self::Bytes(bytes) => (size_of::<Self>() + bytes.len()) as u64,
        }
    }
}

impl Format {
    /// Without compression.
    pub(crate) const fn plain(encoding: Encoding) -> Self {
        Self {
            encoding,
            compression: None,
        }
    }

    /// Appends the bytes of `object`. Compressed ones follow the length of the plain ones.
    ///
    /// # Errors
    /// The error of the codec.
    pub(crate) fn encode(self, object: &Object, bytes: &mut Vec<u8>) -> Result<(), String> {
        let Some(compression) = self.compression else {
            return self.encode_plain(object, bytes);
        };
        let mut plain = Vec::new();
        self.encode_plain(object, &mut plain)?;
        let length = u32::try_from(plain.len()).map_err(|_| "the object has more than 4 GiB")?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&compression.compress(&plain)?);
        Ok(())
    }

    fn encode_plain(self, object: &Object, bytes: &mut Vec<u8>) -> Result<(), String> {
        match object {
            Object::Floor(floor) => self.encoding.encode(floor, bytes),
            Object::Flat(floor) => {
                bytes.extend_from_slice(floor.bytes());
                Ok(())
            }
            Object::Bytes(own) => {
                bytes.extend_from_slice(own);
                Ok(())
            }
        }
    }

    /// The object of `bytes`, which [`encode`](Self::encode) of this run has written.
    ///
    /// # Errors
    /// That they are none.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Object, String> {
        let Some(compression) = self.compression else {
            return self.encoding.decode(bytes);
        };
        let (length, packed) = bytes
            .split_first_chunk::<4>()
            .ok_or("the bytes are not a compressed object")?;
        let plain = compression.decompress(packed, u32::from_le_bytes(*length) as usize)?;
        self.encoding.decode(&plain)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.encoding)?;
        self.compression
            .map_or(Ok(()), |compression| write!(f, "+{compression}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_objects_are_restored() {
        let floor = Object::Floor(Floor::generate(40, 40, 5));
        let own = Object::Bytes(vec![7; 5_000]);
        for compression in Compression::ALL {
            for (object, encoding) in [(&floor, Encoding::Postcard), (&own, Encoding::Raw)] {
                let format = Format {
                    encoding,
                    compression: Some(*compression),
                };
                let mut bytes = Vec::new();
                format.encode(object, &mut bytes).unwrap();
                assert!((bytes.len() as u64) < object.bytes());
                assert_eq!(&format.decode(&bytes).unwrap(), object);
                assert!(format.decode(&bytes[..3]).is_err());
            }
        }
        assert_eq!(Format::plain(Encoding::Columns).to_string(), "columns");
    }
}
