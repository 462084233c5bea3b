//! Rows from the top down beside one logarithmic axis: the frame of ratios, times and ladders.

use super::{Anchor, Figure, LETTER, Labels, RIGHT, TOP, WIDTH, label, log_ticks, svg};
use crate::clean::{columns, shortened};
use crate::document::Unit;

/// The height of a row.
const ROW: f64 = 24.0;
/// Labels are cut beyond this.
const MOST_LABEL: usize = 24;
/// Larger logarithms are not measured and would break the axis.
pub(super) const MOST_LOG: f64 = 15.0;

/// A line across the picture and its label.
pub(super) struct Tick {
    pub(super) log: f64,
    pub(super) text: String,
    pub(super) class: &'static str,
}

impl Tick {
    /// A tick of an axis of times.
    pub(super) fn time(log: f64) -> Self {
        Self {
            log,
            text: label(Unit::Time, 10_f64.powf(log).round()),
            class: "grid",
        }
    }
}

/// A picture of rows, with its axis and the names of its rows.
pub(super) struct Chart {
    /// The left end of the axis.
    pub(super) left: f64,
    foot: f64,
    /// The logarithms at the ends of the axis.
    low: f64,
    high: f64,
    labels: Labels,
    body: String,
}

impl Chart {
    pub(super) fn new<'n>(
        names: impl Iterator<Item = &'n str>,
        (low, high): (f64, f64),
        ticks: impl Iterator<Item = Tick>,
    ) -> Self {
        let names: Vec<_> = names.map(|name| shortened(name, MOST_LABEL)).collect();
        let longest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let mut chart = Self {
            left: longest as f64 * LETTER + 14.0,
            foot: TOP + ROW * names.len() as f64,
            low,
            high,
            labels: Labels::default(),
            body: String::new(),
        };
        for tick in ticks {
            chart.tick(&tick);
        }
        for (row, name) in names.iter().enumerate() {
            let place = (chart.left - 8.0, chart.y(row) + 4.0);
            chart.labels.place(place, Anchor::End, name);
        }
        chart
    }

    fn tick(&mut self, tick: &Tick) {
        let (x, foot) = (self.x(tick.log), self.foot);
        if self
            .labels
            .place((x, foot + 16.0), Anchor::Middle, &tick.text)
        {
            self.push(&format!(
                "<line class=\"{}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{foot:.1}\"/>\n",
                tick.class
            ));
        }
    }

    /// The place of a logarithm on the axis.
    pub(super) fn x(&self, log: f64) -> f64 {
        self.left + (log - self.low) / (self.high - self.low) * (WIDTH - self.left - RIGHT)
    }

    /// The middle of a row.
    pub(super) fn y(&self, row: usize) -> f64 {
        TOP + ROW * (row as f64 + 0.5)
    }

    /// A line of a row, from one logarithm to another.
    pub(super) fn line(&mut self, class: &str, row: usize, (from, to): (f64, f64)) {
        let (from, to, y) = (self.x(from), self.x(to), self.y(row));
        self.push(&format!(
            "<line class=\"{class}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n"
        ));
    }

    pub(super) fn push(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    pub(super) fn figure(mut self, caption: &str, key: Vec<(usize, String)>) -> Figure {
        self.body.push_str(&self.labels.svg);
        Figure {
            caption: caption.to_owned(),
            key,
            dashed: Vec::new(),
            markers: Vec::new(),
            svg: svg(caption, self.foot + 24.0, &self.body),
        }
    }
}

/// A logarithm, if an axis can hold it.
pub(super) fn logarithm(value: f64) -> Option<f64> {
    let log = value.log10();
    (log.abs() < MOST_LOG).then_some(log)
}

/// The smallest and the largest of the values; `None` without any.
pub(super) fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    Some((values.clone().reduce(f64::min)?, values.reduce(f64::max)?))
}

/// The ticks of an axis around a range of logarithms, and the ends of the axis.
pub(super) fn axis((low, high): (f64, f64)) -> (Vec<f64>, (f64, f64)) {
    let ticks = log_ticks(low, high);
    let (first, last) = (ticks[0].min(low), ticks[ticks.len() - 1].max(high));
    (
        ticks,
        (first, if last > first { last } else { first + 1.0 }),
    )
}
