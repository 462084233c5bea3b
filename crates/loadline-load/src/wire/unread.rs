//! The time in which a reply was readable and not read.
//!
//! A stall ends when the thread reads a reply, and the reply can have been there for a while if the thread had no CPU.
//! It cannot have been there when the thread last looked and found nothing. Everything before that look is the
//! target's time, however often the thread itself waited for a CPU: it would have waited for nothing.

use super::vigil::AWAY_NS;

/// The thread's last look for replies that found none.
#[derive(Debug)]
pub(super) enum Look {
    /// The thread was awake, and the look began then.
    Awake { since_ns: u64 },
    /// The thread went to sleep after it.
    Asleep {
        since_ns: u64,
        /// Its waits for a CPU until then, if they are known.
        run_wait_ns: Option<u64>,
        /// Time off its CPU between the look and the sleep.
        away_ns: u64,
    },
}

impl Look {
    /// Before `since_ns`, nothing could be there.
    pub(super) fn begin(since_ns: u64) -> Self {
        Self::Awake { since_ns }
    }

    /// Notes that the thread, which looked at `since_ns`, found nothing.
    #[inline]
    pub(super) fn found_nothing(&mut self, since_ns: u64) {
        *self = Self::Awake { since_ns };
    }

    /// Notes that the thread goes to sleep at `now_ns`, until something arrives.
    pub(super) fn falls_asleep(&mut self, now_ns: u64, run_wait_ns: Option<u64>) {
        let away_ns = match *self {
            Self::Awake { since_ns } => now_ns.saturating_sub(since_ns),
            // A thread that wakes up for another reason looks again.
            Self::Asleep { .. } => 0,
        };
        *self = Self::Asleep {
            since_ns: now_ns,
            run_wait_ns,
            away_ns,
        };
    }

    /// The longest time that a reply read at `now_ns` can have been there, where the thread has waited
    /// `run_wait_ns` for a CPU.
    pub(super) fn unread_ns(&self, now_ns: u64, run_wait_ns: Option<u64>) -> u64 {
        match *self {
            Self::Awake { since_ns } => now_ns.saturating_sub(since_ns),
            Self::Asleep {
                since_ns,
                run_wait_ns: before_ns,
                away_ns,
            } => {
                let slept_ns = now_ns.saturating_sub(since_ns);
                if slept_ns <= AWAY_NS {
                    // It was there when the thread went to sleep.
                    return away_ns + slept_ns;
                }
                let waited = run_wait_ns.zip(before_ns);
                waited.map_or(0, |(now_ns, before_ns)| {
                    now_ns.saturating_sub(before_ns).min(slept_ns)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_time_after_the_last_look_counts() {
        let mut look = Look::begin(0);
        look.found_nothing(100 * MS);
        assert_eq!(look.unread_ns(100 * MS + 900, None), 900);
        assert_eq!(look.unread_ns(112 * MS, Some(500 * MS)), 12 * MS);
        // Asleep, the waits for a CPU before the sleep do not count, and neither does the sleep.
        look.falls_asleep(113 * MS, Some(700 * MS));
        assert_eq!(look.unread_ns(130 * MS, Some(704 * MS)), 4 * MS);
        assert_eq!(look.unread_ns(130 * MS, None), 0);
        // A sleep that ends at once: the reply came while the thread was off its CPU.
        assert_eq!(look.unread_ns(113 * MS + 9, Some(700 * MS)), 13 * MS + 9);
        // Another sleep begins after a look that found nothing.
        look.falls_asleep(133 * MS, Some(800 * MS));
        assert_eq!(look.unread_ns(133 * MS + 9, Some(800 * MS)), 9);
    }
}
