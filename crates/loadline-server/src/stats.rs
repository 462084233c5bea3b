//! Counters that INFO shows.

use std::collections::BTreeMap;
use std::time::Duration;

/// Counters since the start or since CONFIG RESETSTAT.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) connections: u64,
    pub(crate) rejected_connections: u64,
    /// Connections closed because of `maxmemory-clients`.
    pub(crate) evicted_clients: u64,
    pub(crate) commands: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Removed keys at the last reset.
    pub(crate) gone_before: Gone,
    /// Error replies, by their first word.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Failures of the command that runs, if it has written errors into its own reply, as scripts do.
    pub(crate) own_failures: u64,
    /// Statistics by command and subcommand, in the order of [`crate::commands::places`].
    pub(crate) calls: Vec<CallStat>,
    /// Times of measured calls, by the places of commands and subcommands.
    pub(crate) histograms: BTreeMap<usize, Histogram>,
    pub(crate) commands_rate: Rate,
    pub(crate) input_rate: Rate,
    pub(crate) output_rate: Rate,
}

/// Keys that the server removed by itself.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Gone {
    pub(crate) expired: u64,
    /// Keys evicted to make room.
    pub(crate) evicted: u64,
}

/// The most kinds of errors that are counted separately, because clients can cause new kinds.
const ERROR_KINDS: usize = 128;

impl Stats {
    pub(crate) fn new(commands: usize, gone_before: Gone, now_ms: u64) -> Self {
        Self {
            connections: 0,
            rejected_connections: 0,
            evicted_clients: 0,
            commands: 0,
            bytes_in: 0,
            bytes_out: 0,
            hits: 0,
            misses: 0,
            gone_before,
            errors: BTreeMap::new(),
            own_failures: 0,
            calls: vec![CallStat::default(); commands],
            histograms: BTreeMap::new(),
            commands_rate: Rate::new(now_ms),
            input_rate: Rate::new(now_ms),
            output_rate: Rate::new(now_ms),
        }
    }

    /// Counts a look-up of a key.
    pub(crate) fn count_lookup(&mut self, was_there: bool) {
        if was_there {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&mut self, text: &[u8]) {
        let kind = text.split(|byte| *byte == b' ').next();
        let kind = String::from_utf8_lossy(kind.unwrap_or_default());
        if let Some(count) = self.errors.get_mut(&*kind) {
            *count += 1;
        } else if self.errors.len() < ERROR_KINDS {
            self.errors.insert(kind.into_owned(), 1);
        }
    }

    /// Samples the rates.
    pub(crate) fn sample(&mut self, now_ms: u64) {
        self.commands_rate.sample(self.commands, now_ms);
        self.input_rate.sample(self.bytes_in, now_ms);
        self.output_rate.sample(self.bytes_out, now_ms);
    }
}

/// The times of calls: numbers of those that took up to 1.024 µs, twice, four times that and so on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram([u64; Histogram::STEPS]);

impl Histogram {
    const STEPS: usize = 24;
    const FIRST_NS: u64 = 1_024;

    pub(crate) fn add(&mut self, took: Duration, calls: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let step = nanos.div_ceil(Self::FIRST_NS).max(1).next_power_of_two();
        let step = (step.trailing_zeros() as usize).min(Self::STEPS - 1);
        self.0[step] += calls;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The steps that have calls, as microseconds, with the numbers of calls that took at most that long.
    pub(crate) fn steps(&self) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let steps = self.0.iter().enumerate().filter(|(_, calls)| **calls > 0);
        let steps = steps.map(|(step, calls)| {
            sum += calls;
            // Redis counts in units of 128th of a step, and shows the last unit of a step.
            let nanos = (Self::FIRST_NS << step) + (1 << (step + 3)) - 1;
            (nanos / 1_000, sum)
        });
        steps.collect()
    }
}

/// Statistics of one command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallStat {
    pub(crate) calls: u64,
    /// Calls refused before execution.
    pub(crate) rejected: u64,
    /// Calls that were executed and replied with an error.
    pub(crate) failed: u64,
    /// Timed calls, and their total time.
    pub(crate) timed: u64,
    pub(crate) time: Duration,
}

impl CallStat {
    /// The number of first calls that are all timed.
    const FIRST: u64 = 64;
    /// After those, one call in this many is timed.
    const ONE_IN: u64 = 16;

    /// The number of calls that the next one stands for if it is timed although few are.
    pub(crate) fn weight(&self) -> u64 {
        if self.calls < Self::FIRST {
            1
        } else {
            Self::ONE_IN
        }
    }

    /// Whether to time the next call.
    pub(crate) fn is_timed(&self) -> bool {
        self.calls < Self::FIRST || self.calls.is_multiple_of(Self::ONE_IN)
    }

    /// The estimated time of all calls: the mean of the timed ones, times the number of calls.
    pub(crate) fn total_time(&self) -> Duration {
        let mean_ns = self.time.as_nanos() as f64 / self.timed.max(1) as f64;
        Duration::from_nanos((mean_ns * self.calls as f64) as u64)
    }
}

/// The growth rate of a counter over the last samples.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Samples of the counter with their times in milliseconds, overwritten oldest first.
    samples: [(u64, u64); Rate::SAMPLES],
    next: usize,
}

impl Rate {
    const SAMPLES: usize = 16;

    fn new(now_ms: u64) -> Self {
        Self {
            samples: [(0, now_ms); Self::SAMPLES],
            next: 0,
        }
    }

    fn sample(&mut self, count: u64, now_ms: u64) {
        self.samples[self.next] = (count, now_ms);
        self.next = (self.next + 1) % Self::SAMPLES;
    }

    /// The rate per second between the oldest and the newest sample.
    pub(crate) fn per_second(&self) -> f64 {
        let (old_count, old_ms) = self.samples[self.next];
        let (count, ms) = self.samples[(self.next + Self::SAMPLES - 1) % Self::SAMPLES];
        let elapsed_ms = ms.saturating_sub(old_ms).max(1);
        count.saturating_sub(old_count) as f64 * 1_000.0 / elapsed_ms as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_of_the_last_samples() {
        let mut rate = Rate::new(1_000);
        assert!(rate.per_second() < 0.001);
        for sample in 1..=20_u64 {
            // Ten per tenth of a second, then none.
            rate.sample(sample.min(10) * 10, 1_000 + sample * 100);
        }
        // The sixteen samples reach back to the fifth, which read 50.
        let wanted = (100.0 - 50.0) / 1.5;
        assert!(
            (rate.per_second() - wanted).abs() < 0.001,
            "{}",
            rate.per_second()
        );
    }

    #[test]
    fn histogram_shows_the_steps_of_redis() {
        let mut histogram = Histogram::default();
        for (nanos, calls) in [(0, 1), (1_024, 1), (1_025, 2), (17_000, 16), (u64::MAX, 1)] {
            histogram.add(Duration::from_nanos(nanos), calls);
        }
        let steps = histogram.steps();
        assert_eq!(steps[..3], [(1, 2), (2, 4), (33, 20)]);
        assert_eq!((steps.len(), histogram.calls()), (4, 21));
    }

    #[test]
    fn kinds_of_errors_are_bounded() {
        let mut stats = Stats::new(0, Gone::default(), 0);
        for kind in 0..1_000 {
            stats.count_error(format!("E{kind} text").as_bytes());
            stats.count_error(b"E0 text");
        }
        assert_eq!(
            (stats.errors.len(), stats.errors["E0"]),
            (ERROR_KINDS, 1_001)
        );
    }

    #[test]
    fn time_of_all_calls_is_estimated_from_the_timed_ones() {
        let stat = CallStat {
            calls: 1_000,
            timed: 100,
            time: Duration::from_micros(200),
            ..CallStat::default()
        };
        assert_eq!(stat.total_time(), Duration::from_millis(2));
    }
}
