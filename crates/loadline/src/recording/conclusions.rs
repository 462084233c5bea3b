//! What a record says in whole sentences: which target carried the most, which way of calling is best.

use std::time::Duration;

use loadline_measure::record::{self, Record};

/// Says in one sentence per target what was found.
pub(crate) fn conclude(record: &mut Record) {
    let mut names: Vec<&str> = record
        .cases
        .iter()
        .map(|case| case.subject.name.as_str())
        .collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    let findings = names.iter().filter_map(|name| {
        let cases: Vec<&record::Case> = record
            .cases
            .iter()
            .filter(|case| case.subject.name == *name)
            .collect();
        let most = cases.iter().max_by(|one, other| {
            one.throughput_ops_per_s
                .total_cmp(&other.throughput_ops_per_s)
        })?;
        let limit = match (most.server_cpu_busy, most.client_cpu_busy) {
            (Some(server), _) if server >= 0.9 => format!(
                ", where its CPU was {:.0} % busy, so the server was the limit",
                server.min(1.0) * 100.0
            ),
            (_, Some(client)) if client >= 0.8 => format!(
                ", where the generator's thread was {:.0} % busy, so the server may carry more",
                client * 100.0
            ),
            _ => String::new(),
        };
        let pipeline = match most.scenario.pipeline {
            0 | 1 => String::new(),
            pipeline => format!(", pipeline {pipeline}"),
        };
        if most.is_open_loop() {
            // The schedule decided about the rate, so the rate is no finding.
            let median = most.response_time_ns.p50?;
            return Some(format!(
                "{name} answered {:.0} operations per second of {} within {} (median), counted from their intended starts{limit}.",
                most.throughput_ops_per_s,
                most.scenario.workload,
                crate::units::duration_text(Duration::from_micros(median.div_ceil(1_000)))
            ));
        }
        Some(format!(
            "{name} carried the most in {}{pipeline}: {:.0} operations per second{limit}.",
            most.scenario.workload, most.throughput_ops_per_s
        ))
    });
    let findings: Vec<String> = findings.collect();
    record.findings.extend(findings);
}

/// Within this share of the most, a smaller batch is as good.
const AS_GOOD: f64 = 0.05;

/// Says in one sentence per latency and operation which way of calling is the best, and which size.
pub(crate) fn conclude_modes(record: &mut Record) {
    let key = |case: &record::Case| {
        let scenario = &case.scenario;
        let codec = scenario.codec.as_ref();
        let codec = codec
            .map(|codec| format!(" as {codec}"))
            .unwrap_or_default();
        (scenario.latency_ns, format!("{}{codec}", scenario.workload))
    };
    let mut settings: Vec<(u64, String)> = Vec::new();
    for case in &record.cases {
        if !settings.contains(&key(case)) {
            settings.push(key(case));
        }
    }
    for setting in settings {
        let (latency_ns, operation) = &setting;
        let here: Vec<&record::Case> = record
            .cases
            .iter()
            .filter(|case| key(case) == setting)
            .collect();
        let throughput = |case: &&record::Case| case.throughput_ops_per_s;
        let by_throughput = |one: &&&record::Case, other: &&&record::Case| {
            throughput(one).total_cmp(&throughput(other))
        };
        // A mode is judged by the cell with the most operations: the others are mostly beginnings.
        let is_largest = |case: &&&record::Case| {
            let of_mode = here
                .iter()
                .filter(|other| other.scenario.mode == case.scenario.mode);
            let most = of_mode
                .filter(|other| other.scenario.ops_asked.is_some())
                .map(|other| other.ops)
                .max();
            case.scenario.ops_asked.is_some() && Some(case.ops) == most
        };
        // Those of the search for a size have no count of their own, and are as long as each other.
        let counts = |case: &&&record::Case| case.scenario.ops_asked.is_none() || is_largest(case);
        let Some(best) = here.iter().filter(counts).max_by(by_throughput) else {
            continue;
        };
        let worst = here.iter().filter(is_largest).min_by(by_throughput);
        let enough = here
            .iter()
            .filter(counts)
            .filter(|case| {
                case.scenario.mode == best.scenario.mode
                    && throughput(case) >= (1.0 - AS_GOOD) * throughput(best)
            })
            .min_by_key(|case| case.scenario.in_flight);
        let (chosen, worst) = (enough.unwrap_or(best), worst.unwrap_or(best));
        let size = chosen.scenario.in_flight.unwrap_or(1);
        let beside = if chosen.scenario.mode == worst.scenario.mode {
            String::new()
        } else {
            let times = throughput(chosen) / throughput(worst).max(1e-9);
            format!(", {times:.0} times {}", worst.scenario.mode)
        };
        record.findings.push(format!(
            "{operation} with {} added: {} of {size}, {:.0} operations per second{beside}.",
            latency_text(*latency_ns),
            chosen.scenario.mode,
            throughput(chosen)
        ));
    }
}

fn latency_text(ns: u64) -> String {
    match ns {
        0 => "no latency".into(),
        ns => crate::units::duration_text(Duration::from_nanos(ns)),
    }
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{Case, Environment, Record, Run, Scenario};

    use super::conclude_modes;

    fn cell(mode: &str, asked: Option<u64>, size: u64, ops_per_s: f64) -> Case {
        Case {
            scenario: Scenario {
                workload: "get".into(),
                mode: mode.into(),
                ops_asked: asked,
                in_flight: Some(size),
                ..Scenario::default()
            },
            ops: asked.unwrap_or(10_000),
            throughput_ops_per_s: ops_per_s,
            ..Case::default()
        }
    }

    /// A hundred operations in one call may come back before the server has moved to another CPU.
    #[test]
    fn a_mode_is_judged_by_its_largest_cell_and_the_search() {
        let mut record = Record::new(Run::default(), Environment::default());
        record.cases = vec![
            cell("sync", Some(100), 1, 150_000.0),
            cell("sync", Some(1_000_000), 1, 10_000.0),
            cell("batch", Some(100), 100, 3_500_000.0),
            cell("batch", Some(1_000_000), 100, 900_000.0),
            cell("batch", None, 1_000, 1_950_000.0),
            cell("batch", None, 10_000, 2_000_000.0),
        ];
        conclude_modes(&mut record);
        assert_eq!(
            record.findings,
            [
                "get with no latency added: batch of 1000, 1950000 operations per second, 195 times sync."
            ]
        );
    }
}
