//! Several load generators that run one plan: a common start of their blocks, and results while they run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loadline_measure::agents::protocol::Tally;
use loadline_measure::histogram::Histogram;

/// The longest sleep before the interrupt is checked again.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Time before the start in which the thread no longer sleeps, because it could wake up late.
const AWAKE: Duration = Duration::from_micros(500);

/// The time at which the next block starts; without one it starts at once.
#[derive(Debug, Default)]
pub struct StartGate(Mutex<Option<Instant>>);

impl StartGate {
    /// Makes the next block wait until `at`.
    pub fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Waits for the start, if there is one, and returns how late it is. An interrupt ends the wait.
    pub(crate) fn pass(&self, interrupt: &AtomicBool) -> Option<Duration> {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let start = start?;
        loop {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() || interrupt.load(Ordering::Relaxed) {
                return Some(start.elapsed());
            }
            match left.checked_sub(AWAKE) {
                Some(asleep) => thread::sleep(asleep.min(LONGEST_SLEEP)),
                None => std::hint::spin_loop(),
            }
        }
    }
}

/// Results of measured blocks, added up several times per second.
#[derive(Debug, Default)]
pub struct Live {
    is_measuring: AtomicBool,
    tally: Mutex<Tally>,
}

impl Live {
    /// Sets whether the blocks that run from now on are measured: loading and warming up are not.
    pub fn measure(&self, is_measuring: bool) {
        self.is_measuring.store(is_measuring, Ordering::Relaxed);
    }

    /// Takes the results since the last call.
    #[must_use]
    pub fn take(&self) -> Tally {
        std::mem::take(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, ops: u64, errors: u64, response: &Histogram) {
        if self.is_measuring.load(Ordering::Relaxed) {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.ops += ops;
            tally.errors += errors;
            tally.response.merge(response);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_opens_at_its_time_and_once() {
        let (gate, interrupt) = (StartGate::default(), AtomicBool::new(false));
        assert_eq!(gate.pass(&interrupt), None);
        let at = Instant::now() + Duration::from_millis(30);
        gate.set(at);
        let late = gate.pass(&interrupt).unwrap();
        assert!(Instant::now() >= at + late);
        assert_eq!(gate.pass(&interrupt), None);
    }

    #[test]
    fn interrupt_opens_the_gate() {
        let gate = StartGate::default();
        gate.set(Instant::now() + Duration::from_secs(3_600));
        let late = gate.pass(&AtomicBool::new(true));
        assert_eq!(late, Some(Duration::ZERO));
    }

    #[test]
    fn only_measured_blocks_are_live() {
        let live = Live::default();
        let mut times = Histogram::new();
        times.record(5);
        live.add(1, 0, &times);
        live.measure(true);
        live.add(2, 1, &times);
        live.measure(false);
        live.add(4, 0, &times);
        let taken = live.take();
        assert_eq!((taken.ops, taken.errors, taken.response.count()), (2, 1, 1));
        assert_eq!(live.take(), Tally::default());
    }
}
