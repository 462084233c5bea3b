//! The load that a target carries: sentences for the record, the curve and its table.

use loadline_measure::Metric;
use loadline_measure::capacity::{Answer, LimitedBy, Point};
use loadline_measure::record::Record;
use loadline_measure::words;

use super::cases::TIME;
use super::verdict;
use crate::document::{
    Axis, Block, Cell, Check, CheckResult, Checks, Column, Lines, Mark, Plot, Row, RowGroup, Scale,
    Section, Series, Table, Tone, Unit,
};

/// The findings of a search as sentences for the record: the answer, what lies above it and who is the
/// limit, then what else must be known.
#[must_use]
pub fn capacity_findings(name: &str, answer: &Answer) -> Vec<String> {
    let mut findings = vec![match answer.rate {
        Some(rate) => carried(name, answer, rate),
        None => not_held(name, answer),
    }];
    findings.extend(answer.notes.iter().cloned());
    findings
}

fn carried(name: &str, answer: &Answer, rate: f64) -> String {
    let percentile = answer.slo.metric.name();
    let limit = words::span_or_duration(answer.slo.limit_ns);
    let at = answer
        .value_ns
        .map(|value| format!(", where it is {}", words::duration(value)))
        .unwrap_or_default();
    let (verb, confirmed) = match answer.confirmations {
        tally if answer.is_confirmed() => (
            "carries",
            format!("confirmed {} of {}", tally.held, tally.trials()),
        ),
        tally if tally.trials() > 0 => (
            "may carry",
            format!(
                "not confirmed: held in {} of {}",
                tally.held,
                tally.trials()
            ),
        ),
        _ => ("may carry", "not confirmed".to_owned()),
    };
    let above = answer
        .failing()
        .next()
        .map(|point| {
            format!(
                "; at {}, {percentile} is {}",
                words::count(point.rate),
                value(point)
            )
        })
        .unwrap_or_default();
    format!(
        "{name} {verb} {} operations per second with {percentile} below {limit}{at} ({confirmed}){above}; {}.",
        words::count(rate),
        limit_sentence(answer)
    )
}

fn not_held(name: &str, answer: &Answer) -> String {
    let percentile = answer.slo.metric.name();
    let limit = words::span_or_duration(answer.slo.limit_ns);
    let Some(lowest) = answer.curve.first() else {
        return format!("{name}: no rate was tried, so that nothing is known about {percentile}.");
    };
    let at_lowest = format!(
        "at the lowest, {} operations per second, it is {}",
        words::count(lowest.rate),
        value(lowest)
    );
    if lowest.trials.late > lowest.trials.failed {
        format!(
            "No rate was found with {percentile} below {limit}: {at_lowest}, but there the generator itself was late, so that nothing is known about {name}. Give the generator a CPU of its own, or a quieter machine."
        )
    } else {
        format!(
            "{name} does not keep {percentile} below {limit} at any rate that was tried: {at_lowest}."
        )
    }
}

/// Who is the limit, with the figure that shows it.
fn limit_sentence(answer: &Answer) -> String {
    let most = |of: fn(&Point) -> Option<f64>| answer.failing().filter_map(of).fold(0.0, f64::max);
    let server = whole_percent(most(|point| point.server_busy));
    let client = whole_percent(most(|point| point.client_busy));
    match answer.limited_by {
        LimitedBy::Server => {
            format!("there the server's CPU was {server} busy, so the server is the limit")
        }
        LimitedBy::Generator => format!(
            "there the generator was late or its thread busy ({client}), so the generator is the limit and the server may carry more"
        ),
        LimitedBy::Host => format!(
            "there the generator waited for a CPU in {} of its time, so other work on this host is the limit, and an undisturbed server may carry more",
            whole_percent(most(|point| point.waited))
        ),
        LimitedBy::Network => format!(
            "there operations were left waiting while the server's CPU was {server} and the generator's thread {client} busy, so the way between them or the number of connections is the limit"
        ),
        LimitedBy::Nobody => format!(
            "there the server's CPU was {server} and the generator's thread {client} busy: neither is saturated, and what is beyond the limit are pauses"
        ),
        LimitedBy::Unknown => {
            "what the server's CPU did is not known, so who is the limit is not either".to_owned()
        }
        LimitedBy::NotReached => "no higher rate was seen to fail".to_owned(),
    }
}

/// A share of a CPU, whose tenths mean nothing.
fn whole_percent(share: f64) -> String {
    if share.abs() < 1e3 {
        format!("{:.0} %", share * 100.0)
    } else {
        words::percent(share)
    }
}

fn value(point: &Point) -> String {
    point
        .value_ns
        .map_or_else(|| words::TOO_FEW.to_owned(), words::duration)
}

/// The percentiles that a curve is shown by: the usual three, or with that of the limit in place of
/// the median.
fn percentiles(answer: &Answer) -> [Metric; 3] {
    match answer.slo.metric {
        Metric::P50 | Metric::P99 | Metric::P999 => [Metric::P50, Metric::P99, Metric::P999],
        other => [other, Metric::P99, Metric::P999],
    }
}

/// A percentile of a point, in nanoseconds.
fn percentile(answer: &Answer, point: &Point, metric: Metric) -> Option<f64> {
    if metric == answer.slo.metric {
        return point.value_ns;
    }
    let ns = match metric {
        Metric::P50 => point.p50_ns,
        Metric::P99 => point.p99_ns,
        Metric::P999 => point.p999_ns,
        _ => None,
    };
    ns.map(|ns| ns as f64)
}

/// The curve as a plot and as a table, a row for every rate.
pub(super) fn section(answer: &Answer) -> Option<Section> {
    if answer.curve.is_empty() {
        return None;
    }
    let blocks = vec![
        Block::Plot(Plot::Lines(plot(answer))),
        Block::Table(table(answer)),
    ];
    Section::new("Response time by rate", blocks)
}

fn plot(answer: &Answer) -> Lines {
    let mut metrics: Vec<_> = percentiles(answer).into_iter().enumerate().collect();
    // The percentile of the limit is drawn last, so that it is seen where several coincide.
    metrics.sort_by_key(|(_, metric)| *metric == answer.slo.metric);
    let series = metrics.into_iter();
    let series = series.map(|(colour, metric)| {
        let points = answer.curve.iter().filter_map(|point| {
            let ns = percentile(answer, point, metric)?;
            Some((point.rate, ns))
        });
        Series {
            label: metric.name().to_owned(),
            colour,
            dashed: false,
            points: points.collect(),
        }
    });
    let limit = words::span_or_duration(answer.slo.limit_ns);
    let mut marks = vec![Mark {
        is_level: true,
        at: answer.slo.limit_ns,
        label: format!("limit {limit}"),
    }];
    let mut mark = |name: &str, rate: Option<f64>| {
        marks.extend(rate.map(|rate| Mark {
            is_level: false,
            at: rate,
            label: format!("{name} {}", words::count(rate)),
        }));
    };
    if answer.knee.is_some() && answer.knee == answer.rate {
        mark("knee and answer", answer.rate);
    } else {
        mark("knee", answer.knee);
        mark("answer", answer.rate);
    }
    Lines {
        caption: "Response time by rate, on a log scale".to_owned(),
        x: Axis {
            name: "operations per second",
            scale: Scale::Linear,
            unit: Unit::Count,
        },
        y: TIME,
        series: series.collect(),
        marks,
        dots: true,
        in_text: true,
    }
}

fn table(answer: &Answer) -> Table {
    let [first, second, third] = percentiles(answer).map(Metric::name);
    let columns = vec![
        Column::figure("rate", 0),
        Column::figure("answered", 3),
        Column::figure(first, 0),
        Column::figure(second, 0),
        Column::figure(third, 0),
        Column::figure("server", 1),
        Column::figure("gen.", 2),
        Column::figure("held", 2),
        Column::text("", 0),
    ];
    let rows = answer.curve.iter().map(|point| {
        let tone = if answer.rate == Some(point.rate) {
            Tone::Good
        } else if point.held {
            Tone::Plain
        } else {
            Tone::Warn
        };
        let mut cells: Vec<Cell> = cells(answer, point).map(Cell::from).into();
        let marks = marks(answer, point);
        cells.push(Cell {
            strong: marks.contains("answer"),
            ..Cell::new(tone, marks)
        });
        Row {
            cells,
            ..Row::default()
        }
    });
    Table {
        caption: "Response time by rate".to_owned(),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows: rows.collect(),
        }],
    }
}

/// The limit as one check: failed where no rate kept it, inconclusive where one did that was not
/// confirmed, or where the search was cut short.
pub(super) fn checks(record: &Record, answer: &Answer) -> Checks {
    let verdict = verdict::of_record(record);
    let subject = record.cases.first().map(|case| case.subject.name.as_str());
    let figure = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |v| v.to_string());
    let is_open = record.run.cut_short || verdict.result == CheckResult::Skipped;
    let check = Check {
        name: answer.slo.to_string(),
        class: "capacity".to_owned(),
        result: if is_open {
            CheckResult::Skipped
        } else {
            verdict.result
        },
        message: record.findings.join(" "),
        seconds: record.run.duration_ns.map(|ns| ns as f64 / 1e9),
        properties: vec![
            ("rate_ops_per_s", figure(answer.rate)),
            ("response_time_ns_of_the_limit", figure(answer.value_ns)),
            ("knee_ops_per_s", figure(answer.knee)),
            ("closed_loop_ops_per_s", answer.closed_loop.to_string()),
            ("confirmations_held", answer.confirmations.held.to_string()),
            ("confirmations", answer.confirmations.trials().to_string()),
        ],
    };
    Checks {
        name: format!("capacity of {}", subject.unwrap_or("target")),
        checks: vec![check],
        shown: false,
    }
}

/// The cells of a point, in the order of the columns.
fn cells(answer: &Answer, point: &Point) -> [String; 8] {
    let shown = |metric: Metric| {
        percentile(answer, point, metric).map_or_else(|| words::TOO_FEW.to_owned(), words::duration)
    };
    let busy = |share: Option<f64>| share.map_or_else(|| "?".to_owned(), whole_percent);
    let [first, second, third] = percentiles(answer).map(shown);
    [
        words::count(point.rate),
        words::count(point.achieved),
        first,
        second,
        third,
        busy(point.server_busy),
        busy(point.client_busy),
        format!("{}/{}", point.trials.held, point.trials.trials()),
    ]
}

/// What a point is: the knee, the answer, or beyond the limit.
fn marks(answer: &Answer, point: &Point) -> String {
    let knee = answer.knee == Some(point.rate);
    let is_answer = answer.rate == Some(point.rate);
    let beyond = !point.held;
    let marks = [(knee, "knee"), (is_answer, "answer"), (beyond, "beyond")];
    let named: Vec<&str> = marks
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    named.join(", ")
}

/// What the columns mean.
pub(super) const LEGEND: [&str; 4] = [
    "rate: operations started per second, by a schedule; answered: replies per second.",
    "Percentiles are of the response time, from the intended start of an operation; \"too few\": fewer than 100 samples lie beyond.",
    "server, gen.: CPU of the server and of the busiest generator thread, as shares of one CPU.",
    "held: trials that kept the limit, of all at that rate; the figures are those of the middle one. knee: from there on latency grows faster than the rate.",
];
