//! Support for a single connection in a closed loop, where no other connection fills the waiting time.

/// The smallest window that is split.
const NARROWEST: u32 = 16;
/// The most waits that are spent asleep after spinning failed.
const LONGEST_BREAK: u32 = 1_024;

/// Sends a window in two halves.
///
/// A window sent at once is answered at once, so target and generator take turns: one sleeps while the other
/// works. With two halves in flight alternately, the target works on one while the generator reads the other
/// and sends it again, and neither has to wake the other. More, smaller parts cost more system calls than
/// they save.
#[derive(Debug)]
pub(super) struct Halves {
    smaller: u32,
    larger: u32,
    /// The round trip of the last replies.
    trip_ns: u64,
    /// The time until which the second half is delayed.
    held_until_ns: Option<u64>,
}

impl Halves {
    /// Creates the halves of a window, if it is wide enough.
    pub(super) fn of(window: u32) -> Option<Self> {
        (window >= NARROWEST).then_some(Self {
            smaller: window / 2,
            larger: window.div_ceil(2),
            trip_ns: 0,
            held_until_ns: None,
        })
    }

    /// The number of free places required for sending.
    pub(super) fn smaller(&self) -> u32 {
        self.smaller
    }

    /// The most operations that are sent at once.
    pub(super) fn larger(&self) -> u32 {
        self.larger
    }

    /// Records the round trip of the last replies.
    pub(super) fn note_trip(&mut self, trip_ns: u64) {
        self.trip_ns = trip_ns;
    }

    /// Delays one half: the other was sent at `now_ns`, and both had returned together. Half a round trip
    /// separates them again; over a long link they can stay together, because the round trip is not the
    /// target's work there.
    pub(super) fn hold(&mut self, now_ns: u64) {
        self.held_until_ns = Some(now_ns + (self.trip_ns / 2).min(Watch::AWAKE_NS));
    }

    /// The end of the delay, if a half is delayed.
    pub(super) fn held_until_ns(&self) -> Option<u64> {
        self.held_until_ns
    }

    /// Ends the delay if it is over at `now_ns`.
    pub(super) fn release(&mut self, now_ns: u64) -> bool {
        self.held_until_ns
            .take_if(|until| *until <= now_ns)
            .is_some()
    }
}

/// Waits awake for replies, as long as that pays off.
///
/// With nothing else to do, the thread would be asleep at every reply, and waking it takes longer than most
/// servers take to answer. If server and generator share a CPU, or the target is slow, spinning fails and is
/// tried less and less often.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The number of waits left to spend asleep.
    asleep: u32,
    /// The number of waits to spend asleep after the next failure.
    next_break: u32,
}

impl Watch {
    /// The longest time awake: about the cost of a sleep and a wake-up.
    pub(super) const AWAKE_NS: u64 = 60_000;

    /// Whether the next wait is spent awake.
    pub(super) fn is_awake(&mut self) -> bool {
        let awake = self.asleep == 0;
        self.asleep = self.asleep.saturating_sub(1);
        awake
    }

    /// A reply arrived in time.
    pub(super) fn succeeded(&mut self) {
        self.next_break = 0;
    }

    /// No reply arrived in time.
    pub(super) fn failed(&mut self) {
        self.next_break = (2 * self.next_break + 1).min(LONGEST_BREAK);
        self.asleep = self.next_break;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_came_together_are_half_a_trip_apart() {
        assert!(Halves::of(NARROWEST - 1).is_none());
        let mut halves = Halves::of(101).unwrap();
        assert_eq!((halves.smaller(), halves.larger()), (50, 51));
        halves.note_trip(80_000);
        halves.hold(1_000);
        assert_eq!(halves.held_until_ns(), Some(41_000));
        assert!(!halves.release(40_999) && halves.held_until_ns().is_some());
        assert!(halves.release(41_000) && !halves.release(42_000));
        assert_eq!(halves.held_until_ns(), None);
        halves.note_trip(10_000_000);
        halves.hold(1_000);
        assert_eq!(halves.held_until_ns(), Some(1_000 + Watch::AWAKE_NS));
    }

    #[test]
    fn waiting_awake_is_tried_rarely_where_it_fails() {
        let mut watch = Watch::default();
        let mut tried = 0;
        for _ in 0..10_000 {
            if watch.is_awake() {
                tried += 1;
                watch.failed();
            }
        }
        assert!((10..30).contains(&tried), "{tried} times");
        while !watch.is_awake() {}
        watch.succeeded();
        assert!((0..100).all(|_| watch.is_awake()));
    }
}
