//! Values that are objects: encoded before they are written and decoded after they are read. Both are timed
//! separately within the call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use loadline_load::values::ValueSize;

use crate::codec::{Codec, Objects};
use crate::plan::Case;

/// The objects of a case, and the time spent on their encoding since the last reading.
#[derive(Debug)]
pub(crate) struct Typed {
    codec: Codec,
    objects: Objects,
    mean_bytes: f64,
    encoding: Spent,
    decoding: Spent,
}

/// Time spent on a number of objects.
#[derive(Debug, Default)]
struct Spent {
    ns: AtomicU64,
    objects: AtomicU64,
}

/// Average cost of a value, besides the call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CodecCost {
    /// Time to encode a value; `None` if none was written.
    pub(crate) encode_ns: Option<u64>,
    /// Time to decode a value; `None` if none was read.
    pub(crate) decode_ns: Option<u64>,
    /// Bytes of an encoded value.
    pub(crate) encoded_bytes: f64,
}

impl Typed {
    /// The objects of `case`, if its values are objects.
    pub(super) fn of(case: &Case, seed: u64) -> Option<Self> {
        let codec = case.codec?;
        let (ValueSize::Fixed(bytes) | ValueSize::Range(_, bytes) | ValueSize::Zipf(_, bytes)) =
            case.value_size;
        let objects = Objects::new(case.keys, bytes, seed);
        Some(Self {
            codec,
            mean_bytes: objects.mean_bytes(codec),
            objects,
            encoding: Spent::default(),
            decoding: Spent::default(),
        })
    }

    /// Encodes the object of each key into the buffer of that key. All are timed with one pair of clock readings,
    /// because a pair for each would distort a short encoding.
    pub(super) fn encode<'b>(&self, values: impl Iterator<Item = (u64, &'b mut Vec<u8>)>) {
        let begun = Instant::now();
        let mut count = 0;
        for (key, bytes) in values {
            *bytes = self.codec.encode(self.objects.of_key(key));
            count += 1;
        }
        self.encoding.add(begun, count);
    }

    /// Decodes the value of each key.
    ///
    /// # Errors
    /// If a value is not the object of its key.
    pub(super) fn decode<'b>(
        &self,
        values: impl Iterator<Item = (u64, &'b [u8])>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let mut count = 0;
        for (key, bytes) in values {
            let codec = self.codec;
            let player = codec
                .decode(bytes)
                .map_err(|why| format!("MISMATCH a value is not a player as {codec}: {why}"))?;
            if player.id != self.objects.of_key(key).id {
                return Err("MISMATCH a value is the object of another key".into());
            }
            count += 1;
        }
        self.decoding.add(begun, count);
        Ok(())
    }

    /// The cost since the last call of this method.
    pub(crate) fn take(&self) -> CodecCost {
        CodecCost {
            encode_ns: self.encoding.take(),
            decode_ns: self.decoding.take(),
            encoded_bytes: self.mean_bytes,
        }
    }
}

impl Spent {
    fn add(&self, begun: Instant, objects: u64) {
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.ns.fetch_add(ns, Ordering::Relaxed);
        self.objects.fetch_add(objects, Ordering::Relaxed);
    }

    /// The mean per object; resets the sums.
    fn take(&self) -> Option<u64> {
        let ns = self.ns.swap(0, Ordering::Relaxed);
        ns.checked_div(self.objects.swap(0, Ordering::Relaxed))
    }
}
