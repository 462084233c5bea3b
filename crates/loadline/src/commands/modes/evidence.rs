//! The doctor's findings about a sweep: its setup, other activity during its cells, and their times.

use loadline_measure::doctor::{self, Class, Diagnosis, Evidence, Finding, Observed, Rule, Work};
use loadline_measure::record::{Case, RoundSummary};
use loadline_report::findings;

use crate::fingerprint;
use crate::plan::ModesPlan;
use crate::systems::{Opened, Watch};

/// Whether a rule concerns other activity during the cells; the others concern a single case.
fn concerns_activity(rule: &Rule) -> bool {
    *rule == Rule::CountsDiffer || [Class::Server, Class::Machine].contains(&rule.class())
}

/// Shorter cells can be dominated by one interruption of the CPU, so their time is not judged.
const LEAST_WORK_NS: u64 = 1_000_000;

/// The state before the cells of an operation are measured.
pub(super) struct Look {
    watch: Watch,
    machine: fingerprint::Counters,
}

impl Look {
    pub(super) fn begin(target: &mut Opened) -> Self {
        Self {
            watch: target.watch(),
            machine: fingerprint::Counters::read(),
        }
    }

    /// The findings since then: `declared` are the commands sent to the target, `cells` the results.
    pub(super) fn end(
        self,
        target: &mut Opened,
        declared: &[String],
        scope: String,
        cells: &[Case],
    ) -> Vec<Finding> {
        let machine = self.machine.since();
        let observed = Observed {
            cpu_pressure: machine.cpu_pressure,
            steal: machine.steal,
            ..target.seen_since(&self.watch, declared)
        };
        let ops = cells.iter().map(|cell| cell.ops).sum();
        let mut found = doctor::examine(&Evidence::of_scope(scope, ops, observed));
        found.retain(|diagnosis| concerns_activity(&diagnosis.rule()));
        found.extend(more_work(cells));
        findings(found)
    }
}

/// The commands that a server receives for an operation in all modes of a plan.
pub(super) fn declared(plan: &ModesPlan, workload: &crate::workload::Definition) -> Vec<String> {
    let of_modes = plan.modes.iter().flat_map(|mode| mode.needs(workload));
    workload.executes().into_iter().chain(of_modes).collect()
}

/// Compares the fewest and the most operations of each mode: more operations must take more time.
fn more_work(cells: &[Case]) -> Vec<Diagnosis> {
    let counted = |cell: &&Case| cell.scenario.ops_asked.is_some();
    let mut found = Vec::new();
    for first in cells.iter().filter(counted) {
        let same = |cell: &&Case| cell.scenario.mode == first.scenario.mode;
        let Some(small) = quickest(first) else {
            continue;
        };
        let of_mode = cells.iter().filter(counted).filter(same);
        let Some(large) = of_mode.filter_map(quickest).max_by_key(|work| work.units) else {
            continue;
        };
        let scope = format!("{}, {}", first.subject.name, first.scenario.workload);
        let flat = doctor::time_stays_flat(&scope, small, large);
        let is_new = |flat: &Diagnosis| {
            let mut before = found.iter();
            before.all(|one: &Diagnosis| one.scope != flat.scope)
        };
        found.extend(flat.filter(is_new));
    }
    found
}

/// The least disturbed round of a cell.
fn quickest(cell: &Case) -> Option<Work> {
    let by_throughput = |a: &&RoundSummary, b: &&RoundSummary| {
        f64::total_cmp(&a.throughput_ops_per_s, &b.throughput_ops_per_s)
    };
    let best = cell.rounds.iter().max_by(by_throughput)?;
    // Selecting a long enough round would select a disturbed one.
    (best.duration_ns >= LEAST_WORK_NS).then_some(Work {
        units: best.ops,
        duration_ns: best.duration_ns,
    })
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::Scenario;

    use super::*;

    fn cell(mode: &str, asked: u64, rounds: &[(u64, u64)]) -> Case {
        let round = |&(ops, duration_ns): &(u64, u64)| RoundSummary {
            ops,
            duration_ns,
            throughput_ops_per_s: ops as f64 / duration_ns as f64 * 1e9,
            ..RoundSummary::default()
        };
        Case {
            scenario: Scenario {
                mode: mode.into(),
                ops_asked: Some(asked),
                ..Scenario::default()
            },
            rounds: rounds.iter().map(round).collect(),
            ..Case::default()
        }
    }

    #[test]
    fn more_operations_that_take_no_more_time_are_found_once_per_mode() {
        let flat = [
            cell("sync", 100, &[(100, 9_000_000), (100, 2_000_000)]),
            cell("sync", 1_000, &[(1_000, 2_100_000)]),
            cell("sync", 9_000, &[(9_000, 2_200_000)]),
        ];
        let found = more_work(&flat);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rule(), Rule::TimeStaysFlat);
        let grown = [
            cell("sync", 100, &[(100, 9_000_000), (100, 2_000_000)]),
            cell("sync", 1_000, &[(1_000, 20_000_000)]),
            // Cells that a single interruption can dominate are not judged.
            cell("batch", 100, &[(100, 900_000), (100, 5_000_000)]),
            cell("batch", 1_000, &[(1_000, 1_900_000)]),
        ];
        assert_eq!(more_work(&grown), []);
    }
}
