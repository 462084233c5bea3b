//! Conclusions of a comparison of clients. They hold what the rounds showed and no more: a factor has its interval, and clients
//! that the rounds do not separate are named together.

use super::{Behaviour, Clients, Ending, Fault, operation, paired};
use crate::compare::{Paired, Supported, Verdict};
use crate::metric::{Direction, Metric};
use crate::record::Case;

/// The best clients at one operation. Cases are given by their places in the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The valid cases of the operation; at least one.
    pub cases: Vec<usize>,
    /// The fastest: in an open loop by the median response time in nanoseconds, else by operations per second.
    pub speed: Option<Front>,
    /// Those with the least CPU time of the client per operation, in nanoseconds.
    pub cpu: Option<Front>,
}

/// The clients at the front of an operation, which the rounds do not separate; ours come last.
#[derive(Debug, Clone, PartialEq)]
pub struct Front {
    /// Their cases; at least one.
    pub cases: Vec<usize>,
    /// Their lowest figure.
    pub lowest: f64,
    /// Their highest figure.
    pub highest: f64,
}

/// The clients that users of the reference can gain from.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The first case of the reference.
    pub own: usize,
    /// The largest gain in its language.
    pub within: Option<Gain>,
    /// Number of other drivers of its language that were measured.
    pub others: usize,
    /// The largest gain of all languages, if it is that of a client in another language.
    pub beyond: Option<Gain>,
}

/// A client that is faster than the reference at an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Gain {
    /// The case of the reference.
    pub own: usize,
    /// The case of the other client.
    pub other: usize,
    /// The throughput of the other client over that of the reference.
    pub throughput: Paired,
    /// The server's CPU time per operation with the other client over that with the reference, if it is known.
    pub server_cpu: Option<Paired>,
    /// The cases of the same operation that the rounds do not separate from the other client; ours come last.
    pub level: Vec<usize>,
}

/// The findings of the runs with faults, as drivers in the order of the record.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultFindings<'c> {
    /// All drivers that were run; at least one.
    pub drivers: Vec<&'c str>,
    /// Those that executed a write more than once.
    pub executed_twice: Vec<&'c str>,
    /// Those that lost an acknowledged write.
    pub lost: Vec<&'c str>,
    /// Those that crashed.
    pub crashed: Vec<&'c str>,
    /// The faults on which they crashed.
    pub deadly: Vec<&'c Fault>,
    /// Those that still waited for a reply at the end of a run.
    pub waiting: Vec<&'c str>,
    /// The shortest time that one of them had waited, in nanoseconds.
    pub waited_ns: u64,
}

impl Clients {
    /// The best clients at each operation, in the order of the record. Rows that are not valid have no part in them.
    #[must_use]
    pub fn best(&self, cases: &[Case]) -> Vec<Best> {
        let groups = self.groups(cases).into_iter();
        groups.map(|group| self.best_of(cases, group)).collect()
    }

    /// The largest gains over the reference; `None` if it was not measured beside others in a closed loop.
    #[must_use]
    pub fn advice(&self, cases: &[Case]) -> Option<Advice> {
        let mut own = None;
        let mut gains: Vec<Gain> = Vec::new();
        let mut others: Vec<usize> = Vec::new();
        for group in self.groups(cases) {
            let is_reference = |place: &&usize| {
                self.driver(**place) == self.reference && !cases[**place].is_open_loop()
            };
            let Some(&found) = group.iter().find(is_reference) else {
                continue;
            };
            own.get_or_insert(found);
            let rest = || group.iter().filter(|other| **other != found);
            others.extend(rest());
            gains.extend(rest().filter_map(|other| self.gain(cases, found, *other, &group)));
        }
        let own = own?;
        others.first()?;
        let least = |gain: &Gain| gain.throughput.interval.map_or(0.0, |(lo, _)| lo);
        gains.sort_by(|one, other| least(other).total_cmp(&least(one)));
        let language = self.language(own);
        let is_within = |place: usize| self.language(place) == language;
        let within = gains.iter().find(|gain| is_within(gain.other));
        let beyond = gains.first().filter(|gain| !is_within(gain.other));
        let mut drivers: Vec<&str> = others
            .into_iter()
            .filter(|place| is_within(*place))
            .map(|place| self.driver(place))
            .collect();
        drivers.sort_unstable();
        drivers.dedup();
        Some(Advice {
            own,
            within: within.map(|gain| self.at_front(gain, &gains, Some(language)).clone()),
            others: drivers.len(),
            beyond: beyond.map(|gain| self.at_front(gain, &gains, None).clone()),
        })
    }

    /// The findings of the runs with faults; `None` without such runs.
    #[must_use]
    pub fn fault_findings(&self) -> Option<FaultFindings<'_>> {
        let all = &self.behaviour;
        let drivers_with = |is: fn(&Behaviour) -> bool| {
            let with = all.iter().filter(|one| is(one));
            distinct(with.map(|one| one.driver.as_str()))
        };
        let drivers = drivers_with(|_| true);
        drivers.first()?;
        let crashed = all.iter().filter(|one| one.ending == Ending::Crashed);
        let waiting = all.iter().filter(|one| one.ending == Ending::Waiting);
        let waited_ns = waiting.filter_map(|one| one.longest_call_ns).min();
        Some(FaultFindings {
            drivers,
            executed_twice: drivers_with(|one| one.executed_twice.is_some_and(|count| count > 0)),
            lost: drivers_with(|one| one.lost.is_some_and(|count| count > 0)),
            crashed: drivers_with(|one| one.ending == Ending::Crashed),
            deadly: distinct(crashed.map(|one| &one.fault)),
            waiting: drivers_with(|one| one.ending == Ending::Waiting),
            waited_ns: waited_ns.unwrap_or(0),
        })
    }

    fn driver(&self, place: usize) -> &str {
        self.row(place).map_or("", |row| row.driver.as_str())
    }

    fn language(&self, place: usize) -> &str {
        self.row(place).map_or("", |row| row.language.as_str())
    }

    /// Whether the client of a case is one of this project, which leads no sentence that others could lead as well.
    fn is_ours(&self, place: usize) -> bool {
        let driver = self.driver(place);
        driver == "loadline" || driver.starts_with("loadline.")
    }

    /// The valid cases of each operation, in the order of the record.
    fn groups(&self, cases: &[Case]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for row in self.rows.iter().filter(|row| row.is_valid) {
            let Some(case) = cases.get(row.case) else {
                continue;
            };
            let operation_of = |place: usize| operation(&cases[place].scenario);
            let title = operation(&case.scenario);
            match groups
                .iter_mut()
                .find(|group| operation_of(group[0]) == title)
            {
                Some(group) => group.push(row.case),
                None => groups.push(vec![row.case]),
            }
        }
        groups
    }

    fn best_of(&self, cases: &[Case], group: Vec<usize>) -> Best {
        // At a given rate all have the same throughput.
        let is_open = group.iter().any(|place| cases[*place].is_open_loop());
        let (metric, speed): (_, Figure) = if is_open {
            (Metric::P50, |case| {
                case.response_time_ns.p50.map(|ns| ns as f64)
            })
        } else {
            (Metric::Throughput, |case| Some(case.throughput_ops_per_s))
        };
        Best {
            speed: self.front(metric, cases, &group, speed),
            cpu: self.front(Metric::ClientCpu, cases, &group, |case| {
                case.cost.client_cpu_ns_per_op
            }),
            cases: group,
        }
    }

    /// The best client of a group by a figure, with those that the rounds do not separate from it.
    fn front(
        &self,
        metric: Metric,
        cases: &[Case],
        group: &[usize],
        figure: Figure,
    ) -> Option<Front> {
        let known = || {
            let places = group.iter().copied();
            places.filter_map(|place| Some((place, figure(&cases[place])?)))
        };
        let better = |one: &(usize, f64), other: &(usize, f64)| match metric.direction() {
            Direction::LessIsBetter => one.1.total_cmp(&other.1),
            Direction::MoreIsBetter => other.1.total_cmp(&one.1),
        };
        let (first, _) = known().min_by(better)?;
        let level = level(metric, cases, first, group, &[Verdict::Faster]);
        let front = || known().filter(|(place, _)| *place == first || level.contains(place));
        let figures = || front().map(|(_, figure)| figure);
        Some(Front {
            cases: self.ours_last(front().map(|(place, _)| place)),
            lowest: figures().fold(f64::INFINITY, f64::min),
            highest: figures().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    fn gain(&self, cases: &[Case], own: usize, other: usize, group: &[usize]) -> Option<Gain> {
        let (ours, theirs) = (&cases[own], &cases[other]);
        let throughput = paired(Metric::Throughput, ours, theirs)?;
        let separating = [Verdict::Faster, Verdict::Slower];
        let level = level(Metric::Throughput, cases, other, group, &separating);
        let is_faster = throughput.verdict == Verdict::Faster;
        (is_faster && throughput.supported() != Supported::Nothing).then(|| Gain {
            own,
            other,
            throughput,
            server_cpu: paired(Metric::ServerCpu, ours, theirs),
            level: self.ours_last(level.into_iter()),
        })
    }

    /// A gain, or that of a client that is not ours where the rounds do not separate the two.
    fn at_front<'g>(&self, gain: &'g Gain, gains: &'g [Gain], language: Option<&str>) -> &'g Gain {
        if !self.is_ours(gain.other) {
            return gain;
        }
        let is_level = |other: &&Gain| {
            let place = other.other;
            !self.is_ours(place)
                && language.is_none_or(|language| self.language(place) == language)
                && gain.level.contains(&place)
        };
        gains.iter().find(is_level).unwrap_or(gain)
    }

    fn ours_last(&self, places: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut places: Vec<usize> = places.collect();
        places.sort_by_key(|place| self.is_ours(*place));
        places
    }
}

/// A figure of a case.
type Figure = fn(&Case) -> Option<f64>;

/// The cases of a group that are not separated from `best` by one of the verdicts on it.
fn level(
    metric: Metric,
    cases: &[Case],
    best: usize,
    group: &[usize],
    separating: &[Verdict],
) -> Vec<usize> {
    let others = group.iter().copied().filter(|other| *other != best);
    let is_level = |other: &usize| {
        let paired = paired(metric, &cases[*other], &cases[best]);
        paired.is_none_or(|paired| !separating.contains(&paired.verdict))
    };
    others.filter(is_level).collect()
}

/// The items, each once, in the order of their first places.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}
