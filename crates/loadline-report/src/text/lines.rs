//! A plot of points out of characters: time on a logarithmic scale, upwards.

use loadline_measure::words;

use super::page::{Page, Style};
use crate::clean::{columns, plain};
use crate::document::{Lines, Mark, Series};

/// Lines of the picture.
const HEIGHT: usize = 13;
/// Every line that this divides has a label.
const LABELLED: usize = 4;
/// Columns of the labels on the left, with the axis.
const LABELS: usize = 15;
/// The narrowest picture that shows anything, and the widest.
const WIDTH: (usize, usize) = (30, 100);

/// Characters for series, levels and axes: block characters or ASCII.
struct Signs {
    points: [char; 3],
    level: char,
    rule: char,
    corner: char,
    axis: char,
}

const UNICODE: Signs = Signs {
    points: ['·', '●', '○'],
    level: '┄',
    rule: '│',
    corner: '└',
    axis: '─',
};
const ASCII: Signs = Signs {
    points: ['.', '*', 'o'],
    level: '-',
    rule: '|',
    corner: '+',
    axis: '-',
};

/// Mapping of values to the picture.
struct Frame {
    width: usize,
    most: f64,
    low: f64,
    high: f64,
}

impl Frame {
    /// `None` without a point.
    fn of(plot: &Lines, page: usize) -> Option<Self> {
        let points = || {
            let points = plot.series.iter().flat_map(|line| &line.points);
            points
                .copied()
                .filter(|point| point.1 > 0.0 && point.1.is_finite())
        };
        let levels = || plot.marks.iter().filter(|mark| mark.is_level);
        let ends = |of: fn(f64, f64) -> f64| {
            let end = points().map(|point| point.1).reduce(of)?;
            Some(levels().map(|mark| mark.at).fold(end, of))
        };
        let (low, high) = (ends(f64::min)?.log10(), ends(f64::max)?.log10());
        Some(Self {
            width: page.saturating_sub(LABELS).clamp(WIDTH.0, WIDTH.1),
            most: points().map(|point| point.0).fold(0.0, f64::max),
            low,
            // All times may be one.
            high: high.max(low + 0.1),
        })
    }

    fn column(&self, x: f64) -> usize {
        ((x / self.most * (self.width - 1) as f64).round() as usize).min(self.width - 1)
    }

    /// From the top.
    fn line(&self, ns: f64) -> usize {
        let share = (self.high - ns.log10()) / (self.high - self.low);
        ((share * (HEIGHT - 1) as f64).round() as usize).min(HEIGHT - 1)
    }

    /// The time that a line is at, in nanoseconds.
    fn time(&self, line: usize) -> f64 {
        10_f64.powf(self.high - (self.high - self.low) * line as f64 / (HEIGHT - 1) as f64)
    }
}

pub(super) fn draw(page: &mut Page, plot: &Lines, unicode: bool) {
    let Some(frame) = Frame::of(plot, page.width()) else {
        return;
    };
    let signs = if unicode { &UNICODE } else { &ASCII };
    let mut grid = vec![vec![' '; frame.width]; HEIGHT];
    let level = plot.marks.iter().find(|mark| mark.is_level);
    let level = level.map(|mark| (frame.line(mark.at), mark));
    if let Some((line, _)) = level {
        grid[line].fill(signs.level);
    }
    let sign = |series: &Series| signs.points[series.colour % signs.points.len()];
    for series in &plot.series {
        for (x, y) in series.points.iter().filter(|point| point.1 > 0.0) {
            grid[frame.line(*y)][frame.column(*x)] = sign(series);
        }
    }
    let mut key: Vec<&Series> = plot.series.iter().collect();
    key.sort_by_key(|series| series.colour);
    let key = key.into_iter();
    let key: Vec<String> = key
        .map(|line| format!("{} {}", sign(line), line.label))
        .collect();
    let heading = format!("{}: {}", plot.caption, key.join("  "));
    page.wrapped(Style::Plain, "", "  ", &plain(&heading));
    for (line, cells) in grid.iter().enumerate() {
        let (label, style) = match level {
            Some((at, mark)) if at == line => (mark.label.clone(), Style::Yellow),
            Some((at, _)) if at.abs_diff(line) == 1 => (String::new(), Style::Plain),
            _ if line % LABELLED == 0 => (words::duration(frame.time(line)), Style::Plain),
            _ => (String::new(), Style::Plain),
        };
        let cells: String = cells.iter().collect();
        page.line(
            style,
            &format!("{:>13} {}{cells}", plain(&label), signs.rule),
        );
    }
    let axis = String::from(signs.axis).repeat(frame.width);
    page.line(Style::Plain, &format!("{:>14}{}{axis}", "", signs.corner));
    plot.marks
        .iter()
        .filter(|mark| !mark.is_level)
        .for_each(|mark| below(page, &frame, mark));
    let end = format!("{} {}", words::count(frame.most), plot.x.name);
    let ends = format!("{:LABELS$}0{end:>width$}", "", width = frame.width - 1);
    page.line(Style::Dim, &ends);
    page.gap();
}

/// A mark of the horizontal axis.
fn below(page: &mut Page, frame: &Frame, mark: &Mark) {
    let text = plain(&mark.label);
    let line = pointed(LABELS, frame.column(mark.at), LABELS + frame.width, &text);
    page.line(Style::Plain, &line);
}

/// A text that points up at a column, counted from `left` on. It is to the left of the column if it would leave the page.
pub(super) fn pointed(left: usize, column: usize, width: usize, text: &str) -> String {
    let at = left + column;
    if at + columns(text) + 2 <= width {
        format!("{:at$}^ {text}", "")
    } else {
        format!("{:>end$}", format!("{text} ^"), end = at + 1)
    }
}
