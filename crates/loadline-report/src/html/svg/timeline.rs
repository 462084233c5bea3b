//! Panels of bars or lines over one axis of time, with the moments of events across all of them.

use super::{
    Anchor, BOTTOM, COLOURS, Figure, Frame, LEFT, Labels, TOP, WIDTH, draw_marks, label, log_ticks,
    nice_step, scaled, svg, ticks,
};
use crate::clean::escaped;
use crate::document::{Axis, Mark, Panel, Scale, Strip, Timeline, Unit};

/// The height of a panel, and of the room for its name above it.
const PANEL: f64 = 62.0;
const NAME: f64 = 24.0;
/// Room above the first panel for the labels of moments.
const MARKS: f64 = 44.0;
/// The most bars of a strip.
const MOST_BARS: usize = 400;

const TIME: Axis = Axis {
    name: "time since the start of the load",
    scale: Scale::Linear,
    unit: Unit::Time,
};

/// `None` without an interval, or without a value that an axis can hold.
pub(super) fn timeline(plot: &Timeline) -> Option<Figure> {
    let strips = plot.panels.iter().flat_map(|panel| &panel.strips);
    let count = strips.map(|strip| strip.values.len()).max().unwrap_or(0);
    let count = count.min(MOST_BARS);
    let end = scaled(TIME, plot.interval_ns * count as f64).filter(|end| *end > 0.0)?;
    let x = (0.0, end);
    let mut labels = Labels::default();
    let whole = Frame {
        x,
        y: (0.0, 1.0),
        top: TOP,
        height: TOP + MARKS + (PANEL + NAME) * plot.panels.len() as f64 + BOTTOM - NAME,
    };
    let marks = plot.marks.iter();
    let marks: Vec<(&Mark, f64)> = marks
        .filter_map(|mark| Some((mark, scaled(TIME, mark.at).filter(|at| *at <= end)?)))
        .collect();
    let (lines, unnamed) = draw_marks(&whole, &mut labels, &marks);
    let mut body = String::new();
    for (place, panel) in plot.panels.iter().enumerate() {
        let top = TOP + MARKS + (PANEL + NAME) * place as f64;
        let Vertical { ends: y, levels } = vertical(panel)?;
        let frame = Frame {
            x,
            y,
            top,
            height: top + PANEL + BOTTOM,
        };
        body.push_str(&frame.levels(&mut labels, &levels));
        name_panel(&mut labels, panel.axis.name, top - 6.0);
        body.push_str(&match panel.axis.scale {
            Scale::Linear => bars(&frame, panel, plot.interval_ns),
            _ => steps(&frame, panel, plot.interval_ns),
        });
    }
    let within = ticks(TIME, x).into_iter().filter(|tick| tick.0 <= end);
    whole.below(&mut labels, &within.collect::<Vec<_>>(), TIME.name);
    body.push_str(&lines);
    body.push_str(&labels.svg);
    let caption = format!("{}{unnamed}", plot.caption);
    let strips = plot.panels.iter().flat_map(|panel| &panel.strips);
    Some(Figure {
        key: strips
            .map(|strip| (strip.colour, strip.label.clone()))
            .collect(),
        dashed: Vec::new(),
        markers: Vec::new(),
        svg: svg(&caption, whole.height, &body),
        caption,
    })
}

/// Writes the name of a panel above it, at the first place from the left that no mark runs through.
fn name_panel(labels: &mut Labels, name: &str, y: f64) {
    let steps = (0..).map(|step| LEFT + 12.0 * f64::from(step));
    for x in steps.take_while(|x| *x < WIDTH) {
        if labels.place((x, y), Anchor::Start, name) {
            return;
        }
    }
}

/// The vertical axis of a panel.
struct Vertical {
    ends: (f64, f64),
    levels: Vec<(f64, String)>,
}

/// `None` if it cannot hold the values.
fn vertical(panel: &Panel) -> Option<Vertical> {
    let unit = panel.axis.unit;
    let values = panel
        .strips
        .iter()
        .flat_map(|strip| strip.values.iter().flatten());
    let on_axis = values.filter_map(|value| scaled(panel.axis, *value));
    let range = on_axis.map(|value| (value, value));
    let range = range.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    if panel.axis.scale == Scale::Linear {
        let most = sums(panel).into_iter().fold(0.0, f64::max);
        let step = nice_step(scaled(panel.axis, most)?.max(1.0));
        let top = (most / step).ceil().max(1.0) * step;
        let levels = vec![(0.0, "0".to_owned()), (top, label(unit, top))];
        return Some(Vertical {
            ends: (0.0, top),
            levels,
        });
    }
    // Without a value, the panel stays empty.
    let (low, high) = range.unwrap_or((6.0, 7.0));
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let powers = log_ticks(low, high).into_iter();
    let powers = powers.filter(|log| log.fract() == 0.0);
    let named = powers.map(|log| (log, label(unit, 10_f64.powf(log).round())));
    Some(Vertical {
        ends: (low, high),
        levels: named.collect(),
    })
}

/// The sum of the strips in each interval.
fn sums(panel: &Panel) -> Vec<f64> {
    let mut sums = Vec::new();
    for strip in &panel.strips {
        sums.resize(sums.len().max(strip.values.len()), 0.0);
        for (sum, value) in sums.iter_mut().zip(&strip.values) {
            *sum += value.unwrap_or(0.0);
        }
    }
    sums
}

/// Bars that stand on each other.
fn bars(frame: &Frame, panel: &Panel, interval_ns: f64) -> String {
    let mut feet = vec![0.0; MOST_BARS];
    let mut out = String::new();
    for strip in &panel.strips {
        for (place, (value, foot)) in strip.values.iter().zip(&mut feet).enumerate() {
            let Some(value) = value.filter(|value| *value > 0.0) else {
                continue;
            };
            let (left, right) = (
                frame.x(place as f64 * interval_ns),
                frame.x((place + 1) as f64 * interval_ns),
            );
            let (top, bottom) = (frame.y(*foot + value), frame.y(*foot));
            *foot += value;
            out += &format!(
                "<rect class=\"k{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>\n",
                strip.colour % COLOURS,
                (right - left - 0.5).max(0.5),
                // A single error is seen too.
                (bottom - top).max(1.0),
                escaped(&title(panel, strip, place, value, interval_ns)),
            );
        }
    }
    out
}

/// Lines with a step at each interval, and a gap where there is no value.
fn steps(frame: &Frame, panel: &Panel, interval_ns: f64) -> String {
    let mut out = String::new();
    for strip in &panel.strips {
        let values = strip.values.iter().take(MOST_BARS).enumerate();
        let values = values.map(|(place, value)| {
            (
                place as f64,
                value.and_then(|value| scaled(panel.axis, value)),
            )
        });
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (place, value) in values.chain(std::iter::once((0.0, None))) {
            if let Some(value) = value {
                points.extend([place, place + 1.0].map(|edge| (edge * interval_ns, value)));
            } else if !points.is_empty() {
                out += &frame.polyline(strip.colour, false, &strip.label, &points);
                points.clear();
            }
        }
    }
    out
}

fn title(panel: &Panel, strip: &Strip, place: usize, value: f64, interval_ns: f64) -> String {
    format!(
        "{}: {} {} from {} on",
        strip.label,
        super::figure(panel.axis.unit, value),
        panel.axis.name,
        super::figure(Unit::Time, place as f64 * interval_ns)
    )
}
