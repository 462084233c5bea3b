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

const NANOS: u128 = 1_000_000_000;
/// Lateness of the timer of tasks.
const TIMER_STEP: Duration = Duration::from_millis(2);

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
    /// Operations per second of an open loop; 0 for a closed one.
    rate: u64,
    slots: RefCell<Vec<u64>>,
    /// Times since calls began, and how late they began (open loop).
    service: RefCell<Vec<u64>>,
    lag: RefCell<Vec<u64>>,
    errors: RefCell<BTreeMap<String, u64>>,
}

/// A call that is to be made.
#[derive(Debug)]
pub struct Call {
    size: usize,
    /// When it is due (open loop).
    due: Option<Instant>,
    lag: Duration,
}

/// A call that was begun.
#[derive(Debug)]
pub struct Begun {
    call: Call,
    at: Instant,
}

impl Call {
    /// Begins it.
    #[must_use]
    pub fn begin(self) -> Begun {
        Begun {
            call: self,
            at: Instant::now(),
        }
    }

    /// Notes how late its caller, who waited for it, is.
    fn waited(mut self) -> Self {
        self.lag = self.due.map_or(Duration::ZERO, |due| due.elapsed());
        self
    }

    /// The time until it is due; `None` if it is.
    fn wait(&self) -> Option<Duration> {
        let wait = self.due?.checked_duration_since(Instant::now())?;
        (!wait.is_zero()).then_some(wait)
    }
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
            rate: config.rate,
            slots: RefCell::new(vec![0; SLOTS]),
            service: RefCell::new(vec![0; SLOTS]),
            lag: RefCell::new(vec![0; SLOTS]),
            errors: RefCell::default(),
            before: getrusage(UsageWho::RUSAGE_SELF)?,
            start: Instant::now(),
        })
    }

    /// The next call of `size` operations, once it is due; `None` at the end of the block.
    pub fn next(&self, size: usize) -> Option<Call> {
        let call = self.take(size)?;
        let Some(wait) = call.wait() else {
            return Some(call);
        };
        std::thread::sleep(wait);
        Some(call.waited())
    }

    /// The next call of a task, which waits without the thread.
    pub async fn next_of_task(&self, size: usize) -> Option<Call> {
        let call = self.take(size)?;
        let Some(wait) = call.wait() else {
            return Some(call);
        };
        // The runtime's timer has steps of a millisecond; the remainder is spent on other tasks.
        tokio::time::sleep(wait.saturating_sub(TIMER_STEP)).await;
        while call.wait().is_some() {
            tokio::task::yield_now().await;
        }
        Some(call.waited())
    }

    fn take(&self, size: usize) -> Option<Call> {
        let begun = self.begun.get();
        let elapsed = self.start.elapsed();
        let is_late = !self.duration.is_zero() && begun > 0 && elapsed >= self.duration;
        if is_late || (self.most > 0 && begun >= self.most) {
            return None;
        }
        let due = (self.rate > 0).then(|| {
            Duration::from_nanos((u128::from(begun) * NANOS / u128::from(self.rate)) as u64)
        });
        if due.is_some_and(|due| begun > 0 && !self.duration.is_zero() && due >= self.duration) {
            return None;
        }
        self.begun.set(begun + size as u64);
        Some(Call {
            size,
            due: due.map(|due| self.start + due),
            lag: Duration::ZERO,
        })
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

    /// Counts a call that has ended now. In an open loop its time is that since it was due.
    pub fn done(&self, begun: &Begun) {
        let Call { size, due, lag } = begun.call;
        let now = Instant::now();
        record(&self.slots, now - due.unwrap_or(begun.at), size);
        if due.is_some() {
            record(&self.service, now - begun.at, size);
            record(&self.lag, lag, size);
        }
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
        let mut result = json!({
            "ops": self.ops.get(),
            "errors": *self.errors.borrow(),
            "misses": self.misses.get(),
            "elapsed_ns": elapsed,
            "user_cpu_ns": ns(Usage::user_time),
            "system_cpu_ns": ns(Usage::system_time),
            "max_rss_bytes": after.max_rss() * 1_024,
            "histogram": used(&self.slots),
        });
        if self.rate > 0 {
            result["service_histogram"] = json!(used(&self.service));
            result["lag_histogram"] = json!(used(&self.lag));
        }
        Ok(result)
    }
}

fn record(slots: &RefCell<Vec<u64>>, time: Duration, size: usize) {
    let ns = time.as_nanos() as u64;
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(11) as usize;
    let slot = shift * 1_024 + (ns >> shift) as usize;
    slots.borrow_mut()[slot.min(SLOTS - 1)] += size as u64;
}

/// The slots that are used, with their counts.
fn used(slots: &RefCell<Vec<u64>>) -> Vec<(usize, u64)> {
    let slots = slots.borrow();
    let counts = slots.iter().copied().enumerate();
    counts.filter(|(_, count)| *count > 0).collect()
}
