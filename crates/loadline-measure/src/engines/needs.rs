//! Which engine suits which need.

use super::{Engines, Footprint, Operation, SocketShare, class, paired, socket_share};
use crate::compare::{self, Paired, Rules, Verdict};
use crate::record::{Case, SubjectKind};

/// Leads in bytes below this share are ignored.
const LEAD: f64 = 0.05;
/// Leads in opening time below this share are ignored: it is the median of a few openings.
const OPEN_LEAD: f64 = 0.5;

/// The case with the most operations per second among those of one operation, class and value size.
#[derive(Debug, Clone, PartialEq)]
pub struct Fastest {
    /// Its place in the record.
    pub case: usize,
    /// Its lead.
    pub lead: Lead,
}

/// The lead over the other engines of a class.
#[derive(Debug, Clone, PartialEq)]
pub enum Lead {
    /// No other engine has the class.
    Alone,
    /// It is faster than each of them.
    Ahead {
        /// The case of the next one.
        next: usize,
        /// The comparison with it.
        by: Paired,
    },
    /// The rounds do not separate it from these cases.
    Level(Vec<usize>),
}

/// The footprint with the smallest figure among those of one class and amount of data.
#[derive(Debug, Clone, PartialEq)]
pub struct Least {
    /// Its place in the footprints.
    pub footprint: usize,
    /// The figure.
    pub value: f64,
    /// Whether no other engine has the class.
    pub is_alone: bool,
    /// The places of those that are larger by a difference that does not matter.
    pub level: Vec<usize>,
}

/// A read on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedRead {
    /// The place of its case in the record.
    pub case: usize,
    /// The socket's share of its time, if the null server was measured as well.
    pub socket: Option<SocketShare>,
}

impl Engines {
    /// The fastest engine at `operation` in each class, or in each one that survives the process, and for each value size.
    #[must_use]
    pub fn fastest(&self, cases: &[Case], operation: &Operation, is_durable: bool) -> Vec<Fastest> {
        let groups = self.groups(cases).into_iter();
        let wanted = groups.filter(|group| {
            let is_memory = class(&cases[group.cases[0]]) == "memory";
            group.operation == *operation && !(is_durable && is_memory)
        });
        wanted.map(|group| fastest(cases, group.cases)).collect()
    }

    /// The engines with the fewest bytes on disk per live byte.
    #[must_use]
    pub fn smallest(&self) -> Vec<Least> {
        least(&self.footprints, LEAD, Footprint::space)
    }

    /// The engines that are opened in the shortest time.
    #[must_use]
    pub fn first_to_open(&self) -> Vec<Least> {
        let open = |footprint: &Footprint| footprint.open_ns.map(|ns| ns as f64);
        least(&self.footprints, OPEN_LEAD, open)
    }

    /// A read on the first server.
    #[must_use]
    pub fn served_read(&self, cases: &[Case]) -> Option<ServedRead> {
        let groups = self.groups(cases);
        let mut reads = groups
            .iter()
            .filter(|group| group.operation == Operation::Get);
        let case = reads.find_map(|group| group.server(cases))?;
        Some(ServedRead {
            case,
            socket: socket_share(cases, &cases[case]),
        })
    }

    /// The cases of each operation, class and value size, in the order of the record. The null server is no engine.
    pub(super) fn groups(&self, cases: &[Case]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (place, (case, operation)) in cases.iter().zip(&self.operations).enumerate() {
            if case.subject.kind == SubjectKind::NullServer {
                continue;
            }
            let same = |group: &&mut Group| {
                let first = &cases[group.cases[0]].scenario;
                group.operation == *operation
                    && first.durability == case.scenario.durability
                    && first.value_bytes == case.scenario.value_bytes
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.cases.push(place),
                None => groups.push(Group {
                    operation: operation.clone(),
                    cases: vec![place],
                }),
            }
        }
        groups
    }
}

/// The cases of one operation, class and value size; at least one.
pub(super) struct Group {
    pub(super) operation: Operation,
    pub(super) cases: Vec<usize>,
}

impl Group {
    /// The first external server: over TCP, if there is one.
    pub(super) fn server(&self, cases: &[Case]) -> Option<usize> {
        let first = |kind: SubjectKind| {
            let mut places = self.cases.iter().copied();
            places.find(|place| cases[*place].subject.kind == kind)
        };
        first(SubjectKind::SpawnedServer).or_else(|| first(SubjectKind::SpawnedOnSocket))
    }
}

/// The engine with the most operations per second of a group, and whether it leads each other engine.
fn fastest(cases: &[Case], mut order: Vec<usize>) -> Fastest {
    order.sort_by(|one, other| {
        let rate = |place: &usize| cases[*place].throughput_ops_per_s;
        rate(other).total_cmp(&rate(one))
    });
    let (best, others) = (order[0], &order[1..]);
    let pair = |other: &usize| paired(&cases[*other], &cases[best]);
    let mut family: Vec<Option<Paired>> = others.iter().map(pair).collect();
    let mut known: Vec<Paired> = family.iter().flatten().copied().collect();
    compare::correct_for_several(&mut known, Rules::default().alpha);
    let mut known = known.into_iter();
    for paired in family.iter_mut().flatten() {
        *paired = known.next().unwrap_or(*paired);
    }
    let is_ahead =
        |paired: &Option<Paired>| paired.is_some_and(|paired| paired.verdict == Verdict::Faster);
    let level = others.iter().zip(&family);
    let level: Vec<usize> = level
        .filter(|(_, paired)| !is_ahead(paired))
        .map(|(other, _)| *other)
        .collect();
    let lead = match (others.first(), family.first().copied().flatten()) {
        (None, _) => Lead::Alone,
        (Some(&next), Some(by)) if level.is_empty() => Lead::Ahead { next, by },
        _ => Lead::Level(level),
    };
    Fastest { case: best, lead }
}

/// The engine with the smallest figure in each class, and those that it leads by no more than the share `lead`.
fn least(
    footprints: &[Footprint],
    lead: f64,
    of: impl Fn(&Footprint) -> Option<f64>,
) -> Vec<Least> {
    let mut classes: Vec<(&str, u64)> = Vec::new();
    let mut all = Vec::new();
    for first in footprints.iter().filter(|one| of(one).is_some()) {
        let class = (first.durability.as_str(), first.live_bytes);
        if classes.contains(&class) {
            continue;
        }
        classes.push(class);
        let mut here: Vec<(f64, usize)> = footprints
            .iter()
            .enumerate()
            .filter(|(_, other)| (other.durability.as_str(), other.live_bytes) == class)
            .filter_map(|(place, footprint)| Some((of(footprint)?, place)))
            .collect();
        here.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (value, footprint) = here[0];
        let level = here[1..].iter();
        all.push(Least {
            footprint,
            value,
            is_alone: here.len() == 1,
            level: level
                .filter(|(other, _)| *other <= value * (1.0 + lead))
                .map(|(_, place)| *place)
                .collect(),
        });
    }
    all
}
