//! The contents of a baseline.

use loadline_measure::gate::strict::deviation_between_runs;
use loadline_measure::gate::{Baseline, Measured, Thresholds};
use loadline_measure::{Metric, quantile, words};

use super::compared;
use crate::document::{
    Block, CheckResult, Column, Document, Item, Row, RowGroup, Section, Table, Tone, Verdict,
};

/// The metrics that a page of a baseline shows.
const SHOWN: [Metric; 4] = [
    Metric::Throughput,
    Metric::P50,
    Metric::P99,
    Metric::ServerCpu,
];

/// The document of a baseline.
pub(crate) fn baseline(baseline: &Baseline) -> Document {
    let runs = words::plural(baseline.runs.len() as u64, "run");
    let title = format!("A baseline of {}: {runs}", baseline.target);
    let missing = Thresholds::default()
        .least_runs
        .saturating_sub(baseline.runs.len());
    let verdict = if missing > 0 {
        let least = Thresholds::default().least_runs;
        let text = format!("{title}. It needs {least} runs to raise an alarm; add {missing} more.");
        (Tone::Warn, CheckResult::Skipped, text)
    } else {
        (Tone::Plain, CheckResult::Passed, format!("{title}."))
    };
    let limits = baseline.limits.iter();
    let limits = limits.map(|limit| Item::new(Tone::Plain, limit.to_string()));
    let environment = &baseline.environment;
    let place = [&environment.cpu_model, &environment.kernel];
    let place: Vec<&str> = place
        .into_iter()
        .filter_map(|part| part.as_deref())
        .collect();
    let mut facts = Vec::new();
    if !place.is_empty() {
        facts.push(("machine".to_owned(), place.join(", ")));
    }
    if let (Some(first), Some(last)) = (baseline.runs.first(), baseline.runs.last()) {
        let span = format!("{} to {}", first.started_at, last.started_at);
        facts.push(("runs".to_owned(), span));
    }
    let sections = [
        Section::new("Limits", vec![Block::List(limits.collect())]),
        table(baseline).and_then(|table| Section::new("Runs", vec![Block::Table(table)])),
        Section::new("Where and when it was measured", vec![Block::Facts(facts)]),
    ];
    Document {
        title,
        verdict: Verdict {
            tone: verdict.0,
            result: verdict.1,
            sentence: verdict.2,
        },
        sections: sections.into_iter().flatten().collect(),
        ..Document::default()
    }
}

/// Each metric over the runs: its median, and how far it spreads from run to run, as measured and as
/// the gate judges it, without the part that the reference explains.
fn table(baseline: &Baseline) -> Option<Table> {
    let first = baseline.runs.first()?;
    let groups = first.cases.iter().map(|(name, case)| {
        let metrics = SHOWN.into_iter();
        let metrics = metrics.filter(|metric| case.metrics.contains_key(metric));
        RowGroup {
            title: name.clone(),
            rows: metrics.map(|metric| row(baseline, name, metric)).collect(),
        }
    });
    Some(Table {
        caption: "Medians and spreads over the runs".to_owned(),
        columns: vec![
            Column::text("figure", 0),
            Column::figure("median", 0),
            Column::figure("spread", 0),
            Column::figure("without the echo", 0),
        ],
        groups: groups.collect(),
    })
}

fn row(baseline: &Baseline, case: &str, metric: Metric) -> Row {
    let runs = baseline.runs.iter();
    let held = runs.filter_map(|run| run.cases.get(case)?.metrics.get(&metric));
    let runs: Vec<Measured> = held.copied().collect();
    let raw: Vec<f64> = runs.iter().map(|measured| measured.raw).collect();
    let logs: Vec<f64> = raw.iter().map(|raw| raw.ln()).collect();
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), words::percent);
    Row {
        cells: vec![
            metric.name().replace('_', " ").into(),
            compared::value(metric, quantile::median(&raw)).into(),
            // The standard deviation of logarithms is nearly a share.
            share(quantile::deviation(&logs)).into(),
            share(deviation_between_runs(&runs)).into(),
        ],
        ..Row::default()
    }
}
