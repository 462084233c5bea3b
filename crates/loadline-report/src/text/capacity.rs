//! The throughput-latency curve as a picture and as a table.

use loadline_measure::capacity::{Answer, Point};

use super::page::{Page, Style};
use crate::capacity;
use crate::clean::shortened;
use loadline_measure::words;

/// Lines of the picture.
const HEIGHT: usize = 13;
/// Every so many of them have a label.
const LABELLED: usize = 4;
/// Columns of the labels on the left, with the axis.
const LABELS: usize = 15;
/// The picture is no wider than this, and with less it shows nothing.
const WIDTH: (usize, usize) = (30, 100);
/// Columns of each cell of the table, without the blank before it.
const CELLS: [usize; 8] = [7, 8, 8, 8, 8, 6, 5, 5];
/// A page of so many columns holds all cells; of others, answered, gen. and held are left out.
const WIDE: usize = 77;
const LEFT_OUT: [usize; 3] = [1, 6, 7];

/// What stands for the three percentiles, the limit and the vertical marks: in block characters and
/// in ASCII.
struct Signs {
    points: [char; 3],
    limit: char,
    rule: char,
    corner: char,
    axis: char,
}

const UNICODE: Signs = Signs {
    points: ['·', '●', '○'],
    limit: '┄',
    rule: '│',
    corner: '└',
    axis: '─',
};
const ASCII: Signs = Signs {
    points: ['.', '*', 'o'],
    limit: '-',
    rule: '|',
    corner: '+',
    axis: '-',
};

/// Draws the curve, then its table.
pub(super) fn draw(page: &mut Page, answer: &Answer, unicode: bool) {
    if answer.curve.is_empty() {
        return;
    }
    let signs = if unicode { &UNICODE } else { &ASCII };
    picture(page, answer, signs);
    table(page, answer);
}

/// Where rates and times stand in the picture.
struct Frame {
    width: usize,
    most: f64,
    low: f64,
    high: f64,
}

impl Frame {
    /// `None` where no percentile has its samples.
    fn of(answer: &Answer, columns: usize) -> Option<Self> {
        let metrics = capacity::percentiles(answer);
        let times = || {
            let points = answer.curve.iter();
            points
                .flat_map(|point| metrics.map(|metric| capacity::percentile(answer, point, metric)))
                .flatten()
                .filter(|ns| *ns > 0.0)
        };
        let low = times().reduce(f64::min)?.min(answer.slo.limit_ns);
        let high = times().reduce(f64::max)?.max(answer.slo.limit_ns);
        Some(Self {
            width: columns.saturating_sub(LABELS).clamp(WIDTH.0, WIDTH.1),
            most: answer
                .curve
                .iter()
                .map(|point| point.rate)
                .fold(0.0, f64::max),
            low: low.log10(),
            // All times may be one.
            high: high.log10().max(low.log10() + 0.1),
        })
    }

    fn column(&self, rate: f64) -> usize {
        ((rate / self.most * (self.width - 1) as f64).round() as usize).min(self.width - 1)
    }

    /// From the top.
    fn line(&self, ns: f64) -> usize {
        let share = (self.high - ns.log10()) / (self.high - self.low);
        ((share * (HEIGHT - 1) as f64).round() as usize).min(HEIGHT - 1)
    }

    /// The time that a line stands for, in nanoseconds.
    fn time(&self, line: usize) -> f64 {
        10_f64.powf(self.high - (self.high - self.low) * line as f64 / (HEIGHT - 1) as f64)
    }
}

fn picture(page: &mut Page, answer: &Answer, signs: &Signs) {
    let Some(frame) = Frame::of(answer, page.width()) else {
        return;
    };
    let mut grid = vec![vec![' '; frame.width]; HEIGHT];
    let limit = frame.line(answer.slo.limit_ns);
    grid[limit].fill(signs.limit);
    let metrics = capacity::percentiles(answer);
    // The percentile of the limit is drawn last, so that it is seen where several fall together.
    let mut order: Vec<usize> = (0..metrics.len()).collect();
    order.sort_by_key(|of| metrics[*of] == answer.slo.metric);
    for of in order {
        for point in &answer.curve {
            if let Some(ns) =
                capacity::percentile(answer, point, metrics[of]).filter(|ns| *ns > 0.0)
            {
                grid[frame.line(ns)][frame.column(point.rate)] = signs.points[of];
            }
        }
    }
    page.gap();
    let key: Vec<String> = metrics
        .iter()
        .zip(signs.points)
        .map(|(metric, sign)| format!("{sign} {}", metric.name()))
        .collect();
    page.wrapped(
        Style::Bold,
        "",
        "  ",
        &format!("Response time on a log scale by rate: {}", key.join("  ")),
    );
    for (line, cells) in grid.iter().enumerate() {
        let label = match line {
            line if line == limit => {
                format!("limit {}", words::span_or_duration(answer.slo.limit_ns))
            }
            line if line % LABELLED == 0 && line.abs_diff(limit) > 1 => {
                words::duration(frame.time(line))
            }
            _ => String::new(),
        };
        let cells: String = cells.iter().collect();
        let style = if line == limit {
            Style::Yellow
        } else {
            Style::Plain
        };
        page.line(style, &format!("{label:>13} {}{cells}", signs.rule));
    }
    let axis = String::from(signs.axis).repeat(frame.width);
    page.line(Style::Plain, &format!("{:>14}{}{axis}", "", signs.corner));
    marks(page, answer, &frame);
}

/// Below the axis: its ends, and where knee and answer are.
fn marks(page: &mut Page, answer: &Answer, frame: &Frame) {
    let named = |name: &str, rate: Option<f64>| {
        rate.map(|rate| {
            (
                frame.column(rate),
                format!("^ {name} {}", words::count(rate)),
            )
        })
    };
    let ends = format!(
        "{:LABELS$}0{:>width$}",
        "",
        format!("{} operations per second", words::count(frame.most)),
        width = frame.width - 1
    );
    let both = answer.knee.is_some() && answer.knee == answer.rate;
    let marks = if both {
        vec![named("knee and answer", answer.rate)]
    } else {
        vec![named("knee", answer.knee), named("answer", answer.rate)]
    };
    for (column, text) in marks.into_iter().flatten() {
        // A text that would leave the page stands to the left of its mark.
        let line = if column + text.len() <= frame.width {
            format!("{:start$}{text}", "", start = LABELS + column)
        } else {
            let turned = format!("{} ^", text.trim_start_matches("^ "));
            format!("{turned:>end$}", end = LABELS + column + 1)
        };
        page.line(Style::Plain, &line);
    }
    page.line(Style::Dim, &ends);
}

fn table(page: &mut Page, answer: &Answer) {
    page.gap();
    let wide = page.width() >= WIDE;
    let width = page.width();
    let line =
        |cells: &[String; 8], marks: &str| shortened(&row(cells, marks, wide), width).into_owned();
    page.line(Style::Dim, &line(&capacity::header(answer), ""));
    for point in &answer.curve {
        let marks = capacity::marks(answer, point);
        let cells = capacity::cells(answer, point);
        page.line(style_of(answer, point), &line(&cells, &marks));
    }
}

fn style_of(answer: &Answer, point: &Point) -> Style {
    if answer.rate == Some(point.rate) {
        Style::Green
    } else if point.held {
        Style::Plain
    } else {
        Style::Yellow
    }
}

/// What is left out of a narrow page stands in the other forms.
fn row(cells: &[String; 8], marks: &str, wide: bool) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(CELLS).enumerate() {
        if wide || !LEFT_OUT.contains(&column) {
            line.push_str(&format!(" {cell:>width$}"));
        }
    }
    format!("{line}  {marks}")
}
