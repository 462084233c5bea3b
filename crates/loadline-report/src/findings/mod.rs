//! Findings of the doctor in words: a sentence of evidence with its figures, and advice. One file per group of rules.

mod activity;
mod agents;
mod cluster;
mod engines;
mod flow;
mod load;
mod pair;
mod result;
mod setup;
#[cfg(test)]
mod tests;

use loadline_measure::doctor::{Diagnosis, Finding, Flaw, NotExamined, Rule};

/// The doctor's diagnoses in words, for a record.
pub fn findings(found: impl IntoIterator<Item = Diagnosis>) -> Vec<Finding> {
    found.into_iter().map(finding).collect()
}

fn finding(found: Diagnosis) -> Finding {
    let (evidence, what_to_do) = told(&found.flaw);
    Finding {
        rule: found.rule(),
        severity: found.severity,
        scope: found.scope,
        evidence,
        what_to_do,
    }
}

/// The evidence for a flaw, and advice.
fn told(flaw: &Flaw) -> (String, String) {
    let (evidence, advice) = match flaw {
        Flaw::Load(flaw) => (load::evidence(flaw), load::advice(flaw)),
        Flaw::Result(flaw) => (result::evidence(flaw), result::advice(flaw)),
        Flaw::Activity(flaw) => (activity::evidence(flaw), activity::advice(flaw)),
        Flaw::Flow(flaw) => (flow::evidence(flaw), flow::advice(flaw)),
        Flaw::Setup(flaw) => (setup::evidence(flaw), setup::advice(flaw)),
        Flaw::Cluster(flaw) => (cluster::evidence(flaw), cluster::advice(flaw)),
        Flaw::Engines(flaw) => return (engines::evidence(flaw), engines::advice(flaw)),
        Flaw::Agents(flaw) => (agents::evidence(flaw), agents::advice(flaw)),
        Flaw::Pair(flaw) => (pair::evidence(flaw), pair::advice(flaw)),
        Flaw::NotExamined(refused) => (not_examined(refused), PERMISSIONS),
    };
    (evidence, advice.to_owned())
}

const PERMISSIONS: &str = "Allow this user INFO, CONFIG GET and CLIENT LIST (ACL SETUSER ... +info +config|get +client|list), or treat these rules as not examined.";

fn not_examined(refused: &NotExamined) -> String {
    let rules: Vec<&str> = refused.rules.iter().map(Rule::as_str).collect();
    format!(
        "Not examined: {}, because the server refuses {} ({}).",
        rules.join(", "),
        refused.command,
        refused.reason,
    )
}

/// A share in percent: whole numbers, with more digits for small ones.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent > 0.0 && percent < 0.005 => "<0.01 %".to_owned(),
        _ if percent > 0.0 && percent < 1.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// The parts that there are, with `between` between them.
fn joined(parts: impl IntoIterator<Item = Option<String>>, between: &str) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(between)
}
