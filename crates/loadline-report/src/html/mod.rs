//! The HTML printer: one self-contained page, without scripts and external resources.

mod flame;
mod svg;

use loadline_measure::record::Record;
use loadline_measure::words;

use crate::clean::{columns, escaped, shortened};
use crate::document::{
    Block, Checks, Document, Flame, Item, MOST_FURTHER, Plot, Row, Section, Table, Tone,
};
use crate::view;

const STYLE: &str = include_str!("style.css");

/// Cells and heads are cut beyond this, so that the figures stay in sight.
const MOST_COLUMNS: usize = 200;
/// A cell with a longer text keeps the width of a line on a phone, so that it does not become a tall one.
const SHORT_COLUMNS: usize = 40;

/// The record as an HTML page. It loads nothing, also where a string in the record would like it to:
/// everything foreign is escaped, and the page forbids all sources but its own style.
#[must_use]
pub fn html(record: &Record) -> String {
    print(&view::of_record(record))
}

fn print(document: &Document) -> String {
    let title = escaped(&shortened(&document.title, MOST_COLUMNS));
    let mut page = Page::default();
    page.push(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} - Loadline</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    ));
    let verdict = &document.verdict;
    page.push(&format!(
        "<p class=\"verdict {}\">{}</p>\n",
        class(verdict.tone),
        escaped(&verdict.sentence)
    ));
    for section in &document.sections {
        page.section(section);
    }
    if let Some(last) = &document.last {
        page.push(&format!("<p><code>{}</code></p>\n", escaped(last)));
    }
    page.push("</main>\n</body>\n</html>\n");
    page.out
}

#[derive(Default)]
struct Page {
    out: String,
    /// Tables so far, so that each scroll area has a name of its own.
    tables: usize,
    /// Flame graphs so far.
    flames: usize,
}

impl Page {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn section(&mut self, section: &Section) {
        if section.folded {
            let heading = escaped(&section.heading);
            self.push(&format!("<details>\n<summary>{heading}</summary>\n"));
        } else if !section.heading.is_empty() {
            self.push(&format!("<h2>{}</h2>\n", escaped(&section.heading)));
        }
        let mut plots = Vec::new();
        for block in &section.blocks {
            match block {
                Block::Sentence(tone, text) => {
                    self.push(&format!(
                        "<p class=\"{}\">{}</p>\n",
                        class(*tone),
                        escaped(text)
                    ));
                }
                Block::List(items) => self.brief_list(items, section.brief),
                Block::Facts(facts) => self.facts(facts),
                Block::Table(table) => self.table(table),
                Block::Plot(plot) => plots.push(plot),
                Block::Checks(checks) if checks.shown => self.checks(checks),
                Block::Flames(flames) => flames.iter().for_each(|flame| self.flame(flame)),
                Block::Checks(_) | Block::Data(_) => {}
            }
        }
        self.plots(&plots);
        if section.folded {
            self.push("</details>\n");
        }
    }

    /// Opens a scroll area with a table, which can be reached by the keyboard.
    fn open_table(&mut self, caption: &str) {
        self.tables += 1;
        let caption = escaped(&shortened(caption, MOST_COLUMNS));
        self.push(&format!(
            "<div class=\"wide\" role=\"region\" aria-label=\"Table {}: {caption}\" tabindex=\"0\"><table>\n",
            self.tables
        ));
    }

    fn table(&mut self, table: &Table) {
        self.open_table(&table.caption);
        self.push("<thead><tr>");
        for column in &table.columns {
            let head = escaped(&shortened(&column.head, MOST_COLUMNS));
            let class = if column.right { "" } else { " class=\"text\"" };
            // A head without a text is no head.
            self.push(&if head.is_empty() {
                "<td></td>".to_owned()
            } else {
                format!("<th scope=\"col\"{class}>{head}</th>")
            });
        }
        self.push("</tr></thead>\n");
        for group in &table.groups {
            self.push("<tbody>\n");
            if !group.title.is_empty() {
                self.push(&format!(
                    "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>\n",
                    table.columns.len(),
                    escaped(&group.title)
                ));
            }
            for row in &group.rows {
                self.row(table, row);
            }
            self.push("</tbody>\n");
        }
        self.push("</table></div>\n");
    }

    fn row(&mut self, table: &Table, row: &Row) {
        self.push(if row.is_part {
            "<tr class=\"part\">"
        } else {
            "<tr>"
        });
        for (place, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
            let text = escaped(&shortened(&cell.text, MOST_COLUMNS));
            let text = if cell.strong {
                format!("<strong>{text}</strong>")
            } else {
                text
            };
            let side = if column.right { "" } else { "text " };
            let is_long = columns(&cell.text) > SHORT_COLUMNS;
            let long = if is_long { "long " } else { "" };
            let class = format!("{side}{long}{}", class(cell.tone));
            let class = class.trim();
            let class = if class.is_empty() {
                String::new()
            } else {
                format!(" class=\"{class}\"")
            };
            if place == 0 {
                let dot = row.colour.map(dot).unwrap_or_default();
                self.push(&format!("<th scope=\"row\"{class}>{dot}{text}</th>"));
            } else {
                self.push(&format!("<td{class}>{text}</td>"));
            }
        }
        self.push("</tr>\n");
        for note in &row.notes {
            self.push(&format!(
                "<tr class=\"note\"><td colspan=\"{}\" class=\"text {}\">{}</td></tr>\n",
                table.columns.len(),
                class(note.tone),
                escaped(&note.text)
            ));
        }
    }

    fn facts(&mut self, facts: &[(String, String)]) {
        self.open_table("where and how it was measured");
        self.push("<tbody>\n");
        for (name, value) in facts {
            self.push(&format!(
                "<tr><th scope=\"row\">{}</th><td class=\"prose\">{}</td></tr>\n",
                escaped(name),
                escaped(value)
            ));
        }
        self.push("</tbody></table></div>\n");
    }

    fn checks(&mut self, checks: &Checks) {
        self.push("<ul>\n");
        for check in &checks.checks {
            self.push(&format!(
                "<li><strong class=\"{}\">{}</strong> <code>{}</code>: {}</li>\n",
                class(check.result.tone()),
                check.result.word(),
                escaped(&check.name),
                escaped(&check.message)
            ));
        }
        self.push("</ul>\n");
    }

    /// A list whose entries after the first `shown` are folded.
    fn brief_list(&mut self, items: &[Item], shown: Option<usize>) {
        let shown = shown.unwrap_or(items.len()).min(items.len());
        let (first, others) = items.split_at(shown);
        self.list(first);
        if !others.is_empty() {
            let summary = words::plural(others.len() as u64, "other finding");
            self.push(&format!("<details>\n<summary>{summary}</summary>\n"));
            self.list(others);
            self.push("</details>\n");
        }
    }

    fn list(&mut self, items: &[Item]) {
        if items.is_empty() {
            return;
        }
        self.push("<ul>\n");
        for item in items {
            let label = if item.label.is_empty() {
                String::new()
            } else {
                let label = escaped(&item.label);
                format!("<strong class=\"{}\">{label}</strong>: ", class(item.tone))
            };
            self.push(&format!("<li>{label}{}", escaped(&item.text)));
            for more in item.further(MOST_FURTHER) {
                self.push(&format!("<br>{}", escaped(&more)));
            }
            if !item.advice.is_empty() {
                let advice = escaped(&item.advice);
                self.push(&format!("<br><span class=\"faint\">{advice}</span>"));
            }
            self.push("</li>\n");
        }
        self.push("</ul>\n");
    }

    /// A scroll area with a graph that is as wide as a desk's screen.
    fn flame(&mut self, flame: &Flame) {
        self.flames += 1;
        let Some(svg) = flame::draw(&flame.before, &flame.after, self.flames) else {
            return;
        };
        let caption = escaped(&shortened(&flame.caption, MOST_COLUMNS));
        self.push(&format!(
            "<p>{caption}</p>\n<div class=\"wide\" role=\"region\" aria-label=\"Graph {}: {caption}\" tabindex=\"0\">{svg}</div>\n",
            self.flames
        ));
    }

    fn plots(&mut self, plots: &[&Plot]) {
        let drawn = plots.iter();
        let drawn: Vec<(&Plot, svg::Figure)> = drawn
            .filter_map(|plot| Some((*plot, svg::draw(plot)?)))
            .collect();
        if drawn.is_empty() {
            return;
        }
        self.push("<div class=\"charts\">\n");
        for (plot, figure) in drawn {
            let solid = figure.key.iter().map(|entry| (entry, "dot"));
            let dashed = figure.dashed.iter().map(|entry| (entry, "dash"));
            let samples = solid
                .chain(dashed)
                .map(|((colour, name), sample)| (sample_of(sample, *colour), name));
            let markers = figure.markers.iter();
            let markers = markers.map(|(place, name)| (svg::sample(*place), name));
            let key: String = samples
                .chain(markers)
                .map(|(sample, name)| {
                    format!("<span class=\"key\">{sample}{}</span>", escaped(name))
                })
                .collect();
            self.push(&format!(
                "<figure><figcaption>{} {key}</figcaption>\n{}",
                escaped(&figure.caption),
                figure.svg
            ));
            if let Plot::Timeline(plot) = plot {
                self.push("<details>\n<summary>Values</summary>\n");
                self.table(&plot.table);
                self.push("</details>\n");
            }
            self.push("</figure>\n");
        }
        self.push("</div>\n");
    }
}

fn dot(colour: usize) -> String {
    sample_of("dot", colour)
}

/// A sample of a colour: a dot, or a dash for a dashed line.
fn sample_of(shape: &str, colour: usize) -> String {
    format!("<span class=\"{shape} k{}\"></span>", colour % svg::COLOURS)
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Faint => "faint",
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
    }
}
