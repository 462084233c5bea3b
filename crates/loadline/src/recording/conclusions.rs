//! The findings of a record in sentences: the throughput of each target.

use loadline_measure::record::{self, Record};
use loadline_measure::words;

/// Adds one sentence per target with its result.
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
            // The schedule decided about the rate, so the response times are the finding.
            let [p50, p99] = [Some(most.response_time_ns.p50?), most.response_time_ns.p99]
                .map(words::percentile);
            let least = most.at_least();
            let longest = most.stalls.iter().max_by_key(|stall| stall.length_ns);
            let stall = longest.map_or_else(String::new, |stall| {
                format!(
                    ", and at most {} without a reply",
                    words::duration(stall.length_ns as f64)
                )
            });
            return Some(format!(
                "{name} answered {} operations per second of {} with p50 {least}{p50} and p99 {least}{p99}, from their intended starts{stall}{limit}.",
                words::count(most.throughput_ops_per_s),
                most.scenario.workload,
            ));
        }
        let among = match cases.len() {
            1 => String::new(),
            many => format!(", the most of its {many} cases"),
        };
        Some(format!(
            "{name} carried {} operations per second of {}{pipeline}{among}{limit}.",
            words::count(most.throughput_ops_per_s),
            most.scenario.workload
        ))
    });
    let findings: Vec<String> = findings.collect();
    record.findings.extend(findings);
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{Case, Environment, Pacing, Percentiles, Record, Run};

    use super::conclude;

    /// The table shows 116 us and 1.00 s, and so must the sentence.
    #[test]
    fn an_open_loop_is_summed_up_in_the_digits_of_its_table() {
        let mut case = Case {
            throughput_ops_per_s: 9_990.0,
            ..Case::default()
        };
        case.scenario.workload = "get".into();
        case.scenario.pacing = Pacing::Rate(10_000.0);
        case.response_time_ns.p50 = Some(116_351);
        case.response_time_ns.p99 = Some(1_001_390_079);
        let concluded = |case: &Case| {
            let mut record = Record::new(Run::default(), Environment::default());
            record.cases.push(case.clone());
            conclude(&mut record);
            record.findings
        };
        assert_eq!(
            concluded(&case),
            [
                " answered 9.99k operations per second of get with p50 116 us and p99 1.00 s, from their intended starts."
            ]
        );
        case.percentiles = Some(Percentiles::AtLeast);
        assert_eq!(
            concluded(&case),
            [
                " answered 9.99k operations per second of get with p50 at least 116 us and p99 at least 1.00 s, from their intended starts."
            ]
        );
    }
}
