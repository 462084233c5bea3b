//! The last access to an entry in two bytes: its time, or how frequent accesses are.
//!
//! Redis has 24 bits for that. Here, a page of records has an origin, and a stamp counts from there.
//!
//! Time: the highest bit says that the access was after the origin, and the others count seconds. Before the origin, the
//! stamp counts steps of 512 seconds, which is as far back as 24 bits of seconds. An origin lies four and a half hours before
//! the access that it is chosen for, so an age is exact to the second below that, and too large by up to a step above. When
//! a second does not fit any more, after nine hours, the page gets another origin. Origins lie a whole number of
//! steps apart, so that another one does not change what was rounded before.
//!
//! Frequency: a byte of minutes since the origin, and the counter of Redis, which grows with the logarithm of the number of
//! accesses, and falls by one in each minute without any. An origin lies two hours before the access that it is chosen for. A
//! counter from before another origin falls by its minutes until then.

/// The fact about accesses to its entries that a keyspace keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessMetric {
    /// The time of the last one.
    #[default]
    Time,
    /// How frequent they are.
    Frequency,
}

/// The last access to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastAccess {
    /// Seconds since then; with [`AccessMetric::Frequency`], whole minutes at most.
    pub idle_seconds: u64,
    /// The counter of Redis, which grows with the logarithm of the number of accesses; with [`AccessMetric::Time`], that of a new
    /// entry.
    pub frequency: u8,
}

impl LastAccess {
    /// That of an entry that has just been added.
    pub const NEW: Self = Self {
        idle_seconds: 0,
        frequency: INITIAL,
    };
}

/// Bytes of a stamp.
pub(crate) const STAMP_BYTES: usize = 2;

/// The counter of a new entry, so that it is not less than that of others before it had a chance.
const INITIAL: u8 = 5;
/// The probability that an access is counted is 1 / (1 + this * (counter - INITIAL)).
const LOG_FACTOR: u64 = 10;

/// A stamp that says nothing, where times are kept.
pub(crate) const UNKNOWN: u16 = 0;
/// A stamp of the second of the origin.
const AT_ORIGIN: u16 = 1 << 15;
/// Seconds of a step before the origin.
const STEP: u32 = 512;
/// Seconds by which an origin lies before the access that it is chosen for, at least.
const EXACT: u32 = 1 << 14;

/// Minutes by which the origin of a counter lies before the access that it is chosen for.
const COUNTED: u8 = 127;

/// What a stamp says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Nothing: the entry was added before its keyspace kept accesses.
    Unknown,
    /// The time, in seconds since the Unix epoch.
    At(u32),
    /// The counter as it was after the last access, in minutes since the Unix epoch.
    Counted { minute: u32, count: u8 },
}

/// The seconds of a time in milliseconds since the Unix epoch.
#[inline]
pub(crate) fn seconds(now: u64) -> u32 {
    (now / 1_000) as u32
}

impl Stamp {
    /// That of an entry that is added now.
    #[inline]
    pub(crate) fn new(access: AccessMetric, now: u64) -> Self {
        LastAccess::NEW.stamp(access, now)
    }

    /// That after another access, which 32 random bits decide whether to count.
    pub(crate) fn accessed(self, access: AccessMetric, now: u64, random: u32) -> Self {
        let frequency = self.shown(now, 0).frequency;
        let counted = LastAccess {
            frequency: incremented(frequency, random),
            ..LastAccess::NEW
        };
        counted.stamp(access, now)
    }

    /// The last access as it is shown, of an entry that is there since a time in seconds or longer.
    pub(crate) fn shown(self, now: u64, since: u32) -> LastAccess {
        let second = match self {
            Self::Unknown => since,
            _ => self.second(),
        };
        let idle = seconds(now).saturating_sub(second);
        let frequency = match self {
            Self::Counted { count, .. } => decayed(count, idle / 60),
            Self::Unknown | Self::At(_) => INITIAL,
        };
        LastAccess {
            idle_seconds: idle.into(),
            frequency,
        }
    }

    fn second(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::At(second) => second,
            Self::Counted { minute, .. } => minute.saturating_mul(60),
        }
    }
}

impl LastAccess {
    /// The stamp that says the same. A counter is that of now.
    #[inline]
    pub(crate) fn stamp(self, access: AccessMetric, now: u64) -> Stamp {
        let second = seconds(now);
        match access {
            AccessMetric::Time => {
                let idle = u32::try_from(self.idle_seconds).unwrap_or(u32::MAX);
                Stamp::At(second.saturating_sub(idle))
            }
            AccessMetric::Frequency => Stamp::Counted {
                minute: second / 60,
                count: self.frequency,
            },
        }
    }
}

impl AccessMetric {
    /// The origin for a page whose last access this is: in seconds since the Unix epoch for times, in minutes for counters.
    pub(crate) fn origin(self, last: Stamp) -> u32 {
        match self {
            Self::Time => last.second().saturating_sub(EXACT) / STEP * STEP,
            Self::Frequency => (last.second() / 60).saturating_sub(COUNTED.into()),
        }
    }

    /// The bytes of a stamp in a page with this origin; `None` if it needs a later one.
    pub(crate) fn encode(self, origin: u32, stamp: Stamp) -> Option<u16> {
        match (self, stamp) {
            (Self::Time, Stamp::At(second)) => {
                let before = || (second < origin).then(|| before_origin(origin - second));
                since_origin(origin, second).or_else(before)
            }
            (Self::Time, Stamp::Unknown) => Some(UNKNOWN),
            (Self::Time, Stamp::Counted { .. }) => self.encode(origin, Stamp::At(stamp.second())),
            (Self::Frequency, Stamp::Counted { minute, count }) => {
                let count = decayed(count, origin.saturating_sub(minute));
                let minutes = u8::try_from(minute.saturating_sub(origin)).ok()?;
                Some(u16::from_le_bytes([count, minutes]))
            }
            // Seldom: the kept fact has changed, and another origin with it.
            (Self::Frequency, Stamp::Unknown) => Some(u16::from_le_bytes([INITIAL, COUNTED])),
            (Self::Frequency, Stamp::At(second)) => {
                let minute = second / 60;
                let count = INITIAL;
                self.encode(origin, Stamp::Counted { minute, count })
            }
        }
    }

    /// The stamp in these bytes in a page with this origin.
    #[inline]
    pub(crate) fn decode(self, origin: u32, bits: u16) -> Stamp {
        match self {
            Self::Time if bits == UNKNOWN => Stamp::Unknown,
            Self::Time if bits < AT_ORIGIN => {
                let steps = u32::from(AT_ORIGIN - bits);
                Stamp::At(origin.saturating_sub(steps * STEP))
            }
            Self::Time => Stamp::At(origin.saturating_add((bits - AT_ORIGIN).into())),
            Self::Frequency => {
                let [count, minutes] = bits.to_le_bytes();
                let minute = origin.saturating_add(minutes.into());
                Stamp::Counted { minute, count }
            }
        }
    }
}

/// The bytes of a stamp at this second, if it is one of those for which bytes count seconds from the origin.
#[inline]
pub(crate) fn since_origin(origin: u32, second: u32) -> Option<u16> {
    let after = second.wrapping_sub(origin);
    (after < AT_ORIGIN.into()).then_some(AT_ORIGIN | after as u16)
}

/// The stamp of an access as many seconds before the origin, or of the oldest one.
fn before_origin(seconds: u32) -> u16 {
    let oldest = u32::from(AT_ORIGIN - 1);
    AT_ORIGIN - seconds.div_ceil(STEP).min(oldest) as u16
}

/// A counter after as many minutes without an access.
fn decayed(count: u8, minutes: u32) -> u8 {
    count.saturating_sub(u8::try_from(minutes).unwrap_or(u8::MAX))
}

/// A counter after an access, by 32 random bits.
fn incremented(count: u8, random: u32) -> u8 {
    let above = u64::from(count.saturating_sub(INITIAL));
    let is_counted = u64::from(random) * (1 + LOG_FACTOR * above) < 1 << 32;
    count.saturating_add(is_counted.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A time of our days, in seconds.
    fn second() -> impl Strategy<Value = u32> {
        1_700_000_000..2_000_000_000_u32
    }

    fn ms(second: u32) -> u64 {
        u64::from(second) * 1_000
    }

    proptest! {
        #[test]
        fn recent_access_is_exact_and_an_old_one_too_old_by_less_than_a_step(now in second(), idle in 0..20_000_000_u32) {
            let access = AccessMetric::Time;
            let origin = access.origin(Stamp::At(now));
            let bits = access.encode(origin, Stamp::At(now - idle)).unwrap();
            let shown = access.decode(origin, bits).shown(ms(now), 0).idle_seconds as u32;
            if idle <= EXACT {
                prop_assert_eq!(shown, idle);
            } else if idle < 1 << 24 {
                prop_assert!((idle..idle + STEP).contains(&shown), "{shown}");
            } else {
                prop_assert!(((1 << 24) - STEP..(1 << 24) + EXACT + STEP).contains(&shown), "{shown}");
            }
            prop_assert_ne!(bits, UNKNOWN);
        }

        #[test]
        fn another_origin_keeps_what_was_rounded(now in second(), idle in 0..10_000_000_u32, later in 0..1_000_000_u32) {
            let access = AccessMetric::Time;
            let origin = access.origin(Stamp::At(now));
            let bits = access.encode(origin, Stamp::At(now - idle)).unwrap();
            let stamp = access.decode(origin, bits);
            let next = access.origin(Stamp::At(now + later));
            let again = access.decode(next, access.encode(next, stamp).unwrap());
            let (once, twice) = (stamp.second(), again.second());
            prop_assert!(twice <= once && once - twice < STEP, "{once} {twice}");
            let third = access.origin(Stamp::At(now + 2 * later));
            let thrice = access.decode(third, access.encode(third, again).unwrap());
            prop_assert!(once - thrice.second() < STEP, "{once} {thrice:?}");
        }

        #[test]
        fn time_beyond_a_page_asks_for_another_origin(now in second(), later in 0..100_000_u32) {
            let access = AccessMetric::Time;
            let origin = access.origin(Stamp::At(now));
            let fits = now + later - origin < AT_ORIGIN.into();
            prop_assert_eq!(access.encode(origin, Stamp::At(now + later)).is_some(), fits);
            let next = access.origin(Stamp::At(now + later));
            prop_assert!(access.encode(next, Stamp::At(now + later)).is_some());
        }

        /// The plain version keeps the minute as a number of its own.
        #[test]
        fn counter_falls_by_a_minute_whatever_the_origins(
            now in second(),
            count in any::<u8>(),
            waits in proptest::collection::vec(0..200_u32, 1..5),
        ) {
            let access = AccessMetric::Frequency;
            let first = LastAccess { frequency: count, ..LastAccess::NEW }.stamp(access, ms(now));
            let (mut origin, mut minute) = (access.origin(first), now / 60);
            let mut bits = access.encode(origin, first).unwrap();
            for wait in waits {
                minute += wait;
                let shown = access.decode(origin, bits).shown(ms(minute * 60), 0);
                prop_assert_eq!(u32::from(shown.frequency), u32::from(count).saturating_sub(minute - now / 60));
                let next = access.origin(Stamp::At(minute * 60));
                bits = access.encode(next, access.decode(origin, bits)).unwrap();
                origin = next;
            }
        }

        #[test]
        fn stamps_of_one_kind_are_read_as_the_other(now in second(), idle in 0..10_000_u32, count in any::<u8>()) {
            let last = LastAccess { idle_seconds: idle.into(), frequency: count };
            let times = last.stamp(AccessMetric::Time, ms(now));
            let origin = AccessMetric::Frequency.origin(Stamp::At(now));
            let bits = AccessMetric::Frequency.encode(origin, times).unwrap();
            let shown = AccessMetric::Frequency.decode(origin, bits).shown(ms(now), 0);
            let minutes = now / 60 - (now - idle) / 60;
            prop_assert_eq!(u32::from(shown.frequency), u32::from(INITIAL).saturating_sub(minutes));
            let counter = Stamp::Counted { minute: (now - idle) / 60, count };
            let origin = AccessMetric::Time.origin(Stamp::At(now));
            let bits = AccessMetric::Time.encode(origin, counter).unwrap();
            let shown = AccessMetric::Time.decode(origin, bits).shown(ms(now), 0);
            prop_assert!((idle..idle + 60).contains(&(shown.idle_seconds as u32)));
        }
    }

    #[test]
    fn entry_without_a_stamp_counts_from_the_start() {
        for origin in [0, 1_700_000_000 / STEP * STEP] {
            let bits = AccessMetric::Time.encode(origin, Stamp::Unknown).unwrap();
            let stamp = AccessMetric::Time.decode(origin, bits);
            assert_eq!(stamp, Stamp::Unknown);
            assert_eq!(stamp.shown(90_000, 70).idle_seconds, 20);
        }
        let now = Stamp::new(AccessMetric::Frequency, 1_000 * 60_000);
        let origin = AccessMetric::Frequency.origin(now);
        let bits = AccessMetric::Frequency
            .encode(origin, Stamp::Unknown)
            .unwrap();
        assert_eq!(AccessMetric::Frequency.decode(origin, bits), now);
    }

    #[test]
    fn clock_that_was_set_back_gives_no_age() {
        let stamp = Stamp::At(5_000);
        assert_eq!(stamp.shown(4_000_000, 0).idle_seconds, 0);
        let origin = AccessMetric::Time.origin(Stamp::At(5_000_000));
        let bits = AccessMetric::Time.encode(origin, stamp).unwrap();
        assert!(AccessMetric::Time.decode(origin, bits).second() <= 5_000);
    }

    /// Counters of Redis with a factor of 10 after as many accesses, by the comments of its configuration file.
    #[test]
    fn counter_grows_with_the_logarithm_of_the_accesses() {
        let mut random: u32 = 1;
        let mut count = INITIAL;
        let mut seen = Vec::new();
        for accesses in 1..=100_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            count = incremented(count, random);
            if [1, 100, 1_000, 100_000].contains(&accesses) {
                seen.push(count);
            }
        }
        let ranges = [(6, 6), (7, 13), (13, 24), (130, 155)];
        for (count, (least, most)) in seen.iter().zip(ranges) {
            assert!((least..=most).contains(count), "{seen:?}");
        }
        assert_eq!(incremented(u8::MAX, 0), u8::MAX);
        assert_eq!(incremented(0, u32::MAX), 1);
    }
}
