//! What a lone connection of a closed loop needs, since no other one fills the time in which it
//! waits.

/// A window narrower than this is sent at once.
const NARROWEST: u32 = 16;
/// If spinning did not pay, it is skipped for up to this number of waits.
const LONGEST_BREAK: u32 = 1_024;

/// Sends a window in two halves.
///
/// Sent at once, a window is answered at once, and target and generator take turns: one sleeps while
/// the other works. With two halves on their way in turn, the target works on one while the generator
/// reads the other and sends it again, and neither pays for waking the other. More and smaller parts
/// cost more system calls than they save.
#[derive(Debug)]
pub(super) struct Halves {
    smaller: u32,
    larger: u32,
    /// How long the replies last received took.
    trip_ns: u64,
    /// Until when the second half is held back.
    held_until_ns: Option<u64>,
}

impl Halves {
    /// The halves of a window that is wide enough.
    pub(super) fn of(window: u32) -> Option<Self> {
        (window >= NARROWEST).then_some(Self {
            smaller: window / 2,
            larger: window.div_ceil(2),
            trip_ns: 0,
            held_until_ns: None,
        })
    }

    /// Places that must be free before something is sent.
    pub(super) fn smaller(&self) -> u32 {
        self.smaller
    }

    /// The most operations that are sent at once.
    pub(super) fn larger(&self) -> u32 {
        self.larger
    }

    /// Notes how long the replies received last took.
    pub(super) fn note_trip(&mut self, trip_ns: u64) {
        self.trip_ns = trip_ns;
    }

    /// Holds one half back: the other went out at `now_ns`, and both had come back together. Half a
    /// trip parts them again; behind a long link they may travel together, since the trip is not
    /// the target's work there.
    pub(super) fn hold(&mut self, now_ns: u64) {
        self.held_until_ns = Some(now_ns + (self.trip_ns / 2).min(Watch::AWAKE_NS));
    }

    /// Until when a half is held back, where one is.
    pub(super) fn held_until_ns(&self) -> Option<u64> {
        self.held_until_ns
    }

    /// Lets the half that is held back go, where its time has come by `now_ns`.
    pub(super) fn release(&mut self, now_ns: u64) -> bool {
        self.held_until_ns
            .take_if(|until| *until <= now_ns)
            .is_some()
    }
}

/// Waits awake for replies, as long as that pays.
///
/// With nothing else to do, every reply would find the thread asleep, and waking it takes longer
/// than most servers take to answer. Where server and generator share a CPU, or the target is slow,
/// waiting awake fails, and is tried again more and more rarely.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Waits that are still to be slept through.
    asleep: u32,
    /// How many waits to sleep through after the next failure.
    next_break: u32,
}

impl Watch {
    /// How long to wait awake: about what a sleep and a waking cost.
    pub(super) const AWAKE_NS: u64 = 60_000;

    /// Whether the next wait is spent awake.
    pub(super) fn is_awake(&mut self) -> bool {
        let awake = self.asleep == 0;
        self.asleep = self.asleep.saturating_sub(1);
        awake
    }

    /// A reply came in time.
    pub(super) fn succeeded(&mut self) {
        self.next_break = 0;
    }

    /// None did.
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
