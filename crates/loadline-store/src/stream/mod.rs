//! Values of streams: entries with growing ids, in blocks, and groups of consumers.

mod block;
mod edit;
mod group;
mod id;
mod listpack;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use block::Block;
pub use block::{BlockLimits, Pairs, StreamBlock, StreamEntry};
pub use edit::{StreamEdit, StreamWords};
pub use group::{Consumer, Group, Pending};
pub use id::StreamId;
pub(crate) use stored::elements;

use crate::table::Bytes;

/// Entries with growing ids, and groups of consumers.
#[derive(Debug, Default)]
pub struct Stream {
    blocks: VecDeque<Block>,
    length: u64,
    first_id: StreamId,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    groups: BTreeMap<Bytes, Group>,
    /// Bytes of memory of the blocks.
    held: usize,
}

/// The entries that are to go from the front of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trim {
    /// Blocks that go as a whole.
    pub blocks: usize,
    /// Entries of the next block that are marked as deleted.
    pub marked: usize,
    /// All entries that go.
    pub entries: u64,
}

/// The entries that stay when a stream is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The last ones, so many.
    Last(u64),
    /// Those from an id on.
    From(StreamId),
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        let blocks = self.blocks.clone();
        Self {
            held: blocks.iter().map(Block::held_bytes).sum(),
            blocks,
            groups: self.groups.clone(),
            ..*self
        }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |stream: &Self| {
            let ids = [stream.first_id, stream.last_id, stream.max_deleted_id];
            (ids, stream.length, stream.entries_added)
        };
        numbers(self) == numbers(other)
            && self.blocks == other.blocks
            && self.groups == other.groups
    }
}

impl Eq for Stream {}

impl Stream {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The id of the first entry; 0-0 without one.
    #[must_use]
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The greatest id so far.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The greatest id of an entry that was deleted, but not by trimming.
    #[must_use]
    pub fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// Number of entries that were ever added.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// The id of the last entry that is left.
    #[must_use]
    pub fn last_entry_id(&self) -> Option<StreamId> {
        self.range_back(StreamId::MIN, StreamId::MAX)
            .next()
            .map(|entry| entry.id)
    }

    /// The entry with an id.
    #[must_use]
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.blocks.get(self.block_of(id)?)?.find(id)
    }

    /// The number of the block that an id belongs to.
    fn block_of(&self, id: StreamId) -> Option<usize> {
        self.blocks
            .partition_point(|block| block.id <= id)
            .checked_sub(1)
    }

    /// The entries from `start` to `end`.
    pub fn range(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = StreamEntry<'_>> {
        let first = self.block_of(start).unwrap_or(0).min(self.blocks.len());
        let entries = self.blocks.range(first..).flat_map(Block::entries);
        entries
            .filter(|entry| !entry.is_deleted)
            .skip_while(move |entry| entry.id < start)
            .take_while(move |entry| entry.id <= end)
    }

    /// The entries from `end` back to `start`.
    pub fn range_back(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = StreamEntry<'_>> {
        let blocks = self.block_of(end).map_or(0, |last| last + 1);
        let blocks = self.blocks.range(..blocks).rev();
        let entries = blocks.flat_map(|block| {
            let entries: Vec<StreamEntry<'_>> = block.entries().collect();
            entries.into_iter().rev()
        });
        entries
            .filter(|entry| !entry.is_deleted)
            .skip_while(move |entry| entry.id > end)
            .take_while(move |entry| entry.id >= start)
    }

    /// Whether an entry with these fields would begin a block.
    #[must_use]
    pub fn begins_block(&self, fields: &[&[u8]], limits: BlockLimits) -> bool {
        let last = self.blocks.back();
        last.is_none_or(|block| block.is_full(fields, limits))
    }

    /// The entries that go so that `keep` is left, at most `most` of them. With `whole_blocks`, only those of blocks from
    /// which nothing is kept go.
    #[must_use]
    pub fn plan_trim(&self, keep: Keep, whole_blocks: bool, most: Option<u64>) -> Trim {
        let mut trim = Trim::default();
        for block in &self.blocks {
            let (live, left) = (u64::from(block.live), self.length - trim.entries);
            let is_done = matches!(keep, Keep::Last(count) if left <= count);
            if is_done || most.is_some_and(|most| trim.entries + live > most) {
                break;
            }
            let goes = match keep {
                Keep::Last(count) => left - live >= count,
                Keep::From(id) => block.last_id() < id,
            };
            if goes {
                trim.blocks += 1;
                trim.entries += live;
                continue;
            }
            if !whole_blocks {
                trim.marked = match keep {
                    Keep::Last(count) => (left - count) as usize,
                    Keep::From(id) => {
                        let entries = block.entries().take_while(|entry| entry.id < id);
                        entries.filter(|entry| !entry.is_deleted).count()
                    }
                };
                trim.entries += trim.marked as u64;
            }
            break;
        }
        trim
    }

    /// The blocks.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = StreamBlock<'_>> {
        self.blocks.iter().map(StreamBlock)
    }

    /// All groups with their names, in the order of these.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// A group.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Bytes of memory that the stream takes, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let groups = self.groups.iter();
        let groups = groups.map(|(name, group)| name.len() + group.held_bytes());
        let blocks = self.blocks.capacity() * size_of::<Block>();
        size_of::<Self>() + blocks + self.held + groups.sum::<usize>()
    }

    /// Changes the stream as an edit says.
    pub fn perform(&mut self, edit: &StreamEdit<'_>) {
        match edit {
            StreamEdit::Append {
                id,
                begins_block,
                fields,
            } => self.append(*id, *begins_block, fields),
            StreamEdit::Delete(ids) => ids.iter().for_each(|id| self.delete(*id)),
            StreamEdit::Trim { blocks, marked } => self.trim(*blocks, *marked),
            StreamEdit::SetIds {
                last_id,
                max_deleted_id,
                entries_added,
            } => {
                self.last_id = *last_id;
                self.max_deleted_id = *max_deleted_id;
                self.entries_added = *entries_added;
            }
            StreamEdit::SetGroup {
                group,
                last_id,
                entries_read,
            } => {
                let group = self.groups.entry((*group).into()).or_default();
                (group.last_id, group.entries_read) = (*last_id, *entries_read);
            }
            StreamEdit::RemoveGroup(group) => drop(self.groups.remove(*group)),
            StreamEdit::See {
                group,
                consumer,
                seen_ms,
            } => self.change_group(group, |group| group.see(consumer, *seen_ms)),
            StreamEdit::RemoveConsumer { group, consumer } => {
                self.change_group(group, |group| group.remove_consumer(consumer));
            }
            StreamEdit::Deliver {
                group,
                consumer,
                delivered_ms,
                entries,
            } => self.change_group(group, |group| {
                for (id, deliveries) in entries {
                    group.deliver(consumer, *id, *delivered_ms, *deliveries);
                }
            }),
            StreamEdit::Acknowledge { group, ids } => self.change_group(group, |group| {
                ids.iter().for_each(|id| group.acknowledge(*id));
            }),
        }
    }

    fn change_group(&mut self, name: &[u8], change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.get_mut(name) {
            change(group);
        }
    }

    fn append(&mut self, id: StreamId, begins_block: bool, fields: &[&[u8]]) {
        if id <= self.last_id {
            return;
        }
        if begins_block || self.blocks.is_empty() {
            if let Some(last) = self.blocks.back_mut() {
                self.held -= last.held_bytes();
                last.seal();
                self.held += last.held_bytes();
            }
            let block = Block::new(id, fields);
            self.held += block.held_bytes();
            self.blocks.push_back(block);
        }
        let Some(block) = self.blocks.back_mut() else {
            return;
        };
        self.held -= block.held_bytes();
        block.append(id, fields);
        self.held += block.held_bytes();
        self.length += 1;
        self.entries_added = self.entries_added.saturating_add(1);
        self.last_id = id;
        if self.length == 1 {
            self.first_id = id;
        }
    }

    fn delete(&mut self, id: StreamId) {
        let Some(number) = self.block_of(id) else {
            return;
        };
        let block = &mut self.blocks[number];
        if !block.delete(id) {
            return;
        }
        if block.live == 0 {
            self.held -= block.held_bytes();
            self.blocks.remove(number);
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id || self.length == 0 {
            self.find_first();
        }
    }

    fn trim(&mut self, blocks: usize, marked: usize) {
        for block in self.blocks.drain(..blocks.min(self.blocks.len())) {
            self.held -= block.held_bytes();
            self.length -= u64::from(block.live);
        }
        if let Some(block) = self.blocks.front_mut().filter(|_| marked > 0) {
            self.length -= block.delete_first(marked) as u64;
        }
        const PLACES_PER_BLOCK: usize = 8;
        if self.blocks.capacity() > PLACES_PER_BLOCK * (self.blocks.len() + 1) {
            self.blocks.shrink_to(2 * self.blocks.len());
        }
        self.find_first();
    }

    fn find_first(&mut self) {
        let first = self.range(StreamId::MIN, StreamId::MAX).next();
        self.first_id = first.map_or(StreamId::MIN, |entry| entry.id);
    }
}
