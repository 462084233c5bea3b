//! A judgement as JUnit XML: one test case per row.

use std::fmt::Write as _;

use loadline_measure::gate::{Judgement, Outcome, Row, RowVerdict};

use super::{Asked, detectable, headline, ratio, value};
use crate::junit::escaped;

/// The judgement as JUnit XML, with a line feed at the end.
///
/// Warnings and what is critical are failures; what cannot be told is skipped. A last test case
/// stands for the whole judgement where that is inconclusive, and is an error where the two cannot be
/// compared.
#[must_use]
pub fn judgement_junit(judgement: &Judgement, asked: Asked<'_>) -> String {
    let count = |test: fn(&Row) -> bool| judgement.rows.iter().filter(|row| test(row)).count();
    let failures = count(fails);
    let whole = judgement.outcome == Outcome::Inconclusive;
    let errors = usize::from(judgement.refused);
    let skipped =
        count(|row| row.verdict == RowVerdict::Inconclusive) + usize::from(whole) - errors;
    let tests = judgement.rows.len() + usize::from(whole);
    let command = escaped(asked.command);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\""
    );
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("<testsuites name=\"loadline {command}\" {counts}>"));
    line(format!(
        "  <testsuite name=\"loadline {command}\" {counts}>"
    ));
    for row in &judgement.rows {
        line(test_case(row, &command));
    }
    if whole {
        let element = if judgement.refused {
            "error"
        } else {
            "skipped"
        };
        let mut message = headline(judgement);
        for reason in &judgement.reasons {
            let _ = write!(message, " {reason}");
        }
        line(format!(
            "    <testcase name=\"the judgement\" classname=\"loadline.{command}\">\n      <{element} message=\"{}\"/>\n    </testcase>",
            escaped(&message)
        ));
    }
    line("  </testsuite>".to_owned());
    line("</testsuites>".to_owned());
    out
}

fn fails(row: &Row) -> bool {
    matches!(row.verdict, RowVerdict::Warning | RowVerdict::Critical)
}

fn test_case(row: &Row, command: &str) -> String {
    let name = escaped(row.limit.as_deref().unwrap_or(row.metric.name()));
    let class = escaped(&row.case);
    let evidence = escaped(&format!("{}{}", row.evidence, detectable(row)));
    let inner = match row.verdict {
        RowVerdict::Critical => {
            format!("<failure type=\"critical\" message=\"{evidence}\"/>")
        }
        RowVerdict::Warning => format!("<failure type=\"warning\" message=\"{evidence}\"/>"),
        RowVerdict::Inconclusive => format!("<skipped message=\"{evidence}\"/>"),
        _ => {
            let figures = format!(
                "{} before, {} now, {}: {evidence}",
                value(row, row.baseline),
                value(row, row.candidate),
                ratio(row)
            );
            format!("<system-out>{figures}</system-out>")
        }
    };
    format!(
        "    <testcase name=\"{name}\" classname=\"loadline.{command}.{class}\">\n      {inner}\n    </testcase>"
    )
}
