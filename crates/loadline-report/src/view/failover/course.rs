//! Time lines: the course of the load around each fault.

use loadline_measure::failover::{Timeline, Trial};
use loadline_measure::words;

use crate::document::{
    self, Axis, Block, Cell, Column, Mark, Panel, Plot, Row, RowGroup, Scale, Section, Strip,
    Table, Unit,
};

/// Kinds of errors with a colour of their own; the others are shown together.
const MOST_KINDS: usize = 3;
/// Colours of writes and of response times; errors have those between.
const WRITES: usize = 0;
const MEDIAN: usize = 4;
const LONGEST: usize = 5;

/// One time line for each fault.
pub(super) fn section(trials: &[Trial]) -> Option<Section> {
    let trials = trials
        .iter()
        .filter(|trial| !trial.timeline.acknowledged.is_empty());
    let plots: Vec<Block> = trials
        .map(|trial| Block::Plot(Plot::Timeline(of_trial(trial))))
        .collect();
    if plots.is_empty() {
        return None;
    }
    Section::new("Course of the load", plots)
}

fn of_trial(trial: &Trial) -> document::Timeline {
    let line = &trial.timeline;
    let strips = strips(line);
    document::Timeline {
        caption: trial.name(),
        interval_ns: line.interval_ns as f64,
        table: table(trial, &strips),
        panels: panels(strips),
        marks: marks(trial),
    }
}

/// Writes per second, errors per second by kind, and response times.
struct Strips {
    writes: Strip,
    errors: Vec<Strip>,
    times: Vec<Strip>,
}

fn strips(line: &Timeline) -> Strips {
    let per_second = |counts: &[u64]| {
        let seconds = line.interval_ns as f64 / 1e9;
        counts
            .iter()
            .map(|count| Some(*count as f64 / seconds))
            .collect()
    };
    let times = |all: &[Option<u64>]| all.iter().map(|ns| ns.map(|ns| ns as f64)).collect();
    let strip = |label: &str, colour, values| Strip {
        label: label.to_owned(),
        colour,
        values,
    };
    let errors = kinds(line).into_iter().enumerate();
    let errors = errors
        .map(|(place, (kind, counts))| strip(&kind, 1 + place % MOST_KINDS, per_second(&counts)));
    Strips {
        writes: strip("acked", WRITES, per_second(&line.acknowledged)),
        errors: errors.collect(),
        times: vec![
            strip("median", MEDIAN, times(&line.response_p50_ns)),
            strip("longest", LONGEST, times(&line.response_max_ns)),
        ],
    }
}

/// The most frequent kinds of errors, and all others together.
fn kinds(line: &Timeline) -> Vec<(String, Vec<u64>)> {
    let sum = |counts: &[u64]| counts.iter().copied().fold(0, u64::saturating_add);
    let mut kinds: Vec<(String, Vec<u64>)> = line
        .errors
        .iter()
        .map(|(kind, counts)| (kind.clone(), counts.clone()))
        .collect();
    kinds.sort_by_key(|(kind, counts)| (std::cmp::Reverse(sum(counts)), kind.clone()));
    if kinds.len() > MOST_KINDS {
        let others = kinds.split_off(MOST_KINDS - 1);
        let mut together = vec![0_u64; line.acknowledged.len()];
        for (_, counts) in &others {
            for (all, count) in together.iter_mut().zip(counts) {
                *all = all.saturating_add(*count);
            }
        }
        kinds.push(("other errors".to_owned(), together));
    }
    kinds
}

fn panels(strips: Strips) -> Vec<Panel> {
    let axis = |name, scale, unit| Axis { name, scale, unit };
    let mut panels = vec![Panel {
        axis: axis("writes per second", Scale::Linear, Unit::Count),
        strips: vec![strips.writes],
    }];
    if !strips.errors.is_empty() {
        panels.push(Panel {
            axis: axis("errors per second", Scale::Linear, Unit::Count),
            strips: strips.errors,
        });
    }
    panels.push(Panel {
        axis: axis("response time", Scale::Log, Unit::Time),
        strips: strips.times,
    });
    panels
}

/// The fault, and what followed it.
fn marks(trial: &Trial) -> Vec<Mark> {
    let clocks = &trial.clocks;
    let events = [
        ("fault", Some(0)),
        ("fault ends", clocks.fault_end_ns),
        ("ready", clocks.ready_ns),
        ("first write", clocks.first_write_ns),
        ("pool", clocks.pool_recovery_ns),
    ];
    let marks = events.into_iter().filter_map(|(label, since_fault)| {
        Some(Mark {
            is_level: false,
            at: clocks.fault_ns.saturating_add(since_fault?) as f64,
            label: label.to_owned(),
        })
    });
    marks.collect()
}

fn table(trial: &Trial, strips: &Strips) -> Table {
    let line = &trial.timeline;
    let mut columns = vec![Column::text("from", 0), Column::figure("acked/s", 0)];
    let errors = strips.errors.iter();
    columns.extend(errors.map(|strip| Column::figure(format!("{}/s", strip.label), 0)));
    columns.extend(
        strips
            .times
            .iter()
            .map(|strip| Column::figure(strip.label.as_str(), 0)),
    );
    let count = |strip: &Strip, place: usize| {
        let value = strip.values.get(place).copied().flatten();
        Cell::from(value.map_or_else(String::new, words::count))
    };
    let time = |strip: &Strip, place: usize| {
        let value = strip.values.get(place).copied().flatten();
        Cell::from(value.map_or_else(|| "-".to_owned(), words::duration))
    };
    let rows = (0..line.acknowledged.len()).map(|place| {
        let from = words::span_or_duration(line.interval_ns as f64 * place as f64);
        let mut cells = vec![Cell::from(from), count(&strips.writes, place)];
        cells.extend(strips.errors.iter().map(|strip| count(strip, place)));
        cells.extend(strips.times.iter().map(|strip| time(strip, place)));
        Row {
            cells,
            ..Row::default()
        }
    });
    Table {
        caption: format!("Course of the load: {}", trial.name()),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows: rows.collect(),
        }],
    }
}
