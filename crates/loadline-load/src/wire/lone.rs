//! What a lone connection of a closed loop needs, since no other one fills the time in which it
//! waits.

/// The window of a lone connection goes out in so many parts.
const PARTS: u32 = 8;
/// Where waiting awake did not pay, it is left out for up to so many waits.
const LONGEST_BREAK: u32 = 1_024;

/// Spreads a window over its round trip.
///
/// Sent at once, a window is answered at once, and target and generator take turns: one sleeps while
/// the other works. In parts that are a part of the round trip apart, both work all the time, and
/// neither pays for waking the other.
#[derive(Debug)]
pub(super) struct Spread {
    part: u32,
    /// How long the replies last received took.
    trip_ns: u64,
    /// Until when the next part is held back.
    held_until_ns: Option<u64>,
}

impl Spread {
    /// The spread of a window that is wide enough for parts.
    pub(super) fn of(window: u32) -> Option<Self> {
        (window >= 2 * PARTS).then_some(Self {
            part: window / PARTS,
            trip_ns: 0,
            held_until_ns: None,
        })
    }

    /// Operations that are sent at once.
    pub(super) fn part(&self) -> u32 {
        self.part
    }

    /// Notes how long the replies received last took.
    pub(super) fn note_trip(&mut self, trip_ns: u64) {
        self.trip_ns = trip_ns;
    }

    /// Holds the next part back: one went out at `now_ns`.
    pub(super) fn hold(&mut self, now_ns: u64) {
        self.held_until_ns = Some(now_ns + self.trip_ns / u64::from(PARTS));
    }

    /// Whether the next part is held back.
    pub(super) fn is_held(&self) -> bool {
        self.held_until_ns.is_some()
    }

    /// Lets the part that is held back go, where its time has come by `now_ns`.
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
    fn parts_are_a_part_of_the_round_trip_apart() {
        assert!(Spread::of(2 * PARTS - 1).is_none());
        let mut spread = Spread::of(100).unwrap();
        assert_eq!(spread.part(), 12);
        spread.note_trip(80_000);
        spread.hold(1_000);
        assert!(spread.is_held() && !spread.release(10_999) && spread.is_held());
        assert!(spread.release(11_000) && !spread.is_held() && !spread.release(12_000));
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
