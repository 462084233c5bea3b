//! Sorted sets with a table and a tree.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::members::{Key, Member, Members};
use super::tree::Tree;

/// Members with a table to find one by its name and a tree to find one by its rank. They have no gaps: the last member
/// gets the number of one that goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Large {
    members: Members,
    /// The numbers of the members by the hashes of their names.
    table: HashTable<u32>,
    /// The hasher has a seed of its own, so that no peer can aim at one place.
    hasher: DefaultHashBuilder,
    tree: Tree,
    /// Bytes of all names.
    held: usize,
}

/// With more than this many places per member, places are given back.
const PLACES_PER_MEMBER: usize = 4;

impl Large {
    pub(super) fn len(&self) -> usize {
        self.members.0.len()
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        let is_it = |id: &u32| self.members.name(*id) == name;
        self.table.find(hash, is_it).copied()
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        Some(self.members.key(self.find(name)?).score)
    }

    /// The members of these numbers, with their scores.
    pub(super) fn page(&self, ids: Range<usize>) -> impl Iterator<Item = (&[u8], f64)> {
        let page = self.members.0.get(ids).unwrap_or_default().iter();
        page.map(|member| (&*member.name, member.score))
    }

    pub(super) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let key = self.members.key(self.find(name)?);
        Some((self.tree.rank(key, &self.members), key.score))
    }

    pub(super) fn insert(&mut self, name: &[u8], score: f64) -> Option<f64> {
        if let Some(id) = self.find(name) {
            let old = self.members.key(id);
            if old.score == score {
                return Some(score);
            }
            self.tree.remove(old, &self.members);
            self.members.0[id as usize].score = score;
            self.tree.insert(Key { score, id }, &self.members);
            return Some(old.score);
        }
        let members = &mut self.members.0;
        let id = u32::try_from(members.len()).expect("fewer members than 2^32 fit into memory");
        if members.len() == members.capacity() {
            members.reserve_exact(4 + members.len() / 4);
        }
        members.push(Member {
            name: name.into(),
            score,
        });
        self.held += name.len();
        let Self {
            members,
            table,
            hasher,
            ..
        } = self;
        let hash = hasher.hash_one(name);
        table.insert_unique(hash, id, |id| hasher.hash_one(members.name(*id)));
        self.tree.insert(Key { score, id }, &self.members);
        None
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let id = self.find(name)?;
        Some(self.remove_id(id))
    }

    pub(super) fn remove_range(&mut self, ranks: Range<usize>) {
        let count = ranks.end.min(self.len()).saturating_sub(ranks.start);
        for _ in 0..count {
            if let Some((leaf, at)) = self.tree.leaf(ranks.start) {
                self.remove_id(leaf.id(at));
            }
        }
    }

    fn remove_id(&mut self, id: u32) -> f64 {
        let key = self.members.key(id);
        self.tree.remove(key, &self.members);
        self.forget(id);
        let last = (self.len() - 1) as u32;
        if id != last {
            self.tree.rename(self.members.key(last), id, &self.members);
            let hash = self.hasher.hash_one(self.members.name(last));
            if let Some(place) = self.table.find_mut(hash, |other| *other == last) {
                *place = id;
            }
        }
        let member = self.members.0.swap_remove(id as usize);
        self.held -= member.name.len();
        self.give_room_back();
        key.score
    }

    /// Takes the number of a member out of the table.
    fn forget(&mut self, id: u32) {
        let hash = self.hasher.hash_one(self.members.name(id));
        if let Ok(place) = self.table.find_entry(hash, |other| *other == id) {
            place.remove();
        }
    }

    fn give_room_back(&mut self) {
        let places = self.members.0.capacity().max(self.table.capacity());
        if places > PLACES_PER_MEMBER * (self.len() + 1) {
            let wanted = self.len() + self.len() / 4;
            self.members.0.shrink_to(wanted);
            let (hasher, members) = (&self.hasher, &self.members);
            self.table
                .shrink_to(wanted, |id| hasher.hash_one(members.name(*id)));
        }
    }

    /// The ranks of the members that are neither before an interval nor behind it.
    pub(super) fn between(
        &self,
        is_before: impl Fn(&[u8], f64) -> bool,
        is_behind: impl Fn(&[u8], f64) -> bool,
    ) -> Range<usize> {
        let name = |key: Key| self.members.name(key.id);
        let start = self
            .tree
            .partition(&|key: Key| is_before(name(key), key.score));
        let end = self
            .tree
            .partition(&|key: Key| !is_behind(name(key), key.score));
        start..end.max(start)
    }

    pub(super) fn range(&self, ranks: Range<usize>) -> impl Iterator<Item = (&[u8], f64)> {
        let keys = self.tree.range(ranks.start..ranks.end.min(self.len()));
        keys.map(|key| (self.members.name(key.id), key.score))
    }

    pub(super) fn range_reversed(&self, ranks: Range<usize>) -> impl Iterator<Item = (&[u8], f64)> {
        let keys = self
            .tree
            .range_reversed(ranks.start..ranks.end.min(self.len()));
        keys.map(|key| (self.members.name(key.id), key.score))
    }

    /// Bytes of memory that it takes besides itself, without what an allocator adds.
    pub(super) fn memory_bytes(&self) -> usize {
        let members = self.members.0.capacity() * size_of::<Member>();
        self.held + members + self.table.allocation_size() + self.tree.memory_bytes()
    }

    /// Checks that table, tree and members fit together.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.tree.check(&self.members);
        assert_eq!(self.table.len(), self.len());
        for (id, member) in self.members.0.iter().enumerate() {
            assert_eq!(self.find(&member.name), Some(id as u32));
        }
        let held: usize = self.members.0.iter().map(|member| member.name.len()).sum();
        assert_eq!(self.held, held);
    }
}
