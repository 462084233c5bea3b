//! The ladder of tiers: their times, divided by parts.

use super::chart::{Chart, Tick, axis, logarithm, range};
use super::{COLOURS, Figure};
use crate::clean::escaped;
use crate::document::{Ladder, Rung};

/// The height of a bar.
const BAR: f64 = 11.0;

/// Bars on one logarithmic axis, each divided by the shares of its parts, with a line from the fastest operation to the
/// 99th percentile and a dot at the median.
pub(super) fn ladder(plot: &Ladder) -> Option<Figure> {
    let rows: Vec<(&Rung, f64)> = plot
        .rows
        .iter()
        .filter_map(|row| Some((row, logarithm(row.ns)?)))
        .collect();
    let marks = |row: &Rung| [row.min_ns, row.p50_ns, row.p99_ns].map(|ns| ns.and_then(logarithm));
    let logs = rows
        .iter()
        .flat_map(|(row, log)| marks(row).into_iter().flatten().chain([*log]));
    let (ticks, ends) = axis(range(logs)?);
    let names = rows.iter().map(|(row, _)| row.label.as_str());
    let mut chart = Chart::new(names, ends, ticks.into_iter().map(Tick::time));
    for (place, (row, log)) in rows.iter().enumerate() {
        let y = chart.y(place);
        // A bar of the lowest time would have no length.
        let width = (chart.x(*log) - chart.left).max(3.0);
        chart.push(&bar(row, chart.left, y, width));
        let [min, p50, p99] = marks(row);
        if let (Some(min), Some(p99)) = (min, p99) {
            chart.line("whisker", place, (min, p99));
        }
        if let Some(p50) = p50 {
            chart.push(&format!(
                "<circle class=\"median\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n",
                chart.x(p50)
            ));
        }
    }
    Some(chart.figure(&plot.caption, plot.key.clone()))
}

/// A bar, divided by the shares of its parts.
fn bar(row: &Rung, left: f64, y: f64, width: f64) -> String {
    let title = escaped(&row.title);
    let rect = |x: f64, width: f64, colour: usize| {
        format!(
            "<rect class=\"part k{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BAR}\"><title>{title}</title></rect>\n",
            colour % COLOURS,
            y - BAR / 2.0
        )
    };
    let mut at = left;
    let mut bars = String::new();
    for (colour, share) in &row.parts {
        let part = (share.clamp(0.0, 1.0) * width).min(left + width - at);
        if part > 0.0 {
            bars.push_str(&rect(at, part, *colour));
            at += part;
        }
    }
    bars
}
