//! The load generators of a merged record, beside each other.

use loadline_measure::record::{AgentCase, Record};
use loadline_measure::words;

use super::cases::{percentile, shown};
use crate::document::{Block, Column, Row, RowGroup, Section, Table};

/// A table with a row for each agent and case; nothing for a single load generator.
pub(super) fn section(record: &Record) -> Option<Section> {
    let groups = record.cases.iter().enumerate().map(|(index, case)| {
        let agents = record.agents.iter();
        let parts = agents.filter_map(|agent| Some((agent.rank, agent.cases.get(index)?)));
        RowGroup {
            title: case.name(),
            rows: parts.map(|(rank, part)| row(rank, part)).collect(),
        }
    });
    let groups: Vec<RowGroup> = groups.filter(|group| !group.rows.is_empty()).collect();
    if groups.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("agent", 0),
        Column::figure("ops/s", 0),
        Column::figure("p50", 0),
        Column::figure("p99", 1),
        Column::figure("errors", 0),
        Column::figure("longest stall", 2),
        Column::figure("CPU", 3),
    ];
    let table = Table {
        caption: "The part of each load generator".to_owned(),
        columns,
        groups,
    };
    Section::new("Agents", vec![Block::Table(table)])
}

fn row(rank: u64, part: &AgentCase) -> Row {
    let times = &part.response_time_ns;
    let stall = part.longest_stall_ns;
    Row {
        cells: vec![
            format!("agent {rank}").into(),
            words::count(part.throughput_ops_per_s).into(),
            percentile(times.p50),
            percentile(times.p99),
            part.errors.to_string().into(),
            shown(stall.map(|ns| words::duration(ns as f64))),
            shown(part.client_cpu_busy.map(words::percent)),
        ],
        ..Row::default()
    }
}
