//! Huge pages for the memory of a keyspace.
//!
//! A look-up reads a line of the index and a record at random addresses. With pages of 4 KiB, the processor has to read the
//! page tables for most of them first, which takes about a quarter of the time of a look-up among a million keys.

use std::collections::HashMap;

use super::Keyspace;
use crate::storage::{HUGE_BYTES, use_huge_page};

/// Bytes of a huge page that entries and index have to take, so that it does not hold much other memory.
const LEAST_BYTES: usize = HUGE_BYTES / 4 * 3;

impl Keyspace {
    /// Moves the memory of entries and index to huge pages where it fills them, until `stops` says so. Returns the number
    /// of huge pages.
    pub(crate) fn use_huge_pages(&self, stops: impl Fn() -> bool) -> usize {
        let mut filled: HashMap<usize, usize> = HashMap::new();
        for shard in self.each_shard() {
            for (address, bytes) in shard.addresses() {
                // A part that extends into the next one counts here, which is close enough for small parts.
                *filled.entry(address / HUGE_BYTES).or_default() += bytes;
            }
        }
        let full = filled.iter().filter(|(_, bytes)| **bytes >= LEAST_BYTES);
        let addresses = full.map(|(number, _)| number * HUGE_BYTES);
        let addresses = addresses.take_while(|_| !stops());
        addresses
            .filter(|address| use_huge_page(*address).is_ok())
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
        let put = |number: u32| {
            keyspace.put_string(&number.to_be_bytes(), &value, 0, |_| Some(None));
        };
        (0..KEYS).for_each(put);
        let moved = keyspace.use_huge_pages(|| false);
        println!("{moved} huge pages");
        // A kernel that moves other memory moves this, too.
        let mut other = vec![1_u8; 3 * HUGE_BYTES];
        let address = other.as_mut_ptr().addr() + HUGE_BYTES;
        assert!(moved > 0 || use_huge_page(address).is_err());
        assert_eq!(keyspace.use_huge_pages(|| true), 0);
        (KEYS..KEYS + 1_000).for_each(put);
        for number in 0..KEYS + 1_000 {
            let is_there = |view: Option<View<'_>>| matches!(view, Some(View::String(bytes)) if bytes == value);
            assert!(
                keyspace.view(&number.to_be_bytes(), 0, is_there),
                "{number}"
            );
        }
    }
}
