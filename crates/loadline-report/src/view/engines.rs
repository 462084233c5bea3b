//! Engines beside each other, one section for each class of durability.

use loadline_measure::engines::{Engines, Footprint};
use loadline_measure::record::{Case, Comparison, Record};
use loadline_measure::{Metric, words};

use super::cases;
use crate::document::{Block, Cell, Column, Item, Row, RowGroup, Section, Table, Tone};

/// How the tables are read.
pub(super) const LEGEND: [&str; 3] = [
    "memory: nothing survives the process. process: acknowledged writes survive kill -9. interval:T: synced every T. always: synced before a call returns.",
    "time/op is the time in calls over the operations; in a batch each operation takes as long as the call, and percentiles show that. CPU us/op: of the caller + of the engine's own threads or server.",
    "The ratio is throughput over that of the reference in the same round: the median over rounds, with its interval. More is faster.",
];

/// The needs, a table for each class and value size, and the footprints.
pub(super) fn sections(record: &Record, engines: &Engines) -> Vec<Option<Section>> {
    let needs = engines.needs.iter();
    let needs = needs.map(|text| Item::new(Tone::Plain, text)).collect();
    let mut sections = vec![Section::new("By need", vec![Block::List(needs)])];
    for stage in stages(record) {
        sections.push(section(record, engines, &stage));
    }
    sections.push(footprints(&engines.footprints));
    sections
}

/// The cases of one class and value size, with their places in the record.
type Stage<'r> = Vec<(usize, &'r Case)>;

fn stages(record: &Record) -> Vec<Stage<'_>> {
    let mut stages: Vec<Stage<'_>> = Vec::new();
    for (place, case) in record.cases.iter().enumerate() {
        let same = |stage: &&mut Stage<'_>| {
            let first = &stage[0].1.scenario;
            first.durability == case.scenario.durability
                && first.value_bytes == case.scenario.value_bytes
        };
        match stages.iter_mut().find(same) {
            Some(stage) => stage.push((place, case)),
            None => stages.push(vec![(place, case)]),
        }
    }
    stages
}

fn section(record: &Record, engines: &Engines, stage: &Stage<'_>) -> Option<Section> {
    let scenario = &stage.first()?.1.scenario;
    let class = scenario.durability.as_deref().unwrap_or("unknown");
    let heading = format!(
        "Durability {class}, {}, {} keys {}",
        words::value_size(&scenario.value_bytes),
        words::amount(scenario.keys),
        scenario.key_dist
    );
    let columns = vec![
        Column::text("engine", 0),
        Column::figure("time/op", 0),
        Column::figure("ops/s", 0),
        Column::figure(format!("vs {}", engines.reference), 0),
        Column::figure("p99", 1),
        Column::figure("CPU us/op", 2),
    ];
    let mut groups: Vec<RowGroup> = Vec::new();
    for (place, case) in stage {
        let title = operation(case);
        let row = row(record, *place, case);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(RowGroup {
                title,
                rows: vec![row],
            }),
        }
    }
    let table = Table {
        caption: heading.clone(),
        columns,
        groups,
    };
    Section::new(&heading, vec![Block::Table(table)])
}

/// The operation with its shape: `batch get of 100`, `concurrent put, 2 threads`.
fn operation(case: &Case) -> String {
    let scenario = &case.scenario;
    let mut text = scenario.workload.clone();
    if scenario.batch > 1 {
        text += &format!(" of {}", words::amount(scenario.batch));
    }
    if scenario.threads > 1 {
        text += &format!(", {} threads", scenario.threads);
    }
    text
}

fn row(record: &Record, place: usize, case: &Case) -> Row {
    let time = case.duration_ns as f64 / case.ops.max(1) as f64;
    let cpu = match (
        case.cost.client_cpu_ns_per_op,
        case.cost.server_cpu_ns_per_op,
    ) {
        (None, None) => "-".to_owned(),
        (client, server) => format!("{}+{}", words::cpu_us(client), words::cpu_us(server)),
    };
    let ratio = record
        .comparisons
        .iter()
        .find(|told| told.b == place && told.metric == Metric::Throughput.key());
    Row {
        cells: vec![
            case.subject.name.as_str().into(),
            words::duration(time).into(),
            words::count(case.throughput_ops_per_s).into(),
            ratio.map_or_else(|| Cell::new(Tone::Faint, "-"), ratio_cell),
            cases::percentile(case.response_time_ns.p99),
            cpu.into(),
        ],
        notes: cases::notes(case),
        ..Row::default()
    }
}

fn ratio_cell(told: &Comparison) -> Cell {
    let mut text = words::ratio(told.ratio);
    if let Some(bounds) = told.interval {
        text += &format!(
            " [{}, {}]",
            words::bound(bounds.lo),
            words::bound(bounds.hi)
        );
    }
    text.into()
}

/// What each engine takes besides time.
fn footprints(footprints: &[Footprint]) -> Option<Section> {
    let columns = vec![
        Column::text("engine", 0),
        Column::figure("memory", 0),
        Column::figure("disk", 2),
        Column::figure("disk/live", 0),
        Column::figure("written/data", 1),
        Column::figure("open", 0),
        Column::figure("lost", 1),
        Column::figure("allocs get/put/del", 3),
    ];
    let mut groups: Vec<RowGroup> = Vec::new();
    for footprint in footprints {
        let title = format!(
            "{}, {} keys, {} of keys and values",
            footprint.durability,
            words::amount(footprint.keys),
            words::bytes(footprint.live_bytes)
        );
        let row = footprint_row(footprint);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(RowGroup {
                title,
                rows: vec![row],
            }),
        }
    }
    if groups.is_empty() {
        return None;
    }
    let caption = "Memory, disk, and the time to open after kill -9".to_owned();
    let table = Table {
        caption,
        columns,
        groups,
    };
    Section::new("Besides time", vec![Block::Table(table)])
}

fn footprint_row(footprint: &Footprint) -> Row {
    let bytes = |value: Option<u64>| shown(value.map(words::bytes));
    let factor = |value: Option<f64>| shown(value.map(|value| format!("{value:.2}")));
    let allocations = footprint
        .allocations
        .map(|of| format!("{:.1}/{:.1}/{:.1}", of.get, of.put, of.delete));
    Row {
        cells: vec![
            footprint.subject.as_str().into(),
            bytes(footprint.memory_bytes),
            bytes(footprint.disk_bytes),
            factor(footprint.space()),
            factor(footprint.write_amplification()),
            shown(footprint.open_ns.map(|ns| words::duration(ns as f64))),
            shown(footprint.lost.map(words::amount)),
            shown(allocations),
        ],
        ..Row::default()
    }
}

/// A figure, or a dash where it was not measured.
fn shown(text: Option<String>) -> Cell {
    text.map_or_else(|| Cell::new(Tone::Faint, "-"), Cell::from)
}
