//! A B-tree with counts over the members of a sorted set.
//!
//! Leaves hold the scores and numbers of members in order. An inner node holds for each child the number of members below
//! it and the first of them, so that a rank is found from above in both directions. Names lie outside of the tree and are
//! read only where scores are equal.

use std::cmp::Ordering;
use std::ops::Range;

use super::by_score;
use super::members::{Key, Members};

/// Most members of a leaf.
const LEAF: usize = 64;
/// Most children of an inner node.
const INNER: usize = 32;

impl Key {
    #[inline]
    fn order(self, other: Self, members: &Members) -> Ordering {
        by_score(self.score, other.score)
            .then_with(|| members.name(self.id).cmp(members.name(other.id)))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Leaf {
    len: usize,
    scores: [f64; LEAF],
    ids: [u32; LEAF],
}

impl Leaf {
    fn new(keys: impl Iterator<Item = Key>) -> Box<Self> {
        let mut leaf = Box::new(Self {
            len: 0,
            scores: [0.0; LEAF],
            ids: [0; LEAF],
        });
        for key in keys {
            leaf.set(leaf.len, key);
            leaf.len += 1;
        }
        leaf
    }

    pub(super) fn id(&self, at: usize) -> u32 {
        self.ids[at]
    }

    fn key(&self, at: usize) -> Key {
        Key {
            score: self.scores[at],
            id: self.ids[at],
        }
    }

    fn keys(&self, range: Range<usize>) -> impl Iterator<Item = Key> {
        range.map(|at| self.key(at))
    }

    fn set(&mut self, at: usize, key: Key) {
        self.scores[at] = key.score;
        self.ids[at] = key.id;
    }

    /// The number of members for which `is_before` is true; these come first.
    fn partition(&self, is_before: impl Fn(Key) -> bool) -> usize {
        let (mut least, mut most) = (0, self.len);
        while least < most {
            let middle = usize::midpoint(least, most);
            if is_before(self.key(middle)) {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        least
    }

    fn insert(&mut self, at: usize, key: Key) {
        self.scores.copy_within(at..self.len, at + 1);
        self.ids.copy_within(at..self.len, at + 1);
        self.set(at, key);
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.scores.copy_within(at + 1..self.len, at);
        self.ids.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

#[derive(Debug, Clone)]
struct Child {
    node: Node,
    first: Key,
    /// Members below it.
    count: u32,
}

impl Child {
    fn new(node: Node) -> Self {
        Self {
            first: node.first(),
            count: node.count() as u32,
            node,
        }
    }
}

#[derive(Debug, Clone)]
enum Node {
    Leaf(Box<Leaf>),
    Inner(Vec<Child>),
}

impl Node {
    fn first(&self) -> Key {
        match self {
            Self::Leaf(leaf) => leaf.key(0),
            Self::Inner(children) => children[0].first,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len,
            Self::Inner(children) => children.iter().map(|child| child.count as usize).sum(),
        }
    }

    /// Members of a leaf, or children.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len,
            Self::Inner(children) => children.len(),
        }
    }

    /// Adds a member, and returns a new node behind this one if it was full.
    fn insert(&mut self, key: Key, members: &Members, nodes: &mut Nodes) -> Option<Self> {
        let is_before = |other: Key| other.order(key, members) == Ordering::Less;
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.partition(is_before);
                if leaf.len < LEAF {
                    leaf.insert(at, key);
                    return None;
                }
                // Members that come in order leave full leaves behind.
                let middle = if at == LEAF { LEAF } else { LEAF / 2 };
                nodes.leaves += 1;
                let mut behind = Leaf::new(leaf.keys(middle..LEAF));
                leaf.len = middle;
                if at < middle {
                    leaf.insert(at, key);
                } else {
                    behind.insert(at - middle, key);
                }
                Some(Self::Leaf(behind))
            }
            Self::Inner(children) => {
                let at = child_at(children, is_before);
                let child = &mut children[at];
                let behind = child.node.insert(key, members, nodes);
                child.first = child.node.first();
                child.count += 1;
                if let Some(behind) = behind {
                    let behind = Child::new(behind);
                    child.count -= behind.count;
                    children.insert(at + 1, behind);
                }
                if children.len() <= INNER {
                    return None;
                }
                let is_last = at + 2 == children.len();
                let middle = if is_last { INNER } else { INNER / 2 };
                nodes.inner += 1;
                let mut rest = Vec::with_capacity(INNER + 1);
                rest.extend(children.drain(middle..));
                Some(Self::Inner(rest))
            }
        }
    }

    /// Takes a member out.
    fn remove(&mut self, key: Key, members: &Members, nodes: &mut Nodes) {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.partition(|other| other.order(key, members) == Ordering::Less);
                debug_assert_eq!(leaf.key(at).id, key.id);
                leaf.remove(at);
            }
            Self::Inner(children) => {
                let at = child_at(children, |other| {
                    other.order(key, members) != Ordering::Greater
                });
                let child = &mut children[at];
                child.node.remove(key, members, nodes);
                child.count -= 1;
                if child.count == 0 {
                    nodes.forget(&child.node);
                    children.remove(at);
                } else {
                    child.first = child.node.first();
                    merge(children, at, nodes);
                }
            }
        }
    }

    /// Gives the member of `key` another number.
    fn rename(&mut self, key: Key, id: u32, members: &Members) {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.partition(|other| other.order(key, members) == Ordering::Less);
                leaf.ids[at] = id;
            }
            Self::Inner(children) => {
                let at = child_at(children, |other| {
                    other.order(key, members) != Ordering::Greater
                });
                let child = &mut children[at];
                child.node.rename(key, id, members);
                if child.first.id == key.id {
                    child.first.id = id;
                }
            }
        }
    }
}

/// The last child whose first member fulfils `is_before`, or the first child.
fn child_at(children: &[Child], is_before: impl Fn(Key) -> bool) -> usize {
    let behind = children.partition_point(|child| is_before(child.first));
    behind.saturating_sub(1)
}

/// Joins the child at `at` with its neighbour if both are nearly empty.
fn merge(children: &mut Vec<Child>, at: usize, nodes: &mut Nodes) {
    let most = match children[at].node {
        Node::Leaf(_) => LEAF,
        Node::Inner(_) => INNER,
    };
    if children[at].node.width() > most / 4 || children.len() == 1 {
        return;
    }
    let left = at.min(children.len() - 2);
    let width = |at: usize| children[at].node.width();
    if width(left) + width(left + 1) > most * 3 / 4 {
        return;
    }
    let right = children.remove(left + 1);
    nodes.forget(&right.node);
    let child = &mut children[left];
    child.count += right.count;
    match (&mut child.node, right.node) {
        (Node::Leaf(leaf), Node::Leaf(right)) => {
            for key in right.keys(0..right.len) {
                leaf.set(leaf.len, key);
                leaf.len += 1;
            }
        }
        (Node::Inner(children), Node::Inner(right)) => children.extend(right),
        _ => unreachable!("all leaves have the same depth"),
    }
}

/// The number of nodes, by which the memory of a tree is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nodes {
    leaves: usize,
    inner: usize,
}

impl Nodes {
    /// Counts a node that goes.
    fn forget(&mut self, node: &Node) {
        match node {
            Node::Leaf(_) => self.leaves -= 1,
            Node::Inner(_) => self.inner -= 1,
        }
    }
}

/// Members in order, with their ranks.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Node,
    nodes: Nodes,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            root: Node::Leaf(Leaf::new(std::iter::empty())),
            nodes: Nodes {
                leaves: 1,
                inner: 0,
            },
        }
    }
}

impl Tree {
    /// Adds a member that is not there.
    pub(super) fn insert(&mut self, key: Key, members: &Members) {
        if let Some(behind) = self.root.insert(key, members, &mut self.nodes) {
            let mut children = Vec::with_capacity(INNER + 1);
            let before = std::mem::replace(&mut self.root, Node::Inner(vec![]));
            children.extend([Child::new(before), Child::new(behind)]);
            self.root = Node::Inner(children);
            self.nodes.inner += 1;
        }
    }

    /// Takes a member out that is there.
    pub(super) fn remove(&mut self, key: Key, members: &Members) {
        self.root.remove(key, members, &mut self.nodes);
        while let Node::Inner(children) = &mut self.root {
            match children.len() {
                0 => *self = Self::default(),
                1 => {
                    if let Some(child) = children.pop() {
                        self.nodes.inner -= 1;
                        self.root = child.node;
                    }
                }
                _ => break,
            }
        }
    }

    /// Gives the member of `key` another number.
    pub(super) fn rename(&mut self, key: Key, id: u32, members: &Members) {
        self.root.rename(key, id, members);
    }

    /// The rank of a member that is there.
    pub(super) fn rank(&self, key: Key, members: &Members) -> usize {
        self.partition(&|other: Key| other.order(key, members) == Ordering::Less)
    }

    /// The number of members for which `is_before` is true; these come first.
    pub(super) fn partition(&self, is_before: &impl Fn(Key) -> bool) -> usize {
        let (mut node, mut passed) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return passed + leaf.partition(is_before),
                Node::Inner(children) => {
                    let at = child_at(children, is_before);
                    passed += count(&children[..at]);
                    node = &children[at].node;
                }
            }
        }
    }

    /// The leaf with the member of a rank, and its place there.
    pub(super) fn leaf(&self, rank: usize) -> Option<(&Leaf, usize)> {
        let (mut node, mut left) = (&self.root, rank);
        loop {
            match node {
                Node::Leaf(leaf) => return (left < leaf.len).then_some((leaf, left)),
                Node::Inner(children) => {
                    let mut behind = children.iter();
                    let child = behind.find(|child| {
                        let is_here = left < child.count as usize;
                        left -= if is_here { 0 } else { child.count as usize };
                        is_here
                    })?;
                    node = &child.node;
                }
            }
        }
    }

    /// The members of these ranks, in order.
    pub(super) fn range(&self, ranks: Range<usize>) -> impl Iterator<Item = Key> {
        let (mut rank, end) = (ranks.start, ranks.end);
        let parts = std::iter::from_fn(move || {
            let (leaf, at) = self.leaf(rank).filter(|_| rank < end)?;
            let behind = leaf.len.min(at + end - rank);
            rank += behind - at;
            Some(leaf.keys(at..behind))
        });
        parts.flatten()
    }

    /// The members of these ranks, the last one first.
    pub(super) fn range_reversed(&self, ranks: Range<usize>) -> impl Iterator<Item = Key> {
        let (start, mut rank) = (ranks.start, ranks.end);
        let parts = std::iter::from_fn(move || {
            let last = rank.checked_sub(1).filter(|last| *last >= start)?;
            let (leaf, at) = self.leaf(last)?;
            let begin = at.saturating_sub(last - start);
            rank = last - (at - begin);
            Some((begin..at + 1).rev().map(move |at| leaf.key(at)))
        });
        parts.flatten()
    }

    /// Bytes of memory that it takes besides itself, without what an allocator adds.
    pub(super) fn memory_bytes(&self) -> usize {
        let inner = (INNER + 1) * size_of::<Child>();
        self.nodes.leaves * size_of::<Leaf>() + self.nodes.inner * inner
    }

    /// Checks the order, the counts and the number of nodes.
    #[cfg(test)]
    pub(super) fn check(&self, members: &Members) {
        let mut nodes = Nodes {
            leaves: 0,
            inner: 0,
        };
        self.root.check(&mut nodes);
        assert_eq!(nodes, self.nodes);
        let keys: Vec<Key> = self.range(0..self.root.count()).collect();
        assert!(keys.is_sorted_by(|one, other| one.order(*other, members) == Ordering::Less));
    }
}

#[cfg(test)]
impl Node {
    fn check(&self, nodes: &mut Nodes) {
        match self {
            Self::Leaf(_) => nodes.leaves += 1,
            Self::Inner(children) => {
                nodes.inner += 1;
                assert!(!children.is_empty() && children.capacity() == INNER + 1);
                for child in children {
                    child.node.check(nodes);
                    assert_eq!(child.first, child.node.first());
                    assert_eq!(child.count as usize, child.node.count());
                }
            }
        }
    }
}

fn count(children: &[Child]) -> usize {
    children.iter().map(|child| child.count as usize).sum()
}
