//! A block of operations: the times at which its calls begin, and its result.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use loadline_client::Error;
use serde_json::{Value, json};

use super::Config;
use crate::systems::engines::resident_bytes;
use crate::units::nanoseconds;

/// The granularity of the timer that tasks wait with.
const TIMER_STEP: Duration = Duration::from_millis(2);
const NANOS: u128 = 1_000_000_000;

/// Times by slot.
type Times = RefCell<BTreeMap<u64, u64>>;

/// A block in progress, whose callers share a thread.
pub(super) struct Block {
    start: Instant,
    duration: Duration,
    most: u64,
    rate: u64,
    keys: u32,
    value_bytes: usize,
    choice: Cell<u32>,
    begun: Cell<u64>,
    ops: Cell<u64>,
    misses: Cell<u64>,
    errors: RefCell<BTreeMap<String, u64>>,
    times: Times,
    /// Times since calls began, and how late the driver began them (open loop).
    service: Times,
    lag: Times,
}

/// A call that is to begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    size: u64,
    /// Due time (open loop).
    due: Option<Instant>,
    lag: Duration,
}

impl Call {
    /// Time until it is due; `None` if it is.
    fn wait(&self) -> Option<Duration> {
        let wait = self.due?.checked_duration_since(Instant::now())?;
        (!wait.is_zero()).then_some(wait)
    }

    fn waited(mut self) -> Self {
        self.lag = self.due.map_or(Duration::ZERO, |due| due.elapsed());
        self
    }
}

impl Block {
    /// A block that begins now; nothing limits it where `duration` or `most` is 0.
    pub(super) fn new(config: &Config, duration: Duration, most: u64, seed: u64) -> Self {
        Self {
            start: Instant::now(),
            duration,
            most,
            rate: config.rate,
            keys: config.keys.max(1),
            value_bytes: config.value_bytes,
            choice: Cell::new((seed as u32).max(1)),
            begun: Cell::new(0),
            ops: Cell::new(0),
            misses: Cell::new(0),
            errors: RefCell::default(),
            times: Times::default(),
            service: Times::default(),
            lag: Times::default(),
        }
    }

    /// The next call of `size` operations, once it is due; `None` at the end of the block.
    pub(super) fn next(&self, size: usize) -> Option<Call> {
        let call = self.take(size as u64)?;
        let Some(wait) = call.wait() else {
            return Some(call);
        };
        thread::sleep(wait);
        Some(call.waited())
    }

    /// The next call of a task, which waits without the thread.
    pub(super) async fn next_of_task(&self) -> Option<Call> {
        let call = self.take(1)?;
        let Some(wait) = call.wait() else {
            return Some(call);
        };
        tokio::time::sleep(wait.saturating_sub(TIMER_STEP)).await;
        while call.wait().is_some() {
            tokio::task::yield_now().await;
        }
        Some(call.waited())
    }

    fn take(&self, size: u64) -> Option<Call> {
        let begun = self.begun.get();
        let ends = begun > 0 && !self.duration.is_zero();
        let is_over = ends && self.start.elapsed() >= self.duration;
        if is_over || (self.most > 0 && begun >= self.most) {
            return None;
        }
        let due = (self.rate > 0).then(|| {
            Duration::from_nanos((u128::from(begun) * NANOS / u128::from(self.rate)) as u64)
        });
        if ends && due.is_some_and(|due| due >= self.duration) {
            return None;
        }
        self.begun.set(begun + size);
        Some(Call {
            size,
            due: due.map(|due| self.start + due),
            lag: Duration::ZERO,
        })
    }

    /// The number of the next key (xorshift32, the same in all drivers).
    pub(super) fn choose(&self) -> usize {
        let mut choice = self.choice.get();
        choice ^= choice << 13;
        choice ^= choice >> 17;
        choice ^= choice << 5;
        self.choice.set(choice);
        (choice % self.keys) as usize
    }

    /// Counts a call that began at `begun` and has ended now. In an open loop its time is that since it was due.
    pub(super) fn done(&self, call: &Call, begun: Instant) {
        let now = Instant::now();
        record(&self.times, now - call.due.unwrap_or(begun), call.size);
        if call.due.is_some() {
            record(&self.service, now - begun, call.size);
            record(&self.lag, call.lag, call.size);
        }
        self.ops.set(self.ops.get() + call.size);
    }

    /// Looks at the reply to a read.
    pub(super) fn read(&self, reply: Result<Option<Vec<u8>>, Error>) {
        match reply {
            Ok(Some(value)) if value.len() == self.value_bytes => {}
            Ok(Some(_)) => self.fail("WRONGVALUE".to_owned()),
            Ok(None) => self.misses.set(self.misses.get() + 1),
            Err(error) => self.fail(kind(&error)),
        }
    }

    /// Looks at the reply to a write.
    pub(super) fn wrote<T>(&self, reply: Result<T, Error>) {
        if let Err(error) = reply {
            self.fail(kind(&error));
        }
    }

    fn fail(&self, kind: String) {
        *self.errors.borrow_mut().entry(kind).or_default() += 1;
    }

    /// The block as a line, with the CPU time that it took.
    pub(super) fn result(&self, cpu: impl FnOnce() -> Option<Duration>) -> Value {
        let elapsed = self.start.elapsed();
        let cpu = cpu().unwrap_or_default();
        let mut result = json!({
            "ops": self.ops.get(), "errors": *self.errors.borrow(), "misses": self.misses.get(),
            "elapsed_ns": nanoseconds(elapsed), "user_cpu_ns": nanoseconds(cpu), "system_cpu_ns": 0,
            "max_rss_bytes": resident_bytes("self").unwrap_or(0), "histogram": pairs(&self.times),
        });
        if self.rate > 0 {
            result["service_histogram"] = json!(pairs(&self.service));
            result["lag_histogram"] = json!(pairs(&self.lag));
        }
        result
    }
}

fn record(times: &Times, time: Duration, count: u64) {
    let ns = nanoseconds(time);
    let shift = u64::from((u64::BITS - ns.leading_zeros()).saturating_sub(11));
    *times
        .borrow_mut()
        .entry(1024 * shift + (ns >> shift))
        .or_default() += count;
}

fn pairs(times: &Times) -> Vec<(u64, u64)> {
    let times = times.borrow();
    times.iter().map(|(slot, count)| (*slot, *count)).collect()
}

/// The kind of an error: the first word of an error reply, or that of the failure.
pub(super) fn kind(error: &Error) -> String {
    match error {
        Error::Server(said) => {
            let said = said.to_string();
            said.split(' ').next().unwrap_or_default().to_owned()
        }
        Error::Connection { .. } => "Connection".into(),
        Error::Timeout { .. } => "Timeout".into(),
        Error::Protocol { .. } => "Protocol".into(),
        _ => "Other".into(),
    }
}
