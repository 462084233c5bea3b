//! Blocks of entries in one piece.
//!
//! ```text
//! | fields: count, names | entry | entry | ... |
//! entry: | flags: u8 | milliseconds | number | values |              if it has the fields of the block
//!        | flags: u8 | milliseconds | number | count | field, value, ... |
//! ```
//!
//! The fields of a block are those of its first entry. Milliseconds and number of an entry are the differences to the id of
//! the block, the number as `2n` or `-2n-1`. Numbers take seven bits per byte, and strings follow their lengths.
//!
//! A block ends where Redis ends the listpack with the same entries, so that both trim the same entries and report the same
//! number of blocks.

use super::id::{Bits, StreamId, put_bytes, put_number};
use super::listpack;

const IS_DELETED: u8 = 1;
const HAS_BLOCK_FIELDS: u8 = 2;

/// The limits of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLimits {
    /// Bytes of the listpack of Redis with the same entries; 0 for the maximum.
    pub bytes: u64,
    /// Entries; 0 for no limit.
    pub entries: u64,
}

impl BlockLimits {
    /// The most bytes of a listpack in Redis.
    pub const MOST_BYTES: u64 = 1 << 30;
}

/// Entries that are close to each other, deleted ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: StreamId,
    bytes: Vec<u8>,
    /// The end of the fields of the block.
    begin: u32,
    pub(super) live: u32,
    pub(super) deleted: u32,
    /// Bytes that fields and entries take in a listpack.
    listpack_bytes: u64,
}

/// A block of a stream, as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct StreamBlock<'s>(pub(super) &'s Block);

impl<'s> StreamBlock<'s> {
    /// The id from which the ids of its entries differ.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.0.id
    }

    /// Its fields.
    #[must_use]
    pub fn names(&self) -> Vec<&'s [u8]> {
        let Entries {
            mut names, count, ..
        } = self.0.entries();
        (0..count).map_while(|_| names.bytes()).collect()
    }

    /// All entries, deleted ones included.
    pub fn entries(&self) -> impl Iterator<Item = StreamEntry<'s>> {
        self.0.entries()
    }
}

/// An entry of a stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamEntry<'s> {
    /// Its id.
    pub id: StreamId,
    pairs: Pairs<'s>,
    pub(super) is_deleted: bool,
    /// Where its flags are in the block.
    at: usize,
}

impl<'s> StreamEntry<'s> {
    /// Its fields with their values.
    #[must_use]
    pub fn pairs(&self) -> Pairs<'s> {
        self.pairs
    }

    /// Whether it is deleted. Only [`StreamBlock::entries`] shows such an entry.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether its fields are those of the block.
    #[must_use]
    pub fn has_block_fields(&self) -> bool {
        self.pairs.names.is_some()
    }
}

/// Fields with their values.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'s> {
    /// The fields of the block.
    names: Option<Bits<'s>>,
    rest: Bits<'s>,
    left: usize,
}

impl<'s> Iterator for Pairs<'s> {
    type Item = (&'s [u8], &'s [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = match &mut self.names {
            Some(names) => names.bytes()?,
            None => self.rest.bytes()?,
        };
        Some((field, self.rest.bytes()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

fn zigzag(number: u64) -> u64 {
    let number = number as i64;
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

impl Block {
    /// A block for a first entry, without it.
    pub(super) fn new(id: StreamId, fields: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        let names = fields.iter().step_by(2);
        put_number(&mut bytes, names.len() as u64);
        names.clone().for_each(|name| put_bytes(&mut bytes, name));
        let names_bytes: u64 = names.clone().map(|name| listpack::bytes(name)).sum();
        let count = listpack::integer_bytes(names.len() as i64);
        Self {
            id,
            begin: bytes.len() as u32,
            bytes,
            live: 0,
            deleted: 0,
            // The zero at the end of the fields takes two bytes.
            listpack_bytes: count + names_bytes + 2,
        }
    }

    /// The block of these parts, if they are sound.
    pub(super) fn from_parts(id: StreamId, bytes: &[u8]) -> Option<Self> {
        let mut names = Bits(bytes);
        let count = names.number()?;
        let mut fields = Vec::new();
        for _ in 0..count {
            fields.extend([names.bytes()?, &[]]);
        }
        let mut block = Self::new(id, &fields);
        (block.bytes == bytes[..bytes.len() - names.0.len()]).then_some(())?;
        block.bytes = bytes.to_vec();
        let mut entries = block.entries();
        let (mut live, mut deleted, mut listpack_bytes) = (0, 0, 0);
        for entry in &mut entries {
            if entry.is_deleted {
                deleted += 1;
            } else {
                live += 1;
            }
            let has_block_fields = entry.has_block_fields();
            listpack_bytes += listpack_entry_bytes(id, entry.id, entry.pairs(), has_block_fields);
        }
        (entries.rest.is_at_end() && live + deleted > 0).then_some(())?;
        (block.live, block.deleted) = (live, deleted);
        block.listpack_bytes += listpack_bytes;
        Some(block)
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether an entry with these fields goes to another block.
    pub(super) fn is_full(&self, fields: &[&[u8]], limits: BlockLimits) -> bool {
        let added: usize = fields.iter().map(|word| word.len()).sum();
        let most = match limits.bytes {
            1..BlockLimits::MOST_BYTES => limits.bytes,
            _ => BlockLimits::MOST_BYTES,
        };
        let counts = [self.live, self.deleted];
        let counts = counts.map(|count| listpack::integer_bytes(count.into()));
        let bytes = listpack::EMPTY_BYTES + counts[0] + counts[1] + self.listpack_bytes;
        let entries = u64::from(self.live) + u64::from(self.deleted);
        bytes + added as u64 >= most || (limits.entries > 0 && entries >= limits.entries)
    }

    /// Appends an entry.
    pub(super) fn append(&mut self, id: StreamId, fields: &[&[u8]]) {
        let has_block_fields = self.has_fields(fields);
        let flags = if has_block_fields {
            HAS_BLOCK_FIELDS
        } else {
            0
        };
        self.bytes.push(flags);
        put_number(&mut self.bytes, id.ms.wrapping_sub(self.id.ms));
        let number = zigzag(id.seq.wrapping_sub(self.id.seq));
        put_number(&mut self.bytes, number);
        let (pairs, _) = fields.as_chunks();
        if has_block_fields {
            pairs
                .iter()
                .for_each(|[_, value]| put_bytes(&mut self.bytes, value));
        } else {
            put_number(&mut self.bytes, pairs.len() as u64);
            pairs
                .as_flattened()
                .iter()
                .for_each(|word| put_bytes(&mut self.bytes, word));
        }
        self.live += 1;
        let pairs = pairs.iter().map(|[field, value]| (*field, *value));
        self.listpack_bytes += listpack_entry_bytes(self.id, id, pairs, has_block_fields);
    }

    fn has_fields(&self, fields: &[&[u8]]) -> bool {
        let mut names = Bits(&self.bytes[..self.begin as usize]);
        names.number() == Some(fields.len() as u64 / 2)
            && fields
                .iter()
                .step_by(2)
                .all(|field| names.bytes() == Some(*field))
    }

    /// Gives room back that no entry will need.
    pub(super) fn seal(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn entries(&self) -> Entries<'_> {
        let begin = self.begin as usize;
        let mut names = Bits(&self.bytes[..begin]);
        let count = names.number().unwrap_or(0);
        Entries {
            id: self.id,
            names,
            count: count as usize,
            end: self.bytes.len(),
            rest: Bits(&self.bytes[begin..]),
        }
    }

    /// The entry with an id, unless it is deleted.
    pub(super) fn find(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        // An id can return after its entry was deleted.
        let mut entries = self.entries();
        entries.find(|entry| entry.id == id && !entry.is_deleted)
    }

    /// Marks an entry as deleted.
    pub(super) fn delete(&mut self, id: StreamId) -> bool {
        let Some(at) = self.find(id).map(|entry| entry.at) else {
            return false;
        };
        self.bytes[at] |= IS_DELETED;
        self.live -= 1;
        self.deleted += 1;
        true
    }

    /// Marks the first `count` entries that are left as deleted.
    pub(super) fn delete_first(&mut self, count: usize) -> usize {
        let live = self.entries().filter(|entry| !entry.is_deleted);
        let places: Vec<usize> = live.take(count).map(|entry| entry.at).collect();
        for at in &places {
            self.bytes[*at] |= IS_DELETED;
        }
        self.live -= places.len() as u32;
        self.deleted += places.len() as u32;
        places.len()
    }

    /// The id of the last entry, also where it is deleted.
    pub(super) fn last_id(&self) -> StreamId {
        self.entries().last().map_or(self.id, |entry| entry.id)
    }
}

/// Bytes that an entry takes in a listpack.
fn listpack_entry_bytes<'e>(
    block: StreamId,
    id: StreamId,
    pairs: impl ExactSizeIterator<Item = (&'e [u8], &'e [u8])> + Clone,
    has_block_fields: bool,
) -> u64 {
    let ms = id.ms.wrapping_sub(block.ms) as i64;
    let seq = id.seq.wrapping_sub(block.seq) as i64;
    let count = pairs.len() as i64;
    let values = pairs.clone().map(|(_, value)| listpack::bytes(value));
    let values: u64 = values.sum();
    // The flags take two bytes.
    let fixed = 2 + listpack::integer_bytes(ms) + listpack::integer_bytes(seq) + values;
    if has_block_fields {
        return fixed + listpack::integer_bytes(count + 3);
    }
    let names: u64 = pairs.map(|(field, _)| listpack::bytes(field)).sum();
    fixed + names + listpack::integer_bytes(count) + listpack::integer_bytes(2 * count + 4)
}

/// The entries of a block, deleted ones included. Ends where the bytes are none.
#[derive(Debug, Clone)]
pub(super) struct Entries<'b> {
    id: StreamId,
    names: Bits<'b>,
    count: usize,
    end: usize,
    rest: Bits<'b>,
}

impl<'b> Iterator for Entries<'b> {
    type Item = StreamEntry<'b>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.end - self.rest.0.len();
        let mut rest = self.rest;
        let flags = rest.byte()?;
        let ms = self.id.ms.wrapping_add(rest.number()?);
        let seq = self.id.seq.wrapping_add(unzigzag(rest.number()?));
        let has_block_fields = flags & HAS_BLOCK_FIELDS != 0;
        let (names, count, words) = if has_block_fields {
            (Some(self.names), self.count, self.count)
        } else {
            let count = usize::try_from(rest.number()?).ok()?;
            (None, count, count.checked_mul(2)?)
        };
        let pairs = Pairs {
            names,
            rest,
            left: count,
        };
        for _ in 0..words {
            rest.bytes()?;
        }
        self.rest = rest;
        Some(StreamEntry {
            id: StreamId { ms, seq },
            pairs,
            is_deleted: flags & IS_DELETED != 0,
            at,
        })
    }
}
