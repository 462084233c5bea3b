//! Verdicts about work: instructions per operation, apart from the verdicts about time.
//!
//! Rows about work have a metric of [`Metric::WORK`] and thresholds of their own ([`WorkRules`]). They are no part of the family of comparisons that share an error probability (Holm): a
//! count is not noise that many comparisons turn into a difference.

use super::baseline::{Baseline, BaselineRun};
use super::candidate::Candidate;
use super::judgement::{Row, RowVerdict};
use super::reason::{Counted, Gap, Grounds, JudgedRow, Reason, Side};
use crate::metric::Metric;
use crate::record::{Bounds, Case, Record};
use crate::work::{self, Pass, Work, WorkComparison, WorkRules, WorkVerdict};

/// Functions that a row names.
const NAMED_FUNCTIONS: usize = 10;

/// Rows of the cases that were compared in pairs, and notes on what was counted with them; `name` gives the
/// case's name in the judgement.
pub(super) fn of_pairs(
    record: &Record,
    rules: &WorkRules,
    name: impl Fn(usize) -> String,
) -> (Vec<JudgedRow>, Vec<Reason>) {
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for comparison in &record.comparisons {
        let pair = (comparison.a, comparison.b);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let (mut rows, mut reasons) = (Vec::new(), Vec::new());
    for (a, b) in pairs {
        let (Some(before), Some(after)) = (record.cases.get(a), record.cases.get(b)) else {
            continue;
        };
        let (row, reason) = of_cases(&name(b), before, after, rules);
        rows.extend(row);
        reasons.extend(reason);
    }
    (rows, reasons)
}

/// Rows about all that was counted of both cases, and notes on what was counted with it.
pub(super) fn of_cases(
    name: &str,
    before: &Case,
    after: &Case,
    rules: &WorkRules,
) -> (Vec<JudgedRow>, Vec<Reason>) {
    let (mut rows, mut reasons) = (Vec::new(), Vec::new());
    for metric in Metric::WORK {
        match (metric.work_of(before), metric.work_of(after)) {
            (Some(before), Some(after)) => {
                rows.push(of_two(name, metric, before, after, rules));
                reasons.extend(other_counts(name, before, after));
            }
            (None, None) => {}
            (one, _) => {
                reasons.push(Reason::CountedOnce {
                    case: name.to_owned(),
                    metric,
                    side: if one.is_some() {
                        Side::First
                    } else {
                        Side::Second
                    },
                });
            }
        }
    }
    (rows, reasons)
}

/// Rows of the cases of a candidate whose work the baseline keeps.
pub(super) fn of_baseline(
    baseline: &Baseline,
    candidate: &Candidate<'_>,
    rules: &WorkRules,
) -> Vec<JudgedRow> {
    let metric = Metric::ServerInstructions;
    let mut rows = Vec::new();
    for name in candidate.first.cases.keys() {
        let runs = [Some(candidate.first), candidate.second];
        let before = merged(baseline.runs.iter(), name);
        let after = merged(runs.into_iter().flatten(), name);
        match (before, after) {
            (Some(before), Some(after)) => rows.push(of_two(name, metric, &before, &after, rules)),
            (Some(_), None) => {
                rows.push(Row::unknown(name, metric).because(Grounds::Gap(Gap::NotCounted)));
            }
            (None, _) => {}
        }
    }
    rows
}

/// The work of one case over several runs: the passes of those that count alike, the newest run's functions.
fn merged<'r>(runs: impl Iterator<Item = &'r BaselineRun>, name: &str) -> Option<Work> {
    let works = runs.filter_map(|run| run.cases.get(name)?.work.as_ref());
    works.fold(None, |all: Option<Work>, one| match all {
        Some(mut all) if all.incomparable(one).is_none() => {
            all.passes.extend(&one.passes);
            Some(Work {
                passes: all.passes,
                ..one.clone()
            })
        }
        // Another tool or CPU: the newest runs are the ones to compare with.
        _ => Some(one.clone()),
    })
}

/// The row of the case `name` for the work of two sides, which `metric` counts.
#[must_use]
pub fn of_two(
    name: &str,
    metric: Metric,
    before: &Work,
    after: &Work,
    rules: &WorkRules,
) -> JudgedRow {
    let unknown = Row::unknown(name, metric);
    if let Some(reason) = before.incomparable(after) {
        return unknown.because(Grounds::Incomparable(reason));
    }
    let (one, other) = match (before.estimate(), after.estimate()) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => {
            return unknown.because(Grounds::NoEstimate(error));
        }
    };
    let compared = work::compare(&one, &other, rules);
    let changed = matches!(compared.verdict, WorkVerdict::More | WorkVerdict::Fewer);
    Row {
        baseline: Some(one.instructions_per_op),
        candidate: Some(other.instructions_per_op),
        ratio: Some(compared.ratio),
        lo: Some(compared.lo),
        hi: Some(compared.hi),
        interval_95: Some(Bounds {
            lo: compared.lo,
            hi: compared.hi,
        }),
        verdict: verdict(&compared, rules),
        evidence: Grounds::Work(compared),
        functions: if changed {
            work::differences(&before.functions, &after.functions, NAMED_FUNCTIONS)
        } else {
            Vec::new()
        },
        ..unknown
    }
}

/// The other counts of the same passes; they are not judged.
fn other_counts(name: &str, before: &Work, after: &Work) -> Option<Reason> {
    let per_op = |work: &Work, of: fn(&Pass) -> Option<u64>| {
        let pass = work.passes.first().filter(|pass| pass.ops > 0)?;
        Some(of(pass)? as f64 / pass.ops as f64)
    };
    type Count = fn(&Pass) -> Option<u64>;
    let counts: [(Counted, Count); 4] = [
        (Counted::SystemCalls, |pass| pass.system_calls),
        (Counted::Allocations, |pass| pass.allocations),
        (Counted::BytesReceived, |pass| pass.bytes_received),
        (Counted::BytesSent, |pass| pass.bytes_sent),
    ];
    let counts = counts.into_iter();
    let known: Vec<(Counted, f64, f64)> = counts
        .filter_map(|(what, of)| Some((what, per_op(before, of)?, per_op(after, of)?)))
        .collect();
    (!known.is_empty()).then(|| Reason::OtherCounts(name.to_owned(), known))
}

fn verdict(compared: &WorkComparison, rules: &WorkRules) -> RowVerdict {
    if compared.is_critical(rules) {
        return RowVerdict::Critical;
    }
    if compared.is_warning(rules) {
        return RowVerdict::Warning;
    }
    match compared.verdict {
        WorkVerdict::More => RowVerdict::Slower,
        WorkVerdict::Fewer => RowVerdict::Faster,
        WorkVerdict::Same => RowVerdict::Equivalent,
        WorkVerdict::Inconclusive => RowVerdict::Inconclusive,
    }
}

/// Cases whose work and time moved in opposite directions.
pub(super) fn disagreements(rows: &[JudgedRow]) -> Vec<Reason> {
    let of_work = rows
        .iter()
        .filter(|row| row.metric.is_work() && row.limit.is_none());
    of_work
        .filter_map(|work| {
            let grew = match work.verdict {
                RowVerdict::Faster => false,
                RowVerdict::Critical | RowVerdict::Warning | RowVerdict::Slower => true,
                RowVerdict::Equivalent | RowVerdict::Inconclusive => return None,
            };
            let opposite = |row: &&JudgedRow| match row.verdict {
                RowVerdict::Faster => grew,
                RowVerdict::Critical | RowVerdict::Warning | RowVerdict::Slower => !grew,
                RowVerdict::Equivalent | RowVerdict::Inconclusive => false,
            };
            let time = rows
                .iter()
                .filter(|row| row.case == work.case && row.limit.is_none())
                .filter(|row| !row.metric.is_work())
                .find(opposite)?;
            Some(Reason::Disagreement {
                case: work.case.clone(),
                metric: time.metric,
                grew,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::strict::Thresholds;
    use crate::gate::{Judged, Outcome};
    use crate::metric::Direction;
    use crate::record::{Case, Comparison, Environment, Run, Verdict};
    use crate::work::{FunctionWork, Source};

    fn work(instructions_per_op: u64, functions: &[(&str, f64)]) -> Work {
        let pass = |more: u64| Pass {
            ops: 1_000,
            instructions: instructions_per_op * 1_000 + more,
            ..Pass::default()
        };
        Work {
            source: Source::Callgrind,
            tool: "valgrind-3.19.0".to_owned(),
            cpu: "x86_64 avx2".to_owned(),
            executable_sha1: None,
            fixed_randomness: true,
            passes: vec![pass(0), pass(3), pass(1)],
            functions: functions
                .iter()
                .map(|(name, own)| FunctionWork {
                    name: (*name).to_owned(),
                    object: "redis-server".to_owned(),
                    own: *own,
                    inclusive: *own,
                })
                .collect(),
            frames: Vec::new(),
        }
    }

    fn record(works: [Option<Work>; 2]) -> Record {
        let mut record = Record::new(Run::default(), Environment::default());
        record.cases = works
            .into_iter()
            .map(|work| {
                let mut case = Case {
                    work,
                    ..Case::default()
                };
                case.scenario.workload = "get".to_owned();
                case
            })
            .collect();
        // A comparison that cannot be judged: its rounds are missing.
        record.comparisons = vec![Comparison {
            a: 0,
            b: 1,
            metric: Metric::P50.key().to_owned(),
            direction: Direction::LessIsBetter,
            ratio: 1.0,
            interval: None,
            minimum_detectable_effect: None,
            rounds: 0,
            verdict: Verdict::Inconclusive,
            evidence: String::new(),
        }];
        record
    }

    fn judged(works: [Option<Work>; 2]) -> Judged {
        Judged::of_comparisons(&record(works), &Thresholds::default())
    }

    #[test]
    fn more_work_is_a_warning_of_its_own_and_names_the_functions() {
        let before = work(3_600, &[("call", 200.0)]);
        let after = work(5_600, &[("call", 210.0), ("slowlogPush", 1_990.0)]);
        let judgement = judged([Some(before.clone()), Some(after)]);
        assert_eq!(judgement.outcome, Outcome::Critical);
        let row = &judgement.rows[0];
        assert_eq!(
            (row.metric, row.verdict),
            (Metric::ServerInstructions, RowVerdict::Critical)
        );
        let Grounds::Work(work_of) = row.evidence else {
            panic!("{row:?}");
        };
        assert_eq!((work_of.ratio * 1e3).round(), 1_556.0);
        let named: Vec<&str> = row.functions.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(named, ["slowlogPush", "call"]);
        let slightly = judged([Some(before.clone()), Some(work(3_700, &[]))]);
        assert_eq!(slightly.outcome, Outcome::Warning);
        let below = judged([Some(before), Some(work(3_640, &[]))]);
        assert_eq!(below.rows[0].verdict, RowVerdict::Slower);
    }

    #[test]
    fn counts_of_the_same_passes_are_a_note() {
        let counted = |allocations: u64| {
            let mut work = work(3_600, &[]);
            for pass in &mut work.passes {
                pass.system_calls = Some(190);
                pass.allocations = Some(allocations);
                pass.bytes_sent = Some(69_000);
            }
            work
        };
        let judgement = judged([Some(counted(2_000)), Some(counted(3_000))]);
        let counts = vec![
            (Counted::SystemCalls, 0.19, 0.19),
            (Counted::Allocations, 2.0, 3.0),
            (Counted::BytesSent, 69.0, 69.0),
        ];
        let note = Reason::OtherCounts("get".to_owned(), counts);
        assert!(judgement.notes.contains(&note), "{judgement:?}");
    }

    #[test]
    fn missing_or_incomparable_counts_claim_nothing() {
        let lost = judged([None, Some(work(9, &[]))]);
        assert!(lost.rows.is_empty());
        let note = Reason::CountedOnce {
            case: "get".to_owned(),
            metric: Metric::ServerInstructions,
            side: Side::Second,
        };
        assert!(lost.notes.contains(&note), "{lost:?}");
        let other = Work {
            tool: "valgrind-3.22.0".to_owned(),
            ..work(7_200, &[])
        };
        let judgement = judged([Some(work(3_600, &[])), Some(other)]);
        assert_eq!(judgement.rows[0].verdict, RowVerdict::Inconclusive);
        let Grounds::Incomparable(it) = &judgement.rows[0].evidence else {
            panic!("{judgement:?}");
        };
        assert_eq!(
            (it.what, it.was.as_str(), it.is.as_str()),
            ("the tool that counts", "valgrind-3.19.0", "valgrind-3.22.0")
        );
        assert_eq!(judgement.outcome, Outcome::Inconclusive);
    }

    #[test]
    fn equal_work_does_not_make_up_for_times_that_tell_nothing() {
        let judgement = judged([Some(work(3_600, &[])), Some(work(3_600, &[]))]);
        assert_eq!(judgement.rows[0].verdict, RowVerdict::Equivalent);
        assert_eq!(judgement.outcome, Outcome::Inconclusive);
    }

    #[test]
    fn work_and_time_that_disagree_are_explained() {
        let row = |metric, verdict| Row {
            verdict,
            ..Row::unknown("get", metric)
        };
        let rows = [
            row(Metric::P50, RowVerdict::Warning),
            row(Metric::ServerInstructions, RowVerdict::Faster),
        ];
        let expected = Reason::Disagreement {
            case: "get".to_owned(),
            metric: Metric::P50,
            grew: false,
        };
        assert_eq!(disagreements(&rows), [expected]);
        let agreeing = [
            row(Metric::P50, RowVerdict::Warning),
            row(Metric::ServerInstructions, RowVerdict::Slower),
        ];
        assert!(disagreements(&agreeing).is_empty());
    }
}
