//! A judgement in the words that all forms share.

mod junit;
mod markdown;

use std::collections::BTreeSet;

use loadline_measure::Metric;
use loadline_measure::gate::{Judgement, Outcome, Row, RowVerdict};
use loadline_measure::metric::Quantity;

pub use junit::judgement_junit;
pub use markdown::judgement_markdown;

use loadline_measure::words;

/// Who asked for a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The command, such as `gate`.
    pub command: &'a str,
    /// Whether an inconclusive outcome is a failure.
    pub strict: bool,
}

/// What stands at the end of every text, for scripts: `loadline: gate: warning (1)`, the number being
/// the exit code.
#[must_use]
pub fn last_line(judgement: &Judgement, asked: Asked<'_>) -> String {
    format!(
        "loadline: {}: {} ({})",
        asked.command,
        judgement.outcome.name(),
        judgement.exit_code(asked.strict)
    )
}

/// The verdict in one sentence.
pub(crate) fn headline(judgement: &Judgement) -> String {
    let rows = judgement.rows.len() as u64;
    let of = |grave: &[RowVerdict]| {
        let graves = judgement.rows.iter();
        graves.filter(|row| grave.contains(&row.verdict)).count()
    };
    match judgement.outcome {
        Outcome::Critical => {
            let critical = of(&[RowVerdict::Critical]);
            let worse = of(&[RowVerdict::Critical, RowVerdict::Warning]);
            let figures = words::plural(rows, "figure");
            format!(
                "Critical: {worse} of {figures} got worse or broke a limit, {critical} critically."
            )
        }
        Outcome::Warning => {
            let worse = of(&[RowVerdict::Warning]);
            format!(
                "Warning: {worse} of {} got worse.",
                words::plural(rows, "figure")
            )
        }
        Outcome::Inconclusive if judgement.refused => "These cannot be compared.".to_owned(),
        Outcome::Inconclusive => "Inconclusive: it cannot be told whether it got worse.".to_owned(),
        Outcome::None => {
            let faster = of(&[RowVerdict::Faster]);
            let slower = of(&[RowVerdict::Slower]);
            format!(
                "No regression in {}: {faster} got better, {slower} slightly worse.",
                words::plural(rows, "figure")
            )
        }
    }
}

/// What a row is of: `get, p50`, or a limit.
pub(crate) fn subject(row: &Row) -> String {
    match &row.limit {
        Some(limit) if row.case.is_empty() => limit.clone(),
        Some(limit) => format!("{}, limit {limit}", row.case),
        None => format!("{}, {}", row.case, row.metric.name()),
    }
}

/// The verdict of a row in the word that fits its metric.
pub(crate) fn verdict(row: &Row) -> &'static str {
    let (worse, better) = row.metric.words();
    match row.verdict {
        RowVerdict::Critical | RowVerdict::Warning | RowVerdict::Slower if row.limit.is_none() => {
            worse
        }
        RowVerdict::Critical | RowVerdict::Warning | RowVerdict::Slower => "broken",
        RowVerdict::Faster => better,
        RowVerdict::Equivalent if row.limit.is_some() => "kept",
        RowVerdict::Equivalent => "the same",
        RowVerdict::Inconclusive => "cannot tell",
    }
}

/// A value of the metric of a row with its unit; `-` where there is none.
pub(crate) fn value(row: &Row, value: Option<f64>) -> String {
    figure(row.metric, value)
}

/// A value of a metric with its unit; `-` where there is none.
pub(crate) fn figure(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| match metric.quantity() {
            Quantity::Time => words::duration(value),
            Quantity::Rate => format!("{}/s", words::count(value)),
            Quantity::Share => words::percent(value),
            Quantity::Count => words::count(value),
            Quantity::Bytes => format!("{} B", words::count(value)),
        },
    )
}

/// `1.11x [1.08, 1.14]`; `-` where nothing was compared.
pub(crate) fn ratio(row: &Row) -> String {
    let bounds = row.lo.zip(row.hi).map_or_else(String::new, |(lo, hi)| {
        format!(" [{}, {}]", words::bound(lo), words::bound(hi))
    });
    row.ratio
        .map_or_else(|| "-".to_owned(), |ratio| words::ratio(ratio) + &bounds)
}

/// The smallest change that would have shown, as the end of a sentence; empty where it is not known.
pub(crate) fn detectable(row: &Row) -> String {
    row.minimum_detectable_effect
        .map_or_else(String::new, |effect| {
            format!("; changes of {} or more would show", words::percent(effect))
        })
}

/// Rows in the order of reading: changed ones first, the gravest before the others.
pub(crate) fn ordered(judgement: &Judgement) -> (Vec<&Row>, Vec<&Row>) {
    let (mut changed, rest): (Vec<&Row>, Vec<&Row>) =
        judgement.rows.iter().partition(|row| row.is_change());
    changed.sort_by_key(|row| match row.verdict {
        RowVerdict::Critical => 0,
        RowVerdict::Warning => 1,
        RowVerdict::Slower => 2,
        _ => 3,
    });
    (changed, rest)
}

/// Reasons that are more than the sentence of a row that is shown anyway.
pub(crate) fn reasons(judgement: &Judgement) -> impl Iterator<Item = &String> {
    let changed = judgement.rows.iter().filter(|row| row.is_change());
    let shown: BTreeSet<String> = changed.map(Row::sentence).collect();
    let reasons = judgement.reasons.iter();
    reasons.filter(move |reason| !shown.contains(*reason))
}
