//! Comparisons of client libraries: what is known about each row besides its times, which client suits which need, and
//! what clients do when a server or a connection fails.

mod behaviour;
mod gate;

use serde::{Deserialize, Serialize};

use crate::Metric;
use crate::compare::{self, Paired, Rules, Verdict};
use crate::record::{Case, Mode, Scenario};
use crate::words;

pub use behaviour::{Behaviour, Ending, Fault, Operations};
pub use gate::{Gate, Side};

/// The results of a comparison of clients besides its cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clients {
    /// The driver that the others are compared with.
    pub reference: String,
    /// One for each case.
    pub rows: Vec<ClientRow>,
    /// One sentence for each operation: the fastest client, and the one with the least CPU time.
    pub best: Vec<String>,
    /// For the users of the reference: the client of the same language that gains them the most, and what gains more in
    /// another language; empty without a faster client.
    pub advice: String,
    /// What clients did while something failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behaviour: Vec<Behaviour>,
}

/// What is known about a case besides its times. Values that are not known are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientRow {
    /// Index of the case.
    pub case: usize,
    /// The name of the driver, such as `redis-py.hiredis`.
    pub driver: String,
    /// The language of the client.
    pub language: String,
    /// The runtime, such as `CPython 3.11.7`.
    pub runtime: String,
    /// Operations that the server counted in the same blocks.
    pub counted: Option<u64>,
    /// Whether the server counted as many operations as the driver reported. Without its counts, it is valid.
    pub is_valid: bool,
    /// Commands that the server found in one read from a socket, on average.
    pub commands_per_read: Option<f64>,
    /// The largest resident memory of the driver's process.
    pub max_rss_bytes: u64,
    /// Share of the measured time in the garbage collector.
    pub gc_share: Option<f64>,
    /// System calls of the driver's process per operation, counted by strace in a block of its own.
    pub system_calls_per_op: Option<f64>,
}

impl Clients {
    /// The row of the case at `place`.
    #[must_use]
    pub fn row(&self, place: usize) -> Option<&ClientRow> {
        self.rows.iter().find(|row| row.case == place)
    }

    /// Adds the sentences that `cases` answer. Rows that are not valid have no part in them.
    pub fn conclude(&mut self, cases: &[Case]) {
        let groups = self.groups(cases);
        let best = groups.iter().map(|group| best(group));
        let best: Vec<String> = best.collect();
        let advice = self.advise(&groups);
        self.best = best;
        self.advice = advice.unwrap_or_default();
    }

    /// The valid cases of each operation, in the order of the record.
    fn groups<'c>(&'c self, cases: &'c [Case]) -> Vec<Vec<Entry<'c>>> {
        let mut groups: Vec<Vec<Entry<'c>>> = Vec::new();
        for row in self.rows.iter().filter(|row| row.is_valid) {
            let Some(case) = cases.get(row.case) else {
                continue;
            };
            let entry = Entry { row, case };
            let same = |group: &&mut Vec<Entry<'c>>| {
                operation(&group[0].case.scenario) == operation(&case.scenario)
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(entry),
                None => groups.push(vec![entry]),
            }
        }
        groups
    }

    /// What gains the most over the reference: within its language, and of all languages if that is another client.
    fn advise(&self, groups: &[Vec<Entry<'_>>]) -> Option<String> {
        let mut gains: Vec<Gain<'_>> = Vec::new();
        for group in groups {
            let own = group
                .iter()
                .find(|entry| entry.row.driver == self.reference && !entry.case.is_open_loop());
            let Some(own) = own else {
                continue;
            };
            let others = group.iter().filter(|other| other.row.case != own.row.case);
            gains.extend(others.filter_map(|other| Gain::of(own, other)));
        }
        gains.sort_by(|one, other| other.lo.total_cmp(&one.lo));
        let first = gains.first()?;
        let (users, language) = (&first.own.case.subject.name, &first.own.row.language);
        let within = gains
            .iter()
            .find(|gain| gain.other.row.language == *language);
        let mut advice = match within {
            Some(gain) => format!("For users of {users}: {}.", gain.clause()),
            None => format!("For users of {users}: no other client in {language} is faster here."),
        };
        if first.other.row.language != *language {
            let other = &first.other.row.language;
            let clause = first.clause();
            advice += &format!(" The best of all languages is a client in {other}: {clause}.");
        }
        Some(advice)
    }
}

/// A client that is faster than the reference at an operation.
struct Gain<'c> {
    own: Entry<'c>,
    other: Entry<'c>,
    ratio: f64,
    /// The lower bound of the ratio.
    lo: f64,
}

impl<'c> Gain<'c> {
    fn of(own: &Entry<'c>, other: &Entry<'c>) -> Option<Self> {
        let paired = paired(Metric::Throughput, own.case, other.case)?;
        let (lo, _) = paired.interval?;
        (paired.verdict == Verdict::Faster).then_some(Self {
            own: *own,
            other: *other,
            ratio: paired.ratio,
            lo,
        })
    }

    fn clause(&self) -> String {
        format!(
            "{} is {} times as fast with {}{}",
            operation(&self.own.case.scenario),
            words::ratio(self.ratio).trim_end_matches('x'),
            self.other.case.subject.name,
            server_side(self.own.case, self.other.case),
        )
    }
}

/// A row with its case.
#[derive(Debug, Clone, Copy)]
struct Entry<'c> {
    row: &'c ClientRow,
    case: &'c Case,
}

/// An operation with its call mode, such as `get in pipelines of 100`.
#[must_use]
pub fn operation(scenario: &Scenario) -> String {
    let name = &scenario.workload;
    let in_flight = scenario.in_flight.unwrap_or(1);
    match scenario.mode {
        Mode::Pipeline => format!("{name} in pipelines of {}", scenario.pipeline),
        Mode::Async if scenario.connections > 1 => {
            format!("{name} from {in_flight} callers with a pool")
        }
        Mode::Async => format!("{name} from {in_flight} callers on one connection"),
        _ => name.clone(),
    }
}

fn paired(metric: Metric, one: &Case, other: &Case) -> Option<Paired> {
    let (a, b) = metric.of_pairs(one, other)?;
    compare::paired(&a, &b, metric.direction(), &Rules::default()).ok()
}

/// What the server's CPU time per operation does, as the end of a sentence.
fn server_side(own: &Case, other: &Case) -> String {
    match paired(Metric::ServerCpu, own, other) {
        Some(paired) if paired.verdict == Verdict::Equivalent => {
            ", and the server's CPU time is the same".to_owned()
        }
        Some(paired) if paired.verdict != Verdict::Inconclusive => format!(
            ", and the server's CPU time is {} times as long",
            words::ratio(paired.ratio).trim_end_matches('x')
        ),
        _ => String::new(),
    }
}

/// The fastest client of an operation, and the one with the least CPU time.
fn best(group: &[Entry<'_>]) -> String {
    let title = operation(&group[0].case.scenario);
    let most = |of: fn(&Case) -> Option<f64>| {
        let rated = group
            .iter()
            .filter_map(|entry| Some((of(entry.case)?, entry.case)));
        rated.max_by(|one, other| one.0.total_cmp(&other.0))
    };
    // At a given rate all have the same throughput.
    let is_open = group.iter().any(|entry| entry.case.is_open_loop());
    let fastest = most(|case| Some(case.throughput_ops_per_s)).filter(|_| !is_open);
    let soonest = most(|case| case.response_time_ns.p50.map(|ns| -(ns as f64)));
    let soonest = soonest.filter(|_| is_open);
    let frugal = most(|case| case.cost.client_cpu_ns_per_op.map(|ns| -ns));
    let mut clauses = Vec::new();
    if let Some((rate, case)) = fastest {
        clauses.push(format!(
            "{} with {} operations per second{}",
            case.subject.name,
            words::count(rate),
            beside(Metric::Throughput, case, group)
        ));
    }
    if let Some((ns, case)) = soonest {
        clauses.push(format!(
            "{} with a median response time of {}{}",
            case.subject.name,
            words::duration(-ns),
            beside(Metric::P50, case, group)
        ));
    }
    if let Some((ns, case)) = frugal {
        clauses.push(format!(
            "least CPU time by {} with {} per operation{}",
            case.subject.name,
            words::duration(-ns),
            beside(Metric::ClientCpu, case, group)
        ));
    }
    format!("{title}: {}.", clauses.join("; "))
}

/// The clients that the rounds do not separate from `best`.
fn beside(metric: Metric, best: &Case, group: &[Entry<'_>]) -> String {
    let others = group.iter().map(|entry| entry.case);
    let level: Vec<&str> = others
        .filter(|other| !std::ptr::eq(*other, best))
        .filter(|other| {
            let verdict = paired(metric, other, best).map(|paired| paired.verdict);
            verdict != Some(Verdict::Faster)
        })
        .map(|other| other.subject.name.as_str())
        .collect();
    match level.len() {
        0 => String::new(),
        1..=3 => format!(" (not separated from {})", level.join(" and ")),
        many => format!(" (not separated from {many} others)"),
    }
}

#[cfg(test)]
mod tests;
