//! Plots as inline SVG, all of one size and scale, so that their text has one size too.

mod chart;
mod labels;
mod ladder;
mod map;
mod rows;
mod timeline;

use loadline_measure::words;

use crate::clean::{columns, escaped};
use crate::document::{Axis, Lines, Mark, Plot, Scale, Series, Spread, Unit};
use labels::{Anchor, Labels};
pub(super) use map::sample;

/// Series have this many colours, then they repeat.
pub(super) const COLOURS: usize = 6;

/// A phone that is 400 pixels wide shows a plot of this width without scaling it.
const WIDTH: f64 = 352.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Columns of a letter and the height of a line, at the font size of the style sheet; rather too wide.
const LETTER: f64 = 7.4;
const LINE: f64 = 13.0;
/// Larger figures than these are not measured and would break the axes.
const MOST: f64 = 1e15;
/// A histogram has this many bins.
const BINS: usize = 73;

/// Quantiles with a tick where the samples reach them.
const QUANTILES: [(f64, &str); 7] = [
    (0.0, "0"),
    (0.5, "50"),
    (0.9, "90"),
    (0.99, "99"),
    (0.999, "99.9"),
    (0.9999, "99.99"),
    (0.99999, "99.999"),
];

/// A plot with its caption and the names of its colours.
pub(super) struct Figure {
    pub(super) caption: String,
    pub(super) key: Vec<(usize, String)>,
    /// The names of its dashed lines.
    pub(super) dashed: Vec<(usize, String)>,
    /// The names of its markers, from the left.
    pub(super) markers: Vec<(usize, String)>,
    pub(super) svg: String,
}

/// `None` where there is nothing that axes can hold.
pub(super) fn draw(plot: &Plot) -> Option<Figure> {
    match plot {
        Plot::Lines(plot) => lines(plot),
        Plot::Spread(plot) => spread(plot),
        Plot::Ratios(plot) => rows::ratios(plot),
        Plot::Times(plot) => rows::times(plot),
        Plot::Ladder(plot) => ladder::ladder(plot),
        Plot::Map(plot) => map::map(plot),
        Plot::Timeline(plot) => timeline::timeline(plot),
    }
}

/// Mapping of values to the picture: the ends of both axes, on their scales.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    /// The upper end of the vertical axis.
    top: f64,
    height: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let room = self.foot() - self.top;
        self.foot() - (value - self.y.0) / (self.y.1 - self.y.0) * room
    }

    /// The lower end of the vertical axis.
    fn foot(&self) -> f64 {
        self.height - BOTTOM
    }

    /// The places of points in the picture.
    fn places(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let points = points.iter();
        points.map(|(x, y)| (self.x(*x), self.y(*y))).collect()
    }

    fn polyline(&self, colour: usize, dashed: bool, title: &str, points: &[(f64, f64)]) -> String {
        let places = self.places(points).into_iter();
        let points: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashed = if dashed { " dashed" } else { "" };
        format!(
            "<polyline class=\"line k{}{dashed}\" points=\"{}\"><title>{}</title></polyline>\n",
            colour % COLOURS,
            points.join(" "),
            escaped(title),
        )
    }

    /// The horizontal lines of the ticks, and their labels at the left.
    fn levels(&self, labels: &mut Labels, ticks: &[(f64, String)]) -> String {
        let lines = ticks.iter().map(|(at, label)| {
            let y = self.y(*at);
            labels.place((LEFT - 6.0, y + 4.0), Anchor::End, label);
            let end = WIDTH - RIGHT;
            format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n"
            )
        });
        lines.collect()
    }

    /// The labels below, and the name of the axis.
    fn below(&self, labels: &mut Labels, ticks: &[(f64, String)], name: &str) {
        let y = self.foot() + 17.0;
        for (at, label) in ticks {
            let x = self.x(*at);
            let half = columns(label) as f64 * LETTER / 2.0;
            labels.place((x.min(WIDTH - half - 1.0), y), Anchor::Middle, label);
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        labels.place((middle, self.height - 4.0), Anchor::Middle, name);
    }
}

fn svg(caption: &str, height: f64, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n{body}</svg>\n",
        escaped(caption)
    )
}

/// A value on the scale of its axis; `None` where the axis cannot hold it.
fn scaled(axis: Axis, value: f64) -> Option<f64> {
    let on_scale = match axis.scale {
        Scale::Linear => (0.0..MOST).contains(&value).then_some(value),
        Scale::Log => (1.0..MOST).contains(&value).then(|| value.log10()),
        Scale::Nines => (0.0..1.0).contains(&value).then(|| nines(value)),
    };
    on_scale.filter(|value| value.is_finite())
}

/// Number of nines of a quantile: 0.9 has one, 0.99 two.
fn nines(q: f64) -> f64 {
    -(1.0 - q).log10()
}

/// The ticks of an axis around a range of scaled values.
fn ticks(axis: Axis, (low, high): (f64, f64)) -> Vec<(f64, String)> {
    match axis.scale {
        Scale::Log => log_ticks(low, high)
            .into_iter()
            .map(|log| (log, label(axis.unit, 10_f64.powf(log).round())))
            .collect(),
        Scale::Nines => QUANTILES
            .iter()
            .filter(|(q, _)| nines(*q) <= high + 1e-9)
            .map(|(q, label)| (nines(*q), (*label).to_owned()))
            .collect(),
        Scale::Linear => {
            let step = nice_step(high);
            let steps = (high / step).ceil().max(1.0) as usize;
            let ticks = (0..=steps).map(|i| i as f64 * step);
            ticks.map(|tick| (tick, label(axis.unit, tick))).collect()
        }
    }
}

fn label(unit: Unit, value: f64) -> String {
    match unit {
        _ if value == 0.0 => "0".to_owned(),
        Unit::Time => words::span_or_duration(value),
        Unit::Count if value.fract() == 0.0 => words::amount(value as u64),
        Unit::Count => words::count(value),
    }
}

/// A figure of a tooltip: exact where that is shorter than three digits, as it is of a size or a rate that was chosen.
fn figure(unit: Unit, value: f64) -> String {
    let rounded = match unit {
        Unit::Time => words::duration(value),
        Unit::Count => words::count(value),
    };
    let exact = label(unit, value);
    if exact.len() < rounded.len() {
        exact
    } else {
        rounded
    }
}

/// The ends of an axis: those of its ticks, or of the values where the axis has none of its own.
fn ends(axis: Axis, (low, high): (f64, f64), ticks: &[(f64, String)]) -> (f64, f64) {
    let (low, high) = match (axis.scale, ticks) {
        (Scale::Nines, _) => (0.0, high),
        (_, [first, .., last]) => (first.0, last.0),
        _ => (low, high),
    };
    (low, if high > low { high } else { low + 1.0 })
}

fn lines(plot: &Lines) -> Option<Figure> {
    let on_axes = |(x, y): &(f64, f64)| Some((scaled(plot.x, *x)?, scaled(plot.y, *y)?));
    let drawn: Vec<(&Series, Vec<(f64, f64)>)> = plot
        .series
        .iter()
        .map(|line| (line, line.points.iter().filter_map(on_axes).collect()))
        .collect();
    let marks: Vec<(&Mark, f64)> = plot
        .marks
        .iter()
        .filter_map(|mark| {
            let axis = if mark.is_level { plot.y } else { plot.x };
            Some((mark, scaled(axis, mark.at)?))
        })
        .collect();
    let range = |of: fn(&(f64, f64)) -> f64, levels: bool| {
        let points = drawn.iter().flat_map(|(_, points)| points).map(of);
        let levels = marks.iter().filter(|(mark, _)| mark.is_level == levels);
        let ends = points.map(|value| (value, value));
        let ends = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        Some(levels.fold(ends, |ends, (_, at)| (ends.0.min(*at), ends.1.max(*at))))
    };
    let (x, y) = (
        range(|point| point.0, false)?,
        range(|point| point.1, true)?,
    );
    let (x_ticks, y_ticks) = (ticks(plot.x, x), ticks(plot.y, y));
    // Rounds and times of a run fill the picture; rates begin at zero.
    let x_ends = match plot.x.scale {
        Scale::Linear if plot.marks.is_empty() => (x.0, if x.1 > x.0 { x.1 } else { x.0 + 1.0 }),
        Scale::Log => (x.0, if x.1 > x.0 { x.1 } else { x.0 + 1.0 }),
        _ => ends(plot.x, x, &x_ticks),
    };
    let frame = Frame {
        x: x_ends,
        y: ends(plot.y, y, &y_ticks),
        top: TOP,
        height: HEIGHT,
    };
    let is_inside = |at: f64| (x_ends.0 - 1e-9..=x_ends.1 + 1e-9).contains(&at);
    let x_ticks: Vec<(f64, String)> = x_ticks
        .into_iter()
        .filter(|tick| is_inside(tick.0))
        .collect();
    let mut labels = Labels::default();
    let mut body = frame.levels(&mut labels, &y_ticks);
    frame.below(&mut labels, &x_ticks, plot.x.name);
    for (_, points) in &drawn {
        labels.keep_off(&frame.places(points));
    }
    let (drawn_marks, unnamed) = draw_marks(&frame, &mut labels, &marks);
    body.push_str(&drawn_marks);
    for (line, points) in &drawn {
        if points.len() > 1 {
            body.push_str(&frame.polyline(line.colour, line.dashed, &line.label, points));
        }
        if plot.dots {
            body.push_str(&dots(plot, &frame, line));
        }
    }
    body.push_str(&labels.svg);
    let caption = format!("{}{unnamed}", plot.caption);
    Some(Figure {
        key: key(plot, false),
        dashed: key(plot, true),
        markers: Vec::new(),
        svg: svg(&caption, HEIGHT, &body),
        caption,
    })
}

/// The names and colours of the dashed or of the other lines.
fn key(plot: &Lines, dashed: bool) -> Vec<(usize, String)> {
    let lines = plot.series.iter().filter(|line| line.dashed == dashed);
    let mut key: Vec<(usize, String)> = lines
        .map(|line| (line.colour, line.label.clone()))
        .collect();
    key.sort();
    key
}

fn dots(plot: &Lines, frame: &Frame, line: &Series) -> String {
    let dots = line.points.iter().filter_map(|(x, y)| {
        let (at, level) = (scaled(plot.x, *x)?, scaled(plot.y, *y)?);
        Some(format!(
            "<circle class=\"k{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>{}, {} at {}</title></circle>\n",
            line.colour % COLOURS,
            frame.x(at),
            frame.y(level),
            escaped(&line.label),
            figure(plot.y.unit, *y),
            figure(plot.x.unit, *x),
        ))
    });
    dots.collect()
}

/// The ends of the line of a mark.
fn mark_line(frame: &Frame, mark: &Mark, at: f64) -> [(f64, f64); 2] {
    if mark.is_level {
        let y = frame.y(at);
        [(LEFT, y), (WIDTH - RIGHT, y)]
    } else {
        let x = frame.x(at);
        [(x, TOP), (x, frame.foot())]
    }
}

/// Dashed lines across the picture, each with its label at the first place that is free, and the end of the caption for labels
/// without a place.
fn draw_marks(frame: &Frame, labels: &mut Labels, marks: &[(&Mark, f64)]) -> (String, String) {
    for (mark, at) in marks {
        labels.keep_off(&mark_line(frame, mark, *at));
    }
    let (mut lines, mut unnamed) = (String::new(), Vec::new());
    for (mark, at) in marks {
        let ends = mark_line(frame, mark, *at);
        if !place_mark(frame, labels, mark, ends) {
            unnamed.push(mark.label.as_str());
        }
        let [(x, y), (to_x, to_y)] = ends;
        lines.push_str(&format!(
            "<line class=\"one\" x1=\"{x:.1}\" x2=\"{to_x:.1}\" y1=\"{y:.1}\" y2=\"{to_y:.1}\"/>\n"
        ));
    }
    let unnamed = match unnamed[..] {
        [] => String::new(),
        _ => format!(" (dashed: {})", unnamed.join(", ")),
    };
    (lines, unnamed)
}

/// Writes the label of a mark beside its line, if a place is free.
fn place_mark(
    frame: &Frame,
    labels: &mut Labels,
    mark: &Mark,
    [(x, y), (right, _)]: [(f64, f64); 2],
) -> bool {
    let steps = (0..).map(|step| LINE * f64::from(step));
    if mark.is_level {
        let mut columns = steps.map(|step| right - step).take_while(|x| *x > LEFT);
        return columns.any(|x| {
            labels.place((x, y - 5.0), Anchor::End, &mark.label)
                || labels.place((x, y + LINE + 1.0), Anchor::End, &mark.label)
        });
    }
    let rows = steps.map(|step| TOP + LINE - 2.0 + step);
    let mut rows = rows.take_while(|y| *y < frame.foot());
    rows.any(|y| {
        labels.place((x - 4.0, y), Anchor::End, &mark.label)
            || labels.place((x + 4.0, y), Anchor::Start, &mark.label)
    })
}

/// Histograms over each other: the height is the square root of the share, so that a thin tail is
/// seen next to the bulk.
fn spread(plot: &Spread) -> Option<Figure> {
    let axis = Axis {
        name: "response time",
        scale: Scale::Log,
        unit: Unit::Time,
    };
    let range = (
        scaled(axis, plot.from_ns.max(1) as f64)?,
        scaled(axis, plot.to_ns.max(1) as f64)?,
    );
    let x = (
        range.0,
        if range.1 > range.0 {
            range.1
        } else {
            range.0 + 0.1
        },
    );
    let frame = Frame {
        x,
        y: (0.0, 1.0),
        top: TOP,
        height: HEIGHT,
    };
    let mut labels = Labels::default();
    let mut body = frame.levels(&mut labels, &[(0.0, String::new())]);
    let at = log_ticks(x.0, x.1).into_iter();
    let at = at.filter(|log| (x.0..=x.1).contains(log));
    let at: Vec<(f64, String)> = at
        .map(|log| (log, label(Unit::Time, 10_f64.powf(log).round())))
        .collect();
    frame.below(&mut labels, &at, axis.name);
    for row in &plot.rows {
        let Some(histogram) = &row.histogram else {
            continue;
        };
        let bins = histogram.log_bins(plot.from_ns, plot.to_ns, BINS);
        let most = bins.iter().copied().max().unwrap_or(0).max(1) as f64;
        let place = |bin: usize| x.0 + (x.1 - x.0) * bin as f64 / BINS as f64;
        let steps = bins.iter().enumerate().flat_map(|(bin, count)| {
            let height = (*count as f64 / most).sqrt();
            [(place(bin), height), (place(bin + 1), height)]
        });
        let points: Vec<(f64, f64)> = steps.collect();
        body.push_str(&frame.polyline(row.colour, false, &row.label, &points));
    }
    body.push_str(&labels.svg);
    let key = plot.rows.iter();
    Some(Figure {
        caption: format!("{} (height: square root of the share)", plot.caption),
        key: key.map(|row| (row.colour, row.label.clone())).collect(),
        dashed: Vec::new(),
        markers: Vec::new(),
        svg: svg(&plot.caption, HEIGHT, &body),
    })
}

/// Logarithms at 1, 2 and 5 of every decade around the range, or at whole decades where these are too
/// many.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let ticks = |mantissas: &[f64]| -> Vec<f64> {
        let decades = low.floor() as i32..=high.ceil() as i32;
        let all: Vec<f64> = decades
            .flat_map(|decade| mantissas.iter().map(move |m| m.log10() + f64::from(decade)))
            .collect();
        let first = all.iter().rposition(|tick| *tick <= low + 1e-9);
        let first = first.unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= high - 1e-9);
        let last = last.unwrap_or(all.len() - 1);
        all[first..=last.max((first + 1).min(all.len() - 1))].to_vec()
    };
    let chosen = ticks(&[1.0, 2.0, 5.0]);
    if chosen.len() > 8 {
        ticks(&[1.0])
    } else {
        chosen
    }
}

/// 1, 2 or 5 times a power of ten, so that about five steps reach `most`.
fn nice_step(most: f64) -> f64 {
    let rough = (most / 5.0).max(1e-3);
    let power = 10_f64.powf(rough.log10().floor());
    let multiple = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|multiple| multiple * power >= rough - 1e-12);
    multiple.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_enclose_the_range() {
        for (low, high) in [
            (4.3, 4.31),
            (4.0, 6.0),
            (0.0, 9.5),
            (5.0, 5.0),
            (3.69, 3.71),
        ] {
            let ticks = log_ticks(low, high);
            assert!((2..=12).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            let encloses = ticks[0] <= low + 1e-9 && ticks[ticks.len() - 1] >= high - 1e-9;
            assert!(encloses, "{low} {high}: {ticks:?}");
        }
    }

    #[test]
    fn steps_are_round_numbers() {
        for (most, expected) in [(118_200.0, 50_000.0), (90.0, 20.0), (1.0, 0.2), (1e6, 2e5)] {
            let step = nice_step(most);
            assert!((step / expected - 1.0).abs() < 1e-9, "{most}: {step}");
        }
    }

    #[test]
    fn nines_are_even_steps() {
        assert!((nines(0.99) - 2.0).abs() < 1e-9 && (nines(0.999) - 3.0).abs() < 1e-9);
        assert_eq!(nines(0.0), 0.0);
    }

    #[test]
    fn tooltips_round_what_was_measured_and_keep_what_was_chosen() {
        for (unit, value, expected) in [
            (Unit::Time, 399_600_000.0, "400 ms"),
            (Unit::Time, 1_204_000.0, "1.20 ms"),
            (Unit::Time, 10_000_000.0, "10 ms"),
            (Unit::Count, 101_365.0, "101.4k"),
            (Unit::Count, 1_109_877.5, "1.11M"),
            (Unit::Count, 10_000.0, "10k"),
            (Unit::Count, 200.0, "200"),
            (Unit::Count, 0.0, "0"),
        ] {
            assert_eq!(figure(unit, value), expected);
        }
    }
}
