//! The method behind the figures of a record.

use loadline_measure::record::Record;
use loadline_measure::words;

fn took(record: &Record) -> String {
    record.run.duration_ns.map_or_else(String::new, |ns| {
        format!(", {} in all", words::duration(ns as f64))
    })
}

/// The trials of a search, in one sentence.
pub(super) fn of_trials(record: &Record) -> String {
    let seed = record.run.seed;
    if record.cases.is_empty() {
        return format!("Seed {seed}.");
    }
    let trials = words::plural(record.cases.len().saturating_sub(1) as u64, "trial");
    let took = took(record);
    format!("Measured in a closed loop and {trials} in an open loop; seed {seed}{took}.")
}

/// Rounds of all cases, in one sentence.
pub(super) fn of_rounds(record: &Record) -> String {
    let seed = record.run.seed;
    if record.cases.is_empty() {
        return format!("Seed {seed}.");
    }
    let took = took(record);
    let rounds = record.cases.iter().map(|case| case.rounds.len());
    let (fewest, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
    let rounds = if fewest == most {
        words::plural(most as u64, "round")
    } else {
        format!("{fewest} to {most} rounds")
    };
    let precise = ended_by_precision(record, fewest);
    let first = &record.cases[0].subject;
    let interleaved = if record.cases.iter().any(|case| case.subject != *first) {
        ", the targets interleaved in random order"
    } else {
        ""
    };
    let open = record.cases.iter().filter(|case| case.is_open_loop());
    let pacing = match open.count() {
        0 => "closed loop",
        open if open == record.cases.len() => "open loop",
        _ => "closed and open loops",
    };
    format!("Measured in {rounds} per case{precise}{interleaved}; {pacing}; seed {seed}{took}.")
}

/// The reason why cases have fewer rounds than were planned, where they may end once ratios are precise.
fn ended_by_precision(record: &Record, fewest: usize) -> String {
    let plan = &record.run.plan;
    let is_asked = plan["until_precise"].as_bool() == Some(true) && !record.run.cut_short;
    let planned = plan["rounds"].as_u64();
    planned
        .filter(|planned| is_asked && (fewest as u64) < *planned)
        .map(|planned| {
            format!(
                " (fewer than {planned} where the ratios of throughput and p50 were known to 1.5 % by then)"
            )
        })
        .unwrap_or_default()
}
