//! The ladder of tiers in a terminal: its times, and a bar for each mean on one logarithmic scale, of letters for its parts.

use loadline_measure::words;

use super::page::{Page, Style};
use crate::clean::{columns, plain, shortened};
use crate::document::Ladder;

/// Columns of the name, of the time and of the bar.
const NAME: (usize, usize) = (12, 32);
const TIME: usize = 9;
const BAR: (usize, usize) = (10, 60);
/// The letters of the parts, by their colours. The rest, and what is not divided, has a block.
const LETTERS: [&str; 5] = ["c", "l", "n", "s", "e"];
/// Larger logarithms are not measured and would break the axis.
const MOST_LOG: f64 = 15.0;

pub(super) fn draw(page: &mut Page, plot: &Ladder, unicode: bool) {
    let log = |ns: f64| Some(ns.log10()).filter(|log| log.abs() < MOST_LOG);
    let logs = plot.rows.iter().filter_map(|row| log(row.ns));
    let (Some(low), Some(high)) = (logs.clone().reduce(f64::min), logs.reduce(f64::max)) else {
        return;
    };
    let low = low.floor();
    let span = (high - low).max(1.0);
    let names = plot.rows.iter().map(|row| columns(&plain(&row.label)));
    let name = names.max().unwrap_or(0).clamp(NAME.0, NAME.1);
    // Percentiles are left out if they leave too little room for a bar.
    let room = |times: usize| page.width().saturating_sub(name + times * (TIME + 2) + 4);
    let times = if room(3) < BAR.0 { 1 } else { 3 };
    let width = room(times).clamp(BAR.0, BAR.1);
    let block = if unicode { "█" } else { "#" };
    let letter = |colour: usize| LETTERS.get(colour).copied().unwrap_or(block);
    let key = plot.key.iter();
    let key: Vec<String> = key
        .map(|(colour, name)| format!("{} {}", letter(*colour), plain(name)))
        .collect();
    let head = format!(
        "Mean time on a log scale, divided by its parts: {}",
        key.join(", ")
    );
    page.wrapped(Style::Dim, "", "  ", &head);
    let line = |label: &str, own: [String; 3], bar: &str| {
        let pad = " ".repeat(name.saturating_sub(columns(label)));
        let own: String = own[..times]
            .iter()
            .map(|time| format!("  {time:>TIME$}"))
            .collect();
        format!("  {label}{pad}{own}  {bar}")
    };
    page.line(
        Style::Dim,
        &line("", ["mean", "p50", "p99"].map(Into::into), ""),
    );
    for row in &plot.rows {
        let Some(log) = log(row.ns) else {
            continue;
        };
        let length = ((log - low) / span * width as f64).round() as usize;
        let label = shortened(&plain(&row.label), name).into_owned();
        let own = [Some(row.ns), row.p50_ns, row.p99_ns];
        let own = own.map(|ns| ns.map_or_else(|| "-".to_owned(), words::duration));
        let bar = bar(&row.parts, length.clamp(1, width), letter);
        page.line(Style::Plain, &line(&label, own, &bar));
    }
}

/// A bar of `length` letters, as many of each part as its share.
fn bar(parts: &[(usize, f64)], length: usize, letter: impl Fn(usize) -> &'static str) -> String {
    let (mut bar, mut drawn, mut sum) = (String::new(), 0, 0.0);
    for (colour, share) in parts {
        sum += share.clamp(0.0, 1.0);
        let end = ((sum * length as f64).round() as usize).min(length);
        bar += &letter(*colour).repeat(end.saturating_sub(drawn));
        drawn = drawn.max(end);
    }
    bar
}
