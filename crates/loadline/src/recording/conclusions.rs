//! The findings of a record in sentences: the throughput of each target, and the best call mode.

use std::time::Duration;

use loadline_measure::record::{self, Mode, Record};
use loadline_measure::{sizes, words};

use crate::units;

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
            let longest = most.stalls.iter().max_by_key(|stall| stall.length_ns);
            let stall = longest.map_or_else(String::new, |stall| {
                format!(
                    ", and at most {} without a reply",
                    words::duration(stall.length_ns as f64)
                )
            });
            return Some(format!(
                "{name} answered {} operations per second of {} with p50 {p50} and p99 {p99}, from their intended starts{stall}{limit}.",
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

/// Within this share of the highest throughput, a smaller batch is preferred.
const AS_GOOD: f64 = 0.05;

/// Adds one sentence per latency with the fastest call mode of each operation, its size, and its advantage over
/// the slowest mode. These sentences come first: they are the verdict.
pub(crate) fn conclude_modes(record: &mut Record) {
    let mut latencies: Vec<u64> = Vec::new();
    for case in &record.cases {
        if !latencies.contains(&case.scenario.latency_ns) {
            latencies.push(case.scenario.latency_ns);
        }
    }
    let mut sentences = Vec::new();
    for latency_ns in latencies {
        let here = || {
            let cases = record.cases.iter();
            cases.filter(move |case| case.scenario.latency_ns == latency_ns)
        };
        let mut operations: Vec<String> = Vec::new();
        for case in here() {
            if !operations.contains(&operation(case)) {
                operations.push(operation(case));
            }
        }
        let clauses = operations.iter().filter_map(|name| {
            let cases: Vec<&record::Case> =
                here().filter(|case| operation(case) == *name).collect();
            Some(format!("{name} by {}", best_mode(&cases)?))
        });
        let clauses: Vec<String> = clauses.collect();
        if !clauses.is_empty() {
            let latency = units::latency_words(Duration::from_nanos(latency_ns));
            sentences.push(format!(
                "Fastest with {latency} added: {}.",
                clauses.join("; ")
            ));
        }
    }
    record.findings.splice(0..0, sentences);
}

/// The operation, with the codec of its values.
fn operation(case: &record::Case) -> String {
    match &case.scenario.codec {
        Some(codec) => format!("{} as {codec}", case.scenario.workload),
        None => case.scenario.workload.clone(),
    }
}

/// The fastest call mode among the cells of one operation with one latency.
fn best_mode(here: &[&record::Case]) -> Option<String> {
    let throughput = |case: &&record::Case| case.throughput_ops_per_s;
    let by_throughput = |one: &&&record::Case, other: &&&record::Case| {
        throughput(one).total_cmp(&throughput(other))
    };
    // A mode is judged by the cell with the highest count: smaller cells consist mostly of the start.
    let is_largest = |case: &&&record::Case| {
        let of_mode = here
            .iter()
            .filter(|other| other.scenario.mode == case.scenario.mode);
        let most = of_mode.filter_map(|other| other.scenario.ops_asked).max();
        case.scenario.ops_asked.is_some() && case.scenario.ops_asked == most
    };
    // The cells of the search for a size have no count, and all have the same length.
    let counts = |case: &&&record::Case| case.scenario.ops_asked.is_none() || is_largest(case);
    let best = here.iter().filter(counts).max_by(by_throughput)?;
    let worst = here.iter().filter(is_largest).min_by(by_throughput);
    let as_good = |case: &&&record::Case| {
        case.scenario.mode == best.scenario.mode
            && throughput(case) >= (1.0 - AS_GOOD) * throughput(best)
    };
    let chosen = here
        .iter()
        .filter(counts)
        .filter(as_good)
        .min_by_key(|case| case.scenario.in_flight)
        .unwrap_or(best);
    let curve = || {
        let cells = here.iter().copied();
        cells.filter(|case| {
            case.scenario.ops_asked.is_none() && case.scenario.mode == best.scenario.mode
        })
    };
    let answer = sizes::of_cases(curve());
    let size = answer.as_ref().and_then(sizes::Answer::recommended);
    let recommended = curve().find(|case| Some(sizes::of_case(case)) == size);
    let chosen = recommended.as_ref().unwrap_or(chosen);
    // If noise determines which size is the fastest, no size is named, and the figure is that of the curve's end.
    let is_open = answer.is_some() && size.is_none();
    let (mode, chosen) = if is_open {
        (best.scenario.mode.to_string(), best)
    } else {
        (sized_mode(chosen), chosen)
    };
    let rivals = rivals(best, here.iter().copied().filter(|case| counts(&case)));
    let mut text = beside(&mode, &rivals, &best.scenario.mode);
    text += &units::count_text(throughput(chosen).round() as u64);
    text += " operations per second";
    let is_slower = |worst: &&&record::Case| {
        let mode = worst.scenario.mode.to_string();
        mode != chosen.scenario.mode.to_string() && !rivals.contains(&mode)
    };
    if let Some(worst) = worst.filter(is_slower) {
        let times = throughput(chosen) / throughput(worst).max(1e-9);
        let times = if times < 10.0 {
            format!("{times:.1}")
        } else {
            units::count_text(times.round() as u64)
        };
        text += &format!(
            ", {times} times as fast as {}, the slowest",
            worst.scenario.mode
        );
    }
    if let Some(answer) = answer {
        text += &format!(" ({})", answer.summary());
    }
    Some(text)
}

/// The fastest mode, and those that can be as fast, before its figure.
fn beside(sized: &str, rivals: &[String], mode: &Mode) -> String {
    if rivals.is_empty() {
        return format!("{sized}, ");
    }
    format!(
        "{sized} or {} (inconclusive: their rounds overlap), by {mode} ",
        rivals.join(" or ")
    )
}

/// The other modes that can be as fast as the mode of `best`: the rounds of their fastest cells overlap with those of
/// `best`. The cells of two modes share no rounds, so they are not compared in pairs.
fn rivals<'c>(best: &record::Case, cells: impl Iterator<Item = &'c record::Case>) -> Vec<String> {
    let range = |case: &record::Case| {
        let rounds = case.rounds.iter();
        let rates = rounds.map(|round| (round.throughput_ops_per_s, round.throughput_ops_per_s));
        rates.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    };
    let mut fastest: Vec<&record::Case> = Vec::new();
    for cell in cells.filter(|cell| cell.scenario.mode != best.scenario.mode) {
        let mut of_mode = fastest.iter_mut();
        match of_mode.find(|known| known.scenario.mode == cell.scenario.mode) {
            Some(known) if known.throughput_ops_per_s < cell.throughput_ops_per_s => *known = cell,
            Some(_) => {}
            None => fastest.push(cell),
        }
    }
    let overlaps = |cell: &&record::Case| {
        let ranges = range(best).zip(range(cell));
        ranges.is_some_and(|(best, other)| best.0 <= other.1 && other.0 <= best.1)
    };
    let rivals = fastest.into_iter().filter(overlaps);
    rivals.map(|cell| cell.scenario.mode.to_string()).collect()
}

/// A mode with its size: `batch of 1,000`, `async with 100 in flight`.
fn sized_mode(case: &record::Case) -> String {
    let mode = &case.scenario.mode;
    let size = units::count_text(case.scenario.in_flight.unwrap_or(1));
    match mode {
        Mode::Sync => mode.to_string(),
        Mode::Async => format!("{mode} with {size} in flight"),
        _ => format!("{mode} of {size}"),
    }
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{
        Case, Environment, Pacing, Record, RoundSummary, Run, Scenario,
    };

    use super::{conclude, conclude_modes};

    /// The table shows 116 us and 1.00 s, and so must the sentence.
    #[test]
    fn an_open_loop_is_summed_up_in_the_digits_of_its_table() {
        let mut case = cell("wire", None, 1, 9_990.0);
        case.scenario.pacing = Pacing::Rate(10_000.0);
        case.response_time_ns.p50 = Some(116_351);
        case.response_time_ns.p99 = Some(1_001_390_079);
        let mut record = Record::new(Run::default(), Environment::default());
        record.cases.push(case);
        conclude(&mut record);
        assert_eq!(
            record.findings,
            [
                " answered 9.99k operations per second of get with p50 116 us and p99 1.00 s, from their intended starts."
            ]
        );
    }

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
                "Fastest with no latency added: get by batch of 1,000, 1,950,000 operations per second, 195 times as fast as sync, the slowest."
            ]
        );
    }

    #[test]
    fn each_latency_has_one_sentence_over_all_operations() {
        let mut record = Record::new(Run::default(), Environment::default());
        for latency_ns in [0, 10_000_000] {
            for (workload, codec) in [("get", None), ("set", Some("json"))] {
                for (mode, size, rate) in [("sync", 1, 100.0), ("async", 50, 480.0)] {
                    let mut cell = cell(mode, Some(1_000), size, rate);
                    cell.scenario.latency_ns = latency_ns;
                    cell.scenario.workload = workload.into();
                    cell.scenario.codec = codec.map(Into::into);
                    record.cases.push(cell);
                }
            }
        }
        conclude_modes(&mut record);
        let of = |latency: &str| {
            let best = "by async with 50 in flight, 480 operations per second, 4.8 times as fast as sync, the slowest";
            format!("Fastest with {latency} added: get {best}; set as json {best}.")
        };
        assert_eq!(record.findings, [of("no latency"), of("10 ms")]);
    }

    fn with_rounds(case: Case, rates: &[f64]) -> Case {
        let round = |rate: &f64| RoundSummary {
            throughput_ops_per_s: *rate,
            ..RoundSummary::default()
        };
        Case {
            rounds: rates.iter().map(round).collect(),
            ..case
        }
    }

    /// The verdict of a report takes the first findings, one for each latency.
    #[test]
    fn the_sentences_of_the_latencies_come_before_what_was_left_out() {
        let mut record = Record::new(Run::default(), Environment::default());
        record.findings.push("script was left out: no EVAL.".into());
        record.cases = vec![cell("sync", Some(1_000), 1, 500.0)];
        conclude_modes(&mut record);
        let first = record.findings.first().unwrap();
        assert!(
            first.starts_with("Fastest with no latency added: get by sync"),
            "{first}"
        );
        assert_eq!(record.findings.len(), 2);
    }

    /// Sizes whose rounds overlap: none of them is named.
    #[test]
    fn noise_names_no_size_and_rounds_that_agree_name_a_range() {
        let rates = |even: f64, odd: f64| -> Vec<f64> {
            (0..10)
                .map(|round| if round % 2 == 0 { even } else { odd })
                .collect()
        };
        let curve = |rates: [Vec<f64>; 3]| {
            let mut record = Record::new(Run::default(), Environment::default());
            record.cases.push(cell("sync", Some(1_000), 1, 500.0));
            for (size, rates) in [100, 1_000, 10_000].into_iter().zip(rates) {
                let mean = rates.iter().sum::<f64>() / 10.0;
                record
                    .cases
                    .push(with_rounds(cell("batch", None, size, mean), &rates));
            }
            conclude_modes(&mut record);
            record.findings
        };
        let noise = [
            rates(800.0, 1_300.0),
            rates(1_200.0, 900.0),
            rates(600.0, 1_450.0),
        ];
        assert_eq!(
            curve(noise),
            [
                "Fastest with no latency added: get by batch, 1,050 operations per second, 2.1 times as fast as sync, the slowest (inconclusive: sizes from 100 to 10k cannot be told apart in 10 rounds)."
            ]
        );
        let quiet = [
            rates(500.0, 550.0),
            rates(990.0, 1_000.0),
            rates(1_000.0, 990.0),
        ];
        assert_eq!(
            curve(quiet),
            [
                "Fastest with no latency added: get by batch of 1,000, 995 operations per second, 2.0 times as fast as sync, the slowest (sizes from 1k to 10k can be within 5 % of the best, and all others are slower)."
            ]
        );
    }

    /// A batch that is faster on average, but not in every round.
    #[test]
    fn a_mode_is_the_fastest_only_if_its_rounds_lie_above_those_of_the_others() {
        let verdict = |pipeline: &[f64], sync: &[f64]| {
            let mut record = Record::new(Run::default(), Environment::default());
            for (mode, rates) in [
                ("sync", sync),
                ("pipeline", pipeline),
                ("batch", &[900.0, 1_000.0, 1_100.0]),
            ] {
                let mean = rates.iter().sum::<f64>() / rates.len() as f64;
                let size = if mode == "sync" { 1 } else { 100 };
                let cell = cell(mode, Some(1_000), size, mean);
                record.cases.push(with_rounds(cell, rates));
            }
            conclude_modes(&mut record);
            record.findings.remove(0)
        };
        let slow = [90.0, 100.0, 110.0];
        assert_eq!(
            verdict(&[700.0, 800.0, 890.0], &slow),
            "Fastest with no latency added: get by batch of 100, 1,000 operations per second, 10 times as fast as sync, the slowest."
        );
        assert_eq!(
            verdict(&[700.0, 800.0, 910.0], &slow),
            "Fastest with no latency added: get by batch of 100 or pipeline (inconclusive: their rounds overlap), by batch 1,000 operations per second, 10 times as fast as sync, the slowest."
        );
        assert_eq!(
            verdict(&[700.0, 800.0, 910.0], &[90.0, 100.0, 950.0]),
            "Fastest with no latency added: get by batch of 100 or sync or pipeline (inconclusive: their rounds overlap), by batch 1,000 operations per second."
        );
    }

    /// Cells of few operations are made several times over, so that they have as many as the next ones.
    #[test]
    fn the_count_and_not_the_operations_makes_a_cell_the_largest() {
        let mut record = Record::new(Run::default(), Environment::default());
        let small = Case {
            ops: 1_000,
            ..cell("pipeline", Some(100), 100, 3_000.0)
        };
        record.cases = vec![
            cell("sync", Some(1_000), 1, 500.0),
            small,
            cell("pipeline", Some(1_000), 100, 2_000.0),
        ];
        conclude_modes(&mut record);
        assert_eq!(
            record.findings,
            [
                "Fastest with no latency added: get by pipeline of 100, 2,000 operations per second, 4.0 times as fast as sync, the slowest."
            ]
        );
    }
}
