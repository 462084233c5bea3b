//! Markdown, for pull requests and wikis: GitHub's flavour, one table per scenario.

use loadline_measure::capacity::Answer;
use loadline_measure::record::Record;

use crate::capacity;
use crate::clean::plain;
use crate::sweep;
use crate::view::{self, Group, Row};
use loadline_measure::words;

/// The record as GitHub-flavoured Markdown, with a line feed at the end.
#[must_use]
pub fn markdown(record: &Record) -> String {
    let mut out = Lines::default();
    let run = &record.run;
    out.paragraph(&format!("## Loadline {}", escaped(&run.version)));
    let mut about = vec![format!(
        "Run {}, {}",
        escaped(&run.id),
        escaped(&run.started_at)
    )];
    about.extend(view::surroundings(record).iter().map(|line| escaped(line)));
    out.paragraph(&about.join("  \n"));
    if run.cut_short {
        out.paragraph("**Cut short:** an interrupt ended this run before its plan was done.");
    }
    let groups = view::groups(record);
    if groups.is_empty() {
        out.paragraph("Nothing was measured.");
    }
    if let Some(answer) = &record.capacity {
        findings(&mut out, record);
        curve(&mut out, answer);
        doctor(&mut out, record);
    } else if sweep::is_sweep(record) {
        swept(&mut out, record);
        doctor(&mut out, record);
        findings(&mut out, record);
    } else {
        let shared = view::shared_conditions(&groups);
        for group in &groups {
            table(&mut out, group, &shared);
        }
        doctor(&mut out, record);
        findings(&mut out, record);
    }
    let legend = view::legend(record);
    let cpu = view::cpu_legend(record).into_iter();
    let legend = cpu.chain(legend.iter().map(String::as_str));
    list(&mut out, "How to read this", legend.map(escaped));
    out.paragraph(&escaped(&view::how_measured(record)));
    out.text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn paragraph(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(text);
    }
}

/// A table for every operation under every latency: a row per mode, a column per count.
fn swept(out: &mut Lines, record: &Record) {
    let counts = sweep::counts(record);
    for setting in sweep::settings(record) {
        out.paragraph(&format!("### {}", escaped(&setting.title())));
        for line in setting.accuracy().into_iter().chain(setting.codec_cost()) {
            out.paragraph(&escaped(&line));
        }
        let heads: String = counts
            .iter()
            .map(|count| format!(" {} |", words::amount(*count)))
            .collect();
        out.paragraph(&format!("| mode |{heads} ops/s | p50 | p99 | CPU us |"));
        out.line(&format!("| --- |{}", " --: |".repeat(counts.len() + 4)));
        for mode in &setting.modes {
            let mut line = format!("| {} |", escaped(mode.name));
            for count in &counts {
                let text = escaped(&mode.total(*count).text());
                let best = setting.best(*count).map(|best| best.name);
                line += &if best == Some(mode.name) {
                    format!(" **{text}** |")
                } else {
                    format!(" {text} |")
                };
            }
            let largest = mode.largest;
            let [p50, p99] =
                [largest.response_time_ns.p50, largest.response_time_ns.p99].map(words::percentile);
            let cpu = words::cpu_us(largest.cost.client_cpu_ns_per_op);
            let rate = sweep::rate(largest.throughput_ops_per_s);
            out.line(&format!("{line} {rate} | {p50} | {p99} | {cpu} |"));
        }
        let left_out = setting.left_out.iter().map(|left_out| {
            let (mode, reason) = (escaped(left_out.mode.as_str()), escaped(&left_out.reason));
            format!("{mode}: {reason}")
        });
        let curves = setting
            .curves
            .iter()
            .map(|curve| escaped(&format!("{}: {}", curve.title(), curve.sentence())));
        list(out, "", left_out.chain(curves));
    }
    out.paragraph(&escaped(sweep::LEGEND));
}

fn table(out: &mut Lines, group: &Group<'_>, shared: &[String]) {
    out.paragraph(&format!("### {}", escaped(&view::title(group, shared))));
    out.paragraph(&escaped(&group.conditions.join(", ")));
    let beside = group.rows.iter().find_map(|row| row.beside.as_deref());
    let ratio = beside.map(|beside| format!(" throughput beside {} |", escaped(beside)));
    out.paragraph(&format!(
        "| target | ops/s | p50 | p99 | p99.9 | CPU us/op |{}",
        ratio.as_deref().unwrap_or_default()
    ));
    out.line(&format!(
        "| --- | --: | --: | --: | --: | --: |{}",
        if ratio.is_some() { " --- |" } else { "" }
    ));
    for row in &group.rows {
        out.line(&cells(row, ratio.is_some()));
        if group.open_loop {
            let times = [
                ("service time", Some(&row.case.service_time_ns)),
                ("generator lag", row.case.lag_ns.as_ref()),
            ];
            for (name, summary) in times {
                let Some(summary) = summary else { continue };
                let [p50, p99, p999] =
                    [summary.p50, summary.p99, summary.p999].map(words::percentile);
                let end = if ratio.is_some() { " |" } else { "" };
                out.line(&format!(
                    "| {}, {name} | | {p50} | {p99} | {p999} | |{end}",
                    escaped(&row.name)
                ));
            }
        }
    }
    list(out, "", group.rows.iter().flat_map(notes));
}

fn cells(row: &Row<'_>, with_ratio: bool) -> String {
    let (times, cost) = (&row.case.response_time_ns, &row.case.cost);
    let [p50, p99, p999] = [times.p50, times.p99, times.p999].map(words::percentile);
    let cpu = format!(
        "{} + {}",
        words::cpu_us(cost.client_cpu_ns_per_op),
        words::cpu_us(cost.server_cpu_ns_per_op)
    );
    let throughput = row
        .comparisons
        .first()
        .map(|comparison| view::comparison(comparison))
        .unwrap_or_default();
    let ratio = if with_ratio {
        format!(" {throughput} |")
    } else {
        String::new()
    };
    format!(
        "| {} | {} | {p50} | {p99} | {p999} | {cpu} |{ratio}",
        escaped(&row.name),
        words::count(row.case.throughput_ops_per_s)
    )
}

fn notes(row: &Row<'_>) -> Vec<String> {
    let mut notes: Vec<String> = view::warnings(row.case)
        .iter()
        .map(|warning| format!("**{}**: {}", escaped(&row.name), escaped(warning)))
        .collect();
    let tail = view::tail(row.case);
    notes.extend(tail.map(|tail| escaped(&format!("{}, {tail}", row.name))));
    for comparison in &row.comparisons {
        let beside = row.beside.as_deref().unwrap_or_default();
        let (metric, ratio) = (view::metric(comparison), view::comparison(comparison));
        let evidence = view::evidence(comparison);
        let line = format!(
            "{} beside {beside}, {metric}: {ratio}, {evidence}",
            row.name
        );
        notes.push(escaped(&line));
    }
    notes
}

fn findings(out: &mut Lines, record: &Record) {
    list(
        out,
        "What was found",
        record.findings.iter().map(|finding| escaped(finding)),
    );
}

/// The throughput-latency curve of a search, a row for every rate.
fn curve(out: &mut Lines, answer: &Answer) {
    out.paragraph("### Response time by rate");
    let header = capacity::header(answer);
    out.paragraph(&format!("| {} | |", header.join(" | ")));
    out.line(&format!("|{} --- |", " --: |".repeat(header.len())));
    for point in &answer.curve {
        let (cells, marks) = (
            capacity::cells(answer, point).join(" | "),
            capacity::marks(answer, point),
        );
        let marks = match marks.as_str() {
            marks if marks.contains("answer") => format!("**{marks}**"),
            marks => marks.to_owned(),
        };
        out.line(&format!("| {cells} | {marks} |"));
    }
}

fn doctor(out: &mut Lines, record: &Record) {
    let diagnoses = view::diagnoses(record);
    if diagnoses.is_empty() {
        out.paragraph("Doctor: no findings.");
        return;
    }
    let lines = diagnoses.iter().flat_map(|diagnosis| {
        diagnosis.seen.iter().map(|(scope, evidence)| {
            let scope = if scope.is_empty() {
                String::new()
            } else {
                format!("{}: ", escaped(scope))
            };
            let severity = format!("{:?}", diagnosis.severity).to_lowercase();
            format!(
                "**{severity} {}** {scope}{} *{}*",
                escaped(diagnosis.rule),
                escaped(evidence),
                escaped(diagnosis.what_to_do)
            )
        })
    });
    list(out, "Doctor", lines);
}

fn list(out: &mut Lines, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    if !title.is_empty() {
        out.paragraph(&format!("### {title}"));
    }
    let items: Vec<String> = items.map(|item| format!("- {item}")).collect();
    out.paragraph(&items.join("\n"));
}

/// A text that Markdown takes as it is: what could be markup gets a backslash, and what could be
/// HTML or a mention becomes an entity.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup() {
        assert_eq!(escaped("a|b"), "a\\|b");
        assert_eq!(
            escaped("<img src=x> & [x](y) `c` *b* @team"),
            "&lt;img src=x&gt; &amp; \\[x\\](y) \\`c\\` \\*b\\* &#64;team"
        );
        assert_eq!(escaped("line\n# heading"), "line?\\# heading");
    }
}
