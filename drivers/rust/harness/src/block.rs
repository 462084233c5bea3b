//! One block of operations: which keys, when it ends, and what it has counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Value, json};

use crate::Config;

/// Slots of the lab's histogram.
const SLOTS: usize = 2_048 + 31 * 1_024;

/// A block in progress.
#[derive(Debug)]
pub struct Block {
    value_bytes: usize,
    keys: u32,
    duration: Duration,
    most: u64,
    start: Instant,
    before: Usage,
    begun: Cell<u64>,
    ops: Cell<u64>,
    misses: Cell<u64>,
    choice: Cell<u32>,
    slots: RefCell<Vec<u64>>,
    errors: RefCell<BTreeMap<String, u64>>,
}

impl Block {
    pub(crate) fn new(
        config: &Config,
        duration: Duration,
        most: u64,
        seed: u64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            value_bytes: config.value_bytes,
            keys: u32::try_from(config.keys)?,
            duration,
            most,
            begun: Cell::new(0),
            ops: Cell::new(0),
            misses: Cell::new(0),
            choice: Cell::new((seed as u32).max(1)),
            slots: RefCell::new(vec![0; SLOTS]),
            errors: RefCell::default(),
            before: getrusage(UsageWho::RUSAGE_SELF)?,
            start: Instant::now(),
        })
    }

    /// Whether a call of `size` operations begins.
    pub fn goes_on(&self, size: usize) -> bool {
        let begun = self.begun.get();
        let is_late =
            !self.duration.is_zero() && begun > 0 && self.start.elapsed() >= self.duration;
        if is_late || (self.most > 0 && begun >= self.most) {
            return false;
        }
        self.begun.set(begun + size as u64);
        true
    }

    /// The number of the next key (xorshift32, as in all drivers).
    pub fn choose(&self) -> usize {
        let mut state = self.choice.get();
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        self.choice.set(state);
        (state % self.keys) as usize
    }

    /// Counts a call of `size` operations that began at `begun` and has ended now.
    pub fn done(&self, begun: Instant, size: usize) {
        let ns = begun.elapsed().as_nanos() as u64;
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(11) as usize;
        let slot = shift * 1_024 + (ns >> shift) as usize;
        self.slots.borrow_mut()[slot.min(SLOTS - 1)] += size as u64;
        self.ops.set(self.ops.get() + size as u64);
    }

    /// Looks at what a read returned.
    pub fn check(&self, value: Option<&[u8]>) {
        match value {
            None => self.misses.set(self.misses.get() + 1),
            Some(value) if value.len() != self.value_bytes => self.fail("WRONGVALUE", 1),
            Some(_) => {}
        }
    }

    /// Counts errors by the first word of what they say.
    pub fn fail(&self, said: impl ToString, count: usize) {
        let said = said.to_string();
        let kind = said.split(' ').next().unwrap_or_default().to_owned();
        *self.errors.borrow_mut().entry(kind).or_default() += count as u64;
    }

    pub(crate) fn result(&self) -> anyhow::Result<Value> {
        let elapsed = self.start.elapsed().as_nanos() as u64;
        let after = getrusage(UsageWho::RUSAGE_SELF)?;
        let ns = |of: fn(&Usage) -> TimeVal| (of(&after) - of(&self.before)).num_nanoseconds();
        let slots = self.slots.borrow();
        let histogram: Vec<(usize, u64)> = slots
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .collect();
        Ok(json!({
            "ops": self.ops.get(),
            "errors": *self.errors.borrow(),
            "misses": self.misses.get(),
            "elapsed_ns": elapsed,
            "user_cpu_ns": ns(Usage::user_time),
            "system_cpu_ns": ns(Usage::system_time),
            "max_rss_bytes": after.max_rss() * 1_024,
            "histogram": histogram,
        }))
    }
}
