//! The load generators of a merged record, beside each other.

use loadline_measure::record::{AgentCase, Answer, Record};
use loadline_measure::words;

use super::cases::{percentile, shown};
use crate::document::{Block, Column, Item, Row, RowGroup, Section, Table, Tone};

/// A table with a row for each agent and case, of a search only the trial in its curve at the answer; nothing for a single
/// load generator.
pub(super) fn section(record: &Record) -> Option<Section> {
    let shown = match &record.answer {
        Answer::Capacity(answer) => answer
            .point()
            .or(answer.curve.first())
            .map(|point| point.case),
        _ => None,
    };
    let cases = record.cases.iter().enumerate();
    let cases = cases.filter(|(index, _)| shown.is_none_or(|shown| shown == *index));
    let groups = cases.map(|(index, case)| {
        let agents = record.agents.iter();
        let parts = agents.filter_map(|agent| Some((agent.rank, agent.cases.get(index)?)));
        RowGroup {
            title: case.name(),
            rows: parts.map(|(rank, part)| row(rank, part)).collect(),
        }
    });
    let groups: Vec<RowGroup> = groups.filter(|group| !group.rows.is_empty()).collect();
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
    let table = (!table.groups.is_empty()).then_some(Block::Table(table));
    let left = Block::List(left_keys(record));
    Section::new("Agents", table.into_iter().chain([left]).collect())
}

/// The keys of lost agents that can be left on a target.
fn left_keys(record: &Record) -> Vec<Item> {
    let mut targets: Vec<&str> = Vec::new();
    for case in &record.cases {
        let target = case.subject.target.as_str();
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    if targets.is_empty() {
        targets.push("TARGET");
    }
    let mut left = Vec::new();
    for lost in &record.lost_agents {
        let Some(run) = &lost.run else { continue };
        for target in &targets {
            let text = format!(
                "Keys of agent {} can be left on the target; `loadline clean {target} --run {run}` removes them.",
                lost.rank
            );
            left.push(Item::new(Tone::Plain, &text));
        }
    }
    left
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
