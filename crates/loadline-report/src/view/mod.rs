//! Builders: what a record, a judgement, a proof or a baseline says, as sections in the order of
//! reading. The verdict comes first, then limits, evidence, findings, how to read it, and where it was
//! measured. A new kind of answer adds a file here and an arm in [`Page::of`].

mod agents;
mod baseline;
mod capacity;
mod cases;
mod change;
mod clients;
mod compared;
mod engines;
mod failover;
mod fastest;
mod flames;
mod found;
mod groups;
mod machine;
mod method;
mod page;
mod proof;
mod sizes;
mod summary;
mod sweep;
mod tiers;
mod verdict;

use loadline_measure::record::{Case, Finding, Link, Record, Rule, Severity, Verdict as Told};
use loadline_measure::words;

use crate::document::{Block, Document, Item, Section, Tone};
use page::Page;

pub(crate) use baseline::baseline;
pub use capacity::{capacity_findings, capacity_of_agents};
pub(crate) use compared::{judgement, judgement_of, last_line};
pub(crate) use proof::proof;
pub use summary::case_findings;

/// The answer of a record without cases of its kind.
const NOTHING: &str = "Nothing was found";

/// Findings of the doctor in a brief text report.
const BRIEF_FINDINGS: usize = 3;

/// The document of a record.
pub(crate) fn of_record(record: &Record) -> Document {
    let page = Page::of(record);
    let verdict = verdict::of_record(record, &page.found, page.result);
    let mut sections = match &record.judgement {
        // A judgement has the limits among its rows.
        Some(judgement) => compared::sections(judgement),
        None => vec![compared::limits(&record.limits)],
    };
    let (how_to_read, facts) = (how_to_read(record, &page), facts(record, &page));
    let mut evidence = page.sections;
    evidence.extend([agents::section(record), flames::section(record)]);
    if record.judgement.is_some() {
        // The judgement has the figures that count.
        let whole = evidence.into_iter();
        evidence = whole.map(|section| section.map(Section::fold)).collect();
    }
    sections.extend(evidence);
    sections.push(doctor(&record.doctor));
    let is_said = |text: &&String| page.said.contains(text);
    let findings = record.findings.iter().filter(|text| !is_said(text));
    let findings = findings.map(|text| Item::new(Tone::Plain, text)).collect();
    sections.push(Section::new("Findings", vec![Block::List(findings)]));
    let machine = machine::section(record, page.checks, &verdict.sentence);
    let [how_to_read, facts] = [how_to_read, facts].map(|about| about.map(Section::fold));
    sections.extend([how_to_read, facts, machine]);
    Document {
        title: page.title,
        verdict,
        sections: sections.into_iter().flatten().collect(),
        timestamp: record.run.started_at.clone(),
        last: None,
    }
}

/// The document of an examination: findings in the order of their severity, and what was examined.
pub(crate) fn examination(record: &Record) -> Document {
    let numbered = record.doctor.iter().enumerate().map(|(place, finding)| {
        let item = diagnosis(finding);
        Item {
            label: format!("{}. {}", place + 1, item.label),
            ..item
        }
    });
    let examined = record.findings.iter();
    let examined = examined.map(|text| Item::new(Tone::Plain, text)).collect();
    let sections = [
        Section::new("", vec![Block::List(numbered.collect())]),
        Section::new("What was examined", vec![Block::List(examined)]),
        facts(record, &Page::of(record)),
    ];
    Document {
        title: "Examination".to_owned(),
        verdict: verdict::of_examination(record),
        sections: sections.into_iter().flatten().collect(),
        timestamp: record.run.started_at.clone(),
        last: None,
    }
}

fn diagnosis(finding: &Finding) -> Item {
    let (tone, severity) = severity(finding.severity);
    Item {
        tone,
        label: format!("{severity} {}", finding.rule),
        text: seen(finding),
        more: Vec::new(),
        advice: finding.what_to_do.clone(),
    }
}

fn severity(severity: Severity) -> (Tone, &'static str) {
    match severity {
        Severity::Critical => (Tone::Bad, "critical"),
        Severity::Warning => (Tone::Warn, "warning"),
        Severity::Info => (Tone::Plain, "info"),
    }
}

fn seen(finding: &Finding) -> String {
    if finding.scope.is_empty() {
        finding.evidence.clone()
    } else {
        format!("{}: {}", finding.scope, finding.evidence)
    }
}

/// The doctor's findings, each rule with its advice once: the gravest first, and of the same severity those about the
/// measurement before those about the setup, and each rule before another advice of one that is there already.
fn doctor(found: &[Finding]) -> Option<Section> {
    if found.is_empty() {
        let text = "Doctor: no findings.".to_owned();
        return Section::new("", vec![Block::Sentence(Tone::Plain, text)]);
    }
    let mut known: Vec<(&Finding, Item)> = Vec::new();
    for finding in found {
        let same = |(other, _): &&mut (&Finding, Item)| {
            (&other.rule, other.severity, &other.what_to_do)
                == (&finding.rule, finding.severity, &finding.what_to_do)
        };
        match known.iter_mut().find(same) {
            Some((_, item)) => item.more.push(seen(finding)),
            None => known.push((finding, diagnosis(finding))),
        }
    }
    let rules: Vec<&Rule> = known.iter().map(|(finding, _)| &finding.rule).collect();
    let repeated = |place: usize| rules[..place].contains(&rules[place]);
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by_key(|place| {
        let finding = known[*place].0;
        let severity = std::cmp::Reverse(finding.severity);
        (severity, finding.rule.is_setup(), repeated(*place))
    });
    let items = order.into_iter().map(|place| known[place].1.clone());
    let heading = "Doctor: what makes these figures unreliable";
    let section = Section::new(heading, vec![Block::List(items.collect())])?;
    Some(Section {
        brief: Some(BRIEF_FINDINGS),
        ..section
    })
}

/// Legends of the columns whose names are not enough.
fn how_to_read(record: &Record, page: &Page<'_>) -> Option<Section> {
    let mut lines: Vec<&str> = page.legend.clone();
    let few =
        |case: &Case| case.response_time_ns.p50.is_none() || case.response_time_ns.p999.is_none();
    if page.shows_percentiles && record.cases.iter().any(few) {
        lines.push("\"too few\": fewer than 100 samples lie beyond that percentile.");
    }
    if page.shows_comparisons && !record.comparisons.is_empty() {
        lines.push(compared::LEGEND);
    }
    if record.comparisons.iter().any(compared::is_bound) {
        lines.push(compared::BOUND);
    }
    let open = |told: &loadline_measure::record::Comparison| told.verdict == Told::Inconclusive;
    if record.comparisons.iter().any(open) {
        lines.push("More rounds (--rounds) or a quieter machine detect smaller changes.");
    }
    let items = lines.into_iter();
    let items = items.map(|line| Item::new(Tone::Faint, line)).collect();
    Section::new("How to read this", vec![Block::List(items)])
}

/// The run, the machine, the servers with their settings, and the links.
fn facts(record: &Record, page: &Page<'_>) -> Option<Section> {
    let (run, environment) = (&record.run, &record.environment);
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let about = [
        format!("Loadline {}", run.version),
        run.id.clone(),
        run.started_at.clone(),
    ];
    let mut facts = vec![
        fact("run", about.join(", ")),
        fact("method", page.method.clone()),
    ];
    let share = |name: &str, share: Option<f64>| {
        share.map(|share| format!("{name} {}", words::percent(share)))
    };
    let memory = environment.memory_bytes;
    let machine: Vec<String> = [
        environment.cores.map(|cores| words::plural(cores, "CPU")),
        environment.cpu_model.clone(),
        memory.map(|bytes| format!("{} of memory", words::bytes(bytes))),
        environment.kernel.clone(),
        environment.virtualization.clone(),
        share("CPU pressure up to", environment.noise.cpu_pressure),
        share("steal", environment.noise.steal),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !machine.is_empty() {
        facts.push(fact("machine", machine.join(", ")));
    }
    for server in &environment.servers {
        let name = server.name.as_deref().unwrap_or("a server");
        let version = server.version.as_deref();
        let allocator = server.allocator.as_deref();
        let mut text = name.to_owned();
        if let Some(version) = version {
            text += &format!(" {version}");
        }
        if let Some(allocator) = allocator {
            text += &format!(", allocator {allocator}");
        }
        for (name, value) in &server.settings {
            let value = if value.is_empty() { "\"\"" } else { value };
            text += &format!(", {name} {value}");
        }
        facts.push((server.subject.clone(), text));
    }
    if page.shows_links {
        facts.extend(record.links.iter().map(|link| {
            let added = format!("{} added by {}", words::span(link.latency_ns), link.class);
            (added, path(link))
        }));
    }
    if !run.command.is_empty() {
        facts.push(fact("command", run.command.clone()));
    }
    Section::new("Where and how it was measured", vec![Block::Facts(facts)])
}

/// Latency of a link by its own measurement, and its configured properties.
fn path(link: &Link) -> String {
    let mut text = String::new();
    if let Some(jitter) = &link.jitter {
        text += &format!("jitter {jitter}, ");
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
            ", released late p99 {} ({scheduling} scheduling)",
            words::duration(late as f64),
        );
    }
    if link.keeps_awake {
        text += ", idle processors polled";
    }
    if let Some(mtu) = link.mtu {
        text += &format!(", MTU {mtu}");
    }
    if let Some(control) = &link.congestion_control {
        text += &format!(", {control}");
    }
    text
}
