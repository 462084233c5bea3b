//! JUnit XML, for CI servers: a test suite per scenario, a test case per subject.
//!
//! A case fails where operations failed or the doctor found something critical in it. That a
//! subject is slower than another is no failure here; judging that is the gate's work.
//!
//! Of a search for the highest load there is a test case for its limit instead: the trials are the
//! way to the answer, and most of them are meant to fail.

use loadline_measure::capacity::Answer;
use loadline_measure::record::{Case, Record, Severity};

use crate::capacity::capacity_findings;
use crate::clean::plain;
use crate::view::{self, Group};
use loadline_measure::words;

/// The record as JUnit XML, with a line feed at the end.
#[must_use]
pub fn junit(record: &Record) -> String {
    if let Some(answer) = &record.capacity {
        return searched(record, answer);
    }
    let groups = view::groups(record);
    let failures: usize = groups.iter().map(|group| failed(record, group)).sum();
    let time: f64 = record.cases.iter().map(seconds).sum();
    let errors = usize::from(record.run.cut_short);
    let tests = record.cases.len() + errors;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.push_str(&format!(
        "<testsuites name=\"loadline\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{time:.3}\">\n"
    ));
    for group in &groups {
        suite(&mut out, record, group);
    }
    if record.run.cut_short {
        out.push_str(concat!(
            "  <testsuite name=\"run\" tests=\"1\" failures=\"0\" errors=\"1\">\n",
            "    <testcase name=\"the plan was done\" classname=\"loadline.run\">\n",
            "      <error message=\"cut short: an interrupt ended this run before its plan was done\"/>\n",
            "    </testcase>\n  </testsuite>\n",
        ));
    }
    out.push_str("</testsuites>\n");
    out
}

/// A search: its limit fails where no rate kept it, and is skipped where a rate did that was not
/// confirmed, or where an interrupt ended the search.
fn searched(record: &Record, answer: &Answer) -> String {
    let is_open = record.run.cut_short || (answer.rate.is_some() && !answer.is_confirmed());
    let fails = !is_open && answer.rate.is_none();
    let (failures, skipped) = (usize::from(fails), usize::from(is_open));
    let time = record.run.duration_ns.unwrap_or(0) as f64 / 1e9;
    let subject = record.cases.first().map(|case| &case.subject.name);
    let subject = subject.map_or("target", String::as_str);
    let found = escaped(&capacity_findings(subject, answer).join(" "));
    let told = if fails {
        format!("<failure type=\"capacity\" message=\"{found}\"/>")
    } else if is_open {
        format!("<skipped message=\"{found}\"/>")
    } else {
        format!("<system-out>{found}</system-out>")
    };
    let figure = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |v| v.to_string());
    let properties: String = [
        ("rate_ops_per_s", figure(answer.rate)),
        ("response_time_ns_of_the_limit", figure(answer.value_ns)),
        ("knee_ops_per_s", figure(answer.knee)),
        ("closed_loop_ops_per_s", answer.closed_loop.to_string()),
        ("confirmations_held", answer.confirmations.held.to_string()),
        ("confirmations", answer.confirmations.trials().to_string()),
    ]
    .iter()
    .map(|(name, value)| format!("        <property name=\"{name}\" value=\"{value}\"/>\n"))
    .collect();
    let counts = format!(
        "tests=\"1\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{time:.3}\""
    );
    let timestamp = escaped(&record.run.started_at);
    let (subject, limit) = (escaped(subject), escaped(&answer.slo.to_string()));
    format!(
        concat!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
            "<testsuites name=\"loadline\" {counts}>\n",
            "  <testsuite name=\"capacity of {subject}\" {counts} timestamp=\"{timestamp}\">\n",
            "    <testcase name=\"{limit}\" classname=\"loadline.capacity\" time=\"{time:.3}\">\n",
            "      <properties>\n{properties}      </properties>\n",
            "      {told}\n",
            "    </testcase>\n  </testsuite>\n</testsuites>\n",
        ),
        counts = counts,
        subject = subject,
        timestamp = timestamp,
        limit = limit,
        time = time,
        properties = properties,
        told = told,
    )
}

fn suite(out: &mut String, record: &Record, group: &Group<'_>) {
    let title = escaped(&view::title(group, &[]));
    let time: f64 = group.rows.iter().map(|row| seconds(row.case)).sum();
    let timestamp = escaped(&record.run.started_at);
    out.push_str(&format!(
        "  <testsuite name=\"{title}\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{time:.3}\" timestamp=\"{timestamp}\">\n",
        group.rows.len(),
        failed(record, group),
    ));
    for row in &group.rows {
        let (name, workload) = (escaped(&row.name), escaped(&group.workload));
        out.push_str(&format!(
            "    <testcase name=\"{name}\" classname=\"loadline.{workload}\" time=\"{:.3}\">\n",
            seconds(row.case)
        ));
        out.push_str(&properties(row.case));
        if let Some(reason) = reasons(record, row.case) {
            out.push_str(&format!(
                "      <failure message=\"{}\"/>\n",
                escaped(&reason)
            ));
        }
        let lines: Vec<String> = row
            .comparisons
            .iter()
            .map(|comparison| {
                let beside = row.beside.as_deref().unwrap_or_default();
                let (metric, ratio) = (view::metric(comparison), view::comparison(comparison));
                format!(
                    "{metric} beside {beside}: {ratio}, {}",
                    view::evidence(comparison)
                )
            })
            .collect();
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
            out.push_str(&format!(
                "      <system-out>{}</system-out>\n",
                lines.join("\n")
            ));
        }
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n");
}

fn properties(case: &Case) -> String {
    let times = &case.response_time_ns;
    let whole = |value: Option<u64>| {
        value.map_or_else(|| words::TOO_FEW.to_owned(), |value| value.to_string())
    };
    let mut out = String::from("      <properties>\n");
    for (name, value) in [
        ("ops", case.ops.to_string()),
        ("errors", case.error_count().to_string()),
        (
            "throughput_ops_per_s",
            case.throughput_ops_per_s.to_string(),
        ),
        ("response_time_ns_p50", whole(times.p50)),
        ("response_time_ns_p99", whole(times.p99)),
        ("response_time_ns_p999", whole(times.p999)),
    ] {
        out.push_str(&format!(
            "        <property name=\"{name}\" value=\"{value}\"/>\n"
        ));
    }
    out.push_str("      </properties>\n");
    out
}

fn failed(record: &Record, group: &Group<'_>) -> usize {
    group
        .rows
        .iter()
        .filter(|row| reasons(record, row.case).is_some())
        .count()
}

/// Why a case fails; nothing where it does not. JUnit knows one failure per case, so all reasons
/// come as one.
fn reasons(record: &Record, case: &Case) -> Option<String> {
    let scope = format!("{}, {}", case.subject.name, case.scenario.workload);
    let critical = record
        .doctor
        .iter()
        .filter(|finding| finding.severity == Severity::Critical && finding.scope == scope);
    let mut reasons: Vec<String> = critical
        .map(|finding| format!("{}: {}", finding.rule, finding.evidence))
        .collect();
    if reasons.is_empty() && case.error_count() > 0 {
        reasons.push(format!(
            "{} of {} operations failed.",
            case.error_count(),
            case.ops
        ));
    }
    (!reasons.is_empty()).then(|| reasons.join(" "))
}

fn seconds(case: &Case) -> f64 {
    case.duration_ns as f64 / 1e9
}

/// A text for an attribute or an element. What XML 1.0 cannot hold, even as an entity, is gone by
/// then: control characters are made visible, and the two non-characters replaced here.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup_and_always_xml() {
        assert_eq!(
            escaped("<a b=\"c\">'&]]>"),
            "&lt;a b=&quot;c&quot;&gt;&apos;&amp;]]&gt;"
        );
        assert_eq!(escaped("\0\u{b}\u{ffff}\u{1b}[0m\n"), "????[0m?");
    }
}
