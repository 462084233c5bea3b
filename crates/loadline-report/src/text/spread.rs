//! The pictures of the text report: how the response times of each case are spread, and how its
//! throughput went from round to round.

use loadline_measure::words;

use super::page::{Page, Style};
use crate::clean::{columns, plain, shortened};
use crate::document::{Distribution, Spread};
use crate::picture;

/// A sparkline of rounds is at most this wide.
const MOST_SPARK: usize = 20;
/// A spectrum narrower than the first shows nothing, one wider than the second no more.
const SPECTRUM: (usize, usize) = (10, 60);

/// Widths of the parts of a line, in columns.
struct Widths {
    name: usize,
    spectrum: usize,
    /// `None` where there is no room for the rounds next to the spectrum.
    spark: Option<usize>,
}

/// Draws all histograms and the rounds of their cases.
pub(super) fn draw(page: &mut Page, spreads: &[&Spread]) {
    let widths = Widths::fit(spreads, page.width());
    let what = if widths.spark.is_some() {
        ", and throughput by round"
    } else {
        ""
    };
    page.line(Style::Bold, &format!("Response times on a log scale{what}"));
    for spread in spreads {
        let title = filled(&spread.title, widths.name);
        page.line(
            Style::Dim,
            &format!("{title}  {}", axis(spread, widths.spectrum)),
        );
        for row in &spread.rows {
            let name = filled(&row.label, widths.name - 2);
            let spectrum = match &row.histogram {
                Some(kept) => {
                    picture::spectrum(&kept.log_bins(spread.from_ns, spread.to_ns, widths.spectrum))
                }
                None => " ".repeat(widths.spectrum),
            };
            let rounds = widths
                .spark
                .map_or_else(String::new, |width| rounds(row, width));
            page.line(Style::Plain, &format!("  {name}  {spectrum}  {rounds}"));
        }
    }
}

impl Widths {
    /// Names and rounds get what they need within limits; the spectrum gets the rest.
    fn fit(spreads: &[&Spread], width: usize) -> Self {
        let titles = spreads.iter().map(|spread| columns(&plain(&spread.title)));
        let rows = || spreads.iter().flat_map(|spread| &spread.rows);
        let names = rows().map(|row| columns(&plain(&row.label)) + 2);
        let name = titles.chain(names).max().unwrap_or(0);
        let name = name.clamp(12, (width / 3).max(12));
        let spark = rows().map(|row| row.rounds.len()).max().unwrap_or(0);
        let spark = spark.min(MOST_SPARK);
        let range = rows().map(|row| columns(&range(row))).max().unwrap_or(0);
        let without = width.saturating_sub(name + 2);
        let with = without.saturating_sub(spark + range + 3);
        let (spark, rest) = if with < SPECTRUM.0 {
            (None, without)
        } else {
            (Some(spark), with)
        };
        Self {
            name,
            spectrum: rest.clamp(SPECTRUM.0, SPECTRUM.1),
            spark,
        }
    }
}

/// The two ends of the axis, at its two ends.
fn axis(spread: &Spread, bins: usize) -> String {
    let ends = [spread.from_ns, spread.to_ns];
    let [from, to] = ends.map(|ns| words::duration(ns as f64));
    let between = bins.saturating_sub(columns(&from) + columns(&to)).max(1);
    format!("{from}{}{to}", " ".repeat(between))
}

/// The throughput of the rounds: a sparkline and its range.
fn rounds(row: &Distribution, width: usize) -> String {
    let line = picture::sparkline(&row.rounds, width);
    format!("{} {}", filled(&line, width), range(row))
}

/// The least and the most throughput of a round; empty without rounds.
fn range(row: &Distribution) -> String {
    let rates = || row.rounds.iter().copied();
    let ends = rates().reduce(f64::min).zip(rates().reduce(f64::max));
    ends.map_or_else(String::new, |(least, most)| {
        format!("{} to {}", words::count(least), words::count(most))
    })
}

/// The text cut or filled to exactly `width` columns.
fn filled(text: &str, width: usize) -> String {
    let text = plain(text);
    let text = shortened(&text, width);
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(&text))))
}
