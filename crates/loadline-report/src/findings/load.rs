//! Flaws of the load: connections, counts, the generator, a rate.

use loadline_measure::doctor::LoadFlaw;
use loadline_measure::words;

use super::{joined, percent};

pub(super) fn evidence(flaw: &LoadFlaw) -> String {
    match flaw {
        LoadFlaw::ConnectionPerOperation {
            opened,
            ops,
            expected,
        } => format!(
            "The server accepted {opened} connections during {ops} operations; expected {expected}."
        ),
        LoadFlaw::CountsDiffer {
            ops,
            server_ops,
            undeclared,
        } => {
            let counted = server_ops.map(|server_ops| counted(*ops, server_ops));
            joined([counted, extra(*ops, undeclared)], " ")
        }
        LoadFlaw::GeneratorBound {
            busy,
            waited,
            null_speedup,
        } => {
            let near = null_speedup.map(|times| {
                format!("A null server was only {times:.2} times as fast under the same load.")
            });
            joined([busy.map(|busy| busiest(busy, *waited)), near], " ")
        }
        LoadFlaw::LateStarts {
            lag_ns,
            response_ns,
        } => format!(
            "The generator itself started operations late: the p99 of its lag is {}, which is {} of the reported p99 of {}.",
            words::duration(*lag_ns as f64),
            of(*lag_ns, *response_ns),
            words::duration(*response_ns as f64),
        ),
        LoadFlaw::HeldBack {
            not_sent,
            planned,
            stalled_ns,
        } => format!(
            "After stalls of {} in total, {}: the percentiles are lower bounds.",
            words::duration(*stalled_ns as f64),
            never_sent(*not_sent, *planned),
        ),
        LoadFlaw::NeverSent {
            not_sent,
            planned,
            is_server,
        } => format!(
            "{}: {}.",
            limit(*is_server),
            never_sent(*not_sent, *planned)
        ),
        LoadFlaw::Growing { growth, is_server } => format!(
            "{}: the median response time grew {growth:.1}-fold within a block.",
            limit(*is_server)
        ),
    }
}

pub(super) fn advice(flaw: &LoadFlaw) -> &'static str {
    match flaw {
        LoadFlaw::ConnectionPerOperation { .. } => {
            "Keep connections open between operations; this run mostly measured connecting."
        }
        LoadFlaw::CountsDiffer { .. } => {
            "Look for setup inside the measured time, for retries, and for other users of the server."
        }
        LoadFlaw::GeneratorBound { .. } => {
            "Give the generator more threads (--threads) or CPUs; the measured throughput is a lower bound for the server."
        }
        LoadFlaw::LateStarts { .. } => {
            "Lower --rate, add --threads, or give the generator a CPU of its own."
        }
        LoadFlaw::HeldBack { .. } => {
            "Look for the cause of the stalls (LL037), and repeat the run without them."
        }
        LoadFlaw::NeverSent { .. } | LoadFlaw::Growing { .. } => {
            "Lower --rate: these response times are those of a queue that keeps growing."
        }
    }
}

fn of(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

fn counted(ops: u64, server_ops: u64) -> String {
    format!(
        "The generator counted {ops} operations and the server {server_ops}, a difference of {}.",
        of(ops.abs_diff(server_ops), ops),
    )
}

fn extra(ops: u64, undeclared: &[(String, u64)]) -> Option<String> {
    let extra = undeclared.iter();
    let extra = extra.map(|(name, count)| format!("{count} {}", name.to_ascii_uppercase()));
    (!undeclared.is_empty()).then(|| {
        format!(
            "In addition to {ops} operations, the server executed {}, which the workload does not declare.",
            extra.collect::<Vec<_>>().join(" and "),
        )
    })
}

fn busiest((generator, server): (f64, f64), waited: Option<f64>) -> String {
    let waited = waited.map_or_else(String::new, |waited| {
        format!(" (and waited for one {} of the time)", percent(waited))
    });
    format!(
        "The busiest thread of the generator used {} of a CPU{waited} while the server used {}: the generator was the bottleneck.",
        percent(generator),
        percent(server),
    )
}

fn never_sent(not_sent: u64, planned: u64) -> String {
    format!(
        "{not_sent} of {planned} planned operations ({}) were never sent",
        of(not_sent, planned)
    )
}

fn limit(is_server: bool) -> &'static str {
    if is_server {
        "The rate exceeds the capacity of the target"
    } else {
        "The rate was not kept"
    }
}
