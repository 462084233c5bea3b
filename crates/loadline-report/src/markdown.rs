//! The Markdown printer, for pull requests, wikis and the summaries of jobs: GitHub's flavour.

use loadline_measure::gate::Judgement;
use loadline_measure::record::Record;

use crate::Asked;
use crate::clean::{plain, shortened};
use crate::document::{Block, Cell, Checks, Document, Item, MOST_FURTHER, Section, Table};
use crate::view;

/// GitHub takes 1 MiB per step and others take less; a comment on a pull request takes 64 KiB.
const MOST_BYTES: usize = 60 << 10;

/// Room for folds, the notice of omitted lines, and the last line.
const END_BYTES: usize = 4 << 10;

/// A cell or a sentence is cut where it is longer, in columns of text.
const MOST_COLUMNS: usize = 400;

/// The record as GitHub-flavoured Markdown of less than 64 KiB, with a line feed at the end.
#[must_use]
pub fn markdown(record: &Record) -> String {
    print(&view::of_record(record))
}

/// The judgement as GitHub-flavoured Markdown of less than 64 KiB, with a line feed at the end: the
/// verdict first, then what changed; the rest is folded.
#[must_use]
pub fn judgement_markdown(judgement: &Judgement, asked: Asked<'_>) -> String {
    print(&view::judgement(judgement, asked))
}

fn print(document: &Document) -> String {
    let mut out = Bounded::default();
    out.line(&format!("**{}**", cut(&document.verdict.sentence)));
    out.line("");
    out.line(&format!("## {}", cut(&document.title)));
    for section in &document.sections {
        let is_shown = section.blocks.iter().any(|block| match block {
            Block::Checks(checks) => checks.shown,
            Block::Plot(_) | Block::Flames(_) | Block::Data(_) => false,
            _ => true,
        });
        if is_shown {
            print_section(&mut out, section);
        }
    }
    out.finish(document.last.as_deref())
}

fn print_section(out: &mut Bounded, section: &Section) {
    if section.folded {
        out.fold(&cut(&section.heading));
    } else if !section.heading.is_empty() {
        out.paragraph(&format!("### {}", cut(&section.heading)));
    }
    for block in &section.blocks {
        match block {
            Block::Sentence(_, text) => out.paragraph(&cut(text)),
            Block::List(items) => out.list(items.iter().map(item)),
            Block::Facts(facts) => {
                let facts = facts.iter();
                out.list(facts.map(|(name, value)| labelled(name, &cut(value))));
            }
            Block::Table(table) => print_table(out, table),
            Block::Checks(checks) if checks.shown => print_checks(out, checks),
            Block::Plot(_) | Block::Flames(_) | Block::Checks(_) | Block::Data(_) => {}
        }
    }
    if section.folded {
        out.unfold();
    }
}

fn print_table(out: &mut Bounded, table: &Table) {
    let heads = table.columns.iter().map(|column| cut(&column.head));
    out.paragraph(&row(heads));
    let rules = table.columns.iter();
    out.line(&row(rules.map(|column| {
        if column.right { "--:" } else { "---" }.to_owned()
    })));
    for group in &table.groups {
        if !group.title.is_empty() {
            let title = format!("**{}**", cut(&group.title));
            let blanks = std::iter::repeat_n(String::new(), table.columns.len() - 1);
            out.line(&row(std::iter::once(title).chain(blanks)));
        }
        for of in &group.rows {
            out.line(&row(of.cells.iter().map(cell)));
        }
    }
    let rows = table.groups.iter().flat_map(|group| {
        let rows = group.rows.iter();
        rows.map(|row| (&group.title, row))
    });
    let notes = rows.flat_map(|(title, row)| {
        let name = row.cells.first().map_or("", |cell| cell.text.as_str());
        let parts: Vec<&str> = [title.as_str(), name]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let label = parts.join(", ");
        row.notes
            .iter()
            .map(move |note| labelled(&label, &item(note)))
    });
    out.list(notes.collect::<Vec<_>>().into_iter());
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

fn cell(cell: &Cell) -> String {
    let text = cut(&cell.text);
    if cell.strong && !text.is_empty() {
        format!("**{text}**")
    } else {
        text
    }
}

fn print_checks(out: &mut Bounded, checks: &Checks) {
    let items = checks.checks.iter().map(|check| {
        let text = format!("{}: {}", check.name, check.message);
        labelled(check.result.word(), &cut(&text))
    });
    out.list(items);
}

fn item(item: &Item) -> String {
    let lines = std::iter::once(item.text.clone()).chain(item.further(MOST_FURTHER));
    let text = lines.map(|line| cut(&line)).collect::<Vec<_>>().join("; ");
    let advice = if item.advice.is_empty() {
        String::new()
    } else {
        format!(" *{}*", cut(&item.advice))
    };
    labelled(&item.label, &format!("{text}{advice}"))
}

fn labelled(label: &str, text: &str) -> String {
    if label.is_empty() {
        text.to_owned()
    } else {
        format!("**{}**: {text}", cut(label))
    }
}

/// Text that stops growing before it is too long, and counts the lines that it omits.
#[derive(Default)]
struct Bounded {
    text: String,
    left_out: u64,
}

impl Bounded {
    fn line(&mut self, line: &str) {
        if self.text.len() + line.len() + 1 + END_BYTES > MOST_BYTES {
            self.left_out += 1;
        } else {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    fn paragraph(&mut self, text: &str) {
        self.line("");
        self.line(text);
    }

    fn list(&mut self, items: impl Iterator<Item = String>) {
        let mut items = items.peekable();
        if items.peek().is_some() {
            self.line("");
        }
        for item in items {
            self.line(&format!("- {item}"));
        }
    }

    /// Opens a fold, which [`END_BYTES`] has room for in any case.
    fn fold(&mut self, summary: &str) {
        self.text.push_str("\n<details><summary>");
        self.text.push_str(summary);
        self.text.push_str("</summary>\n");
    }

    fn unfold(&mut self) {
        self.text.push_str("\n</details>\n");
    }

    fn finish(mut self, last: Option<&str>) -> String {
        if self.left_out > 0 {
            let lines = loadline_measure::words::plural(self.left_out, "line");
            self.text.push_str(&format!(
                "\n{lines} left out to stay below 64 KiB; the JSON holds all.\n"
            ));
        }
        if let Some(last) = last {
            self.text.push_str(&format!("\n`{}`\n", cut(last)));
        }
        self.text
    }
}

fn cut(text: &str) -> String {
    escaped(&shortened(text, MOST_COLUMNS))
}

/// A text that Markdown takes as it is: what could be markup gets a backslash, and what could be
/// HTML or a mention becomes an entity.
fn escaped(text: &str) -> String {
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
