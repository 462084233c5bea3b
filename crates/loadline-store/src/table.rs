//! Values of sets and hashes: names, each with something.

use std::fmt;
use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use indexmap::map::raw_entry_v1::{RawEntryApiV1, RawEntryMut};

/// Bytes of a member, a field or a field's value.
pub type Bytes = Box<[u8]>;

/// A table with more than this many places per name shrinks.
const PLACES_PER_NAME: usize = 8;

/// The value that a [`Table`] keeps with a name.
pub trait Held {
    /// Bytes of memory that it takes outside of the table.
    fn held_bytes(&self) -> usize;
}

impl Held for () {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl Held for Bytes {
    fn held_bytes(&self) -> usize {
        self.len()
    }
}

/// Names, each with something: nothing in a set, a value in a hash.
///
/// In addition to the operations of a map, it chooses a name at random in constant time and knows how much memory it
/// takes. It gives room back as names go.
///
/// Names are in the order in which they were added. To keep it, a removal takes time in proportion to the
/// number of names, until [`relax`](Self::relax) gives the order up.
#[derive(Clone)]
pub struct Table<V> {
    /// The hasher has a seed of its own, so that no peer can aim at one place.
    entries: IndexMap<Bytes, V, DefaultHashBuilder>,
    /// Bytes of all names and of what is with them.
    held: usize,
    is_ordered: bool,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            entries: IndexMap::default(),
            held: 0,
            is_ordered: true,
        }
    }
}

impl<V: Held> Table<V> {
    /// An empty one, in order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `name` with `value`, or replaces the value of a name that is there, and returns the old one.
    pub fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        self.held += value.held_bytes();
        let hash = self.hash_of(name);
        match self.entry(hash, name) {
            RawEntryMut::Occupied(mut place) => {
                let old = place.insert(value);
                self.held -= old.held_bytes();
                Some(old)
            }
            RawEntryMut::Vacant(place) => {
                place.insert_hashed_nocheck(hash, name.into(), value);
                self.held += name.len();
                None
            }
        }
    }

    /// Adds `name` in front of the first name for which `is_behind` is true, unless it is there already.
    /// The names have to be sorted by it. Returns whether it was added.
    pub fn insert_sorted(
        &mut self,
        name: &[u8],
        value: V,
        mut is_behind: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let hash = self.hash_of(name);
        let known = self.entries.raw_entry_v1();
        if known.from_key_hashed_nocheck(hash, name).is_some() {
            return false;
        }
        let index = self.entries.partition_point(|other, _| !is_behind(other));
        self.held += name.len() + value.held_bytes();
        if let RawEntryMut::Vacant(place) = self.entry(hash, name) {
            place.shift_insert_hashed_nocheck(index, hash, name.into(), value);
        }
        true
    }

    /// Takes `name` out, with its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<V> {
        let value = if self.is_ordered {
            self.entries.shift_remove(name)
        } else {
            self.entries.swap_remove(name)
        }?;
        self.held -= name.len() + value.held_bytes();
        self.give_room_back();
        Some(value)
    }

    /// Keeps the names for which `wanted` is true.
    pub fn retain(&mut self, mut wanted: impl FnMut(&[u8], &V) -> bool) {
        let held = &mut self.held;
        self.entries.retain(|name, value| {
            let stays = wanted(name, value);
            if !stays {
                *held -= name.len() + value.held_bytes();
            }
            stays
        });
        self.give_room_back();
    }
}

impl<V> Table<V> {
    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        self.entries.get(name)
    }

    /// Whether `name` is there.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.entries.contains_key(name)
    }

    /// Gives up the order of the names, for good.
    pub fn relax(&mut self) {
        self.is_ordered = false;
    }

    /// Whether the names are in the order in which they were added.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// All names with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &V)> {
        self.entries.iter().map(|(name, value)| (&**name, value))
    }

    /// The names at these places, with their values. Going through all places from the last to the first shows each name that
    /// stays, whatever is added, replaced or removed in between: only the last name, or those behind a place that became
    /// free, get lower places.
    pub fn page(&self, places: Range<usize>) -> impl Iterator<Item = (&[u8], &V)> {
        let page = self.entries.get_range(places).into_iter().flatten();
        page.map(|(name, value)| (&**name, value))
    }

    /// A name chosen at random, with its value. `below` returns a random number below its argument; all
    /// names are as likely as its numbers are.
    pub fn choose(&self, mut below: impl FnMut(u64) -> u64) -> Option<(&[u8], &V)> {
        if self.is_empty() {
            return None;
        }
        let (name, value) = self.entries.get_index(below(self.len() as u64) as usize)?;
        Some((name, value))
    }

    /// Bytes of memory that the table, its names and values take, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.held + self.table_bytes()
    }

    /// Bytes that the table takes without names and values: for each name its place, the hash of the name,
    /// and the number of the place in an index with a byte of its own.
    fn table_bytes(&self) -> usize {
        let place = size_of::<(u64, Bytes, V)>() + size_of::<usize>() + 1;
        self.entries.capacity() * place
    }

    fn hash_of(&self, name: &[u8]) -> u64 {
        self.entries.hasher().hash_one(name)
    }

    /// The place of `name`, whose hash this is.
    fn entry(&mut self, hash: u64, name: &[u8]) -> RawEntryMut<'_, Bytes, V, DefaultHashBuilder> {
        let entries = self.entries.raw_entry_mut_v1();
        entries.from_key_hashed_nocheck(hash, name)
    }

    fn give_room_back(&mut self) {
        if self.entries.capacity() > PLACES_PER_NAME * (self.len() + 1) {
            self.entries.shrink_to(2 * self.len());
        }
    }
}

impl<V: PartialEq> PartialEq for Table<V> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<V: Eq> Eq for Table<V> {}

impl<V: fmt::Debug> fmt::Debug for Table<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'n, V: Held> FromIterator<(&'n [u8], V)> for Table<V> {
    fn from_iter<I: IntoIterator<Item = (&'n [u8], V)>>(pairs: I) -> Self {
        let mut table = Self::new();
        for (name, value) in pairs {
            table.insert(name, value);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value whose number of bytes is its own.
    fn bytes(count: u8) -> Bytes {
        vec![b'x'; count.into()].into()
    }

    fn held(table: &Table<Bytes>) -> usize {
        let each = table.iter().map(|(name, value)| name.len() + value.len());
        each.sum()
    }

    proptest! {
        /// Against a list of pairs, in order until that is given up.
        #[test]
        fn table_behaves_like_a_map(
            steps in proptest::collection::vec((any::<u8>(), any::<Option<u8>>()), 1..300),
            relaxed_at in proptest::option::of(0..300_usize),
        ) {
            let mut table = Table::new();
            let mut model: Vec<([u8; 1], Bytes)> = Vec::new();
            for (step, (name, value)) in steps.into_iter().enumerate() {
                if Some(step) == relaxed_at {
                    table.relax();
                }
                let name = [name % 50];
                let place = model.iter().position(|(other, _)| *other == name);
                match (value.map(bytes), place) {
                    (Some(value), Some(place)) => {
                        let old = std::mem::replace(&mut model[place].1, value.clone());
                        prop_assert_eq!(table.insert(&name, value), Some(old));
                    }
                    (Some(value), None) => {
                        prop_assert_eq!(table.insert(&name, value.clone()), None);
                        model.push((name, value));
                    }
                    (None, place) => {
                        let old = place.map(|place| model.remove(place).1);
                        prop_assert_eq!(table.remove(&name), old);
                    }
                }
                prop_assert_eq!(table.held, held(&table));
            }
            let mut all: Vec<_> = table.iter().collect();
            let mut wanted: Vec<_> = model.iter().map(|(name, value)| (&name[..], value)).collect();
            if !table.is_ordered() {
                all.sort_unstable();
                wanted.sort_unstable();
            }
            prop_assert_eq!(all, wanted);
            table.retain(|_, value| value.len() % 2 == 0);
            model.retain(|(_, value)| value.len() % 2 == 0);
            prop_assert_eq!(table.held, held(&table));
            prop_assert!(table == model.iter().map(|(name, value)| (&name[..], value.clone())).collect());
        }

        /// Pages from the last place to the first, with changes between them.
        #[test]
        fn names_that_stay_are_on_a_page(
            count in 1..150_u8,
            size in 1..20_usize,
            relaxes in any::<bool>(),
            changes in proptest::collection::vec((any::<bool>(), any::<u8>()), 0..100),
        ) {
            let mut table: Table<()> = (0..count).map(|name| ([name], ())).fold(Table::new(), |mut table, (name, ())| {
                table.insert(&name, ());
                table
            });
            if relaxes {
                table.relax();
            }
            let (mut stay, mut seen): (Vec<u8>, Vec<u8>) = ((0..count).collect(), Vec::new());
            let (mut end, mut changes) = (table.len(), changes.into_iter());
            while end > 0 {
                end = end.min(table.len());
                let begin = end.saturating_sub(size);
                seen.extend(table.page(begin..end).map(|(name, ())| name[0]));
                end = begin;
                for (adds, name) in changes.by_ref().take(3) {
                    if adds {
                        table.insert(&[name], ());
                    } else {
                        table.remove(&[name]);
                        stay.retain(|other| *other != name);
                    }
                }
            }
            for name in stay {
                prop_assert!(seen.contains(&name), "{name} of {seen:?}");
            }
        }

        #[test]
        fn sorted_names_stay_sorted(names in proptest::collection::btree_set(any::<u16>(), 0..100), salt in any::<u16>()) {
            let mut table = Table::new();
            let mut shuffled: Vec<u16> = names.iter().copied().collect();
            shuffled.sort_by_key(|name| (name ^ salt).wrapping_mul(0x9E37));
            for name in shuffled {
                for is_new in [true, false] {
                    let added = table.insert_sorted(&name.to_be_bytes(), (), |other| other > &name.to_be_bytes()[..]);
                    prop_assert_eq!(added, is_new);
                }
            }
            prop_assert_eq!(table.held, 2 * names.len());
            let all: Vec<u16> = table.iter().map(|(name, ())| u16::from_be_bytes(name.try_into().unwrap())).collect();
            prop_assert_eq!(all, names.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_name_is_chosen_as_often_as_the_others() {
        let mut table = Table::new();
        for name in 0..10_u8 {
            table.insert(&[name], ());
        }
        // A multiplicative generator; its high bits are even enough.
        let mut state = 1_u64;
        let mut below = |end: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % end
        };
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            let (name, ()) = table.choose(&mut below).unwrap();
            counts[usize::from(name[0])] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1_150).contains(count)),
            "{counts:?}"
        );
        assert!(Table::<()>::new().choose(below).is_none());
    }

    #[test]
    fn names_that_go_leave_no_room_behind() {
        let mut table = Table::new();
        table.relax();
        for name in 0..100_000_u32 {
            table.insert(&name.to_le_bytes(), ());
        }
        let full = table.table_bytes();
        for name in 0..99_990_u32 {
            assert!(table.remove(&name.to_le_bytes()).is_some());
        }
        assert!(
            table.table_bytes() < full / 1_000,
            "{} of {full}",
            table.table_bytes()
        );
        assert_eq!(table.len(), 10);
    }
}
