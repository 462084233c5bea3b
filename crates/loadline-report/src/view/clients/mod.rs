//! The comparison of client libraries, one group of rows for each operation, and what they do when something fails.

mod sentences;

use loadline_measure::clients::{Behaviour, ClientRow, Clients, Ending, Fault, operation};
use loadline_measure::record::{Case, Record};
use loadline_measure::{Metric, words};

use super::cases::{self, shown};
use super::compared::ratio_of;
use crate::document::{Block, Cell, Column, Item, Row, RowGroup, Section, Table, Tone};
use sentences::Sentences;

const LEGEND: [&str; 6] = [
    "The ratio is throughput over that of the reference in the same round: the median over rounds, with its interval. More is faster.",
    "CPU us/op: of the driver's process + of the server. The loop of the driver is part of it, and it is the same for all clients of a language.",
    "cmds/read: commands that the server found in one read from a socket. A pipeline that is sent as one has many.",
    "calls/op: system calls of the driver's process per operation, counted by strace in a block of its own. memory/conn: growth of the process per connection + memory of the server for it.",
    "In a pipeline every command takes as long as its call, and percentiles show that.",
    PACING,
];
const PACING: &str = "A closed loop waits for replies before it sends more: it shows capacity. In an open loop operations are due at a rate, and p50 and p99 count from then; service p99 counts from the call, and lag p99 is how late the driver called.";
const FAULTS: &str = "With faults, clients have their default settings, and each operation is an INCR of a key of its own: a value above 1 is a write that was executed more than once.";

/// Legend of the tables.
pub(super) fn legend(clients: &Clients) -> Vec<&'static str> {
    let faults = (!clients.behaviour.is_empty()).then_some(FAULTS);
    LEGEND.into_iter().chain(faults).collect()
}

/// The answer, without a full stop; `None` if no sentence has one.
pub(super) fn found(record: &Record, clients: &Clients) -> Option<String> {
    let said = Sentences::of(&record.cases, clients);
    let first = said.advice.or_else(|| said.best.into_iter().next());
    let said: Vec<String> = first.into_iter().chain(said.faults).collect();
    let said = said.join(" ");
    (!said.is_empty()).then(|| said.trim_end_matches('.').to_owned())
}

/// The answers, the table and the behaviour.
pub(super) fn sections(record: &Record, clients: &Clients) -> Vec<Option<Section>> {
    let said = Sentences::of(&record.cases, clients);
    let others = [said.advice, said.beyond, said.faults];
    let all = said.best.into_iter().chain(others.into_iter().flatten());
    let items = all.map(|text| Item::new(Tone::Plain, &text)).collect();
    vec![
        Section::new("By operation", vec![Block::List(items)]),
        table(record, clients),
        behaviour(&clients.behaviour),
    ]
}

fn table(record: &Record, clients: &Clients) -> Option<Section> {
    let is_open = record.cases.iter().any(Case::is_open_loop);
    let columns = [
        Column::text("client", 0),
        Column::figure("ops/s", 0),
        Column::figure(format!("vs {}", clients.reference), 0),
        Column::figure("CPU us/op", 1),
        Column::figure("p50", 2),
        Column::figure("p99", 3),
    ];
    let open = ["service p99", "lag p99"].map(|head| Column::figure(head, 3));
    let others = [
        ("cmds/read", 4),
        ("calls/op", 4),
        ("memory", 5),
        ("memory/conn", 5),
    ];
    let others = others.map(|(head, drop)| Column::figure(head, drop));
    let open = open.into_iter().filter(|_| is_open);
    let columns = columns.into_iter().chain(open).chain(others).collect();
    let mut groups: Vec<RowGroup> = Vec::new();
    for (place, case) in record.cases.iter().enumerate() {
        let title = operation(&case.scenario);
        let row = row(record, clients.row(place), place, case, is_open);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(RowGroup {
                title,
                rows: vec![row],
            }),
        }
    }
    let scenario = &record.cases.first()?.scenario;
    let heading = format!(
        "Clients, {} keys, {}",
        words::amount(scenario.keys),
        words::value_size(&scenario.value_bytes)
    );
    let table = Table {
        caption: heading.clone(),
        columns,
        groups,
    };
    Section::new(&heading, vec![Block::Table(table)])
}

fn row(
    record: &Record,
    about: Option<&ClientRow>,
    place: usize,
    case: &Case,
    is_open: bool,
) -> Row {
    let cost = &case.cost;
    let cpu = match (cost.client_cpu_ns_per_op, cost.server_cpu_ns_per_op) {
        (None, None) => "-".to_owned(),
        (client, server) => format!("{}+{}", words::cpu_us(client), words::cpu_us(server)),
    };
    let told = record.comparisons.iter();
    let ratio = told
        .filter(|told| told.metric == Metric::Throughput.key())
        .find(|told| told.b == place);
    let ratio = ratio.map_or_else(|| Cell::new(Tone::Faint, "-"), |told| ratio_of(told).into());
    let mut notes = Vec::new();
    if let Some(about) = about.filter(|about| !about.is_valid) {
        let counted = about.counted.unwrap_or(0);
        let text = format!(
            "invalid: the client reported {} operations, and the server counted {}",
            words::amount(case.ops),
            words::amount(counted)
        );
        notes.push(Item::new(Tone::Bad, text));
    }
    notes.extend(cases::notes(case));
    if let Some(not_sent) = case.not_sent.filter(|count| *count > 0) {
        let text = format!(
            "{} operations that were due were not called",
            words::amount(not_sent)
        );
        notes.push(Item::new(Tone::Bad, text));
    }
    let mut cells = vec![
        case.subject.name.as_str().into(),
        words::count(case.throughput_ops_per_s).into(),
        ratio,
        cpu.into(),
        cases::percentile(case.response_time_ns.p50),
        cases::percentile(case.response_time_ns.p99),
    ];
    if is_open {
        cells.push(cases::percentile(case.service_time_ns.p99));
        cells.push(cases::percentile(
            case.lag_ns.as_ref().and_then(|lag| lag.p99),
        ));
    }
    let of = |of: fn(&ClientRow) -> Option<f64>| shown(about.and_then(of).map(words::count));
    cells.extend([
        of(|about| about.commands_per_read),
        of(|about| about.system_calls_per_op),
        shown(about.map(|about| words::bytes(about.max_rss_bytes))),
        connection(case),
    ]);
    Row {
        cells,
        notes,
        ..Row::default()
    }
}

/// The memory of a connection: that of the client + that of the server.
fn connection(case: &Case) -> Cell {
    let cost = &case.cost;
    let bytes =
        |value: Option<f64>| value.map_or("-".to_owned(), |value| words::bytes(value as u64));
    let (client, server) = (
        cost.client_bytes_per_connection,
        cost.server_bytes_per_connection,
    );
    let is_known = client.is_some() || server.is_some();
    shown(is_known.then(|| format!("{}+{}", bytes(client), bytes(server))))
}

/// One group of rows for each fault.
fn behaviour(all: &[Behaviour]) -> Option<Section> {
    if all.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("client", 0),
        Column::figure("ok", 0),
        Column::figure("refused", 2),
        Column::figure("errors", 0),
        Column::figure("twice", 0),
        Column::figure("longest call", 1),
        Column::figure("recovery", 1),
        Column::figure("memory", 3),
        Column::text("end", 0),
    ];
    let mut groups: Vec<RowGroup> = Vec::new();
    for one in all {
        let title = title(&one.fault);
        let row = behaviour_row(one);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(RowGroup {
                title,
                rows: vec![row],
            }),
        }
    }
    let table = Table {
        caption: "Behaviour with faults, at default settings".to_owned(),
        columns,
        groups,
    };
    Section::new("When something fails", vec![Block::Table(table)])
}

fn title(fault: &Fault) -> String {
    let text = match fault {
        Fault::ReplyCut => {
            "the connection is closed after a write was executed and before its reply"
        }
        Fault::Away => "the server is away for a second",
        Fault::Silent => "a connection becomes silent, and new ones work",
        Fault::Frozen => "the server is frozen",
        Fault::Loading => "the server replies with -LOADING",
        Fault::ReadOnly => "the server replies with -READONLY",
        Fault::Nested => "a reply of 200,000 nested arrays",
        Fault::HugeBulk => "a reply that declares 10 GiB, with an address space of 8 GiB",
        other => other.as_str(),
    };
    text.to_owned()
}

fn behaviour_row(one: &Behaviour) -> Row {
    let operations = &one.operations;
    let time = |ns: Option<u64>| shown(ns.map(|ns| words::duration(ns as f64)));
    // The call of a client that was stopped while it waited might have returned later.
    let longest = match (&one.ending, one.longest_call_ns) {
        (Ending::Waiting, Some(ns)) => {
            Cell::new(Tone::Bad, format!("over {}", words::duration(ns as f64)))
        }
        (_, ns) => time(ns),
    };
    let twice = match one.executed_twice {
        Some(0) => "0".into(),
        Some(count) => Cell::new(Tone::Bad, format!("{count} of {}", one.faults)),
        None => Cell::new(Tone::Faint, "-"),
    };
    let ending = match &one.ending {
        Ending::Well => Cell::new(Tone::Plain, "well"),
        other => Cell::new(Tone::Bad, other.as_str()),
    };
    let mut notes = Vec::new();
    if let Some(lost) = one.lost.filter(|lost| *lost > 0) {
        let text = format!("{lost} acknowledged writes were never executed");
        notes.push(Item::new(Tone::Bad, text));
    }
    let cause = one.cause.as_ref();
    notes.extend(cause.map(|cause| Item::new(Tone::Bad, cause.as_str())));
    Row {
        cells: vec![
            one.subject.as_str().into(),
            words::amount(operations.acknowledged).into(),
            words::amount(operations.failed).into(),
            words::amount(operations.unknown).into(),
            twice,
            longest,
            time(one.recovery_ns),
            shown(one.max_rss_bytes.map(words::bytes)),
            ending,
        ],
        notes,
        ..Row::default()
    }
}

#[cfg(test)]
mod tests;
