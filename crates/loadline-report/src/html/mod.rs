//! HTML: one page that stands alone, without scripts and without anything from elsewhere.

mod chart;
mod curve;
mod sweep;

use loadline_measure::LatencySummary;
use loadline_measure::record::{Comparison, Record, Severity, Verdict};

use crate::clean::{plain, shortened};
use crate::view::{self, Group, Row};
use loadline_measure::words;

/// Names are cut beyond this in tables, so that the figures stay in sight.
const MOST_NAME: usize = 40;

const STYLE: &str = include_str!("style.css");

/// The record as an HTML page. It loads nothing, also where a string in the record would like it to:
/// everything foreign is escaped, and the page forbids all sources but its own style.
#[must_use]
pub fn html(record: &Record) -> String {
    let run = &record.run;
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Loadline, run {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escaped(&run.id)
    );
    head(&mut out, record);
    let groups = view::groups(record);
    if groups.is_empty() {
        out.push_str("<p>Nothing was measured.</p>\n");
    }
    if let Some(answer) = &record.capacity {
        findings(&mut out, record);
        curve::draw(&mut out, answer);
        doctor(&mut out, record);
    } else if crate::sweep::is_sweep(record) {
        sweep::draw(&mut out, record);
        doctor(&mut out, record);
        findings(&mut out, record);
    } else {
        let shared = view::shared_conditions(&groups);
        for group in &groups {
            section(&mut out, group, &shared);
        }
        doctor(&mut out, record);
        findings(&mut out, record);
    }
    list(
        &mut out,
        "How to read this",
        view::legend(record).iter().map(|line| escaped(line)),
    );
    out.push_str(&format!(
        "<p>{}</p>\n",
        escaped(&view::how_measured(record))
    ));
    if !run.command.is_empty() {
        out.push_str(&format!(
            "<p class=\"faint\"><code>{}</code></p>\n",
            escaped(&run.command)
        ));
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn head(out: &mut String, record: &Record) {
    let run = &record.run;
    out.push_str(&format!("<h1>Loadline {}</h1>\n", escaped(&run.version)));
    out.push_str(&format!(
        "<p class=\"faint\">Run {}, {}</p>\n",
        escaped(&run.id),
        escaped(&run.started_at)
    ));
    for line in view::surroundings(record) {
        out.push_str(&format!("<p class=\"faint\">{}</p>\n", escaped(&line)));
    }
    if run.cut_short {
        out.push_str(
            "<p class=\"alarm\"><strong>Cut short:</strong> an interrupt ended this run before its plan was done. \
             What follows is what was measured until then.</p>\n",
        );
    }
}

fn findings(out: &mut String, record: &Record) {
    list(
        out,
        "What was found",
        record.findings.iter().map(|finding| escaped(finding)),
    );
}

fn section(out: &mut String, group: &Group<'_>, shared: &[String]) {
    out.push_str(&format!(
        "<h2>{}</h2>\n",
        escaped(&view::title(group, shared))
    ));
    out.push_str(&format!(
        "<p class=\"faint\">{}</p>\n",
        escaped(&group.conditions.join(", "))
    ));
    table(out, group);
    notes(out, group);
    let charts = [
        (
            format!(
                "Response time by percentile, log scales{}",
                if group.open_loop {
                    " (dashed: service time)"
                } else {
                    ""
                }
            ),
            chart::percentiles(group),
        ),
        (
            "Operations per second by round".to_owned(),
            chart::rounds(group),
        ),
        (
            "Ratios with their intervals".to_owned(),
            chart::ratios(group),
        ),
    ];
    if charts.iter().all(|(_, svg)| svg.is_none()) {
        return;
    }
    out.push_str("<div class=\"charts\">\n");
    for (caption, svg) in charts {
        if let Some(svg) = svg {
            out.push_str(&format!(
                "<figure><figcaption>{caption}</figcaption>\n{svg}</figure>\n"
            ));
        }
    }
    out.push_str("</div>\n");
}

fn table(out: &mut String, group: &Group<'_>) {
    let beside = group.rows.iter().find_map(|row| row.beside.as_deref());
    out.push_str("<div class=\"wide\"><table>\n<thead><tr><th>target</th><th>ops/s</th><th>p50</th><th>p99</th><th>p99.9</th>");
    out.push_str("<th>generator CPU</th><th>server CPU</th>");
    if let Some(beside) = beside {
        out.push_str(&format!(
            "<th class=\"text\">throughput beside {}</th>",
            escaped(&shortened(beside, MOST_NAME))
        ));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (index, row) in group.rows.iter().enumerate() {
        figures(out, index, row, beside.is_some());
        if group.open_loop {
            part(
                out,
                "service time",
                &row.case.service_time_ns,
                beside.is_some(),
            );
            if let Some(lag) = &row.case.lag_ns {
                part(out, "generator lag", lag, beside.is_some());
            }
        }
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn figures(out: &mut String, index: usize, row: &Row<'_>, with_ratio: bool) {
    let cost = &row.case.cost;
    let cpu = |ns: Option<f64>| ns.map_or_else(|| "?".to_owned(), words::duration);
    out.push_str(&format!(
        "<tr><td><span class=\"dot k{}\"></span>{}</td><td>{}</td>{}<td>{}</td><td>{}</td>",
        index % chart::COLOURS,
        escaped(&shortened(&row.name, MOST_NAME)),
        words::count(row.case.throughput_ops_per_s),
        times(&row.case.response_time_ns),
        cpu(cost.client_cpu_ns_per_op),
        cpu(cost.server_cpu_ns_per_op),
    ));
    if with_ratio {
        let cell = row.comparisons.first().map(|comparison| {
            format!(
                "<span class=\"{}\">{}, {}</span>",
                class(comparison),
                view::comparison(comparison),
                view::verdict(comparison)
            )
        });
        out.push_str(&format!(
            "<td class=\"text\">{}</td>",
            cell.unwrap_or_default()
        ));
    }
    out.push_str("</tr>\n");
}

fn part(out: &mut String, name: &str, summary: &LatencySummary, with_ratio: bool) {
    let end = if with_ratio { "<td></td>" } else { "" };
    out.push_str(&format!(
        "<tr class=\"part\"><td>{name}</td><td></td>{}<td></td><td></td>{end}</tr>\n",
        times(summary)
    ));
}

fn times(summary: &LatencySummary) -> String {
    let cell = |value: Option<u64>| match value {
        Some(ns) => format!("<td>{}</td>", words::duration(ns as f64)),
        None => format!("<td class=\"few\">{}</td>", words::TOO_FEW),
    };
    [summary.p50, summary.p99, summary.p999].map(cell).concat()
}

fn notes(out: &mut String, group: &Group<'_>) {
    let mut items = Vec::new();
    for row in &group.rows {
        let warnings = view::warnings(row.case);
        items.extend(warnings.iter().map(|warning| {
            format!(
                "<span class=\"warn\">{}: {}</span>",
                escaped(&row.name),
                escaped(warning)
            )
        }));
        let tail = view::tail(row.case);
        items.extend(tail.map(|tail| escaped(&format!("{}, {tail}", row.name))));
        for comparison in &row.comparisons {
            let beside = row.beside.as_deref().unwrap_or_default();
            let (metric, ratio) = (view::metric(comparison), view::comparison(comparison));
            let evidence = view::evidence(comparison);
            items.push(escaped(&format!(
                "{} beside {beside}, {metric}: {ratio}, {evidence}",
                row.name
            )));
        }
    }
    list(out, "", items.into_iter());
}

fn doctor(out: &mut String, record: &Record) {
    let diagnoses = view::diagnoses(record);
    out.push_str("<h2>Doctor</h2>\n");
    if diagnoses.is_empty() {
        out.push_str("<p>No findings.</p>\n");
        return;
    }
    out.push_str("<ul>\n");
    for diagnosis in diagnoses {
        let (class, severity) = match diagnosis.severity {
            Severity::Critical => ("bad", "critical"),
            Severity::Warning => ("warn", "warning"),
            Severity::Info => ("faint", "info"),
        };
        out.push_str(&format!(
            "<li><strong class=\"{class}\">{severity} {}</strong>",
            escaped(diagnosis.rule)
        ));
        for (scope, evidence) in &diagnosis.seen {
            let scope = if scope.is_empty() {
                String::new()
            } else {
                format!("{}: ", escaped(scope))
            };
            out.push_str(&format!("<br>{scope}{}", escaped(evidence)));
        }
        out.push_str(&format!(
            "<br><span class=\"faint\">{}</span></li>\n",
            escaped(diagnosis.what_to_do)
        ));
    }
    out.push_str("</ul>\n");
}

fn list(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.map(|item| format!("<li>{item}</li>\n")).collect();
    if items.is_empty() {
        return;
    }
    if !title.is_empty() {
        out.push_str(&format!("<h2>{title}</h2>\n"));
    }
    out.push_str(&format!("<ul>\n{}</ul>\n", items.concat()));
}

fn class(comparison: &Comparison) -> &'static str {
    match comparison.verdict {
        Verdict::Faster => "good",
        Verdict::Slower => "bad",
        Verdict::Equivalent | Verdict::Inconclusive => "faint",
    }
}

/// A text for an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}
