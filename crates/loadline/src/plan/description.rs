//! The description of a plan: one list of facts, which the record stores under keys and `--dry-run` prints as
//! lines.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::Estimate;

/// The first line of `--dry-run`.
const HEADING: &str = "Plan (dry run: no connection is made, no file is written)";

/// Facts of a plan, or of a part of it.
#[derive(Debug, Default)]
pub(crate) struct Description {
    entries: Map<String, Value>,
    sections: Vec<(String, Vec<String>)>,
    /// The time that the plan takes, if it is known.
    estimate: Option<Estimate>,
}

impl Description {
    /// Begins a section; the lines that follow belong to it.
    pub(crate) fn section(&mut self, heading: impl Into<String>) {
        self.sections.push((heading.into(), Vec::new()));
    }

    /// Adds the value that the record has under `key`.
    pub(super) fn entry(&mut self, key: &str, value: impl Into<Value>) {
        self.entries.insert(key.to_owned(), value.into());
    }

    /// Adds a line for readers to the current section.
    pub(crate) fn line(&mut self, text: impl Into<String>) {
        let (_, lines) = self.sections.last_mut().expect("a section was begun");
        lines.push(text.into());
    }

    /// Adds a line if there is one.
    pub(super) fn line_of(&mut self, text: Option<impl Into<String>>) {
        if let Some(text) = text {
            self.line(text);
        }
    }

    /// Adds the sections of a part, and returns its value for the record.
    pub(super) fn absorb(&mut self, part: Self) -> Value {
        self.sections.extend(part.sections);
        Value::Object(part.entries)
    }

    /// Sets the time that the plan takes.
    pub(crate) fn takes(&mut self, estimate: Option<Estimate>) {
        self.estimate = estimate;
    }

    /// The time that the plan takes, if it is known.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        self.estimate
    }

    /// The form in the record.
    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.entries)
    }

    /// The text of `--dry-run`.
    pub(crate) fn to_text(&self) -> String {
        let mut out = format!("{HEADING}\n");
        for (heading, lines) in &self.sections {
            let _ = writeln!(out, "\n{heading}");
            for line in lines {
                let _ = writeln!(out, "  {line}");
            }
        }
        if let Some(estimate) = self.estimate {
            let _ = writeln!(out, "\nThis {}.", estimate.sentence());
        }
        out
    }
}
