//! Pauses of the machine: periods in which one of its CPUs did not run.
//!
//! A virtual machine loses a CPU for milliseconds when its host gives it to another machine, and everything
//! on that CPU stops: a generator, or the server that it measures. `/proc/stat` counts such time in steps of
//! 10 ms without saying when it was. So each CPU has a watcher, a thread bound to it that sleeps for a
//! millisecond and reads the clock. With real-time priority nothing else on the machine delays it, so if it
//! is late, its CPU did not run. Without real-time priority, only long pauses can be distinguished from a
//! busy CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::clock::Clock;
use crate::waits::{TargetWaits, Wait};

/// A watcher's sleep in open loops.
pub(crate) const FINE: Duration = Duration::from_millis(1);
/// A watcher's sleep in closed loops, long enough not to affect their throughput.
pub(crate) const COARSE: Duration = Duration::from_millis(5);
/// With more CPUs than this, watchers sleep longer, so that their total cost stays the same.
const FEW_CPUS: usize = 4;
/// The delay from which a watcher was kept off its CPU. Timers of virtual machines are late by up to a tenth
/// of a millisecond.
const LATE_NS: u64 = 300_000;
/// The same for a watcher without real-time priority, which other threads can delay by a few time slices.
const LATE_AMONG_OTHERS_NS: u64 = 10_000_000;
/// The most pauses that a watcher stores; later ones only count in the sum.
const MOST_PAUSES: usize = 4_096;

/// A period in which a CPU did not run. Times count from the start of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Time at which its watcher should have run.
    pub start: Duration,
    /// The delay of the watcher.
    pub length: Duration,
    /// The number of the CPU.
    pub cpu: usize,
}

/// Pauses of this machine's CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    /// The number of observed CPUs.
    pub cpus: usize,
    /// Whether they were observed in real time. Otherwise, pauses below 10 ms are not detected, and other
    /// threads on a CPU can look like a pause.
    pub real_time: bool,
    /// The sum of all pauses.
    pub total: Duration,
    /// CPU time of all processes of this machine, if the system reports it, in steps of 10 ms.
    pub busy: Option<Duration>,
    /// CPU time that the host gave to other machines (steal), summed over all CPUs, in steps of 10 ms.
    pub stolen: Option<Duration>,
    /// The pauses, in order of time.
    pub list: Vec<Pause>,
}

impl Pauses {
    /// The part from `start` to `end`, with times from `start`. CPU times of the system are known for the whole only.
    pub(crate) fn within(&self, start: Duration, end: Duration) -> Self {
        let part = |pause: &Pause| {
            let from = pause.start.max(start);
            let until = (pause.start + pause.length).min(end);
            (from < until).then(|| Pause {
                start: from - start,
                length: until - from,
                cpu: pause.cpu,
            })
        };
        let list: Vec<Pause> = self.list.iter().filter_map(part).collect();
        Self {
            total: list.iter().map(|pause| pause.length).sum(),
            busy: None,
            stolen: None,
            list,
            ..*self
        }
    }
}

/// The observations of one watcher.
#[derive(Debug, Default)]
struct Seen {
    pauses: Vec<Pause>,
    total: Duration,
    real_time: bool,
}

/// Observations of a block.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) pauses: Option<Pauses>,
    /// Waits of the target for a CPU, if they were read.
    pub(crate) waits: Option<Vec<Wait>>,
}

/// Runs `work` while every CPU that this thread can use is observed every `sleep`, and the waits of `target` as well.
/// Returns both results; times count from the start of the clock that `work` returns.
pub(crate) fn watch<R>(
    sleep: Duration,
    target: Option<&TargetWaits>,
    work: impl FnOnce() -> (R, Clock),
) -> (R, Observed) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return (work().0, Observed::default());
    };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let sleep = sleep * cpus.len().div_ceil(FEW_CPUS).max(1) as u32;
    let (over, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let waits = Mutex::new(None);
    let before = CpuTimes::read();
    let (outcome, clock) = std::thread::scope(|scope| {
        let mut ending = Ending {
            over: &over,
            watchers: Vec::with_capacity(cpus.len()),
        };
        for &cpu in &cpus {
            let (over, seen) = (&over, &seen);
            let named = thread::Builder::new().name(format!("watch-{cpu}"));
            let watcher = named.spawn_scoped(scope, move || {
                let found = observe(cpu, sleep, over);
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend(found);
            });
            // If no thread can be created, that CPU is not observed.
            ending.watchers.extend(watcher.ok());
        }
        if let Some(target) = target {
            let (over, waits) = (&over, &waits);
            let named = thread::Builder::new().name("watch-target".into());
            let watcher = named.spawn_scoped(scope, move || {
                prefer();
                let found = target.observe(over);
                *waits.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            });
            ending.watchers.extend(watcher.ok());
        }
        work()
    });
    let after = before.zip(CpuTimes::read());
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let pauses = together(seen, clock).map(|pauses| Pauses {
        busy: after.map(|(before, after)| after.busy_since(&before)),
        stolen: after.map(|(before, after)| after.stolen.saturating_sub(before.stolen)),
        ..pauses
    });
    let mut waits = waits.into_inner().unwrap_or_else(PoisonError::into_inner);
    for wait in waits.iter_mut().flatten() {
        (wait.start, wait.end) = (since(clock, wait.start), since(clock, wait.end));
    }
    (outcome, Observed { pauses, waits })
}

/// Gives the calling thread real-time priority; returns whether that is allowed.
fn prefer() -> bool {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).is_ok()
}

/// A time of the common clock as one of `clock`.
fn since(clock: Clock, time: Duration) -> Duration {
    Duration::from_nanos(clock.translate(Clock::common(), time.as_nanos() as u64))
}

/// Ends the watchers, also if the work panics.
struct Ending<'s> {
    over: &'s AtomicBool,
    watchers: Vec<ScopedJoinHandle<'s, ()>>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for watcher in &self.watchers {
            watcher.thread().unpark();
        }
    }
}

/// Reads the clock on `cpu` until `over` is set; `None` if the thread cannot be bound to it.
fn observe(cpu: usize, sleep: Duration, over: &AtomicBool) -> Option<Seen> {
    let mut own = CpuSet::new();
    own.set(cpu);
    sched_setaffinity(None, &own).ok()?;
    let real_time = prefer();
    let late_ns = if real_time {
        LATE_NS
    } else {
        LATE_AMONG_OTHERS_NS
    };
    let clock = Clock::common();
    let mut seen = Seen {
        real_time,
        ..Seen::default()
    };
    while !over.load(Ordering::Relaxed) {
        let due_ns = clock.now_ns() + sleep.as_nanos() as u64;
        thread::park_timeout(sleep);
        let late = clock.now_ns().saturating_sub(due_ns);
        if late > late_ns {
            let length = Duration::from_nanos(late);
            seen.total += length;
            if seen.pauses.len() < MOST_PAUSES {
                seen.pauses.push(Pause {
                    start: Duration::from_nanos(due_ns),
                    length,
                    cpu,
                });
            }
        }
    }
    Some(seen)
}

/// Combines the observations of the watchers; `None` without any.
fn together(seen: Vec<Seen>, clock: Clock) -> Option<Pauses> {
    let watched = seen.len();
    let real_time = seen.iter().all(|one| one.real_time);
    let total = seen.iter().map(|one| one.total).sum();
    let mut list: Vec<Pause> = seen.into_iter().flat_map(|one| one.pauses).collect();
    for pause in &mut list {
        let end = since(clock, pause.start + pause.length);
        pause.start = since(clock, pause.start);
        pause.length = end - pause.start;
    }
    // A watcher starts before the block.
    list.retain(|pause| !pause.length.is_zero());
    list.sort_unstable_by_key(|pause| pause.start);
    (watched > 0).then_some(Pauses {
        cpus: watched,
        real_time,
        total,
        list,
        ..Pauses::default()
    })
}

/// The system's CPU counters, summed over all CPUs.
#[derive(Debug, Clone, Copy)]
struct CpuTimes {
    at_ns: u64,
    cpus: u32,
    /// Idle, or waiting for a disk.
    idle: Duration,
    stolen: Duration,
}

impl CpuTimes {
    /// Reads `/proc/stat` (proc(5)).
    fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second() as u32;
        let mut fields = text.strip_prefix("cpu ")?.split_ascii_whitespace();
        // User, nice, system; then idle and I/O wait; then interrupts of two kinds, and steal.
        let mut next = || fields.next()?.parse::<u32>().ok();
        let [_, _, _, idle, waiting, _, _, stolen] = [
            next()?,
            next()?,
            next()?,
            next()?,
            next()?,
            next()?,
            next()?,
            next()?,
        ];
        let lines = text.lines().skip(1);
        Some(Self {
            at_ns: Clock::common().now_ns(),
            cpus: lines.take_while(|line| line.starts_with("cpu")).count() as u32,
            idle: tick * idle + tick * waiting,
            stolen: tick * stolen,
        })
    }

    /// Time that was neither idle nor stolen. The kernel counts idle time exactly and busy time by ticks.
    fn busy_since(&self, before: &Self) -> Duration {
        let whole = Duration::from_nanos(self.at_ns - before.at_ns) * self.cpus;
        let idle = self.idle.saturating_sub(before.idle);
        let stolen = self.stolen.saturating_sub(before.stolen);
        whole.saturating_sub(idle).saturating_sub(stolen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real-time threads on every CPU delay the real-time watchers, as a host does. Requires the right to
    /// real-time priority.
    #[test]
    fn cpu_that_does_not_run_is_noticed() {
        const HELD: Duration = Duration::from_millis(30);
        let hold = || {
            let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
            let highest = ThreadPriority::Max;
            if set_thread_priority_and_policy(thread_native_id(), highest, fifo).is_err() {
                return false;
            }
            let clock = Clock::start();
            while clock.now_ns() < HELD.as_nanos() as u64 {
                std::hint::spin_loop();
            }
            true
        };
        let (held, pauses) = watch(FINE, None, || {
            let clock = Clock::start();
            thread::sleep(Duration::from_millis(20));
            (thread::spawn(hold).join().unwrap(), clock)
        });
        let pauses = pauses.pauses.unwrap();
        assert!(pauses.cpus >= 1);
        assert_eq!(pauses.real_time, held);
        if held {
            let longest = pauses.list.iter().map(|pause| pause.length).max();
            assert!(longest >= Some(HELD / 2), "{pauses:?}");
        }
        assert!(pauses.list.is_sorted_by_key(|pause| pause.start));
    }

    #[test]
    fn time_of_the_cpus_is_idle_busy_or_stolen() {
        let (before, after) = (
            CpuTimes {
                at_ns: 0,
                cpus: 2,
                idle: Duration::from_millis(5_000),
                stolen: Duration::from_millis(100),
            },
            CpuTimes {
                at_ns: 1_000_000_000,
                cpus: 2,
                idle: Duration::from_millis(5_900),
                stolen: Duration::from_millis(150),
            },
        );
        assert_eq!(after.busy_since(&before), Duration::from_millis(1_050));
        let read = CpuTimes::read().unwrap();
        assert!(read.cpus >= 1 && read.idle > Duration::ZERO);
    }

    #[test]
    fn watchers_end_with_the_work_that_they_watch() {
        let panicked = std::panic::catch_unwind(|| {
            watch(FINE, None, || -> ((), Clock) { panic!("on purpose") })
        });
        assert!(panicked.is_err());
    }
}
