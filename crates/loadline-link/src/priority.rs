//! Real-time priority for the thread of a link, which must release bytes in time.

use std::fmt;
use std::time::{Duration, Instant};

use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Scheduling of the thread of a link by the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// `SCHED_FIFO` at its lowest priority: the thread runs as soon as it has work.
    RealTime,
    /// Like every other thread. Either CPUs were not short when the link started, or real time is not
    /// permitted: it requires root, `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` of at least 1.
    #[default]
    Ordinary,
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RealTime => "real time",
            Self::Ordinary => "ordinary",
        })
    }
}

/// Gives the calling thread real-time scheduling if that is permitted. Returns the resulting scheduling.
fn claim() -> Scheduling {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    match set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo) {
        Ok(()) => Scheduling::RealTime,
        Err(_) => Scheduling::Ordinary,
    }
}

fn give_back() {
    let other = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    // Giving up a privilege is not refused; if it were, the kernel's throttle would still apply.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, other);
}

/// The longest time awake before a real-time thread gives up real time until it has slept. A longer one would
/// keep the kernel's threads off this CPU, and the kernel would eventually stop it for tens of milliseconds.
const MOST_AWAKE: Duration = Duration::from_millis(2);

/// The shortest wait that counts as sleep: other threads got the CPU in between.
const SLEEP: Duration = Duration::from_micros(20);

/// Time that threads waited for a CPU, on Linux (Documentation/accounting/psi.rst).
const PRESSURE: &str = "/proc/pressure/cpu";

/// The share of the last ten seconds, in percent, from which CPUs count as short.
const SHORT_PERCENT: f64 = 50.0;

/// Whether CPUs are short according to the text of [`PRESSURE`]; true if there is none.
fn is_short(pressure: Option<&str>) -> bool {
    let waited = pressure
        .and_then(|text| text.split_once("some avg10=")?.1.split(' ').next())
        .and_then(|percent| percent.parse::<f64>().ok());
    waited.is_none_or(|percent| percent >= SHORT_PERCENT)
}

/// The priority of one thread over time. Only that thread uses it.
#[derive(Debug)]
pub(crate) struct RealtimePriority {
    /// The highest that is permitted.
    best: Scheduling,
    /// The current one.
    current: Scheduling,
    awake_since: Instant,
}

impl RealtimePriority {
    /// Claims a priority for the calling thread. Real time helps only when CPUs are short: otherwise the
    /// kernel moves such a thread away from those that it wakes, and waking an idle CPU takes longer than a
    /// short queue.
    pub(crate) fn claim() -> Self {
        let best = if is_short(std::fs::read_to_string(PRESSURE).ok().as_deref()) {
            claim()
        } else {
            Scheduling::Ordinary
        };
        Self::new(best, Instant::now())
    }

    fn new(best: Scheduling, now: Instant) -> Self {
        Self {
            best,
            current: best,
            awake_since: now,
        }
    }

    /// The scheduling of the thread while it keeps to [`MOST_AWAKE`].
    pub(crate) fn best(&self) -> Scheduling {
        self.best
    }

    /// Records a wait from `began` to `now`.
    pub(crate) fn waited(&mut self, began: Instant, now: Instant) {
        match self.after(began, now) {
            Some(Scheduling::RealTime) => self.current = claim(),
            Some(Scheduling::Ordinary) => give_back(),
            None => {}
        }
    }

    /// The scheduling to change to after a wait.
    fn after(&mut self, began: Instant, now: Instant) -> Option<Scheduling> {
        let next = if now.saturating_duration_since(began) >= SLEEP {
            self.awake_since = now;
            self.best
        } else if now.saturating_duration_since(self.awake_since) > MOST_AWAKE {
            Scheduling::Ordinary
        } else {
            return None;
        };
        let changes = next != self.current;
        self.current = next;
        changes.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_does_not_sleep_gives_real_time_back_until_it_has_slept() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let mut priority = RealtimePriority::new(Scheduling::RealTime, start);
        assert_eq!(priority.after(at(1_000), at(1_001)), None);
        assert_eq!(priority.after(at(2_000), at(2_000)), None);
        let lowered = priority.after(at(2_010), at(2_011));
        assert_eq!(lowered, Some(Scheduling::Ordinary));
        assert_eq!(priority.after(at(9_000), at(9_001)), None);
        let raised = priority.after(at(9_001), at(9_100));
        assert_eq!(raised, Some(Scheduling::RealTime));
        assert_eq!(priority.after(at(9_100), at(10_000)), None);
        assert_eq!(priority.after(at(11_999), at(12_000)), None);
    }

    #[test]
    fn thread_without_the_right_to_real_time_never_asks_again() {
        let start = Instant::now();
        let mut priority = RealtimePriority::new(Scheduling::Ordinary, start);
        for us in [100, 5_000, 50_000] {
            let now = start + Duration::from_micros(us);
            assert_eq!(priority.after(now, now), None);
            assert_eq!(priority.after(now, now + SLEEP), None);
        }
    }

    #[test]
    fn cpus_are_short_where_threads_wait_half_of_the_time() {
        let pressure = |percent| format!("some avg10={percent} avg60=99.00 avg300=1.0 total=7\n");
        assert!(!is_short(Some(&pressure("49.99"))));
        assert!(is_short(Some(&pressure("50.00"))));
        assert!(is_short(Some("what is this")));
        assert!(is_short(None));
    }

    #[test]
    fn kernel_agrees_with_what_was_claimed() {
        let said = std::thread::spawn(|| (claim(), policy(), give_back(), policy()));
        let (claimed, policy, (), after) = said.join().unwrap();
        // SCHED_FIFO is 1 and SCHED_OTHER is 0 in `linux/sched.h`.
        let expected = match claimed {
            Scheduling::RealTime => "1",
            Scheduling::Ordinary => "0",
        };
        assert_eq!((policy.as_str(), after.as_str()), (expected, "0"));
    }

    /// The 41st field of the thread's `stat` (proc(5)).
    fn policy() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1.to_owned();
        after_name.split(' ').nth(38).unwrap().to_owned()
    }
}
