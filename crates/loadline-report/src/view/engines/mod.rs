//! The comparison of engines, one section for each class of durability.

mod needs;

use loadline_measure::engines::{Engines, Footprint, Operation, SocketShare, socket_share};
use loadline_measure::record::{Case, Record};
use loadline_measure::{Metric, words};

use super::cases::{self, shown};
use super::compared::ratio_of;
use crate::document::{
    Block, Cell, Column, Item, Plot, Row, RowGroup, Section, Table, Time, Times, Tone,
};

/// Legend of the tables.
pub(super) const LEGEND: [&str; 9] = [
    "memory: nothing survives the process. process: acknowledged writes survive kill -9. interval:T: synced every T. always: synced before a call returns.",
    "time/op is the time in calls over the operations; in a batch each operation takes as long as the call, and percentiles show that. CPU us/op: of the caller + of the engine's own threads or server.",
    "caches of: the budget for the cache of each of redb, fjall, RocksDB and SQLite. LMDB reads through the page cache of the system, map keeps all data in memory, and store every key and every value below 4 KiB.",
    "A single read of LMDB, redb and SQLite opens a transaction; their batch get performs all of its reads in one.",
    "p99/p50, for sustained put: how much longer than usual the slowest of a hundred operations takes.",
    "null is a server that replies and does no work: its time over that of a server is the share of the socket.",
    "The ratio is throughput over that of the reference in the same round: the median over rounds, with its interval. More is faster.",
    "w-amp: write amplification, the bytes written to storage over those written to the engine.",
    "allocs: calls of malloc, calloc and realloc per get/put/delete.",
];

/// The answer, without a full stop; `None` if the measurement has none for the first need.
pub(super) fn found(record: &Record, engines: &Engines) -> Option<String> {
    let needs = needs::needs(&record.cases, engines);
    let first = needs.first()?;
    Some(first.trim_end_matches('.').to_owned())
}

/// The needs, a table for each class and value size, the footprints, and the plots.
pub(super) fn sections(record: &Record, engines: &Engines) -> Vec<Option<Section>> {
    let items = |sentences: Vec<String>| {
        let sentences = sentences.iter();
        sentences.map(|text| Item::new(Tone::Plain, text)).collect()
    };
    let needs = items(needs::needs(&record.cases, engines));
    let claims = items(needs::claims(&record.cases, engines));
    let mut sections = vec![
        Section::new("By need", vec![Block::List(needs)]),
        Section::new("The claims of the write-up", vec![Block::List(claims)]),
    ];
    // A table has a row for each engine and operation: too much to be read from its beginning to its end.
    let tables = stages(record).into_iter();
    let tables = tables.map(|stage| section(record, engines, &stage).map(Section::fold));
    sections.extend(tables);
    sections.push(footprints(&engines.footprints));
    sections.push(pictures(record));
    sections
}

/// A plot for each operation.
fn pictures(record: &Record) -> Option<Section> {
    let plots = plots(record).into_iter();
    let plots: Vec<Block> = plots.map(|plot| Block::Plot(Plot::Times(plot))).collect();
    Section::new("Time per operation", plots).map(Section::fold)
}

/// The time of every operation by engine. A colour is a class, since only engines of one class compare.
fn plots(record: &Record) -> Vec<Times> {
    let mut classes: Vec<&str> = Vec::new();
    let mut plots: Vec<Times> = Vec::new();
    for case in &record.cases {
        let class = class(case);
        let colour = match classes.iter().position(|known| *known == class) {
            Some(colour) => colour,
            None => {
                classes.push(class);
                classes.len() - 1
            }
        };
        let caption = format!(
            "{}, {}: time per operation (line: fastest to slowest round)",
            operation(case),
            words::value_size(&case.scenario.value_bytes)
        );
        let row = time(case, class, colour);
        let place = plots.iter().position(|plot| plot.caption == caption);
        let plot = match place {
            Some(place) => &mut plots[place],
            None => {
                plots.push(Times {
                    caption,
                    key: Vec::new(),
                    rows: Vec::new(),
                });
                plots.last_mut().expect("one was added")
            }
        };
        let entry = (colour, class.to_owned());
        if !plot.key.contains(&entry) {
            plot.key.push(entry);
        }
        plot.rows.push(row);
    }
    for plot in &mut plots {
        plot.rows.sort_by_key(|row| row.colour);
    }
    plots
}

fn time(case: &Case, class: &str, colour: usize) -> Time {
    let per_op = |duration_ns: u64, ops: u64| duration_ns as f64 / ops.max(1) as f64;
    let ns = per_op(case.duration_ns, case.ops);
    let rounds = case.rounds.iter().filter(|round| round.ops > 0);
    let rounds = rounds.map(|round| per_op(round.duration_ns, round.ops));
    let (lo_ns, hi_ns) = rounds.fold((ns, ns), |(lo, hi), ns| (lo.min(ns), hi.max(ns)));
    let name = &case.subject.name;
    Time {
        label: format!("{name}, {class}"),
        title: format!("{name}, {class}: {}", words::duration(ns)),
        colour,
        ns,
        lo_ns,
        hi_ns,
    }
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
    let (_, first) = stage.first()?;
    let scenario = &first.scenario;
    let budget = engines.memory_bytes.map(|bytes| {
        let exceeding = engines.live_bytes.filter(|live| *live > bytes);
        let data = exceeding.map(|live| {
            let times = words::ratio(live as f64 / bytes.max(1) as f64);
            format!(", exceeded {times} by the data")
        });
        format!(
            "; caches of {}{}",
            words::bytes(bytes),
            data.unwrap_or_default()
        )
    });
    let heading = format!(
        "Durability {}, {}, {} keys {}{}",
        class(first),
        words::value_size(&scenario.value_bytes),
        words::amount(scenario.keys),
        scenario.key_dist,
        budget.unwrap_or_default()
    );
    // A writer waits for room only in sustained writes, and a page of 80 columns has no room for more.
    let is_sustained = |place: &usize| engines.operation(*place) == Some(&Operation::SustainedPut);
    let has_tails = stage.iter().any(|(place, _)| is_sustained(place));
    let mut columns = vec![
        Column::text("engine", 0),
        Column::text("class", 0),
        Column::figure("time/op", 0),
        Column::figure("ops/s", 0),
        Column::figure(format!("vs {}", engines.reference), 0),
        Column::figure("p99", 1),
        Column::figure("CPU us/op", 2),
    ];
    if has_tails {
        columns.push(Column::figure("p99/p50", 3));
    }
    let mut groups: Vec<RowGroup> = Vec::new();
    for (place, case) in stage {
        let title = operation(case);
        let mut row = row(record, *place, case);
        let opens = engines.transaction_per_read.contains(&case.subject.name);
        let together = opens.then(|| reads_together(engines, stage, *place, case));
        let together = together.flatten();
        row.notes.splice(0..0, together);
        if has_tails {
            let tail = is_sustained(place).then(|| tail(case)).flatten();
            row.cells.push(shown(tail));
        }
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

/// The note on a single read that opens a transaction, with the time of a read of a batch in one transaction.
fn reads_together(engines: &Engines, stage: &Stage<'_>, place: usize, case: &Case) -> Option<Item> {
    if engines.operation(place) != Some(&Operation::Get) {
        return None;
    }
    let batch = stage.iter().find(|(place, other)| {
        engines.operation(*place) == Some(&Operation::BatchGet) && other.subject == case.subject
    });
    let together = batch.map_or_else(String::new, |(_, batch)| {
        let ns = batch.duration_ns as f64 / batch.ops.max(1) as f64;
        let size = words::amount(batch.scenario.batch);
        format!("; {size} in one take {} each", words::duration(ns))
    });
    let text = format!("each get opens a transaction{together}");
    Some(Item::new(Tone::Faint, text))
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
    let socket = socket_share(&record.cases, case);
    let socket = socket.map(|share| {
        let text = match share {
            SocketShare::Of(share) => {
                format!("the socket takes {} of the time", words::percent(share))
            }
            SocketShare::Inseparable => {
                "this server and a null server cannot be told apart".to_owned()
            }
        };
        Item::new(Tone::Faint, text)
    });
    Row {
        cells: vec![
            case.subject.name.as_str().into(),
            class(case).into(),
            words::duration(time).into(),
            words::count(case.throughput_ops_per_s).into(),
            ratio.map_or_else(|| Cell::new(Tone::Faint, "-"), |told| ratio_of(told).into()),
            cases::percentile(case.response_time_ns.p99),
            cpu.into(),
        ],
        notes: socket.into_iter().chain(cases::notes(case)).collect(),
        ..Row::default()
    }
}

/// The class of durability.
fn class(case: &Case) -> &str {
    case.scenario.durability.as_deref().unwrap_or("unknown")
}

/// Ratio of the 99th percentile to the median.
fn tail(case: &Case) -> Option<String> {
    let times = &case.response_time_ns;
    let (median, p99) = (times.p50?, times.p99?);
    Some(words::ratio(p99 as f64 / (median as f64).max(1.0)))
}

/// Disk and memory of each engine.
fn footprints(footprints: &[Footprint]) -> Option<Section> {
    let columns = vec![
        Column::text("engine", 0),
        Column::text("class", 0),
        Column::figure("memory", 0),
        Column::figure("disk", 2),
        Column::figure("disk/live", 0),
        Column::figure("w-amp", 1),
        Column::figure("open", 0),
        Column::figure("lost", 1),
        Column::figure("allocs", 3),
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
            footprint.durability.as_str().into(),
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
