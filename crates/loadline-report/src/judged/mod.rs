//! Judgements in words: a sentence for each reason, with its figures, and the evidence for each row.

mod grounds;
mod reasons;
#[cfg(test)]
mod tests;

use loadline_measure::gate::{Judged, JudgedRow, Judgement, Row};

/// A judgement in words, for a record.
#[must_use]
pub fn judgement(judged: Judged) -> Judgement {
    let told = |all: Vec<_>| all.iter().map(reasons::sentence).collect();
    Judgement {
        schema: judged.schema,
        policy: judged.policy,
        basis: judged.basis,
        outcome: judged.outcome,
        reasons: told(judged.reasons),
        rows: rows(judged.rows),
        notes: told(judged.notes),
        second_run_needed: judged.second_run_needed,
        refused: judged.refused,
        agents: judged.agents,
    }
}

/// Rows in words, for a record.
#[must_use]
pub fn rows(judged: Vec<JudgedRow>) -> Vec<Row> {
    judged.into_iter().map(row).collect()
}

fn row(judged: JudgedRow) -> Row {
    Row {
        evidence: grounds::evidence(&judged, &judged.evidence),
        case: judged.case,
        metric: judged.metric,
        limit: judged.limit,
        baseline: judged.baseline,
        candidate: judged.candidate,
        ratio: judged.ratio,
        lo: judged.lo,
        hi: judged.hi,
        interval_95: judged.interval_95,
        minimum_detectable_effect: judged.minimum_detectable_effect,
        functions: judged.functions,
        verdict: judged.verdict,
    }
}

/// Case, metric and evidence of a row in one sentence.
#[must_use]
pub fn row_sentence(row: &Row) -> String {
    format!("{}, {}: {}.", row.case, row.metric.name(), row.evidence)
}
