//! Comparisons of two records from different times.
//!
//! Their rounds are not paired, and single runs do not show how runs vary. If both were measured with the
//! reference on one machine, the normalised values can be compared, with an allowance for the variation
//! between runs; even then there is no alarm about times. To confirm a difference, measure both together, or
//! against a baseline of several runs.

use std::collections::BTreeMap;

use super::baseline::normalised_rounds;
use super::cpu_wait::CpuWait;
use super::judgement::{Basis, Policy, Row, RowVerdict, exp, ratio_bounds};
use super::reason::{
    Change, FailoverReason, Gap, Grounds, Judged, JudgedRow, Reason, RecordReason, Remark, Side,
};
use super::strict::{COMPARED, Thresholds};
use super::{fingerprint, work};
use crate::interval::{self, ALPHA, MedianInterval};
use crate::metric::Metric;
use crate::quantile::median;
use crate::record::{Answer, Case, Environment, Record, shortened};
use crate::work::WorkRules;

mod failovers;
mod sweeps;
#[cfg(test)]
mod tests;

/// The allowance for two normalised runs of the same thing: they vary by 1.0 % (standard deviation of p50,
/// `docs/analysis.md`), their difference by that times the square root of two, and one in a hundred lies
/// beyond 2.33 standard deviations on either side.
const ROOM: f64 = 2.33 * std::f64::consts::SQRT_2 * 0.010;

/// Judges the second record against the first.
///
/// It is refused if the work differs. Times never give a warning: such a result is inconclusive and says how
/// to confirm it. Instructions per operation do, by `rules`, because they do not depend on the time of
/// counting.
#[must_use]
pub fn judge(before: &Record, after: &Record, rules: &WorkRules) -> Judged {
    if let (Answer::Sweep, Answer::Sweep) = (&before.answer, &after.answer) {
        return sweeps::judge(before, after, rules);
    }
    match (&before.answer, &after.answer) {
        (Answer::Failover(was), Answer::Failover(is)) => {
            return failovers::judge((before, was), (after, is));
        }
        (Answer::Failover(_), _) | (_, Answer::Failover(_)) => {
            return refused(vec![Reason::Failovers(FailoverReason::OtherAnswer)]);
        }
        _ => {}
    }
    let (held, measured) = match (by_name(before), by_name(after)) {
        (Ok(held), Ok(measured)) => (held, measured),
        (Err(reason), _) | (_, Err(reason)) => return refused(vec![reason]),
    };
    let reasons: Vec<Reason> = other_work(&held, &measured);
    if !reasons.is_empty() {
        return refused(reasons);
    }
    let mut rows = Vec::new();
    for (name, case) in &measured {
        let before = held[name];
        let metrics = COMPARED.into_iter();
        rows.extend(metrics.filter_map(|metric| row(name, metric, before, case)));
    }
    // Counts do not depend on the machine's load, so two runs of different times can be compared by them.
    // Only a difference in the work makes them incomparable.
    let (mut works, mut counted) = (Vec::new(), Vec::new());
    for (name, case) in &measured {
        let (rows, notes) = work::of_cases(name, held[name], case, rules);
        works.extend(rows);
        counted.extend(notes);
    }
    let environments = (&before.environment, &after.environment);
    if is_elsewhere(environments) {
        for row in &mut rows {
            row.verdict = RowVerdict::Inconclusive;
            row.evidence = Grounds::Gap(Gap::OtherMachine);
        }
    }
    let worse = rows.iter().filter(|row| is_alarming(row));
    let worse: Vec<Reason> = worse.cloned().map(Reason::of).collect();
    rows.extend(works);
    let disagreements = work::disagreements(&rows);
    let mut judgement = Judged::new(Policy::Strict, Basis::Records, rows);
    for reason in worse {
        judgement.doubt(reason);
    }
    judgement.notes.push(Reason::Remark(Remark::SingleRuns));
    judgement.notes.extend(disagreements);
    judgement.notes.extend(counted);
    judgement.notes.extend(difference_notes(environments));
    judgement
}

/// Whether the records are of two machines.
fn is_elsewhere((before, after): (&Environment, &Environment)) -> bool {
    let differences = fingerprint::differences(before, after);
    differences.iter().any(|difference| difference.is_of_place)
}

/// The differences between the environments, and what is not known of them.
fn difference_notes((before, after): (&Environment, &Environment)) -> Vec<Reason> {
    let differences = fingerprint::differences(before, after).into_iter();
    let unknown = fingerprint::unknown(before, after).into_iter();
    differences
        .map(Reason::Differs)
        .chain(unknown.map(Reason::UnknownProperty))
        .collect()
}

fn refused(reasons: Vec<Reason>) -> Judged {
    Judged::refused(Policy::Strict, Basis::Records, reasons)
}

/// The cases by name, with their subject if there are several.
fn by_name(record: &Record) -> Result<BTreeMap<String, &Case>, Reason> {
    let mut subjects: Vec<&str> = record
        .cases
        .iter()
        .map(|case| case.subject.name.as_str())
        .collect();
    subjects.sort_unstable();
    subjects.dedup();
    let mut cases = BTreeMap::new();
    for case in &record.cases {
        let mut name = case.name();
        if subjects.len() > 1 {
            name = format!("{name} of {}", case.subject.name);
        }
        if cases.insert(name, case).is_some() {
            let (id, name) = (shortened(&record.run.id), shortened(&case.name()));
            return Err(Reason::Records(RecordReason::TwoCases(id, name)));
        }
    }
    Ok(cases)
}

/// The differences between the work of two runs; empty if they did the same.
fn other_work(held: &BTreeMap<String, &Case>, measured: &BTreeMap<String, &Case>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for name in held.keys().filter(|name| !measured.contains_key(*name)) {
        reasons.push(Reason::Records(RecordReason::OneSided(
            Side::First,
            shortened(name),
        )));
    }
    for (name, case) in measured {
        match held.get(name) {
            None => reasons.push(Reason::Records(RecordReason::OneSided(
                Side::Second,
                shortened(name),
            ))),
            Some(before) if before.scenario != case.scenario => {
                reasons.push(Reason::Records(RecordReason::OtherScenario(shortened(
                    name,
                ))));
            }
            Some(_) => {}
        }
    }
    if held.is_empty() && measured.is_empty() {
        reasons.push(Reason::Remark(Remark::NoCases));
    }
    reasons
}

fn row(name: &str, metric: Metric, before: &Case, after: &Case) -> Option<JudgedRow> {
    let (was, is) = (metric.of_case(before), metric.of_case(after));
    was.or(is)?;
    let mut row = Row {
        baseline: was,
        candidate: is,
        ..Row::unknown(name, metric)
    };
    let logs = normalised_rounds(before, metric).zip(normalised_rounds(after, metric));
    let Some((one, other)) = logs else {
        return Some(row.because(Grounds::Gap(Gap::NoReference)));
    };
    let intervals = interval::of_median(&one, ALPHA).zip(interval::of_median(&other, ALPHA));
    let (Some((a, b)), Some(one), Some(other)) = (intervals, median(&one), median(&other)) else {
        return Some(row.because(Grounds::Gap(Gap::FewRounds)));
    };
    row.ratio = Some(exp(other - one));
    let cpu_wait = CpuWait::of_cases(before, after);
    let (lo, hi) = cpu_wait.widened(metric, difference(metric, &a, &b));
    let bounds = ratio_bounds(metric.direction(), (lo, hi));
    (row.lo, row.hi) = (Some(bounds.lo), Some(bounds.hi));
    let thresholds = Thresholds::default();
    let margin = thresholds.margin.ln_1p();
    row.minimum_detectable_effect = Some(exp(margin + (hi - lo) / 2.0) - 1.0);
    if cpu_wait.explains_all(metric) && hi > margin {
        return Some(row.because(Grounds::Gap(Gap::CpuWait)));
    }
    row.verdict = if lo > margin {
        RowVerdict::Slower
    } else if hi < -margin {
        RowVerdict::Faster
    } else if hi < thresholds.warning.ln_1p() {
        RowVerdict::Equivalent
    } else {
        RowVerdict::Inconclusive
    };
    let estimate = metric.direction().worsening(other - one);
    Some(row.because(Grounds::SingleRuns(Change {
        estimate: exp(estimate) - 1.0,
        least: exp(lo) - 1.0,
        most: exp(hi) - 1.0,
    })))
}

/// The bounds of the difference as logarithms, where more is worse: each record at its worst for the claim.
fn difference(metric: Metric, a: &MedianInterval, b: &MedianInterval) -> (f64, f64) {
    let one = metric.direction().worsening(b.lo - a.hi);
    let other = metric.direction().worsening(b.hi - a.lo);
    (one.min(other) - ROOM, one.max(other) + ROOM)
}

/// Whether the row would be a warning if single records could raise one.
fn is_alarming(row: &JudgedRow) -> bool {
    let worse = row
        .ratio
        .map(|ratio| row.metric.direction().worsening(ratio.ln()));
    row.verdict == RowVerdict::Slower
        && worse.is_some_and(|worse| worse >= Thresholds::default().warning.ln_1p())
}
