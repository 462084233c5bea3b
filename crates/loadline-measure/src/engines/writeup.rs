//! What the claims of the write-up compare, and ratios of like with like.

use super::socket::{SocketShare, server, socket_share};
use super::{class, groups, paired};
use crate::record::{Case, SubjectKind};
use crate::words;

/// The claims of the write-up: workload, name, and throughput over that of Redis.
const CLAIMS: [(&str, &str, &str); 2] = [("put", "PUT", "1.59x"), ("get", "GET", "2.33x")];

/// What the claims of the write-up compare, and the ratios of the same operations within each class of durability: in
/// the process, and behind the same kind of socket.
#[must_use]
pub fn writeup(cases: &[Case]) -> Vec<String> {
    let claims = CLAIMS.map(|(_, name, claim)| format!("{name} {claim}"));
    let mut sentences = vec![format!(
        "The write-up claims {} over Redis. It calls its store in the process and Redis over a socket, and only one of the two writes to disk, so neither ratio compares the engines.",
        claims.join(" and ")
    )];
    let groups = groups(cases);
    let mut classes: Vec<&str> = Vec::new();
    for group in &groups {
        if !classes.contains(&class(group[0])) {
            classes.push(class(group[0]));
        }
    }
    for name in classes {
        let of_class: Vec<&Vec<&Case>> = groups
            .iter()
            .filter(|group| class(group[0]) == name)
            .collect();
        sentences.extend(in_process(name, &of_class, cases));
        sentences.extend(behind_sockets(name, &of_class));
    }
    sentences
}

/// Our store in the process over the server, with the share of the socket.
fn in_process(class: &str, groups: &[&Vec<&Case>], cases: &[Case]) -> Option<String> {
    let is_store =
        |case: &Case| case.subject.kind == SubjectKind::Engine && case.subject.name == "store";
    let ratios = ratios_of(groups, is_store)?;
    let shares = CLAIMS.iter().filter_map(|(workload, name, _)| {
        let server = server(
            groups
                .iter()
                .find(|group| group[0].scenario.workload == *workload)?,
        )?;
        match socket_share(cases, server)? {
            SocketShare::Of(share) => {
                Some(format!("{} of the time of {name}", words::percent(share)))
            }
            SocketShare::Inseparable => None,
        }
    });
    let shares: Vec<String> = shares.collect();
    let socket = if shares.is_empty() {
        String::new()
    } else {
        format!(" The socket is {}.", shares.join(" and "))
    };
    Some(format!(
        "{class}, both sides: our store in the process over Redis across a socket: {ratios}.{socket}"
    ))
}

/// Our store behind a socket over the server behind one: like with like.
fn behind_sockets(class: &str, groups: &[&Vec<&Case>]) -> Option<String> {
    let ratios = ratios_of(groups, |case| case.subject.kind == SubjectKind::Embedded)?;
    Some(format!(
        "{class}, both sides, both across a socket: our server over Redis: {ratios}."
    ))
}

/// The ratios of the claimed operations between an engine and the server, over their common rounds.
fn ratios_of(groups: &[&Vec<&Case>], is_ours: impl Fn(&Case) -> bool) -> Option<String> {
    let ratios = CLAIMS.iter().filter_map(|(workload, name, _)| {
        let group = groups
            .iter()
            .find(|group| group[0].scenario.workload == *workload)?;
        let ours = group.iter().find(|case| is_ours(case))?;
        let paired = paired(server(group)?, ours)?;
        let times = paired.times();
        let why = paired
            .interval
            .map_or("with too few rounds to compare", |_| "too noisy to compare");
        let times = times.unwrap_or_else(|| why.to_owned());
        Some(format!("{name} {times}"))
    });
    let ratios: Vec<String> = ratios.collect();
    (!ratios.is_empty()).then(|| ratios.join(", "))
}
