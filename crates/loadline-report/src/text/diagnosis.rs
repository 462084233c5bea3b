//! The doctor's report: numbered findings, the worst first, and what was looked at.

use loadline_measure::record::{Record, Severity};

use super::page::{Page, Style};
use super::{TextOptions, title};
use crate::clean::plain;
use crate::view;

/// What the doctor found as text for a terminal or a pipe, with a line feed at the end.
#[must_use]
pub fn diagnosis(record: &Record, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    page.wrapped(Style::Bold, "", "  ", &plain(&title(record)));
    for line in view::surroundings(record) {
        page.wrapped(Style::Dim, "", "  ", &line);
    }
    page.gap();
    if record.doctor.is_empty() {
        page.line(
            Style::Green,
            "Nothing found that would make a measurement lie.",
        );
    }
    for (place, finding) in record.doctor.iter().enumerate() {
        let (style, severity) = match finding.severity {
            Severity::Critical => (Style::Red, "critical"),
            Severity::Warning => (Style::Yellow, "warning"),
            Severity::Info => (Style::Plain, "info"),
        };
        let scope = if finding.scope.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.scope)
        };
        let text = format!("{severity} {}: {scope}{}", finding.rule, finding.evidence);
        page.wrapped(style, &format!("{:>2}. ", place + 1), "    ", &plain(&text));
        page.wrapped(
            Style::Dim,
            "    -> ",
            "       ",
            &plain(&finding.what_to_do),
        );
    }
    if !record.findings.is_empty() {
        page.gap();
        page.line(Style::Bold, "What was looked at");
        for finding in &record.findings {
            page.wrapped(Style::Plain, "  ", "  ", &plain(finding));
        }
    }
    if record.run.cut_short {
        page.gap();
        page.wrapped(
            Style::Red,
            "",
            "  ",
            "CUT SHORT: an interrupt ended the examination before all of it was done.",
        );
    }
    page.into_text()
}
