//! Payloads: sizes, and contents that can be verified when they are read.

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Zipf};

use crate::Error;

/// The number of bytes of a payload that depend on its key.
pub const STAMP_BYTES: usize = 8;

/// The size of payloads, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueSize {
    /// One size.
    Fixed(u64),
    /// Uniform between both ends, inclusive.
    Range(u64, u64),
    /// Zipfian (exponent 0.99) between both ends, small sizes more often.
    Zipf(u64, u64),
}

impl ValueSize {
    /// The largest possible size.
    #[must_use]
    pub fn max(&self) -> u64 {
        match *self {
            Self::Fixed(size) | Self::Range(_, size) | Self::Zipf(_, size) => size,
        }
    }
}

/// Whether payloads can be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueData {
    /// Random bytes: nothing to compress.
    #[default]
    Random,
    /// A short repeated text, which compresses to almost nothing.
    Compressible,
    /// Random bytes, always with some that are difficult for clients and protocols: NUL, line ends, invalid
    /// UTF-8 and RESP markers.
    Binary,
}

/// The bytes after the stamp in every payload of [`ValueData::Binary`], as far as they fit.
pub const AWKWARD_BYTES: &[u8] = b"\0\r\n$-1\r\n\xFF\xFE\0*3\r\n";

/// The payload of every key, as a pure function of seed, key number and size rule, so that values can be
/// verified without storing them.
///
/// A payload is a shared block of filler, cut to the key's size, with its first [`STAMP_BYTES`] replaced by
/// the stamp of the key.
#[derive(Debug, Clone)]
pub struct Values {
    size: ValueSize,
    zipf: Option<Zipf<f64>>,
    filler: Vec<u8>,
    seed: u64,
}

impl Values {
    /// Prepares payloads of `size`.
    ///
    /// # Errors
    /// [`Error::Plan`] if a range is reversed or a payload exceeds 512 MiB.
    pub fn new(size: ValueSize, data: ValueData, seed: u64) -> Result<Self, Error> {
        const LARGEST: u64 = 512 << 20;
        if size.max() > LARGEST {
            return Err(Error::Plan(format!(
                "a value of {} bytes is above the limit of 512 MiB",
                size.max()
            )));
        }
        let zipf = match size {
            ValueSize::Range(low, high) | ValueSize::Zipf(low, high) if low > high => {
                return Err(Error::Plan(format!(
                    "invalid value sizes {low}..{high}: the first must not be larger than the second"
                )));
            }
            ValueSize::Zipf(low, high) => Some(
                Zipf::new((high - low + 1) as f64, 0.99)
                    .map_err(|error| Error::Plan(format!("value sizes: {error}")))?,
            ),
            _ => None,
        };
        let mut filler = vec![0; size.max() as usize];
        match data {
            ValueData::Random => SmallRng::seed_from_u64(seed).fill_bytes(&mut filler),
            ValueData::Binary => {
                SmallRng::seed_from_u64(seed).fill_bytes(&mut filler);
                let behind = filler.iter_mut().skip(STAMP_BYTES);
                behind
                    .zip(AWKWARD_BYTES)
                    .for_each(|(byte, awkward)| *byte = *awkward);
            }
            ValueData::Compressible => {
                for (byte, text) in filler.iter_mut().zip(b"loadline ".iter().cycle()) {
                    *byte = *text;
                }
            }
        }
        Ok(Self {
            size,
            zipf,
            filler,
            seed,
        })
    }

    /// The size of all payloads, if they have the same size.
    #[must_use]
    pub fn fixed_size(&self) -> Option<usize> {
        match self.size {
            ValueSize::Fixed(size) => Some(size as usize),
            ValueSize::Range(low, high) | ValueSize::Zipf(low, high) => {
                (low == high).then_some(low as usize)
            }
        }
    }

    /// The size of the payload of `key`, in bytes.
    #[must_use]
    pub fn size_of(&self, key: u64) -> usize {
        let sized = || SmallRng::seed_from_u64(mix(key ^ self.seed));
        match self.size {
            ValueSize::Fixed(size) => size as usize,
            ValueSize::Range(low, high) => sized().random_range(low..=high) as usize,
            ValueSize::Zipf(low, _) => {
                let zipf = self
                    .zipf
                    .as_ref()
                    .expect("prepared with the zipf size rule");
                low as usize + zipf.sample(&mut sized()) as usize - 1
            }
        }
    }

    /// The stamp of `key`.
    #[inline]
    #[must_use]
    pub fn stamp(&self, key: u64) -> [u8; STAMP_BYTES] {
        mix(key ^ self.seed).to_le_bytes()
    }

    /// The filler of payloads, at least `bytes` long if a payload of that size is possible.
    #[must_use]
    pub fn filler(&self, bytes: usize) -> &[u8] {
        &self.filler[..bytes]
    }

    /// The size of the largest payload, in bytes.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.filler.len()
    }

    /// Appends the payload of `key` to `out`.
    pub fn append(&self, key: u64, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(self.filler(self.size_of(key)));
        self.write_stamp(key, &mut out[at..]);
    }

    /// Writes the stamp of `key` over the start of a payload, as far as it fits.
    #[inline]
    pub fn write_stamp(&self, key: u64, payload: &mut [u8]) {
        if let Some(head) = payload.first_chunk_mut::<STAMP_BYTES>() {
            *head = self.stamp(key);
        } else {
            let bytes = payload.len();
            payload.copy_from_slice(&self.stamp(key)[..bytes]);
        }
    }

    /// Whether `payload` equals the payload of `key`.
    #[must_use]
    pub fn matches(&self, key: u64, payload: &[u8]) -> bool {
        let bytes = self.size_of(key);
        let head = bytes.min(STAMP_BYTES);
        payload.len() == bytes
            && payload[..head] == self.stamp(key)[..head]
            && payload[head..] == self.filler[head..bytes]
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::{REJECTED_BELOW, chi_square_p};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn appended_value_matches_its_own_check_only(key in 0_u64..1_000, low in 0_u64..40, more in 0_u64..40, seed: u64) {
            for size in [ValueSize::Fixed(low), ValueSize::Range(low, low + more), ValueSize::Zipf(low, low + more)] {
                let values = Values::new(size, ValueData::Random, seed).unwrap();
                let mut payload = Vec::new();
                values.append(key, &mut payload);
                prop_assert!(payload.len() as u64 >= low && payload.len() as u64 <= low + more);
                prop_assert!(values.matches(key, &payload));
                if let Some(last) = payload.last_mut() {
                    *last ^= 1;
                    prop_assert!(!values.matches(key, &payload));
                    payload.pop();
                    prop_assert!(!values.matches(key, &payload));
                }
            }
        }
    }

    /// Compares every size with its exact share, including both ends.
    #[test]
    fn sizes_follow_their_rule() {
        for size in [ValueSize::Range(16, 75), ValueSize::Zipf(16, 75)] {
            let values = Values::new(size.clone(), ValueData::Compressible, 3).unwrap();
            let mut counts = [0; 60];
            for key in 0..200_000 {
                counts[values.size_of(key) - 16] += 1;
            }
            let zipf = |rank: i32| f64::from(rank).powf(-0.99);
            let shares: Vec<f64> = match size {
                ValueSize::Zipf(..) => (1..=60).map(zipf).collect(),
                _ => vec![1.0; 60],
            };
            let p = chi_square_p(&counts, &shares);
            assert!(p > REJECTED_BELOW, "{size:?}: p = {p}");
        }
    }

    #[test]
    fn payloads_differ_between_keys() {
        let values = Values::new(ValueSize::Zipf(16, 1_024), ValueData::Compressible, 3).unwrap();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        values.append(1, &mut a);
        values.append(2, &mut b);
        assert_ne!(a[..STAMP_BYTES], b[..STAMP_BYTES]);
    }

    #[test]
    fn binary_payloads_hold_what_is_awkward() {
        let values = Values::new(ValueSize::Fixed(512), ValueData::Binary, 3).unwrap();
        let mut payload = Vec::new();
        values.append(7, &mut payload);
        let behind = &payload[STAMP_BYTES..];
        assert!(behind.starts_with(AWKWARD_BYTES));
        assert!(values.matches(7, &payload));
        assert!(std::str::from_utf8(&payload).is_err());
        let short = Values::new(ValueSize::Fixed(10), ValueData::Binary, 3).unwrap();
        payload.clear();
        short.append(7, &mut payload);
        assert_eq!(payload[STAMP_BYTES..], AWKWARD_BYTES[..2]);
    }

    #[test]
    fn upside_down_and_oversized_values_are_refused() {
        assert!(Values::new(ValueSize::Range(2, 1), ValueData::Random, 0).is_err());
        assert!(Values::new(ValueSize::Fixed(1 << 40), ValueData::Random, 0).is_err());
    }
}
