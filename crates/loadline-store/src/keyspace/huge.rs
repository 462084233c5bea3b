//! Huge pages for the memory of a keyspace.
//!
//! A look-up reads a line of the index and a record at random addresses. With pages of 4 KiB, the processor has to read the
//! page tables for most of them first, which takes about a quarter of the time of a look-up among a million keys.

use std::collections::HashMap;

use super::Keyspace;
use crate::storage::{HUGE_BYTES, use_huge_page};

/// Bytes of a huge page that entries and index have to take, so that it does not hold much other memory.
const LEAST_BYTES: usize = HUGE_BYTES / 4 * 3;

/// Memory is looked at again after this many bytes were written, and moved when it has grown by as much and by a part
/// of itself.
const STEP_BYTES: usize = 16 << 20;

/// Which memory of some keyspaces was moved to huge pages.
#[derive(Debug, Default)]
pub struct HugePages {
    /// Bytes that the entries had when it was moved last.
    moved_bytes: usize,
    /// Bytes that had been written when their memory was looked at last.
    written_bytes: u64,
}

impl HugePages {
    /// The memory to move because the entries have grown enough since the last time. `written_bytes` counts what was
    /// written to the databases: their memory grows no faster. In most calls, it is all that this looks at; in others,
    /// every part of the databases.
    pub fn follow(&mut self, databases: &[Keyspace], written_bytes: u64) -> FullPages {
        if written_bytes.saturating_sub(self.written_bytes) < STEP_BYTES as u64 {
            return FullPages::default();
        }
        self.written_bytes = written_bytes;
        self.follow_memory(databases)
    }

    /// The same without a count of what was written: this looks at every part of the databases in each call.
    pub(crate) fn follow_memory(&mut self, databases: &[Keyspace]) -> FullPages {
        let bytes = databases.iter().map(Keyspace::total_memory_bytes).sum();
        self.moved_bytes = self.moved_bytes.min(bytes);
        if bytes - self.moved_bytes < STEP_BYTES.max(self.moved_bytes / 16) {
            return FullPages::default();
        }
        self.moved_bytes = bytes;
        FullPages::of(databases)
    }
}

/// Memory of entries and indexes that fills huge pages.
#[derive(Debug, Default)]
pub struct FullPages {
    addresses: Vec<usize>,
}

impl FullPages {
    fn of(databases: &[Keyspace]) -> Self {
        let mut filled: HashMap<usize, usize> = HashMap::new();
        for shard in databases.iter().flat_map(Keyspace::each_shard) {
            for (address, bytes) in shard.addresses() {
                // A part that extends into the next one counts here, which is close enough for small parts.
                *filled.entry(address / HUGE_BYTES).or_default() += bytes;
            }
        }
        let full = filled.iter().filter(|(_, bytes)| **bytes >= LEAST_BYTES);
        Self {
            addresses: full.map(|(number, _)| number * HUGE_BYTES).collect(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Moves the memory, until `stops` says so, and returns the number of huge pages. The kernel copies 2 MiB for each.
    /// Other threads can use the keyspaces, or drop them.
    pub fn move_to_huge_pages(&self, stops: impl Fn() -> bool) -> usize {
        let addresses = self.addresses.iter().take_while(|_| !stops());
        addresses
            .filter(|address| use_huge_page(**address).is_ok())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::View;

    #[test]
    fn entries_in_huge_pages_stay_as_they_are() {
        const KEYS: u32 = 100_000;
        let keyspace = Keyspace::new();
        let value = [7; 100];
        let put = |keyspace: &Keyspace, number: u32| {
            keyspace.put_string(&number.to_be_bytes(), &value, 0, |_| Some(None));
        };
        (0..KEYS).for_each(|number| put(&keyspace, number));
        let keyspaces = [keyspace];
        let moved = FullPages::of(&keyspaces).move_to_huge_pages(|| false);
        let [keyspace] = keyspaces;
        println!("{moved} huge pages");
        // A kernel that moves other memory moves this, too.
        let mut other = vec![1_u8; 3 * HUGE_BYTES];
        let address = other.as_mut_ptr().addr() + HUGE_BYTES;
        assert!(moved > 0 || use_huge_page(address).is_err());
        (KEYS..KEYS + 1_000).for_each(|number| put(&keyspace, number));
        for number in 0..KEYS + 1_000 {
            let is_there = |view: Option<View<'_>>| matches!(view, Some(View::String(bytes)) if bytes == value);
            assert!(
                keyspace.view(&number.to_be_bytes(), 0, is_there),
                "{number}"
            );
        }
    }

    #[test]
    fn huge_pages_follow_the_growth_of_the_memory() {
        let keyspaces = [Keyspace::new(), Keyspace::new()];
        let mut huge = HugePages::default();
        assert!(huge.follow(&keyspaces, 5).is_empty());
        for number in 0..150_000_u32 {
            let keyspace = &keyspaces[number as usize % 2];
            keyspace.put_string(&number.to_be_bytes(), &[7; 130], 0, |_| Some(None));
        }
        let written = STEP_BYTES as u64;
        assert!(huge.follow(&keyspaces, written - 1).is_empty());
        let full = huge.follow(&keyspaces, written);
        assert!(!full.is_empty());
        assert_eq!(full.move_to_huge_pages(|| true), 0);
        let bytes: usize = keyspaces.iter().map(Keyspace::total_memory_bytes).sum();
        assert_eq!(huge.moved_bytes, bytes);
        // Without growth, there is nothing to do.
        assert!(huge.follow(&keyspaces, 2 * written).is_empty());
        assert!(HugePages::default().follow(&[], written).is_empty());
    }
}
