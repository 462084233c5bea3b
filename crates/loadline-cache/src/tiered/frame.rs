//! Frames, the bytes that a tier keeps: a value with the data needed to judge it.
//!
//! Numbers are little-endian.
//!
//! ```text
//! offset  bytes
//!      0      2  "Lc"
//!      2      1  version of this format: 1
//!      3      1  bits 0 and 1: compression (0 none, 1 LZ4, 2 Zstandard); bit 2: no such object; others 0
//!      4      1  codec
//!      5      3  0
//!      8      4  schema version of the value
//!     12      4  length of the value before compression
//!     16      8  when its load began, microseconds since 1970
//!     24      8  its time to live, microseconds; all ones: no end
//!     32      8  end of its time to live, microseconds since 1970; all ones: no end
//!     40      4  CRC-32C of the key, bytes 0 to 39, and the body
//!     44         body
//! ```
//!
//! The checksum is there because many bytes that no codec wrote decode to some value. It includes the key, so a value that
//! was stored under another key is not used.

use crate::tiered::codec::{Codec, CodecError};

pub(crate) const HEADER_BYTES: usize = 44;
const MAGIC: [u8; 2] = *b"Lc";
const VERSION: u8 = 1;
const COMPRESSION_BITS: u8 = 0b11;
const ABSENT_BIT: u8 = 0b100;
/// Where the checksum begins.
const CHECKSUM_AT: usize = 40;

/// Compression of bodies above a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// LZ4: fast.
    #[cfg(feature = "lz4")]
    #[cfg_attr(docsrs, doc(cfg(feature = "lz4")))]
    Lz4,
    /// Zstandard at this level (1 to 22): smaller.
    #[cfg(feature = "zstd")]
    #[cfg_attr(docsrs, doc(cfg(feature = "zstd")))]
    Zstd(i32),
}

const NONE: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// The format in which frames are written and that they must have to be accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    pub(crate) schema: u32,
    pub(crate) compression: Compression,
    /// Smaller bodies are not compressed.
    pub(crate) compress_above: usize,
    /// The most bytes that a value may have before compression. It bounds what decoding allocates.
    pub(crate) max_value_bytes: usize,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            schema: 0,
            compression: Compression::None,
            compress_above: 1_024,
            max_value_bytes: 64 << 20,
        }
    }
}

/// When a value was loaded and how long it may be used, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) stamp: u64,
    pub(crate) ttl: u64,
    /// Since 1970.
    pub(crate) fresh_until: u64,
}

/// The reason why a frame is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Damaged, or never a frame.
    Damaged,
    /// Of another format, codec or schema version.
    OtherVersion,
}

/// Encodes a value, or its absence.
pub(crate) fn encode<V>(
    format: &Format,
    codec: &dyn Codec<V>,
    key: &[u8],
    value: Option<&V>,
    times: Times,
) -> Result<Vec<u8>, CodecError> {
    let mut frame = vec![0; HEADER_BYTES];
    if let Some(value) = value {
        codec.encode(value, &mut frame)?;
    }
    let plain_bytes = frame.len() - HEADER_BYTES;
    if plain_bytes > format.max_value_bytes || u32::try_from(plain_bytes).is_err() {
        return Err("the value is larger than the format allows".into());
    }
    let mut flags = NONE;
    if plain_bytes > format.compress_above
        && let Some((kind, packed)) = compress(format.compression, &frame[HEADER_BYTES..])?
        && packed.len() < plain_bytes
    {
        flags = kind;
        frame.truncate(HEADER_BYTES);
        frame.extend_from_slice(&packed);
    }
    if value.is_none() {
        flags |= ABSENT_BIT;
    }
    frame[..2].copy_from_slice(&MAGIC);
    frame[2] = VERSION;
    frame[3] = flags;
    frame[4] = codec.id();
    frame[8..12].copy_from_slice(&format.schema.to_le_bytes());
    frame[12..16].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    frame[16..24].copy_from_slice(&times.stamp.to_le_bytes());
    frame[24..32].copy_from_slice(&times.ttl.to_le_bytes());
    frame[32..40].copy_from_slice(&times.fresh_until.to_le_bytes());
    let checksum = checksum(key, &frame);
    frame[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(frame)
}

/// Decodes a frame.
pub(crate) fn decode<V>(
    format: &Format,
    codec: &dyn Codec<V>,
    key: &[u8],
    frame: &[u8],
) -> Result<(Option<V>, Times), Refused> {
    if frame.len() < HEADER_BYTES || frame[..2] != MAGIC {
        return Err(Refused::Damaged);
    }
    if frame[2] != VERSION {
        return Err(Refused::OtherVersion);
    }
    let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().expect("8 bytes"));
    let short = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
    if short(CHECKSUM_AT) != checksum(key, frame) {
        return Err(Refused::Damaged);
    }
    if frame[4] != codec.id() || short(8) != format.schema {
        return Err(Refused::OtherVersion);
    }
    let times = Times {
        stamp: number(16),
        ttl: number(24),
        fresh_until: number(32),
    };
    let flags = frame[3];
    if flags & ABSENT_BIT != 0 {
        return Ok((None, times));
    }
    let body = &frame[HEADER_BYTES..];
    let plain_bytes = short(12) as usize;
    if plain_bytes > format.max_value_bytes {
        return Err(Refused::Damaged);
    }
    let value = match flags & COMPRESSION_BITS {
        NONE => codec.decode(body),
        LZ4 => codec.decode(&unpack_lz4(body, plain_bytes)?),
        ZSTD => codec.decode(&unpack_zstd(body, plain_bytes)?),
        _ => return Err(Refused::OtherVersion),
    };
    Ok((Some(value.map_err(|_| Refused::Damaged)?), times))
}

/// When the load of a value began, by the frame that was encoded here.
pub(crate) fn stamp_of(frame: &[u8]) -> Option<u64> {
    let stamp = frame.get(16..24)?.try_into().ok()?;
    Some(u64::from_le_bytes(stamp))
}

fn checksum(key: &[u8], frame: &[u8]) -> u32 {
    let checksum = crc32c::crc32c(key);
    let checksum = crc32c::crc32c_append(checksum, &frame[..CHECKSUM_AT]);
    crc32c::crc32c_append(checksum, &frame[HEADER_BYTES..])
}

/// The number of the compression, and the smaller bytes.
fn compress(compression: Compression, plain: &[u8]) -> Result<Option<(u8, Vec<u8>)>, CodecError> {
    #[cfg(not(any(feature = "lz4", feature = "zstd")))]
    let _ = plain;
    Ok(match compression {
        Compression::None => None,
        #[cfg(feature = "lz4")]
        Compression::Lz4 => Some((LZ4, lz4_flex::block::compress(plain))),
        #[cfg(feature = "zstd")]
        Compression::Zstd(level) => Some((ZSTD, zstd::bulk::compress(plain, level)?)),
    })
}

/// An application without the feature reads a compressed value as one of another version.
#[cfg(not(feature = "lz4"))]
fn unpack_lz4(_: &[u8], _: usize) -> Result<Vec<u8>, Refused> {
    Err(Refused::OtherVersion)
}

#[cfg(feature = "lz4")]
fn unpack_lz4(body: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Refused> {
    let plain = lz4_flex::block::decompress(body, plain_bytes).map_err(|_| Refused::Damaged)?;
    exact(plain, plain_bytes)
}

#[cfg(not(feature = "zstd"))]
fn unpack_zstd(_: &[u8], _: usize) -> Result<Vec<u8>, Refused> {
    Err(Refused::OtherVersion)
}

#[cfg(feature = "zstd")]
fn unpack_zstd(body: &[u8], plain_bytes: usize) -> Result<Vec<u8>, Refused> {
    let plain = zstd::bulk::decompress(body, plain_bytes).map_err(|_| Refused::Damaged)?;
    exact(plain, plain_bytes)
}

#[cfg(any(feature = "lz4", feature = "zstd"))]
fn exact(plain: Vec<u8>, plain_bytes: usize) -> Result<Vec<u8>, Refused> {
    match plain.len() == plain_bytes {
        true => Ok(plain),
        false => Err(Refused::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::codec::Raw;
    use super::*;

    const TIMES: Times = Times {
        stamp: 1,
        ttl: 2,
        fresh_until: u64::MAX,
    };

    fn formats() -> Vec<Format> {
        let compressions = [
            Compression::None,
            #[cfg(feature = "lz4")]
            Compression::Lz4,
            #[cfg(feature = "zstd")]
            Compression::Zstd(1),
        ];
        let format = |compression| Format {
            compression,
            compress_above: 100,
            max_value_bytes: 10_000,
            schema: 3,
        };
        compressions.into_iter().map(format).collect()
    }

    fn read(
        format: &Format,
        key: &[u8],
        frame: &[u8],
    ) -> Result<(Option<Vec<u8>>, Times), Refused> {
        decode(format, &Raw as &dyn Codec<Vec<u8>>, key, frame)
    }

    fn write(format: &Format, value: Option<&Vec<u8>>) -> Vec<u8> {
        encode(format, &Raw, b"k", value, TIMES).unwrap()
    }

    #[test]
    fn values_come_back_and_large_ones_are_compressed() {
        for format in formats() {
            for value in [vec![], vec![7; 100], vec![7; 5_000]] {
                let frame = write(&format, Some(&value));
                let is_small = frame.len() < HEADER_BYTES + 5_000;
                assert_eq!(
                    is_small,
                    value.len() < 5_000 || format.compression != Compression::None
                );
                assert_eq!(read(&format, b"k", &frame), Ok((Some(value), TIMES)));
            }
            assert_eq!(
                read(&format, b"k", &write(&format, None)),
                Ok((None, TIMES))
            );
        }
    }

    #[test]
    fn another_schema_key_or_codec_is_refused() {
        let format = formats()[0];
        let frame = write(&format, Some(&b"v".to_vec()));
        let newer = Format {
            schema: 4,
            ..format
        };
        assert_eq!(read(&newer, b"k", &frame), Err(Refused::OtherVersion));
        assert_eq!(read(&format, b"other", &frame), Err(Refused::Damaged));
        let mut other = frame.clone();
        other[2] = 2;
        assert_eq!(read(&format, b"k", &other), Err(Refused::OtherVersion));
        assert!(encode(&format, &Raw, b"k", Some(&vec![0; 10_001]), TIMES).is_err());
    }

    /// A frame whose checksum is right and whose lengths are not, as an attacker could write it.
    #[test]
    fn declared_length_does_not_decide_what_is_allocated() {
        for format in formats() {
            let mut frame = write(&format, Some(&vec![7; 5_000]));
            for length in [0_u32, 4_999, 5_001, 10_001, u32::MAX] {
                frame[12..16].copy_from_slice(&length.to_le_bytes());
                let sum = checksum(b"k", &frame);
                frame[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
                let result = read(&format, b"k", &frame);
                if format.compression != Compression::None || length > 10_000 {
                    assert_eq!(result, Err(Refused::Damaged), "{length}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for format in formats() {
                prop_assert!(read(&format, b"k", &bytes).is_err());
            }
        }

        #[test]
        fn changed_byte_is_noticed(at in 0_usize..500, by in 1_u8..) {
            for format in formats() {
                let value: Vec<u8> = (0..200).collect();
                let mut frame = write(&format, Some(&value));
                let at = at % frame.len();
                frame[at] ^= by;
                prop_assert!(read(&format, b"k", &frame).is_err());
            }
        }
    }
}
