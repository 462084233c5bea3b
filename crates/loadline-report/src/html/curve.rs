//! The throughput-latency curve of a search: its chart and its table.

use loadline_measure::Metric;
use loadline_measure::capacity::{Answer, Point};

use super::chart::{BOTTOM, Frame, HEIGHT, MOST, RIGHT, Series, TOP, WIDTH};
use super::chart::{axis_name, log_ticks, nice_step, open};
use super::escaped;
use crate::capacity;
use loadline_measure::words;

/// The chart and the table.
pub(super) fn draw(out: &mut String, answer: &Answer) {
    if let Some(svg) = chart(answer) {
        let key: Vec<String> = capacity::percentiles(answer)
            .iter()
            .enumerate()
            .map(|(colour, metric)| {
                format!("<span class=\"dot k{colour}\"></span>{}", metric.name())
            })
            .collect();
        out.push_str(&format!(
            "<figure><figcaption>Response time by rate, log scale; dashed: the limit, the knee and the answer. {}</figcaption>\n{svg}</figure>\n",
            key.join(" ")
        ));
    }
    table(out, answer);
}

/// `None` where no percentile has its samples.
fn chart(answer: &Answer) -> Option<String> {
    let metrics = capacity::percentiles(answer);
    let series: Vec<Series> = metrics
        .iter()
        .enumerate()
        .map(|(colour, metric)| Series {
            label: metric.name().to_owned(),
            colour,
            dashed: false,
            points: drawn(answer, *metric).collect(),
        })
        .collect();
    let all = || series.iter().flat_map(|line| &line.points);
    let limit = answer.slo.limit_ns.log10();
    let most = all().map(|point| point.0).reduce(f64::max)?;
    let low = all().map(|point| point.1).fold(limit, f64::min);
    let high = all().map(|point| point.1).fold(limit, f64::max);
    let ticks = log_ticks(low, high);
    let step = nice_step(most);
    let frame = Frame {
        x: (0.0, (most / step).ceil().max(1.0) * step),
        y: (ticks.first()?.0, ticks.last()?.0),
    };
    let mut svg = open("Response time by rate");
    for (log, label) in &ticks {
        svg.push_str(&frame.horizontal(*log, label));
    }
    let steps = (frame.x.1 / step).round() as usize;
    for tick in (0..=steps).map(|i| i as f64 * step) {
        svg.push_str(&frame.vertical(tick, &words::count(tick)));
    }
    svg.push_str(&axis_name("operations per second"));
    svg.push_str(&limit_line(&frame, answer, limit));
    for (name, rate) in [("knee", answer.knee), ("answer", answer.rate)] {
        if let Some(rate) = rate.filter(|rate| (0.0..=frame.x.1).contains(rate)) {
            svg.push_str(&mark(&frame, name, rate));
        }
    }
    for line in &series {
        svg.push_str(&frame.line(line));
        svg.push_str(&dots(&frame, line));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The points of a percentile that an axis can hold: rate, and logarithm of the time.
fn drawn(answer: &Answer, metric: Metric) -> impl Iterator<Item = (f64, f64)> {
    answer.curve.iter().filter_map(move |point| {
        let ns = capacity::percentile(answer, point, metric)?;
        let fits = (0.0..MOST).contains(&point.rate) && (1.0..MOST).contains(&ns);
        fits.then(|| (point.rate, ns.log10()))
    })
}

fn limit_line(frame: &Frame, answer: &Answer, log: f64) -> String {
    let y = frame.y(log);
    format!(
        "<line class=\"one\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
        frame.x(0.0),
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        y - 4.0,
        escaped(&answer.slo.to_string()),
    )
}

fn mark(frame: &Frame, name: &str, rate: f64) -> String {
    let x = frame.x(rate);
    format!(
        "<line class=\"one\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name} {}</text>\n",
        HEIGHT - BOTTOM,
        x - 4.0,
        TOP + if name == "knee" { 10.0 } else { 24.0 },
        words::count(rate),
    )
}

fn dots(frame: &Frame, line: &Series) -> String {
    let dots = line.points.iter().map(|(rate, log)| {
        format!(
            "<circle class=\"k{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>{} at {}/s: {}</title></circle>\n",
            line.colour,
            frame.x(*rate),
            frame.y(*log),
            line.label,
            words::count(*rate),
            words::duration(10_f64.powf(*log)),
        )
    });
    dots.collect()
}

fn table(out: &mut String, answer: &Answer) {
    out.push_str("<div class=\"wide\"><table>\n<thead><tr>");
    for name in capacity::header(answer) {
        out.push_str(&format!("<th>{name}</th>"));
    }
    out.push_str("<th class=\"text\"></th></tr></thead>\n<tbody>\n");
    for point in &answer.curve {
        out.push_str(&row(answer, point));
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn row(answer: &Answer, point: &Point) -> String {
    let cells: String = capacity::cells(answer, point)
        .iter()
        .map(|cell| format!("<td>{cell}</td>"))
        .collect();
    let class = if answer.rate == Some(point.rate) {
        "text good"
    } else if point.held {
        "text"
    } else {
        "text warn"
    };
    let marks = capacity::marks(answer, point);
    format!("<tr>{cells}<td class=\"{class}\">{marks}</td></tr>\n")
}
