//! Where the records of a shard's keys are, found by their hashes.
//!
//! A line of 64 bytes holds the places of twelve records, and a byte of the hash of each key. So a key is found with one
//! access to the memory besides that of its record; in the usual table, hashes and places lie apart, which is two, the
//! second of which waits for the first. The record shows whether it is the right one.
//!
//! A key whose line is full goes to the next one with room, and each full line counts how many went past it. A search
//! ends at a line that none has passed.

use crate::storage::prefetch;

/// Places in a line.
const SLOTS: usize = 12;
/// Distance between the first positions of two lines.
const STRIDE: usize = 16;
/// Bytes before the places: one for each of them, and the count of those that went past.
const TAG_BYTES: usize = 16;
/// Where a line counts those that went past it.
const PAST: usize = SLOTS;
/// A count that does not change any more, since it can be too small.
const MANY: u8 = u8::MAX;
/// Lines of an index that has shrunk.
const LEAST_LINES: usize = 2;
/// Entries for each line from which on the index grows.
const MOST_PER_LINE: usize = 10;

/// Some places, with the tags of their keys.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    /// A byte of each key's hash, 0 for a place that is free; then the count of those that went past.
    tags: [u8; TAG_BYTES],
    places: [u32; SLOTS],
}

impl Line {
    const EMPTY: Self = Self {
        tags: [0; TAG_BYTES],
        places: [0; SLOTS],
    };

    /// The slot of the first place with this tag that `is_it` accepts.
    #[inline]
    fn slot(&self, tag: u8, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let (halves, _) = self.tags.as_chunks();
        for (first, half) in (0..SLOTS).step_by(8).zip(halves) {
            let mut equal = equal_bytes(u64::from_le_bytes(*half), tag);
            while equal != 0 {
                let slot = first + equal.trailing_zeros() as usize / 8;
                // Behind the tags is the count.
                let place = self.places.get(slot);
                if place.is_some_and(|place| is_it(*place)) {
                    return Some(slot);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    #[inline]
    fn is_passed(&self) -> bool {
        self.tags[PAST] != 0
    }
}

/// An index; the entries in it are places of records.
#[derive(Debug, Default, Clone)]
#[repr(C)]
pub(crate) struct Index {
    lines: Box<[Line]>,
    len: u32,
    /// For each place, the oldest segment of the log in which something of the entry lies; empty without a log. A sweep
    /// finds what it has to copy here, and reads no other record.
    segments: Box<[[u32; SLOTS]]>,
}

/// Where a key is in the index: the number of its line times [`STRIDE`], and its place in it.
pub(crate) type Position = usize;

/// The highest bit of each of the eight `bytes` that equals `byte`.
#[inline]
fn equal_bytes(bytes: u64, byte: u8) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differs = bytes ^ u64::from_ne_bytes([byte; 8]);
    !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS)
}

/// A byte of the hash that says of most keys that they are others.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

/// Lines of an index of `lines` lines that has grown.
fn grown(lines: usize) -> usize {
    lines + (lines / 2).max(1)
}

impl Index {
    /// Bytes of memory of an index from which all entries went.
    pub(crate) const LEAST_BYTES: usize = LEAST_LINES * size_of::<(Line, [u32; SLOTS])>();

    /// The line at which the search for a key with this hash begins.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        // The lower half of the hash as a part of all lines.
        (((hash & u64::from(u32::MAX)) * self.lines.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() {
            0
        } else {
            line + 1
        }
    }

    /// Brings the line of a key with this hash into the cache of the processor.
    #[inline]
    pub(crate) fn warm(&self, hash: u64) {
        if let Some(line) = self.lines.get(self.home(hash)) {
            prefetch(&line.tags);
        }
    }

    /// Brings the segment of a key with this hash into the cache of the processor.
    #[inline]
    pub(crate) fn warm_segment(&self, hash: u64) {
        // Those of a line can lie in two lines of the cache.
        if let Some([first, .., last]) = self.segments.get(self.home(hash)) {
            prefetch(first);
            prefetch(last);
        }
    }

    /// The position of the entry for this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn position(
        &self,
        hash: u64,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> Option<Position> {
        let tag = tag(hash);
        let mut number = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = &self.lines[number];
            if let Some(slot) = line.slot(tag, &mut is_it) {
                return Some(number * STRIDE + slot);
            }
            if !line.is_passed() {
                return None;
            }
            number = self.after(number);
        }
        None
    }

    /// The entry for this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let position = self.position(hash, is_it)?;
        Some(self.lines[position / STRIDE].places[position % STRIDE])
    }

    /// The position of `place`, which is that of a key with this hash.
    #[inline]
    pub(crate) fn position_of(&self, hash: u64, place: u32) -> Option<Position> {
        self.position(hash, |other| other == place)
    }

    /// The entry at a position, if there is one.
    #[inline]
    pub(crate) fn get(&self, position: Position) -> Option<u32> {
        let line = self.lines.get(position / STRIDE)?;
        let place = line.places.get(position % STRIDE)?;
        (line.tags[position % STRIDE] != 0).then_some(*place)
    }

    /// Puts `to` in the place of `from`, which is that of a key with this hash. Its segment stays.
    pub(crate) fn replace(&mut self, hash: u64, from: u32, to: u32) {
        if let Some(position) = self.position_of(hash, from) {
            self.lines[position / STRIDE].places[position % STRIDE] = to;
        }
    }

    /// Adds an entry, which lies in `segment` of the log, or in none if that is 0. `hash_of` says the hash of one that is
    /// there.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        place: u32,
        segment: u32,
        hash_of: impl Fn(u32) -> u64,
    ) {
        if self.len() >= MOST_PER_LINE * self.lines.len() {
            self.resize(grown(self.lines.len()), hash_of);
        }
        self.add(hash, place, segment);
    }

    /// The segment of the entry at a position; 0 for none.
    fn segment(&self, position: Position) -> u32 {
        let segments = self.segments.get(position / STRIDE);
        let segment = segments.and_then(|segments| segments.get(position % STRIDE));
        segment.copied().unwrap_or(0)
    }

    /// Sets the segment of the entry at a position; 0 for none.
    #[inline]
    pub(crate) fn set_segment(&mut self, position: Position, segment: u32) {
        if self.segments.len() < self.lines.len() {
            if segment == 0 {
                return;
            }
            self.segments = vec![[0; SLOTS]; self.lines.len()].into_boxed_slice();
        }
        self.segments[position / STRIDE][position % STRIDE] = segment;
    }

    /// The entries that lie in a segment before `until`, with their positions.
    pub(crate) fn entries_before(&self, until: u32) -> impl Iterator<Item = (Position, u32)> {
        // Most lines have none. One comparison for each entry, without a branch, skips them.
        let is_before = move |segment: &u32| segment.wrapping_sub(1) < until.saturating_sub(1);
        let has_some = move |segments: &[u32; SLOTS]| {
            let count: u32 = segments
                .iter()
                .map(|segment| u32::from(is_before(segment)))
                .sum();
            count > 0
        };
        let lines = self.segments.iter().enumerate();
        let lines = lines.filter(move |(_, segments)| has_some(segments));
        lines.flat_map(move |(line, segments)| {
            let slots = (0..SLOTS).filter(move |slot| is_before(&segments[*slot]));
            slots.filter_map(move |slot| {
                let position = line * STRIDE + slot;
                Some((position, self.get(position)?))
            })
        })
    }

    /// Adds an entry for which there is room.
    fn add(&mut self, hash: u64, place: u32, segment: u32) {
        let mut number = self.home(hash);
        loop {
            let line = &mut self.lines[number];
            if let Some(slot) = line.slot(0, |_| true) {
                (line.tags[slot], line.places[slot]) = (tag(hash), place);
                self.set_segment(number * STRIDE + slot, segment);
                break;
            }
            line.tags[PAST] = line.tags[PAST].saturating_add(1);
            number = self.after(number);
        }
        self.len += 1;
    }

    /// Removes the entry at a position, which is that of a key with this hash.
    pub(crate) fn remove(&mut self, hash: u64, position: Position) {
        let last = position / STRIDE;
        self.lines[last].tags[position % STRIDE] = 0;
        self.len -= 1;
        let mut number = self.home(hash);
        while number != last {
            let past = &mut self.lines[number].tags[PAST];
            if *past != MANY {
                *past -= 1;
            }
            number = self.after(number);
        }
    }

    /// Reserves space for `entries` additional entries.
    pub(crate) fn reserve(&mut self, entries: usize, hash_of: impl Fn(u32) -> u64) {
        let lines = (self.len() + entries).div_ceil(MOST_PER_LINE);
        if lines > self.lines.len() {
            self.resize(lines, hash_of);
        }
    }

    /// Gives back the room of entries that went, where it is most of it. Two lines stay: a shard of a keyspace
    /// with usual settings has so few keys that eviction would often meet an index that has just become smaller, and its
    /// hand would be behind the end.
    pub(crate) fn shrink(&mut self, hash_of: impl Fn(u32) -> u64) {
        /// An index with more than this many places per key shrinks.
        const PLACES_PER_KEY: usize = 8;
        if self.lines.len() > LEAST_LINES
            && self.lines.len() * SLOTS > PLACES_PER_KEY * (self.len() + 1)
        {
            let lines = (2 * self.len()).div_ceil(MOST_PER_LINE);
            self.resize(lines.max(LEAST_LINES), hash_of);
        }
    }

    fn resize(&mut self, lines: usize, hash_of: impl Fn(u32) -> u64) {
        let empty = vec![Line::EMPTY; lines].into_boxed_slice();
        let old = Self {
            lines: std::mem::replace(&mut self.lines, empty),
            len: std::mem::take(&mut self.len),
            segments: std::mem::take(&mut self.segments),
        };
        for (position, place) in old.entries() {
            self.add(hash_of(place), place, old.segment(position));
        }
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.entries().map(|(_, place)| place)
    }

    /// All entries with their positions.
    fn entries(&self) -> impl Iterator<Item = (Position, u32)> {
        (0..self.positions()).filter_map(|position| Some((position, self.get(position)?)))
    }

    /// Positions are below this.
    pub(crate) fn positions(&self) -> usize {
        self.lines.len() * STRIDE
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Addresses of its parts, with their bytes.
    pub(crate) fn addresses(&self) -> [(usize, usize); 2] {
        [
            (self.lines.as_ptr().addr(), size_of_val(&*self.lines)),
            (self.segments.as_ptr().addr(), size_of_val(&*self.segments)),
        ]
    }

    /// Bytes by which it grows for as many entries more.
    pub(crate) fn growth_bytes(&self, entries: usize) -> usize {
        let mut lines = self.lines.len();
        while self.len() + entries > MOST_PER_LINE * lines {
            lines = grown(lines);
        }
        (lines - self.lines.len()) * (size_of::<Line>() + size_of::<[u32; SLOTS]>())
    }

    /// Bytes of memory that it takes, without what an allocator adds.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16),
        Remove(u16),
        Replace(u16),
        Shrink,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..600_u16).prop_map(Step::Insert),
            3 => (0..600_u16).prop_map(Step::Remove),
            1 => (0..600_u16).prop_map(Step::Replace),
            1 => Just(Step::Shrink),
        ];
        proptest::collection::vec(step, 1..800)
    }

    /// Two places in one have the same hash, and the hashes of many others resemble each other.
    fn hash_of(place: u32, few: bool) -> u64 {
        let number = u64::from(place % 600 / 2);
        if few {
            ((number % 7) << 56) | (number % 3)
        } else {
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }
    }

    fn segment_of(place: u32) -> u32 {
        place % 600 % 5
    }

    proptest! {
        #[test]
        fn index_holds_its_entries(steps in steps(), few in any::<bool>()) {
            let mut index = Index::default();
            // By number, with the place, which is the number or that plus 600.
            let mut model: BTreeSet<u32> = BTreeSet::new();
            let hash = |place: u32| hash_of(place, few);
            let held = |model: &BTreeSet<u32>, number: u16| {
                let number = u32::from(number);
                [number, number + 600].into_iter().find(|place| model.contains(place))
            };
            for step in steps {
                match step {
                    Step::Insert(number) => {
                        if held(&model, number).is_none() {
                            let place = u32::from(number);
                            index.insert(hash(place), place, segment_of(place), hash);
                            model.insert(place);
                        }
                    }
                    Step::Remove(number) => {
                        if let Some(place) = held(&model, number) {
                            let position = index.position_of(hash(place), place).unwrap();
                            prop_assert_eq!(index.get(position), Some(place));
                            index.remove(hash(place), position);
                            prop_assert_eq!(index.get(position), None);
                            model.remove(&place);
                        }
                    }
                    Step::Replace(number) => {
                        if let Some(from) = held(&model, number) {
                            let to = (from + 600) % 1_200;
                            index.replace(hash(from), from, to);
                            model.remove(&from);
                            model.insert(to);
                        }
                    }
                    Step::Shrink => index.shrink(hash),
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for place in 0..1_200 {
                let found = index.find(hash(place), |other| other == place);
                prop_assert_eq!(found.is_some(), model.contains(&place), "{}", place);
            }
            let all: BTreeSet<u32> = index.iter().collect();
            prop_assert_eq!(&all, &model);
            for until in 0..6 {
                let before = |place: &u32| (1..until).contains(&segment_of(*place));
                let before: BTreeSet<u32> = model.iter().copied().filter(before).collect();
                let found = index.entries_before(until).map(|(_, place)| place);
                prop_assert_eq!(found.collect::<BTreeSet<u32>>(), before);
            }
        }
    }

    #[test]
    fn line_that_many_went_past_forgets_it_when_it_grows_only() {
        let mut index = Index::default();
        index.reserve(2_000, |_| 0);
        for place in 0..1_000 {
            index.insert(0, place, 0, |_| 0);
        }
        for place in 0..1_000 {
            let position = index.position_of(0, place).unwrap();
            index.remove(0, position);
        }
        assert!(index.is_empty());
        assert_eq!(index.lines[0].tags[PAST], MANY);
        assert_eq!(index.find(0, |_| true), None);
        let hash = |place: u32| u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        index.reserve(3_000, hash);
        assert!(index.lines.iter().all(|line| !line.is_passed()));
    }

    #[test]
    fn equal_bytes_are_found_wherever_they_are() {
        for byte in [0, 1, 0x7f, 0x80, 0x81, 0xff] {
            for others in [0, 1, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff] {
                for place in 0..8 {
                    let mut bytes = [others; 8];
                    bytes[place] = byte;
                    bytes[(place + 5) % 8] = byte;
                    let bit = |at: usize| u64::from(bytes[at] == byte) << (8 * at + 7);
                    let expected = (0..8).fold(0, |bits, at| bits | bit(at));
                    assert_eq!(equal_bytes(u64::from_le_bytes(bytes), byte), expected);
                }
            }
        }
    }

    #[test]
    fn line_is_a_line_of_the_cache() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
    }
}
