//! The part of a document that depends on the kind of answer.

use loadline_measure::record::{Answer, Record};

use super::{
    NOTHING, capacity, cases, clients, engines, failover, fastest, found, method, sweep, tiers,
};
use crate::document::{CheckResult, Checks, Section};

/// The part of a document that depends on the answer of its record.
pub(super) struct Page<'r> {
    pub(super) title: String,
    /// The answer in one sentence, without a full stop.
    pub(super) found: String,
    /// The result for programs, where no limit decides.
    pub(super) result: CheckResult,
    pub(super) sections: Vec<Option<Section>>,
    /// Findings of the record that the answer or the sections have.
    pub(super) said: Vec<String>,
    /// Explanations of the tables.
    pub(super) legend: Vec<&'r str>,
    /// Method behind the figures.
    pub(super) method: String,
    /// The checks for programs, where they are not those of the cases.
    pub(super) checks: Option<Checks>,
    /// Whether the tables show percentiles of the cases.
    pub(super) shows_percentiles: bool,
    /// Whether the tables show comparisons of the cases.
    pub(super) shows_comparisons: bool,
    /// Whether the links are described with the machine.
    pub(super) shows_links: bool,
}

impl<'r> Page<'r> {
    /// The page of a record: the only place that distinguishes kinds of answers.
    pub(super) fn of(record: &'r Record) -> Self {
        let of_cases = Self {
            title: cases::title(record),
            found: String::new(),
            result: CheckResult::Passed,
            sections: Vec::new(),
            said: Vec::new(),
            legend: Vec::new(),
            method: method::of_rounds(record),
            checks: None,
            shows_percentiles: true,
            shows_comparisons: true,
            shows_links: true,
        };
        match &record.answer {
            Answer::Cases => Self {
                found: found::of_cases(record),
                sections: cases::sections(record),
                legend: cases::legend(record),
                ..of_cases
            },
            Answer::Sweep => Self {
                found: fastest::sentence(record).unwrap_or_else(|| NOTHING.to_owned()),
                sections: std::iter::once(fastest::section(record))
                    .chain(sweep::sections(record))
                    .collect(),
                said: fastest::said(record),
                legend: sweep::legend(record),
                shows_links: false,
                ..of_cases
            },
            Answer::Capacity(answer) => Self {
                title: format!("Capacity: {}", of_cases.title),
                found: capacity::found(record, answer),
                result: capacity::result(answer),
                sections: vec![capacity::section(answer)],
                said: vec![capacity::answer(record, answer)],
                legend: capacity::LEGEND.to_vec(),
                method: method::of_trials(record),
                checks: Some(capacity::checks(record, answer)),
                shows_percentiles: false,
                ..of_cases
            },
            Answer::Clients(clients) => Self {
                found: clients::found(record, clients).unwrap_or_else(|| found::of_cases(record)),
                sections: clients::sections(record, clients),
                legend: clients::legend(clients),
                ..of_cases
            },
            Answer::Engines(engines) => Self {
                found: engines::found(record, engines).unwrap_or_else(|| found::of_cases(record)),
                sections: engines::sections(record, engines),
                legend: engines::LEGEND.to_vec(),
                shows_comparisons: false,
                ..of_cases
            },
            Answer::Tiers(tiers) => Self {
                title: tiers::title(tiers),
                found: tiers::found(tiers),
                sections: tiers::sections(record, tiers),
                legend: tiers::legend(tiers),
                ..of_cases
            },
            Answer::Failover(answer) => Self {
                title: failover::title(answer),
                found: failover::found(answer),
                sections: failover::sections(answer),
                legend: failover::legend(answer),
                ..of_cases
            },
        }
    }
}
