//! Comparisons of two records from different times.
//!
//! Their rounds are not paired, and single runs do not show how runs vary. If both were measured with the
//! reference on one machine, the normalised values can be compared, with an allowance for the variation
//! between runs; even then there is no alarm about times. To confirm a difference, measure both together, or
//! against a baseline of several runs.

use std::collections::BTreeMap;

use super::baseline::normalised_rounds;
use super::judgement::{Basis, Judgement, Policy, Row, RowVerdict, exp, ratio_bounds};
use super::strict::{COMPARED, Thresholds};
use super::{fingerprint, work};
use crate::interval::{self, ALPHA, MedianInterval};
use crate::metric::Metric;
use crate::quantile::median;
use crate::record::{Answer, Case, Record, shortened};
use crate::work::WorkRules;

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
pub fn judge(before: &Record, after: &Record, rules: &WorkRules) -> Judgement {
    if let (Answer::Sweep, Answer::Sweep) = (&before.answer, &after.answer) {
        return sweeps::judge(before, after, rules);
    }
    let (held, measured) = match (by_name(before), by_name(after)) {
        (Ok(held), Ok(measured)) => (held, measured),
        (Err(reason), _) | (_, Err(reason)) => return refused(vec![reason]),
    };
    let reasons: Vec<String> = other_work(&held, &measured);
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
        let (rows, sentences) = work::of_cases(name, held[name], case, rules);
        works.extend(rows);
        counted.extend(sentences);
    }
    let differences = fingerprint::differences(&before.environment, &after.environment);
    let elsewhere = differences.iter().any(|difference| difference.is_of_place);
    if elsewhere {
        for row in &mut rows {
            row.verdict = RowVerdict::Inconclusive;
            row.evidence = "measured on another machine, so there is no verdict".to_owned();
        }
    }
    let worse: Vec<String> = rows
        .iter()
        .filter(|row| is_alarming(row))
        .map(Row::sentence)
        .collect();
    rows.extend(works);
    let disagreements = work::disagreements(&rows);
    let mut judgement = Judgement::new(Policy::Strict, Basis::Records, rows);
    for sentence in worse {
        judgement.doubt(sentence);
    }
    judgement.notes.push(
        "These are single runs of different times, so their times raise no alarm. To settle it, compare the two targets in one run, or gate against a baseline of 8 runs."
            .to_owned(),
    );
    judgement.notes.extend(disagreements);
    judgement.notes.extend(counted);
    for difference in differences {
        judgement.notes.push(difference.sentence());
    }
    for what in fingerprint::unknown(&before.environment, &after.environment) {
        judgement.notes.push(format!(
            "The {what} is not known, so another machine would not be noticed."
        ));
    }
    judgement
}

fn refused(reasons: Vec<String>) -> Judgement {
    Judgement::refused(Policy::Strict, Basis::Records, reasons)
}

/// The cases by name, with their subject if there are several.
fn by_name(record: &Record) -> Result<BTreeMap<String, &Case>, String> {
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
            return Err(format!(
                "The run {id} has two cases called \"{name}\", so it is unclear which to compare."
            ));
        }
    }
    Ok(cases)
}

/// The differences between the work of two runs; empty if they did the same.
fn other_work(held: &BTreeMap<String, &Case>, measured: &BTreeMap<String, &Case>) -> Vec<String> {
    let mut reasons = Vec::new();
    for name in held.keys().filter(|name| !measured.contains_key(*name)) {
        reasons.push(format!(
            "Only the first record holds the case {}.",
            shortened(name)
        ));
    }
    for (name, case) in measured {
        match held.get(name) {
            None => {
                reasons.push(format!(
                    "Only the second record holds the case {}.",
                    shortened(name)
                ));
            }
            Some(before) if before.scenario != case.scenario => reasons.push(format!(
                "The case {} was measured under another scenario in each record.",
                shortened(name)
            )),
            Some(_) => {}
        }
    }
    if held.is_empty() && measured.is_empty() {
        reasons.push("Neither record holds a case.".to_owned());
    }
    reasons
}

fn row(name: &str, metric: Metric, before: &Case, after: &Case) -> Option<Row> {
    let (was, is) = (metric.of_case(before), metric.of_case(after));
    was.or(is)?;
    let mut row = Row {
        baseline: was,
        candidate: is,
        ..Row::unknown(name, metric)
    };
    let logs = normalised_rounds(before, metric).zip(normalised_rounds(after, metric));
    let Some((one, other)) = logs else {
        row.evidence =
            "inconclusive: not measured with the reference in half of the rounds of both"
                .to_owned();
        return Some(row);
    };
    let intervals = interval::of_median(&one, ALPHA).zip(interval::of_median(&other, ALPHA));
    let (Some((a, b)), Some(one), Some(other)) = (intervals, median(&one), median(&other)) else {
        row.evidence = "inconclusive: too few rounds for an interval".to_owned();
        return Some(row);
    };
    row.ratio = Some(exp(other - one));
    let (lo, hi) = difference(metric, &a, &b);
    let bounds = ratio_bounds(metric.direction(), (lo, hi));
    (row.lo, row.hi) = (Some(bounds.lo), Some(bounds.hi));
    let thresholds = Thresholds::default();
    let margin = thresholds.margin.ln_1p();
    row.minimum_detectable_effect = Some(exp(margin + (hi - lo) / 2.0) - 1.0);
    let (worse, better) = metric.words();
    (row.verdict, row.evidence) = if lo > margin {
        let least = percent(exp(lo) - 1.0);
        (
            RowVerdict::Slower,
            format!("{worse} by at least {least}, in one run each"),
        )
    } else if hi < -margin {
        let least = percent(1.0 - exp(hi));
        (
            RowVerdict::Faster,
            format!("{better} by at least {least}, in one run each"),
        )
    } else if hi < thresholds.warning.ln_1p() {
        let most = percent(exp(hi) - 1.0);
        (
            RowVerdict::Equivalent,
            format!("{worse} by {most} at most, in one run each"),
        )
    } else {
        let told = format!(
            "inconclusive: between {} and {} {worse}, room for how runs differ included",
            percent(exp(lo) - 1.0),
            percent(exp(hi) - 1.0)
        );
        (RowVerdict::Inconclusive, told)
    };
    Some(row)
}

/// The bounds of the difference as logarithms, where more is worse: each record at its worst for the claim.
fn difference(metric: Metric, a: &MedianInterval, b: &MedianInterval) -> (f64, f64) {
    let one = metric.direction().worsening(b.lo - a.hi);
    let other = metric.direction().worsening(b.hi - a.lo);
    (one.min(other) - ROOM, one.max(other) + ROOM)
}

/// Whether the row would be a warning if single records could raise one.
fn is_alarming(row: &Row) -> bool {
    let worse = row
        .ratio
        .map(|ratio| row.metric.direction().worsening(ratio.ln()));
    row.verdict == RowVerdict::Slower
        && worse.is_some_and(|worse| worse >= Thresholds::default().warning.ln_1p())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
