//! A sweep over ways of calling: a table and the curves of sizes for each operation and latency.

use loadline_measure::record::{Case, Record};

use super::chart::{BOTTOM, Frame, HEIGHT, MOST, Series, TOP, axis_name, log_ticks, open};
use super::escaped;
use crate::sweep::{self, Curve, Setting};
use loadline_measure::words;

/// Draws every operation under every latency.
pub(super) fn draw(out: &mut String, record: &Record) {
    let counts = sweep::counts(record);
    for setting in sweep::settings(record) {
        out.push_str(&format!("<h2>{}</h2>\n", escaped(&setting.title())));
        for line in setting.accuracy().into_iter().chain(setting.codec_cost()) {
            out.push_str(&format!("<p class=\"faint\">{}</p>\n", escaped(&line)));
        }
        table(out, &setting, &counts);
        figure(out, &setting);
    }
    out.push_str(&format!("<p class=\"faint\">{}</p>\n", sweep::LEGEND));
}

/// A row per mode, a column per count; the least time of each column is marked.
fn table(out: &mut String, setting: &Setting<'_>, counts: &[u64]) {
    out.push_str("<div class=\"wide\"><table>\n<thead><tr><th>mode</th>");
    for count in counts {
        out.push_str(&format!("<th>{}</th>", words::amount(*count)));
    }
    out.push_str("<th>ops/s</th><th>p50</th><th>p99</th><th>CPU us</th></tr></thead>\n<tbody>\n");
    for mode in &setting.modes {
        out.push_str(&format!("<tr><td>{}</td>", escaped(mode.name)));
        for count in counts {
            let total = mode.total(*count);
            let best = setting
                .best(*count)
                .is_some_and(|best| best.name == mode.name);
            let text = total.text();
            out.push_str(&match (best, total.extrapolated) {
                (true, _) => format!("<td class=\"good\"><strong>{text}</strong></td>"),
                (false, true) => format!("<td class=\"faint\">{text}</td>"),
                (false, false) => format!("<td>{text}</td>"),
            });
        }
        let largest = mode.largest;
        out.push_str(&format!(
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            sweep::rate(largest.throughput_ops_per_s),
            words::percentile(largest.response_time_ns.p50),
            words::percentile(largest.response_time_ns.p99),
            words::cpu_us(largest.cost.client_cpu_ns_per_op),
        ));
    }
    for left_out in &setting.left_out {
        out.push_str(&format!(
            "<tr><td>{}</td><td class=\"text faint\" colspan=\"{}\">{}</td></tr>\n",
            escaped(left_out.mode.as_str()),
            counts.len() + 4,
            escaped(&left_out.reason)
        ));
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// The curves of sizes in one picture, and what they say.
fn figure(out: &mut String, setting: &Setting<'_>) {
    let Some(svg) = chart(&setting.curves) else {
        return;
    };
    let key: Vec<String> = setting
        .curves
        .iter()
        .enumerate()
        .map(|(colour, curve)| {
            format!(
                "<span class=\"dot k{colour}\"></span>{}",
                escaped(curve.mode)
            )
        })
        .collect();
    out.push_str(&format!(
        "<figure><figcaption>Operations per second by size of a call, log scales; dashed: the size chosen. {}</figcaption>\n{svg}</figure>\n<ul>\n",
        key.join(" ")
    ));
    for curve in &setting.curves {
        let line = format!("{}: {}", curve.title(), curve.sentence());
        out.push_str(&format!("<li>{}</li>\n", escaped(&line)));
    }
    out.push_str("</ul>\n");
}

/// `None` where no curve has two sizes that axes can hold.
fn chart(curves: &[Curve<'_>]) -> Option<String> {
    let series: Vec<Series> = curves
        .iter()
        .enumerate()
        .map(|(colour, curve)| Series {
            label: curve.mode.to_owned(),
            colour,
            dashed: false,
            points: curve.cells.iter().filter_map(|case| point(case)).collect(),
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    let all = || series.iter().flat_map(|line| &line.points);
    let first = all().map(|point| point.0).reduce(f64::min)?;
    let last = all().map(|point| point.0).reduce(f64::max)?;
    let low = all().map(|point| point.1).reduce(f64::min)?;
    let high = all().map(|point| point.1).reduce(f64::max)?;
    let rates = log_ticks(low, high);
    let frame = Frame {
        x: (first, last.max(first + 0.1)),
        y: (rates.first()?.0, rates.last()?.0),
    };
    let mut svg = open("Operations per second by size of a call");
    for (log, _) in &rates {
        svg.push_str(&frame.horizontal(*log, &words::count(10_f64.powf(*log))));
    }
    for decade in first.ceil() as i32..=last.floor() as i32 {
        let label = words::amount(10_u64.saturating_pow(decade.unsigned_abs()));
        svg.push_str(&frame.vertical(f64::from(decade), &label));
    }
    svg.push_str(&axis_name("operations per call"));
    for (colour, curve) in curves.iter().enumerate() {
        svg.push_str(&mark(&frame, colour, curve));
    }
    for line in &series {
        svg.push_str(&frame.line(line));
    }
    for (colour, curve) in curves.iter().enumerate() {
        svg.push_str(&dots(&frame, colour, curve));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Logarithms of the size and the throughput, where axes can hold them.
fn point(case: &Case) -> Option<(f64, f64)> {
    let (size, rate) = (case.scenario.batch as f64, case.throughput_ops_per_s);
    let fits = (1.0..MOST).contains(&size) && (1.0..MOST).contains(&rate);
    fits.then(|| (size.log10(), rate.log10()))
}

/// The size that is chosen.
fn mark(frame: &Frame, colour: usize, curve: &Curve<'_>) -> String {
    let Some((size, _)) = point(curve.knee) else {
        return String::new();
    };
    let x = frame.x(size);
    let (anchor, beside) = if size > (frame.x.0 + frame.x.1) / 2.0 {
        ("end", -4.0)
    } else {
        ("start", 4.0)
    };
    format!(
        "<line class=\"one\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{} {}</text>\n",
        HEIGHT - BOTTOM,
        x + beside,
        // Near the axis, where the curves, which rise, are not.
        HEIGHT - BOTTOM - 8.0 - 14.0 * colour as f64,
        escaped(curve.mode),
        words::amount(curve.knee.scenario.batch),
    )
}

fn dots(frame: &Frame, colour: usize, curve: &Curve<'_>) -> String {
    let dots = curve.cells.iter().filter_map(|case| {
        let (size, rate) = point(case)?;
        Some(format!(
            "<circle class=\"k{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{}\"><title>{} of {}: {}/s</title></circle>\n",
            frame.x(size),
            frame.y(rate),
            if case.scenario.batch == curve.knee.scenario.batch { 5 } else { 2 },
            escaped(curve.mode),
            words::amount(case.scenario.batch),
            words::count(case.throughput_ops_per_s),
        ))
    });
    dots.collect()
}
