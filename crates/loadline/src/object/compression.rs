//! Compression of encoded objects.

use std::fmt;

/// The compression of encoded objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    #[cfg(feature = "zstd")]
    Zstd,
}

/// The limit of a value in Redis. What is declared is allocated, so it has one.
const MOST_PLAIN_BYTES: usize = 512 << 20;
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;

impl Compression {
    /// Those of this build.
    pub(crate) const ALL: &[Self] = &[
        Self::Lz4,
        #[cfg(feature = "zstd")]
        Self::Zstd,
    ];

    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            #[cfg(feature = "zstd")]
            Self::Zstd => "zstd",
        }
    }

    /// The compressed form of `plain`.
    ///
    /// # Errors
    /// The error of the library.
    pub(crate) fn compress(self, plain: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Lz4 => Ok(lz4_flex::compress(plain)),
            #[cfg(feature = "zstd")]
            Self::Zstd => {
                zstd::bulk::compress(plain, ZSTD_LEVEL).map_err(|error| error.to_string())
            }
        }
    }

    /// The bytes that were compressed, of which there were `plain_bytes`.
    ///
    /// # Errors
    /// That there were fewer or are too many, and what the library says.
    pub(crate) fn decompress(self, packed: &[u8], plain_bytes: usize) -> Result<Vec<u8>, String> {
        if plain_bytes > MOST_PLAIN_BYTES {
            return Err(format!("{plain_bytes} bytes are more than an object has"));
        }
        let plain = match self {
            Self::Lz4 => {
                lz4_flex::decompress(packed, plain_bytes).map_err(|error| error.to_string())
            }
            #[cfg(feature = "zstd")]
            Self::Zstd => {
                zstd::bulk::decompress(packed, plain_bytes).map_err(|error| error.to_string())
            }
        }?;
        if plain.len() == plain_bytes {
            Ok(plain)
        } else {
            Err("the compressed object is not complete".into())
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_object_is_restored() {
        let plain: Vec<u8> = (0..10_000_u32).map(|place| (place / 7) as u8).collect();
        for compression in Compression::ALL {
            let packed = compression.compress(&plain).unwrap();
            assert!(packed.len() < plain.len());
            assert_eq!(compression.decompress(&packed, plain.len()).unwrap(), plain);
            let half = &packed[..packed.len() / 2];
            assert!(compression.decompress(half, plain.len()).is_err());
            assert!(compression.decompress(&packed, usize::MAX).is_err());
        }
    }
}
