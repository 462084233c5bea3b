//! Checks of a driver at a rate. Every bound holds on a busy machine too, where late calls are only later.

use std::time::{Duration, Instant};

use loadline_load::pacing::Stop;

use super::{Checked, READ, Subject, Test, check};
use crate::systems::drivers::{Block, Config};
use crate::units::nanoseconds;

/// Operations per second.
const RATE: u64 = 400;
/// Operations of the block in which the server pauses.
const OPS: u64 = 100;
/// The time of the block that ends by time.
const TIME: Duration = Duration::from_millis(100);
/// For how long the server pauses at first, and how often a longer pause is tried.
const PAUSE: Duration = Duration::from_millis(150);
const TRIES: u32 = 4;
/// Slots of the histogram with one value each, and slots of each doubling after them.
const SINGLE: u64 = 2_048;
const SLOTS: u64 = 1_024;

impl<'t> Test<'t> {
    /// Blocks of an open loop: one in which the server pauses, and one that ends by time.
    pub(super) fn paced(&self, case: Subject<'t>) -> Checked {
        let config = Config {
            rate: RATE,
            ..self.config(case, READ)
        };
        let mut process = super::Process::new(case.driver, config, self.control);
        process.start()?;
        let (depth, size) = (process.depth(), process.size());
        let mut pause = PAUSE;
        for attempt in 1.. {
            let resumed = Instant::now() + pause;
            for admin in self.admins.borrow_mut().iter_mut() {
                let milliseconds = pause.as_millis().to_string();
                let paused = admin.pause(&milliseconds);
                paused.map_err(|failure| failure.to_string())?;
            }
            let (_, block) = process.block(Stop::after_ops(OPS))?;
            check_schedule(&block, depth, size)?;
            check_times(&block, size)?;
            // The block began this long ago at most, so for this long at least the server paused in it.
            let began = Instant::now().checked_sub(Duration::from_nanos(block.elapsed_ns));
            let paused = began.map_or(Duration::ZERO, |began| {
                resumed.saturating_duration_since(began)
            });
            if paused >= pause / 2 {
                check_waiting(&block, paused, depth)?;
                break;
            }
            check(attempt < TRIES, || {
                format!("it began {TRIES} blocks after the server had paused for {pause:?}")
            })?;
            pause *= 2;
        }
        let (_, block) = process.block(Stop::after(TIME))?;
        let due = due_within(TIME, depth);
        check((1..=due).contains(&block.ops), || {
            format!(
                "{} operations in {TIME:?}, in which {due} were due",
                block.ops
            )
        })
    }
}

/// Operations that are due before a time of the block has passed. The first call is due at once.
fn due_within(time: Duration, depth: u64) -> u64 {
    let numerator = u128::from(nanoseconds(time)) * u128::from(RATE);
    let ops = numerator.div_ceil(1_000_000_000) as u64;
    ops.div_ceil(depth) * depth
}

/// All operations are called, and none before it is due.
fn check_schedule(block: &Block, depth: u64, size: u64) -> Checked {
    check((OPS..=OPS + size).contains(&block.ops), || {
        format!("{} operations instead of {OPS}", block.ops)
    })?;
    let last = block.ops.saturating_sub(depth) * 1_000_000_000 / RATE;
    check(block.elapsed_ns >= last, || {
        let [elapsed, last] = [block.elapsed_ns, last].map(Duration::from_nanos);
        format!("the block ended after {elapsed:?}, and its last call was due after {last:?}")
    })
}

/// The three histograms agree with each other and with the time of the block.
fn check_times(block: &Block, size: u64) -> Checked {
    let service = block.service_histogram.as_deref().unwrap_or_default();
    let lag = block.lag_histogram.as_deref().unwrap_or_default();
    for (name, part) in [("service", service), ("lag", lag)] {
        for &(slot, _) in part {
            let (longer, all) = (from(part, slot), from(&block.histogram, slot));
            check(longer <= all, || {
                let least = Duration::from_nanos(least_of(slot));
                format!(
                    "{longer} times of {name} are {least:?} or more, and {all} times since operations were due"
                )
            })?;
        }
    }
    let called = service.iter().map(|(slot, count)| {
        let least = u128::from(least_of(*slot));
        least * u128::from(*count)
    });
    let (called, most) = (
        called.sum::<u128>(),
        u128::from(block.elapsed_ns) * u128::from(size),
    );
    check(called <= most, || {
        format!(
            "calls took {called} ns together, and {size} at the same time can take {most} ns in this block"
        )
    })
}

/// Checks that calls due in the first half of a pause waited for at least the second half, even if they were made
/// later.
fn check_waiting(block: &Block, paused: Duration, depth: u64) -> Checked {
    let half = paused / 2;
    let due = u128::from(nanoseconds(half)) * u128::from(RATE) / 1_000_000_000;
    let due = (due as u64).min(OPS) / depth * depth;
    let waited = from(&block.histogram, slot_of(half));
    check(waited >= due, || {
        format!(
            "{waited} operations took {half:?} or more, and {due} were due when the server was to pause for longer"
        )
    })
}

/// The operations from a slot on.
fn from(slots: &[(u64, u64)], first: u64) -> u64 {
    let counts = slots.iter().filter(|(slot, _)| *slot >= first);
    counts.fold(0, |all, (_, count)| all.saturating_add(*count))
}

/// The slot of a time in the histogram of a driver.
fn slot_of(time: Duration) -> u64 {
    let ns = nanoseconds(time);
    let shift = u64::from((u64::BITS - ns.leading_zeros()).saturating_sub(11));
    SLOTS * shift + (ns >> shift)
}

/// The least time of a slot.
fn least_of(slot: u64) -> u64 {
    if slot < SINGLE {
        return slot;
    }
    let shift = slot / SLOTS - 1;
    (slot - SLOTS * shift) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations at their times since they were due and since their calls began, in milliseconds.
    fn block(times: impl Iterator<Item = (u64, u64)>, elapsed: u64) -> Block {
        let slot = |ms| slot_of(Duration::from_millis(ms));
        let (mut histogram, mut service) = (Vec::new(), Vec::new());
        for (since_due, since_call) in times {
            histogram.push((slot(since_due), 1));
            service.push((slot(since_call), 1));
        }
        Block {
            ops: histogram.len() as u64,
            elapsed_ns: elapsed * 1_000_000,
            lag_histogram: Some(vec![(0, histogram.len() as u64)]),
            histogram,
            service_histogram: Some(service),
            ..Block::default()
        }
    }

    /// A hundred operations of one caller, with a pause of 200 ms at the beginning, in which 80 are due.
    fn patient() -> Block {
        let first = (0..80).map(|number| (200 - number * 2, if number == 0 { 200 } else { 0 }));
        block(first.chain((80..100).map(|_| (1, 0))), 260)
    }

    #[test]
    fn block_at_its_rate_passes() {
        let block = patient();
        check_schedule(&block, 1, 1).unwrap();
        check_times(&block, 1).unwrap();
        check_waiting(&block, Duration::from_millis(200), 1).unwrap();
        assert_eq!(due_within(Duration::from_millis(100), 1), 40);
        assert_eq!(due_within(Duration::from_millis(101), 10), 50);
    }

    #[test]
    fn calls_before_they_are_due_and_calls_left_out_are_found() {
        let early = block((0..100).map(|_| (1, 1)), 240);
        let found = check_schedule(&early, 1, 1).unwrap_err();
        assert!(found.contains("its last call was due"), "{found}");
        let few = block((0..60).map(|_| (1, 1)), 900);
        let found = check_schedule(&few, 1, 1).unwrap_err();
        assert_eq!(found, "60 operations instead of 100");
    }

    #[test]
    fn waiting_that_is_left_out_is_found() {
        let mut block = patient();
        block.histogram = block.service_histogram.clone().unwrap();
        let found = check_waiting(&block, Duration::from_millis(200), 1).unwrap_err();
        assert!(found.starts_with("1 operations took 100ms or more, and 40"));
    }

    #[test]
    fn times_of_calls_that_count_the_waiting_are_found() {
        let mut block = patient();
        block.service_histogram = Some(block.histogram.clone());
        let found = check_times(&block, 1).unwrap_err();
        assert!(found.contains("can take 260000000 ns"), "{found}");
        block.service_histogram = Some(vec![(slot_of(Duration::from_secs(9)), 1), (0, 99)]);
        let found = check_times(&block, 1_000).unwrap_err();
        assert!(found.contains("1 times of service are"), "{found}");
    }

    #[test]
    fn slots_and_times_agree() {
        for ns in [0, 1, 2_047, 2_048, 4_095, 4_096, 123_456_789] {
            let least = least_of(slot_of(Duration::from_nanos(ns)));
            assert!(least <= ns && ns - least <= ns / 1_024, "{ns}: {least}");
        }
    }
}
