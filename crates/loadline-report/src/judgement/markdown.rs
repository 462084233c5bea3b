//! A judgement for the summary of a job: the verdict first, changed rows only, the rest folded.

use loadline_measure::gate::{Judgement, Outcome, Row};

use super::{Asked, detectable, headline, last_line, ordered, ratio, reasons, value, verdict};
use crate::clean::shortened;
use crate::markdown::escaped;

/// GitHub takes 1 MiB per step and others take less; a comment on a pull request takes 64 KiB.
const MOST_BYTES: usize = 60 << 10;

/// What the end needs: the fold's end, the notice of what was left out, and the last line.
const END_BYTES: usize = 1 << 10;

/// A cell or a sentence is cut where it is longer, in columns of text.
const MOST_COLUMNS: usize = 400;

/// The judgement as GitHub-flavoured Markdown of less than 64 KiB, with a line feed at the end.
#[must_use]
pub fn judgement_markdown(judgement: &Judgement, asked: Asked<'_>) -> String {
    let mut out = Bounded::default();
    let mark = match judgement.outcome {
        Outcome::None => "no regression",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Warning => "warning",
        Outcome::Critical => "critical",
    };
    out.line(&format!("## Loadline {}: {mark}", cut(asked.command)));
    out.line("");
    out.line(&format!("**{}**", escaped(&headline(judgement))));
    out.list(reasons(judgement));
    let (changed, rest) = ordered(judgement);
    if !changed.is_empty() {
        out.table(&changed);
    }
    if !rest.is_empty() {
        let summary = loadline_measure::words::plural(rest.len() as u64, "figure");
        out.fold(&format!("{summary} did not change, or cannot be told"));
        out.table(&rest);
        out.unfold();
    }
    out.list(judgement.notes.iter());
    out.finish(&last_line(judgement, asked))
}

/// Text that stops growing before it is too long, and counts what was left out.
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

    fn list<'a>(&mut self, sentences: impl Iterator<Item = &'a String>) {
        let mut sentences = sentences.peekable();
        if sentences.peek().is_some() {
            self.line("");
        }
        for sentence in sentences {
            self.line(&format!("- {}", cut(sentence)));
        }
    }

    fn table(&mut self, rows: &[&Row]) {
        self.line("");
        self.line("| case | figure | before | now | ratio | verdict | evidence |");
        self.line("| --- | --- | --: | --: | --- | --- | --- |");
        for row in rows {
            let figure = row.limit.as_deref().unwrap_or(row.metric.name());
            self.line(&format!(
                "| {} | {} | {} | {} | {} | {} | {}{} |",
                cut(&row.case),
                cut(figure),
                value(row, row.baseline),
                value(row, row.candidate),
                escaped(&ratio(row)),
                verdict(row),
                cut(&row.evidence),
                detectable(row),
            ));
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

    fn finish(mut self, last: &str) -> String {
        if self.left_out > 0 {
            let lines = loadline_measure::words::plural(self.left_out, "line");
            self.text.push_str(&format!(
                "\n{lines} left out to stay below 64 KiB; the JSON holds all.\n"
            ));
        }
        self.text.push_str(&format!("\n`{}`\n", cut(last)));
        self.text
    }
}

fn cut(text: &str) -> String {
    escaped(&shortened(text, MOST_COLUMNS))
}
