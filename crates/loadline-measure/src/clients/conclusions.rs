//! The sentences that a comparison of clients ends with. They say what the rounds showed and no more: a factor has its interval,
//! and clients that the rounds do not separate are named together.

use super::{Behaviour, ClientRow, Clients, Ending, operation, paired};
use crate::Metric;
use crate::compare::Verdict;
use crate::record::Case;
use crate::words;

/// Names that follow a count, up to here.
const MOST_NAMED: usize = 3;

impl Clients {
    /// Adds the sentences that `cases` and the runs with faults answer. Rows that are not valid have no part in them.
    pub fn conclude(&mut self, cases: &[Case]) {
        let groups = self.groups(cases);
        let best: Vec<String> = groups.iter().map(|group| best(group)).collect();
        let (advice, beyond) = self.advise(&groups).unwrap_or_default();
        (self.best, self.advice, self.beyond) = (best, advice, beyond);
        self.faults = faults(&self.behaviour);
    }

    /// The sentences in the order in which they are shown, without the empty ones.
    pub fn sentences(&self) -> impl Iterator<Item = &String> {
        let last = [&self.advice, &self.beyond, &self.faults];
        let all = self.best.iter().chain(last);
        all.filter(|text| !text.is_empty())
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

    /// The largest gain over the reference in its language, and that of all languages if it is another client's; `None` if the
    /// reference was not measured beside others in a closed loop.
    fn advise(&self, groups: &[Vec<Entry<'_>>]) -> Option<(String, String)> {
        let mut own = None;
        let mut gains: Vec<Gain<'_>> = Vec::new();
        let mut others: Vec<Entry<'_>> = Vec::new();
        for group in groups {
            let found = group
                .iter()
                .find(|entry| entry.row.driver == self.reference && !entry.case.is_open_loop());
            let Some(found) = found else {
                continue;
            };
            own.get_or_insert(*found);
            let rest = group
                .iter()
                .filter(|other| other.row.case != found.row.case);
            others.extend(rest.clone().copied());
            gains.extend(rest.filter_map(|other| Gain::of(found, other, group)));
        }
        let own = own?;
        others.first()?;
        gains.sort_by(|one, other| other.least.total_cmp(&one.least));
        let language = own.row.language.as_str();
        let is_within = |entry: &Entry<'_>| entry.row.language == language;
        let within = gains.iter().find(|gain| is_within(&gain.other));
        let said = match within {
            Some(gain) => gain.at_front(&gains, Some(language)).clause(false),
            None => none_is_faster(language, others.iter().filter(|entry| is_within(entry))),
        };
        let advice = format!("For users of {}: {said}.", own.case.subject.name);
        let beyond = gains.first().filter(|gain| !is_within(&gain.other));
        let beyond = beyond.map_or_else(String::new, |gain| {
            let clause = gain.at_front(&gains, None).clause(true);
            format!("Best of all languages: {clause}.")
        });
        Some((advice, beyond))
    }
}

/// That no other client of the language was shown to be faster, of as many as were measured.
fn none_is_faster<'e, 'c: 'e>(
    language: &str,
    others: impl Iterator<Item = &'e Entry<'c>>,
) -> String {
    let mut drivers: Vec<&str> = others.map(|entry| entry.row.driver.as_str()).collect();
    drivers.sort_unstable();
    drivers.dedup();
    match drivers.len() {
        0 => format!("no other client in {language} was measured"),
        1 => format!("no other client in {language} was shown to be faster (1 was measured)"),
        many => {
            format!("no other client in {language} was shown to be faster ({many} were measured)")
        }
    }
}

/// A client that is faster than the reference at an operation.
#[derive(Clone)]
struct Gain<'c> {
    own: Entry<'c>,
    other: Entry<'c>,
    /// The factor with its interval, and its lower bound.
    times: String,
    least: f64,
    /// Those of the same operation that the rounds do not separate from it.
    level: Vec<Entry<'c>>,
}

impl<'c> Gain<'c> {
    fn of(own: &Entry<'c>, other: &Entry<'c>, group: &[Entry<'c>]) -> Option<Self> {
        let paired = paired(Metric::Throughput, own.case, other.case)?;
        let (times, (least, _)) = paired.times().zip(paired.interval)?;
        (paired.verdict == Verdict::Faster).then(|| Self {
            own: *own,
            other: *other,
            times,
            least,
            level: level(
                Metric::Throughput,
                other,
                group,
                &[Verdict::Faster, Verdict::Slower],
            ),
        })
    }

    /// This gain, or that of a client that is not ours where the rounds do not separate the two.
    fn at_front<'g>(&'g self, gains: &'g [Self], language: Option<&str>) -> &'g Self {
        if !self.other.is_ours() {
            return self;
        }
        let is_level = |gain: &&Self| {
            let other = &gain.other;
            !other.is_ours()
                && language.is_none_or(|language| other.row.language == language)
                && self
                    .level
                    .iter()
                    .any(|level| level.row.case == other.row.case)
        };
        gains.iter().find(is_level).unwrap_or(self)
    }

    fn clause(&self, with_language: bool) -> String {
        let is_asked =
            |entry: &&Entry<'_>| with_language || entry.row.language == self.own.row.language;
        let level: Vec<Entry<'_>> = self.level.iter().filter(is_asked).copied().collect();
        let level = named(&level);
        let level = (!level.is_empty()).then(|| format!("not separated from {level}"));
        let language = with_language.then(|| self.other.row.language.clone());
        let about: Vec<String> = language.into_iter().chain(level).collect();
        let about = if about.is_empty() {
            String::new()
        } else {
            format!(" ({})", about.join("; "))
        };
        format!(
            "{} is {} as fast with {}{about}{}",
            operation(&self.own.case.scenario),
            self.times,
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

impl Entry<'_> {
    /// Whether it is a client of this project, which leads no sentence that others could lead as well.
    fn is_ours(&self) -> bool {
        self.row.driver == "loadline" || self.row.driver.starts_with("loadline.")
    }
}

/// The change of the server's CPU time per operation, as the end of a sentence.
fn server_side(own: &Case, other: &Case) -> String {
    match paired(Metric::ServerCpu, own, other) {
        Some(paired) if paired.verdict == Verdict::Equivalent => {
            ", and the server's CPU time is the same".to_owned()
        }
        Some(paired) if paired.verdict != Verdict::Inconclusive => {
            paired.times().map_or_else(String::new, |times| {
                format!(", and the server's CPU time is {times} as long")
            })
        }
        _ => String::new(),
    }
}

/// The fastest client of an operation, and the one with the least CPU time.
fn best(group: &[Entry<'_>]) -> String {
    let title = operation(&group[0].case.scenario);
    // At a given rate all have the same throughput.
    let is_open = group.iter().any(|entry| entry.case.is_open_loop());
    let speed = if is_open {
        leader(Metric::P50, group, |case| {
            case.response_time_ns.p50.map(|ns| ns as f64)
        })
    } else {
        leader(Metric::Throughput, group, |case| {
            Some(-case.throughput_ops_per_s)
        })
    };
    let cpu = leader(Metric::ClientCpu, group, |case| {
        case.cost.client_cpu_ns_per_op
    });
    // A client that was measured alone is not the first of any.
    let is_alone = group.len() == 1;
    let mut clauses = Vec::new();
    if let Some(leader) = speed {
        let (most, shown): (_, fn(f64) -> String) = if is_open {
            ("soonest", words::duration)
        } else {
            ("fastest", |value| words::count(-value))
        };
        let shown = leader.range(shown);
        let figure = if is_open {
            format!("a median response time of {shown}")
        } else {
            format!("{shown} operations per second")
        };
        clauses.push(match leader.only() {
            Some(name) if is_alone => format!("{name} with {figure}"),
            Some(name) => format!("{most} is {name} with {figure}"),
            None => format!(
                "no client was shown to be the {most}: {} are not separated, with {figure}",
                leader.names()
            ),
        });
    }
    if let Some(leader) = cpu {
        let shown = leader.range(words::duration);
        clauses.push(match leader.only() {
            Some(_) if is_alone => format!("{shown} of CPU time per operation"),
            Some(name) => format!("least CPU time by {name} with {shown} per operation"),
            None => format!(
                "least CPU time by {}, with {shown} per operation",
                leader.names()
            ),
        });
    }
    let gap = if is_alone { " and " } else { "; " };
    format!("{title}: {}.", clauses.join(gap))
}

/// The clients at the front of an operation, which the rounds do not separate, with a figure of each that is smaller for better
/// ones.
struct Front<'c>(Vec<(Entry<'c>, f64)>);

/// The best client by `figure`, with those that the rounds do not separate from it.
fn leader<'c>(
    metric: Metric,
    group: &[Entry<'c>],
    figure: fn(&Case) -> Option<f64>,
) -> Option<Front<'c>> {
    let known = group
        .iter()
        .filter_map(|entry| Some((*entry, figure(entry.case)?)));
    let known: Vec<(Entry<'c>, f64)> = known.collect();
    let first = known
        .iter()
        .min_by(|one, other| one.1.total_cmp(&other.1))?;
    let level = level(metric, &first.0, group, &[Verdict::Faster]);
    let is_at_front = |entry: &Entry<'_>| {
        entry.row.case == first.0.row.case
            || level.iter().any(|level| level.row.case == entry.row.case)
    };
    Some(Front(
        known
            .iter()
            .filter(|(entry, _)| is_at_front(entry))
            .copied()
            .collect(),
    ))
}

impl Front<'_> {
    /// The name of the client, if it is a single one.
    fn only(&self) -> Option<&str> {
        match &self.0[..] {
            [(entry, _)] => Some(&entry.case.subject.name),
            _ => None,
        }
    }

    fn names(&self) -> String {
        let entries: Vec<Entry<'_>> = self.0.iter().map(|(entry, _)| *entry).collect();
        named(&entries)
    }

    /// The figure, or the range of the figures.
    fn range(&self, shown: fn(f64) -> String) -> String {
        let figures = || self.0.iter().map(|(_, figure)| *figure);
        let ends = [
            figures().fold(f64::INFINITY, f64::min),
            figures().fold(f64::NEG_INFINITY, f64::max),
        ];
        let [mut low, mut high] = ends.map(shown);
        if ends[0] < 0.0 {
            (low, high) = (high, low);
        }
        if low == high {
            low
        } else {
            format!("{low} to {high}")
        }
    }
}

/// The clients that are not separated from `best` by one of the verdicts on it.
fn level<'c>(
    metric: Metric,
    best: &Entry<'c>,
    group: &[Entry<'c>],
    separating: &[Verdict],
) -> Vec<Entry<'c>> {
    let others = group.iter().filter(|other| other.row.case != best.row.case);
    let level = others.filter(|other| {
        let paired = paired(metric, other.case, best.case);
        paired.is_none_or(|paired| !separating.contains(&paired.verdict))
    });
    level.copied().collect()
}

/// The names of a few clients, and the number of the others; ours come last.
fn named(entries: &[Entry<'_>]) -> String {
    let mut entries = entries.to_vec();
    entries.sort_by_key(Entry::is_ours);
    let names: Vec<&str> = entries
        .iter()
        .map(|entry| entry.case.subject.name.as_str())
        .collect();
    words::few(&names)
}

/// The findings of the runs with faults, as counts of clients.
fn faults(all: &[Behaviour]) -> String {
    let drivers_with = |is: fn(&Behaviour) -> bool| {
        let mut drivers: Vec<&str> = Vec::new();
        for one in all.iter().filter(|one| is(one)) {
            if !drivers.contains(&one.driver.as_str()) {
                drivers.push(&one.driver);
            }
        }
        drivers
    };
    let total = drivers_with(|_| true).len();
    if total == 0 {
        return String::new();
    }
    let twice = drivers_with(|one| one.executed_twice.is_some_and(|count| count > 0));
    let mut deadly: Vec<&str> = Vec::new();
    for one in all.iter().filter(|one| one.ending == Ending::Crashed) {
        if !deadly.contains(&one.fault.as_str()) {
            deadly.push(one.fault.as_str());
        }
    }
    let waiting = all.iter().filter(|one| one.ending == Ending::Waiting);
    let shortest = waiting.filter_map(|one| one.longest_call_ns).min();
    let over = words::duration(shortest.unwrap_or(0) as f64);
    let kinds = [
        (twice, "executed writes twice".to_owned()),
        (
            drivers_with(|one| one.lost.is_some_and(|count| count > 0)),
            "lost acknowledged writes".to_owned(),
        ),
        (
            drivers_with(|one| one.ending == Ending::Crashed),
            format!("crashed on {}", deadly.join(" or ")),
        ),
        (
            drivers_with(|one| one.ending == Ending::Waiting),
            format!("waited over {over} for a reply"),
        ),
    ];
    let seen = kinds.iter().filter(|(drivers, _)| !drivers.is_empty());
    if total == 1 {
        let what: Vec<&str> = seen.map(|(_, what)| what.as_str()).collect();
        let what = match &what[..] {
            [] => "executed no write twice, lost no acknowledged one, did not crash, and waited for no reply when the run ended".to_owned(),
            what => words::list(what),
        };
        return format!("With faults, {} {what}.", all[0].subject);
    }
    let mut clauses: Vec<String> = Vec::new();
    for (drivers, what) in seen {
        let clients = if clauses.is_empty() { " clients" } else { "" };
        let names = if drivers.len() <= MOST_NAMED {
            format!(" ({})", words::list(drivers))
        } else {
            String::new()
        };
        clauses.push(format!(
            "{} of {total}{clients} {what}{names}",
            drivers.len()
        ));
    }
    if clauses.is_empty() {
        return format!(
            "With faults, none of {total} clients executed a write twice, lost an acknowledged one, crashed, or waited for a reply when the run ended."
        );
    }
    if let [_, .., last] = &mut clauses[..] {
        last.insert_str(0, "and ");
    }
    format!("With faults, {}.", clauses.join(", "))
}
