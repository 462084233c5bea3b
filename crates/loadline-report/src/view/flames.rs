//! The instructions of an operation by function, on two sides.

use loadline_measure::metric::Metric;
use loadline_measure::record::{Case, Record};

use crate::document::{Block, Flame, Section};

/// Graphs in a report at most.
const MOST: usize = 8;

/// A graph for each pair of cases whose work was counted, if any judgement about work is a change.
pub(super) fn section(record: &Record) -> Option<Section> {
    let rows = record
        .judgement
        .iter()
        .flat_map(|judgement| &judgement.rows);
    let mut of_work = rows.filter(|row| row.metric == Metric::ServerInstructions);
    if !of_work.any(|row| row.is_change()) {
        return None;
    }
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for comparison in &record.comparisons {
        if !pairs.contains(&(comparison.a, comparison.b)) {
            pairs.push((comparison.a, comparison.b));
        }
    }
    let graphs = pairs.into_iter().filter_map(|(a, b)| {
        let (before, after) = (record.cases.get(a)?, record.cases.get(b)?);
        graph(before, after)
    });
    let graphs: Vec<Flame> = graphs.take(MOST).collect();
    Section::new("Where the instructions go", vec![Block::Flames(graphs)])
}

fn graph(before: &Case, after: &Case) -> Option<Flame> {
    let frames = |case: &Case| Some(case.work.as_ref()?.frames.clone());
    let (was, is) = (frames(before)?, frames(after)?);
    (!was.is_empty() && !is.is_empty()).then(|| Flame {
        caption: format!(
            "{}: instructions of {}, by function and its callers. Red frames execute more than in {}, blue frames fewer.",
            after.name(),
            after.subject.name,
            before.subject.name
        ),
        before: was,
        after: is,
    })
}
