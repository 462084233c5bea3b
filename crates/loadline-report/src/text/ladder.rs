//! The ladder of tiers in a terminal: a bar for each time on one logarithmic scale.

use loadline_measure::words;

use super::page::{Page, Style};
use crate::clean::{columns, plain, shortened};
use crate::document::Ladder;

/// Columns of the name, of the time and of the bar.
const NAME: (usize, usize) = (12, 32);
const TIME: usize = 9;
const BAR: (usize, usize) = (10, 60);
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
    let room = page.width().saturating_sub(name + TIME + 6);
    let width = room.clamp(BAR.0, BAR.1);
    let block = if unicode { "█" } else { "#" };
    page.line(Style::Dim, "Mean time, on a log scale");
    for row in &plot.rows {
        let Some(log) = log(row.ns) else {
            continue;
        };
        let length = ((log - low) / span * width as f64).round() as usize;
        let label = shortened(&plain(&row.label), name).into_owned();
        let pad = " ".repeat(name.saturating_sub(columns(&label)));
        let time = words::duration(row.ns);
        page.line(
            Style::Plain,
            &format!(
                "  {label}{pad}  {time:>TIME$}  {}",
                block.repeat(length.clamp(1, width))
            ),
        );
    }
}
