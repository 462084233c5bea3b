//! The JUnit printer, for CI servers: the verdict as the first test case, then a suite per block of
//! checks.

use std::fmt::Write as _;

use loadline_measure::gate::Judgement;
use loadline_measure::record::Record;

use crate::Asked;
use crate::clean::escaped;
use crate::document::{Block, Check, CheckResult, Checks, Document};
use crate::view;

/// The record as JUnit XML, with a line feed at the end.
#[must_use]
pub fn junit(record: &Record) -> String {
    print(&view::of_record(record), "loadline")
}

/// The judgement as JUnit XML, with a line feed at the end.
///
/// Warnings and critical rows are failures, and inconclusive ones are skipped. Where the two sides
/// cannot be compared, the verdict is an error.
#[must_use]
pub fn judgement_junit(judgement: &Judgement, asked: Asked<'_>) -> String {
    let name = format!("loadline {}", asked.command);
    print(&view::judgement(judgement, asked), &name)
}

fn print(document: &Document, name: &str) -> String {
    let verdict = Checks {
        name: document.title.clone(),
        checks: vec![Check {
            name: "verdict".to_owned(),
            class: "verdict".to_owned(),
            result: document.verdict.result,
            message: document.verdict.sentence.clone(),
            ..Check::default()
        }],
        shown: false,
    };
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let suites = blocks.filter_map(|block| match block {
        Block::Checks(checks) => Some(checks),
        _ => None,
    });
    let suites: Vec<&Checks> = std::iter::once(&verdict)
        .chain(suites)
        .filter(|suite| !suite.checks.is_empty())
        .collect();
    let all: Vec<&Check> = suites.iter().flat_map(|suite| &suite.checks).collect();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (name, prefix) = (escaped(name), escaped(&name.replace(' ', ".")));
    let _ = writeln!(out, "<testsuites name=\"{name}\" {}>", counts(&all));
    for suite in suites {
        print_suite(&mut out, suite, &prefix, &document.timestamp);
    }
    out.push_str("</testsuites>\n");
    out
}

fn counts(checks: &[&Check]) -> String {
    let count = |test: fn(CheckResult) -> bool| {
        let checks = checks.iter();
        checks.filter(|check| test(check.result)).count()
    };
    let seconds = checks.iter().filter_map(|check| check.seconds);
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        checks.len(),
        count(|result| matches!(result, CheckResult::Failed(_))),
        count(|result| result == CheckResult::Error),
        count(|result| result == CheckResult::Skipped),
        seconds.fold(0.0, |sum, seconds| sum + seconds)
    )
}

fn print_suite(out: &mut String, suite: &Checks, prefix: &str, timestamp: &str) {
    let checks: Vec<&Check> = suite.checks.iter().collect();
    let (name, counts) = (escaped(&suite.name), counts(&checks));
    let timestamp = if timestamp.is_empty() {
        String::new()
    } else {
        format!(" timestamp=\"{}\"", escaped(timestamp))
    };
    let _ = writeln!(out, "  <testsuite name=\"{name}\" {counts}{timestamp}>");
    for check in checks {
        print_case(out, check, prefix);
    }
    out.push_str("  </testsuite>\n");
}

fn print_case(out: &mut String, check: &Check, prefix: &str) {
    let name = escaped(&check.name);
    let class = match check.class.as_str() {
        "" => prefix.to_owned(),
        class => format!("{prefix}.{}", escaped(class)),
    };
    let time = check
        .seconds
        .map(|seconds| format!(" time=\"{seconds:.3}\""));
    let time = time.unwrap_or_default();
    let _ = writeln!(
        out,
        "    <testcase name=\"{name}\" classname=\"{class}\"{time}>"
    );
    if !check.properties.is_empty() {
        out.push_str("      <properties>\n");
        for (name, value) in &check.properties {
            let value = escaped(value);
            let _ = writeln!(out, "        <property name=\"{name}\" value=\"{value}\"/>");
        }
        out.push_str("      </properties>\n");
    }
    let message = escaped(&check.message);
    let _ = match check.result {
        CheckResult::Failed(kind) => {
            writeln!(
                out,
                "      <failure type=\"{kind}\" message=\"{message}\"/>"
            )
        }
        CheckResult::Skipped => writeln!(out, "      <skipped message=\"{message}\"/>"),
        CheckResult::Error => writeln!(out, "      <error message=\"{message}\"/>"),
        CheckResult::Passed if message.is_empty() => Ok(()),
        CheckResult::Passed => writeln!(out, "      <system-out>{message}</system-out>"),
    };
    out.push_str("    </testcase>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup_and_always_xml() {
        assert_eq!(
            escaped("<a b=\"c\">'&]]>"),
            "&lt;a b=&quot;c&quot;&gt;&#39;&amp;]]&gt;"
        );
        assert_eq!(escaped("\0\u{b}\u{ffff}\u{1b}[0m\n"), "????[0m?");
    }
}
