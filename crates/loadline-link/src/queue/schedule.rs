//! Due times at the far end of data that arrives now.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use crate::shape::{Jitter, Lane};

/// One direction of a path, shared by all its connections: they compete for its bandwidth.
#[derive(Debug)]
pub struct Schedule {
    lane: Lane,
    rng: SmallRng,
    /// Time at which the last accepted byte leaves the wire.
    wire_free: Option<Instant>,
}

impl Schedule {
    /// The unit of transmission with limited bandwidth: the size of an Ethernet packet.
    pub const PIECE_BYTES: usize = 1_500;

    /// The capacity of the packet-level queue before the wire: a thousand packets, as with netem.
    pub const QUEUE_BYTES: usize = 1_000 * Self::PIECE_BYTES;

    /// Creates a direction with an idle wire.
    #[must_use]
    pub fn new(lane: Lane, seed: u64) -> Self {
        Self {
            lane,
            rng: SmallRng::seed_from_u64(seed),
            wire_free: None,
        }
    }

    /// The current lane.
    #[must_use]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Changes the lane for data that arrives from now on.
    pub fn set_lane(&mut self, lane: Lane) {
        self.lane = lane;
    }

    /// The largest number of bytes to schedule as one piece. With limited bandwidth, small pieces let the
    /// first byte of a large read arrive before its last one is sent.
    #[must_use]
    pub fn piece_bytes(&self) -> usize {
        match self.lane.bytes_per_second {
            None => usize::MAX,
            Some(_) => Self::PIECE_BYTES,
        }
    }

    /// Due time of `bytes` that arrive now: after the transmission of earlier data, then their own
    /// transmission, the delay and the jitter.
    pub fn due(&mut self, now: Instant, bytes: usize) -> Instant {
        let sent = match self.lane.bytes_per_second {
            None => now,
            Some(rate) => {
                let start = self.wire_free.map_or(now, |free| free.max(now));
                let sent = start + serialisation(bytes, rate);
                self.wire_free = Some(sent);
                sent
            }
        };
        sent + self.delay()
    }

    /// Time for which accepted data still occupies the wire.
    #[must_use]
    pub fn backlog(&self, now: Instant) -> Duration {
        self.wire_free
            .map_or(Duration::ZERO, |free| free.saturating_duration_since(now))
    }

    /// Whether the queue before the wire is longer than that of a router.
    #[must_use]
    pub fn queue_is_full(&self, now: Instant) -> bool {
        self.lane
            .bytes_per_second
            .is_some_and(|rate| self.backlog(now) > serialisation(Self::QUEUE_BYTES, rate))
    }

    /// Draws whether the packet that arrives now is lost.
    pub fn loses(&mut self) -> bool {
        self.lane.loss > 0.0 && self.rng.random_bool(self.lane.loss)
    }

    fn delay(&mut self) -> Duration {
        let delay = self.lane.delay;
        match self.lane.jitter {
            Jitter::None => delay,
            Jitter::Uniform { within } => {
                let width_ns = 2 * nanos(within);
                let drawn = Duration::from_nanos(self.rng.random_range(0..=width_ns));
                (delay + drawn).saturating_sub(within)
            }
            Jitter::Normal { deviation } => {
                let drawn: f64 = StandardNormal.sample(&mut self.rng);
                let size = seconds(deviation.as_secs_f64() * drawn.abs());
                if drawn < 0.0 {
                    delay.saturating_sub(size)
                } else {
                    delay + size
                }
            }
            Jitter::Pareto { scale, exponent } => {
                // By inversion: scale * (u^(-1/exponent) - 1) with u uniform in (0, 1].
                let u = 1.0 - self.rng.random::<f64>();
                delay + seconds(scale.as_secs_f64() * (u.powf(-1.0 / exponent) - 1.0))
            }
        }
    }
}

/// The transmission time of `bytes` at `rate` bytes per second, rounded up to nanoseconds.
fn serialisation(bytes: usize, rate: u64) -> Duration {
    let ns = (bytes as u128 * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)).min(Lane::LONGEST_DELAY)
}

/// Converts a drawn excess, capped at the longest delay because a heavy tail can reach any value.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value)
        .unwrap_or(Lane::LONGEST_DELAY)
        .min(Lane::LONGEST_DELAY)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.min(Lane::LONGEST_DELAY).as_nanos())
        .expect("an hour in nanoseconds fits in 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn draws(jitter: Jitter) -> Vec<f64> {
        let lane = Lane {
            delay: 100 * MS,
            jitter,
            ..Lane::default()
        };
        let mut schedule = Schedule::new(lane, 7);
        let now = Instant::now();
        (0..20_000)
            .map(|_| (schedule.due(now, 1) - now).as_secs_f64() * 1e3)
            .collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let square = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        (mean, (square / count).sqrt())
    }

    #[test]
    fn without_jitter_the_delay_is_exact() {
        assert!(draws(Jitter::None).iter().all(|ms| *ms == 100.0));
    }

    #[test]
    fn uniform_jitter_stays_within_and_has_its_moments() {
        let values = draws(Jitter::Uniform { within: 6 * MS });
        assert!(values.iter().all(|ms| (94.0..=106.0).contains(ms)));
        let (mean, deviation) = mean_and_deviation(&values);
        assert!((mean - 100.0).abs() < 0.1, "{mean}");
        assert!((deviation - 12.0 / 12f64.sqrt()).abs() < 0.1, "{deviation}");
    }

    #[test]
    fn normal_jitter_has_its_moments_and_is_never_negative() {
        let (mean, deviation) = mean_and_deviation(&draws(Jitter::Normal { deviation: 5 * MS }));
        assert!((mean - 100.0).abs() < 0.2, "{mean}");
        assert!((deviation - 5.0).abs() < 0.2, "{deviation}");
        let wide = draws(Jitter::Normal {
            deviation: 100 * MS,
        });
        let clamped = wide.iter().filter(|ms| **ms == 0.0).count();
        // The normal distribution has 15.9 % below the mean minus one deviation.
        assert!((2_900..3_450).contains(&clamped), "{clamped}");
    }

    #[test]
    fn pareto_jitter_only_adds_and_has_its_median() {
        let mut values = draws(Jitter::Pareto {
            scale: 10 * MS,
            exponent: 2.0,
        });
        values.sort_by(f64::total_cmp);
        assert!(values[0] >= 100.0);
        let median = loadline_measure::quantile::median(&values).unwrap();
        let expected = 100.0 + 10.0 * (2f64.sqrt() - 1.0);
        assert!((median - expected).abs() < 0.15, "{median} {expected}");
    }

    #[test]
    fn limited_wire_serialises_and_recovers_when_idle() {
        let lane = Lane {
            delay: 10 * MS,
            bytes_per_second: Some(1_000_000),
            ..Lane::default()
        };
        let mut schedule = Schedule::new(lane, 0);
        let now = Instant::now();
        assert_eq!(schedule.due(now, 1_000), now + 11 * MS);
        assert_eq!(schedule.due(now, 1_000), now + 12 * MS);
        assert_eq!(schedule.backlog(now), 2 * MS);
        let later = now + 100 * MS;
        assert_eq!(schedule.backlog(later), Duration::ZERO);
        assert_eq!(schedule.due(later, 500), later + 10 * MS + MS / 2);
    }

    #[test]
    fn thousand_packets_fill_the_queue_before_a_limited_wire() {
        let lane = Lane {
            bytes_per_second: Some(1_500_000),
            ..Lane::default()
        };
        let mut schedule = Schedule::new(lane, 0);
        let now = Instant::now();
        let accepted = (0..2_000)
            .take_while(|_| {
                let full = schedule.queue_is_full(now);
                schedule.due(now, Schedule::PIECE_BYTES);
                !full
            })
            .count();
        assert_eq!(accepted, 1_001);
        assert!(!schedule.queue_is_full(now + 2 * MS));
    }

    #[test]
    fn loss_is_a_share_of_the_packets() {
        let lane = Lane {
            loss: 0.1,
            ..Lane::default()
        };
        let mut schedule = Schedule::new(lane, 3);
        let lost = (0..20_000).filter(|_| schedule.loses()).count();
        assert!((1_850..2_150).contains(&lost), "{lost}");
        schedule.set_lane(Lane::default());
        assert!((0..1_000).all(|_| !schedule.loses()));
    }

    #[test]
    fn same_seed_draws_the_same_delays() {
        let jitter = Jitter::Normal { deviation: MS };
        assert_eq!(draws(jitter), draws(jitter));
    }
}
