//! Two sweeps over call modes, of different times.
//!
//! The times of a sweep answer which mode is fastest in it. They were not measured with a reference, so a
//! difference between two sweeps cannot be distinguished from one of the machine. What the client executes for an operation was counted
//! once for each mode and does not depend on that.

use std::collections::BTreeMap;

use super::refused;
use crate::gate::judgement::{Basis, Policy};
use crate::gate::reason::{Judged, Reason, RecordReason, Remark, Side};
use crate::gate::work;
use crate::metric::Metric;
use crate::record::{Case, Record, Scenario};
use crate::work::WorkRules;

/// Judges the instructions of the client in the second sweep against those in the first.
pub(super) fn judge(before: &Record, after: &Record, rules: &WorkRules) -> Judged {
    let (held, measured) = (counted(before), counted(after));
    let (mut rows, mut notes, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (name, case) in &measured {
        match held.get(name) {
            Some(before) if same_calls(before, case) => {
                let (row, note) = work::of_cases(name, before, case, rules);
                rows.extend(row);
                notes.extend(note);
            }
            Some(_) => others.push(Reason::Records(RecordReason::OtherCalls(name.clone()))),
            None => others.push(Reason::Records(RecordReason::OneSidedCount(
                Side::Second,
                name.clone(),
            ))),
        }
    }
    let gone = held.into_keys().filter(|name| !measured.contains_key(name));
    others.extend(gone.map(|name| Reason::Records(RecordReason::OneSidedCount(Side::First, name))));
    if rows.is_empty() {
        others.insert(0, Reason::Remark(Remark::NoSameCalls));
        return refused(others);
    }
    let mut judgement = Judged::new(Policy::Strict, Basis::Records, rows);
    judgement.notes.push(Reason::Remark(Remark::TimesOfSweeps));
    judgement.notes.extend(others);
    judgement.notes.extend(notes);
    judgement
}

/// The cells whose client was counted, by what was called and how.
fn counted(record: &Record) -> BTreeMap<String, &Case> {
    let cells = record.cases.iter();
    let cells = cells.filter(|case| Metric::ClientInstructions.work_of(case).is_some());
    cells.map(|case| (name(case), case)).collect()
}

fn name(case: &Case) -> String {
    let scenario = &case.scenario;
    let codec = scenario.codec.as_ref();
    let codec = codec.map_or_else(String::new, |codec| format!(" as {codec}"));
    format!("{}{codec} by {}", case.name(), scenario.mode)
}

/// Whether two cells called the same; how many operations their times were asked for does not matter to a count.
fn same_calls(one: &Case, other: &Case) -> bool {
    let calls = |case: &Case| Scenario {
        ops_asked: None,
        ..case.scenario.clone()
    };
    calls(one) == calls(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Outcome, RowVerdict};
    use crate::record::{Answer, Environment, Mode, Run};
    use crate::work::{Pass, Source, Work};

    fn sweep(modes: &[(Mode, u64)], ops_asked: u64) -> Record {
        let mut record = Record::new(Run::default(), Environment::default());
        record.answer = Answer::Sweep;
        for (mode, instructions) in modes {
            for asked in [Some(ops_asked), Some(10 * ops_asked), None] {
                let mut case = Case::default();
                case.scenario.workload = "get".to_owned();
                case.scenario.mode = mode.clone();
                case.scenario.ops_asked = asked;
                let pass = Pass {
                    ops: 100,
                    instructions: instructions * 100,
                    ..Pass::default()
                };
                case.client_work = (asked == Some(ops_asked)).then(|| Work {
                    source: Source::Callgrind,
                    tool: "valgrind-3.19.0".to_owned(),
                    cpu: "x86_64".to_owned(),
                    executable_sha1: None,
                    fixed_randomness: false,
                    passes: vec![pass; 3],
                    functions: Vec::new(),
                    frames: Vec::new(),
                });
                record.cases.push(case);
            }
        }
        record
    }

    #[test]
    fn modes_that_execute_more_are_named_and_times_are_not_judged() {
        let before = sweep(&[(Mode::Sync, 2_000), (Mode::Pipeline, 400)], 100);
        let after = sweep(&[(Mode::Sync, 2_100), (Mode::Pipeline, 400)], 1_000);
        let judgement = super::super::judge(&before, &after, &WorkRules::default());
        assert_eq!(judgement.outcome, Outcome::Warning, "{judgement:?}");
        let rows: Vec<_> = judgement.rows.iter().collect();
        assert_eq!(rows.len(), 2);
        assert!(
            rows.iter()
                .all(|row| row.metric == Metric::ClientInstructions)
        );
        let of = |name: &str| rows.iter().find(|row| row.case == name).unwrap();
        assert_eq!(of("get by sync").verdict, RowVerdict::Warning);
        assert_eq!(of("get by pipeline").verdict, RowVerdict::Equivalent);
    }

    #[test]
    fn sweeps_without_counts_of_the_same_calls_are_refused() {
        let one = sweep(&[(Mode::Sync, 2_000)], 100);
        let mut other = sweep(&[(Mode::Pipeline, 400)], 100);
        let judgement = super::super::judge(&one, &other, &WorkRules::default());
        assert!(judgement.refused, "{judgement:?}");
        let expected = [
            Reason::Remark(Remark::NoSameCalls),
            Reason::Records(RecordReason::OneSidedCount(
                Side::Second,
                "get by pipeline".to_owned(),
            )),
            Reason::Records(RecordReason::OneSidedCount(
                Side::First,
                "get by sync".to_owned(),
            )),
        ];
        assert_eq!(judgement.reasons, expected);
        other = sweep(&[(Mode::Sync, 2_000)], 100);
        for case in &mut other.cases {
            case.scenario.keys = 7;
        }
        let judgement = super::super::judge(&one, &other, &WorkRules::default());
        let other = Reason::Records(RecordReason::OtherCalls("get by sync".to_owned()));
        assert_eq!(
            judgement.reasons,
            [Reason::Remark(Remark::NoSameCalls), other]
        );
    }
}
