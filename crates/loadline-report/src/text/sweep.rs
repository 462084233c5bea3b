//! The tables of a sweep over ways of calling: total times by mode and count, and throughput by size.

use loadline_measure::record::{Case, Link, Record};

use super::page::{Page, Style};
use crate::clean::plain;
use crate::{picture, words};

/// Columns of a figure, and of the name of a mode.
const FIGURE: usize = 7;
const NAME: usize = 11;

/// Whether the record holds a sweep.
pub(super) fn is_sweep(record: &Record) -> bool {
    record
        .cases
        .iter()
        .any(|case| case.scenario.ops_asked.is_some())
}

/// Draws every operation under every latency.
pub(super) fn draw(page: &mut Page, record: &Record, unicode: bool) {
    let mut columns: Vec<u64> = record
        .cases
        .iter()
        .filter_map(|case| case.scenario.ops_asked)
        .collect();
    columns.sort_unstable();
    columns.dedup();
    let mut drawn: Vec<(u64, &str)> = Vec::new();
    for case in &record.cases {
        let setting = (case.scenario.latency_ns, case.scenario.workload.as_str());
        if drawn.contains(&setting) {
            continue;
        }
        drawn.push(setting);
        let here: Vec<&Case> = record
            .cases
            .iter()
            .filter(|case| (case.scenario.latency_ns, case.scenario.workload.as_str()) == setting)
            .collect();
        let link = record
            .links
            .iter()
            .find(|link| link.latency_ns == setting.0);
        page.gap();
        page.wrapped(Style::Bold, "", "  ", &title(setting.1, setting.0, link));
        counts(page, &here, &columns);
        sizes(page, &here, unicode);
    }
    page.gap();
    page.wrapped(Style::Dim, "", "  ", "Times are those of all operations of a column; ~ is extrapolated from as many as the budget of a cell allowed. Quantiles and CPU time of the client are per operation: in a call of many, each takes as long as the call.");
}

fn title(workload: &str, latency_ns: u64, link: Option<&Link>) -> String {
    let workload = plain(workload);
    match link {
        None if latency_ns == 0 => format!("{workload}, no added latency"),
        None => format!("{workload}, {} added", words::span(latency_ns)),
        Some(link) => {
            let control = link
                .congestion_control
                .as_ref()
                .map(|control| format!(", {}", plain(control)))
                .unwrap_or_default();
            let mtu = link
                .mtu
                .map(|mtu| format!(", MTU {mtu}"))
                .unwrap_or_default();
            format!(
                "{workload}, {} added by {} (round trips through it p50 {}, p99 {}{mtu}{control})",
                words::span(latency_ns),
                plain(&link.class),
                words::duration(link.through_p50_ns as f64),
                words::duration(link.through_p99_ns as f64),
            )
        }
    }
}

/// A line per mode, a column per count.
fn counts(page: &mut Page, here: &[&Case], columns: &[u64]) {
    // Where the page is narrow, the small counts are left out.
    let fixed = NAME + 4 * (FIGURE + 1);
    let room = page.width().saturating_sub(fixed) / (FIGURE + 1);
    let columns = &columns[columns.len() - columns.len().min(room.max(1))..];
    let mut header = format!("{:<NAME$}", "");
    for count in columns {
        header += &format!(" {:>FIGURE$}", words::amount(*count));
    }
    for name in ["ops/s", "p50", "p99", "CPU us"] {
        header += &format!(" {name:>FIGURE$}");
    }
    page.line(Style::Dim, &header);
    let mut modes: Vec<&str> = Vec::new();
    for case in here.iter().filter(|case| case.scenario.ops_asked.is_some()) {
        if !modes.contains(&case.scenario.mode.as_str()) {
            modes.push(&case.scenario.mode);
        }
    }
    for mode in modes {
        let cells: Vec<&&Case> = here
            .iter()
            .filter(|case| case.scenario.mode == mode && case.scenario.ops_asked.is_some())
            .collect();
        let Some(largest) = cells.iter().max_by_key(|case| case.ops) else {
            continue;
        };
        let mut line = format!("{:<NAME$}", plain(mode));
        for count in columns {
            let cell = cells
                .iter()
                .find(|case| case.scenario.ops_asked == Some(*count))
                .unwrap_or(largest);
            line += &format!(" {:>FIGURE$}", total(cell, *count));
        }
        line += &format!(
            " {:>FIGURE$} {:>FIGURE$} {:>FIGURE$} {:>FIGURE$}",
            words::count(largest.throughput_ops_per_s),
            words::percentile(largest.response_time_ns.p50),
            words::percentile(largest.response_time_ns.p99),
            words::cpu_us(largest.cost.client_cpu_ns_per_op),
        );
        page.line(Style::Plain, &line);
    }
}

/// The time that `count` operations take, marked where not all of them were measured.
fn total(cell: &Case, count: u64) -> String {
    let seconds = count as f64 / cell.throughput_ops_per_s.max(f64::MIN_POSITIVE);
    let mark = if cell.ops < count { "~" } else { "" };
    let text = match seconds {
        seconds if seconds < 100.0 => words::duration(seconds * 1e9),
        seconds if seconds < 6_000.0 => format!("{:.1}m", seconds / 60.0),
        seconds => format!("{:.1}h", seconds / 3_600.0),
    };
    format!("{mark}{text}")
}

/// The throughput of each size, as a curve and at its knee.
fn sizes(page: &mut Page, here: &[&Case], unicode: bool) {
    for mode in ["pipeline", "batch"] {
        let mut curve: Vec<&&Case> = here
            .iter()
            .filter(|case| case.scenario.mode == mode && case.scenario.ops_asked.is_none())
            .collect();
        curve.sort_by_key(|case| case.scenario.batch);
        let most = curve
            .iter()
            .map(|case| case.throughput_ops_per_s)
            .fold(0.0, f64::max);
        let knee = curve
            .iter()
            .find(|case| case.throughput_ops_per_s >= 0.95 * most);
        let (Some(knee), Some(first), Some(last)) = (knee, curve.first(), curve.last()) else {
            continue;
        };
        let shown = |case: &Case| words::count(case.throughput_ops_per_s);
        let picture = if unicode {
            let values: Vec<f64> = curve
                .iter()
                .map(|case| case.throughput_ops_per_s.ln())
                .collect();
            format!(" {}", picture::sparkline(&values, curve.len()))
        } else {
            String::new()
        };
        page.wrapped(Style::Plain, "  ", "    ", &format!(
            "{mode} by size, {} to {}:{picture} from {} to {} ops/s; {} is the smallest within 5 % of the most: {} ops/s, p99 {}",
            words::amount(first.scenario.batch),
            words::amount(last.scenario.batch),
            shown(first),
            shown(last),
            words::amount(knee.scenario.batch),
            shown(knee),
            words::percentile(knee.response_time_ns.p99),
        ));
    }
}
