//! Which engine suits which need, in sentences.

use loadline_measure::engines::{
    Claim, Claims, Engines, Fastest, Lead, Least, Operation, SocketShare,
};
use loadline_measure::record::Case;
use loadline_measure::words;

use super::class;
use crate::paired::times;

/// One sentence for each need that the measurement can answer. Former records hold theirs.
pub(super) fn needs(cases: &[Case], engines: &Engines) -> Vec<String> {
    if !engines.former_needs.is_empty() {
        return engines.former_needs.clone();
    }
    let fastest = |operation: &Operation, is_durable: bool| {
        let all = engines.fastest(cases, operation, is_durable);
        let size = |one: &Fastest| &cases[one.case].scenario.value_bytes;
        let has_sizes = all.windows(2).any(|two| size(&two[0]) != size(&two[1]));
        all.iter().map(|one| lead(cases, one, has_sizes)).collect()
    };
    let least = |all: Vec<Least>, show: fn(f64) -> String| {
        let clauses = all.iter().map(|one| of_footprints(engines, one, show));
        clauses.collect()
    };
    let on_disk = least(engines.smallest(), |value| {
        format!("{value:.2} bytes per live byte")
    });
    let by_need: [(&str, Vec<String>); 4] = [
        ("Fastest durable writes", fastest(&Operation::Put, true)),
        ("Fastest reads", fastest(&Operation::Get, false)),
        ("Smallest on disk", on_disk),
        (
            "Fastest to open",
            least(engines.first_to_open(), words::duration),
        ),
    ];
    let by_need = by_need
        .iter()
        .filter(|(_, clauses)| !clauses.is_empty())
        .map(|(need, clauses)| format!("{need}: {}.", clauses.join("; ")));
    by_need.chain(server(cases, engines)).collect()
}

/// The fastest engine of a class and value size, which is named if there are several.
fn lead(cases: &[Case], fastest: &Fastest, has_sizes: bool) -> String {
    let best = &cases[fastest.case];
    let mut title = class(best).to_owned();
    if has_sizes {
        title += &format!(", {}", words::value_size(&best.scenario.value_bytes));
    }
    let name = |place: &usize| cases[*place].subject.name.as_str();
    let own = || format!("{} with {} per operation", best.subject.name, per_op(best));
    let level: &[usize] = match &fastest.lead {
        Lead::Alone => return format!("{title}: {}, alone in its class", own()),
        Lead::Ahead { next, by } => match times(by) {
            Some(times) => return format!("{title}: {}, {times} as fast as {}", own(), name(next)),
            None => &[],
        },
        Lead::Level(level) => level,
    };
    let names: Vec<&str> = std::iter::once(&fastest.case)
        .chain(level)
        .map(name)
        .collect();
    format!("{title}: inconclusive between {}", words::few(&names))
}

fn per_op(case: &Case) -> String {
    words::duration(case.duration_ns as f64 / case.ops.max(1) as f64)
}

/// The smallest figure of a class and amount of data.
fn of_footprints(engines: &Engines, least: &Least, show: fn(f64) -> String) -> String {
    let best = &engines.footprints[least.footprint];
    let about = format!(
        "{}, {} of data",
        best.durability,
        words::bytes(best.live_bytes)
    );
    let (name, value) = (best.subject.as_str(), show(least.value));
    if least.is_alone {
        return format!("{about}: {name} with {value}, alone in its class");
    }
    if least.level.is_empty() {
        return format!("{about}: {name} with {value}");
    }
    let level = least.level.iter();
    let level = level.map(|place| engines.footprints[*place].subject.as_str());
    let names: Vec<&str> = std::iter::once(name).chain(level).collect();
    let names = words::list(&names);
    format!("{about}: no difference that matters between {names} ({value})")
}

/// When to use a server, and its cost.
fn server(cases: &[Case], engines: &Engines) -> Option<String> {
    let read = engines.served_read(cases)?;
    let case = &cases[read.case];
    let mut text = format!(
        "Redis is the right answer where several processes or machines share the data: {} takes {} per read",
        case.subject.name,
        per_op(case)
    );
    match read.socket {
        Some(SocketShare::Of(share)) => {
            text += &format!(
                ", of which about {} is the socket and not the engine",
                words::percent(share)
            );
        }
        Some(SocketShare::Inseparable) => {
            text += ", which cannot be told apart from the time of a null server";
        }
        None => {}
    }
    Some(text + ".")
}

/// The comparisons behind the claims of the write-up, and the ratios of like with like. Former records hold theirs.
pub(super) fn claims(cases: &[Case], engines: &Engines) -> Vec<String> {
    if !engines.is_writeup {
        return engines.former_claims.clone();
    }
    let claimed = "The write-up claims PUT 1.59x and GET 2.33x over Redis. It calls its store in the process and Redis over a socket, and only one of the two writes to disk, so neither ratio compares the engines.";
    let mut sentences = vec![claimed.to_owned()];
    for claims in engines.claims(cases) {
        sentences.extend(in_process(&claims));
        if let Some(ratios) = ratios(&claims.behind_sockets) {
            let class = claims.class;
            sentences.push(format!(
                "{class}, both sides, both across a socket: our server over Redis: {ratios}."
            ));
        }
    }
    sentences
}

/// Our store in the process over the server, with the share of the socket.
fn in_process(claims: &Claims<'_>) -> Option<String> {
    let ratios = ratios(&claims.in_process)?;
    let shares = claims.sockets.iter().map(|(operation, share)| {
        let share = words::percent(*share);
        format!("{share} of the time of {}", command(operation))
    });
    let shares: Vec<String> = shares.collect();
    let socket = if shares.is_empty() {
        String::new()
    } else {
        format!(" The socket is {}.", shares.join(" and "))
    };
    let class = claims.class;
    Some(format!(
        "{class}, both sides: our store in the process over Redis across a socket: {ratios}.{socket}"
    ))
}

fn ratios(claims: &[Claim]) -> Option<String> {
    let ratios = claims.iter().map(|Claim { operation, by }| {
        let why = by
            .interval
            .map_or("with too few rounds to compare", |_| "too noisy to compare");
        let times = times(by).unwrap_or_else(|| why.to_owned());
        format!("{} {times}", command(operation))
    });
    let ratios: Vec<String> = ratios.collect();
    (!ratios.is_empty()).then(|| ratios.join(", "))
}

/// The name of an operation in the write-up.
fn command(operation: &Operation) -> String {
    operation.as_str().to_ascii_uppercase()
}
