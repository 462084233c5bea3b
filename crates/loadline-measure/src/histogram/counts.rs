//! Counters of times in the layout of HdrHistogram with three digits: one counter per slot, and as many slots as the
//! longest time needs.

/// Slots of the layout: 2,048 single values, then 1,024 for each of the 31 doublings up to 2^42.
pub(super) const SLOTS: usize = 2_048 + 31 * 1_024;
/// Slots that hold as many values each as their neighbours; the first two groups hold one value per slot.
const GROUP: usize = 1_024;
/// Slots that are skipped together where all are empty, as most are.
const PART: usize = 64;
/// Bits of a value that select its slot within its group.
const GROUP_BITS: u32 = 10;

/// Counters of 32 bits. Before their total could exceed 32 bits, the samples move to counters of 64 bits.
#[derive(Clone, Default)]
pub(super) struct Counts {
    /// Counters up to the group of the longest time so far.
    narrow: Vec<u32>,
    /// Samples in `narrow`. None of its counters can overflow before this total does.
    narrow_total: u32,
    /// Samples that were in `narrow` when it could not take more; empty until then.
    wide: Vec<u64>,
    wide_total: u64,
}

impl Counts {
    /// Counts `n` samples in a slot below [`SLOTS`].
    #[inline]
    pub(super) fn add(&mut self, slot: usize, n: u64) {
        if let Some(counter) = self.narrow.get_mut(slot)
            && let Ok(small) = u32::try_from(n)
            && let Some(total) = self.narrow_total.checked_add(small)
        {
            *counter += small;
            self.narrow_total = total;
        } else {
            self.make_room_and_add(slot, n);
        }
    }

    #[cold]
    fn make_room_and_add(&mut self, slot: usize, n: u64) {
        match u32::try_from(u64::from(self.narrow_total).saturating_add(n)) {
            Ok(total) => {
                grow(&mut self.narrow, slot);
                self.narrow[slot] += n as u32;
                self.narrow_total = total;
            }
            Err(_) => {
                self.widen();
                self.add_wide(slot, n);
            }
        }
    }

    /// Adds all samples of other counters.
    pub(super) fn merge(&mut self, other: &Self) {
        if let Some(last) = other.narrow.len().checked_sub(1) {
            // Once, instead of with each longer time.
            grow(&mut self.narrow, last);
        }
        other.iter().for_each(|(slot, count)| self.add(slot, count));
    }

    /// Removes all samples and keeps the 32-bit counters.
    pub(super) fn reset(&mut self) {
        self.narrow.fill(0);
        self.narrow_total = 0;
        self.wide = Vec::new();
        self.wide_total = 0;
    }

    /// Number of samples.
    #[inline]
    pub(super) fn total(&self) -> u64 {
        self.wide_total.saturating_add(self.narrow_total.into())
    }

    /// Slots in use with their counts, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        let slots = self.narrow.len().max(self.wide.len());
        let parts = (0..slots).step_by(PART);
        let used =
            parts.filter(|first| is_used(&self.narrow, *first) || is_used(&self.wide, *first));
        let counted = used.flat_map(|first| {
            let slots = first..first + PART;
            slots.map(|slot| (slot, self.count_in(slot)))
        });
        counted.filter(|(_, count)| *count > 0)
    }

    /// Bytes of memory for the counters.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.narrow.capacity() * size_of::<u32>() + self.wide.capacity() * size_of::<u64>()
    }

    fn count_in(&self, slot: usize) -> u64 {
        let narrow = self.narrow.get(slot).map_or(0, |count| u64::from(*count));
        let wide = self.wide.get(slot).map_or(0, |count| *count);
        wide.saturating_add(narrow)
    }

    /// Moves the samples of the 32-bit counters to the others.
    fn widen(&mut self) {
        for slot in 0..self.narrow.len() {
            let count = std::mem::take(&mut self.narrow[slot]);
            if count > 0 {
                self.add_wide(slot, count.into());
            }
        }
        self.narrow_total = 0;
    }

    fn add_wide(&mut self, slot: usize, n: u64) {
        grow(&mut self.wide, slot);
        self.wide[slot] = self.wide[slot].saturating_add(n);
        self.wide_total = self.wide_total.saturating_add(n);
    }
}

/// Slot of the sample number `rank` in ascending order, counted from 1, among slots in use; the last of them for a number
/// beyond their total, and `None` without any.
pub(super) fn slot_at(used: impl Iterator<Item = (usize, u64)>, rank: u64) -> Option<usize> {
    let mut passed = 0_u64;
    let mut last = None;
    for (slot, count) in used {
        last = Some(slot);
        passed = passed.saturating_add(count);
        if passed >= rank {
            break;
        }
    }
    last
}

/// Lowest value of a slot: the first 2,048 hold one value each, and each following group of 1,024 holds twice as many
/// values per slot as the one before.
pub(super) fn lowest_of(slot: usize) -> u64 {
    let doublings = doublings_of(slot);
    ((slot - doublings as usize * GROUP) as u64) << doublings
}

/// Highest value of a slot.
pub(super) fn highest_of(slot: usize) -> u64 {
    lowest_of(slot) + (values_of(slot) - 1)
}

/// Value in the middle of a slot, the upper of two.
pub(super) fn middle_of(slot: usize) -> u64 {
    lowest_of(slot) + values_of(slot) / 2
}

/// Number of values that a slot holds.
fn values_of(slot: usize) -> u64 {
    1 << doublings_of(slot)
}

/// Binary logarithm of the number of values that a slot holds.
fn doublings_of(slot: usize) -> u32 {
    (slot / GROUP).saturating_sub(1) as u32
}

/// Slot of a value, as [`lowest_of`] orders them.
#[inline]
pub(super) fn slot_of(value: u64) -> usize {
    let doublings = (u64::BITS - value.leading_zeros()).saturating_sub(GROUP_BITS + 1);
    doublings as usize * GROUP + (value >> doublings) as usize
}

/// Adds counters up to the group of `slot`.
fn grow<C: Copy + Default>(counters: &mut Vec<C>, slot: usize) {
    let needed = ((slot / GROUP + 1) * GROUP).max(2 * GROUP);
    if counters.len() < needed {
        // Zeros come from the allocator, and `resize` would reserve up to twice the memory.
        let mut grown = vec![C::default(); needed];
        grown[..counters.len()].copy_from_slice(counters);
        *counters = grown;
    }
}

/// Whether a counter of the part that begins at `first` is above zero.
fn is_used<C: Copy + Default + PartialEq>(counters: &[C], first: usize) -> bool {
    let part = counters.get(first..first + PART);
    part.is_some_and(|part| *part != [C::default(); PART])
}
