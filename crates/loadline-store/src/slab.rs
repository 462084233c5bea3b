//! Values outside the records of a shard: long strings, long keys, and values that change in place.

use std::sync::Arc;

use crate::value::Entry;

/// The end of the list of free places.
const NONE: u32 = u32::MAX;

/// Counts of owners that lie before what they share.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// Something that has a place of its own. It is shared with snapshots, which copy nothing but the pointer.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    Free {
        next: u32,
    },
    /// A key, a string as it was put, or a packed sorted set.
    Bytes(Arc<[u8]>),
    /// A collection, or a string that grows.
    Entry(Arc<Entry>),
}

impl Held {
    /// Bytes that it takes outside of the slab, without what an allocator adds.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Free { .. } => 0,
            Self::Bytes(bytes) => COUNTS_BYTES + bytes.len(),
            Self::Entry(entry) => COUNTS_BYTES + size_of::<Entry>() + entry.value.held_bytes(),
        }
    }
}

/// Places that keep their number, and a list of the free ones.
#[derive(Debug, Clone)]
pub(crate) struct Slab {
    places: Vec<Held>,
    free: u32,
    used: usize,
    /// Bytes that the values take outside of the places.
    held_bytes: usize,
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: NONE,
            used: 0,
            held_bytes: 0,
        }
    }
}

impl Slab {
    pub(crate) fn insert(&mut self, held: Held) -> u32 {
        self.used += 1;
        self.held_bytes += held.held_bytes();
        if self.free == NONE {
            self.places.push(held);
            let place = u32::try_from(self.places.len() - 1);
            return place.expect("fewer places than records, whose places are u32");
        }
        let place = self.free;
        if let Held::Free { next } = std::mem::replace(&mut self.places[place as usize], held) {
            self.free = next;
        }
        place
    }

    pub(crate) fn remove(&mut self, place: u32) -> Held {
        let free = Held::Free { next: self.free };
        let held = std::mem::replace(&mut self.places[place as usize], free);
        self.free = place;
        self.used -= 1;
        self.held_bytes -= held.held_bytes();
        held
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Held {
        &self.places[place as usize]
    }

    /// The place for a change after which [`resize`](Self::resize) is called.
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Held {
        &mut self.places[place as usize]
    }

    /// Counts what holds other bytes than before.
    pub(crate) fn resize(&mut self, was: usize, is: usize) {
        self.held_bytes = self.held_bytes + is - was;
    }

    /// Counts everything again.
    pub(crate) fn recount(&mut self) {
        self.held_bytes = self.places.iter().map(Held::held_bytes).sum();
    }

    /// Whether most of it is free places.
    pub(crate) fn is_sparse(&self) -> bool {
        self.places.capacity() > 8 && self.places.capacity() > 4 * self.used
    }

    /// Bytes that are in use, without those of the places.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes by which the places grow for one more, at most.
    pub(crate) fn growth_bytes(&self) -> usize {
        match self.used < self.places.capacity() {
            true => 0,
            false => self.places.capacity().max(4) * size_of::<Held>(),
        }
    }

    /// Bytes of the places, used or not.
    pub(crate) fn places_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Held>()
    }
}
