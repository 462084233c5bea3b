//! The map of where a tier pays.

use loadline_measure::words;

use super::chart::{MOST_LABEL, axis, logarithm, range};
use super::{Anchor, COLOURS, Figure, Frame, LEFT, LETTER, LINE, Labels, TOP, WIDTH, label, svg};
use crate::clean::{columns, escaped, shortened};
use crate::document::{DecisionMap, MapPoint, Unit};

/// The height of the map: as many names as tiers stand above or below their points.
const HEIGHT: f64 = 330.0;
/// The height of all whiskers of the map together.
const WHISKERS: f64 = 24.0;

/// The cost to recompute against the cost to read: a tier pays at a hit ratio if it lies above the line of that ratio.
pub(super) fn map(plot: &DecisionMap) -> Option<Figure> {
    let recompute = logarithm(plot.recompute_ns)?;
    let points: Vec<_> = plot
        .points
        .iter()
        .filter_map(|point| Some((point, logarithm(point.get_ns)?)))
        .collect();
    let tails = || {
        points
            .iter()
            .filter_map(|(point, _)| logarithm(point.p99_ns?))
    };
    let logs = points.iter().map(|(_, log)| *log).chain(tails());
    let (x_ticks, x_ends) = axis(range(logs)?);
    // A line of a hit ratio h is G = g (2 / h - 1): h G = g + (1 - h) g, where a write takes as long as a read.
    let lines: Vec<(f64, f64)> = plot
        .ratios
        .iter()
        .filter(|ratio| (0.01..=1.0).contains(*ratio))
        .map(|ratio| (*ratio, (2.0 / ratio - 1.0).log10()))
        .collect();
    let around = [recompute - 0.3, recompute + 0.3, x_ends.0, x_ends.1];
    let (y_ticks, y_ends) = axis(range(around.into_iter())?);
    let frame = Frame {
        x: x_ends,
        y: y_ends,
        height: HEIGHT,
    };
    let named = |ticks: &[f64]| -> Vec<(f64, String)> {
        let inside = ticks
            .iter()
            .map(|log| (*log, label(Unit::Time, 10_f64.powf(*log).round())));
        inside.collect()
    };
    let mut labels = Labels::default();
    let mut body = frame.levels(&mut labels, &named(&y_ticks));
    frame.below(&mut labels, &named(&x_ticks), "time of a hit");
    for (ratio, offset) in &lines {
        body.push_str(&diagonal(&frame, &mut labels, *ratio, *offset));
    }
    let y = frame.y(recompute);
    let placed: Vec<Placed<'_>> = points
        .iter()
        .map(|(point, log)| Placed {
            point,
            x: frame.x(*log),
            tail: point.p99_ns.and_then(logarithm).map(|log| frame.x(log)),
        })
        .collect();
    body.push_str(&whiskers(&placed, y));
    let unnamed = callouts(&placed, (y, frame.foot()), &mut labels, &mut body);
    for one in &placed {
        body.push_str(&marker(one.point.colour, (one.x, y), &one.point.title));
    }
    body.push_str(&labels.svg);
    Some(Figure {
        caption: plot.caption.clone(),
        key: unnamed,
        dashed: Vec::new(),
        svg: svg(&plot.caption, HEIGHT, &body),
    })
}

/// A point with its place on the horizontal axis.
struct Placed<'p> {
    point: &'p MapPoint,
    x: f64,
    /// The end of its whisker.
    tail: Option<f64>,
}

/// Lines to the 99th percentiles, one below the other, because all points have the same height.
fn whiskers(points: &[Placed<'_>], y: f64) -> String {
    let count = points.len().max(2) as f64;
    let step = (WHISKERS / (count - 1.0)).min(3.0);
    let lines = points.iter().enumerate().filter_map(|(place, one)| {
        let at = y + (place as f64 - (count - 1.0) / 2.0) * step;
        let (x, tail) = (one.x, one.tail?);
        Some(format!(
            "<polyline class=\"line k{}\" points=\"{x:.1},{y:.1} {x:.1},{at:.1} {tail:.1},{at:.1}\"/>\n",
            one.point.colour % COLOURS
        ))
    });
    lines.collect()
}

/// Writes the names of points, each with a line to its point, and returns those without room.
///
/// The names that fit to the right of their points are on the side with more room, the leftmost point farthest away, so that
/// no line crosses a name. The others are on the opposite side, to the left of their points.
fn callouts(
    points: &[Placed<'_>],
    (y, foot): (f64, f64),
    labels: &mut Labels,
    body: &mut String,
) -> Vec<(usize, String)> {
    let mut order: Vec<&Placed<'_>> = points.iter().collect();
    order.sort_by(|one, other| one.x.total_cmp(&other.x));
    let name = |one: &Placed<'_>| shortened(&one.point.label, MOST_LABEL).into_owned();
    let fits = |one: &Placed<'_>| one.x + 5.0 + columns(&name(one)) as f64 * LETTER <= WIDTH;
    let (right, mut left): (Vec<&Placed<'_>>, Vec<&Placed<'_>>) =
        order.iter().copied().partition(|one| fits(one));
    left.reverse();
    let is_below_larger = foot - y > y - TOP;
    let mut left_out: Vec<&Placed<'_>> = Vec::new();
    for (group, anchor, is_below) in [
        (right, Anchor::Start, is_below_larger),
        (left, Anchor::End, !is_below_larger),
    ] {
        let (room, sign) = if is_below {
            (foot - y, 1.0)
        } else {
            (y - TOP, -1.0)
        };
        let clear = (WHISKERS + LINE) / 2.0;
        let gaps = group.len().saturating_sub(1).max(1);
        let step = ((room - clear - 4.0) / gaps as f64).min(1.6 * LINE);
        for (place, one) in group.iter().enumerate() {
            let distance = clear + step * (group.len() - 1 - place) as f64;
            let at = y + sign * distance;
            let x = match anchor {
                Anchor::End => one.x - 3.0,
                _ => one.x + 3.0,
            };
            if labels.place((x, at + 4.0), anchor, &name(one)) {
                body.push_str(&leader(one, y, at));
            } else {
                left_out.push(*one);
            }
        }
    }
    // Any place that is free, also if its line crosses others.
    let rows = || (0..12).map(|row| (WHISKERS + LINE) / 2.0 + LINE * f64::from(row));
    left_out.retain(|one| {
        let places = rows().flat_map(|distance| [y + distance, y - distance]);
        let mut inside = places.filter(|at| (TOP + LINE..foot - 4.0).contains(at));
        let sides = [(one.x + 3.0, Anchor::Start), (one.x - 3.0, Anchor::End)];
        let found = inside.find(|at| {
            sides
                .iter()
                .any(|(x, anchor)| labels.place((*x, at + 4.0), *anchor, &name(one)))
        });
        body.push_str(&found.map_or_else(String::new, |at| leader(one, y, at)));
        found.is_none()
    });
    let unnamed = left_out.iter();
    unnamed
        .map(|one| (one.point.colour, one.point.label.clone()))
        .collect()
}

/// The line from a point to its name.
fn leader(one: &Placed<'_>, y: f64, at: f64) -> String {
    format!(
        "<line class=\"k{}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{:.1}\"/>\n",
        one.point.colour % COLOURS,
        one.x,
        one.x,
        at + 4.0
    )
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
        "<path class=\"k{}\" d=\"{shape}\"><title>{}</title></path>\n",
        place % COLOURS,
        escaped(title)
    )
}

/// The line of a hit ratio, from edge to edge of the picture, with its label at the upper end.
fn diagonal(frame: &Frame, labels: &mut Labels, ratio: f64, offset: f64) -> String {
    let from = frame.x.0.max(frame.y.0 - offset);
    let to = frame.x.1.min(frame.y.1 - offset);
    if from >= to {
        return String::new();
    }
    let text = words::percent(ratio);
    let (x, y) = (frame.x(to), frame.y(to + offset));
    let slope = (y - frame.y(from + offset)) / (x - frame.x(from));
    // Below the line, from its upper end downwards.
    let _ = (0..8)
        .map(|step| 10.0 + 14.0 * f64::from(step))
        .map(|back| (x - back, y - slope * back + 1.0 + LINE))
        .filter(|(x, y)| *x > LEFT + 30.0 && *y < frame.foot() - 4.0)
        .any(|at| labels.place(at, Anchor::Start, &text) || labels.place(at, Anchor::End, &text));
    format!(
        "<line class=\"one\" x1=\"{:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{y:.1}\"><title>break-even at a hit ratio of {text}</title></line>\n",
        frame.x(from),
        frame.y(from + offset),
    )
}
