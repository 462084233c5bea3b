//! Comparisons with both figures side by side, and limits: of a judgement or of pairs in one record.

use std::collections::BTreeSet;

use loadline_measure::Metric;
use loadline_measure::capacity::Capacity;
use loadline_measure::compare::Supported;
use loadline_measure::doctor::{Finding, Severity};
use loadline_measure::gate::{Basis, Judgement, Row as Judged, RowVerdict};
use loadline_measure::record::{Comparison, Record, Verdict as Told};
use loadline_measure::words;
use loadline_measure::work::{FunctionDifference, setting_of};

use super::change::{is_noise, phrase};
use super::groups::{Group, groups};
use super::verdict;
use crate::Asked;
use crate::document::{
    Block, Cell, Check, CheckResult, Checks, Column, Document, Item, Plot, Ratio, Ratios, Row,
    RowGroup, Section, Table, Tone,
};
use crate::row_sentence;

/// Legend of a ratio.
pub(super) const LEGEND: &str = "ratio: the median over rounds of the second figure over the first in the same round, with its interval. \"detects\": the smallest change that these rounds can detect.";
/// Legend of a ratio of which only a bound is shown.
pub(super) const BOUND: &str = "A ratio such as \">1.20x\" is the certain bound: noise makes its interval too wide to quote the median.";
/// Note for a ratio that differs from that of the two figures next to it.
const MAY_DIFFER: &str = "The two figures are over the whole run, and the ratio is the median of the ratios of single rounds: the speed of the machine changed between rounds.";
/// The same where figures are normalised.
const NORMALISED: &str = "The two figures are as measured, and the ratio is without the part that the echo reference explains: the machine was not as fast as before.";
/// Above this, as a share, rounding does not explain the difference.
const ROUNDING: f64 = 0.02;

/// The document of a judgement that a command was asked for.
pub(crate) fn judgement(judgement: &Judgement, asked: Asked<'_>) -> Document {
    judgement_of(judgement, &[], asked)
}

/// The document of a judgement with the grave ones of the findings about its candidate.
pub(crate) fn judgement_of(
    judgement: &Judgement,
    doctor: &[Finding],
    asked: Asked<'_>,
) -> Document {
    let is_grave = |finding: &&Finding| finding.severity > Severity::Info;
    let grave: Vec<Finding> = doctor.iter().filter(is_grave).cloned().collect();
    let mut sections = sections(judgement);
    if !grave.is_empty() {
        sections.push(super::doctor(&grave));
    }
    Document {
        title: format!("loadline {}", asked.command),
        verdict: verdict::of_judgement(judgement),
        sections: sections.into_iter().flatten().collect(),
        timestamp: String::new(),
        last: Some(last_line(judgement, asked)),
    }
}

/// The last line of every judgement, for scripts: `loadline: gate: warning (1)`, the number being the
/// exit code.
pub(crate) fn last_line(judgement: &Judgement, asked: Asked<'_>) -> String {
    format!(
        "loadline: {}: {} ({})",
        asked.command,
        judgement.outcome.name(),
        judgement.exit_code(asked.strict)
    )
}

/// Limits, then what changed, then the rest.
pub(super) fn sections(judgement: &Judgement) -> Vec<Option<Section>> {
    let (limited, compared): (Vec<&Judged>, Vec<&Judged>) =
        judgement.rows.iter().partition(|row| row.limit.is_some());
    let (mut changed, rest): (Vec<&Judged>, Vec<&Judged>) =
        compared.into_iter().partition(|row| row.is_change());
    changed.sort_by_key(|row| match row.verdict {
        RowVerdict::Critical => 0,
        RowVerdict::Warning => 1,
        RowVerdict::Slower => 2,
        _ => 3,
    });
    let rest_title = words::plural(rest.len() as u64, "figure");
    let rest_title = format!("{rest_title} without a change, or inconclusive");
    let folded = table(&rest_title, judgement.basis, &rest).map(Section::fold);
    let items = |texts: Vec<&String>| {
        let items = texts.into_iter().map(|text| Item::new(Tone::Plain, text));
        vec![Block::List(items.collect())]
    };
    vec![
        limits_of(&limited),
        Section::new("Reasons", items(reasons(judgement))),
        table("What changed", judgement.basis, &changed),
        folded,
        Section::new("Notes", items(judgement.notes.iter().collect())),
        checks(judgement),
    ]
}

/// Reasons that neither the verdict nor a row states.
fn reasons(judgement: &Judgement) -> Vec<&String> {
    let shown: BTreeSet<String> = judgement.rows.iter().map(row_sentence).collect();
    let verdict = verdict::of_judgement(judgement).sentence;
    let reasons = judgement.reasons.iter();
    reasons
        .filter(|reason| !shown.contains(*reason) && !verdict.contains(reason.as_str()))
        .collect()
}

/// The limits of a run as passed or failed.
pub(super) fn limits(rows: &[Judged]) -> Option<Section> {
    limits_of(&rows.iter().collect::<Vec<_>>())
}

fn limits_of(rows: &[&Judged]) -> Option<Section> {
    let checks = rows.iter().map(|row| Check {
        name: row.limit.clone().unwrap_or_default(),
        class: row.case.clone(),
        result: result_of(row.verdict),
        message: row.evidence.clone(),
        ..Check::default()
    });
    let checks = Checks {
        name: "limits".to_owned(),
        checks: checks.collect(),
        shown: true,
    };
    Section::new("Limits", vec![Block::Checks(checks)])
}

fn result_of(verdict: RowVerdict) -> CheckResult {
    match verdict {
        RowVerdict::Critical => CheckResult::Failed("critical"),
        RowVerdict::Warning => CheckResult::Failed("warning"),
        RowVerdict::Inconclusive => CheckResult::Skipped,
        RowVerdict::Slower | RowVerdict::Faster | RowVerdict::Equivalent => CheckResult::Passed,
    }
}

/// One check per figure that was compared.
fn checks(judgement: &Judgement) -> Option<Section> {
    let rows = judgement.rows.iter().filter(|row| row.limit.is_none());
    let checks = rows.map(|row| Check {
        name: row.metric.name().to_owned(),
        class: row.case.clone(),
        result: result_of(row.verdict),
        message: format!(
            "{} -> {}, {}: {}",
            value(row.metric, row.baseline),
            value(row.metric, row.candidate),
            ratio(
                row.ratio,
                row.lo.zip(row.hi),
                row.verdict == RowVerdict::Inconclusive
            ),
            row.evidence
        ),
        ..Check::default()
    });
    let checks = Checks {
        name: "compared".to_owned(),
        checks: checks.collect(),
        shown: false,
    };
    Section::new("", vec![Block::Checks(checks)])
}

/// A value of a metric with its unit; `-` where there is none.
pub(super) fn value(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| words::value(metric, value))
}

/// `1.11x [1.08, 1.14]` as far as it is supported; `-` where nothing was compared, and words where only noise was.
fn ratio(ratio: Option<f64>, bounds: Option<(f64, f64)>, is_open: bool) -> String {
    let Some(ratio) = ratio else {
        return "-".to_owned();
    };
    let Some((lo, hi)) = bounds else {
        return format!("{} [too few rounds]", words::ratio(ratio));
    };
    let (lead, ratio) = match Supported::of((lo, hi), is_open) {
        Supported::Ratio => ("", ratio),
        Supported::Bound(bound) if bound > 1.0 => (">", bound),
        Supported::Bound(bound) => ("<", bound),
        Supported::Nothing => return "too noisy".to_owned(),
    };
    let [lo, hi] = [lo, hi].map(words::bound);
    format!("{lead}{} [{lo}, {hi}]", words::ratio(ratio))
}

/// Whether a comparison is shown by its certain bound.
pub(super) fn is_bound(told: &Comparison) -> bool {
    let is_open = told.verdict == Told::Inconclusive;
    let bounds = told.interval.map(|bounds| (bounds.lo, bounds.hi));
    bounds.is_some_and(|bounds| matches!(Supported::of(bounds, is_open), Supported::Bound(_)))
}

/// The ratio of a comparison in a record, as far as it is supported.
pub(super) fn ratio_of(told: &Comparison) -> String {
    let bounds = told.interval.map(|bounds| (bounds.lo, bounds.hi));
    ratio(Some(told.ratio), bounds, told.verdict == Told::Inconclusive)
}

fn verdict_cell(row: &Judged) -> Cell {
    let (worse, better) = row.metric.words();
    match row.verdict {
        RowVerdict::Critical => Cell::new(Tone::Bad, worse),
        RowVerdict::Warning => Cell::new(Tone::Warn, worse),
        RowVerdict::Slower => Cell::new(Tone::Plain, worse),
        RowVerdict::Faster => Cell::new(Tone::Good, better),
        RowVerdict::Equivalent => Cell::new(Tone::Faint, "the same"),
        RowVerdict::Inconclusive => Cell::new(Tone::Faint, "inconclusive"),
    }
}

/// The columns of a comparison of two sides.
fn columns(one: &str, other: &str) -> Vec<Column> {
    vec![
        Column::text("figure", 0),
        Column::figure(one, 0),
        Column::figure(other, 0),
        Column::text("ratio", 1),
        Column::text("verdict", 0),
        Column::figure("detects", 2),
        Column::text("evidence", 3),
    ]
}

/// Both figures of a row, their ratio and what it means.
fn cells(
    metric: Metric,
    figures: [Option<f64>; 2],
    shown: String,
    told: Cell,
    effect: Option<f64>,
    evidence: &str,
) -> Vec<Cell> {
    let effect = effect.map_or_else(|| "-".to_owned(), words::percent);
    vec![
        metric.name().replace('_', " ").into(),
        value(metric, figures[0]).into(),
        value(metric, figures[1]).into(),
        Cell::new(told.tone, shown),
        told,
        effect.into(),
        evidence.into(),
    ]
}

/// The figures of a judgement by case; none where there are no rows.
fn table(heading: &str, basis: Basis, rows: &[&Judged]) -> Option<Section> {
    let mut groups: Vec<RowGroup> = Vec::new();
    for row in rows {
        // The interval of a figure that did not change is its evidence.
        let evidence = if row.verdict == RowVerdict::Equivalent {
            ""
        } else {
            &row.evidence
        };
        let bounds = row.lo.zip(row.hi);
        let is_open = row.verdict == RowVerdict::Inconclusive;
        let figures = [row.baseline, row.candidate];
        let why = if basis == Basis::Baseline {
            NORMALISED
        } else {
            MAY_DIFFER
        };
        let shown = Row {
            cells: cells(
                row.metric,
                figures,
                ratio(row.ratio, bounds, is_open),
                verdict_cell(row),
                row.minimum_detectable_effect,
                evidence,
            ),
            notes: [differs(figures, row.ratio, bounds, why), functions(row)].concat(),
            ..Row::default()
        };
        match groups.iter_mut().find(|group| group.title == row.case) {
            Some(group) => group.rows.push(shown),
            None => groups.push(RowGroup {
                title: row.case.clone(),
                rows: vec![shown],
            }),
        }
    }
    let (one, other) = if basis == Basis::Pairs {
        ("A", "B")
    } else {
        ("then", "now")
    };
    let table = Table {
        caption: heading.to_owned(),
        columns: columns(one, other),
        groups,
    };
    let blocks = vec![Block::Table(table)];
    (!rows.is_empty())
        .then(|| Section::new(heading, blocks))
        .flatten()
}

/// The functions that account for a difference in work, each with the setting behind it where that is known, with the instructions that it adds and its share of the
/// whole difference.
fn functions(row: &Judged) -> Vec<Item> {
    let whole = row.candidate.zip(row.baseline).map(|(b, a)| b - a);
    let named = row.functions.iter().map(|function| {
        let added = function.added();
        let sign = if added < 0.0 { '-' } else { '+' };
        let share = whole
            .filter(|whole| *whole != 0.0)
            .map(|whole| format!(" ({:.0} %)", 100.0 * added / whole))
            .unwrap_or_default();
        let setting = setting_of(&function.name)
            .map(|setting| format!(" [{setting}]"))
            .unwrap_or_default();
        format!(
            "{}{setting} {sign}{}{share}",
            function.name,
            words::count(added.abs())
        )
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return Vec::new();
    }
    let without_names = row.functions.iter().all(FunctionDifference::is_address);
    let advice = if without_names {
        ". Install the symbols of the server to see names"
    } else {
        ""
    };
    let text = format!("where: {}{advice}", named.join(", "));
    vec![Item::new(Tone::Faint, text)]
}

/// Note for a row whose figures differ from its ratio by more than rounding.
fn differs(
    figures: [Option<f64>; 2],
    ratio: Option<f64>,
    bounds: Option<(f64, f64)>,
    why: &str,
) -> Vec<Item> {
    let ([Some(one), Some(other)], Some(ratio)) = (figures, ratio) else {
        return Vec::new();
    };
    let quotient = other / one;
    let (lo, hi) = bounds.unwrap_or((ratio, ratio));
    if Supported::of((lo, hi), false) != Supported::Ratio {
        return Vec::new();
    }
    let beyond = !(lo..=hi).contains(&quotient) && (quotient / ratio).ln().abs() > ROUNDING;
    if beyond && quotient.is_finite() {
        vec![Item::new(Tone::Faint, why)]
    } else {
        Vec::new()
    }
}

fn metric_of(comparison: &Comparison) -> Option<Metric> {
    Metric::from_key(&comparison.metric)
}

/// Comparisons between the cases of a record, round by round.
pub(super) fn of_pairs(record: &Record, title: impl Fn(&Group<'_>) -> String) -> Option<Section> {
    let groups = groups(record);
    let mut shown: Vec<RowGroup> = Vec::new();
    let mut sides: Vec<[&str; 2]> = Vec::new();
    for group in &groups {
        for (b, case) in &group.cases {
            let of_case = record.comparisons.iter();
            let of_case = of_case.filter(|told| told.b == *b && told.a != *b);
            let mut rows: Vec<&Comparison> = of_case.collect();
            rows.sort_by_key(|told| metric_of(told) != Some(Metric::Throughput));
            let Some(other) = rows.first().and_then(|told| record.cases.get(told.a)) else {
                continue;
            };
            let names = [other.subject.name.as_str(), case.subject.name.as_str()];
            if !sides.contains(&names) {
                sides.push(names);
            }
            shown.push(RowGroup {
                title: format!("{}: {} vs {}", title(group), names[1], names[0]),
                rows: rows.iter().map(|told| pair_row(record, told)).collect(),
            });
        }
    }
    if shown.is_empty() {
        return None;
    }
    let (one, other) = match sides[..] {
        [[one, other]] => (one, other),
        _ => ("first", "second"),
    };
    let table = Table {
        caption: "Comparison by paired rounds".to_owned(),
        columns: columns(one, other),
        groups: shown,
    };
    Section::new("Side by side", vec![Block::Table(table)])
}

fn pair_row(record: &Record, told: &Comparison) -> Row {
    let bounds = told.interval.map(|bounds| (bounds.lo, bounds.hi));
    let shown = ratio_of(told);
    let cell = verdict_of(told);
    let evidence = in_words(told);
    let effect = told.minimum_detectable_effect;
    let Some(metric) = metric_of(told) else {
        let mut cells = cells(Metric::P50, [None, None], shown, cell, effect, &evidence);
        cells[0] = told.metric.as_str().into();
        return Row {
            cells,
            ..Row::default()
        };
    };
    let figures = [told.a, told.b].map(|case| metric.of_case(record.cases.get(case)?));
    Row {
        notes: differs(figures, Some(told.ratio), bounds, MAY_DIFFER),
        cells: cells(metric, figures, shown, cell, effect, &evidence),
        ..Row::default()
    }
}

/// The evidence in the words of its metric: a cost is not slower but higher.
fn in_words(told: &Comparison) -> String {
    let evidence = told.evidence.as_str();
    match metric_of(told).map(Metric::words) {
        Some((worse, better)) if worse != "slower" => {
            evidence.replace("slower", worse).replace("faster", better)
        }
        _ => evidence.to_owned(),
    }
}

fn verdict_of(told: &Comparison) -> Cell {
    let (worse, better) = metric_of(told).map_or(("slower", "faster"), Metric::words);
    match told.verdict {
        Told::Slower => Cell::new(Tone::Warn, worse),
        Told::Faster => Cell::new(Tone::Good, better),
        Told::Equivalent => Cell::new(Tone::Faint, "the same"),
        Told::Inconclusive => Cell::new(Tone::Faint, "inconclusive"),
    }
}

/// All ratios of a record with their intervals.
pub(super) fn ratios(record: &Record) -> Option<Plot> {
    let mut rows = Vec::new();
    for group in groups(record) {
        for (colour, (b, case)) in group.cases.iter().enumerate() {
            let of_case = record.comparisons.iter();
            for told in of_case.filter(|told| told.b == *b && told.a != *b) {
                let bounds = told.interval.map(|bounds| (bounds.lo, bounds.hi));
                if is_noise(told.verdict == Told::Inconclusive, bounds) {
                    continue;
                }
                let (lo, hi) = bounds.unwrap_or((told.ratio, told.ratio));
                let name = metric_of(told).map_or(told.metric.as_str(), |metric| metric.name());
                rows.push(Ratio {
                    label: format!("{}, {}", case.name(), name.replace('_', " ")),
                    title: format!("{}: {}", case.subject.name, phrase(told)),
                    colour,
                    ratio: told.ratio,
                    lo,
                    hi,
                });
            }
        }
    }
    let caption = "Ratios with their intervals".to_owned();
    (!rows.is_empty()).then_some(Plot::Ratios(Ratios { caption, rows }))
}

/// Whether a search ended without an answer.
pub(super) fn is_open(answer: &Capacity) -> bool {
    !answer.outcome.is_decided()
}
