//! The verdict of each kind of document, in one sentence.

use loadline_measure::Metric;
use loadline_measure::compare::Supported;
use loadline_measure::gate::{Basis, Judgement, Outcome, Row, RowVerdict, outcome_of};
use loadline_measure::record::{Case, Comparison, Pacing, Record, Severity, Verdict as Told};
use loadline_measure::words;

use super::compared;
use super::page::Page;
use crate::document::{CheckResult, Tone, Verdict};

/// A change that a baseline is expected to detect.
const EXPECTED: f64 = 0.10;
/// The largest missing share of a rate that was kept.
const KEPT: f64 = 0.01;
/// Groups of cases are named one by one up to here, then counted.
const MOST_NAMED: usize = 2;

impl Verdict {
    fn new(result: CheckResult, sentence: String) -> Self {
        let tone = match result {
            CheckResult::Passed => Tone::Plain,
            other => other.tone(),
        };
        Self {
            result,
            tone,
            sentence,
        }
    }
}

/// The verdict of a record: of its judgement, or what was measured.
pub(super) fn of_record(record: &Record, page: &Page<'_>) -> Verdict {
    if let Some(judgement) = &record.judgement {
        return of_judgement(judgement);
    }
    let found = &page.found;
    if record.run.cut_short {
        let sentence =
            format!("Cut short: the run ended before its plan was done. Until then: {found}.");
        return Verdict::new(CheckResult::Error, sentence);
    }
    let of = |verdict| {
        record
            .limits
            .iter()
            .filter(move |row| row.verdict == verdict)
    };
    let all = words::plural(record.limits.len() as u64, "limit");
    match outcome_of(&record.limits) {
        Outcome::Critical => {
            let broken = of(RowVerdict::Critical).count();
            let sentence = format!("Critical: {broken} of {all} not kept. {found}.");
            Verdict::new(CheckResult::Failed("critical"), sentence)
        }
        Outcome::Inconclusive => {
            let open = of(RowVerdict::Inconclusive).count();
            let sentence = format!("Inconclusive: {open} of {all} cannot be judged. {found}.");
            Verdict::new(CheckResult::Skipped, sentence)
        }
        _ if record.limits.is_empty() => Verdict::new(page.result, format!("{found}.")),
        _ => Verdict {
            tone: Tone::Good,
            ..Verdict::new(CheckResult::Passed, format!("{all} kept. {found}."))
        },
    }
}

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
    if compared::is_noise(comparison.verdict == Told::Inconclusive, bounds) {
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
    let names = |pair: &Comparison| {
        let (a, b) = (record.cases.get(pair.a)?, record.cases.get(pair.b)?);
        Some([a.subject.name.as_str(), b.subject.name.as_str()])
    };
    let [a, b] = names(pairs.first()?)?;
    if pairs.len() > MOST_CASES || pairs.iter().any(|pair| names(pair) != Some([a, b])) {
        return None;
    }
    let is_change = |pair: &&&Comparison| matches!(pair.verdict, Told::Faster | Told::Slower);
    let mut parts: Vec<String> = pairs
        .iter()
        .filter(is_change)
        .map(|pair| case_phrase(pair, &record.cases[pair.b]))
        .collect();
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
    if compared::is_noise(false, bounds) {
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

/// The words for a figure that is higher, lower or as high.
const HEIGHTS: [&str; 3] = ["higher", "lower", "high"];

/// A ratio as a change: `20 % fewer`, `than`, ` [16, 24]`; from twice on as a factor.
struct Change {
    amount: String,
    than: &'static str,
    interval: String,
}

impl Change {
    fn of(ratio: f64, bounds: Option<(f64, f64)>, [more, fewer, many]: [&str; 3]) -> Self {
        let (lead, ratio) = match bounds.map(|bounds| Supported::of(bounds, false)) {
            Some(Supported::Bound(bound)) => ("at least ", bound),
            _ => ("", ratio),
        };
        if ratio >= 2.0 || !ratio.is_finite() {
            let bounds = bounds.map(|(lo, hi)| [words::bound(lo), words::bound(hi)]);
            return Self {
                amount: format!("{lead}{} times as {many}", words::bound(ratio)),
                than: "as",
                interval: interval(bounds),
            };
        }
        let is_less = ratio < 1.0;
        let share = |ratio: f64| percent((if is_less { 1.0 - ratio } else { ratio - 1.0 }) * 100.0);
        let bounds = bounds.map(|(lo, hi)| if is_less { [hi, lo] } else { [lo, hi] }.map(share));
        let direction = if is_less { fewer } else { more };
        Self {
            amount: format!("{lead}{} % {direction}", share(ratio)),
            than: "than",
            interval: interval(bounds),
        }
    }
}

fn interval(bounds: Option<[String; 2]>) -> String {
    bounds.map_or_else(String::new, |[lo, hi]| format!(" [{lo}, {hi}]"))
}

/// The change of a metric with its interval: `20 % lower [16, 24]`.
pub(super) fn change(ratio: f64, bounds: Option<(f64, f64)>) -> String {
    let Change {
        amount, interval, ..
    } = Change::of(ratio, bounds, HEIGHTS);
    amount + &interval
}

/// A percentage without its sign, with one decimal below ten.
fn percent(value: f64) -> String {
    match value {
        _ if value.abs() >= 1e6 => format!("{value:.2e}"),
        _ if value.abs() >= 9.95 => format!("{value:.0}"),
        // Minus zero is zero.
        _ => format!("{:.1}", if value.abs() < 0.05 { 0.0 } else { value }),
    }
}

/// The verdict of a gate or a comparison.
pub(super) fn of_judgement(judgement: &Judgement) -> Verdict {
    let of = |grave: &[RowVerdict]| {
        let rows = judgement.rows.iter();
        rows.filter(|row| grave.contains(&row.verdict)).count()
    };
    let figures = words::plural(judgement.rows.len() as u64, "figure");
    let (critical, warning) = (of(&[RowVerdict::Critical]), of(&[RowVerdict::Warning]));
    match judgement.outcome {
        Outcome::Critical => {
            let worse = critical + warning;
            let sentence = format!(
                "Critical: {}{worse} of {figures} got worse or broke a limit, {critical} critically.",
                worst(judgement, RowVerdict::Critical)
            );
            Verdict::new(CheckResult::Failed("critical"), sentence)
        }
        Outcome::Warning => {
            let worst = worst(judgement, RowVerdict::Warning);
            let sentence = format!("Warning: {worst}{warning} of {figures} got worse.");
            Verdict::new(CheckResult::Failed("warning"), sentence)
        }
        Outcome::Inconclusive if judgement.refused => {
            let why = judgement.reasons.first();
            let why = why.map_or_else(|| ".".to_owned(), |why| format!(": {why}"));
            Verdict::new(CheckResult::Error, format!("These cannot be compared{why}"))
        }
        Outcome::Inconclusive => Verdict::new(CheckResult::Skipped, inconclusive(judgement)),
        Outcome::None => {
            let (faster, slower) = (of(&[RowVerdict::Faster]), of(&[RowVerdict::Slower]));
            let worst = worst(judgement, RowVerdict::Equivalent);
            let work = work(judgement).map_or_else(String::new, |work| work + "; ");
            let open = of(&[RowVerdict::Inconclusive]);
            let sentence = if open == 0 {
                format!(
                    "No regression: {work}{worst}of {figures}, {faster} got better and {slower} slightly worse."
                )
            } else {
                format!(
                    "No regression found: {work}{worst}of {figures}, {faster} got better, {slower} slightly worse and {open} inconclusive."
                )
            };
            Verdict {
                tone: Tone::Good,
                ..Verdict::new(CheckResult::Passed, sentence)
            }
        }
    }
}

/// The row of a verdict that moved most, as a phrase with its interval.
fn worst(judgement: &Judgement, verdict: RowVerdict) -> String {
    let moved = |row: &&Row| {
        let sure = row.ratio.map_or(0.0, |ratio| match support(row) {
            Supported::Ratio => ratio.ln(),
            Supported::Bound(bound) => bound.ln(),
            Supported::Nothing => 0.0,
        });
        sure.abs()
    };
    let rows = judgement.rows.iter().filter(|row| row.verdict == verdict);
    // A headline is quoted, so its figures must stand in the table, and a ratio without them is left out; so is
    // work that did not change, which leads the sentence.
    let rows = rows.filter(|row| row.limit.is_some() || row.baseline.and(row.candidate).is_some());
    let rows = rows.filter(|row| row.is_change() || !row.metric.is_work());
    let Some(row) = rows.max_by(|a, b| moved(a).total_cmp(&moved(b))) else {
        return String::new();
    };
    let Some(ratio) = row.ratio.filter(|_| support(row) != Supported::Nothing) else {
        return format!("{}: {}; ", compared::subject(row), row.evidence);
    };
    let change = change(ratio, row.lo.zip(row.hi));
    format!("{} {change}; ", compared::subject(row))
}

/// The part of a row's ratio that can be quoted; a ratio without an interval was not compared over rounds.
fn support(row: &Row) -> Supported {
    let is_open = row.verdict == RowVerdict::Inconclusive;
    row.lo
        .zip(row.hi)
        .map_or(Supported::Ratio, |bounds| Supported::of(bounds, is_open))
}

/// The change in instructions per operation, of all cases that were counted: the widest interval if none changed.
fn work(judgement: &Judgement) -> Option<String> {
    let rows = judgement.rows.iter();
    let rows: Vec<&Row> = rows
        .filter(|row| row.metric.is_work() && row.limit.is_none())
        .collect();
    let bounds = |row: &Row| {
        row.lo
            .zip(row.hi)
            .filter(|_| row.verdict != RowVerdict::Inconclusive)
    };
    let ends: Option<Vec<(f64, f64)>> = rows.iter().map(|row| bounds(row)).collect();
    let (lo, hi) = ends?
        .into_iter()
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let changed: Vec<String> = rows
        .iter()
        .filter(|row| row.is_change())
        .filter_map(|row| {
            Some(format!(
                "{} {}",
                row.case,
                change(row.ratio?, row.lo.zip(row.hi))
            ))
        })
        .collect();
    if changed.is_empty() {
        let [lo, hi] = [lo, hi].map(|end| signed_percent(end - 1.0));
        return Some(format!("no change in work per operation [{lo}, {hi} %]"));
    }
    Some(format!("work per operation: {}", changed.join(", ")))
}

/// `+1`, `-0.6`: a share in percent, with its sign.
fn signed_percent(share: f64) -> String {
    let sign = if share < 0.0 { '-' } else { '+' };
    format!("{sign}{}", percent(100.0 * share.abs()))
}

/// Of times that are all inconclusive, the smallest change that one of them can show.
fn blind_times(judgement: &Judgement) -> Option<f64> {
    let times = judgement.rows.iter();
    let times = times.filter(|row| row.limit.is_none() && !row.metric.is_work());
    let effects = times.filter_map(|row| row.minimum_detectable_effect);
    effects.reduce(f64::min)
}

fn inconclusive(judgement: &Judgement) -> String {
    if let Some(work) = work(judgement) {
        let times = blind_times(judgement).map_or_else(
            || "times are inconclusive".to_owned(),
            |effect| {
                let effect = words::percent(effect);
                format!("times cannot show less than {effect} on this machine today")
            },
        );
        return format!("Inconclusive: {work}; {times}.");
    }
    let mut compared = judgement.rows.iter().filter(|row| row.limit.is_none());
    let blind = |row: &Row| {
        let effect = row.minimum_detectable_effect;
        row.verdict == RowVerdict::Inconclusive && effect.is_some_and(|effect| effect > EXPECTED)
    };
    let is_noisy = compared.clone().next().is_some() && compared.all(blind);
    if is_noisy && judgement.basis == Basis::Baseline {
        return "Inconclusive: this machine is too noisy for a baseline to show 10 %; run `compare A B`."
            .to_owned();
    }
    let why = judgement.reasons.first();
    let why = why.map_or("no metric shows whether it got worse.", String::as_str);
    format!("Inconclusive: {why}")
}

/// The verdict of an examination.
pub(super) fn of_examination(record: &Record) -> Verdict {
    let of = |severity| {
        let findings = record.doctor.iter();
        findings.filter(|found| found.severity == severity).count() as u64
    };
    if record.run.cut_short {
        let sentence = "Cut short: an interrupt ended the examination before all of it was done.";
        return Verdict::new(CheckResult::Error, sentence.to_owned());
    }
    let (critical, warnings) = (of(Severity::Critical), of(Severity::Warning));
    let sentence = match record.doctor.first() {
        None => "No finding: nothing here would make a measurement unreliable.".to_owned(),
        Some(first) => format!(
            "{}, {critical} critical: the gravest is {}.",
            words::plural(record.doctor.len() as u64, "finding"),
            first.rule
        ),
    };
    match (critical, warnings) {
        (0, 0) => Verdict {
            tone: Tone::Good,
            ..Verdict::new(CheckResult::Passed, sentence)
        },
        (0, _) => Verdict::new(CheckResult::Failed("warning"), sentence),
        _ => Verdict::new(CheckResult::Failed("critical"), sentence),
    }
}
