//! A record in, a String out: text, Markdown, HTML, CSV and JUnit.
//!
//! One file per form. Nothing here opens a file, asks a terminal or measures anything: what is not in
//! the [`Record`](loadline_measure::Record) is not shown. A record may come from anywhere, so every
//! string in it is made harmless for the form that it is shown in: terminal escapes, HTML, XML,
//! formulas of spreadsheets.
//!
//! The main function is [`text()`], which is what stands at the end of every run.
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
//! let report = text(&record, &TextOptions { width: 80, color: false, unicode: false });
//! assert!(report.contains("118.2k"));
//! assert!(report.contains("closed loop"));
//! ```

#![forbid(unsafe_code)]

mod capacity;
mod clean;
mod csv;
mod html;
mod judgement;
mod junit;
mod markdown;
mod picture;
mod sweep;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub use capacity::capacity_findings;
pub use csv::csv;
pub use html::html;
pub use judgement::{Asked, judgement_junit, judgement_markdown, last_line};
pub use junit::junit;
pub use markdown::markdown;
pub use text::{TextOptions, baseline, diagnosis, judgement_text, proof, text};
