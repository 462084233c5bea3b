//! The verdict of each kind of document, in one sentence.

use loadline_measure::compare::Supported;
use loadline_measure::gate::{Basis, Judgement, Outcome, Row, RowVerdict, outcome_of};
use loadline_measure::record::{Record, Severity};
use loadline_measure::words;

use super::change::{change, percent};
use crate::document::{CheckResult, Tone, Verdict};

/// A change that a baseline is expected to detect.
const EXPECTED: f64 = 0.10;
/// Cases whose work changed are named up to here, then counted.
const MOST_NAMED: usize = 2;

impl Verdict {
    fn new(result: CheckResult, sentence: String) -> Self {
        let tone = match result {
            CheckResult::Passed => Tone::Plain,
            other => other.tone(),
        };
        Self {
            result,
            tone,
            sentence,
        }
    }
}

/// The verdict of a record: of its judgement, or what was found with the result of it.
pub(super) fn of_record(record: &Record, found: &str, result: CheckResult) -> Verdict {
    if let Some(judgement) = &record.judgement {
        return of_judgement(judgement);
    }
    if record.run.cut_short {
        let sentence = match lost_agents(record) {
            // Figures of a part of the load are no result.
            Some(lost) => {
                format!("INCOMPLETE: {lost}. The figures below are of a part of the run.")
            }
            None => {
                format!("Cut short: the run ended before its plan was done. Until then: {found}.")
            }
        };
        return Verdict::new(CheckResult::Error, sentence);
    }
    let of = |verdict| {
        record
            .limits
            .iter()
            .filter(move |row| row.verdict == verdict)
    };
    let all = words::plural(record.limits.len() as u64, "limit");
    match outcome_of(&record.limits) {
        Outcome::Critical => {
            let broken = of(RowVerdict::Critical).count();
            let sentence = format!("Critical: {broken} of {all} not kept. {found}.");
            Verdict::new(CheckResult::Failed("critical"), sentence)
        }
        Outcome::Inconclusive => {
            let open = of(RowVerdict::Inconclusive).count();
            let sentence = format!("Inconclusive: {open} of {all} cannot be judged. {found}.");
            Verdict::new(CheckResult::Skipped, sentence)
        }
        _ if record.limits.is_empty() => Verdict::new(result, format!("{found}.")),
        _ => Verdict {
            tone: Tone::Good,
            ..Verdict::new(CheckResult::Passed, format!("{all} kept. {found}."))
        },
    }
}

/// The agents that were lost, with the reasons, as a sentence without its full stop; `None` without any.
pub(super) fn lost_agents(record: &Record) -> Option<String> {
    let lost = record.lost_agents.iter().map(|lost| lost.reason.as_str());
    let lost: Vec<&str> = lost.collect();
    (!lost.is_empty()).then(|| lost.join("; "))
}

/// The verdict of a gate or a comparison, with the number of load generators if there were several.
pub(super) fn of_judgement(judgement: &Judgement) -> Verdict {
    let verdict = of_figures(judgement);
    if judgement.agents == 0 {
        return verdict;
    }
    let agents = words::plural(judgement.agents, "agent");
    let sentence = verdict.sentence.trim_end_matches('.');
    Verdict {
        sentence: format!("{sentence}, from {agents}."),
        ..verdict
    }
}

fn of_figures(judgement: &Judgement) -> Verdict {
    let of = |grave: &[RowVerdict]| {
        let rows = judgement.rows.iter();
        rows.filter(|row| grave.contains(&row.verdict)).count()
    };
    let figures = words::plural(judgement.rows.len() as u64, "figure");
    let (critical, warning) = (of(&[RowVerdict::Critical]), of(&[RowVerdict::Warning]));
    match judgement.outcome {
        Outcome::Critical => {
            let worse = critical + warning;
            let sentence = format!(
                "Critical: {}{worse} of {figures} got worse or broke a limit, {critical} critically.",
                worst(judgement, RowVerdict::Critical)
            );
            Verdict::new(CheckResult::Failed("critical"), sentence)
        }
        Outcome::Warning => {
            let worst = worst(judgement, RowVerdict::Warning);
            let sentence = format!("Warning: {worst}{warning} of {figures} got worse.");
            Verdict::new(CheckResult::Failed("warning"), sentence)
        }
        Outcome::Inconclusive if judgement.refused => {
            let why = judgement.reasons.first();
            let why = why.map_or_else(|| ".".to_owned(), |why| format!(": {why}"));
            Verdict::new(CheckResult::Error, format!("These cannot be compared{why}"))
        }
        Outcome::Inconclusive => Verdict::new(CheckResult::Skipped, inconclusive(judgement)),
        Outcome::None => {
            let (faster, slower) = (of(&[RowVerdict::Faster]), of(&[RowVerdict::Slower]));
            let worst = worst(judgement, RowVerdict::Equivalent);
            let work = work(judgement).map_or_else(String::new, |work| work + "; ");
            let open = of(&[RowVerdict::Inconclusive]);
            let sentence = if open == 0 {
                format!(
                    "No regression: {work}{worst}of {figures}, {faster} got better and {slower} slightly worse."
                )
            } else {
                format!(
                    "No regression found: {work}{worst}of {figures}, {faster} got better, {slower} slightly worse and {open} inconclusive."
                )
            };
            Verdict {
                tone: Tone::Good,
                ..Verdict::new(CheckResult::Passed, sentence)
            }
        }
    }
}

/// The row of a verdict that moved most, as a phrase with its interval.
fn worst(judgement: &Judgement, verdict: RowVerdict) -> String {
    let moved = |row: &&Row| {
        let sure = row.ratio.map_or(0.0, |ratio| match support(row) {
            Supported::Ratio => ratio.ln(),
            Supported::Bound(bound) => bound.ln(),
            Supported::Nothing => 0.0,
        });
        sure.abs()
    };
    let rows = judgement.rows.iter().filter(|row| row.verdict == verdict);
    // A headline is quoted, so its figures must stand in the table, and a ratio without them is left out; so is
    // work that did not change, which leads the sentence.
    let rows = rows.filter(|row| row.limit.is_some() || row.baseline.and(row.candidate).is_some());
    let rows = rows.filter(|row| row.is_change() || !row.metric.is_work());
    let Some(row) = rows.max_by(|a, b| moved(a).total_cmp(&moved(b))) else {
        return String::new();
    };
    let Some(ratio) = row.ratio.filter(|_| support(row) != Supported::Nothing) else {
        return format!("{}: {}; ", subject(row), row.evidence);
    };
    let change = match row.lo.zip(row.hi) {
        // A change of this size can be noise.
        Some((lo, hi)) if verdict == RowVerdict::Equivalent && lo <= 1.0 && hi >= 1.0 => {
            let [lo, hi] = [lo, hi].map(|end| signed_percent(end - 1.0));
            format!("the same [{lo}, {hi} %]")
        }
        bounds => change(ratio, bounds),
    };
    format!("{} {change}; ", subject(row))
}

/// Subject of a row: `get, p50`, or a limit.
fn subject(row: &Row) -> String {
    match &row.limit {
        Some(limit) if row.case.is_empty() => limit.clone(),
        Some(limit) => format!("{}, limit {limit}", row.case),
        None => format!("{}, {}", row.case, row.metric.name().replace('_', " ")),
    }
}

/// The part of a row's ratio that can be quoted; a ratio without an interval was not compared over rounds.
fn support(row: &Row) -> Supported {
    let is_open = row.verdict == RowVerdict::Inconclusive;
    row.lo
        .zip(row.hi)
        .map_or(Supported::Ratio, |bounds| Supported::of(bounds, is_open))
}

/// The change in instructions per operation, of all cases that were counted: the widest interval if none changed.
fn work(judgement: &Judgement) -> Option<String> {
    let rows = judgement.rows.iter();
    let rows: Vec<&Row> = rows
        .filter(|row| row.metric.is_work() && row.limit.is_none())
        .collect();
    let bounds = |row: &Row| {
        row.lo
            .zip(row.hi)
            .filter(|_| row.verdict != RowVerdict::Inconclusive)
    };
    let ends: Option<Vec<(f64, f64)>> = rows.iter().map(|row| bounds(row)).collect();
    let (lo, hi) = ends?
        .into_iter()
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let changed = rows.iter().filter(|row| row.is_change());
    let mut changed: Vec<(f64, &Row)> = changed
        .filter_map(|row| Some((row.ratio?.ln(), *row)))
        .collect();
    if changed.is_empty() {
        let [lo, hi] = [lo, hi].map(|end| signed_percent(end - 1.0));
        return Some(format!("no change in work per operation [{lo}, {hi} %]"));
    }
    // More work comes first, then the larger change.
    changed.sort_by(|(a, _), (b, _)| {
        let sign = (*b > 0.0).cmp(&(*a > 0.0));
        sign.then(b.abs().total_cmp(&a.abs()))
    });
    let phrases = changed.iter().take(MOST_NAMED).map(|(change_of, row)| {
        let change = change(change_of.exp(), row.lo.zip(row.hi));
        format!("{} {change}", row.case)
    });
    let phrases: Vec<String> = phrases.collect();
    let others = match changed.len().saturating_sub(MOST_NAMED) as u64 {
        0 => String::new(),
        others => format!(", and {}", words::plural(others, "other change")),
    };
    Some(format!(
        "work per operation: {}{others}",
        phrases.join(", ")
    ))
}

/// `+1`, `-0.6`: a share in percent, with its sign.
fn signed_percent(share: f64) -> String {
    let sign = if share < 0.0 { '-' } else { '+' };
    format!("{sign}{}", percent(100.0 * share.abs()))
}

/// Of times that are all inconclusive, the smallest change that one of them can show.
fn blind_times(judgement: &Judgement) -> Option<f64> {
    let times = judgement.rows.iter();
    let times = times.filter(|row| row.limit.is_none() && !row.metric.is_work());
    let effects = times.filter_map(|row| row.minimum_detectable_effect);
    effects.reduce(f64::min)
}

fn inconclusive(judgement: &Judgement) -> String {
    if let Some(work) = work(judgement) {
        let times = blind_times(judgement).map_or_else(
            || "times are inconclusive".to_owned(),
            |effect| {
                let effect = words::percent(effect);
                format!("times cannot show less than {effect} on this machine today")
            },
        );
        return format!("Inconclusive: {work}; {times}.");
    }
    let mut compared = judgement.rows.iter().filter(|row| row.limit.is_none());
    let blind = |row: &Row| {
        let effect = row.minimum_detectable_effect;
        row.verdict == RowVerdict::Inconclusive && effect.is_some_and(|effect| effect > EXPECTED)
    };
    let is_noisy = compared.clone().next().is_some() && compared.all(blind);
    if is_noisy && judgement.basis == Basis::Baseline {
        return "Inconclusive: this machine is too noisy for a baseline to show 10 %; run `compare A B`."
            .to_owned();
    }
    let why = judgement.reasons.first();
    let why = why.map_or("no metric shows whether it got worse.", String::as_str);
    format!("Inconclusive: {why}")
}

/// The verdict of an examination.
pub(super) fn of_examination(record: &Record) -> Verdict {
    let of = |severity| {
        let findings = record.doctor.iter();
        findings.filter(|found| found.severity == severity).count() as u64
    };
    if record.run.cut_short {
        let sentence = "Cut short: an interrupt ended the examination before all of it was done.";
        return Verdict::new(CheckResult::Error, sentence.to_owned());
    }
    let (critical, warnings) = (of(Severity::Critical), of(Severity::Warning));
    let sentence = match record.doctor.first() {
        None => "No finding: nothing here would make a measurement unreliable.".to_owned(),
        Some(first) => format!(
            "{}, {critical} critical: the gravest is {}.",
            words::plural(record.doctor.len() as u64, "finding"),
            first.rule
        ),
    };
    match (critical, warnings) {
        (0, 0) => Verdict {
            tone: Tone::Good,
            ..Verdict::new(CheckResult::Passed, sentence)
        },
        (0, _) => Verdict::new(CheckResult::Failed("warning"), sentence),
        _ => Verdict::new(CheckResult::Failed("critical"), sentence),
    }
}
