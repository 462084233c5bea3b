//! How an open loop keeps awake for its starts.

/// A step between two looks at the clock that is longer than this is one in which the thread was not on
/// its CPU.
pub(super) const AWAY_NS: u64 = 200_000;
/// How long a thread that was driven from its CPU sleeps through its waits.
const SHORTEST_BREAK_NS: u64 = 10_000_000;
const LONGEST_BREAK_NS: u64 = 1_000_000_000;

/// Waits awake for the next start, as long as no other thread needs the CPU.
///
/// A timer wakes a thread tens of microseconds late, in a virtual machine more, and a server on the same
/// host answers within less than that: a loop that slept would mostly report itself. Where others need the
/// CPU, a thread that never sleeps has used up its slice when its start comes and is later still. It notices
/// that its clock jumps and sleeps for a while, longer each time until a second passes undisturbed.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    asleep_until_ns: u64,
    break_ns: u64,
}

impl Vigil {
    /// How long before a start the thread wakes up: about what a sleep and a waking cost.
    pub(super) const AWAKE_NS: u64 = 60_000;

    /// Begins a block, whose clock stands at zero: in a break where the last one ended in one.
    pub(super) fn begin(&mut self) {
        self.asleep_until_ns = self.break_ns;
    }

    /// Whether the thread may wait awake now.
    pub(super) fn is_awake(&self, now_ns: u64) -> bool {
        now_ns >= self.asleep_until_ns
    }

    /// Notes a look at the clock at `now_ns`, after one at `last_ns`; `false` where the thread was driven
    /// from its CPU in between.
    pub(super) fn looked(&mut self, last_ns: u64, now_ns: u64) -> bool {
        let undisturbed = now_ns.saturating_sub(last_ns) <= AWAY_NS;
        if !undisturbed {
            let awake_ns = now_ns.saturating_sub(self.asleep_until_ns);
            let longer = if awake_ns < LONGEST_BREAK_NS {
                2 * self.break_ns
            } else {
                0
            };
            self.break_ns = longer.clamp(SHORTEST_BREAK_NS, LONGEST_BREAK_NS);
            self.asleep_until_ns = now_ns + self.break_ns;
        }
        undisturbed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_driven_from_its_cpu_sleeps_longer_each_time() {
        let mut vigil = Vigil::default();
        vigil.begin();
        assert!(vigil.is_awake(0) && vigil.looked(0, AWAY_NS));
        let mut now_ns = 0;
        let mut breaks = Vec::new();
        for _ in 0..9 {
            assert!(!vigil.looked(now_ns, now_ns + AWAY_NS + 1));
            now_ns += AWAY_NS + 1;
            assert!(!vigil.is_awake(now_ns));
            breaks.push((vigil.asleep_until_ns - now_ns) / 1_000_000);
            now_ns = vigil.asleep_until_ns;
            assert!(vigil.is_awake(now_ns));
        }
        assert_eq!(breaks, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        // A new block begins in a break of the same length.
        vigil.begin();
        assert!(!vigil.is_awake(LONGEST_BREAK_NS - 1) && vigil.is_awake(LONGEST_BREAK_NS));
        // After a second without a disturbance the next break is short again.
        let later_ns = 2 * LONGEST_BREAK_NS;
        assert!(!vigil.looked(later_ns, later_ns + AWAY_NS + 1));
        assert!(vigil.is_awake(later_ns + AWAY_NS + 1 + SHORTEST_BREAK_NS));
    }
}
