//! Cases of measured targets: one table over all scenarios, and the plots of each.

use loadline_measure::record::{Case, Record, SubjectKind};
use loadline_measure::{Histogram, LatencySummary, words};

use super::compared;
use super::groups::{Group, groups};
use crate::document::{
    Axis, Block, Cell, Column, Distribution, Item, Lines, Plot, Row, RowGroup, Scale, Section,
    Series, Spread, Table, Tone, Unit,
};

/// A title names as many workloads and targets as this.
const MOST_NAMED: usize = 3;
/// An error kind beyond this is not named.
const MOST_KINDS: usize = 4;
/// A plot over time of fewer intervals shows nothing.
const FEWEST_INTERVALS: usize = 3;

pub(super) const TIME: Axis = Axis {
    name: "",
    scale: Scale::Log,
    unit: Unit::Time,
};

/// The subject of a case, without the call mode that a sweep adds to it.
fn place(case: &Case) -> &str {
    let name = case.subject.name.as_str();
    let target = name.strip_suffix(case.scenario.mode.as_str());
    let target = target.and_then(|target| target.strip_suffix(", "));
    target.unwrap_or(name)
}

/// Title of a record: workloads on targets.
pub(super) fn title(record: &Record) -> String {
    let listed = |names: Vec<&str>| {
        let mut known: Vec<&str> = Vec::new();
        for name in names {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        let more = known.len().saturating_sub(MOST_NAMED);
        let mut text = known[..known.len() - more].join(", ");
        if more > 0 {
            text += &format!(" and {more} more");
        }
        text
    };
    let cases = || record.cases.iter();
    if record.cases.is_empty() {
        return "Nothing measured".to_owned();
    }
    let workloads = listed(
        cases()
            .map(|case| case.scenario.workload.as_str())
            .collect(),
    );
    let measured = cases().filter(|case| case.subject.kind != SubjectKind::NullServer);
    let subjects = listed(measured.map(place).collect());
    let place = if subjects.is_empty() {
        String::new()
    } else {
        format!(" on {subjects}")
    };
    format!("{workloads}{place}")
}

/// Explanations of the table.
pub(super) fn legend(record: &Record) -> Vec<&'static str> {
    let mut lines = Vec::new();
    if record.cases.is_empty() {
        return lines;
    }
    lines.push("CPU us/op: CPU time of the generator + of the server per operation.");
    let open = |case: &Case| case.is_open_loop();
    if record.cases.iter().any(open) {
        lines.push("Percentiles are of the response time, from the intended start of an operation; service time counts from its sending, lag is the generator's own.");
    }
    if !record.cases.iter().all(open) {
        lines.push("A closed loop waits for replies before it sends more: it shows capacity. For claims about response times use --rate.");
    }
    lines
}

/// The table of all cases, what is known about pairs of them, and the plots.
pub(super) fn sections(record: &Record) -> Vec<Option<Section>> {
    let groups = groups(record);
    if groups.is_empty() {
        return Vec::new();
    }
    let shared = shared_conditions(&groups);
    let mut blocks = Vec::new();
    if !shared.is_empty() {
        let text = format!("All cases: {}.", shared.join(", "));
        blocks.push(Block::Sentence(Tone::Plain, text));
    }
    blocks.push(Block::Table(table(record, &groups, &shared)));
    let plots = groups
        .iter()
        .flat_map(|group| plots(group, &group_title(group, &shared)));
    blocks.extend(plots.map(Block::Plot));
    blocks.extend(compared::ratios(record).map(Block::Plot));
    let mut sections = vec![Section::new("Results", blocks)];
    // A judgement shows its pairs itself.
    if record.judgement.is_none() {
        sections.push(compared::of_pairs(record, |group| {
            group_title(group, &shared)
        }));
    }
    sections
}

/// The conditions that all groups share, to be stated once.
fn shared_conditions(groups: &[Group<'_>]) -> Vec<String> {
    let Some((first, others)) = groups.split_first() else {
        return Vec::new();
    };
    let everywhere = |part: &&String| others.iter().all(|group| group.conditions.contains(part));
    let shared = first.conditions.iter().filter(everywhere);
    shared.cloned().collect()
}

/// The workload of a group, and those of its conditions that not all groups share.
fn group_title(group: &Group<'_>, shared: &[String]) -> String {
    let own = group.conditions.iter().map(String::as_str);
    let own = own.filter(|part| !shared.iter().any(|known| known == part));
    let parts: Vec<&str> = std::iter::once(group.workload).chain(own).collect();
    parts.join(", ")
}

fn table(record: &Record, groups: &[Group<'_>], shared: &[String]) -> Table {
    let columns = vec![
        Column::text("target", 0),
        Column::figure("ops/s", 0),
        Column::figure("p50", 0),
        Column::figure("p99", 2),
        Column::figure("p99.9", 3),
        Column::figure("CPU us/op", 4),
    ];
    let groups = groups.iter().map(|group| RowGroup {
        title: group_title(group, shared),
        rows: group
            .cases
            .iter()
            .enumerate()
            .flat_map(|(colour, (_, case))| rows(case, colour))
            .collect(),
    });
    let title = title(record);
    Table {
        caption: format!("Throughput and response times: {title}"),
        columns,
        groups: groups.collect(),
    }
}

/// A case; of an open loop its service time and the generator's lag too.
fn rows(case: &Case, colour: usize) -> Vec<Row> {
    let cost = &case.cost;
    let cpu = match (cost.client_cpu_ns_per_op, cost.server_cpu_ns_per_op) {
        (None, None) => "-".to_owned(),
        (client, server) => format!("{}+{}", words::cpu_us(client), words::cpu_us(server)),
    };
    let row = |name: &str, rate: String, times: &LatencySummary, cpu: String| {
        let [p50, p99, p999] = [times.p50, times.p99, times.p999].map(percentile);
        vec![name.into(), rate.into(), p50, p99, p999, cpu.into()]
    };
    let rate = words::count(case.throughput_ops_per_s);
    let mut rows = vec![Row {
        cells: row(&case.subject.name, rate, &case.response_time_ns, cpu),
        notes: notes(case),
        colour: Some(colour),
        ..Row::default()
    }];
    if case.is_open_loop() {
        let parts = [
            ("service time", Some(&case.service_time_ns)),
            ("generator lag", case.lag_ns.as_ref()),
        ];
        rows.extend(parts.into_iter().filter_map(|(name, times)| {
            Some(Row {
                cells: row(name, String::new(), times?, String::new()),
                is_part: true,
                ..Row::default()
            })
        }));
        // Notes about the case are printed below all of its rows.
        let notes = std::mem::take(&mut rows[0].notes);
        if let Some(last) = rows.last_mut() {
            last.notes = notes;
        }
    }
    rows
}

/// A figure, or a dash where it was not measured.
pub(super) fn shown(text: Option<String>) -> Cell {
    text.map_or_else(|| Cell::new(Tone::Faint, "-"), Cell::from)
}

pub(super) fn percentile(ns: Option<u64>) -> Cell {
    let tone = if ns.is_none() {
        Tone::Faint
    } else {
        Tone::Plain
    };
    Cell::new(tone, words::percentile(ns))
}

/// Remarks to read before the figures of a case; usually none.
pub(super) fn notes(case: &Case) -> Vec<Item> {
    let mut notes = Vec::new();
    let errors = case.error_count();
    if errors > 0 {
        let kinds = case.errors.iter().take(MOST_KINDS);
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        let more = if case.errors.len() > kinds.len() {
            ", ..."
        } else {
            ""
        };
        let share = words::percent(errors as f64 / case.ops.max(1) as f64);
        let text = format!(
            "{} of {} operations ({share}): {}{more}",
            words::plural(errors, "error"),
            case.ops,
            kinds.join(", ")
        );
        notes.push(Item::new(Tone::Bad, text));
    }
    let mut warn = |text: String| notes.push(Item::new(Tone::Warn, text));
    if let Some(hits) = case.hit_ratio.filter(|hits| *hits < 1.0) {
        warn(format!("{} of the reads hit", words::percent(hits)));
    }
    if let Some((not_sent, planned)) = case.not_sent.zip(case.planned).filter(|sent| sent.0 > 0) {
        warn(format!(
            "{not_sent} of {planned} planned operations were not sent"
        ));
    }
    if !case.steady {
        warn("no steady state".to_owned());
    }
    notes.extend(tail(case).map(|text| Item::new(Tone::Faint, text)));
    notes
}

/// The tail of operations run one at a time next to the load, with and without the waiting for a CPU.
fn tail(case: &Case) -> Option<String> {
    let tail = case.tail?;
    let [raw, corrected] = [tail.raw.p99, tail.corrected.p99].map(words::percentile);
    let count = tail.raw.count;
    Some(if tail.raw.p99.is_some() {
        format!(
            "tail of one connection: p99 {raw} raw, {corrected} without waiting for a CPU ({count} operations)"
        )
    } else {
        format!("tail of one connection: {count} operations are too few for a p99")
    })
}

fn plots(group: &Group<'_>, title: &str) -> Vec<Plot> {
    let mut plots = Vec::new();
    plots.extend(spread(group, title).map(Plot::Spread));
    let lines = |what: &str, x: Axis, y: Axis, series: Vec<Series>, dots: bool| {
        let drawn = series.iter().any(|line| line.points.len() > 1);
        drawn.then(|| {
            Plot::Lines(Lines {
                caption: format!("{title}: {what}"),
                x,
                y,
                series,
                marks: Vec::new(),
                dots,
                in_text: false,
            })
        })
    };
    let axis = |name, scale, unit| Axis { name, scale, unit };
    let open = group.cases.iter().any(|(_, case)| case.is_open_loop());
    let what = if open {
        "response time by percentile (dashed: service time)"
    } else {
        "response time by percentile"
    };
    let nines = axis("percentile", Scale::Nines, Unit::Count);
    plots.extend(lines(what, nines, TIME, percentiles(group), false));
    let over_time = axis("measured time", Scale::Linear, Unit::Time);
    // Short intervals have too few samples for a p99.
    let mut intervals = group.cases.iter().flat_map(|(_, case)| &case.series);
    let what = if intervals.any(|interval| interval.p99.is_some()) {
        "p99 over time (dashed: p50)"
    } else {
        "p50 over time"
    };
    plots.extend(lines(what, over_time, TIME, times(group), false));
    let count = axis("", Scale::Linear, Unit::Count);
    let what = "errors over time";
    plots.extend(lines(what, over_time, count, errors(group), false));
    let by_round = axis("round", Scale::Linear, Unit::Count);
    let what = "operations per second by round";
    plots.extend(lines(what, by_round, count, rounds(group), true));
    plots
}

/// Distributions of the response times of the cases on one axis. `None` where no case has kept its
/// histogram; one that cannot be read counts as not kept.
fn spread(group: &Group<'_>, title: &str) -> Option<Spread> {
    let rows: Vec<Distribution> = group
        .cases
        .iter()
        .enumerate()
        .map(|(colour, (_, case))| Distribution {
            label: case.subject.name.clone(),
            colour,
            histogram: case.response_histogram().ok().flatten(),
            rounds: case
                .rounds
                .iter()
                .map(|round| round.throughput_ops_per_s)
                .collect(),
        })
        .collect();
    let kept = rows.iter().filter_map(|row| row.histogram.as_ref());
    let ends = kept.filter_map(|kept| kept.value_at(0.0).zip(kept.value_at(1.0)));
    let (from_ns, to_ns) = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    Some(Spread {
        caption: format!("{title}: histogram of response times"),
        title: title.to_owned(),
        from_ns,
        to_ns,
        rows,
    })
}

fn percentiles(group: &Group<'_>) -> Vec<Series> {
    let mut series = Vec::new();
    for (colour, (_, case)) in group.cases.iter().enumerate() {
        let kept = &case.histograms;
        let mut line = |text: &str, what: &str, dashed| {
            // Unreadable histograms are not drawn; the table has the percentiles in any case.
            let Ok(histogram) = Histogram::decode(text) else {
                return;
            };
            let points = histogram.spectrum().into_iter();
            series.push(Series {
                label: format!("{}, {what}", case.subject.name),
                colour,
                dashed,
                points: points.map(|(q, ns)| (q, ns.max(1) as f64)).collect(),
            });
        };
        line(&kept.response_time, "response time", false);
        if case.is_open_loop() {
            line(&kept.service_time, "service time", true);
        }
    }
    series
}

/// The intervals of a case with their place in its measured time.
fn intervals(case: &Case) -> Vec<(f64, &loadline_measure::record::Interval)> {
    if case.series.len() < FEWEST_INTERVALS {
        return Vec::new();
    }
    let mut starts = vec![0_u64];
    for round in &case.rounds {
        starts.push(starts[starts.len() - 1].saturating_add(round.duration_ns));
    }
    let place = |interval: &loadline_measure::record::Interval| {
        let round = usize::try_from(interval.round).ok()?;
        Some(starts.get(round)?.saturating_add(interval.start_ns) as f64)
    };
    let placed = case.series.iter();
    placed
        .filter_map(|interval| Some((place(interval)?, interval)))
        .collect()
}

/// p99 and p50 over time.
fn times(group: &Group<'_>) -> Vec<Series> {
    let mut series = Vec::new();
    for (colour, (_, case)) in group.cases.iter().enumerate() {
        let intervals = intervals(case);
        let mut line =
            |what: &str, dashed, of: fn(&loadline_measure::record::Interval) -> Option<u64>| {
                let points = intervals.iter();
                let points = points.filter_map(|(at, interval)| Some((*at, of(interval)? as f64)));
                let points: Vec<(f64, f64)> = points.collect();
                if !points.is_empty() {
                    series.push(Series {
                        label: format!("{}, {what}", case.subject.name),
                        colour,
                        dashed,
                        points,
                    });
                }
            };
        line("p99", false, |interval| interval.p99);
        line("p50", true, |interval| interval.p50);
    }
    series
}

/// Errors over time, where there were any.
fn errors(group: &Group<'_>) -> Vec<Series> {
    let lines = group.cases.iter().enumerate().map(|(colour, (_, case))| {
        let points = intervals(case).into_iter();
        Series {
            label: format!("{}, errors", case.subject.name),
            colour,
            dashed: false,
            points: points
                .map(|(at, interval)| (at, interval.errors as f64))
                .collect(),
        }
    });
    let series: Vec<Series> = lines.collect();
    let some = series
        .iter()
        .flat_map(|line| &line.points)
        .any(|point| point.1 > 0.0);
    if some { series } else { Vec::new() }
}

fn rounds(group: &Group<'_>) -> Vec<Series> {
    let lines = group.cases.iter().enumerate();
    lines
        .map(|(colour, (_, case))| Series {
            label: case.subject.name.clone(),
            colour,
            dashed: false,
            points: case
                .rounds
                .iter()
                .enumerate()
                .map(|(round, of)| ((round + 1) as f64, of.throughput_ops_per_s))
                .collect(),
        })
        .collect()
}
