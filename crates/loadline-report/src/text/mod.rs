//! The text printer: the end of every run in a terminal or a pipe.

mod ladder;
mod lines;
mod page;
mod spread;
mod table;
mod timeline;

use loadline_measure::doctor::Finding;
use loadline_measure::gate::{Baseline, Judgement};
use loadline_measure::proof::Proof;
use loadline_measure::record::Record;
use loadline_measure::words;

use crate::Asked;
use crate::clean::plain;
use crate::document::{Block, Checks, Document, Item, MOST_FURTHER, Plot, Section, Spread, Tone};
use crate::view;
use page::{Page, Style};

/// Options of a text report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that there are; below 40 lines may be longer than this.
    pub width: usize,
    /// Whether ANSI colours are understood.
    pub color: bool,
    /// Whether block characters are shown; without them most plots are left out.
    pub unicode: bool,
    /// Whether all findings of the doctor are shown, not just the first three.
    pub verbose: bool,
}

/// For pages that are printed the same everywhere.
const PLAIN: TextOptions = TextOptions {
    width: 80,
    color: false,
    unicode: false,
    verbose: true,
};

/// The record as text for a terminal or a pipe, with a line feed at the end.
#[must_use]
pub fn text(record: &Record, options: &TextOptions) -> String {
    print(&view::of_record(record), options)
}

/// An examination as text: numbered findings, the gravest first, and what was examined.
#[must_use]
pub fn diagnosis(record: &Record, options: &TextOptions) -> String {
    print(&view::examination(record), options)
}

/// The judgement as text, with the warnings and critical ones of the findings about its candidate. Its last line is
/// [`last_line`](crate::last_line).
#[must_use]
pub fn judgement_text(
    judgement: &Judgement,
    doctor: &[Finding],
    asked: Asked<'_>,
    options: &TextOptions,
) -> String {
    print(&view::judgement_of(judgement, doctor, asked), options)
}

/// The proof as text, with a line feed at the end.
#[must_use]
pub fn proof(proof: &Proof) -> String {
    print(&view::proof(proof), &PLAIN)
}

/// The baseline as text, with a line feed at the end.
#[must_use]
pub fn baseline(baseline: &Baseline) -> String {
    print(&view::baseline(baseline), &PLAIN)
}

fn print(document: &Document, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    let verdict = &document.verdict;
    let style = match style_of(verdict.tone) {
        Style::Plain => Style::Bold,
        style => style,
    };
    page.wrapped(style, "", "  ", &plain(&verdict.sentence));
    for section in &document.sections {
        print_section(&mut page, section, options);
    }
    if let Some(last) = &document.last {
        page.gap();
        // Scripts read this line, so it is not broken, however narrow the terminal is.
        page.line(style, &plain(last));
    }
    page.into_text()
}

fn print_section(page: &mut Page, section: &Section, options: &TextOptions) {
    let is_shown = section.blocks.iter().any(|block| match block {
        Block::Checks(checks) => checks.shown,
        Block::Flames(_) | Block::Data(_) => false,
        Block::Plot(Plot::Timeline(_)) => true,
        Block::Plot(plot) => is_drawn(plot) && (section.blocks.len() > 1 || options.unicode),
        _ => true,
    });
    if !is_shown {
        return;
    }
    page.gap();
    if !section.heading.is_empty() {
        page.wrapped(Style::Bold, "", "  ", &plain(&section.heading));
    }
    let mut spreads = Vec::new();
    for block in &section.blocks {
        match block {
            Block::Sentence(tone, text) => page.wrapped(style_of(*tone), "", "  ", &plain(text)),
            Block::List(items) => {
                print_list(page, items, section.brief.filter(|_| !options.verbose));
            }
            Block::Facts(facts) => {
                for (name, value) in facts {
                    page.wrapped(
                        Style::Dim,
                        "  ",
                        "    ",
                        &plain(&format!("{name}: {value}")),
                    );
                }
            }
            Block::Table(table) => table::draw(page, table),
            Block::Plot(Plot::Lines(plot)) if plot.in_text => {
                lines::draw(page, plot, options.unicode);
            }
            Block::Plot(Plot::Timeline(plot)) => timeline::draw(page, plot, options.unicode),
            Block::Plot(Plot::Ladder(plot)) => ladder::draw(page, plot, options.unicode),
            Block::Plot(Plot::Spread(spread)) if options.unicode => spreads.push(spread),
            Block::Checks(checks) if checks.shown => print_checks(page, checks),
            Block::Plot(_) | Block::Flames(_) | Block::Checks(_) | Block::Data(_) => {}
        }
    }
    print_spreads(page, &spreads);
}

/// Whether a plot of this kind is drawn in a text at all.
fn is_drawn(plot: &Plot) -> bool {
    match plot {
        Plot::Lines(lines) => lines.in_text,
        Plot::Ladder(_) | Plot::Spread(_) | Plot::Timeline(_) => true,
        _ => false,
    }
}

fn print_spreads(page: &mut Page, spreads: &[&Spread]) {
    if !spreads.is_empty() {
        page.gap();
        spread::draw(page, spreads);
    }
}

/// Prints the first entries, each in short, and how to see the others; all of them if there is no number of them.
fn print_list(page: &mut Page, items: &[Item], brief: Option<usize>) {
    let further = if brief.is_some() { 0 } else { MOST_FURTHER };
    let shown = brief.unwrap_or(items.len());
    for item in items.iter().take(shown) {
        print_item(page, item, further);
    }
    let others = items.len().saturating_sub(shown) as u64;
    if others > 0 {
        let others = words::plural(others, "other finding");
        page.wrapped(Style::Dim, "  ", "    ", &format!("{others}: --verbose"));
    }
}

fn print_item(page: &mut Page, item: &Item, further: usize) {
    let text = if item.label.is_empty() {
        plain(&item.text).into_owned()
    } else {
        plain(&format!("{}: {}", item.label, item.text)).into_owned()
    };
    let style = style_of(item.tone);
    page.wrapped(style, "  ", "    ", &text);
    for more in item.further(further) {
        page.wrapped(style, "    ", "    ", &plain(&more));
    }
    if !item.advice.is_empty() {
        page.wrapped(Style::Dim, "    -> ", "       ", &plain(&item.advice));
    }
}

fn print_checks(page: &mut Page, checks: &Checks) {
    for check in &checks.checks {
        let text = format!("{}: {}: {}", check.result.word(), check.name, check.message);
        page.wrapped(style_of(check.result.tone()), "  ", "    ", &plain(&text));
    }
}

fn style_of(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::Plain,
        Tone::Faint => Style::Dim,
        Tone::Good => Style::Green,
        Tone::Warn => Style::Yellow,
        Tone::Bad => Style::Red,
    }
}
