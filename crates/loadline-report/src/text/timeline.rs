//! The course of a load out of characters: a line for each strip, with a column for each interval.

use loadline_measure::words;

use super::page::{Page, Style};
use crate::clean::{columns, plain, shortened};
use crate::document::{Panel, Scale, Strip, Timeline, Unit};
use crate::picture;

/// Columns of the names on the left, and of the ranges on the right.
const NAMES: usize = 13;
const RANGES: usize = 18;

pub(super) fn draw(page: &mut Page, plot: &Timeline, unicode: bool) {
    let strips = || plot.panels.iter().flat_map(|panel| &panel.strips);
    let Some(count) = strips()
        .map(|strip| strip.values.len())
        .max()
        .filter(|count| *count > 0)
    else {
        return;
    };
    let room = page.width().saturating_sub(NAMES + RANGES + 2).max(10);
    // Several intervals share a column where there is not enough room.
    let together = count.div_ceil(room);
    let width = count.div_ceil(together);
    let column = words::duration(plot.interval_ns * together as f64);
    let heading = format!("{} ({column} per column)", plot.caption);
    page.wrapped(Style::Plain, "", "  ", &plain(&heading));
    for panel in &plot.panels {
        for strip in &panel.strips {
            let values: Vec<Option<f64>> = strip
                .values
                .chunks(together)
                .map(|some| some.iter().copied().flatten().reduce(f64::max))
                .collect();
            let (shares, range) = heights(panel, strip, &values);
            let name = plain(&shortened(&strip.label, NAMES)).into_owned();
            let pad = " ".repeat(NAMES.saturating_sub(columns(&name)));
            let bars = picture::bars(&shares, unicode);
            let rest = " ".repeat(width.saturating_sub(columns(&bars)));
            page.line(Style::Plain, &format!("{name}{pad} {bars}{rest} {range}"));
        }
    }
    for mark in &plot.marks {
        let at = (mark.at / (plot.interval_ns * together as f64)) as usize;
        let at = at.min(width.saturating_sub(1));
        let text = plain(&mark.label);
        page.line(
            Style::Dim,
            &super::lines::pointed(NAMES + 1, at, page.width(), &text),
        );
    }
    page.gap();
}

/// The height of each column as a share of the highest, and the range of the values in words.
fn heights(panel: &Panel, strip: &Strip, values: &[Option<f64>]) -> (Vec<Option<f64>>, String) {
    let known = || {
        strip
            .values
            .iter()
            .copied()
            .flatten()
            .filter(|value| value.is_finite())
    };
    let most = known().fold(0.0, f64::max);
    let word = |value: f64| match panel.axis.unit {
        Unit::Time => words::duration(value),
        Unit::Count => words::count(value),
    };
    if panel.axis.scale == Scale::Linear {
        let share = |value: f64| (value > 0.0).then_some(value / most);
        let shares = values.iter().map(|value| value.and_then(share));
        return (shares.collect(), format!("up to {}", word(most)));
    }
    let least = known().filter(|value| *value > 0.0).fold(most, f64::min);
    let span = (most / least).ln().max(f64::MIN_POSITIVE);
    let share = |value: f64| (value / least).ln() / span;
    let shares = values.iter().map(|value| value.map(share));
    (
        shares.collect(),
        format!("{} to {}", word(least), word(most)),
    )
}
