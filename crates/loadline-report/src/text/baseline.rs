//! A baseline, for a person who wants to know what is in it.

use loadline_measure::Metric;
use loadline_measure::gate::strict::deviation_between_runs;
use loadline_measure::gate::{Baseline, Measured, Thresholds};
use loadline_measure::quantile;

use super::TextOptions;
use super::page::{Page, Style};
use crate::clean::plain;
use crate::judgement;
use loadline_measure::words;

/// The baseline as text, with a line feed at the end.
#[must_use]
pub fn baseline(baseline: &Baseline) -> String {
    let mut page = Page::new(&TextOptions {
        width: 80,
        color: false,
        unicode: false,
    });
    let runs = baseline.runs.len();
    let least = Thresholds::default().least_runs;
    page.wrapped(
        Style::Bold,
        "",
        "  ",
        &format!(
            "A baseline of {}: {}",
            plain(&baseline.target),
            words::plural(runs as u64, "run")
        ),
    );
    if runs < least {
        page.wrapped(
            Style::Plain,
            "  ",
            "  ",
            &format!(
                "It needs {least} runs to raise an alarm; add {} more.",
                least - runs
            ),
        );
    }
    let environment = &baseline.environment;
    let place = [
        environment.cpu_model.as_deref(),
        environment.kernel.as_deref(),
    ];
    let place: Vec<&str> = place.into_iter().flatten().collect();
    if !place.is_empty() {
        page.wrapped(Style::Plain, "  ", "  ", &plain(&place.join(", ")));
    }
    if let (Some(first), Some(last)) = (baseline.runs.first(), baseline.runs.last()) {
        let span = format!("{} to {}", first.started_at, last.started_at);
        page.wrapped(Style::Plain, "  ", "  ", &plain(&span));
    }
    for limit in &baseline.limits {
        page.wrapped(Style::Plain, "  ", "  ", &plain(&format!("limit {limit}")));
    }
    cases(&mut page, baseline);
    page.into_text()
}

/// Each metric over the runs: its median, and from run to run how far it spreads, as measured and as the
/// gate judges it, without what the reference explains.
fn cases(page: &mut Page, baseline: &Baseline) {
    let Some(first) = baseline.runs.first() else {
        return;
    };
    page.gap();
    page.line(
        Style::Dim,
        &format!(
            "{:<24}{:<16}{:>12}{:>12}{:>16}",
            "case", "metric", "median", "spread", "beside the echo"
        ),
    );
    for (name, case) in &first.cases {
        for metric in [
            Metric::Throughput,
            Metric::P50,
            Metric::P99,
            Metric::ServerCpu,
        ] {
            if !case.metrics.contains_key(&metric) {
                continue;
            }
            let held = baseline
                .runs
                .iter()
                .filter_map(|run| run.cases.get(name)?.metrics.get(&metric));
            let raw: Vec<f64> = held.clone().map(|measured| measured.raw).collect();
            let runs: Vec<Measured> = held.copied().collect();
            let raw_logs: Vec<f64> = raw.iter().map(|raw| raw.ln()).collect();
            page.line(
                Style::Plain,
                &format!(
                    "{:<24}{:<16}{:>12}{:>12}{:>16}",
                    plain(name),
                    metric.name().replace('_', " "),
                    judgement::figure(metric, quantile::median(&raw)),
                    spread(&raw_logs),
                    deviation_between_runs(&runs).map_or_else(|| "-".to_owned(), words::percent)
                ),
            );
        }
    }
}

/// The standard deviation of logarithms, which is nearly a share.
fn spread(logs: &[f64]) -> String {
    quantile::deviation(logs).map_or_else(|| "-".to_owned(), words::percent)
}
