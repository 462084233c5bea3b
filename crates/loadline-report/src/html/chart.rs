//! Charts as inline SVG.

use loadline_measure::Histogram;

use super::escaped;
use crate::clean::shortened;
use crate::view::{self, Group};
use loadline_measure::words;

/// Subjects have this many colours, then they repeat.
pub(super) const COLOURS: usize = 6;

pub(super) const WIDTH: f64 = 480.0;
pub(super) const HEIGHT: f64 = 250.0;
const LEFT: f64 = 62.0;
pub(super) const RIGHT: f64 = 14.0;
pub(super) const TOP: f64 = 10.0;
pub(super) const BOTTOM: f64 = 36.0;
/// Larger figures than these are nobody's throughput and would break the axes.
pub(super) const MOST: f64 = 1e15;

/// Quantiles that get a tick where the samples reach them.
const TICKS: [(f64, &str); 7] = [
    (0.0, "0"),
    (0.5, "50"),
    (0.9, "90"),
    (0.99, "99"),
    (0.999, "99.9"),
    (0.9999, "99.99"),
    (0.99999, "99.999 %"),
];

/// A line of a chart.
pub(super) struct Series {
    pub(super) label: String,
    pub(super) colour: usize,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// Response times over percentiles, both on logarithmic axes: x counts the nines, y is the time.
/// `None` where no histogram was kept.
pub(super) fn percentiles(group: &Group<'_>) -> Option<String> {
    let mut series = Vec::new();
    for (colour, row) in group.rows.iter().enumerate() {
        let kept = &row.case.histograms;
        let service = if group.open_loop {
            kept.service_time.as_str()
        } else {
            ""
        };
        for (text, what, dashed) in [
            (kept.response_time.as_str(), "response time", false),
            (service, "service time", true),
        ] {
            // What cannot be read is not drawn; the table has the percentiles in any case.
            let Ok(histogram) = Histogram::decode(text) else {
                continue;
            };
            let points: Vec<(f64, f64)> = histogram
                .spectrum()
                .into_iter()
                .map(|(q, ns)| (nines(q), (ns.max(1) as f64).log10()))
                .collect();
            if points.len() > 1 {
                series.push(Series {
                    label: format!("{}, {what}", row.name),
                    colour,
                    dashed,
                    points,
                });
            }
        }
    }
    let all = || series.iter().flat_map(|line| &line.points);
    let last = all().map(|point| point.0).reduce(f64::max)?;
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(low, high), point| {
        (low.min(point.1), high.max(point.1))
    });
    let ticks = log_ticks(low, high);
    let frame = Frame {
        x: (0.0, last),
        y: (ticks.first()?.0, ticks.last()?.0),
    };
    let mut svg = open("Response time by percentile");
    for (log, label) in &ticks {
        svg.push_str(&frame.horizontal(*log, label));
    }
    for (q, label) in TICKS.iter().filter(|(q, _)| nines(*q) <= last + 1e-9) {
        svg.push_str(&frame.vertical(nines(*q), label));
    }
    svg.push_str(&axis_name("percentile"));
    series
        .iter()
        .for_each(|line| svg.push_str(&frame.line(line)));
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The throughput of every round, from zero. `None` without rounds.
pub(super) fn rounds(group: &Group<'_>) -> Option<String> {
    let mut series = Vec::new();
    for (colour, row) in group.rows.iter().enumerate() {
        let rates = row
            .case
            .rounds
            .iter()
            .map(|round| round.throughput_ops_per_s)
            .enumerate();
        let points = rates
            .filter(|(_, rate)| (0.0..MOST).contains(rate))
            .map(|(round, rate)| ((round + 1) as f64, rate));
        series.push(Series {
            label: row.name.clone(),
            colour,
            dashed: false,
            points: points.collect(),
        });
    }
    let all = || series.iter().flat_map(|line| &line.points);
    let last = all().map(|point| point.0).reduce(f64::max)?;
    let most = all().map(|point| point.1).reduce(f64::max)?;
    let step = nice_step(most);
    let frame = Frame {
        x: (1.0, last.max(2.0)),
        y: (0.0, (most / step).ceil().max(1.0) * step),
    };
    let mut svg = open("Operations per second by round");
    let steps = (frame.y.1 / step).round() as usize;
    for tick in (0..=steps).map(|i| i as f64 * step) {
        let label = if step < 1.0 {
            words::count(tick)
        } else {
            words::amount(tick.round() as u64)
        };
        svg.push_str(&frame.horizontal(tick, &label));
    }
    let every = (last / 8.0).ceil().max(1.0) as usize;
    for round in (1..=last as usize).step_by(every) {
        svg.push_str(&frame.vertical(round as f64, &round.to_string()));
    }
    svg.push_str(&axis_name("round"));
    for line in &series {
        svg.push_str(&frame.line(line));
        svg.push_str(&frame.dots(line));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// All ratios of the group with their intervals, on a logarithmic axis around 1. `None` without.
pub(super) fn ratios(group: &Group<'_>) -> Option<String> {
    let mut rows = Vec::new();
    for (colour, row) in group.rows.iter().enumerate() {
        for comparison in &row.comparisons {
            let bounds = comparison
                .interval
                .map_or((comparison.ratio, comparison.ratio), |bounds| {
                    (bounds.lo, bounds.hi)
                });
            let (ratio, lo, hi) = (comparison.ratio.log10(), bounds.0.log10(), bounds.1.log10());
            if [ratio, lo, hi].iter().all(|log| log.abs() < 6.0) {
                let label = shortened(view::metric(comparison), 16).into_owned();
                rows.push((
                    colour,
                    label,
                    format!("{}: {}", row.name, view::comparison(comparison)),
                    ratio,
                    lo,
                    hi,
                ));
            }
        }
    }
    let low = rows
        .iter()
        .map(|row| row.4)
        .reduce(f64::min)?
        .min(0.8_f64.log10());
    let high = rows
        .iter()
        .map(|row| row.5)
        .reduce(f64::max)?
        .max(1.25_f64.log10());
    let pad = (high - low) * 0.06;
    let (low, high) = (low - pad, high + pad);
    let (left, height) = (LEFT + 50.0, TOP + BOTTOM + 26.0 * rows.len() as f64);
    let x = |log: f64| left + (log - low) / (high - low) * (WIDTH - left - RIGHT);
    let foot = height - BOTTOM + 6.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Ratios with their intervals\">\n"
    );
    for tick in ratio_ticks(low, high) {
        let (at, class) = (x(tick.log10()), if tick == 1.0 { "one" } else { "grid" });
        svg.push_str(&format!("<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{foot:.1}\"/>\n"));
        svg.push_str(&format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            foot + 16.0,
            words::ratio(tick)
        ));
    }
    for (place, (colour, label, title, ratio, lo, hi)) in rows.iter().enumerate() {
        let (y, key) = (TOP + 26.0 * place as f64 + 15.0, colour % COLOURS);
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            left - 10.0,
            y + 4.0,
            escaped(label)
        ));
        svg.push_str(&format!(
            "<line class=\"line k{key}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n",
            x(*lo),
            x(*hi)
        ));
        svg.push_str(&format!("<circle class=\"k{key}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}</title></circle>\n", x(*ratio), escaped(title)));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Where values stand on the picture.
pub(super) struct Frame {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

impl Frame {
    pub(super) fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    pub(super) fn horizontal(&self, value: f64, label: &str) -> String {
        let y = self.y(value);
        format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
        )
    }

    pub(super) fn vertical(&self, value: f64, label: &str) -> String {
        let x = self.x(value);
        let anchor = if x > WIDTH - RIGHT - 20.0 {
            "end"
        } else {
            "middle"
        };
        format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>\n",
            HEIGHT - BOTTOM + 16.0
        )
    }

    pub(super) fn line(&self, series: &Series) -> String {
        let points: Vec<String> = series
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y)))
            .collect();
        let dashed = if series.dashed { " dashed" } else { "" };
        format!(
            "<polyline class=\"line k{}{dashed}\" points=\"{}\"><title>{}</title></polyline>\n",
            series.colour % COLOURS,
            points.join(" "),
            escaped(&series.label),
        )
    }

    fn dots(&self, series: &Series) -> String {
        let dots = series.points.iter().map(|(x, y)| {
            format!(
                "<circle class=\"k{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>{}, round {x}: {}/s</title></circle>\n",
                series.colour % COLOURS, self.x(*x), self.y(*y), escaped(&series.label), words::count(*y),
            )
        });
        dots.collect()
    }
}

pub(super) fn open(label: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n")
}

pub(super) fn axis_name(name: &str) -> String {
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    format!(
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\n",
        HEIGHT - 4.0
    )
}

/// How many nines a quantile has: 0.9 has one, 0.99 two.
fn nines(q: f64) -> f64 {
    -(1.0 - q).log10()
}

/// Ticks at 1, 2 and 5 of every decade around the range, or at whole decades where that is too many.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let ticks = |mantissas: &[f64]| -> Vec<f64> {
        let decades = low.floor() as i32..=high.ceil() as i32;
        let all: Vec<f64> = decades
            .flat_map(|decade| mantissas.iter().map(move |m| m.log10() + f64::from(decade)))
            .collect();
        let first = all
            .iter()
            .rposition(|tick| *tick <= low + 1e-9)
            .unwrap_or(0);
        let last = all
            .iter()
            .position(|tick| *tick >= high - 1e-9)
            .unwrap_or(all.len() - 1);
        all[first..=last.max((first + 1).min(all.len() - 1))].to_vec()
    };
    let mut chosen = ticks(&[1.0, 2.0, 5.0]);
    if chosen.len() > 8 {
        chosen = ticks(&[1.0]);
    }
    chosen
        .into_iter()
        .map(|log| (log, words::span(10_f64.powf(log).round() as u64)))
        .collect()
}

/// 1, 2 or 5 times a power of ten, so that about five steps reach `most`.
pub(super) fn nice_step(most: f64) -> f64 {
    let rough = (most / 5.0).max(1e-3);
    let power = 10_f64.powf(rough.log10().floor());
    let multiple = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|multiple| multiple * power >= rough - 1e-12);
    multiple.unwrap_or(10.0) * power
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
    fn ticks_enclose_the_range() {
        for (low, high) in [
            (4.3, 4.31),
            (4.0, 6.0),
            (0.0, 9.5),
            (5.0, 5.0),
            (3.69, 3.71),
        ] {
            let ticks = log_ticks(low, high);
            assert!(
                ticks.len() >= 2 && ticks.len() <= 12,
                "{low} {high}: {ticks:?}"
            );
            assert!(
                ticks[0].0 <= low + 1e-9 && ticks[ticks.len() - 1].0 >= high - 1e-9,
                "{low} {high}: {ticks:?}"
            );
        }
    }

    #[test]
    fn steps_are_round_numbers() {
        for (most, expected) in [
            (118_200.0, 50_000.0),
            (90.0, 20.0),
            (1.0, 0.2),
            (1e6, 200_000.0),
        ] {
            assert!(
                (nice_step(most) / expected - 1.0).abs() < 1e-9,
                "{most}: {}",
                nice_step(most)
            );
        }
    }

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
            assert!(
                ticks
                    .windows(2)
                    .all(|pair| (pair[1] / pair[0]).log10() >= span / 8.1),
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn nines_are_even_steps() {
        assert!(
            (nines(0.99) - 2.0).abs() < 1e-9
                && (nines(0.999) - 3.0).abs() < 1e-9
                && nines(0.0) == 0.0
        );
    }
}
