//! The undisturbed parts of spoiled trials.
//!
//! Where pauses are dense, hardly any trial is without one, and the longer a trial the fewer. But the time between two
//! pauses is undisturbed, and the parts of several trials at one rate together have as many operations as a trial. Parts
//! are chosen by what the machine did and never by their response times, and a disturbance that was not seen only makes
//! them slower. So parts that keep the limit together show that the rate holds, like a trial that held; parts that do
//! not show nothing.

use std::collections::BTreeMap;

use super::trial::Trial;
use crate::histogram::Histogram;
use crate::limit::Slo;

/// The undisturbed parts of the spoiled trials of each rate, by its index.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts(BTreeMap<i32, Pool>);

#[derive(Debug, Clone, Default)]
struct Pool {
    /// The trials whose parts are in `times`.
    trials: u32,
    times: Histogram,
    /// The number of trials whose parts held together.
    held: Option<u32>,
}

impl Parts {
    /// Adds the undisturbed parts of a spoiled trial at `rate`; they are judged once they have `operations`, those of a
    /// whole trial. A trial that did not keep up with its schedule has none: the parts before a queue has grown are faster
    /// than the rest.
    pub(super) fn add(&mut self, node: i32, rate: f64, trial: &Trial, slo: &Slo, operations: f64) {
        let Some(times) = trial.calm.as_ref().filter(|times| times.count() > 0) else {
            return;
        };
        if !trial.kept_up(rate) || trial.errors > 0 {
            return;
        }
        let pool = self.0.entry(node).or_default();
        pool.trials += 1;
        pool.times.merge(times);
        if pool.times.count() as f64 >= operations {
            let value = pool.times.quantile(slo.quantile());
            let holds = value.is_some_and(|ns| (ns as f64) < slo.limit_ns);
            let held = holds.then_some(pool.trials);
            *pool = Pool {
                held: pool.held.or(held),
                ..Pool::default()
            };
        }
    }

    /// The highest rate below `upper` at which parts held, and the number of trials that they are of.
    pub(super) fn highest(&self, upper: Option<i32>) -> Option<(i32, u32)> {
        let mut pools = self.0.iter().rev();
        pools.find_map(|(node, pool)| {
            let trials = pool.held?;
            upper
                .is_none_or(|upper| *node < upper)
                .then_some((*node, trials))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 10_000.0;

    fn add(parts: &mut Parts, node: i32, trial: &Trial) {
        parts.add(node, RATE, trial, &"p99<2ms".parse().unwrap(), 11_000.0);
    }

    /// A trial with undisturbed operations that took `ns`.
    fn trial(ops: u64, ns: u64) -> Trial {
        let mut calm = Histogram::new();
        calm.record_n(ns, ops);
        Trial {
            achieved: RATE,
            ops: 100_000,
            calm: Some(calm),
            ..Trial::default()
        }
    }

    #[test]
    fn parts_of_several_trials_hold_together_with_the_operations_of_one() {
        let mut parts = Parts::default();
        for _ in 0..2 {
            add(&mut parts, 3, &trial(5_000, 1_000_000));
        }
        assert_eq!(parts.highest(None), None);
        add(&mut parts, 3, &trial(5_000, 1_000_000));
        assert_eq!(parts.highest(None), Some((3, 3)));
        // A rate that was seen to fail refutes them.
        assert_eq!(parts.highest(Some(3)), None);
        for slow in [3, 4] {
            add(&mut parts, slow, &trial(20_000, 3_000_000));
        }
        assert_eq!(parts.highest(None), Some((3, 3)));
    }

    #[test]
    fn parts_of_an_overloaded_target_are_not_used() {
        let mut parts = Parts::default();
        let good = trial(20_000, 1_000_000);
        for bad in [
            Trial {
                achieved: 0.9 * RATE,
                ..good.clone()
            },
            Trial {
                not_sent: 1,
                ..good.clone()
            },
            Trial {
                errors: 1,
                ..good.clone()
            },
        ] {
            add(&mut parts, 0, &bad);
        }
        assert_eq!(parts.highest(None), None);
        add(&mut parts, 0, &good);
        assert_eq!(parts.highest(None), Some((0, 1)));
    }
}
