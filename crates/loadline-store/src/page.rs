//! A page of records, each behind the stamp of the last access to its entry.

use crate::age::{AccessMetric, STAMP_BYTES, Stamp, UNKNOWN, since_origin};
use crate::record::Record;

/// Bits of a record's place that say where in its page it begins.
pub(crate) const OFFSET_BITS: u32 = 11;
/// Bytes of a page; with those of the allocator they are a power of two. They are 24 keys of 16 bytes with values of 64.
pub(crate) const PAGE_BYTES: usize = (1 << OFFSET_BITS) - 8;
/// Garbage of a page from which on its records move.
const MOST_GARBAGE: usize = PAGE_BYTES / 4;

#[derive(Debug, Default, Clone)]
pub(crate) struct Page {
    /// Records and their stamps.
    pub(crate) records: Vec<u8>,
    /// The origin of the stamps.
    pub(crate) origin: u32,
    /// Bytes of records that went, and of their stamps.
    pub(crate) garbage: u32,
}

impl Page {
    pub(crate) fn live_bytes(&self) -> usize {
        self.records.len() - self.garbage as usize
    }

    pub(crate) fn has_much_garbage(&self) -> bool {
        self.garbage as usize > MOST_GARBAGE
    }

    /// The stamp of the record that begins at `begin`.
    #[inline]
    pub(crate) fn stamp(&self, access: AccessMetric, begin: usize) -> Stamp {
        let bits = &self.records[begin - STAMP_BYTES..];
        let bits = bits.first_chunk().expect("a stamp lies before a record");
        access.decode(self.origin, u16::from_le_bytes(*bits))
    }

    pub(crate) fn set_stamp(&mut self, access: AccessMetric, begin: usize, stamp: Stamp) {
        let bits = self.bits_of(access, stamp);
        self.set_bits(begin, bits);
    }

    /// Sets the stamp of an access at this second where times are kept.
    #[inline]
    pub(crate) fn set_time(&mut self, begin: usize, second: u32) {
        match since_origin(self.origin, second) {
            Some(bits) => self.set_bits(begin, bits),
            None => self.set_stamp(AccessMetric::Time, begin, Stamp::At(second)),
        }
    }

    /// Appends a stamp, for a record that follows.
    #[inline]
    pub(crate) fn append_stamp(&mut self, access: AccessMetric, stamp: Stamp) {
        let usual = match (access, stamp) {
            (AccessMetric::Time, Stamp::At(second)) => since_origin(self.origin, second),
            (AccessMetric::Time, Stamp::Unknown) => Some(UNKNOWN),
            _ => None,
        };
        let bits = usual.unwrap_or_else(|| self.bits_of(access, stamp));
        self.records.extend_from_slice(&bits.to_le_bytes());
    }

    /// Writes all stamps for another origin, and for another fact.
    pub(crate) fn stamp_anew(&mut self, from: AccessMetric, to: AccessMetric, origin: u32) {
        let mut begin = STAMP_BYTES;
        while begin < self.records.len() {
            let bytes = Record::read(&self.records[begin..]).bytes().len();
            // Only a clock that was set back has given a later stamp than the new one.
            let bits = to.encode(origin, self.stamp(from, begin));
            self.set_bits(begin, bits.unwrap_or(u16::MAX));
            begin += bytes + STAMP_BYTES;
        }
        self.origin = origin;
    }

    #[inline]
    fn set_bits(&mut self, begin: usize, bits: u16) {
        self.records[begin - STAMP_BYTES..begin].copy_from_slice(&bits.to_le_bytes());
    }

    /// The bytes of a stamp, for which the page gets another origin if it needs one.
    fn bits_of(&mut self, access: AccessMetric, stamp: Stamp) -> u16 {
        if let Some(bits) = access.encode(self.origin, stamp) {
            return bits;
        }
        let origin = access.origin(stamp);
        self.stamp_anew(access, access, origin);
        access.encode(origin, stamp).unwrap_or(u16::MAX)
    }
}
