//! The highest load that each subject carried, in sentences.

use loadline_measure::record::Case;
use loadline_measure::summary::{self, Limit, Summary};
use loadline_measure::words;

/// One sentence for each subject with its result, as findings of the record.
#[must_use]
pub fn case_findings(cases: &[Case]) -> Vec<String> {
    let summaries = summary::of_subjects(cases);
    summaries.iter().filter_map(sentence).collect()
}

fn sentence(summary: &Summary<'_>) -> Option<String> {
    let case = summary.case;
    let (name, workload) = (&case.subject.name, &case.scenario.workload);
    let rate = words::count(case.throughput_ops_per_s);
    let limit = limit(summary.limit);
    if case.is_open_loop() {
        // The schedule decided about the rate, so the response times are the finding.
        let [p50, p99] =
            [Some(case.response_time_ns.p50?), case.response_time_ns.p99].map(words::percentile);
        let least = case.at_least();
        let longest = case.stalls.iter().max_by_key(|stall| stall.length_ns);
        let stall = longest.map_or_else(String::new, |stall| {
            let length = words::duration(stall.length_ns as f64);
            format!(", and at most {length} without a reply")
        });
        return Some(format!(
            "{name} answered {rate} operations per second of {workload} with p50 {least}{p50} and p99 {least}{p99}, from their intended starts{stall}{limit}.",
        ));
    }
    let pipeline = match case.scenario.pipeline {
        0 | 1 => String::new(),
        pipeline => format!(", pipeline {pipeline}"),
    };
    let among = match summary.cases {
        1 => String::new(),
        many => format!(", the most of its {many} cases"),
    };
    Some(format!(
        "{name} carried {rate} operations per second of {workload}{pipeline}{among}{limit}."
    ))
}

fn limit(limit: Option<Limit>) -> String {
    match limit {
        Some(Limit::Server(busy)) => format!(
            ", where its CPU was {:.0} % busy, so the server was the limit",
            busy.min(1.0) * 100.0
        ),
        Some(Limit::Generator(busy)) => format!(
            ", where the generator's thread was {:.0} % busy, so the server may carry more",
            busy * 100.0
        ),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{Case, Pacing, Percentiles};

    use super::case_findings;

    /// The table shows 116 us and 1.00 s, and so must the sentence.
    #[test]
    fn open_loop_is_summed_up_in_the_digits_of_its_table() {
        let mut case = Case {
            throughput_ops_per_s: 9_990.0,
            ..Case::default()
        };
        case.scenario.workload = "get".into();
        case.scenario.pacing = Pacing::Rate(10_000.0);
        case.response_time_ns.p50 = Some(116_351);
        case.response_time_ns.p99 = Some(1_001_390_079);
        let said = |case: &Case| case_findings(std::slice::from_ref(case));
        assert_eq!(
            said(&case),
            [
                " answered 9.99k operations per second of get with p50 116 us and p99 1.00 s, from their intended starts."
            ]
        );
        case.percentiles = Some(Percentiles::AtLeast);
        assert_eq!(
            said(&case),
            [
                " answered 9.99k operations per second of get with p50 at least 116 us and p99 at least 1.00 s, from their intended starts."
            ]
        );
    }

    #[test]
    fn most_of_several_cases_is_named_with_its_limit() {
        let case = |rate: f64, pipeline: u64, server: f64| {
            let mut case = Case {
                throughput_ops_per_s: rate,
                server_cpu_busy: Some(server),
                client_cpu_busy: Some(0.85),
                ..Case::default()
            };
            case.subject.name = "redis".into();
            (case.scenario.workload, case.scenario.pipeline) = ("get".into(), pipeline);
            case
        };
        let said = case_findings(&[case(1_000.0, 1, 0.2), case(9_000.0, 16, 0.95)]);
        let carried = "redis carried 9.00k operations per second of get, pipeline 16, the most of its 2 cases";
        assert_eq!(
            said,
            [format!(
                "{carried}, where its CPU was 95 % busy, so the server was the limit."
            )]
        );
        let said = case_findings(&[case(1_000.0, 1, 0.2)]);
        assert_eq!(
            said,
            [
                "redis carried 1.00k operations per second of get, where the generator's thread was 85 % busy, so the server may carry more."
            ]
        );
    }
}
