//! A judgement for a terminal or a pipe: the verdict first, then what changed, then the rest.

use std::collections::BTreeMap;

use loadline_measure::gate::{Judgement, Outcome, Row, RowVerdict};

use super::TextOptions;
use super::page::{Page, Style};
use crate::clean::plain;
use crate::judgement::{
    Asked, detectable, headline, last_line, ordered, ratio, reasons, subject, value, verdict,
};

/// The judgement as text. Its last line is [`last_line`].
#[must_use]
pub fn judgement_text(judgement: &Judgement, asked: Asked<'_>, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    let style = match judgement.outcome {
        Outcome::None => Style::Green,
        Outcome::Inconclusive | Outcome::Warning => Style::Yellow,
        Outcome::Critical => Style::Red,
    };
    page.wrapped(style, "", "  ", &headline(judgement));
    for reason in reasons(judgement) {
        page.wrapped(Style::Plain, "  ", "    ", &plain(reason));
    }
    let (changed, rest) = ordered(judgement);
    if !changed.is_empty() {
        page.gap();
        page.line(Style::Bold, "What changed");
    }
    for row in changed {
        of_change(&mut page, row);
    }
    if !rest.is_empty() {
        page.gap();
        page.line(Style::Bold, "What did not, or cannot be told");
    }
    for (case, figures) in by_case(&rest) {
        let line = format!("{}: {}", plain(case), figures.join("; "));
        page.wrapped(Style::Plain, "  ", "    ", &line);
    }
    if !judgement.notes.is_empty() {
        page.gap();
        page.line(Style::Bold, "To be known");
    }
    for note in &judgement.notes {
        page.wrapped(Style::Dim, "  ", "    ", &plain(note));
    }
    page.gap();
    // Scripts read this line, so it is not broken, however narrow the terminal is.
    page.line(style, &last_line(judgement, asked));
    page.into_text()
}

/// A row that changed: its figures on one line, the evidence below.
fn of_change(page: &mut Page, row: &Row) {
    let style = match row.verdict {
        RowVerdict::Critical => Style::Red,
        RowVerdict::Warning => Style::Yellow,
        RowVerdict::Faster => Style::Green,
        _ => Style::Plain,
    };
    let before = if row.limit.is_some() {
        String::new()
    } else {
        format!("{} -> ", value(row, row.baseline))
    };
    let ratio = if row.ratio.is_some() {
        format!(", {}", ratio(row))
    } else {
        String::new()
    };
    let figures = format!(
        "{}: {before}{}{ratio} {}",
        subject(row),
        value(row, row.candidate),
        verdict(row)
    );
    page.wrapped(style, "  ", "    ", &plain(&figures));
    let evidence = format!("{}{}", row.evidence, detectable(row));
    page.wrapped(Style::Dim, "    ", "    ", &plain(&evidence));
}

/// The rows in short, by case.
fn by_case<'r>(rows: &[&'r Row]) -> BTreeMap<&'r str, Vec<String>> {
    let mut cases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows {
        cases.entry(&row.case).or_default().push(short(row));
    }
    cases
}

/// A row that did not change: `p50 the same, 1.01x [0.99, 1.02]`.
fn short(row: &Row) -> String {
    let what = row.limit.as_deref().unwrap_or(row.metric.name());
    let what = plain(what);
    let told = verdict(row);
    let compared = row.ratio.zip(row.minimum_detectable_effect);
    match (row.verdict, compared) {
        (RowVerdict::Inconclusive, _) => format!("{what}: {}", plain(&row.evidence)),
        (_, Some((_, effect))) => {
            let effect = loadline_measure::words::percent(effect);
            format!("{what} {told}, {} ({effect} would show)", ratio(row))
        }
        (_, None) => format!("{what} {told}"),
    }
}
