//! The expected duration of a sweep.

use std::time::Duration;

use super::{Mode, ModesPlan};
use crate::plan::Estimate;
use crate::plan::estimate::counting;
use crate::plan::path::measuring_time;

/// The usual time of a call without an added latency, apart from its operations, and of each operation.
const CALL: Duration = Duration::from_micros(100);
const OPERATION: Duration = Duration::from_micros(2);
/// From this size on, the bytes of a call take another half of a round trip.
const LARGE: u32 = 500;
/// Opening the connections of a cell, apart from their round trips.
const OPENING: Duration = Duration::from_millis(20);
const OPENING_TRIPS: u32 = 5;
/// The calls of a warm-up, if its time suffices.
const WARM_UP_OPS: u32 = 10;
/// Starting the server and loading its keys.
const STARTING: Duration = Duration::from_secs(1);
/// Blocks of a cell with so few operations that a single pass is too short.
const REPEATS: u32 = 10;

impl ModesPlan {
    /// The operations of each block of a cell with `count` operations. A few operations are repeated, as often as the
    /// budget allows; many are divided among the rounds.
    pub(crate) fn block_ops(&self, count: u64, latency: Duration) -> Vec<Option<u64>> {
        let rounds = self.base.rounds;
        if count > 10 * u64::from(self.batch) {
            let rounds = u64::from(rounds);
            let share = |round| count / rounds + u64::from(round < count % rounds);
            return (0..rounds).map(|round| Some(share(round))).collect();
        }
        let fitting = self.budget.as_nanos() / latency.as_nanos().max(1);
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX).max(rounds);
        vec![Some(count); fitting.min(REPEATS) as usize]
    }

    /// The expected duration of the sweep.
    pub(super) fn estimate(&self) -> Estimate {
        let latencies = self.latencies.iter();
        let measuring: Duration = latencies.map(|latency| self.time_of(*latency)).sum();
        let counted = match self.base.schedule.instructions.is_asked() {
            Some(_) => self.base.cases.len() * self.modes.len(),
            None => 0,
        };
        let starting = Estimate::of_work(STARTING);
        Estimate::about(measuring)
            .and(starting)
            .and(counting(counted as u32))
    }

    /// All cells of a latency.
    fn time_of(&self, latency: Duration) -> Duration {
        let counts: Duration = self
            .modes
            .iter()
            .map(|mode| self.time_of_counts(*mode, latency))
            .sum();
        let searched = |mode: &&Mode| matches!(mode, Mode::Pipeline | Mode::Batch);
        let curves = self.modes.iter().filter(searched).count() as u32;
        let blocks = vec![None; self.size_rounds as usize];
        let sizes: Duration = self
            .sizes
            .iter()
            .map(|size| self.cell(*size, &blocks, self.budget / 2, latency).0)
            .sum();
        let of_an_operation = counts + sizes * curves;
        of_an_operation * self.base.cases.len() as u32 + measuring_time(latency)
    }

    /// The cells of a mode until a count exceeds the budget; higher counts are extrapolated.
    fn time_of_counts(&self, mode: Mode, latency: Duration) -> Duration {
        let mut sum = Duration::ZERO;
        for &count in &self.counts {
            let size = self
                .size(mode)
                .min(u32::try_from(count).unwrap_or(u32::MAX));
            let blocks = self.block_ops(count, latency);
            let (time, ops) = self.cell(size, &blocks, self.budget, latency);
            sum += time;
            if ops < count {
                break;
            }
        }
        sum
    }

    /// The time of a cell whose blocks end with their operations or their share of `time`, and its operations. Each block
    /// has at least one call.
    fn cell(
        &self,
        size: u32,
        blocks: &[Option<u64>],
        time: Duration,
        latency: Duration,
    ) -> (Duration, u64) {
        let trips = if size >= LARGE {
            latency * 3 / 2
        } else {
            latency
        };
        let call = CALL + OPERATION * size + trips;
        let calls = |time: Duration| time.as_nanos().div_ceil(call.as_nanos()).max(1) as u64;
        let most = calls(time / blocks.len().max(1) as u32);
        let of_block = |ops: &Option<u64>| {
            let all = ops.map_or(u64::MAX, |ops| ops.div_ceil(u64::from(size.max(1))));
            most.min(all.max(1))
        };
        let made: u64 = blocks.iter().map(of_block).sum();
        let warm_up = calls(time / 4).min(u64::from(WARM_UP_OPS.div_ceil(size.max(1))));
        let spent = call.mul_f64((made + warm_up) as f64);
        let opening = OPENING + latency * OPENING_TRIPS;
        (opening + spent, made * u64::from(size))
    }
}
