//! Reads while servers fail: how many were stale.

use loadline_measure::failover::{Failover, Reads, Trial};
use loadline_measure::words;

use super::shown;
use crate::document::{Block, Cell, Column, Row, RowGroup, Section, Table, Tone};

/// The stale reads of all trials, as the end of a sentence; empty without reads.
pub(super) fn found(answer: &Failover) -> String {
    if answer.reads.is_none() {
        return String::new();
    }
    let stale = super::total(answer, Trial::stale);
    let answered = super::total(answer, |trial| {
        trial.reads.as_ref().map_or(0, |reads| reads.answered)
    });
    match stale {
        0 => format!("; none of {answered} reads was stale"),
        stale => format!("; {stale} of {answered} reads were stale"),
    }
}

/// One row for each trial.
pub(super) fn section(answer: &Failover) -> Option<Section> {
    let from = answer.reads.as_ref()?;
    let heading = format!("Reads from the {from}, of the last acknowledged write of each writer");
    let rows = answer
        .trials
        .iter()
        .filter_map(|trial| Some(row(trial, trial.reads.as_ref()?)));
    let table = Table {
        caption: heading.clone(),
        columns: vec![
            Column::text("fault", 0),
            Column::figure("sent", 2),
            Column::figure("answered", 0),
            Column::figure("stale", 0),
            Column::figure("oldest", 1),
            Column::figure("failed", 0),
        ],
        groups: vec![RowGroup {
            title: String::new(),
            rows: rows.collect(),
        }],
    };
    Section::new(&heading, vec![Block::Table(table)])
}

fn row(trial: &Trial, reads: &Reads) -> Row {
    let figure = |count: u64| Cell::from(count.to_string());
    let stale = match reads.stale() {
        0 => figure(0),
        count => Cell::new(Tone::Bad, count.to_string()),
    };
    let oldest = reads
        .stale
        .map(|stale| words::duration(stale.oldest_ns as f64));
    Row {
        cells: vec![
            trial.name().into(),
            figure(reads.sent),
            figure(reads.answered),
            stale,
            shown(oldest),
            figure(reads.failed),
        ],
        ..Row::default()
    }
}
