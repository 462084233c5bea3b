//! Differential flame graphs, drawn by inferno.

use std::collections::BTreeSet;

use inferno::flamegraph::{self, Options};
use loadline_measure::work::{Frame, stacks};

use crate::clean::escaped;

/// Counts are whole numbers in a graph, so they are of this many operations.
const OPERATIONS: f64 = 1_000.0;
const WIDTH: usize = 1_160;
/// A frame narrower than this share of the graph, in percent, is left out.
const NARROWEST: f64 = 0.1;

/// The graph of what `after` executes, as an element of a page: red where it executes more than `before`, blue where it
/// executes less. `None` if there is nothing to draw. `number` distinguishes it from other graphs on the page.
pub(super) fn draw(before: &[Frame], after: &[Frame], number: usize) -> Option<String> {
    let (before, after) = (stacks(before), stacks(after));
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let count = |of: Option<&f64>| (of.copied().unwrap_or(0.0) * OPERATIONS).round() as u64;
    let lines: Vec<String> = paths
        .into_iter()
        .map(|path| {
            let (was, is) = (count(before.get(path)), count(after.get(path)));
            format!("{} {was} {is}", path.replace(['\n', '\r'], " "))
        })
        .collect();
    let mut options = Options::default();
    options.title = String::new();
    options.count_name = "instructions per 1,000 operations".to_owned();
    options.name_type = String::new();
    options.image_width = Some(WIDTH);
    options.min_width = NARROWEST;
    options.deterministic = true;
    options.no_javascript = true;
    let mut drawn = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut drawn).ok()?;
    let drawn = String::from_utf8(drawn).ok()?;
    Some(embedded(&drawn, number))
}

/// The elements of a graph that only a file of its own may have: a style that would reach the rest of the page, scripts,
/// the labels that the scripts would work with, and a background. By how they begin, and their names; an element without
/// a closing tag has none.
const LEFT_OUT: [(&str, &str); 9] = [
    ("<defs", "defs"),
    ("<rect x=\"0\" y=\"0\" width=\"100%\"", ""),
    ("<style", "style"),
    ("<script", "script"),
    ("<text id=\"title\"", "text"),
    ("<text id=\"details\"", "text"),
    ("<text id=\"unzoom\"", "text"),
    ("<text id=\"search\"", "text"),
    ("<text id=\"matched\"", "text"),
];

/// The graph as an element of a page: without a document type, without what is left out, and with names of its own.
fn embedded(svg: &str, number: usize) -> String {
    let begin = svg.find("<svg").unwrap_or(0);
    let mut rest = &svg[begin..];
    let mut out = String::with_capacity(rest.len());
    while let Some((at, end)) = LEFT_OUT
        .iter()
        .filter_map(|(start, name)| {
            let at = rest.find(start)?;
            let close = if name.is_empty() {
                "/>".to_owned()
            } else {
                format!("</{name}>")
            };
            Some((at, rest[at..].find(&close)? + at + close.len()))
        })
        .min()
    {
        out.push_str(&rest[..at]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    let label = escaped("Flame graph of the instructions of an operation");
    out.replace(" onload=\"init(evt)\"", "")
        .replace("id=\"", &format!("id=\"flame{number}-"))
        .replace("url(#", &format!("url(#flame{number}-"))
        .replacen(
            "<svg ",
            &format!("<svg class=\"flame\" role=\"img\" aria-label=\"{label}\" "),
            1,
        )
}
