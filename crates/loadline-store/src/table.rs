//! What a set or a hash holds: names, each with something.

use std::fmt;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Bytes of a member, a field or a field's value.
pub type Bytes = Box<[u8]>;

/// Places that a random choice tries before it takes the next one that is taken.
const TRIES: u64 = 64;

/// A table that has more than so many places for every name gets smaller.
const PLACES_PER_NAME: usize = 8;

/// Names without order, each with something: nothing in a set, a value in a hash.
///
/// Beside what a map does, it chooses a name at random in constant time, for which the standard maps
/// have to be walked. To keep it so, it gives room back as names go.
#[derive(Clone, Default)]
pub struct Table<V> {
    places: HashTable<(Bytes, V)>,
    /// With a seed of its own, so that nobody can aim at one place.
    hasher: DefaultHashBuilder,
}

impl<V> Table<V> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What stands with `name`.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        let hash = self.hasher.hash_one(name);
        let place = self.places.find(hash, |place| *place.0 == *name);
        place.map(|(_, value)| value)
    }

    /// Whether `name` is there.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// Puts `value` with `name` and returns what stood there.
    pub fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        let hash = self.hasher.hash_one(name);
        if let Some((_, old)) = self.places.find_mut(hash, |place| *place.0 == *name) {
            return Some(std::mem::replace(old, value));
        }
        let hash_of = |place: &(Bytes, V)| self.hasher.hash_one(&*place.0);
        self.places
            .insert_unique(hash, (name.into(), value), hash_of);
        None
    }

    /// Takes `name` out, with what stands there.
    pub fn remove(&mut self, name: &[u8]) -> Option<V> {
        let hash = self.hasher.hash_one(name);
        let place = self.places.find_entry(hash, |place| *place.0 == *name);
        let ((_, value), _) = place.ok()?.remove();
        self.give_room_back();
        Some(value)
    }

    /// Keeps what `wanted` is true of.
    pub fn retain(&mut self, mut wanted: impl FnMut(&[u8], &V) -> bool) {
        self.places.retain(|(name, value)| wanted(name, value));
        self.give_room_back();
    }

    /// All names with what stands there, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &V)> {
        self.places.iter().map(|(name, value)| (&**name, value))
    }

    /// A name chosen at random, with what stands there. `below` returns a random number below its
    /// argument; all names are as likely as its numbers are.
    pub fn choose(&self, mut below: impl FnMut(u64) -> u64) -> Option<(&[u8], &V)> {
        let count = self.places.num_buckets();
        if self.is_empty() {
            return None;
        }
        let mut place = || self.places.get_bucket(below(count as u64) as usize);
        let chosen = (0..TRIES).find_map(|_| place());
        // A table is seldom so thin that all of them miss.
        let (name, value) = chosen.or_else(|| self.places.iter().next())?;
        Some((name, value))
    }

    /// Bytes that the table takes, without those of names and values and what an allocator adds.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.places.allocation_size()
    }

    fn give_room_back(&mut self) {
        if self.places.num_buckets() > PLACES_PER_NAME * (self.len() + 1) {
            let hash_of = |place: &(Bytes, V)| self.hasher.hash_one(&*place.0);
            self.places.shrink_to(2 * self.places.len(), hash_of);
        }
    }
}

impl<V: PartialEq> PartialEq for Table<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .all(|(name, value)| other.get(name) == Some(value))
    }
}

impl<V: Eq> Eq for Table<V> {}

impl<V: fmt::Debug> fmt::Debug for Table<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'n, V> FromIterator<(&'n [u8], V)> for Table<V> {
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
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_behaves_like_a_map(steps in proptest::collection::vec((any::<u8>(), any::<Option<u8>>()), 1..300)) {
            let mut table = Table::new();
            let mut model = BTreeMap::new();
            for (name, value) in steps {
                let name = [name % 50];
                match value {
                    Some(value) => prop_assert_eq!(table.insert(&name, value), model.insert(name, value)),
                    None => prop_assert_eq!(table.remove(&name), model.remove(&name)),
                }
                prop_assert_eq!(table.get(&name), model.get(&name));
            }
            let mut all: Vec<_> = table.iter().collect();
            all.sort_unstable();
            let wanted: Vec<_> = model.iter().map(|(name, value)| (&name[..], value)).collect();
            prop_assert_eq!(all, wanted);
            table.retain(|_, value| value % 2 == 0);
            model.retain(|_, value| *value % 2 == 0);
            prop_assert!(table == model.iter().map(|(name, value)| (&name[..], *value)).collect());
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
