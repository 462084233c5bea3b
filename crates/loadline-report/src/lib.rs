//! A record in, a String out: text, Markdown, HTML, CSV and JUnit.
//!
//! A builder turns what was measured into a document, which is a verdict and a list of sections; a
//! printer per form turns the document into a String. So a new kind of record needs a builder and no
//! printer. Nothing here opens a file, asks a terminal or measures anything: what is not in the
//! [`Record`](loadline_measure::Record) is not shown. A record may come from anywhere, so each printer
//! makes every string harmless for its form: terminal escapes, HTML, XML, formulas of spreadsheets.
//!
//! Some words are written before a record is complete, because scripts read them in it: [`findings()`] of the doctor, a
//! [`judgement`] and [`rows`] of limits, [`paired_evidence`], [`capacity_findings`], [`capacity_of_agents`] and
//! [`case_findings`].
//!
//! The main function is [`text()`], which prints the end of every run.
//!
//! ```
//! use loadline_measure::Record;
//! use loadline_measure::record::{Case, Environment, Run, Scenario, Subject};
//! use loadline_report::{TextOptions, text};
//!
//! let mut record = Record::new(Run { seed: 7, ..Run::default() }, Environment::default());
//! record.cases.push(Case {
//!     subject: Subject { name: "embedded".to_owned(), ..Subject::default() },
//!     scenario: Scenario { workload: "get".to_owned(), connections: 50, ..Scenario::default() },
//!     ops: 1_000,
//!     throughput_ops_per_s: 118_200.0,
//!     ..Case::default()
//! });
//! let options = TextOptions { width: 80, color: false, unicode: false, verbose: false };
//! let report = text(&record, &options);
//! assert!(report.starts_with("embedded: 118.2k GETs per second"));
//! ```

#![forbid(unsafe_code)]

mod clean;
mod csv;
mod document;
mod findings;
mod html;
mod judged;
mod junit;
mod markdown;
mod paired;
mod picture;
#[cfg(test)]
mod tests;
mod text;
mod view;

use loadline_measure::gate::Judgement;

pub use csv::csv;
pub use findings::findings;
pub use html::html;
pub use judged::{judgement, row_sentence, rows};
pub use junit::{judgement_junit, junit};
pub use markdown::{judgement_markdown, markdown};
pub use paired::paired_evidence;
pub use text::{TextOptions, baseline, diagnosis, judgement_text, proof, text};
pub use view::{capacity_findings, capacity_of_agents, case_findings};

/// The command that asked for a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The command, such as `gate`.
    pub command: &'a str,
    /// Whether an inconclusive outcome is a failure.
    pub strict: bool,
}

/// The last line of a judgement, for scripts: `loadline: gate: warning (1)`, the number being the exit
/// code.
#[must_use]
pub fn last_line(judgement: &Judgement, asked: Asked<'_>) -> String {
    view::last_line(judgement, asked)
}
