//! Which client suits which need, and what clients did with faults, in sentences.

use loadline_measure::clients::{Advice, Best, Clients, FaultFindings, Front, Gain, operation};
use loadline_measure::compare::{Paired, Verdict};
use loadline_measure::record::Case;
use loadline_measure::words;

use crate::paired::times;

/// Names that follow a count, up to here.
const MOST_NAMED: usize = 3;

/// The sentences of a comparison of clients.
pub(super) struct Sentences {
    /// One for each operation: the fastest client, and the one with the least CPU time.
    pub(super) best: Vec<String>,
    /// For the users of the reference.
    pub(super) advice: Option<String>,
    /// About all languages, if the best client has another one than the reference.
    pub(super) beyond: Option<String>,
    /// About the runs with faults.
    pub(super) faults: Option<String>,
}

impl Sentences {
    /// The sentences of a record. Former records hold theirs.
    pub(super) fn of(cases: &[Case], clients: &Clients) -> Self {
        if clients.former_sentences().next().is_some() {
            let said = |text: &String| (!text.is_empty()).then(|| text.clone());
            return Self {
                best: clients.former_best.clone(),
                advice: said(&clients.former_advice),
                beyond: said(&clients.former_beyond),
                faults: said(&clients.former_faults),
            };
        }
        let (advice, beyond) = advice(cases, clients).unzip();
        Self {
            best: best(cases, clients),
            advice,
            beyond: beyond.flatten(),
            faults: faults(clients),
        }
    }
}

fn best(cases: &[Case], clients: &Clients) -> Vec<String> {
    let best = clients.best(cases);
    best.iter().map(|best| of_operation(cases, best)).collect()
}

fn of_operation(cases: &[Case], best: &Best) -> String {
    let title = operation(&cases[best.cases[0]].scenario);
    let is_open = best.cases.iter().any(|place| cases[*place].is_open_loop());
    // A client that was measured alone is not the first of any.
    let is_alone = best.cases.len() == 1;
    let speed = best.speed.as_ref().map(|front| {
        let (most, figure) = if is_open {
            let range = range(front, words::duration);
            ("soonest", format!("a median response time of {range}"))
        } else {
            let range = range(front, words::count);
            ("fastest", format!("{range} operations per second"))
        };
        match &front.cases[..] {
            [place] if is_alone => format!("{} with {figure}", name(cases, *place)),
            [place] => format!("{most} is {} with {figure}", name(cases, *place)),
            level => format!(
                "no client was shown to be the {most}: {} are not separated, with {figure}",
                few(cases, level)
            ),
        }
    });
    let cpu = best.cpu.as_ref().map(|front| {
        let figure = range(front, words::duration);
        match &front.cases[..] {
            [_] if is_alone => format!("{figure} of CPU time per operation"),
            [place] => format!(
                "least CPU time by {} with {figure} per operation",
                name(cases, *place)
            ),
            level => format!(
                "least CPU time by {}, with {figure} per operation",
                few(cases, level)
            ),
        }
    });
    let gap = if is_alone { " and " } else { "; " };
    let clauses: Vec<String> = speed.into_iter().chain(cpu).collect();
    format!("{title}: {}.", clauses.join(gap))
}

/// The figure of the clients at the front, or the range of their figures.
fn range(front: &Front, shown: fn(f64) -> String) -> String {
    let [low, high] = [front.lowest, front.highest].map(shown);
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

fn advice(cases: &[Case], clients: &Clients) -> Option<(String, Option<String>)> {
    let advice = clients.advice(cases)?;
    let language = language(clients, advice.own);
    let said = match &advice.within {
        Some(gain) => clause(cases, clients, gain, Some(language)),
        None => none_is_faster(&advice, language),
    };
    let own = format!("For users of {}: {said}.", name(cases, advice.own));
    let beyond = advice.beyond.map(|gain| {
        let clause = clause(cases, clients, &gain, None);
        format!("Best of all languages: {clause}.")
    });
    Some((own, beyond))
}

fn none_is_faster(advice: &Advice, language: &str) -> String {
    match advice.others {
        0 => format!("no other client in {language} was measured"),
        1 => format!("no other client in {language} was shown to be faster (1 was measured)"),
        many => {
            format!("no other client in {language} was shown to be faster ({many} were measured)")
        }
    }
}

/// A gain in one language, or in all of them; then the language is named.
fn clause(cases: &[Case], clients: &Clients, gain: &Gain, within: Option<&str>) -> String {
    let is_asked = |place: &usize| within.is_none_or(|asked| language(clients, *place) == asked);
    let level: Vec<usize> = gain.level.iter().copied().filter(is_asked).collect();
    let level = (!level.is_empty()).then(|| format!("not separated from {}", few(cases, &level)));
    let other = within
        .is_none()
        .then(|| language(clients, gain.other).to_owned());
    let about: Vec<String> = other.into_iter().chain(level).collect();
    let about = match &about[..] {
        [] => String::new(),
        about => format!(" ({})", about.join("; ")),
    };
    format!(
        "{} is {} as fast with {}{about}{}",
        operation(&cases[gain.own].scenario),
        times(&gain.throughput).unwrap_or_default(),
        name(cases, gain.other),
        server_side(gain.server_cpu.as_ref()),
    )
}

/// The change of the server's CPU time per operation, as the end of a sentence.
fn server_side(paired: Option<&Paired>) -> String {
    match paired {
        Some(paired) if paired.verdict == Verdict::Equivalent => {
            ", and the server's CPU time is the same".to_owned()
        }
        Some(paired) if paired.verdict != Verdict::Inconclusive => times(paired)
            .map_or_else(String::new, |times| {
                format!(", and the server's CPU time is {times} as long")
            }),
        _ => String::new(),
    }
}

fn faults(clients: &Clients) -> Option<String> {
    let found = clients.fault_findings()?;
    let seen = seen(&found);
    if found.drivers.len() == 1 {
        let subject = &clients.behaviour[0].subject;
        let what: Vec<&str> = seen.iter().map(|(_, what)| what.as_str()).collect();
        return Some(match &what[..] {
            [] => format!(
                "With faults, {subject} executed no write twice, lost no acknowledged one, did not crash, and waited for no reply when the run ended."
            ),
            what => format!("With faults, {subject} {}.", words::list(what)),
        });
    }
    let total = found.drivers.len();
    let mut clauses: Vec<String> = Vec::new();
    for (drivers, what) in seen {
        let noun = if clauses.is_empty() { " clients" } else { "" };
        let names = if drivers.len() <= MOST_NAMED {
            format!(" ({})", words::list(drivers))
        } else {
            String::new()
        };
        let count = drivers.len();
        clauses.push(format!("{count} of {total}{noun} {what}{names}"));
    }
    if let [_, .., last] = &mut clauses[..] {
        last.insert_str(0, "and ");
    }
    Some(match &clauses[..] {
        [] => format!(
            "With faults, none of {total} clients executed a write twice, lost an acknowledged one, crashed, or waited for a reply when the run ended."
        ),
        clauses => format!("With faults, {}.", clauses.join(", ")),
    })
}

/// Findings of the runs with faults, each with its drivers.
fn seen<'f>(found: &'f FaultFindings<'_>) -> Vec<(&'f [&'f str], String)> {
    let deadly: Vec<&str> = found.deadly.iter().map(|fault| fault.as_str()).collect();
    let over = words::duration(found.waited_ns as f64);
    let kinds = [
        (&found.executed_twice, "executed writes twice".to_owned()),
        (&found.lost, "lost acknowledged writes".to_owned()),
        (
            &found.crashed,
            format!("crashed on {}", deadly.join(" or ")),
        ),
        (&found.waiting, format!("waited over {over} for a reply")),
    ];
    let kinds = kinds.into_iter();
    kinds
        .map(|(drivers, what)| (&drivers[..], what))
        .filter(|(drivers, _)| !drivers.is_empty())
        .collect()
}

fn name(cases: &[Case], place: usize) -> &str {
    &cases[place].subject.name
}

fn language(clients: &Clients, place: usize) -> &str {
    clients.row(place).map_or("", |row| row.language.as_str())
}

/// The names of a few clients, and the number of the others.
fn few(cases: &[Case], places: &[usize]) -> String {
    let names: Vec<&str> = places.iter().map(|place| name(cases, *place)).collect();
    words::few(&names)
}
