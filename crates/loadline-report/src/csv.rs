//! CSV: one line per case, for spreadsheets and scripts.
//!
//! Quoting is that of RFC 4180, lines end with a line feed, and what is not known is an empty cell.
//! Figures are not rounded. A text that a spreadsheet would take for a formula gets an apostrophe
//! before it (OWASP, "CSV Injection").

use loadline_measure::LatencySummary;
use loadline_measure::record::{Case, Pacing, Record, ValueBytes};

use crate::clean::plain;

/// The way from a case to a cell.
type Cell = fn(&Case) -> String;

/// Every column, in order, with the way to its cell.
const COLUMNS: [(&str, Cell); 47] = [
    ("subject", |case| text(&case.subject.name)),
    ("kind", |case| text(case.subject.kind.as_str())),
    ("target", |case| text(&case.subject.target)),
    ("subject_version", |case| {
        case.subject
            .version
            .as_deref()
            .map(text)
            .unwrap_or_default()
    }),
    ("workload", |case| text(&case.scenario.workload)),
    ("mode", |case| text(case.scenario.mode.as_str())),
    ("pacing", |case| {
        if case.is_open_loop() {
            "open".to_owned()
        } else {
            "closed".to_owned()
        }
    }),
    ("rate_ops_per_s", |case| match case.scenario.pacing {
        Pacing::Rate(rate) => rate.to_string(),
        Pacing::Closed => String::new(),
    }),
    ("connections", |case| case.scenario.connections.to_string()),
    ("threads", |case| case.scenario.threads.to_string()),
    ("pipeline", |case| case.scenario.pipeline.to_string()),
    ("batch", |case| case.scenario.batch.to_string()),
    ("keys", |case| case.scenario.keys.to_string()),
    ("key_dist", |case| text(&case.scenario.key_dist)),
    ("value_bytes_min", |case| value_bytes(case).0.to_string()),
    ("value_bytes_max", |case| value_bytes(case).1.to_string()),
    ("latency_ns", |case| case.scenario.latency_ns.to_string()),
    ("resp", |case| case.scenario.resp.to_string()),
    ("rounds", |case| case.rounds.len().to_string()),
    ("duration_ns", |case| case.duration_ns.to_string()),
    ("ops", |case| case.ops.to_string()),
    ("errors", |case| case.error_count().to_string()),
    ("planned", |case| some(case.planned)),
    ("not_sent", |case| some(case.not_sent)),
    ("throughput_ops_per_s", |case| {
        case.throughput_ops_per_s.to_string()
    }),
    ("response_time_ns_mean", |case| {
        some(case.response_time_ns.mean)
    }),
    ("response_time_ns_p50", |case| {
        some(case.response_time_ns.p50)
    }),
    ("response_time_ns_p90", |case| {
        some(case.response_time_ns.p90)
    }),
    ("response_time_ns_p95", |case| {
        some(case.response_time_ns.p95)
    }),
    ("response_time_ns_p99", |case| {
        some(case.response_time_ns.p99)
    }),
    ("response_time_ns_p999", |case| {
        some(case.response_time_ns.p999)
    }),
    ("response_time_ns_max", |case| {
        some(case.response_time_ns.max)
    }),
    ("service_time_ns_mean", |case| {
        some(case.service_time_ns.mean)
    }),
    ("service_time_ns_p50", |case| some(case.service_time_ns.p50)),
    ("service_time_ns_p99", |case| some(case.service_time_ns.p99)),
    ("service_time_ns_p999", |case| {
        some(case.service_time_ns.p999)
    }),
    ("lag_ns_p50", |case| lag(case, |lag| lag.p50)),
    ("lag_ns_p99", |case| lag(case, |lag| lag.p99)),
    ("hit_ratio", |case| some(case.hit_ratio)),
    ("steady", |case| case.steady.to_string()),
    ("client_cpu_ns_per_op", |case| {
        some(case.cost.client_cpu_ns_per_op)
    }),
    ("server_cpu_ns_per_op", |case| {
        some(case.cost.server_cpu_ns_per_op)
    }),
    ("bytes_in_per_op", |case| some(case.cost.bytes_in_per_op)),
    ("bytes_out_per_op", |case| some(case.cost.bytes_out_per_op)),
    ("in_flight", |case| some(case.little)),
    ("client_cpu_busy", |case| some(case.client_cpu_busy)),
    ("server_cpu_busy", |case| some(case.server_cpu_busy)),
];

/// The cases of the record as CSV, with a header. Run and ratios are not in it: a ratio belongs to
/// two cases, and its figures are in the JSON record.
#[must_use]
pub fn csv(record: &Record) -> String {
    let mut out = COLUMNS.map(|(name, _)| name).join(",");
    out.push_str(",cut_short\n");
    for case in &record.cases {
        for (_, cell) in COLUMNS {
            out.push_str(&quoted(&cell(case)));
            out.push(',');
        }
        out.push_str(if record.run.cut_short {
            "true\n"
        } else {
            "false\n"
        });
    }
    out
}

/// A text that no spreadsheet takes for a formula.
fn text(text: &str) -> String {
    let text = plain(text);
    let start = text.trim_start().chars().next();
    let formula = matches!(
        start,
        Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '|' | '%')
    );
    if formula {
        format!("'{text}")
    } else {
        text.into_owned()
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', ';']) || cell.starts_with(' ') || cell.ends_with(' ') {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn some<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn lag(case: &Case, of: fn(&LatencySummary) -> Option<u64>) -> String {
    some(case.lag_ns.as_ref().and_then(of))
}

fn value_bytes(case: &Case) -> (u64, u64) {
    match case.scenario.value_bytes {
        ValueBytes::Fixed(size) => (size, size),
        ValueBytes::Spread { min, max, .. } => (min, max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_as_rfc_4180_says() {
        for (cell, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("a;b", "\"a;b\""),
            (" padded", "\" padded\""),
            ("", ""),
        ] {
            assert_eq!(quoted(cell), expected);
        }
    }

    #[test]
    fn no_text_is_a_formula() {
        for hostile in ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "  =1", "|calc", "＝1"] {
            assert!(text(hostile).starts_with('\''), "{hostile}");
        }
        assert_eq!(text("a\r\n=1"), "a??=1");
        assert_eq!(text("redis://h:1"), "redis://h:1");
    }
}
