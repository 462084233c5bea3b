//! Plots of one row per figure on a logarithmic axis: ratios around 1, and times.

use loadline_measure::words;

use super::{Anchor, COLOURS, Figure, LETTER, Labels, RIGHT, TOP, WIDTH, label, log_ticks, svg};
use crate::clean::{columns, escaped, shortened};
use crate::document::{Ratios, Times, Unit};

/// The height of a row.
pub(super) const ROW: f64 = 24.0;
/// Labels are cut beyond this.
pub(super) const MOST_LABEL: usize = 24;
/// Larger logarithms are not measured and would break the axis.
pub(super) const MOST_LOG: f64 = 15.0;

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

/// A line across the picture and its label.
struct Tick {
    log: f64,
    text: String,
    class: &'static str,
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
    let (low, high) = range(&rows)?;
    let (low, high) = (low.min(0.8_f64.log10()), high.max(1.25_f64.log10()));
    let pad = (high - low) * 0.06;
    let ends = (low - pad, high + pad);
    let ticks = ratio_ticks(ends.0, ends.1).into_iter().map(|tick| Tick {
        log: tick.log10(),
        text: words::ratio(tick),
        class: if tick == 1.0 { "one" } else { "grid" },
    });
    Some(draw(&plot.caption, &rows, ends, ticks))
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
    let (low, high) = range(&rows)?;
    let logs = log_ticks(low, high);
    let ends = (logs[0].min(low), logs[logs.len() - 1].max(high));
    let ticks = logs.into_iter().map(|log| Tick {
        log,
        text: label(Unit::Time, 10_f64.powf(log).round()),
        class: "grid",
    });
    Some(Figure {
        key: plot.key.clone(),
        ..draw(&plot.caption, &rows, ends, ticks)
    })
}

/// The ends of all rows; `None` without any.
fn range(rows: &[Row<'_>]) -> Option<(f64, f64)> {
    let low = rows.iter().map(|row| row.lo).reduce(f64::min)?;
    let high = rows.iter().map(|row| row.hi).reduce(f64::max)?;
    Some((low, high))
}

/// The rows from the top down, on an axis with these ends.
fn draw(
    caption: &str,
    rows: &[Row<'_>],
    (low, high): (f64, f64),
    ticks: impl Iterator<Item = Tick>,
) -> Figure {
    let names: Vec<_> = rows
        .iter()
        .map(|row| shortened(row.label, MOST_LABEL))
        .collect();
    let longest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
    let left = longest as f64 * LETTER + 14.0;
    let foot = TOP + ROW * rows.len() as f64;
    let x = |log: f64| left + (log - low) / (high - low) * (WIDTH - left - RIGHT);
    let mut labels = Labels::default();
    let mut body = String::new();
    for tick in ticks {
        let at = x(tick.log);
        if labels.place((at, foot + 16.0), Anchor::Middle, &tick.text) {
            body.push_str(&format!(
                "<line class=\"{}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{foot:.1}\"/>\n",
                tick.class
            ));
        }
    }
    for (place, (row, name)) in rows.iter().zip(&names).enumerate() {
        let (y, colour) = (TOP + ROW * (place as f64 + 0.5), row.colour % COLOURS);
        labels.place((left - 8.0, y + 4.0), Anchor::End, name);
        body.push_str(&format!(
            "<line class=\"line k{colour}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
             <circle class=\"k{colour}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}</title></circle>\n",
            x(row.lo),
            x(row.hi),
            x(row.at),
            escaped(row.title)
        ));
    }
    body.push_str(&labels.svg);
    Figure {
        caption: caption.to_owned(),
        key: Vec::new(),
        svg: svg(caption, foot + 24.0, &body),
    }
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
