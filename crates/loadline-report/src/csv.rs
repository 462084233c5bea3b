//! The CSV printer: one line per case, for spreadsheets and scripts.
//!
//! Quoting is that of RFC 4180, lines end with a line feed, and an unknown figure is an empty cell.
//! Figures are not rounded. A text that a spreadsheet would take for a formula gets an apostrophe
//! before it (OWASP, "CSV Injection").

use loadline_measure::record::Record;

use crate::clean::plain;
use crate::document::{Block, Data, Value};
use crate::view;

/// The cases of the record as CSV with a header, each with the verdict of the run. Ratios are not in
/// it: a ratio belongs to two cases, and its figures are in the JSON record.
#[must_use]
pub fn csv(record: &Record) -> String {
    let document = view::of_record(record);
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let tables = blocks.filter_map(|block| match block {
        Block::Data(data) => Some(lines(data)),
        _ => None,
    });
    tables.collect()
}

fn lines(data: &Data) -> String {
    let mut out = data.header.join(",");
    out.push('\n');
    for row in &data.rows {
        let cells = row.iter().map(|value| match value {
            Value::Text(foreign) => quoted(&text(foreign)),
            Value::Figure(figure) => quoted(figure),
        });
        out.push_str(&cells.collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    out
}

/// A text that no spreadsheet takes for a formula.
fn text(text: &str) -> String {
    let text = plain(text);
    let start = text.trim_start().chars().next();
    let formula = matches!(
        start,
        Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '|' | '%')
    );
    if formula {
        format!("'{text}")
    } else {
        text.into_owned()
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', ';']) || cell.starts_with(' ') || cell.ends_with(' ') {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_as_rfc_4180_says() {
        for (cell, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("a;b", "\"a;b\""),
            (" padded", "\" padded\""),
            ("", ""),
        ] {
            assert_eq!(quoted(cell), expected);
        }
    }

    #[test]
    fn no_text_is_a_formula() {
        for hostile in ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "  =1", "|calc", "＝1"] {
            assert!(text(hostile).starts_with('\''), "{hostile}");
        }
        assert_eq!(text("a\r\n=1"), "a??=1");
        assert_eq!(text("redis://h:1"), "redis://h:1");
    }
}
