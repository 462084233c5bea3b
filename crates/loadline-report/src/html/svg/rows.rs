//! Plots of one row per figure on a logarithmic axis: ratios around 1, and times.

use loadline_measure::words;

use super::chart::{Chart, MOST_LOG, Tick, axis, range};
use super::{COLOURS, Figure};
use crate::clean::escaped;
use crate::document::{Ratios, Times};

/// A figure with its range, as logarithms.
struct Row<'p> {
    label: &'p str,
    title: &'p str,
    colour: usize,
    at: f64,
    lo: f64,
    hi: f64,
}

impl Row<'_> {
    /// Whether an axis can hold it, where logarithms are at most `most` away from zero.
    fn fits(&self, most: f64) -> bool {
        [self.at, self.lo, self.hi]
            .iter()
            .all(|log| log.abs() < most)
    }
}

/// Ratios with their intervals.
pub(super) fn ratios(plot: &Ratios) -> Option<Figure> {
    let rows = plot.rows.iter().map(|row| Row {
        label: &row.label,
        title: &row.title,
        colour: row.colour,
        at: row.ratio.log10(),
        lo: row.lo.log10(),
        hi: row.hi.log10(),
    });
    let rows: Vec<Row<'_>> = rows.filter(|row| row.fits(6.0)).collect();
    let (low, high) = ends(&rows)?;
    let (low, high) = (low.min(0.8_f64.log10()), high.max(1.25_f64.log10()));
    let pad = (high - low) * 0.06;
    let (low, high) = (low - pad, high + pad);
    let ticks = ratio_ticks(low, high).into_iter().map(|tick| Tick {
        log: tick.log10(),
        text: words::ratio(tick),
        class: if tick == 1.0 { "one" } else { "grid" },
    });
    Some(draw(&plot.caption, &[], &rows, (low, high), ticks))
}

/// Times with their ranges.
pub(super) fn times(plot: &Times) -> Option<Figure> {
    let rows = plot.rows.iter().map(|row| Row {
        label: &row.label,
        title: &row.title,
        colour: row.colour,
        at: row.ns.log10(),
        lo: row.lo_ns.log10(),
        hi: row.hi_ns.log10(),
    });
    let rows: Vec<Row<'_>> = rows.filter(|row| row.fits(MOST_LOG)).collect();
    let (logs, ends) = axis(ends(&rows)?);
    let ticks = logs.into_iter().map(Tick::time);
    Some(draw(&plot.caption, &plot.key, &rows, ends, ticks))
}

/// The ends of all rows; `None` without any.
fn ends(rows: &[Row<'_>]) -> Option<(f64, f64)> {
    range(rows.iter().flat_map(|row| [row.lo, row.hi]))
}

/// The rows from the top down, on an axis with these ends.
fn draw(
    caption: &str,
    key: &[(usize, String)],
    rows: &[Row<'_>],
    ends: (f64, f64),
    ticks: impl Iterator<Item = Tick>,
) -> Figure {
    let mut chart = Chart::new(rows.iter().map(|row| row.label), ends, ticks);
    for (place, row) in rows.iter().enumerate() {
        let colour = row.colour % COLOURS;
        chart.line(&format!("line k{colour}"), place, (row.lo, row.hi));
        chart.push(&format!(
            "<circle class=\"k{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>\n",
            chart.x(row.at),
            chart.y(place),
            escaped(row.title)
        ));
    }
    chart.figure(caption, key.to_vec())
}

/// Ratios worth a tick within the range of logarithms, at least an eighth of it apart; 1 is always
/// one of them. The roundest are chosen first.
fn ratio_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (1..=5).flat_map(|decade| [10_f64.powi(decade), 10_f64.powi(-decade)]);
    let rounder = [1.0].into_iter().chain(decades);
    let all = rounder.chain([2.0, 0.5, 5.0, 0.2, 1.5, 0.67, 1.25, 0.8, 1.1, 0.9]);
    let mut chosen: Vec<f64> = Vec::new();
    for tick in all {
        let apart = |other: &f64| (tick.log10() - other.log10()).abs() >= (high - low) / 8.0;
        if (low..=high).contains(&tick.log10()) && chosen.iter().all(apart) {
            chosen.push(tick);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_ticks_apart_and_one_at_1() {
        for (lo, hi) in [
            (0.8_f64, 1.25_f64),
            (0.59, 1.53),
            (0.12, 6.2),
            (1e-5, 1e5),
            (0.99, 300.0),
        ] {
            let mut ticks = ratio_ticks(lo.log10(), hi.log10());
            assert!((3..=9).contains(&ticks.len()), "{lo} {hi}: {ticks:?}");
            assert!(ticks.contains(&1.0), "{lo} {hi}: {ticks:?}");
            ticks.sort_by(f64::total_cmp);
            let span = (hi / lo).log10();
            let apart = |pair: &[f64]| (pair[1] / pair[0]).log10() >= span / 8.1;
            assert!(ticks.windows(2).all(apart), "{ticks:?}");
        }
    }
}
