//! The cases of a record by scenario.

use loadline_measure::record::{Case, Record, Scenario};
use loadline_measure::words;

/// The cases of one scenario.
pub(super) struct Group<'r> {
    /// The workload.
    pub(super) workload: &'r str,
    /// The scenario in parts.
    pub(super) conditions: Vec<String>,
    /// The cases with their places in the record.
    pub(super) cases: Vec<(usize, &'r Case)>,
}

/// The cases by scenario, in the order of the record.
pub(super) fn groups(record: &Record) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, case) in record.cases.iter().enumerate() {
        let workload = case.scenario.workload.as_str();
        let conditions = conditions(&case.scenario);
        let same =
            |group: &&mut Group<'_>| group.workload == workload && group.conditions == conditions;
        match groups.iter_mut().find(same) {
            Some(group) => group.cases.push((index, case)),
            None => groups.push(Group {
                workload,
                conditions,
                cases: vec![(index, case)],
            }),
        }
    }
    groups
}

/// Conditions that distinguish one scenario from another, in parts.
fn conditions(scenario: &Scenario) -> Vec<String> {
    let mut parts = vec![
        words::pacing(scenario.pacing, scenario.arrivals.as_ref()),
        match scenario.connections {
            0 => format!("called by {}", words::plural(scenario.threads, "thread")),
            connections => words::plural(connections, "connection"),
        },
        words::value_size(&scenario.value_bytes),
        format!(
            "{} keys {}",
            words::amount(scenario.keys),
            scenario.key_dist
        ),
    ];
    if scenario.pipeline > 1 {
        parts.push(format!("pipeline {}", scenario.pipeline));
    }
    if scenario.batch > 1 {
        parts.push(format!("batch {}", scenario.batch));
    }
    if let Some(ops) = scenario.ops_asked {
        parts.push(format!("{} operations", words::amount(ops)));
    }
    if scenario.latency_ns > 0 {
        parts.push(format!(
            "{} added latency",
            words::span(scenario.latency_ns)
        ));
    }
    if scenario.resp > 2 {
        parts.push(format!("RESP{}", scenario.resp));
    }
    if let Some(class) = &scenario.durability {
        parts.push(format!("durability {class}"));
    }
    parts
}
