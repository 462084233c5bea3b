//! The first difference between two records that should have measured the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::part::Part;
use crate::Error;
use crate::record::{Answer, Record, ServerEnvironment, SubjectKind};

/// The longest value that a sentence quotes, in characters.
const LONGEST: usize = 60;

/// Checks that records can be merged: that each can be a part of a merge, and that any two are different runs that measured
/// the same.
///
/// # Errors
/// [`Error::Unmergeable`] with the first reason why not.
pub(super) fn check_all(parts: &[Part]) -> Result<(), Error> {
    parts.iter().try_for_each(check)?;
    refuse_repeated(parts)?;
    for reference in references(parts) {
        for part in parts {
            compare(reference, part)?;
        }
    }
    Ok(())
}

/// Parts that all others are compared with, because comparing every two takes seconds for hundreds of agents. What every
/// record has is equal everywhere if it equals that of the first one; what a record can lack equals that of the first one
/// that has it: all cases, and the process of each server.
fn references(parts: &[Part]) -> Vec<&Part> {
    let servers = |part: &Part| part.record.environment.servers.len();
    let knows = |part: &&Part, server: usize| {
        let server = part.record.environment.servers.get(server);
        server.is_some_and(|server| server.run_id.is_some())
    };
    let with_process = (0..parts.first().map_or(0, servers))
        .filter_map(|server| parts.iter().find(|part| knows(part, server)));
    // The first of the longest.
    let with_all_cases = parts
        .iter()
        .rev()
        .max_by_key(|part| part.record.cases.len());
    let mut references: Vec<&Part> = parts.first().into_iter().collect();
    for part in with_all_cases.into_iter().chain(with_process) {
        if references.iter().all(|known| !std::ptr::eq(*known, part)) {
            references.push(part);
        }
    }
    references
}

/// Checks that a record can be a part of a merge.
///
/// # Errors
/// [`Error::Unmergeable`] with the reason.
fn check(part: &Part) -> Result<(), Error> {
    let Part { name, record } = part;
    let refuse = |why: String| Err(Error::Unmergeable(format!("{name} {why}")));
    if !record.agents.is_empty() {
        return refuse("is a merge already; merge the records that it was made of.".to_owned());
    }
    if record.answer != Answer::Cases || record.cases.is_empty() {
        return refuse(
            "holds no cases of `loadline run`, which are all that is merged.".to_owned(),
        );
    }
    let subjects = || record.cases.iter().map(|case| &case.subject);
    // The blocks of a group start together, so its rounds compare targets.
    let is_group = record.run.agent.is_some();
    if !is_group
        && let Some(other) = subjects().find(|subject| subject.name != record.cases[0].subject.name)
    {
        return refuse(format!(
            "compares {} with {}; separate runs do not measure the same target at the same time.",
            record.cases[0].subject.name, other.name
        ));
    }
    let is_shared = |kind: &SubjectKind| matches!(kind, SubjectKind::Server | SubjectKind::Cluster);
    if let Some(own) = subjects().find(|subject| !is_shared(&subject.kind)) {
        return refuse(format!(
            "measured {}, which it started itself; the agents of a merge measure one running server.",
            own.name
        ));
    }
    let rounds = || record.cases.iter().flat_map(|case| &case.rounds);
    if rounds().any(|round| round.start_unix_ns.is_none()) {
        return refuse(
            "does not say when its rounds began, so whether they ran at the same time is unknown."
                .to_owned(),
        );
    }
    let has_histograms = record.cases.iter().all(|case| {
        case.histograms.rounds.len() == case.rounds.len()
            && !case.histograms.response_time.is_empty()
    });
    if !has_histograms {
        return refuse("does not hold the histograms of all rounds.".to_owned());
    }
    Ok(())
}

/// Checks that no record is given twice.
///
/// # Errors
/// [`Error::Unmergeable`] with the first that is.
fn refuse_repeated(parts: &[Part]) -> Result<(), Error> {
    let mut runs = BTreeMap::new();
    for part in parts {
        if let Some(earlier) = runs.insert(&part.record.run.id, &part.name) {
            return Err(Error::Unmergeable(format!(
                "{earlier} and {} are the same run, {}; give each record once.",
                part.name, part.record.run.id
            )));
        }
    }
    Ok(())
}

/// Checks that two records measured the same.
///
/// # Errors
/// [`Error::Unmergeable`] with the first difference.
pub(super) fn compare(one: &Part, other: &Part) -> Result<(), Error> {
    let versions = |record: &Record| [record.schema.clone(), record.run.version.clone()];
    for ((name, a), b) in ["schema", "run.version"]
        .into_iter()
        .zip(versions(&one.record))
        .zip(versions(&other.record))
    {
        if a != b {
            return Err(differ(one, other, name, &a, &b));
        }
    }
    let plans = [plan(&one.record), plan(&other.record)];
    if let Some((path, a, b)) = of_values("run.plan", &plans[0], &plans[1]) {
        return Err(differ(one, other, &path, &a, &b));
    }
    let servers = |record: &Record| record.environment.servers.clone();
    let (a, b) = (servers(&one.record), servers(&other.record));
    if a.len() != b.len() {
        let [a, b] = [a.len(), b.len()].map(|count| count.to_string());
        return Err(differ(one, other, "the number of servers", &a, &b));
    }
    for (a, b) in a.iter().zip(&b) {
        let (a, b) = both_known(a, b);
        if let Some((path, a, b)) =
            of_values(&format!("the server's {}", a.subject), &json(&a), &json(&b))
        {
            return Err(differ(one, other, &path, &a, &b));
        }
    }
    let cases = one.record.cases.iter().zip(&other.record.cases);
    for (index, (a, b)) in cases.enumerate() {
        let (target, other_target) = (&a.subject.name, &b.subject.name);
        if target != other_target {
            let path = format!("cases[{index}].subject.name");
            return Err(differ(one, other, &path, target, other_target));
        }
        let path = format!("cases[{index}].scenario");
        if let Some((path, a, b)) = of_values(&path, &json(&a.scenario), &json(&b.scenario)) {
            return Err(differ(one, other, &path, &a, &b));
        }
    }
    Ok(())
}

/// Two descriptions of a server without its process if only one agent was allowed to read it.
fn both_known(
    a: &ServerEnvironment,
    b: &ServerEnvironment,
) -> (ServerEnvironment, ServerEnvironment) {
    let (mut a, mut b) = (a.clone(), b.clone());
    if a.run_id.is_none() || b.run_id.is_none() {
        (a.run_id, b.run_id) = (None, None);
    }
    (a, b)
}

/// The plan without the seed: agents draw different keys and arrivals.
fn plan(record: &Record) -> Value {
    let mut plan = record.run.plan.clone();
    if let Some(fields) = plan.as_object_mut() {
        fields.remove("seed");
    }
    plan
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The path of the first difference of two values, with both sides as text.
fn of_values(path: &str, a: &Value, b: &Value) -> Option<(String, String, String)> {
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one
                .keys()
                .chain(other.keys().filter(|name| !one.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let at = |fields: &serde_json::Map<String, Value>| {
                    fields.get(name).cloned().unwrap_or_default()
                };
                of_values(&format!("{path}.{name}"), &at(one), &at(other))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (a, b))| of_values(&format!("{path}[{index}]"), a, b))
        }
        _ if a == b => None,
        _ => Some((path.to_owned(), a.to_string(), b.to_string())),
    }
}

fn differ(one: &Part, other: &Part, what: &str, a: &str, b: &str) -> Error {
    let quoted = |text: &str| match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    };
    Error::Unmergeable(format!(
        "{what} is {} in {} and {} in {}; the agents of a merge run one plan.",
        quoted(a),
        one.name,
        quoted(b),
        other.name
    ))
}
