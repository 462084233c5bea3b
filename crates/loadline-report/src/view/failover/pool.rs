//! The pool of the writers: the order in which its callers were served, and what it left behind.

use loadline_measure::failover::{Failover, PoolUse, Trial};
use loadline_measure::words;

use super::{shown, total};
use crate::document::{Block, Cell, Column, Row, RowGroup, Section, Table, Tone};

/// Legend of the table.
pub(super) const LEGEND: [&str; 3] = [
    "waited: calls for a connection of the pool that waited for one. out of turn: calls that were served before one that had waited longer.",
    "leaked: connections that the server still had after the load and that the pool did not count; - if the server cannot know, as after a black hole.",
    "memory: resident memory of the process that holds the client, the load and its history, before and after the load.",
];

/// Leaked connections and callers that were served out of turn, as the end of a sentence; empty if there were none.
pub(super) fn found(answer: &Failover) -> String {
    let mut found = String::new();
    let leaked = total(answer, Trial::leaked);
    if leaked > 0 {
        found += &format!("; the pool leaked {}", words::plural(leaked, "connection"));
    }
    let overtaken = total(answer, Trial::out_of_turn);
    if overtaken > 0 {
        let calls = words::plural(overtaken, "call");
        found += &format!("; the pool served {calls} out of turn");
    }
    found
}

/// One row for each trial.
pub(super) fn section(answer: &Failover) -> Option<Section> {
    let rows = answer.trials.iter();
    let rows = rows.filter_map(|trial| Some(row(trial, &trial.pool?)));
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let heading = "The pool: order of waiting calls, leaked connections, memory of the process";
    let table = Table {
        caption: heading.to_owned(),
        columns: vec![
            Column::text("fault", 0),
            Column::figure("waited", 0),
            Column::figure("out of turn", 0),
            Column::figure("leaked", 0),
            Column::figure("memory before", 1),
            Column::figure("after", 1),
        ],
        groups: vec![RowGroup {
            title: String::new(),
            rows,
        }],
    };
    Section::new(heading, vec![Block::Table(table)])
}

fn row(trial: &Trial, pool: &PoolUse) -> Row {
    let bad = |count: u64| match count {
        0 => Cell::from("0"),
        count => Cell::new(Tone::Bad, count.to_string()),
    };
    let bytes = |bytes: Option<u64>| shown(bytes.map(words::bytes));
    Row {
        cells: vec![
            trial.name().into(),
            pool.waited.to_string().into(),
            bad(pool.out_of_turn),
            pool.leaked.map_or_else(|| shown(None), bad),
            bytes(pool.memory_before_bytes),
            bytes(pool.memory_after_bytes),
        ],
        ..Row::default()
    }
}
