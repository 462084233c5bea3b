//! The answer of a sweep over call modes: the fastest mode of each setting, in one sentence and as a table.

use loadline_measure::record::Record;
use loadline_measure::sizes::Answer;
use loadline_measure::sweep::{self, Fastest};
use loadline_measure::words;

use crate::document::{Block, Cell, Column, Row, RowGroup, Section, Table, Tone};

/// The verdict names the modes of up to this many groups of settings.
const MOST_GROUPS: usize = 2;
/// Beginning of the sentences that records of earlier versions hold among their findings.
const EARLIER: &str = "Fastest with ";

/// Findings of an earlier version that say what the table says.
pub(super) fn said(record: &Record) -> Vec<String> {
    let findings = record.findings.iter();
    let said = findings.filter(|text| text.starts_with(EARLIER));
    said.cloned().collect()
}

/// The verdict, without a full stop: the fastest modes, where, and how much faster than the slowest.
pub(super) fn sentence(record: &Record) -> Option<String> {
    let settings = sweep::fastest(&record.cases);
    // Modes that are the fastest, each with its settings.
    let mut groups: Vec<(String, Vec<&Fastest<'_>>)> = Vec::new();
    for setting in &settings {
        let modes = modes(setting);
        match groups.iter_mut().find(|(known, _)| *known == modes) {
            Some((_, of_modes)) => of_modes.push(setting),
            None => groups.push((modes, vec![setting])),
        }
    }
    groups.sort_by_key(|(_, of_modes)| std::cmp::Reverse(of_modes.len()));
    let shown = groups.iter().take(MOST_GROUPS);
    let shown = shown.map(|(modes, of_modes)| clause(modes, of_modes, settings.len()));
    let mut text = format!("Fastest: {}", shown.collect::<Option<Vec<_>>>()?.join("; "));
    if groups.len() > MOST_GROUPS {
        text += "; the others are in the table";
    }
    (!settings.is_empty()).then_some(text)
}

/// The modes of a group, its settings, and the range of its factors.
fn clause(modes: &str, settings: &[&Fastest<'_>], all: usize) -> Option<String> {
    let open = settings.iter().any(|setting| !setting.rivals.is_empty());
    let open = if open { " (their rounds overlap)" } else { "" };
    let whereabouts = match settings {
        [only] if all == 1 => format!(" with {}", added(only)),
        [only] => format!(" for {} with {}", operation(only), added(only)),
        _ if settings.len() == all => {
            let mut latencies: Vec<String> = settings.iter().map(|one| added(one)).collect();
            latencies.dedup();
            match &latencies[..] {
                [only] => format!(" with {only}"),
                [one, other] => format!(" with {one} and with {other}"),
                _ => format!(" in all {all} settings"),
            }
        }
        some => format!(" in {} of {all} settings", some.len()),
    };
    let times = settings.iter().filter_map(|one| one.slowest.as_ref());
    let range = times.clone().map(|slowest| slowest.times);
    let is_bound = times.clone().any(|slowest| slowest.is_bound);
    let lead = if is_bound { "at least " } else { "" };
    let least = range.clone().reduce(f64::min);
    let factor = least.zip(range.reduce(f64::max)).map(|(least, most)| {
        let mut slowest: Vec<String> = times.map(|one| one.mode.to_string()).collect();
        slowest.sort_unstable();
        slowest.dedup();
        let [least, most] = [least, most].map(factor);
        let range = if least == most {
            least
        } else {
            format!("{least} to {most}")
        };
        format!(", {lead}{range} times as fast as {}", slowest.join(" or "))
    });
    Some(format!(
        "{modes}{open}{whereabouts}{}",
        factor.unwrap_or_default()
    ))
}

/// The fastest mode and those that can be as fast, in alphabetical order.
fn modes(setting: &Fastest<'_>) -> String {
    let rivals = setting.rivals.iter().map(ToString::to_string);
    let mut modes: Vec<String> = rivals.collect();
    modes.push(setting.case.scenario.mode.to_string());
    modes.sort_unstable();
    modes.join(" or ")
}

fn operation(setting: &Fastest<'_>) -> String {
    let scenario = &setting.case.scenario;
    match &scenario.codec {
        Some(codec) => format!("{} as {codec}", scenario.workload),
        None => scenario.workload.clone(),
    }
}

fn added(setting: &Fastest<'_>) -> String {
    match setting.case.scenario.latency_ns {
        0 => "no added latency".to_owned(),
        ns => format!("{} added", words::span(ns)),
    }
}

fn factor(times: f64) -> String {
    if times < 10.0 {
        format!("{times:.1}")
    } else {
        words::count(times)
    }
}

/// A row for each setting. Empty for a sweep with one setting, whose answer is the verdict.
pub(super) fn section(record: &Record) -> Option<Section> {
    let settings = sweep::fastest(&record.cases);
    let rows = settings.iter().map(|setting| {
        let scenario = &setting.case.scenario;
        let against = setting.slowest.as_ref();
        let against = against.map_or_else(
            || "-".to_owned(),
            |slowest| {
                let lead = if slowest.is_bound { ">" } else { "" };
                format!("{lead}{} x {}", factor(slowest.times), slowest.mode)
            },
        );
        let latency = match scenario.latency_ns {
            0 => "none".to_owned(),
            ns => words::span(ns),
        };
        let tone = match setting.rivals.is_empty() {
            true => Tone::Plain,
            false => Tone::Warn,
        };
        Row {
            cells: vec![
                latency.into(),
                operation(setting).into(),
                Cell::new(tone, modes(setting)),
                words::count(setting.case.throughput_ops_per_s).into(),
                against.into(),
                size(setting).into(),
            ],
            ..Row::default()
        }
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("added", 0),
        Column::text("operation", 0),
        Column::text("fastest", 0),
        Column::figure("ops/s", 0),
        Column::figure("vs slowest", 1),
        Column::figure("best size", 0),
    ];
    let table = Table {
        caption: "Fastest mode of each setting; of several modes, none was shown to be ahead"
            .to_owned(),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows,
        }],
    };
    Section::new("Fastest mode of each setting", vec![Block::Table(table)])
}

/// The range of sizes that can be the best, or the size that was measured.
fn size(setting: &Fastest<'_>) -> String {
    match &setting.sizes {
        Some(Answer::Range(range)) if range.smallest == range.largest => {
            words::amount(range.smallest)
        }
        Some(Answer::Range(range)) => {
            let [smallest, largest] = [range.smallest, range.largest].map(words::amount);
            format!("{smallest} to {largest}")
        }
        Some(Answer::Inconclusive { .. }) => "inconclusive".to_owned(),
        None => "-".to_owned(),
    }
}
