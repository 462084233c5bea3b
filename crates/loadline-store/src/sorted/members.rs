//! The members of a large sorted set by number.

use crate::table::Bytes;

/// A member in the tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Key {
    pub(super) score: f64,
    pub(super) id: u32,
}

/// A member and its score. Its number is its place among all of them.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: Bytes,
    pub(super) score: f64,
}

/// Names of members and their scores by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(pub(super) Vec<Member>);

impl Members {
    /// Name and score of a member, as they are ordered.
    #[inline]
    pub(super) fn name(&self, id: u32) -> &[u8] {
        &self.0[id as usize].name
    }

    pub(super) fn key(&self, id: u32) -> Key {
        let score = self.0[id as usize].score;
        Key { score, id }
    }
}
