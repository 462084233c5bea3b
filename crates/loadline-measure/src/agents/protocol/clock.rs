//! The offset of the coordinator's clock from an agent's own.

use std::time::Duration;

/// The largest difference of two clocks that run freely, in parts per million.
const DRIFT_PPM: u128 = 500;
/// Age at which an offset is replaced, because clocks drift apart.
const LONGEST_USE: Duration = Duration::from_secs(5);
/// Differences below this are no step of a clock.
const SLACK_NS: u64 = 1_000_000;

/// One reading of the coordinator's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the question was sent, by the agent's own clock.
    pub sent: Duration,
    /// The coordinator's time since 1970.
    pub time: Duration,
    /// When the answer was received, by the agent's own clock.
    pub received: Duration,
}

/// The offset of the coordinator's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Nanoseconds to add to the agent's clock.
    pub offset_ns: i64,
    /// The largest possible error of the offset in nanoseconds: half a round trip.
    pub bound_ns: u64,
    /// When it was measured, by the agent's own clock.
    at: Duration,
}

impl Exchange {
    /// The offset that the exchange shows.
    #[must_use]
    pub fn offset(&self) -> ClockOffset {
        let trip = self.received.saturating_sub(self.sent);
        let middle = self.sent + trip / 2;
        let signed = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        ClockOffset {
            offset_ns: signed(self.time).saturating_sub(signed(middle)),
            // The coordinator counts in microseconds.
            bound_ns: nanoseconds(trip / 2).saturating_add(1_000),
            at: self.received,
        }
    }
}

impl ClockOffset {
    /// The time of the agent's own clock when the coordinator's shows `time_ns`; `None` before its start.
    #[must_use]
    pub fn own_time(&self, time_ns: u64) -> Option<Duration> {
        let own_ns = i128::from(time_ns) - i128::from(self.offset_ns);
        u64::try_from(own_ns).ok().map(Duration::from_nanos)
    }

    /// The time of the coordinator's clock in nanoseconds since 1970 when the agent's own shows `now`.
    #[must_use]
    pub fn coordinator_ns(&self, now: Duration) -> u64 {
        let time_ns = now.as_nanos() as i128 + i128::from(self.offset_ns);
        u64::try_from(time_ns.max(0)).unwrap_or(u64::MAX)
    }

    /// Whether `new` is a better measurement.
    fn is_worse_than(&self, new: &Self) -> bool {
        new.bound_ns < self.bound_ns || new.at.saturating_sub(self.at) > LONGEST_USE
    }

    /// Whether both can be right, so neither clock was set in between.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let apart = self.at.abs_diff(other.at).as_nanos() * DRIFT_PPM / 1_000_000;
        let allowed = u128::from(self.bound_ns) + u128::from(other.bound_ns) + apart;
        let difference = self.offset_ns.abs_diff(other.offset_ns);
        u128::from(difference) <= allowed + u128::from(SLACK_NS)
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The best of several offsets; a sudden change of the coordinator's clock is noticed.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    best: Option<ClockOffset>,
    /// The best one before the last refresh.
    reference: Option<ClockOffset>,
    samples: u32,
    longest_trip: Duration,
    stepped: bool,
}

impl ClockWatch {
    /// Takes an exchange.
    pub(super) fn add(&mut self, exchange: &Exchange) {
        let new = exchange.offset();
        let mut known = self.reference.iter().chain(&self.best);
        if known.any(|known| !known.agrees_with(&new)) {
            self.stepped = true;
            (self.reference, self.best) = (None, Some(new));
        } else if self.best.is_none_or(|best| best.is_worse_than(&new)) {
            self.best = Some(new);
        }
        let trip = exchange.received.saturating_sub(exchange.sent);
        self.longest_trip = self.longest_trip.max(trip);
        self.samples += 1;
    }

    /// Begins to measure again: only later exchanges determine the offset. Earlier ones still show a step.
    pub(super) fn refresh(&mut self) {
        self.samples = 0;
        self.reference = self.best.take().or(self.reference);
    }

    /// The number of exchanges since the last [`refresh`](Self::refresh).
    pub(super) fn samples(&self) -> u32 {
        self.samples
    }

    /// The longest exchange.
    pub(super) fn longest_trip(&self) -> Duration {
        self.longest_trip
    }

    /// The offset with the smallest error. The clock may have been set by so little that it is no
    /// [step](Self::take_step), and another agent may start by the time before that. Its distance from that time is at most
    /// the distance of the two offsets and the error of the earlier one.
    pub(super) fn best(&self) -> Option<ClockOffset> {
        let best = self.best?;
        let reference = self.reference.unwrap_or(best);
        let moved_ns = best.offset_ns.abs_diff(reference.offset_ns);
        Some(ClockOffset {
            bound_ns: best
                .bound_ns
                .max(reference.bound_ns.saturating_add(moved_ns)),
            ..best
        })
    }

    /// Whether the coordinator's clock was set since the last call.
    pub(super) fn take_step(&mut self) -> bool {
        std::mem::take(&mut self.stepped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sent_us: u64, trip_us: u64, time_us: u64) -> Exchange {
        Exchange {
            sent: Duration::from_micros(sent_us),
            time: Duration::from_micros(time_us),
            received: Duration::from_micros(sent_us + trip_us),
        }
    }

    #[test]
    fn shortest_exchange_determines_the_offset() {
        let mut clock = ClockWatch::default();
        clock.add(&exchange(1_000, 400, 51_250));
        clock.add(&exchange(2_000, 100, 52_050));
        clock.add(&exchange(3_000, 900, 53_000));
        let best = clock.best().unwrap();
        assert_eq!((best.offset_ns, best.bound_ns), (50_000_000, 51_000));
        let own = best.own_time(60_000_000).unwrap();
        assert_eq!(own, Duration::from_millis(10));
        assert_eq!(best.coordinator_ns(own), 60_000_000);
        assert_eq!(best.own_time(49_000_000), None);
        assert!(!clock.take_step());
    }

    #[test]
    fn step_of_the_clock_is_noticed_also_after_a_refresh() {
        let mut clock = ClockWatch::default();
        clock.add(&exchange(1_000, 100, 51_050));
        clock.refresh();
        clock.add(&exchange(2_000, 100, 55_050));
        assert!(clock.take_step());
        assert!(!clock.take_step());
        clock.add(&exchange(3_000, 100, 56_050));
        assert!(!clock.take_step(), "the new time is the reference");
        // Clocks that run freely differ by a part of the time that has passed.
        clock.add(&exchange(60_003_000, 100, 60_076_050));
        assert!(!clock.take_step());
    }
}
