//! The most that each subject carried, and its limit.

use crate::record::Case;

/// Share of the time from which on a server's CPU is the limit.
const SERVER_BUSY: f64 = 0.9;
/// Share of the time from which on the generator's thread is the limit.
const GENERATOR_BUSY: f64 = 0.8;

/// The case in which a subject carried the most operations per second.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'c> {
    /// The case.
    pub case: &'c Case,
    /// Number of cases of the subject.
    pub cases: usize,
    /// The limit, as far as the record shows it.
    pub limit: Option<Limit>,
}

/// A processor that was busy, with its share of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// That of the server.
    Server(f64),
    /// That of the generator's thread.
    Generator(f64),
}

/// A summary for each subject, in the order of their names.
#[must_use]
pub fn of_subjects(cases: &[Case]) -> Vec<Summary<'_>> {
    let mut names: Vec<&str> = cases.iter().map(|case| &*case.subject.name).collect();
    names.sort_unstable();
    names.dedup();
    let summary = |name: &str| {
        let of_subject = || cases.iter().filter(|case| case.subject.name == name);
        let case = of_subject().max_by(|one, other| {
            one.throughput_ops_per_s
                .total_cmp(&other.throughput_ops_per_s)
        })?;
        Some(Summary {
            case,
            cases: of_subject().count(),
            limit: limit(case),
        })
    };
    names.into_iter().filter_map(summary).collect()
}

fn limit(case: &Case) -> Option<Limit> {
    match (case.server_cpu_busy, case.client_cpu_busy) {
        (Some(server), _) if server >= SERVER_BUSY => Some(Limit::Server(server)),
        (_, Some(client)) if client >= GENERATOR_BUSY => Some(Limit::Generator(client)),
        _ => None,
    }
}
