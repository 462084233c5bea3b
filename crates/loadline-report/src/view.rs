//! What all forms show, in the order in which they show it: cases of one scenario together, with
//! what is known about each pair, and the doctor's findings without repetition.

use loadline_measure::record::{
    Case, Comparison, Finding, Link, Record, Scenario, Severity, Verdict,
};

use crate::clean::plain;
use crate::sweep;
use loadline_measure::words;

/// The cases of one scenario.
pub(crate) struct Group<'r> {
    /// The workload.
    pub(crate) workload: String,
    /// What it was put under, in parts.
    pub(crate) conditions: Vec<String>,
    /// One row per subject.
    pub(crate) rows: Vec<Row<'r>>,
    /// The times are from intended starts, so service time and lag stand beside them.
    pub(crate) open_loop: bool,
}

/// A case and what is known of it beside the case that it is compared with.
pub(crate) struct Row<'r> {
    pub(crate) case: &'r Case,
    pub(crate) name: String,
    /// The name of the other subject.
    pub(crate) beside: Option<String>,
    /// All metrics that were compared, the throughput first.
    pub(crate) comparisons: Vec<&'r Comparison>,
}

/// A rule of the doctor and all that it found.
pub(crate) struct Diagnosis<'r> {
    pub(crate) rule: &'r str,
    pub(crate) severity: Severity,
    pub(crate) what_to_do: &'r str,
    /// Where, and what was seen there.
    pub(crate) seen: Vec<(&'r str, &'r str)>,
}

/// The cases by scenario, in the order of the record.
pub(crate) fn groups(record: &Record) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, case) in record.cases.iter().enumerate() {
        let workload = plain(&case.scenario.workload).into_owned();
        let conditions = conditions(&case.scenario);
        let row = row(record, index, case);
        match groups
            .iter_mut()
            .find(|group| group.workload == workload && group.conditions == conditions)
        {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                workload,
                conditions,
                rows: vec![row],
                open_loop: case.is_open_loop(),
            }),
        }
    }
    groups
}

/// The conditions that all groups share, to be said once.
pub(crate) fn shared_conditions(groups: &[Group<'_>]) -> Vec<String> {
    let Some((first, others)) = groups.split_first() else {
        return Vec::new();
    };
    let everywhere = |part: &&String| others.iter().all(|group| group.conditions.contains(part));
    first
        .conditions
        .iter()
        .filter(everywhere)
        .cloned()
        .collect()
}

/// The workload of a group, and what of its conditions is not shared by all.
pub(crate) fn title(group: &Group<'_>, shared: &[String]) -> String {
    let own = group
        .conditions
        .iter()
        .filter(|part| !shared.contains(part));
    std::iter::once(&group.workload)
        .chain(own)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The doctor's findings, the gravest first, each rule with its advice once.
pub(crate) fn diagnoses(record: &Record) -> Vec<Diagnosis<'_>> {
    let mut diagnoses: Vec<Diagnosis<'_>> = Vec::new();
    for Finding {
        rule,
        severity,
        scope,
        evidence,
        what_to_do,
    } in &record.doctor
    {
        let same = |known: &&mut Diagnosis<'_>| {
            (known.rule, known.severity, known.what_to_do) == (rule.as_str(), *severity, what_to_do)
        };
        match diagnoses.iter_mut().find(same) {
            Some(known) => known.seen.push((scope, evidence)),
            None => diagnoses.push(Diagnosis {
                rule: rule.as_str(),
                severity: *severity,
                what_to_do,
                seen: vec![(scope, evidence)],
            }),
        }
    }
    diagnoses.sort_by_key(|diagnosis| std::cmp::Reverse(diagnosis.severity));
    diagnoses
}

/// What must be known about a case before its figures are read; usually nothing.
pub(crate) fn warnings(case: &Case) -> Vec<String> {
    let mut warnings = Vec::new();
    let errors = case.error_count();
    if errors > 0 {
        let kinds: Vec<String> = case
            .errors
            .iter()
            .take(4)
            .map(|(kind, count)| format!("{} {count}", plain(kind)))
            .collect();
        let more = if case.errors.len() > kinds.len() {
            ", ..."
        } else {
            ""
        };
        let share = words::percent(errors as f64 / case.ops.max(1) as f64);
        warnings.push(format!(
            "{} of {} operations ({share}): {}{more}",
            words::plural(errors, "error"),
            case.ops,
            kinds.join(", ")
        ));
    }
    if let Some(hits) = case.hit_ratio.filter(|hits| *hits < 1.0) {
        warnings.push(format!("{} of the reads hit", words::percent(hits)));
    }
    if let Some((not_sent, planned)) = case
        .not_sent
        .filter(|not_sent| *not_sent > 0)
        .zip(case.planned)
    {
        warnings.push(format!(
            "{not_sent} of {planned} planned operations were not sent"
        ));
    }
    if !case.steady {
        warnings.push("no steady state".to_owned());
    }
    warnings
}

/// The tail of operations run one at a time beside the load, with and without the waiting for a CPU.
pub(crate) fn tail(case: &Case) -> Option<String> {
    let tail = case.tail?;
    let [raw, corrected] = [tail.raw.p99, tail.corrected.p99].map(words::percentile);
    let count = tail.raw.count;
    Some(if tail.raw.p99.is_some() {
        format!(
            "tail of one connection: p99 {raw} raw, {corrected} without waiting for a CPU ({count} operations)"
        )
    } else {
        format!("tail of one connection: {count} operations are too few for a p99")
    })
}

/// A comparison as a phrase: `p50 0.78x [0.71, 0.83]`.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    let interval = comparison.interval.map(|bounds| {
        format!(
            " [{}, {}]",
            words::bound(bounds.lo),
            words::bound(bounds.hi)
        )
    });
    format!(
        "{}{}",
        words::ratio(comparison.ratio),
        interval.unwrap_or_else(|| " [too few rounds]".to_owned())
    )
}

/// The verdict of a comparison as a sentence, and the smallest change that would have shown.
pub(crate) fn evidence(comparison: &Comparison) -> String {
    let evidence = plain(&comparison.evidence);
    let evidence = if is_cost(comparison) {
        evidence
            .replace("slower", "higher")
            .replace("faster", "lower")
    } else {
        evidence.into_owned()
    };
    match comparison.minimum_detectable_effect {
        Some(share) => format!(
            "{evidence}; changes of {} or more would show",
            words::percent(share)
        ),
        None => evidence,
    }
}

/// The metric of a comparison in the words of a report.
pub(crate) fn metric(comparison: &Comparison) -> &str {
    match comparison.metric.as_str() {
        "throughput_ops_per_s" => "throughput",
        "response_time_ns_p50" => "p50",
        "response_time_ns_p99" => "p99",
        "corrected_time_ns_p99" => "corrected p99",
        "response_time_ns_mean" => "mean response time",
        "server_cpu_ns_per_op" => "server CPU",
        "client_cpu_ns_per_op" => "generator CPU",
        other => other,
    }
}

/// A verdict in the word that fits its metric: a cost is not slower but higher.
pub(crate) fn verdict(comparison: &Comparison) -> &'static str {
    let cost = is_cost(comparison);
    match comparison.verdict {
        Verdict::Slower if cost => "higher",
        Verdict::Faster if cost => "lower",
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::Equivalent => "the same",
        Verdict::Inconclusive => "cannot tell",
    }
}

fn is_cost(comparison: &Comparison) -> bool {
    comparison.metric.contains("cpu") || comparison.metric.contains("bytes")
}

/// The machine and the servers, a line each.
pub(crate) fn surroundings(record: &Record) -> Vec<String> {
    let environment = &record.environment;
    let machine: Vec<String> = [
        environment.cores.map(|cores| words::plural(cores, "CPU")),
        environment
            .cpu_model
            .as_deref()
            .map(|model| plain(model).into_owned()),
        environment
            .memory_bytes
            .map(|bytes| format!("{} of memory", words::bytes(bytes))),
        environment
            .kernel
            .as_deref()
            .map(|kernel| plain(kernel).into_owned()),
        environment
            .virtualization
            .as_deref()
            .map(|kind| plain(kind).into_owned()),
        environment
            .noise
            .cpu_pressure
            .map(|share| format!("CPU pressure up to {}", words::percent(share))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let servers = environment.servers.iter().map(|server| {
        let name = server.name.as_deref().unwrap_or("a server");
        let version = server
            .version
            .as_deref()
            .map(|version| format!(" {version}"))
            .unwrap_or_default();
        plain(&format!("{}: {name}{version}", server.subject)).into_owned()
    });
    let machine = (!machine.is_empty()).then(|| machine.join(", "));
    let mut lines: Vec<String> = machine.into_iter().chain(servers).collect();
    // A sweep says it where it shows what was called through the link.
    if !sweep::is_sweep(record) {
        lines.extend(record.links.iter().map(|link| {
            format!(
                "{} added by {}: {}",
                words::span(link.latency_ns),
                plain(link.class.as_str()),
                path(link)
            )
        }));
    }
    lines
}

/// What a link really does, as it measured itself, and what it was to be like beside its latency.
pub(crate) fn path(link: &Link) -> String {
    let mut text = String::new();
    if let Some(jitter) = &link.jitter {
        text += &format!("jitter {}, ", plain(jitter));
    }
    if let Some(bandwidth) = link.bandwidth_bytes_per_s {
        text += &format!("{} each way, ", words::bits_per_second(bandwidth));
    }
    text += &format!(
        "round trips through it p50 {}, p99 {}",
        words::duration(link.through_p50_ns as f64),
        words::duration(link.through_p99_ns as f64),
    );
    if let (Some(late), Some(scheduling)) = (link.release_late_p99_ns, &link.scheduling) {
        text += &format!(
            ", released late p99 {} ({} scheduling)",
            words::duration(late as f64),
            plain(scheduling.as_str())
        );
    }
    if link.keeps_awake {
        text += ", idle processors polled";
    }
    if let Some(mtu) = link.mtu {
        text += &format!(", MTU {mtu}");
    }
    if let Some(control) = &link.congestion_control {
        text += &format!(", {}", plain(control));
    }
    text
}

/// How the figures were made, in one sentence.
pub(crate) fn how_measured(record: &Record) -> String {
    if record.cases.is_empty() {
        return format!("Seed {}.", record.run.seed);
    }
    let took = record
        .run
        .duration_ns
        .map(|ns| format!(", {} in all", words::duration(ns as f64)))
        .unwrap_or_default();
    if record.capacity.is_some() {
        let trials = words::plural(record.cases.len().saturating_sub(1) as u64, "trial");
        return format!(
            "Measured in a closed loop and {trials} in an open loop; seed {}{took}.",
            record.run.seed
        );
    }
    let rounds = record.cases.iter().map(|case| case.rounds.len());
    let (fewest, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
    let rounds = if fewest == most {
        words::plural(most as u64, "round")
    } else {
        format!("{fewest} to {most} rounds")
    };
    let precise = ended_by_precision(record, fewest);
    let several = record
        .cases
        .iter()
        .any(|case| case.subject != record.cases[0].subject);
    let interleaved = if several {
        ", the targets interleaved in random order"
    } else {
        ""
    };
    let open = record
        .cases
        .iter()
        .filter(|case| case.is_open_loop())
        .count();
    let pacing = match open {
        0 => "closed loop",
        _ if open == record.cases.len() => "open loop",
        _ => "closed and open loops",
    };
    format!(
        "Measured in {rounds} per case{precise}{interleaved}; {pacing}; seed {}{took}.",
        record.run.seed
    )
}

/// Why cases have fewer rounds than were planned, where they may end once ratios are precise.
fn ended_by_precision(record: &Record, fewest: usize) -> String {
    let plan = &record.run.plan;
    let is_asked = plan["until_precise"].as_bool() == Some(true) && !record.run.cut_short;
    plan["rounds"]
        .as_u64()
        .filter(|planned| is_asked && (fewest as u64) < *planned)
        .map(|planned| {
            format!(
                " (fewer than {planned} where the ratios of throughput and p50 were known to 1.5 % by then)"
            )
        })
        .unwrap_or_default()
}

/// What the column of CPU time means, where the tables have one and do not say it themselves.
pub(crate) fn cpu_legend(record: &Record) -> Option<&'static str> {
    let has_column = record.capacity.is_none() && !crate::sweep::is_sweep(record);
    (has_column && !record.cases.is_empty())
        .then_some("CPU us/op: CPU time of the generator + of the server per operation.")
}

/// What the columns mean, as far as it is not said by their names.
pub(crate) fn legend(record: &Record) -> Vec<String> {
    let mut legend = Vec::new();
    if record.capacity.is_some() {
        legend.extend(crate::capacity::LEGEND.map(str::to_owned));
        return legend;
    }
    let (open, closed): (Vec<&Case>, Vec<&Case>) =
        record.cases.iter().partition(|case| case.is_open_loop());
    if !open.is_empty() {
        legend.push("Percentiles are of the response time, from the intended start of an operation; service time counts from its sending, lag is the generator's own.".to_owned());
    }
    // A sweep is closed as the application is that it stands for, and has no `--rate`.
    if !closed.is_empty() && !crate::sweep::is_sweep(record) {
        legend.push("A closed loop waits for replies before it sends more: it shows capacity. For claims about response times use --rate.".to_owned());
    }
    if record
        .cases
        .iter()
        .any(|case| case.response_time_ns.p50.is_none() || case.response_time_ns.p999.is_none())
    {
        legend.push("\"too few\": fewer than 100 samples lie beyond that percentile.".to_owned());
    }
    if record
        .comparisons
        .iter()
        .any(|comparison| comparison.verdict == Verdict::Inconclusive)
    {
        legend.push(
            "More rounds (--rounds) or a quieter machine would show smaller changes.".to_owned(),
        );
    }
    legend
}

fn row<'r>(record: &'r Record, index: usize, case: &'r Case) -> Row<'r> {
    let mut comparisons: Vec<&Comparison> = record
        .comparisons
        .iter()
        .filter(|comparison| comparison.b == index && comparison.a != index)
        .collect();
    comparisons.sort_by_key(|comparison| comparison.metric != "throughput_ops_per_s");
    let beside = comparisons
        .first()
        .and_then(|comparison| record.cases.get(comparison.a));
    Row {
        case,
        name: plain(&case.subject.name).into_owned(),
        beside: beside.map(|other| plain(&other.subject.name).into_owned()),
        comparisons,
    }
}

/// What a scenario puts a subject under, as parts that tell scenarios apart.
fn conditions(scenario: &Scenario) -> Vec<String> {
    let mut parts = vec![
        words::pacing(scenario.pacing, scenario.arrivals.as_ref()),
        match scenario.connections {
            0 => format!("called by {}", words::plural(scenario.threads, "thread")),
            connections => words::plural(connections, "connection"),
        },
        words::value_size(&scenario.value_bytes),
        format!(
            "{} keys {}",
            words::amount(scenario.keys),
            scenario.key_dist
        ),
    ];
    if scenario.pipeline > 1 {
        parts.push(format!("pipeline {}", scenario.pipeline));
    }
    if scenario.batch > 1 {
        parts.push(format!("batch {}", scenario.batch));
    }
    if let Some(ops) = scenario.ops_asked {
        parts.push(format!("{} operations", words::amount(ops)));
    }
    if scenario.latency_ns > 0 {
        parts.push(format!(
            "{} added latency",
            words::span(scenario.latency_ns)
        ));
    }
    if scenario.resp > 2 {
        parts.push(format!("RESP{}", scenario.resp));
    }
    parts.iter().map(|part| plain(part).into_owned()).collect()
}
