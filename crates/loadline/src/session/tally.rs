//! The results of a case so far, and whether they are precise enough.

use loadline_load::outcome::Outcome;
use loadline_load::runner::Measured;
use loadline_measure::compare;
use loadline_measure::doctor::Observed;
use loadline_measure::histogram::SAMPLES_BEYOND;

use crate::plan::Plan;
use crate::recording;

/// The measurements of one case, over all generations.
#[derive(Default)]
pub(super) struct Tally {
    /// Per target.
    pub(super) measured: Vec<Measured>,
    /// Observations during the blocks, per target.
    pub(super) around: Vec<Observed>,
    /// The blocks of the reference, if there is one.
    pub(super) reference: Vec<Outcome>,
}

impl Tally {
    /// Adds a generation's measurements of `targets` targets, and of the reference if it ran.
    pub(super) fn join(
        &mut self,
        mut measured: Vec<Measured>,
        around: Vec<Observed>,
        targets: usize,
    ) {
        for reference in measured.drain(targets..) {
            self.reference.extend(reference.blocks);
        }
        if self.measured.is_empty() {
            (self.measured, self.around) = (measured, around);
            return;
        }
        for (all, new) in self.measured.iter_mut().zip(measured) {
            all.blocks.extend(new.blocks);
            all.warmup += new.warmup;
            all.steady = all.steady.zip(new.steady).map(|(one, other)| one && other);
        }
        for (all, new) in self.around.iter_mut().zip(around) {
            let evicted = all.evicted_keys.zip(new.evicted_keys);
            let throttled = all.server_throttled.zip(new.server_throttled);
            let mut undeclared = std::mem::take(&mut all.undeclared);
            for (name, count) in &new.undeclared {
                match undeclared.iter_mut().find(|(known, _)| known == name) {
                    Some((_, all)) => *all += count,
                    None => undeclared.push((name.clone(), *count)),
                }
            }
            *all = Observed {
                undeclared,
                evicted_keys: evicted.map(|(one, other)| one + other),
                server_throttled: throttled
                    .map(|(one, other)| one.and(other))
                    .or(all.server_throttled)
                    .or(new.server_throttled),
                other_clients: all.other_clients.max(new.other_clients),
                ..new
            };
        }
    }

    /// Whether the minimum rounds of `plan` are done, and the rounds so far, with `measured` as the newest,
    /// are precise enough to find a difference of 5 % between the median response time of each target and the
    /// first.
    pub(super) fn is_enough(&self, measured: &[Measured], plan: &Plan) -> bool {
        let targets = measured.len() - usize::from(plan.schedule.has_reference());
        let others = plan.targets.len().saturating_sub(1);
        let comparisons = recording::COMPARED.len() * plan.cases.len() * others;
        let medians = |target: usize| -> Vec<Option<u64>> {
            let before = self.measured.get(target).map_or(&[][..], |of| &of.blocks);
            let blocks = before.iter().chain(&measured[target].blocks);
            blocks.map(|block| block.response.quantile(0.5)).collect()
        };
        let first = medians(0);
        let is_precise = |target: usize| {
            // A block with too few operations for a median is skipped.
            let (one, other): (Vec<f64>, Vec<f64>) = first
                .iter()
                .zip(medians(target))
                .filter_map(|(one, other)| Some(((*one)? as f64, other? as f64)))
                .unzip();
            compare::log_ratios(&one, &other)
                .is_ok_and(|differences| compare::precise_for(&differences, comparisons))
        };
        first.len() >= plan.rounds as usize && (1..targets).all(is_precise)
    }
}

/// Whether the blocks so far are precise enough to compare each target with the first by throughput and
/// median response time, and each target has enough operations for its p99.9.
pub(super) fn are_precise(targets: &[Measured]) -> bool {
    let [first, others @ ..] = targets else {
        return false;
    };
    let has_tail = |target: &Measured| {
        let ops: u64 = target.blocks.iter().map(|block| block.ops).sum();
        ops >= 1_000 * SAMPLES_BEYOND
    };
    let by_throughput = |block: &Outcome| Some(block.throughput());
    let by_median = |block: &Outcome| block.response.quantile(0.5).map(|ns| ns as f64);
    !others.is_empty()
        && targets.iter().all(has_tail)
        && others.iter().all(|other| {
            is_precise(first, other, by_throughput) && is_precise(first, other, by_median)
        })
}

/// Whether the blocks of two targets give a precise ratio of a metric. A block without the metric is skipped.
fn is_precise(one: &Measured, other: &Measured, metric: fn(&Outcome) -> Option<f64>) -> bool {
    let pairs = one.blocks.iter().zip(&other.blocks);
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.filter_map(|(a, b)| metric(a).zip(metric(b))).unzip();
    compare::log_ratios(&a, &b).is_ok_and(|differences| compare::precise_enough(&differences))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BLOCK_OPS: u64 = 10_000;

    /// Blocks with the response times `micros`.
    fn blocks(micros: impl IntoIterator<Item = u64>) -> Measured {
        let block = |micros| {
            let mut block = Outcome::empty();
            block.ops = BLOCK_OPS;
            block.duration = Duration::from_micros(1_000 * micros);
            block.response.record_n(1_000 * micros, BLOCK_OPS);
            block
        };
        Measured {
            blocks: micros.into_iter().map(block).collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn ratios_are_precise_from_ten_rounds_on_where_rounds_agree() {
        let steady = |rounds: usize, micros| blocks(std::iter::repeat_n(micros, rounds));
        assert!(!are_precise(&[steady(9, 100), steady(9, 300)]));
        assert!(are_precise(&[steady(10, 100), steady(10, 300)]));
        // 3 % to either side is too wide, and 40 rounds are always enough.
        let wide = |rounds: u64| blocks((0..rounds).map(|round| 97 + 6 * (round % 2)));
        assert!(!are_precise(&[steady(39, 100), wide(39)]));
        assert!(are_precise(&[steady(40, 100), wide(40)]));
        assert!(!are_precise(&[steady(12, 100), steady(12, 100), wide(12)]));
    }

    #[test]
    fn ratios_alone_are_not_enough() {
        let lone = blocks([100; 40]);
        assert!(!are_precise(&[lone]), "there is nothing to compare");
        // 99,999 operations have fewer than 100 beyond their p99.9.
        let [one, mut other] = [blocks([100; 10]), blocks([100; 10])];
        other.blocks[3].ops -= 1;
        assert!(!are_precise(&[one, other]));
        // The rates agree, but the medians do not.
        let [one, mut other] = [blocks([100; 20]), blocks([100; 20])];
        for block in other.blocks.iter_mut().step_by(2) {
            block.response.reset();
            block.response.record_n(300_000, BLOCK_OPS);
        }
        assert!(!are_precise(&[one, other]));
    }
}
