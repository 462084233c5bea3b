//! The scorecard: clients beside each other, by fault.

use loadline_measure::failover::{Failover, Fault, Score, Spread, Topology, scores};
use loadline_measure::words;

use super::effect;
use crate::document::{Block, Cell, Column, Item, Row, RowGroup, Section, Table, Tone};

/// Legend of the table.
pub(super) const LEGEND: [&str; 6] = [
    "lost: confirmed by a reply, and not in the server afterwards. unknown: ended with an error that leaves open whether the write was executed, or not at all. refused: ended with an error reply.",
    "twice: executed more than once, in all repetitions. Each INCR has a key of its own and is called once, so the client repeated it.",
    "first error: from the fault to the first error that the client raised to its caller; - if it raised none in one repetition.",
    "outage: the longest time between two acknowledged writes. A client has one call at a time, with pauses of 5 ms.",
    "left out: the driver of the client was not ready, or did not reach the fault; the findings have the reason.",
    "Repetitions with different results: the median with the least and the greatest, such as 3 (1 to 5).",
];

/// Clients that repeated writes, the longest outage, and the faults with losses, as the end of a sentence.
pub(super) fn found(answer: &Failover) -> String {
    let scores = scores(&answer.trials);
    let longest = answer.trials.iter();
    let longest = longest.filter_map(|trial| Some((trial, trial.clocks.outage?)));
    let longest = longest.max_by_key(|(_, gap)| gap.length_ns());
    let outage = longest.map_or_else(String::new, |(trial, gap)| {
        let length = super::length(&gap);
        format!("; the longest outage was {length} ({})", trial.name())
    });
    format!("{}{outage}; {}", repeated(&scores), losses(&scores))
}

/// The faults with losses, which depend on the servers and not on the clients.
fn losses(scores: &[Score<'_>]) -> String {
    let mut lossy: Vec<&str> = Vec::new();
    for score in scores.iter().filter(|score| score.lost.max > 0.0) {
        if !lossy.contains(&score.name.as_str()) {
            lossy.push(&score.name);
        }
    }
    match &lossy[..] {
        [] => "no acknowledged write was lost".to_owned(),
        [fault] => format!("acknowledged writes were lost with {fault}"),
        faults => {
            let count = faults.len();
            format!("acknowledged writes were lost with {count} of the faults")
        }
    }
}

/// Clients that executed writes twice.
fn repeated(scores: &[Score<'_>]) -> String {
    let cut: Vec<&Score<'_>> = of_cut(scores).collect();
    if cut.is_empty() {
        let mut twice: Vec<&str> = Vec::new();
        for score in scores.iter().filter(|score| score.twice > 0) {
            if !twice.contains(&score.client) {
                twice.push(score.client);
            }
        }
        return match &twice[..] {
            [] => "no client executed a write twice".to_owned(),
            twice => format!("{} executed writes twice", words::list(twice)),
        };
    }
    let (some, none): (Vec<_>, Vec<_>) = cut.into_iter().partition(|score| score.twice > 0);
    let none: Vec<&str> = none.iter().map(|score| score.client).collect();
    let some: Vec<String> = some
        .iter()
        .map(|score| format!("{} ({} of {})", score.client, score.twice, score.faults))
        .collect();
    let some: Vec<&str> = some.iter().map(String::as_str).collect();
    match (&some[..], &none[..]) {
        ([], _) => "no client repeated an INCR whose reply was cut".to_owned(),
        (some, []) => format!("{} repeated INCRs whose reply was cut", words::list(some)),
        (some, none) => format!(
            "{} repeated INCRs whose reply was cut, and {} none",
            words::list(some),
            words::list(none)
        ),
    }
}

fn of_cut<'s, 't>(scores: &'s [Score<'t>]) -> impl Iterator<Item = &'s Score<'t>> {
    scores.iter().filter(|score| *score.fault() == Fault::Cut)
}

/// The table, and a sentence for each client.
pub(super) fn section(answer: &Failover) -> Option<Section> {
    let scores = scores(&answer.trials);
    let runs = scores.iter().map(|score| score.runs).max()?;
    let heading = format!(
        "Clients, each with one INCR after the other; {} of each fault",
        words::plural(runs, "repetition")
    );
    let refuses = scores.iter().any(|score| score.refused.max > 0.0);
    let mut columns = vec![
        Column::text("client", 0),
        Column::figure("lost", 0),
        Column::figure("unknown", 0),
        Column::figure("twice", 0),
        Column::figure("first error", 1),
        Column::figure("outage", 0),
    ];
    if refuses {
        columns.insert(3, Column::figure("refused", 2));
    }
    let table = Table {
        caption: heading.clone(),
        groups: groups(answer, &scores, &columns),
        columns,
    };
    let mut sentences: Vec<Item> = Vec::new();
    for score in of_cut(&scores) {
        sentences.push(about_cuts(answer, score));
    }
    sentences.extend(scores.iter().filter_map(|score| about_end(answer, score)));
    sentences.extend(
        scores
            .iter()
            .filter_map(|score| about_absence(answer, score)),
    );
    let versions = answer.clients.iter();
    let versions = versions.map(|(driver, name)| format!("{driver}: {name}"));
    let versions = format!("{}.", versions.collect::<Vec<_>>().join("; "));
    let blocks = vec![
        Block::Sentence(Tone::Plain, versions),
        Block::Table(table),
        Block::List(sentences),
    ];
    Section::new(&heading, blocks)
}

/// The rows by fault: a row for each client with a result, and then those that were left out of every repetition.
fn groups(answer: &Failover, scores: &[Score<'_>], columns: &[Column]) -> Vec<RowGroup> {
    let of_fault = scores.chunk_by(|one, next| one.name == next.name);
    let groups = of_fault.map(|scores| {
        let mut rows: Vec<Row> = scores.iter().map(|score| row(score, columns)).collect();
        let mut absent: Vec<&str> = Vec::new();
        for one in &answer.left_out {
            let is_known = absent.contains(&one.client.as_str())
                || scores.iter().any(|score| score.client == one.client);
            if one.fault == scores[0].name && !is_known {
                absent.push(&one.client);
                rows.push(absent_row(&one.client, columns));
            }
        }
        RowGroup {
            title: title(&scores[0], &answer.topology),
            rows,
        }
    });
    groups.collect()
}

/// The row of a client without a result.
fn absent_row(driver: &str, columns: &[Column]) -> Row {
    let mut cells = vec![super::shown(None); columns.len()];
    cells[0] = row_name(driver).into();
    // The widest column, so that no other one has to leave a narrow page.
    cells[columns.len() - 1] = Cell::new(Tone::Bad, "left out");
    Row {
        cells,
        ..Row::default()
    }
}

/// The fault, by one of its repetitions.
fn title(score: &Score<'_>, topology: &Topology) -> String {
    let effect = match score.fault() {
        Fault::Cut => "connections end after a write was executed and before its reply".to_owned(),
        Fault::ClientKill => "the server closes the connections of all clients".to_owned(),
        _ => effect(score.example, topology),
    };
    format!("{}: {effect}", score.name)
}

/// The name of a driver in the table, where a narrow terminal can break it.
fn row_name(driver: &str) -> String {
    match driver.strip_suffix(".recommended") {
        Some(client) => format!("{client}, recommended"),
        None => driver.to_owned(),
    }
}

fn row(score: &Score<'_>, columns: &[Column]) -> Row {
    let twice = match score.fault() {
        Fault::Cut => format!("{} of {}", score.twice, score.faults),
        _ => score.twice.to_string(),
    };
    let twice = match score.twice {
        0 => Cell::from(twice),
        _ => Cell::new(Tone::Bad, twice),
    };
    let at_least = if score.without_end > 0 {
        "at least "
    } else {
        ""
    };
    let outage = score
        .outage_ns
        .map(|spread| format!("{at_least}{}", times(spread)));
    let mut cells = vec![
        row_name(score.client).into(),
        counts(score.lost).into(),
        counts(score.unknown).into(),
        twice,
        super::shown(score.detection_ns.map(times)),
        super::shown(outage),
    ];
    if columns.len() > cells.len() {
        cells.insert(3, counts(score.refused).into());
    }
    Row {
        cells,
        ..Row::default()
    }
}

/// The client with its version.
fn name<'a>(answer: &'a Failover, score: &'a Score<'_>) -> &'a str {
    answer
        .clients
        .get(score.client)
        .map_or(score.client, String::as_str)
}

fn counts(spread: Spread) -> String {
    range(spread, words::count)
}

fn times(spread: Spread) -> String {
    range(spread, words::duration)
}

/// The median with the least and the greatest, where they differ.
fn range(spread: Spread, text: fn(f64) -> String) -> String {
    let Spread { median, min, max } = spread;
    if min == max {
        return text(median);
    }
    format!("{} ({} to {})", text(median), text(min), text(max))
}

fn about_cuts(answer: &Failover, score: &Score<'_>) -> Item {
    let name = name(answer, score);
    let all = score.faults;
    match score.twice {
        0 => Item::new(
            Tone::Plain,
            format!("{name} repeated none of {all} INCRs whose reply was cut."),
        ),
        twice => Item::new(
            Tone::Bad,
            format!("{name} repeated {twice} of {all} INCRs whose reply was cut."),
        ),
    }
}

/// That a client was left out of some of the repetitions.
fn about_absence(answer: &Failover, score: &Score<'_>) -> Option<Item> {
    let left_out = answer.left_out.iter();
    let missing = left_out
        .filter(|one| one.client == score.client && one.fault == score.name)
        .count() as u64;
    (missing > 0).then(|| {
        let name = name(answer, score);
        let all = words::plural(score.runs + missing, "repetition");
        let text = format!("{name}, {}: left out of {missing} of {all}.", score.name);
        Item::new(Tone::Bad, text)
    })
}

/// That no write was acknowledged any more, or that writes were repeated although no reply was cut.
fn about_end(answer: &Failover, score: &Score<'_>) -> Option<Item> {
    let name = name(answer, score);
    let mut clauses = Vec::new();
    if score.twice > 0 && *score.fault() != Fault::Cut {
        let writes = words::plural(score.twice, "write");
        clauses.push(format!("executed {writes} twice"));
    }
    if score.without_end > 0 {
        clauses.push(format!(
            "had no write acknowledged after the fault in {} of {}",
            score.without_end,
            words::plural(score.runs, "repetition")
        ));
    }
    (!clauses.is_empty()).then(|| {
        let text = format!("{name}, {}: {}.", score.name, clauses.join(", and "));
        Item::new(Tone::Bad, text)
    })
}
