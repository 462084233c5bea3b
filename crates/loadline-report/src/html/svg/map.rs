//! The map of where a tier pays.

use loadline_measure::words;

use super::chart::{axis, logarithm, range};
use super::{
    Anchor, BOTTOM, COLOURS, Figure, Frame, LEFT, LINE, Labels, RIGHT, TOP, WIDTH, label, svg,
};
use crate::clean::escaped;
use crate::document::{DecisionMap, MapPoint, Unit};

/// The height of the plane.
const PLANE: f64 = 240.0;
/// The height of all whiskers of the map together.
const WHISKERS: f64 = 24.0;

/// The cost to recompute against the cost to read: a tier pays at a hit ratio if it lies above the line of that ratio.
///
/// Both axes have the same ends, so that every line ends at the upper edge, with its label in a row above the plane. The names
/// of the points are in the key, since they would cover lines.
pub(super) fn map(plot: &DecisionMap) -> Option<Figure> {
    let recompute = logarithm(plot.recompute_ns)?;
    let mut points: Vec<Placed<'_>> = plot
        .points
        .iter()
        .filter_map(|point| {
            Some(Placed {
                point,
                at: logarithm(point.get_ns)?,
                tail: point.p99_ns.and_then(logarithm),
            })
        })
        .collect();
    points.sort_by(|one, other| one.at.total_cmp(&other.at));
    let logs = points
        .iter()
        .flat_map(|one| one.tail.into_iter().chain([one.at]));
    let (low, high) = range(logs)?;
    let around = [recompute - 0.3, recompute + 0.3, low, high];
    let (ticks, ends) = axis(range(around.into_iter())?);
    let ticks: Vec<(f64, String)> = ticks
        .iter()
        .map(|log| (*log, label(Unit::Time, 10_f64.powf(*log).round())))
        .collect();
    let lines = break_evens(&plot.ratios, ends);
    let top = TOP + LINE * lines.len() as f64;
    let frame = Frame {
        x: ends,
        y: ends,
        top,
        height: top + PLANE + BOTTOM,
    };
    let mut labels = Labels::default();
    let mut body = frame.levels(&mut labels, &ticks);
    frame.below(&mut labels, &ticks, "time of a hit");
    for (row, line) in lines.iter().enumerate() {
        body.push_str(&line.draw(&frame, &mut labels, TOP + LINE * row as f64));
    }
    let y = frame.y(recompute);
    body.push_str(&format!(
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n",
        WIDTH - RIGHT
    ));
    body.push_str(&whiskers(&points, &frame, y));
    for one in &points {
        let title = format!("<title>{}</title>", escaped(&one.point.title));
        body.push_str(&marker(one.point.colour, (frame.x(one.at), y), &title));
    }
    body.push_str(&labels.svg);
    Some(Figure {
        caption: plot.caption.clone(),
        key: Vec::new(),
        dashed: Vec::new(),
        markers: points
            .iter()
            .map(|one| (one.point.colour, one.point.label.clone()))
            .collect(),
        svg: svg(&plot.caption, frame.height, &body),
    })
}

/// A point with its logarithm on the horizontal axis.
struct Placed<'p> {
    point: &'p MapPoint,
    at: f64,
    /// The end of its whisker.
    tail: Option<f64>,
}

/// The line on which a tier breaks even at a hit ratio: all points whose vertical logarithm is larger by `offset`.
struct BreakEven {
    ratio: f64,
    offset: f64,
}

/// The lines of ratios that an axis with these ends can hold, the rightmost first.
fn break_evens(ratios: &[f64], (low, high): (f64, f64)) -> Vec<BreakEven> {
    let ratios = ratios.iter().copied();
    let mut lines: Vec<BreakEven> = ratios
        .filter(|ratio| (0.01..=1.0).contains(ratio))
        // A line of a hit ratio h is G = g (2 / h - 1): h G = g + (1 - h) g, where a write takes as long as a read.
        .map(|ratio| BreakEven {
            ratio,
            offset: (2.0 / ratio - 1.0).log10(),
        })
        .filter(|line| low + line.offset < high)
        .collect();
    lines.sort_by(|one, other| one.offset.total_cmp(&other.offset));
    lines
}

impl BreakEven {
    /// The line from edge to edge of the plane, and on to its label in the row that begins at `row`.
    fn draw(&self, frame: &Frame, labels: &mut Labels, row: f64) -> String {
        let (low, high) = frame.x;
        let text = words::percent(self.ratio);
        let (x, end) = (frame.x(high - self.offset), row + LINE / 2.0);
        labels.place((x - 3.0, end + 4.0), Anchor::End, &text);
        format!(
            "<polyline class=\"one\" points=\"{:.1},{:.1} {x:.1},{:.1} {x:.1},{end:.1}\"><title>break-even at a hit ratio of {text}</title></polyline>\n",
            frame.x(low),
            frame.y(low + self.offset),
            frame.y(high),
        )
    }
}

/// Lines to the 99th percentiles, one below the other, because all points have the same height.
fn whiskers(points: &[Placed<'_>], frame: &Frame, y: f64) -> String {
    let count = points.len().max(2) as f64;
    let step = (WHISKERS / (count - 1.0)).min(3.0);
    let lines = points.iter().enumerate().filter_map(|(place, one)| {
        let at = y + (place as f64 - (count - 1.0) / 2.0) * step;
        let (x, tail) = (frame.x(one.at), frame.x(one.tail?));
        Some(format!(
            "<polyline class=\"line k{}\" points=\"{x:.1},{y:.1} {x:.1},{at:.1} {tail:.1},{at:.1}\"/>\n",
            one.point.colour % COLOURS
        ))
    });
    lines.collect()
}

/// The marker of a point for the key.
pub(in crate::html) fn sample(place: usize) -> String {
    let marker = marker(place, (0.0, 0.0), "");
    format!("<svg viewBox=\"-6 -6 12 12\" aria-hidden=\"true\">{marker}</svg>")
}

/// A point: as many shapes as colours, shifted against each other once the colours repeat.
fn marker(place: usize, (x, y): (f64, f64), title: &str) -> String {
    let shape = match (place + place / COLOURS) % COLOURS {
        0 => format!("M{:.1},{y:.1}a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", x - 4.0),
        1 => format!("M{:.1},{:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{:.1},{:.1}h9l-4.5,-8z", x - 4.5, y + 3.5),
        3 => format!("M{x:.1},{:.1}l5,5l-5,5l-5,-5z", y - 5.0),
        4 => format!("M{:.1},{:.1}h9l-4.5,8z", x - 4.5, y - 3.5),
        _ => format!("M{:.1},{:.1}h3v3h3v3h-3v3h-3v-3h-3v-3h3z", x - 1.5, y - 4.5),
    };
    format!(
        "<path class=\"k{}\" d=\"{shape}\">{title}</path>\n",
        place % COLOURS
    )
}
