//! The memory of a shard: its records in pages, and what lies outside of them.
//!
//! A record is appended to the open page. One that goes leaves garbage behind, and when a quarter of a page is
//! garbage, its other records are moved to the open page and its memory is freed. That is some 20 records, so no
//! operation waits for long, however many keys there are.
//!
//! Pages have one size, so that the memory of one fits the next. One piece of memory for each shard, growing by an
//! eighth, was measured with a million keys: the allocator could not use the pieces that growing left behind, and a
//! key took 131 bytes instead of 98.
//!
//! The stamp of the last access lies before each record, and counts from the origin of its page. The place of a record is that
//! of its first byte, behind the stamp.

use std::hash::BuildHasher;
use std::sync::Arc;

use crate::age::{AccessMetric, STAMP_BYTES, Stamp};
use crate::index::Index;
use crate::page::{OFFSET_BITS, PAGE_BYTES, Page};
use crate::record::{self, LONGEST, MOST_USES, Notes, Outside, Part, Record};
use crate::slab::{Held, Slab};
use crate::slot::{Loose, New, Slot};
use crate::storage::prefetch;
use crate::value::Entry;

/// Bytes of the first page of a shard at first, since most shards of a small keyspace hold a few records.
const FIRST_BYTES: usize = 240;

#[derive(Debug, Default, Clone)]
#[repr(C)]
pub(crate) struct Arena {
    pages: Vec<Page>,
    /// The page that records are appended to.
    open: usize,
    /// Pages without memory.
    holes: usize,
    /// Whether a page has much garbage.
    is_due: bool,
    /// The fact in the stamps.
    access: AccessMetric,
    slab: Slab,
    /// Bytes of values that are in the log only.
    outside_bytes: u64,
    /// Bytes of all records that are not garbage.
    live_bytes: usize,
}

impl Arena {
    #[inline]
    pub(crate) fn slot(&self, at: u32) -> Slot<'_> {
        Slot {
            record: Record::read(self.bytes(at)),
            slab: &self.slab,
        }
    }

    /// The bytes of a page from a record on.
    #[inline]
    fn bytes(&self, at: u32) -> &[u8] {
        &self.pages[(at >> OFFSET_BITS) as usize].records[offset(at)..]
    }

    /// Brings the first lines of the record at `at` into the cache of the processor. It waits for the address of the page.
    #[inline]
    pub(crate) fn warm(&self, at: u32) {
        const LINE_BYTES: usize = 64;
        let bytes = self.bytes(at);
        let lines = bytes.iter().step_by(LINE_BYTES).take(3);
        lines.for_each(prefetch);
    }

    /// Brings the address of the page of the record at `at` into the cache of the processor.
    #[inline]
    pub(crate) fn warm_page(&self, at: u32) {
        prefetch(&self.pages[(at >> OFFSET_BITS) as usize].garbage);
    }

    /// Brings the addresses of the first pages into the cache of the processor.
    #[inline]
    pub(crate) fn warm_pages(&self) {
        /// Pages whose addresses lie in one line of the cache.
        const LINE_PAGES: usize = 64 / size_of::<Page>();
        /// Those of a shard of a million keys, with usual values.
        const LINES: usize = 8;
        let pages = self.pages.iter().step_by(LINE_PAGES).take(LINES);
        pages.for_each(|page| prefetch(&page.garbage));
    }

    #[inline]
    fn bytes_mut(&mut self, at: u32) -> &mut [u8] {
        &mut self.pages[(at >> OFFSET_BITS) as usize].records[offset(at)..]
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            access: self.access,
            ..Self::default()
        };
    }

    /// Keeps this fact in the stamps from now on, which is a time in milliseconds since the Unix epoch.
    pub(crate) fn keep(&mut self, access: AccessMetric, now: u64) {
        if access != self.access {
            let origin = access.origin(Stamp::new(access, now));
            for page in &mut self.pages {
                page.stamp_anew(self.access, access, origin);
            }
            self.access = access;
        }
    }

    /// The stamp of the record at `at`.
    #[inline]
    pub(crate) fn stamp(&self, at: u32) -> Stamp {
        let page = &self.pages[(at >> OFFSET_BITS) as usize];
        page.stamp(self.access, offset(at))
    }

    pub(crate) fn set_stamp(&mut self, at: u32, stamp: Stamp) {
        let page = &mut self.pages[(at >> OFFSET_BITS) as usize];
        page.set_stamp(self.access, offset(at), stamp);
    }

    /// Sets the stamp of an access at this second where times are kept.
    #[inline]
    pub(crate) fn set_time(&mut self, at: u32, second: u32) {
        let page = &mut self.pages[(at >> OFFSET_BITS) as usize];
        page.set_time(offset(at), second);
    }

    /// Appends a record and returns its place.
    pub(crate) fn add(&mut self, key: &[u8], new: New<'_>, uses: u8, stamp: Stamp) -> u32 {
        let key = self.part(key);
        let mut notes = Notes {
            uses,
            ..Notes::default()
        };
        let outside_value;
        let (value, is_text) = match new {
            New::String(text) => {
                notes.expires_at = text.expires_at;
                (self.part(text.bytes), text.is_text)
            }
            New::Sorted(bytes, expires_at) => {
                notes.expires_at = expires_at;
                notes.is_sorted = true;
                (self.part(bytes), false)
            }
            New::Outside(outside, expires_at) => {
                notes.expires_at = expires_at;
                notes.is_outside = true;
                self.outside_bytes += u64::from(outside.bytes);
                outside_value = record::outside_value(outside);
                (Part::Inline(&outside_value[..]), false)
            }
            New::Entry(entry) => {
                let place = self.slab.insert(Held::Entry(entry));
                (Part::Held(place), false)
            }
        };
        let bytes = record::bytes_of(key, value, notes);
        let access = self.access;
        let at = self.reserve(bytes, || access.origin(stamp));
        let page = &mut self.pages[self.open];
        page.append_stamp(access, stamp);
        record::append(&mut page.records, key, value, notes);
        debug_assert_eq!(page.records.len(), offset(at) + bytes);
        self.live_bytes += bytes;
        if is_text {
            self.keep_as_text(at);
        }
        at
    }

    /// A key, a string or a packed sorted set as a part of a record, outside of it if it is long.
    fn part<'b>(&mut self, bytes: &'b [u8]) -> Part<'b> {
        if bytes.len() <= LONGEST {
            return Part::Inline(bytes);
        }
        Part::Held(self.slab.insert(Held::Bytes(bytes.into())))
    }

    /// Makes room for a stamp and a record in the open page, or opens another one with this origin. Returns where the record
    /// begins.
    fn reserve(&mut self, record_bytes: usize, origin: impl FnOnce() -> u32) -> u32 {
        let bytes = STAMP_BYTES + record_bytes;
        let used = self.pages.get(self.open).map(|page| page.records.len());
        if used.is_none_or(|used| used + bytes > PAGE_BYTES) {
            self.open_page(bytes, origin());
        }
        let page = &mut self.pages[self.open];
        let used = page.records.len();
        if page.records.capacity() < used + bytes {
            page.records.reserve_exact(PAGE_BYTES - used);
        }
        u32::try_from(self.open << OFFSET_BITS | (used + STAMP_BYTES))
            .expect("a shard has less than 4 GiB of short keys and values")
    }

    fn open_page(&mut self, bytes: usize, origin: u32) {
        if let Some(page) = self.pages.get(self.open) {
            self.is_due |= page.has_much_garbage();
        }
        let capacity = match self.pages.len() {
            0 if bytes <= FIRST_BYTES => FIRST_BYTES,
            _ => PAGE_BYTES,
        };
        let page = Page {
            records: Vec::with_capacity(capacity),
            origin,
            garbage: 0,
        };
        let is_hole = |page: &Page| page.records.capacity() == 0;
        match self.pages.iter().position(is_hole) {
            Some(hole) if self.holes > 0 => {
                self.pages[hole] = page;
                self.open = hole;
                self.holes -= 1;
            }
            _ => {
                self.open = self.pages.len();
                self.pages.reserve_exact(1 + self.pages.len() / 8);
                self.pages.push(page);
            }
        }
    }

    /// Frees what belongs to a record, which is garbage from then on.
    pub(crate) fn discard(&mut self, at: u32) {
        let record = Record::read(self.bytes(at));
        let held = [record.key(), record.value()].map(|part| match part {
            Part::Inline(_) => None,
            Part::Held(place) => Some(place),
        });
        self.waste(at);
        for place in held.into_iter().flatten() {
            self.slab.remove(place);
        }
    }

    /// Makes a record garbage.
    fn waste(&mut self, at: u32) {
        let bytes = self.bytes_mut(at);
        record::set_garbage(bytes);
        let record = Record::read(bytes);
        let wasted = record.bytes().len();
        let outside = record.outside().map_or(0, |outside| outside.bytes);
        self.outside_bytes -= u64::from(outside);
        let number = (at >> OFFSET_BITS) as usize;
        let page = &mut self.pages[number];
        page.garbage += (STAMP_BYTES + wasted) as u32;
        self.live_bytes -= wasted;
        self.is_due |= page.has_much_garbage() && number != self.open;
    }

    /// Takes the value out of a record, which is garbage from then on.
    pub(crate) fn release(&mut self, at: u32) -> Loose {
        let record = Record::read(self.bytes(at));
        let Part::Held(place) = record.value() else {
            let loose = self.slot(at).to_loose();
            self.discard(at);
            return loose;
        };
        let (expires_at, is_text) = (record.expires_at(), record.is_text());
        let is_sorted = record.is_sorted();
        let key = match record.key() {
            Part::Inline(_) => None,
            Part::Held(place) => Some(place),
        };
        self.waste(at);
        key.map(|place| self.slab.remove(place));
        match self.slab.remove(place) {
            Held::Entry(entry) => Loose::Entry(entry),
            Held::Bytes(bytes) if is_sorted => Loose::Sorted {
                bytes: bytes.to_vec(),
                expires_at,
            },
            Held::Bytes(bytes) => Loose::String {
                bytes: bytes.to_vec(),
                expires_at,
                is_text,
            },
            Held::Free { .. } => unreachable!("the record of a free place is gone"),
        }
    }

    /// Counts a use of an entry.
    #[inline]
    pub(crate) fn touch(&mut self, at: u32) {
        let bytes = self.bytes_mut(at);
        let uses = Record::read(bytes).uses();
        if uses < MOST_USES {
            record::set_uses(bytes, uses + 1);
        }
    }

    /// Sets the uses of an entry to this count, unless they are more.
    #[inline]
    pub(crate) fn raise_uses(&mut self, at: u32, count: u8) {
        let bytes = self.bytes_mut(at);
        if Record::read(bytes).uses() < count {
            record::set_uses(bytes, count);
        }
    }

    /// Takes as much from the uses of an entry.
    pub(crate) fn forget_uses(&mut self, at: u32, count: u8) {
        let bytes = self.bytes_mut(at);
        let uses = Record::read(bytes).uses();
        record::set_uses(bytes, uses.saturating_sub(count));
    }

    /// Sets the expiry in place and says whether it could.
    pub(crate) fn set_expiry(&mut self, at: u32, expires_at: Option<u64>) -> bool {
        let set = |entry: Option<&mut Entry>| entry.map(|entry| entry.expires_at = expires_at);
        if self.change(at, set).is_ok() {
            return true;
        }
        record::set_expiry(self.bytes_mut(at), expires_at)
    }

    /// Puts a string in the place of one of the same length and says whether it could.
    pub(crate) fn set_string(&mut self, at: u32, bytes: &[u8], expires_at: Option<u64>) -> bool {
        let page = &mut self.pages[(at >> OFFSET_BITS) as usize];
        let record = &mut page.records[offset(at)..];
        let old = Record::read(record);
        let is_string = old.outside().is_none() && !old.is_sorted();
        if expires_at.is_some() && !old.has_expiry_field() || !is_string {
            return false;
        }
        let begin = old.places().1;
        match old.value() {
            Part::Inline(old) if old.len() == bytes.len() => {
                record[begin..begin + bytes.len()].copy_from_slice(bytes);
            }
            Part::Inline(_) => return false,
            Part::Held(place) => {
                let Held::Bytes(old) = self.slab.get_mut(place) else {
                    return false;
                };
                // A snapshot may share it.
                match Arc::get_mut(old) {
                    Some(old) if old.len() == bytes.len() => old.copy_from_slice(bytes),
                    _ => return false,
                }
            }
        }
        record::set_text(record, false);
        record::set_expiry(record, expires_at)
    }

    /// Sets where the value of an entry lies that is in the log only.
    pub(crate) fn set_outside(&mut self, at: u32, outside: Outside) {
        record::set_outside(self.bytes_mut(at), outside);
    }

    /// Bytes that the entries take in the log when they are written anew; of collections, those that they take in
    /// memory.
    pub(crate) fn logged_bytes(&self) -> u64 {
        (self.live_bytes + self.slab.held_bytes()) as u64 + self.outside_bytes
    }

    /// Marks a string that lies in one piece as text.
    pub(crate) fn keep_as_text(&mut self, at: u32) {
        if self.slot(at).held_entry().is_none() {
            record::set_text(self.bytes_mut(at), true);
        }
    }

    /// Shows a value that changes in place to `change`, and returns `Err` with it for one that does not.
    pub(crate) fn change<R, C: FnOnce(Option<&mut Entry>) -> R>(
        &mut self,
        at: u32,
        change: C,
    ) -> Result<R, C> {
        let Part::Held(place) = Record::read(self.bytes(at)).value() else {
            return Err(change);
        };
        let held = self.slab.get_mut(place);
        let was = held.held_bytes();
        let Held::Entry(entry) = held else {
            return Err(change);
        };
        let result = change(Some(Arc::make_mut(entry)));
        let is = held.held_bytes();
        self.slab.resize(was, is);
        Ok(result)
    }

    /// Gives back the memory of what went, where it is much. The places of records change.
    #[inline]
    pub(crate) fn tidy(&mut self, index: &mut Index, hasher: &impl BuildHasher) {
        if index.is_empty() {
            if !self.pages.is_empty() {
                self.clear();
            }
            return;
        }
        if self.is_due {
            self.free_pages(index, hasher);
        }
        if self.slab.is_sparse() {
            self.compact_slab(index);
        }
    }

    /// Moves the records out of pages with much garbage.
    #[cold]
    fn free_pages(&mut self, index: &mut Index, hasher: &impl BuildHasher) {
        self.is_due = false;
        for number in 0..self.pages.len() {
            if number == self.open || !self.pages[number].has_much_garbage() {
                continue;
            }
            // Its number must not serve again while records with places in it are in the index.
            let reserved = Page {
                records: Vec::with_capacity(1),
                ..Page::default()
            };
            let page = std::mem::replace(&mut self.pages[number], reserved);
            let mut begin = STAMP_BYTES;
            while begin < page.records.len() {
                let record = Record::read(&page.records[begin..]);
                let bytes = record.bytes();
                if !record.is_garbage() {
                    let from = (number << OFFSET_BITS | begin) as u32;
                    let slot = Slot {
                        record,
                        slab: &self.slab,
                    };
                    let hash = hasher.hash_one(slot.key());
                    let to = self.reserve(bytes.len(), || page.origin);
                    let open = &mut self.pages[self.open];
                    if open.origin == page.origin {
                        let whole = begin - STAMP_BYTES..begin + bytes.len();
                        open.records.extend_from_slice(&page.records[whole]);
                    } else {
                        let stamp = page.stamp(self.access, begin);
                        open.append_stamp(self.access, stamp);
                        open.records.extend_from_slice(bytes);
                    }
                    index.replace(hash, from, to);
                }
                begin += bytes.len() + STAMP_BYTES;
            }
            self.pages[number] = Page::default();
            self.holes += 1;
        }
        while self
            .pages
            .last()
            .is_some_and(|page| page.records.capacity() == 0)
        {
            self.pages.pop();
            self.holes -= 1;
        }
        if self.pages.capacity() > 8 && self.pages.capacity() > 4 * self.pages.len() {
            self.pages.shrink_to_fit();
        }
    }

    /// Moves what is in the slab to a smaller one.
    #[cold]
    fn compact_slab(&mut self, index: &Index) {
        let mut slab = Slab::default();
        for at in index.iter() {
            let record = Record::read(self.bytes(at));
            let (key, value) = record.places();
            let held =
                [(record.key(), key), (record.value(), value)].map(|(part, offset)| match part {
                    Part::Inline(_) => None,
                    Part::Held(place) => Some((place, offset)),
                });
            for (place, offset) in held.into_iter().flatten() {
                let place = slab.insert(self.slab.remove(place)).to_le_bytes();
                self.bytes_mut(at)[offset..offset + place.len()].copy_from_slice(&place);
            }
        }
        self.slab = slab;
    }

    /// Counts again what a caller that panicked left uncounted.
    pub(crate) fn recount(&mut self) {
        self.slab.recount();
    }

    /// Bytes of the records and of what they hold, without garbage and free places.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        let live = self.pages.iter().map(Page::live_bytes);
        live.sum::<usize>() + self.slab.held_bytes()
    }

    /// Addresses of its pages, with their bytes.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (usize, usize)> {
        let records = self.pages.iter().map(|page| &page.records);
        records.map(|records| (records.as_ptr().addr(), records.capacity()))
    }

    /// Bytes of memory that it takes, without what an allocator adds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let open = self.pages.get(self.open);
        let open = open.map_or(0, |page| page.records.capacity());
        open + self.others_bytes()
    }

    /// The same, but of the open page only what is in use: what shrinks with every record that goes.
    #[inline]
    pub(crate) fn charged_bytes(&self) -> usize {
        self.pages.get(self.open).map_or(0, Page::live_bytes) + self.others_bytes()
    }

    /// Bytes by which the lists of pages and places grow at most, for a few records of `bytes` bytes.
    pub(crate) fn growth_bytes(&self, bytes: usize) -> usize {
        let pages = self.pages.len() + 1 + bytes / (PAGE_BYTES / 2);
        let mut grown = self.slab.growth_bytes();
        if pages > self.pages.capacity() {
            let capacity = pages.max(2 * self.pages.capacity()).max(4);
            grown += (capacity - self.pages.capacity()) * size_of::<Page>();
        }
        grown
    }

    fn others_bytes(&self) -> usize {
        let closed = self.pages.len().saturating_sub(self.holes + 1);
        closed * PAGE_BYTES
            + self.pages.capacity() * size_of::<Page>()
            + self.slab.places_bytes()
            + self.slab.held_bytes()
    }
}

/// Where in its page a record begins.
#[inline]
fn offset(at: u32) -> usize {
    (at & ((1 << OFFSET_BITS) - 1)) as usize
}
