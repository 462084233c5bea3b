//! The result of the cases of a record, in one sentence.

use loadline_measure::Metric;
use loadline_measure::record::{Case, Comparison, Pacing, Record, Verdict as Told};
use loadline_measure::words;

use super::change::{Change, HEIGHTS, change, is_noise};
use super::verdict::lost_agents;

/// The largest missing share of a rate that was kept.
const KEPT: f64 = 0.01;
/// Groups of cases are named one by one up to here, then counted.
const MOST_NAMED: usize = 2;

/// The result of the cases, without a full stop.
pub(super) fn of_cases(record: &Record) -> String {
    let Some(case) = record.cases.first() else {
        return "Nothing was measured".to_owned();
    };
    let mut found = match pairs(record) {
        pairs if pairs.is_empty() => alone(record, case),
        pairs if pairs.len() <= MOST_NAMED => {
            let phrases: Vec<String> = pairs.iter().map(|pair| pair_phrase(record, pair)).collect();
            let phrases = phrases.join("; ");
            match phrases.strip_prefix('i') {
                Some(rest) if phrases.starts_with("inconclusive: ") => format!("I{rest}"),
                _ => phrases,
            }
        }
        pairs => two_targets(record, &pairs).unwrap_or_else(|| counted(&pairs)),
    };
    if !record.agents.is_empty() {
        let agents = words::plural(record.agents.len() as u64, "agent");
        found += &match lost_agents(record) {
            None => format!(", from {agents}"),
            Some(lost) => format!(", DEGRADED: from {agents} only, because {lost}"),
        };
    }
    let errors = record.errors();
    if errors > 0 {
        let ops = record.cases.iter().map(|case| case.ops);
        let ops = ops.fold(0, u64::saturating_add);
        found += &format!("; {errors} of {ops} operations failed");
    }
    found
}

/// Targets that were not compared: the first case in figures, the others by their number.
fn alone(record: &Record, case: &Case) -> String {
    let (name, times) = (&case.subject.name, &case.response_time_ns);
    let noun = operations(&case.scenario.workload);
    let rate = words::count(case.throughput_ops_per_s);
    let mut text = if case.is_open_loop() {
        // The schedule decided about the rate, so response times are what was found.
        let stall = case.stalls.iter().max_by_key(|stall| stall.length_ns);
        let longest = stall.map_or_else(
            || format!("longest {}", words::percentile(times.max)),
            |stall| {
                let length = words::duration(stall.length_ns as f64);
                format!("longest stall {length} (cause: {})", stall.cause)
            },
        );
        let least = case.at_least();
        // The schedule held more than was done.
        let of = match case.scenario.pacing {
            Pacing::Rate(planned) if case.throughput_ops_per_s < (1.0 - KEPT) * planned => {
                format!(" of {} planned", words::amount(planned.round() as u64))
            }
            _ => String::new(),
        };
        format!(
            "{name} at {rate}{of} {noun} per second: p50 {least}{}, p99 {least}{}, {longest} (open loop)",
            words::percentile(times.p50),
            words::percentile(times.p99),
        )
    } else {
        let p99 = times.p99.map_or_else(String::new, |ns| {
            format!(", p99 {}", words::duration(ns as f64))
        });
        format!("{name}: {rate} {noun} per second{p99} (closed loop)")
    };
    let others = record.cases.len() - 1;
    if others > 0 {
        text += &format!(
            "; {} in the table",
            words::plural(others as u64, "more case")
        );
    }
    text
}

/// The comparisons that decide: throughput of closed loops, medians of open ones.
fn pairs(record: &Record) -> Vec<&Comparison> {
    let decides = |comparison: &&Comparison| {
        let case = record.cases.get(comparison.b);
        let is_open = case.is_some_and(Case::is_open_loop);
        let metric = if is_open {
            Metric::P50
        } else {
            Metric::Throughput
        };
        comparison.metric == metric.key() && record.cases.get(comparison.a).is_some()
    };
    record.comparisons.iter().filter(decides).collect()
}

fn pair_phrase(record: &Record, comparison: &Comparison) -> String {
    let (a, b) = (&record.cases[comparison.a], &record.cases.get(comparison.b));
    let Some(b) = b else {
        return String::new();
    };
    let several = record.cases.len() > 2;
    let mut case = if several && b.name() != b.scenario.workload {
        format!(" ({})", b.name())
    } else {
        String::new()
    };
    let noun = operations(&b.scenario.workload);
    let bounds = comparison.interval.map(|bounds| (bounds.lo, bounds.hi));
    if comparison.verdict == Told::Equivalent {
        case += "; no difference that matters";
    }
    if is_noise(comparison.verdict == Told::Inconclusive, bounds) {
        let [a, b] = [&a.subject.name, &b.subject.name];
        return format!("inconclusive: too noisy to compare {b} with {a}{case}");
    }
    let mut lead = "";
    if comparison.verdict == Told::Inconclusive {
        lead = "inconclusive: ";
        if let Some(share) = comparison.minimum_detectable_effect {
            case += &format!("; can detect changes of {} or more", words::percent(share));
        }
    }
    if b.is_open_loop() {
        let change = Change::of(comparison.ratio, bounds, HEIGHTS);
        let Change {
            amount,
            than,
            interval,
        } = change;
        return format!(
            "{lead}{}: p50 {amount} {than} {}{interval}{case}",
            b.subject.name, a.subject.name
        );
    }
    let change = Change::of(comparison.ratio, bounds, ["more", "fewer", "many"]);
    let Change {
        amount,
        than,
        interval,
    } = change;
    format!(
        "{lead}{}: {amount} {noun} per second {than} {}{interval}{case}",
        b.subject.name, a.subject.name
    )
}

/// Many cases of the same two targets: each change with its interval, then the cases without one.
fn two_targets(record: &Record, pairs: &[&Comparison]) -> Option<String> {
    const MOST_CASES: usize = 6;
    const MOST_CHANGES: usize = 4;
    let names = |pair: &Comparison| {
        let (a, b) = (record.cases.get(pair.a)?, record.cases.get(pair.b)?);
        Some([a.subject.name.as_str(), b.subject.name.as_str()])
    };
    let [a, b] = names(pairs.first()?)?;
    if pairs.len() > MOST_CASES || pairs.iter().any(|pair| names(pair) != Some([a, b])) {
        return None;
    }
    let is_change = |pair: &&&Comparison| matches!(pair.verdict, Told::Faster | Told::Slower);
    let changes = pairs.iter().filter(is_change);
    let mut parts: Vec<String> = changes
        .map(|pair| case_phrase(pair, &record.cases[pair.b]))
        .collect();
    if parts.len() > MOST_CHANGES {
        return None;
    }
    for (verdict, lead) in [
        (Told::Equivalent, "no difference that matters"),
        (Told::Inconclusive, "inconclusive"),
    ] {
        let cases: Vec<String> = pairs
            .iter()
            .filter(|pair| pair.verdict == verdict)
            .map(|pair| record.cases[pair.b].name())
            .collect();
        if !cases.is_empty() {
            parts.push(format!("{lead}: {}", cases.join(", ")));
        }
    }
    Some(format!("{b} compared with {a}: {}", parts.join("; ")))
}

/// The change of one case: `set: 20 % fewer per second [16, 24]`.
fn case_phrase(pair: &Comparison, case: &Case) -> String {
    let bounds = pair.interval.map(|bounds| (bounds.lo, bounds.hi));
    let name = case.name();
    if is_noise(false, bounds) {
        return format!("{name}: too noisy");
    }
    if case.is_open_loop() {
        return format!("{name}: p50 {}", change(pair.ratio, bounds));
    }
    let Change {
        amount, interval, ..
    } = Change::of(pair.ratio, bounds, ["more", "fewer", "many"]);
    format!("{name}: {amount} per second{interval}")
}

/// Number of comparisons by verdict, for too many comparisons to name.
fn counted(pairs: &[&Comparison]) -> String {
    let of = |verdict| pairs.iter().filter(|pair| pair.verdict == verdict).count();
    format!(
        "Of {} comparisons with the first target, {} are faster, {} slower, {} the same and {} inconclusive",
        pairs.len(),
        of(Told::Faster),
        of(Told::Slower),
        of(Told::Equivalent),
        of(Told::Inconclusive)
    )
}

/// `GETs`, or `operations of getset-70-30`.
fn operations(workload: &str) -> String {
    const COMMANDS: [&str; 18] = [
        "ping", "get", "set", "del", "incr", "mget", "mset", "sadd", "smembers", "hset", "hget",
        "lpush", "lrange", "zadd", "xadd", "xread", "publish", "hgetall",
    ];
    if COMMANDS.contains(&workload) {
        format!("{}s", workload.to_uppercase())
    } else {
        format!("operations of {workload}")
    }
}
