//! Records that try to be more than text, in every form.

use super::{PIPE, TERMINAL, fixture};
use crate::{TextOptions, csv, html, junit, markdown, text};

/// Whether a text has nothing but letters and line feeds in it.
fn is_printable(text: &str) -> bool {
    !text
        .chars()
        .any(|c| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}'))
}

#[test]
fn no_form_passes_on_what_steers_a_terminal() {
    let record = fixture::hostile();
    let forms = [
        text(&record, &PIPE),
        text(&record, &TERMINAL),
        markdown(&record),
        html(&record),
        csv(&record),
        junit(&record),
    ];
    for form in forms {
        assert!(is_printable(&form), "{form}");
    }
    let coloured = text(
        &record,
        &TextOptions {
            color: true,
            ..PIPE
        },
    );
    assert!(
        !coloured.contains("\x1b[31m|"),
        "the escape of the record is not among our own"
    );
}

#[test]
fn html_has_no_markup_but_its_own() {
    let page = html(&fixture::hostile());
    assert!(
        !page.contains("<script") && !page.contains("</td><script"),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;alert(1)"));
    let body = page.split_once("<body>").unwrap().1;
    for tag in [
        "td", "th", "tr", "table", "tbody", "thead", "ul", "li", "svg", "text", "title", "figure",
        "span", "div", "main", "h1", "h2", "p", "strong",
    ] {
        let opened =
            body.matches(&format!("<{tag}>")).count() + body.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, body.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(
        !page.contains("NaN") && !page.contains("inf"),
        "no coordinate is out of this world"
    );
}

#[test]
fn html_loads_nothing() {
    for record in [fixture::two_targets(), fixture::hostile()] {
        let page = html(&record);
        for source in [
            "http:", "https:", "src=", "href=", "url(", "@import", "<link", "<iframe",
        ] {
            assert!(!page.contains(source), "{source}");
        }
    }
}

#[test]
fn xml_is_read_by_a_parser_with_the_names_in_place() {
    for record in [
        fixture::one_target(),
        fixture::two_targets(),
        fixture::troubled(),
        fixture::hostile(),
        fixture::empty(),
    ] {
        let xml = junit(&record);
        let document = roxmltree::Document::parse(&xml).unwrap();
        let cases: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name("testcase"))
            .collect();
        let tests: usize = document
            .root_element()
            .attribute("tests")
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(cases.len(), tests, "{xml}");
        let failures = document
            .descendants()
            .filter(|node| node.has_tag_name("failure"))
            .count();
        assert_eq!(
            document.root_element().attribute("failures"),
            Some(failures.to_string().as_str())
        );
    }
    let xml = junit(&fixture::hostile());
    let document = roxmltree::Document::parse(&xml).unwrap();
    let name = document
        .descendants()
        .find_map(|node| node.attribute("name").filter(|name| name.contains("alert")))
        .unwrap();
    assert!(
        name.contains("</td><script>alert(1)</script>?[31m|`,\"=1??]]>&'"),
        "{name}"
    );
}

/// Reads CSV as RFC 4180 says.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted, mut chars) = (vec![String::new()], false, line.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cells.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cells.last_mut().unwrap().push(c),
        }
    }
    assert!(!quoted, "a quote is open at the end of {line}");
    cells
}

#[test]
fn csv_has_one_cell_per_column_and_no_formula() {
    let csv = csv(&fixture::hostile());
    let header = cells(csv.lines().next().unwrap());
    assert_eq!(csv.lines().count(), 4);
    for line in csv.lines().skip(1) {
        let row = cells(line);
        assert_eq!(row.len(), header.len(), "{line}");
        for (name, cell) in header.iter().zip(&row) {
            let text = cell.parse::<f64>().is_err();
            assert!(
                !(text && cell.starts_with(['=', '+', '-', '@'])),
                "{name} is {cell}"
            );
        }
    }
    let row = cells(csv.lines().nth(1).unwrap());
    assert_eq!(row[1], "</td><script>alert(1)</script>?[31m|`,\"=1??]]>&'");
}

#[test]
fn markdown_keeps_its_tables() {
    let page = markdown(&fixture::hostile());
    for table in page.split("\n\n").filter(|block| block.starts_with('|')) {
        let bars = |line: &str| line.matches('|').count() - line.matches("\\|").count();
        let columns = bars(table.lines().next().unwrap());
        assert!(table.lines().all(|line| bars(line) == columns), "{table}");
    }
    let own = ["<details>", "</details>", "<summary>", "</summary>"];
    let foreign = own.iter().fold(page, |page, tag| page.replace(tag, ""));
    assert!(!foreign.contains(['<', '@']), "{foreign}");
}

#[test]
fn comparisons_with_cases_that_are_not_there_are_shown_without_names() {
    let mut record = fixture::two_targets();
    record.comparisons[0].a = 99;
    record.comparisons[1].a = usize::MAX;
    record.comparisons[2].b = 77;
    let shown = text(&record, &PIPE);
    assert!(shown.contains("spawn:redis-server"), "{shown}");
    for form in [
        markdown(&record),
        html(&record),
        junit(&record),
        csv(&record),
    ] {
        assert!(form.contains("spawn:redis-server"));
    }
}

#[test]
fn record_read_from_json_with_figures_at_their_limits_is_shown() {
    let mut json = serde_json::to_value(fixture::two_targets()).unwrap();
    for pointer in [
        "/cases/0/ops",
        "/cases/0/duration_ns",
        "/cases/0/scenario/connections",
        "/cases/0/scenario/keys",
        "/cases/0/response_time_ns/p99",
        "/cases/0/rounds/0/ops",
        "/run/duration_ns",
        "/comparisons/0/rounds",
    ] {
        *json.pointer_mut(pointer).unwrap() = serde_json::json!(u64::MAX);
    }
    for (pointer, value) in [
        ("/cases/0/throughput_ops_per_s", 0.0),
        ("/cases/1/throughput_ops_per_s", 1e308),
        ("/cases/1/rounds/0/throughput_ops_per_s", 1e308),
        ("/comparisons/0/ratio", 0.0),
        ("/comparisons/1/ratio", 1e308),
        ("/comparisons/0/interval/lo", -5.0),
        ("/cases/1/cost/server_cpu_ns_per_op", 1e308),
    ] {
        *json.pointer_mut(pointer).unwrap() = serde_json::json!(value);
    }
    let record = loadline_measure::Record::from_json(json.to_string().as_bytes()).unwrap();
    for width in [20, 80] {
        let shown = text(&record, &TextOptions { width, ..TERMINAL });
        assert!(shown.contains("embedded"), "{shown}");
    }
    let page = html(&record);
    assert!(!page.contains("NaN") && !page.contains("\"inf"), "{page}");
    assert!(roxmltree::Document::parse(&junit(&record)).is_ok());
    assert!(markdown(&record).len() > 100 && csv(&record).lines().count() == 5);
}
