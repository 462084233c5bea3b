//! Values of sorted sets: members with a score each.
//!
//! A small set is packed: one piece of memory, read from front to back. A large one has a hash table to find a member, and
//! a tree with counts to find a place in the order. Both refer to the members by number, so each name is held once.

mod large;
mod members;
mod packed;
#[cfg(test)]
mod tests;
mod tree;

use std::cmp::Ordering;
use std::ops::Range;

use large::Large;
use packed::Elements;

/// Members with a score each, ordered by their scores; members of the same score are ordered by their bytes.
#[derive(Debug, Clone)]
pub struct SortedSet(Form);

#[derive(Debug, Clone)]
enum Form {
    /// The bytes that [`packed`] describes.
    Packed(Vec<u8>),
    Large(Box<Large>),
}

/// A sorted set, borrowed from its place in the store.
#[derive(Debug, Clone, Copy)]
pub struct SortedView<'s>(FormView<'s>);

#[derive(Debug, Clone, Copy)]
enum FormView<'s> {
    Packed(&'s [u8]),
    Large(&'s Large),
}

impl Default for SortedSet {
    fn default() -> Self {
        Self(Form::Packed(vec![]))
    }
}

impl SortedSet {
    /// An empty one, packed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set where it lies.
    #[must_use]
    pub fn view(&self) -> SortedView<'_> {
        match &self.0 {
            Form::Packed(bytes) => SortedView(FormView::Packed(bytes)),
            Form::Large(large) => SortedView(FormView::Large(large)),
        }
    }

    /// The bytes of a packed set, or the set as it is.
    pub(crate) fn into_packed(self) -> Result<Vec<u8>, Self> {
        match self.0 {
            Form::Packed(bytes) => Ok(bytes),
            Form::Large(_) => Err(self),
        }
    }

    /// Sets the score of `member`, which must be a number, and returns the old one. An equal one stays, as 0 for -0. A packed set
    /// has no negative zero.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan(), "the order has no place for it");
        match &mut self.0 {
            Form::Packed(bytes) => packed::insert(bytes, member, score),
            Form::Large(large) => large.insert(member, score),
        }
    }

    /// Takes `member` out and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Packed(bytes) => packed::remove(bytes, member),
            Form::Large(large) => large.remove(member),
        }
    }

    /// Takes the members of these ranks out.
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        match &mut self.0 {
            Form::Packed(bytes) => packed::remove_range(bytes, ranks),
            Form::Large(large) => large.remove_range(ranks),
        }
    }

    /// Whether the set is packed.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.view().is_packed()
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Gives a packed set a table and a tree, for good.
    pub fn unpack(&mut self) {
        if let Form::Packed(bytes) = &self.0 {
            let mut large = Large::default();
            for (member, score) in Elements::new(bytes) {
                large.insert(member, score);
            }
            self.0 = Form::Large(Box::new(large));
        }
    }

    /// Bytes of memory that it takes in addition to the value itself, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(bytes) => bytes.capacity(),
            Form::Large(large) => size_of::<Large>() + large.memory_bytes(),
        }
    }
}

/// Two sets are equal if they have the same members with the same scores in the same form.
impl PartialEq for SortedSet {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.view(), other.view());
        one.is_packed() == other.is_packed() && one.iter().eq(other.iter())
    }
}

/// Scores are numbers.
impl Eq for SortedSet {}

impl<'s> SortedView<'s> {
    /// A view of no members.
    #[must_use]
    pub fn empty() -> SortedView<'static> {
        SortedView(FormView::Packed(&[]))
    }

    /// The packed set of these bytes.
    pub(crate) fn packed(bytes: &'s [u8]) -> Self {
        Self(FormView::Packed(bytes))
    }

    /// A copy that stays.
    #[must_use]
    pub fn to_set(self) -> SortedSet {
        match self.0 {
            FormView::Packed(bytes) => SortedSet(Form::Packed(bytes.to_vec())),
            FormView::Large(large) => SortedSet(Form::Large(Box::new(large.clone()))),
        }
    }

    /// Whether the set is packed.
    #[must_use]
    pub fn is_packed(self) -> bool {
        matches!(self.0, FormView::Packed(_))
    }

    /// Whether both are packed and have the same bytes.
    pub(crate) fn is_same_piece(self, other: SortedView<'_>) -> bool {
        match (self.0, other.0) {
            (FormView::Packed(bytes), FormView::Packed(other)) => bytes == other,
            _ => false,
        }
    }

    /// Number of members.
    #[must_use]
    pub fn len(self) -> usize {
        match self.0 {
            FormView::Packed(bytes) => Elements::new(bytes).len(),
            FormView::Large(large) => large.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of `member`.
    #[must_use]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self.0 {
            FormView::Packed(bytes) => packed::find(bytes, member).map(|(_, score)| score),
            FormView::Large(large) => large.score(member),
        }
    }

    /// The rank of `member`, counted from 0, and its score.
    #[must_use]
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self.0 {
            FormView::Packed(bytes) => packed::find(bytes, member),
            FormView::Large(large) => large.rank(member),
        }
    }

    /// The member of a rank, with its score.
    #[must_use]
    pub fn get(self, rank: usize) -> Option<(&'s [u8], f64)> {
        self.range(rank..rank.saturating_add(1)).next()
    }

    /// All members with their scores, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'s [u8], f64)> {
        self.range(0..usize::MAX)
    }

    /// Members with their scores by places, which are ranks in a packed set. In a large one, going through all places from
    /// the last to the first shows each member that stays, whatever is added, moved or removed in between.
    pub fn page(self, places: Range<usize>) -> impl Iterator<Item = (&'s [u8], f64)> {
        match self.0 {
            FormView::Packed(_) => Members::Packed(self.range(places)),
            FormView::Large(large) => Members::Large(large.page(places)),
        }
    }

    /// The members of these ranks with their scores, in order.
    pub fn range(self, ranks: Range<usize>) -> impl Iterator<Item = (&'s [u8], f64)> {
        match self.0 {
            FormView::Packed(bytes) => {
                let count = ranks.end.saturating_sub(ranks.start);
                Members::Packed(Elements::new(bytes).skip(ranks.start).take(count))
            }
            FormView::Large(large) => Members::Large(large.range(ranks)),
        }
    }

    /// The members of these ranks with their scores, the last one first.
    pub fn range_reversed(self, ranks: Range<usize>) -> impl Iterator<Item = (&'s [u8], f64)> {
        match self.0 {
            FormView::Packed(_) => {
                let members: Vec<(&'s [u8], f64)> = self.range(ranks).collect();
                Members::Packed(members.into_iter().rev())
            }
            FormView::Large(large) => Members::Large(large.range_reversed(ranks)),
        }
    }

    /// The ranks of the members that are neither before an interval nor behind it.
    ///
    /// Each member is before it, in it or behind it, in this order. A caller that asks for members by their bytes in a set
    /// of several scores breaks this order. The result for a packed set is that of Redis then: the run from the first
    /// member that is not before the interval up to the next one that is behind it, and nothing if the last member is
    /// before the interval or the first one behind it.
    pub fn between(
        self,
        is_before: impl Fn(&[u8], f64) -> bool,
        is_behind: impl Fn(&[u8], f64) -> bool,
    ) -> Range<usize> {
        match self.0 {
            FormView::Packed(bytes) => packed::between(bytes, is_before, is_behind),
            FormView::Large(large) => large.between(is_before, is_behind),
        }
    }

    /// The same, looked for from the end: the run from the last member that is not behind the interval down to the next
    /// one that is before it.
    pub fn between_reversed(
        self,
        is_before: impl Fn(&[u8], f64) -> bool,
        is_behind: impl Fn(&[u8], f64) -> bool,
    ) -> Range<usize> {
        match self.0 {
            FormView::Packed(bytes) => packed::between_reversed(bytes, is_before, is_behind),
            FormView::Large(large) => large.between(is_before, is_behind),
        }
    }
}

/// Members of a set of either form.
enum Members<P, L> {
    Packed(P),
    Large(L),
}

impl<T, P: Iterator<Item = T>, L: Iterator<Item = T>> Iterator for Members<P, L> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Self::Packed(members) => members.next(),
            Self::Large(members) => members.next(),
        }
    }
}

/// The order of two members with their scores.
fn order((score, member): (f64, &[u8]), (other_score, other): (f64, &[u8])) -> Ordering {
    by_score(score, other_score).then_with(|| member.cmp(other))
}

#[inline]
fn by_score(score: f64, other: f64) -> Ordering {
    score.partial_cmp(&other).unwrap_or(Ordering::Equal)
}
