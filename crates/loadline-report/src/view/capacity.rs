//! The load that a target carries: sentences for the record, the curve and its table.

use loadline_measure::Metric;
use loadline_measure::capacity::{
    AgentsStep, Bound, Capacity, LimitedBy, Noise, Outcome, Point, Side, Tally, limiting_side,
};
use loadline_measure::record::Record;
use loadline_measure::words;

use super::cases::TIME;
use super::compared;
use crate::document::{
    Axis, Block, Cell, Check, CheckResult, Checks, Column, Lines, Mark, Plot, Row, RowGroup, Scale,
    Section, Series, Table, Tone, Unit,
};

/// Adds the words to the answer of a search: its notes and the evidence for its limit. Returns the findings as
/// sentences for the record: the interval, why it is not narrower, and the notes.
#[must_use]
pub fn capacity_findings(name: &str, answer: &mut Capacity) -> Vec<String> {
    answer.limited_because = limit_evidence(answer);
    let notes = [spoiled(&answer.noise), pauses(answer)];
    answer.notes = notes.into_iter().flatten().collect();
    let is_decided = answer.outcome.is_decided();
    let advice = (!is_decided).then(|| ADVICE.to_owned());
    let findings = std::iter::once(finding(name, answer)).chain(advice);
    findings.chain(answer.notes.iter().cloned()).collect()
}

/// A sentence about the complete searches by more and more load generators, which does not say what limits the load;
/// `None` without any.
#[must_use]
pub fn capacity_of_agents(steps: &[AgentsStep]) -> Option<String> {
    let (last, before) = steps.split_last()?;
    let before = before.iter().map(|step| step.agents.to_string());
    let last_agents = words::plural(last.agents, "agent");
    let numbers = before.chain([last_agents]);
    let found = steps.iter().zip(numbers);
    let found: Vec<String> = found
        .map(|(step, number)| format!("{} with {number}", words::count(step.rate)))
        .collect();
    Some(format!(
        "Searches that were complete, in operations per second: {}.",
        found.join(", ")
    ))
}

/// The answers with more and more load generators, and the side that they show to be the limit; empty for a single one.
fn of_agents(answer: &Capacity) -> String {
    let [before @ .., last] = &answer.agents[..] else {
        return String::new();
    };
    let rate = |step: &AgentsStep| words::count(step.rate);
    let before: Vec<String> = before
        .iter()
        .map(|step| format!("{} with {}", rate(step), step.agents))
        .collect();
    let before = match before.is_empty() {
        true => String::new(),
        false => format!(", after {}", before.join(" and ")),
    };
    let agents = words::plural(last.agents, "agent");
    let why = match limiting_side(&answer.agents) {
        Side::Target => "the target is the limit, not the agents",
        Side::Agents => "the agents are the limit, so add more of them",
        Side::Unknown => "which side is the limit is not decided",
    };
    format!(" {agents} carried {} together{before}: {why}.", rate(last))
}

/// The answer of a search, without a full stop.
pub(super) fn found(record: &Record, answer: &Capacity) -> String {
    let found = self::answer(record, answer);
    found.trim_end_matches('.').to_owned()
}

/// The answer of a search.
pub(super) fn answer(record: &Record, answer: &Capacity) -> String {
    let first = record.cases.first();
    let name = first.map_or("the target", |case| &case.subject.name);
    finding(name, answer)
}

fn finding(name: &str, answer: &Capacity) -> String {
    let found = match (answer.rate, answer.outcome) {
        (Some(rate), Outcome::Confirmed) => carried(name, answer, rate),
        (_, Outcome::NeverHeld) => not_held(name, answer),
        _ => bounded(name, answer),
    };
    found + &of_agents(answer)
}

/// A search passes where it has a confirmed answer, and fails where no rate keeps the limit.
pub(super) fn result(answer: &Capacity) -> CheckResult {
    if answer.is_confirmed() {
        CheckResult::Passed
    } else if answer.rate.is_none() && !compared::is_open(answer) {
        CheckResult::Failed("capacity")
    } else {
        CheckResult::Skipped
    }
}

fn limit(answer: &Capacity) -> String {
    let limit = words::span_or_duration(answer.slo.limit_ns);
    format!("{} < {limit}", answer.slo.metric.name())
}

fn carried(name: &str, answer: &Capacity, rate: f64) -> String {
    let percentile = answer.slo.metric.name();
    let limit = words::span_or_duration(answer.slo.limit_ns);
    let at = answer
        .value_ns
        .map(|value| format!(", where it is {}", words::duration(value)))
        .unwrap_or_default();
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
    let tally = answer.confirmations;
    let end = match answer.interval().1 {
        Some(end) => words::count(end),
        None => "no upper bound".to_owned(),
    };
    format!(
        "{name} carries {} operations per second [{}, {end}] with {percentile} below {limit}{at} (held in {} of {} trials){above}. {}.",
        words::count(rate),
        words::count(rate),
        tally.held,
        tally.counted(),
        limit_sentence(answer)
    )
}

fn not_held(name: &str, answer: &Capacity) -> String {
    let percentile = answer.slo.metric.name();
    let limit = words::span_or_duration(answer.slo.limit_ns);
    let Some(lowest) = answer.curve.first() else {
        return format!("{name}: no rate was tried, so nothing is known about {percentile}.");
    };
    format!(
        "{name} does not keep {percentile} below {limit} at any rate that was tried: at the lowest, {} operations per second, it is {}.",
        words::count(lowest.rate),
        value(lowest)
    )
}

const ADVICE: &str = "For a narrower interval, use a quieter machine, stop other work on it, or give the search more --max-time.";

/// The interval that a search without a confirmed answer found, with the trials behind both ends, and why it is
/// no point.
fn bounded(name: &str, answer: &Capacity) -> String {
    let (limit, why) = (limit(answer), reason(answer));
    let failed = |bound: Bound| {
        let trials = words::plural(u64::from(bound.failed), "trial");
        format!("{trials} failed at {} or below", words::count(bound.rate))
    };
    let spoiled = match answer.confirmations.spoiled {
        0 => String::new(),
        spoiled => format!(", {spoiled} spoiled"),
    };
    let trials = |bound: Bound| {
        if bound.calm > 0 {
            let trials = words::plural(u64::from(bound.calm), "trial");
            return format!("the undisturbed parts of {trials} held together, no whole trial did");
        }
        let held = words::plural(u64::from(bound.held), "trial");
        format!("{held} held{spoiled}")
    };
    match (answer.lower, answer.upper, answer.interval().1) {
        (Some(lower), Some(upper), Some(end)) => format!(
            "{name} carries between {} and {} operations per second with {limit} ({}; {}). No rate was confirmed, since {why}.",
            words::count(lower.rate),
            words::count(end),
            trials(lower),
            failed(upper)
        ),
        (Some(lower), ..) => format!(
            "{name} carries at least {} operations per second with {limit} ({}). No upper bound was found, since {why}.",
            words::count(lower.rate),
            trials(lower)
        ),
        (None, Some(upper), Some(end)) => format!(
            "{name} carries less than {} operations per second with {limit} ({}). No rate was seen to hold, since {why}.",
            words::count(end),
            failed(upper)
        ),
        _ => format!("{name}: no rate was seen to keep {limit} or to miss it, since {why}."),
    }
}

/// Reason why no rate was confirmed.
fn reason(answer: &Capacity) -> String {
    let noise = &answer.noise;
    let waits = noise.pause_ns.filter(|_| noise.paused > 0).or(noise.lag_ns);
    let waits = waits
        .filter(|ns| *ns > 0)
        .map(|ns| format!(", with waits of {}", words::duration(ns as f64)))
        .unwrap_or_default();
    let count = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), words::count);
    match answer.outcome {
        Outcome::Drifted => format!(
            "this machine became slower during the search (closed loop {} at best, {} at the end)",
            count(answer.closed_loop_best),
            count(answer.closed_loop_after)
        ),
        Outcome::OutOfTime => "the time was over".to_owned(),
        Outcome::Stopped => "the search was interrupted".to_owned(),
        _ if noise.spoiled == 0 => "trials at one rate differ too much from each other".to_owned(),
        _ => format!(
            "this machine is too noisy ({} of {} trials spoiled{waits})",
            noise.spoiled, noise.trials
        ),
    }
}

/// The limit, with the figure that shows it.
fn limit_sentence(answer: &Capacity) -> String {
    let most = |of: fn(&Point) -> Option<f64>| answer.failing().filter_map(of).fold(0.0, f64::max);
    let server = whole_percent(most(|point| point.server_busy));
    let client = whole_percent(most(|point| point.client_busy));
    match answer.limited_by {
        LimitedBy::Server => {
            format!("There the server's CPU was {server} busy, so the server is the limit")
        }
        LimitedBy::Generator => format!(
            "There the generator's thread was {client} busy, so the generator is the limit and the server may carry more"
        ),
        LimitedBy::Host => format!(
            "There the generator waited for a CPU in {} of its time: server and generator share CPUs, so a server with CPUs of its own may carry more",
            whole_percent(most(|point| point.waited))
        ),
        LimitedBy::Network => format!(
            "There operations were left waiting while the server's CPU was {server} and the generator's thread {client} busy, so the path between them or the number of connections is the limit"
        ),
        LimitedBy::Tail => format!(
            "There the server's CPU was {server} and the generator's thread {client} busy: neither is saturated, and operations beyond the limit wait behind bursts of arrivals or pauses of the server"
        ),
        LimitedBy::Noise => "There the machine was disturbed".to_owned(),
        LimitedBy::Unknown => {
            "The server's CPU time is not known, so the limit is unknown too".to_owned()
        }
        LimitedBy::NotReached => "No higher rate was seen to fail".to_owned(),
    }
}

/// The figures behind the limit.
fn limit_evidence(answer: &Capacity) -> String {
    let percent = |of: fn(&Point) -> Option<f64>| {
        let most = answer.failing().filter_map(of).reduce(f64::max);
        most.map_or_else(|| "unknown".to_owned(), whole_percent)
    };
    match answer.limited_by {
        LimitedBy::Noise => {
            let noise = &answer.noise;
            format!("{} of {} trials were spoiled", noise.spoiled, noise.trials)
        }
        LimitedBy::Unknown if !answer.outcome.is_decided() => {
            "the search ended before its trials decided".to_owned()
        }
        LimitedBy::NotReached => "no higher rate was tried".to_owned(),
        LimitedBy::Host => {
            let waited = percent(|point| point.waited);
            format!("the generator waited for a CPU in {waited} of its time")
        }
        _ => format!(
            "server CPU {}, generator thread {}",
            percent(|point| point.server_busy),
            percent(|point| point.client_busy)
        ),
    }
}

/// The spoiled trials by the disturbance that spoiled them.
fn spoiled(noise: &Noise) -> Option<String> {
    let ms = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e6;
    let causes = [
        (
            noise.paused,
            format!("pauses of a CPU ({:.1} ms)", ms(noise.pause_ns)),
        ),
        (
            noise.contended,
            format!(
                "other processes ({:.0} % of a CPU)",
                noise.others.unwrap_or(0.0) * 100.0
            ),
        ),
        (
            noise.late,
            format!(
                "a generator that was not busy and yet {:.1} ms late",
                ms(noise.lag_ns)
            ),
        ),
        (
            noise.slower,
            "a machine that was slower than before".to_owned(),
        ),
    ];
    let causes = causes.iter().filter(|(count, _)| *count > 0);
    let causes: Vec<String> = causes
        .map(|(count, cause)| format!("{count} by {cause}"))
        .collect();
    (noise.spoiled > 0).then(|| {
        format!(
            "{} of {} trials missed the limit while the machine was disturbed, and were not counted: {}.",
            noise.spoiled,
            noise.trials,
            causes.join(", ")
        )
    })
}

fn pauses(answer: &Capacity) -> Option<String> {
    let noise = &answer.noise;
    let machines = match answer.agents.is_empty() {
        true => "this machine",
        false => "the machines of agents",
    };
    (noise.paused > 0).then(|| {
        format!(
            "CPUs of {machines} did not run {:.1} times per second. Operations that are due during a pause are answered late, so the answer describes the time between pauses.",
            noise.pauses_per_s
        )
    })
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
fn percentiles(answer: &Capacity) -> [Metric; 3] {
    match answer.slo.metric {
        Metric::P50 | Metric::P99 | Metric::P999 => [Metric::P50, Metric::P99, Metric::P999],
        other => [other, Metric::P99, Metric::P999],
    }
}

/// A percentile of a point, in nanoseconds.
fn percentile(answer: &Capacity, point: &Point, metric: Metric) -> Option<f64> {
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
pub(super) fn section(answer: &Capacity) -> Option<Section> {
    if answer.curve.is_empty() {
        return None;
    }
    let blocks = vec![
        Block::Plot(Plot::Lines(plot(answer))),
        Block::Table(table(answer)),
    ];
    Section::new("Response time by rate", blocks)
}

fn plot(answer: &Capacity) -> Lines {
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
    if answer.rate.is_none() {
        mark("at least", answer.lower.map(|lower| lower.rate));
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

fn table(answer: &Capacity) -> Table {
    let [first, second, third] = percentiles(answer).map(Metric::name);
    let counts = counts(answer);
    let counts = || counts.iter().copied();
    let mut columns = vec![
        Column::figure("rate", 0),
        Column::figure("answered", 3),
        Column::figure(first, 0),
        Column::figure(second, 0),
        Column::figure(third, 0),
        Column::figure("server", 1),
        Column::figure("gen.", 2),
    ];
    columns.extend(counts().map(|(name, _)| Column::figure(name, 0)));
    columns.push(Column::text("", 0));
    let rows = answer.curve.iter().map(|point| {
        let tone = if answer.rate == Some(point.rate) {
            Tone::Good
        } else if point.held || point.trials.counted() == 0 {
            Tone::Plain
        } else {
            Tone::Warn
        };
        let mut cells: Vec<Cell> = cells(answer, point).map(Cell::from).into();
        cells.extend(counts().map(|(_, of)| Cell::from(of(&point.trials).to_string())));
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

/// The limit as one check: failed where no rate keeps it, inconclusive where there is no answer, or where the
/// search was cut short.
pub(super) fn checks(record: &Record, answer: &Capacity) -> Checks {
    let subject = record.cases.first().map(|case| case.subject.name.as_str());
    let figure = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |v| v.to_string());
    let check = Check {
        name: answer.slo.to_string(),
        class: "capacity".to_owned(),
        result: match record.run.cut_short {
            true => CheckResult::Skipped,
            false => result(answer),
        },
        message: record.findings.join(" "),
        seconds: record.run.duration_ns.map(|ns| ns as f64 / 1e9),
        properties: vec![
            ("rate_ops_per_s", figure(answer.rate)),
            ("response_time_ns_of_the_limit", figure(answer.value_ns)),
            ("lower_ops_per_s", figure(answer.interval().0)),
            ("upper_ops_per_s", figure(answer.interval().1)),
            ("knee_ops_per_s", figure(answer.knee)),
            ("closed_loop_ops_per_s", answer.closed_loop.to_string()),
            ("confirmations_held", answer.confirmations.held.to_string()),
            ("confirmations", answer.confirmations.counted().to_string()),
        ],
    };
    Checks {
        name: format!("capacity of {}", subject.unwrap_or("target")),
        checks: vec![check],
        shown: false,
    }
}

/// The cells of a point, in the order of the columns.
fn cells(answer: &Capacity, point: &Point) -> [String; 7] {
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
    ]
}

/// A column of trials: its name, and the count of a rate.
type Count = (&'static str, fn(&Tally) -> u32);

/// The columns of trials; a search without spoiled ones has none for them.
fn counts(answer: &Capacity) -> Vec<Count> {
    let all: [Count; 3] = [
        ("held", |tally| tally.held),
        ("failed", |tally| tally.failed),
        ("spoiled", |tally| tally.spoiled),
    ];
    let is_spoiled = answer.curve.iter().any(|point| point.trials.spoiled > 0);
    all[..if is_spoiled { 3 } else { 2 }].to_vec()
}

/// Marks of a point: the knee, the answer or the lower bound, or beyond the limit.
fn marks(answer: &Capacity, point: &Point) -> String {
    let knee = answer.knee == Some(point.rate);
    let is_answer = answer.rate == Some(point.rate);
    let beyond = point.trials.lead() < 0;
    let is_lower =
        answer.rate.is_none() && answer.lower.is_some_and(|bound| bound.rate == point.rate);
    let marks = [
        (knee, "knee"),
        (is_answer, "answer"),
        (is_lower, "at least"),
        (beyond, "beyond"),
    ];
    let named: Vec<&str> = marks
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    named.join(", ")
}

/// Legend of the columns.
pub(super) const LEGEND: [&str; 4] = [
    "rate: operations started per second, by a schedule; answered: replies per second.",
    "Percentiles are of the response time, from the intended start of an operation; \"too few\": fewer than 100 samples lie beyond.",
    "server, gen.: CPU of the server and of the busiest generator thread, as shares of one CPU.",
    "held, failed: trials that kept the limit, and that did not; the figures are those of the middle one. spoiled: it did not, but a disturbance of the machine can be the reason. knee: from there on latency grows faster than the rate.",
];
