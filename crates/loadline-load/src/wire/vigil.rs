//! Spinning of an open loop before its starts.

/// A longer step between two clock readings means that the thread was off its CPU.
pub(super) const AWAY_NS: u64 = 200_000;
/// Breaks of a thread that lost its CPU, in which it sleeps instead of polling.
const SHORTEST_BREAK_NS: u64 = 10_000_000;
const LONGEST_BREAK_NS: u64 = 1_000_000_000;

/// Waits awake for the next start, as long as no other thread needs the CPU.
///
/// A timer wakes a thread tens of microseconds late, in a virtual machine more, and a server on the same host
/// answers faster than that: a loop that slept would mostly measure itself. If others need the CPU, a thread
/// that never sleeps has used up its time slice when its start is due and is even later. It then detects
/// jumps of its clock and sleeps for a while, longer each time, until a second passes without a disturbance.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    asleep_until_ns: u64,
    break_ns: u64,
}

impl Vigil {
    /// Time before a start at which the thread wakes up: about the cost of a sleep and a wake-up.
    pub(super) const AWAKE_NS: u64 = 60_000;

    /// Begins a block, whose clock starts at zero. A break of the last block continues.
    pub(super) fn begin(&mut self) {
        self.asleep_until_ns = self.break_ns;
    }

    /// Whether the thread can wait awake now.
    pub(super) fn is_awake(&self, now_ns: u64) -> bool {
        now_ns >= self.asleep_until_ns
    }

    /// Records a clock reading at `now_ns` after one at `last_ns`; `false` if the thread lost its CPU in
    /// between.
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
    fn thread_that_is_driven_from_its_cpu_sleeps_longer_each_time() {
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
