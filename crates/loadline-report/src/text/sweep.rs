//! The tables of a sweep over ways of calling: total times by mode and count, and throughput by size.

use loadline_measure::record::Record;

use super::page::{Page, Style};
use crate::clean::{plain, shortened};
use crate::picture;
use crate::sweep::{self, Curve, Setting};
use loadline_measure::words;

/// Columns of a time, and of the name of a mode.
const FIGURE: usize = 7;
const NAME: usize = 11;
/// Columns of a rate, and of a CPU time: with these, five counts fit eighty columns.
const RATE: usize = 6;
const CPU: usize = 5;

/// Draws every operation under every latency.
pub(super) fn draw(page: &mut Page, record: &Record, unicode: bool) {
    let columns = sweep::counts(record);
    for setting in sweep::settings(record) {
        let accuracy = setting
            .accuracy()
            .map(|accuracy| format!(" ({accuracy})"))
            .unwrap_or_default();
        page.gap();
        page.wrapped(
            Style::Bold,
            "",
            "  ",
            &format!("{}{accuracy}", setting.title()),
        );
        counts(page, &setting, &columns);
        if let Some(cost) = setting.codec_cost() {
            page.wrapped(Style::Plain, "  ", "    ", &cost);
        }
        for curve in &setting.curves {
            size(page, curve, unicode);
        }
    }
    page.gap();
    page.wrapped(Style::Dim, "", "  ", sweep::LEGEND);
}

/// A line per mode, a column per count.
fn counts(page: &mut Page, setting: &Setting<'_>, columns: &[u64]) {
    // Where the page is narrow, the small counts are left out.
    let fixed = NAME + 2 * (FIGURE + 1) + (RATE + 1) + (CPU + 1);
    let room = page.width().saturating_sub(fixed) / (FIGURE + 1);
    let columns = &columns[columns.len() - columns.len().min(room.max(1))..];
    let mut header = format!("{:<NAME$}", "");
    for count in columns {
        header += &format!(" {:>FIGURE$}", words::amount(*count));
    }
    header += &format!(
        " {:>RATE$} {:>FIGURE$} {:>FIGURE$} {:>CPU$}",
        "ops/s", "p50", "p99", "CPU"
    );
    page.line(Style::Dim, &header);
    for mode in &setting.modes {
        let mut line = format!("{:<NAME$}", shortened(&plain(mode.name), NAME));
        for count in columns {
            line += &format!(" {:>FIGURE$}", mode.total(*count).text());
        }
        let largest = mode.largest;
        line += &format!(
            " {:>RATE$} {:>FIGURE$} {:>FIGURE$} {:>CPU$}",
            sweep::rate(largest.throughput_ops_per_s),
            words::percentile(largest.response_time_ns.p50),
            words::percentile(largest.response_time_ns.p99),
            words::cpu_us(largest.cost.client_cpu_ns_per_op),
        );
        page.line(Style::Plain, &line);
    }
    for left_out in &setting.left_out {
        let line = format!(
            "{}: {}",
            plain(left_out.mode.as_str()),
            plain(&left_out.reason)
        );
        page.wrapped(Style::Plain, "", "  ", &line);
    }
}

/// The throughput of each size, as a curve and at its knee.
fn size(page: &mut Page, curve: &Curve<'_>, unicode: bool) {
    let picture = if unicode {
        let values: Vec<f64> = curve
            .cells
            .iter()
            .map(|case| case.throughput_ops_per_s.ln())
            .collect();
        format!(" {}", picture::sparkline(&values, curve.cells.len()))
    } else {
        String::new()
    };
    page.wrapped(
        Style::Plain,
        "  ",
        "    ",
        &format!("{}:{picture} {}", curve.title(), curve.sentence()),
    );
}
