//! The text report: what stands at the end of every run.

mod baseline;
mod capacity;
mod diagnosis;
mod judgement;
mod page;
mod pictures;
mod proof;
mod sweep;
mod table;

use loadline_measure::record::{Record, Severity, Verdict};

use crate::clean::plain;
use crate::view::{self, Group, Row};
use loadline_measure::words;
use page::{Page, Style};
use table::Table;

pub use baseline::baseline;
pub use diagnosis::diagnosis;
pub use judgement::judgement_text;
pub use proof::proof;

/// Where a rule of the doctor fired more often than this, the rest is counted.
const MOST_SEEN: usize = 4;

/// How a text report may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that there are; below 40 lines may be longer than this.
    pub width: usize,
    /// Whether ANSI colours are understood.
    pub color: bool,
    /// Whether block characters are shown; without them the pictures are left out.
    pub unicode: bool,
}

/// The record as text for a terminal or a pipe, with a line feed at the end.
#[must_use]
pub fn text(record: &Record, options: &TextOptions) -> String {
    let groups = view::groups(record);
    let mut page = Page::new(options);
    head(&mut page, record, &groups);
    if let Some(answer) = &record.capacity {
        findings(&mut page, record);
        capacity::draw(&mut page, answer, options.unicode);
    } else if crate::sweep::is_sweep(record) {
        sweep::draw(&mut page, record, options.unicode);
    } else {
        cases(&mut page, &groups);
        if options.unicode {
            pictures::draw(&mut page, &groups);
        }
    }
    doctor(&mut page, record);
    if record.capacity.is_none() {
        findings(&mut page, record);
    }
    foot(&mut page, record);
    page.into_text()
}

fn head(page: &mut Page, record: &Record, groups: &[Group<'_>]) {
    let run = &record.run;
    page.wrapped(Style::Bold, "", "  ", &plain(&title(record)));
    for line in view::surroundings(record) {
        page.wrapped(Style::Dim, "", "  ", &line);
    }
    let shared = view::shared_conditions(groups);
    if !shared.is_empty() {
        page.wrapped(
            Style::Plain,
            "",
            "  ",
            &format!("All cases: {}", shared.join(", ")),
        );
    }
    if run.cut_short {
        page.wrapped(Style::Red, "", "  ", "CUT SHORT: an interrupt ended this run before its plan was done. What follows is what was measured until then.");
    }
}

fn title(record: &Record) -> String {
    let run = &record.run;
    format!(
        "Loadline {}, run {}, {}",
        run.version, run.id, run.started_at
    )
}

fn cases(page: &mut Page, groups: &[Group<'_>]) {
    page.gap();
    if groups.is_empty() {
        page.line(Style::Plain, "Nothing was measured.");
        return;
    }
    let table = Table::fit(groups, page.width());
    page.line(Style::Dim, &table.header());
    let shared = view::shared_conditions(groups);
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            page.gap();
        }
        page.wrapped(Style::Bold, "", "  ", &view::title(group, &shared));
        for row in &group.rows {
            page.styled(&table.row(row));
            if group.open_loop {
                page.line(
                    Style::Plain,
                    &table.times("  service time", &row.case.service_time_ns),
                );
                if let Some(lag) = &row.case.lag_ns {
                    page.line(Style::Plain, &table.times("  generator lag", lag));
                }
            }
            notes(page, row, &table);
        }
    }
}

/// What stands below the figures of a case: those without room, what must be known first, and then the comparison in words.
fn notes(page: &mut Page, row: &Row<'_>, table: &Table) {
    if let Some(figures) = table.beneath(row) {
        page.wrapped(Style::Plain, "  ", "    ", &figures);
    }
    let style = if row.case.error_count() > 0 {
        Style::Red
    } else {
        Style::Yellow
    };
    for warning in view::warnings(row.case) {
        page.wrapped(style, "  ! ", "    ", &warning);
    }
    if let Some(tail) = view::tail(row.case) {
        page.wrapped(Style::Dim, "  ", "    ", &tail);
    }
    let Some(beside) = &row.beside else { return };
    let (throughput, others): (Vec<_>, Vec<_>) = row
        .comparisons
        .iter()
        .partition(|comparison| view::metric(comparison) == "throughput");
    for comparison in throughput {
        let figure = if table.shows_ratios() {
            String::new()
        } else {
            format!("{} ", Page::unbroken(&view::comparison(comparison)))
        };
        let evidence = view::evidence(comparison);
        page.wrapped(
            style_of(comparison.verdict),
            "  ",
            "    ",
            &format!("throughput {figure}beside {beside}: {evidence}"),
        );
    }
    let others: Vec<String> = others
        .iter()
        .map(|comparison| {
            let effect = comparison.minimum_detectable_effect;
            let effect = effect
                .map(|share| format!(" ({} would show)", words::percent(share)))
                .unwrap_or_default();
            let metric = plain(view::metric(comparison));
            let ratio = Page::unbroken(&view::comparison(comparison));
            let verdict = view::verdict(comparison);
            format!("{metric} {ratio} {verdict}{effect}")
        })
        .collect();
    if !others.is_empty() {
        page.wrapped(Style::Dim, "  ", "    ", &others.join("; "));
    }
}

fn doctor(page: &mut Page, record: &Record) {
    page.gap();
    let diagnoses = view::diagnoses(record);
    if diagnoses.is_empty() {
        page.line(Style::Plain, "Doctor: no findings.");
        return;
    }
    let heading = "Doctor: what would make these figures lie";
    page.wrapped(Style::Bold, "", "  ", heading);
    for diagnosis in diagnoses {
        let (style, severity) = match diagnosis.severity {
            Severity::Critical => (Style::Red, "critical"),
            Severity::Warning => (Style::Yellow, "warning"),
            Severity::Info => (Style::Plain, "info"),
        };
        for (place, (scope, evidence)) in diagnosis.seen.iter().take(MOST_SEEN).enumerate() {
            let label = if place == 0 {
                format!("  {severity} {}: ", plain(diagnosis.rule))
            } else {
                "    ".to_owned()
            };
            let scope = if scope.is_empty() {
                String::new()
            } else {
                format!("{scope}: ")
            };
            page.wrapped(style, &label, "    ", &plain(&format!("{scope}{evidence}")));
        }
        if let Some(more) = diagnosis
            .seen
            .len()
            .checked_sub(MOST_SEEN)
            .filter(|more| *more > 0)
        {
            page.line(style, &format!("    and {more} more of this kind"));
        }
        page.wrapped(
            Style::Dim,
            "    -> ",
            "       ",
            &plain(diagnosis.what_to_do),
        );
    }
}

fn findings(page: &mut Page, record: &Record) {
    if record.findings.is_empty() {
        return;
    }
    page.gap();
    page.line(Style::Bold, "What was found");
    for finding in &record.findings {
        page.wrapped(Style::Plain, "  ", "  ", &plain(finding));
    }
}

fn foot(page: &mut Page, record: &Record) {
    page.gap();
    if let Some(line) = view::cpu_legend(record) {
        page.wrapped(Style::Dim, "", "  ", line);
    }
    for line in view::legend(record) {
        page.wrapped(Style::Dim, "", "  ", &line);
    }
    page.wrapped(Style::Plain, "", "  ", &view::how_measured(record));
}

fn style_of(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Faster => Style::Green,
        Verdict::Slower => Style::Yellow,
        Verdict::Equivalent | Verdict::Inconclusive => Style::Dim,
    }
}
