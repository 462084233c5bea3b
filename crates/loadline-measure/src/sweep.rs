//! The fastest way of calling in each setting of a sweep over call modes.

use crate::compare::Supported;
use crate::record::{Case, Mode};
use crate::sizes::{self, Answer};

/// Within this share of the highest throughput, a smaller size of a call is preferred.
const AS_GOOD: f64 = 0.05;

/// The fastest call mode for one operation under one added latency.
#[derive(Debug, Clone, PartialEq)]
pub struct Fastest<'c> {
    /// The cell with the figures of the mode: at its recommended size, or the fastest one.
    pub case: &'c Case,
    /// Whether the size of `case` is an answer; otherwise the rounds do not show which size is the fastest.
    pub(crate) is_sized: bool,
    /// Other modes whose rounds overlap with those of the fastest.
    pub rivals: Vec<&'c Mode>,
    /// The slowest mode, if its rounds lie apart.
    pub slowest: Option<Slowest<'c>>,
    /// The judgement of the sizes of the mode, if several were measured.
    pub sizes: Option<Answer>,
}

/// The slowest call mode of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowest<'c> {
    /// The mode.
    pub mode: &'c Mode,
    /// The speed of the fastest mode as a multiple.
    pub times: f64,
    /// Whether `times` is what the rounds show at least: the slowest round of the one mode over the fastest of the other,
    /// because their range is too wide for a ratio.
    pub is_bound: bool,
}

/// The fastest mode of each setting: latency, operation and codec, in the order in which they were measured.
#[must_use]
pub fn fastest(cases: &[Case]) -> Vec<Fastest<'_>> {
    let mut settings: Vec<Vec<&Case>> = Vec::new();
    for case in cases {
        let mut known = settings.iter_mut();
        match known.find(|setting| is_same_setting(setting[0], case)) {
            Some(setting) => setting.push(case),
            None => settings.push(vec![case]),
        }
    }
    settings
        .iter()
        .filter_map(|here| fastest_of(here))
        .collect()
}

fn is_same_setting(one: &Case, other: &Case) -> bool {
    let key = |case: &Case| case.scenario.latency_ns;
    let (one_scenario, other_scenario) = (&one.scenario, &other.scenario);
    key(one) == key(other)
        && one_scenario.workload == other_scenario.workload
        && one_scenario.codec == other_scenario.codec
}

/// The fastest mode among the cells of one setting. A mode is judged by the cell with the highest count, since smaller cells
/// consist mostly of the start, and by the cells of the search for a size, which have no count and all the same length.
fn fastest_of<'c>(here: &[&'c Case]) -> Option<Fastest<'c>> {
    let by_throughput = |one: &&Case, other: &&Case| {
        one.throughput_ops_per_s
            .total_cmp(&other.throughput_ops_per_s)
    };
    let judged = || {
        let cells = here.iter().copied();
        cells.filter(|case| case.scenario.ops_asked.is_none() || is_largest(here, case))
    };
    let best = judged().max_by(by_throughput)?;
    let is_best_mode = |case: &&Case| case.scenario.mode == best.scenario.mode;
    let curve = || {
        let cells = here.iter().copied().filter(is_best_mode);
        cells.filter(|case| case.scenario.ops_asked.is_none())
    };
    let sizes = sizes::of_cases(curve());
    let case = match &sizes {
        Some(answer) => curve().find(|case| Some(sizes::of_case(case)) == answer.recommended()),
        None => {
            let least = (1.0 - AS_GOOD) * best.throughput_ops_per_s;
            let as_good = judged().filter(is_best_mode);
            let as_good = as_good.filter(|case| case.throughput_ops_per_s >= least);
            as_good.min_by_key(|case| case.scenario.in_flight)
        }
    };
    let rivals = rivals(best, judged());
    let slowest = here.iter().copied().filter(|case| is_largest(here, case));
    let slowest = slowest
        .min_by(by_throughput)
        .map(|case| (&case.scenario.mode, case));
    let chosen = case.unwrap_or(best);
    let slowest = slowest
        .filter(|(mode, _)| **mode != best.scenario.mode && !rivals.contains(mode))
        .and_then(|(_, case)| Slowest::of(case, chosen));
    Some(Fastest {
        case: chosen,
        is_sized: case.is_some(),
        rivals,
        slowest,
        sizes,
    })
}

impl<'c> Slowest<'c> {
    /// The mode of `case` compared with the cell `fastest`; `None` if their rounds show no factor.
    fn of(case: &'c Case, fastest: &Case) -> Option<Self> {
        let of = |times, is_bound| Self {
            mode: &case.scenario.mode,
            times,
            is_bound,
        };
        let ranges = range(fastest).zip(range(case));
        let bounds = ranges.map(|(fast, slow)| (fast.0 / slow.1, fast.1 / slow.0));
        match bounds.map(|bounds| Supported::of(bounds, false)) {
            None | Some(Supported::Ratio) => {
                let rate = case.throughput_ops_per_s.max(1e-9);
                Some(of(fastest.throughput_ops_per_s / rate, false))
            }
            Some(Supported::Bound(bound)) if bound > 1.0 => Some(of(bound, true)),
            _ => None,
        }
    }
}

/// The throughput of the slowest and of the fastest round of a cell.
fn range(case: &Case) -> Option<(f64, f64)> {
    let rates = case.rounds.iter().map(|round| round.throughput_ops_per_s);
    let ranges = rates.map(|rate| (rate, rate));
    ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// Whether `case` has the highest count of its mode.
fn is_largest(here: &[&Case], case: &Case) -> bool {
    let of_mode = here
        .iter()
        .filter(|other| other.scenario.mode == case.scenario.mode);
    let most = of_mode.filter_map(|other| other.scenario.ops_asked).max();
    case.scenario.ops_asked.is_some() && case.scenario.ops_asked == most
}

/// The other modes that can be as fast as the mode of `best`: the rounds of their fastest cells overlap with those of
/// `best`. The cells of two modes share no rounds, so they are not compared in pairs.
fn rivals<'c>(best: &Case, cells: impl Iterator<Item = &'c Case>) -> Vec<&'c Mode> {
    let mut fastest: Vec<&Case> = Vec::new();
    for cell in cells.filter(|cell| cell.scenario.mode != best.scenario.mode) {
        let mut of_mode = fastest.iter_mut();
        match of_mode.find(|known| known.scenario.mode == cell.scenario.mode) {
            Some(known) if known.throughput_ops_per_s < cell.throughput_ops_per_s => *known = cell,
            Some(_) => {}
            None => fastest.push(cell),
        }
    }
    let overlaps = |cell: &&Case| {
        let ranges = range(best).zip(range(cell));
        ranges.is_some_and(|(best, other)| best.0 <= other.1 && other.0 <= best.1)
    };
    let rivals = fastest.into_iter().filter(overlaps);
    rivals.map(|cell| &cell.scenario.mode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RoundSummary, Scenario};

    fn cell(mode: &str, asked: Option<u64>, size: u64, ops_per_s: f64) -> Case {
        Case {
            scenario: Scenario {
                workload: "get".into(),
                mode: mode.into(),
                ops_asked: asked,
                in_flight: Some(size),
                ..Scenario::default()
            },
            ops: asked.unwrap_or(10_000),
            throughput_ops_per_s: ops_per_s,
            ..Case::default()
        }
    }

    fn with_rounds(case: Case, rates: &[f64]) -> Case {
        let round = |rate: &f64| RoundSummary {
            throughput_ops_per_s: *rate,
            ..RoundSummary::default()
        };
        Case {
            rounds: rates.iter().map(round).collect(),
            ..case
        }
    }

    /// Mode, size if it is an answer, rivals, and the slowest mode with its factor.
    fn shown(cases: &[Case]) -> Vec<String> {
        let all = fastest(cases);
        let all = all.iter().map(|fastest| {
            let scenario = &fastest.case.scenario;
            let size = if fastest.is_sized {
                scenario.in_flight
            } else {
                None
            };
            let slowest = fastest.slowest.as_ref();
            let slowest = slowest.map(|slowest| {
                let lead = if slowest.is_bound { ">" } else { "" };
                format!("{lead}{:.1} x {}", slowest.times, slowest.mode)
            });
            format!(
                "{} {size:?} {:?} {slowest:?}",
                scenario.mode, fastest.rivals
            )
        });
        all.collect()
    }

    /// A hundred operations in one call may come back before the server has moved to another CPU.
    #[test]
    fn mode_is_judged_by_its_largest_cell_and_the_search() {
        let cases = [
            cell("sync", Some(100), 1, 150_000.0),
            cell("sync", Some(1_000_000), 1, 10_000.0),
            cell("batch", Some(100), 100, 3_500_000.0),
            cell("batch", Some(1_000_000), 100, 900_000.0),
            cell("batch", None, 1_000, 1_950_000.0),
            cell("batch", None, 10_000, 2_000_000.0),
        ];
        assert_eq!(
            shown(&cases),
            [r#"batch Some(1000) [] Some("195.0 x sync")"#]
        );
    }

    /// Cells of few operations are repeated, so that they have as many as the next ones.
    #[test]
    fn count_and_not_operations_makes_a_cell_the_largest() {
        let small = Case {
            ops: 1_000,
            ..cell("pipeline", Some(100), 100, 3_000.0)
        };
        let cases = [
            cell("sync", Some(1_000), 1, 500.0),
            small,
            cell("pipeline", Some(1_000), 100, 2_000.0),
        ];
        assert_eq!(
            shown(&cases),
            [r#"pipeline Some(100) [] Some("4.0 x sync")"#]
        );
    }

    #[test]
    fn each_latency_and_operation_is_a_setting() {
        let mut cases = Vec::new();
        for latency_ns in [0, 10_000_000] {
            for (workload, codec) in [("get", None), ("set", Some("json"))] {
                let mut cell = cell("sync", Some(1_000), 1, 100.0);
                cell.scenario.latency_ns = latency_ns;
                cell.scenario.workload = workload.into();
                cell.scenario.codec = codec.map(Into::into);
                cases.push(cell);
            }
        }
        let found = fastest(&cases);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|fastest| fastest.slowest.is_none()));
    }

    /// Sizes whose rounds overlap: none of them is named.
    #[test]
    fn noise_names_no_size_and_rounds_that_agree_name_one() {
        let rates = |even: f64, odd: f64| -> Vec<f64> {
            (0..10)
                .map(|round| if round % 2 == 0 { even } else { odd })
                .collect()
        };
        let curve = |rates: [Vec<f64>; 3]| {
            let mut cases = vec![cell("sync", Some(1_000), 1, 500.0)];
            for (size, rates) in [100, 1_000, 10_000].into_iter().zip(rates) {
                let mean = rates.iter().sum::<f64>() / 10.0;
                cases.push(with_rounds(cell("batch", None, size, mean), &rates));
            }
            shown(&cases)
        };
        let noise = [
            rates(800.0, 1_300.0),
            rates(1_200.0, 900.0),
            rates(600.0, 1_450.0),
        ];
        assert_eq!(curve(noise), [r#"batch None [] Some("2.1 x sync")"#]);
        let quiet = [
            rates(500.0, 550.0),
            rates(990.0, 1_000.0),
            rates(1_000.0, 990.0),
        ];
        assert_eq!(curve(quiet), [r#"batch Some(1000) [] Some("2.0 x sync")"#]);
    }

    #[test]
    fn factor_over_the_slowest_mode_is_a_bound_where_rounds_vary_too_much_for_a_ratio() {
        let factor = |sync: &[f64]| {
            let mean = sync.iter().sum::<f64>() / sync.len() as f64;
            let batch = with_rounds(cell("batch", Some(1_000), 100, 1_000.0), &[950.0, 1_050.0]);
            let sync = with_rounds(cell("sync", Some(1_000), 1, mean), sync);
            shown(&[sync, batch])
        };
        let shown = |text: &str| [format!("batch Some(100) [] Some({text:?})")];
        assert_eq!(factor(&[95.0, 105.0]), shown("10.0 x sync"));
        assert_eq!(factor(&[20.0, 190.0]), shown(">5.0 x sync"));
    }

    /// A batch that is faster on average, but not in every round.
    #[test]
    fn mode_is_ahead_only_if_its_rounds_lie_above_those_of_the_others() {
        let verdict = |pipeline: &[f64], sync: &[f64]| {
            let mut cases = Vec::new();
            for (mode, rates) in [
                ("sync", sync),
                ("pipeline", pipeline),
                ("batch", &[900.0, 1_000.0, 1_100.0]),
            ] {
                let mean = rates.iter().sum::<f64>() / rates.len() as f64;
                let size = if mode == "sync" { 1 } else { 100 };
                cases.push(with_rounds(cell(mode, Some(1_000), size, mean), rates));
            }
            let found = fastest(&cases);
            let rivals = found[0].rivals.iter().map(ToString::to_string);
            (rivals.collect::<Vec<_>>(), found[0].slowest.is_some())
        };
        let slow = [90.0, 100.0, 110.0];
        assert_eq!(verdict(&[700.0, 800.0, 890.0], &slow), (vec![], true));
        let one = vec!["pipeline".to_owned()];
        assert_eq!(verdict(&[700.0, 800.0, 910.0], &slow), (one, true));
        let two = vec!["sync".to_owned(), "pipeline".to_owned()];
        assert_eq!(
            verdict(&[700.0, 800.0, 910.0], &[90.0, 100.0, 950.0]),
            (two, false)
        );
    }
}
