//! Comparisons of engines: memory, disk and opening times, and which engine suits which need.
//!
//! An engine is compared only with others of the same durability, over their common rounds. If the rounds do
//! not separate two engines, none is named.

mod socket;
mod writeup;

use serde::{Deserialize, Serialize};

use crate::Metric;
use crate::compare::{self, Paired, Rules, Verdict};
use crate::record::{Case, Scenario, SubjectKind};
use crate::words;

use socket::server;

pub use socket::{SocketShare, socket_share, socket_share_of_reads};
pub use writeup::writeup;

/// The workload that writes ten times the data over the data.
pub const SUSTAINED_PUT: &str = "sustained put";

/// Leads in bytes below this share are ignored.
const LEAD: f64 = 0.05;
/// Leads in opening time below this share are ignored: it is the median of a few openings.
const OPEN_LEAD: f64 = 0.5;

/// The results of a comparison of engines besides its cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Engines {
    /// The engine that the others are compared with.
    pub reference: String,
    /// Budget for the cache of each engine that has one, in bytes. `None` if it is not known.
    pub memory_bytes: Option<u64>,
    /// Bytes of all keys and values, at the largest value size. `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// The engines in which every single read opens a transaction.
    pub transaction_per_read: Vec<String>,
    /// The footprint of each engine.
    pub footprints: Vec<Footprint>,
    /// One sentence for each need that the measurement can answer.
    pub needs: Vec<String>,
    /// With the workload of the write-up: what its claims compare, and ratios of like with like.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writeup: Vec<String>,
}

/// The memory, disk space and opening time of an engine that holds all keys. Values that were not measured
/// are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Footprint {
    /// The engine.
    pub subject: String,
    /// Its class of durability.
    pub durability: String,
    /// Keys that it holds.
    pub keys: u64,
    /// Bytes of the keys and values that it holds.
    pub live_bytes: u64,
    /// Bytes of the keys and values that were written to it.
    pub logical_bytes: u64,
    /// The growth of its process's resident memory since before it was opened.
    pub memory_bytes: Option<u64>,
    /// The allocated bytes of its files.
    pub disk_bytes: Option<u64>,
    /// Bytes that its process caused to be written to storage (`/proc/PID/io`).
    pub written_bytes: Option<u64>,
    /// Time to open it again after its process was killed, until the first read has returned: the median.
    pub open_ns: Option<u64>,
    /// The number of such measurements.
    pub opens: u64,
    /// Acknowledged writes that were missing afterwards.
    pub lost: Option<u64>,
    /// Allocations of one read, write and removal.
    pub allocations: Option<Allocations>,
}

/// Allocations of an operation, counted in the process of the caller (`malloc`, `calloc`, `realloc`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocations {
    /// Per read.
    pub get: f64,
    /// Per write.
    pub put: f64,
    /// Per removal.
    pub delete: f64,
}

/// The option that gives the caches a quarter of `live_bytes`, so that the data exceed them four times.
#[must_use]
pub fn exceeded_budget(live_bytes: u64) -> String {
    format!("--memory {}KiB", (live_bytes / 4 / 1_024).max(1))
}

impl Footprint {
    /// Bytes on disk per byte of keys and values.
    #[must_use]
    pub fn space(&self) -> Option<f64> {
        Some(self.disk_bytes? as f64 / self.live_bytes.max(1) as f64)
    }

    /// Bytes written to storage per written byte of keys and values.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        Some(self.written_bytes? as f64 / self.logical_bytes.max(1) as f64)
    }
}

/// One sentence for each need that `cases` and `footprints` can answer.
#[must_use]
pub fn needs(cases: &[Case], footprints: &[Footprint]) -> Vec<String> {
    let groups = groups(cases);
    let of = |workload: &str, durable: bool| {
        let wanted = groups.iter().filter(|group| {
            let is_memory = class(group[0]) == "memory";
            group[0].scenario.workload == workload && !(durable && is_memory)
        });
        let clauses: Vec<String> = wanted.map(|group| fastest(group)).collect();
        (!clauses.is_empty()).then(|| clauses.join("; "))
    };
    let mut needs = Vec::new();
    if let Some(clauses) = of("put", true) {
        needs.push(format!("Fastest durable writes: {clauses}."));
    }
    if let Some(clauses) = of("get", false) {
        needs.push(format!("Fastest reads: {clauses}."));
    }
    let disk = |footprint: &Footprint| footprint.space();
    let factor = |value: f64| format!("{value:.2} bytes per live byte");
    needs.extend(least("Smallest on disk", LEAD, footprints, disk, factor));
    let open = |footprint: &Footprint| footprint.open_ns.map(|ns| ns as f64);
    needs.extend(least(
        "Fastest to open",
        OPEN_LEAD,
        footprints,
        open,
        words::duration,
    ));
    needs.extend(redis(cases, &groups));
    needs
}

fn class(case: &Case) -> &str {
    case.scenario.durability.as_deref().unwrap_or_default()
}

/// The cases of one scenario, in the order of the record. The null server is no engine.
fn groups(cases: &[Case]) -> Vec<Vec<&Case>> {
    let mut groups: Vec<Vec<&Case>> = Vec::new();
    for case in cases
        .iter()
        .filter(|case| case.subject.kind != SubjectKind::NullServer)
    {
        match groups
            .iter_mut()
            .find(|group| is_alike(&group[0].scenario, &case.scenario))
        {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// Whether engines in the two scenarios can be ranked.
fn is_alike(one: &Scenario, other: &Scenario) -> bool {
    one.workload == other.workload
        && one.durability == other.durability
        && one.value_bytes == other.value_bytes
}

/// The class of a group, with its value size if there are several.
fn title(case: &Case) -> String {
    let size = words::value_size(&case.scenario.value_bytes);
    format!("{}, {size}", class(case))
}

/// The engine with the most operations per second, if it leads each other engine.
fn fastest(group: &[&Case]) -> String {
    let mut order: Vec<&Case> = group.to_vec();
    order.sort_by(|one, other| {
        other
            .throughput_ops_per_s
            .total_cmp(&one.throughput_ops_per_s)
    });
    let title = title(group[0]);
    let [best, others @ ..] = &order[..] else {
        return title;
    };
    let own = format!("{} with {} per operation", best.subject.name, per_op(best));
    if others.is_empty() {
        return format!("{title}: {own}, alone in its class");
    }
    let mut family: Vec<Option<Paired>> = others.iter().map(|other| paired(other, best)).collect();
    let mut known: Vec<Paired> = family.iter().flatten().copied().collect();
    compare::correct_for_several(&mut known, Rules::default().alpha);
    let mut known = known.into_iter();
    for paired in family.iter_mut().flatten() {
        *paired = known.next().unwrap_or(*paired);
    }
    let is_ahead =
        |paired: &Option<Paired>| paired.is_some_and(|paired| paired.verdict == Verdict::Faster);
    let level = others.iter().zip(&family);
    let level: Vec<&str> = level
        .filter(|(_, paired)| !is_ahead(paired))
        .map(|(other, _)| other.subject.name.as_str())
        .collect();
    match (
        level.is_empty(),
        family
            .first()
            .map(|next| next.as_ref().and_then(Paired::times)),
    ) {
        (true, Some(Some(times))) => format!(
            "{title}: {own}, {times} as fast as {}",
            others[0].subject.name
        ),
        _ => format!(
            "{title}: inconclusive between {}",
            words::list(&[&[best.subject.name.as_str()], &level[..]].concat())
        ),
    }
}

/// How much faster `best` is in the common rounds.
fn paired(other: &Case, best: &Case) -> Option<Paired> {
    let metric = Metric::Throughput;
    let (a, b) = metric.of_pairs(other, best)?;
    compare::paired(&a, &b, metric.direction(), &Rules::default()).ok()
}

fn per_op(case: &Case) -> String {
    words::duration(case.duration_ns as f64 / case.ops.max(1) as f64)
}

/// The engine with the smallest figure, by class, if it leads by more than the share `lead`.
fn least(
    need: &str,
    lead: f64,
    footprints: &[Footprint],
    of: impl Fn(&Footprint) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> Option<String> {
    let mut classes: Vec<(&str, u64)> = Vec::new();
    for footprint in footprints {
        let class = (footprint.durability.as_str(), footprint.live_bytes);
        if of(footprint).is_some() && !classes.contains(&class) {
            classes.push(class);
        }
    }
    let clause = |(class, live): &(&str, u64)| {
        let mut here: Vec<(f64, &str)> = footprints
            .iter()
            .filter(|footprint| footprint.durability == *class && footprint.live_bytes == *live)
            .filter_map(|footprint| Some((of(footprint)?, footprint.subject.as_str())))
            .collect();
        here.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (best, name) = *here.first()?;
        let level: Vec<&str> = here[1..]
            .iter()
            .filter(|(value, _)| *value <= best * (1.0 + lead))
            .map(|(_, name)| *name)
            .collect();
        let about = format!("{class}, {} of data", words::bytes(*live));
        Some(match (here.len(), level.is_empty()) {
            (1, _) => format!("{about}: {name} with {}, alone in its class", show(best)),
            (_, true) => format!("{about}: {name} with {}", show(best)),
            _ => format!(
                "{about}: no difference that matters between {} ({})",
                words::list(&[&[name], &level[..]].concat()),
                show(best)
            ),
        })
    };
    let clauses: Vec<String> = classes.iter().filter_map(clause).collect();
    (!clauses.is_empty()).then(|| format!("{need}: {}.", clauses.join("; ")))
}

/// When to use a server, and its cost: the socket's share of its time, if the null server was measured as well.
fn redis(cases: &[Case], groups: &[Vec<&Case>]) -> Option<String> {
    let reads = groups
        .iter()
        .find(|group| group[0].scenario.workload == "get" && server(group).is_some())?;
    let redis = server(reads)?;
    let mut text = format!(
        "Redis is the right answer where several processes or machines share the data: {} takes {} per read",
        redis.subject.name,
        per_op(redis)
    );
    match socket_share(cases, redis) {
        Some(SocketShare::Of(share)) => {
            text += &format!(
                ", of which about {} is the socket and not the engine",
                words::percent(share)
            );
        }
        Some(SocketShare::Inseparable) => {
            text += ", which cannot be told apart from the time of a null server";
        }
        None => {}
    }
    Some(text + ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RoundSummary, Subject};

    fn case(name: &str, workload: &str, class: &str, ns: &[u64]) -> Case {
        let kind = match name {
            "redis" | "redis-unix" => SubjectKind::SpawnedServer,
            "null" => SubjectKind::NullServer,
            "embedded" => SubjectKind::Embedded,
            _ => SubjectKind::Engine,
        };
        let round = |ns: &u64| RoundSummary {
            ops: 1_000,
            duration_ns: ns * 1_000,
            throughput_ops_per_s: 1e9 / *ns as f64,
            ..RoundSummary::default()
        };
        let duration_ns = ns.iter().sum::<u64>() * 1_000;
        let ops = 1_000 * ns.len() as u64;
        Case {
            subject: Subject {
                name: name.into(),
                kind,
                ..Subject::default()
            },
            scenario: Scenario {
                workload: workload.into(),
                durability: Some(class.into()),
                ..Scenario::default()
            },
            ops,
            duration_ns,
            throughput_ops_per_s: ops as f64 / duration_ns as f64 * 1e9,
            rounds: ns.iter().map(round).collect(),
            ..Case::default()
        }
    }

    #[test]
    fn the_fastest_is_named_by_class_and_only_where_the_rounds_tell() {
        let cases = [
            case("store", "put", "process", &[500; 12]),
            case("heed", "put", "process", &[1_500; 12]),
            case("store", "put", "always", &[100_000; 12]),
            case("heed", "put", "always", &[90_000, 120_000].repeat(6)),
        ];
        let needs = needs(&cases, &[]);
        assert_eq!(needs.len(), 1, "{needs:?}");
        assert!(
            needs[0].contains(
                "process, 0 B values: store with 500 ns per operation, 3.00 times [3.00, 3.00] as fast as heed"
            ),
            "{}",
            needs[0]
        );
        assert!(
            needs[0].contains("always, 0 B values: inconclusive between store and heed"),
            "{}",
            needs[0]
        );
    }

    /// An engine without files is excluded from durable writes, and never compared with one that syncs.
    #[test]
    fn classes_are_not_mixed() {
        let cases = [
            case("map", "put", "memory", &[50; 12]),
            case("heed", "put", "always", &[90_000; 12]),
        ];
        let needs = needs(&cases, &[]);
        assert_eq!(
            needs,
            [
                "Fastest durable writes: always, 0 B values: heed with 90.0 us per operation, alone in its class."
            ]
        );
    }

    /// The null server is a measure of the socket and no engine, however fast it is.
    #[test]
    fn the_socket_is_what_the_null_server_takes() {
        let cases = [
            case("redis", "get", "memory", &[50_000; 12]),
            case("redis-unix", "get", "memory", &[30_000; 12]),
            case("null", "get", "memory", &[45_000; 12]),
            case("null", "get", "always", &[5_000; 12]),
            case("store", "get", "memory", &[500; 12]),
        ];
        let share = |place: usize| socket_share(&cases, &cases[place]);
        let expected = (Some(SocketShare::Of(0.9)), None, None);
        assert_eq!((share(0), share(1), share(4)), expected);
        let needs = needs(&cases, &[]);
        assert_eq!(
            needs,
            [
                "Fastest reads: memory, 0 B values: store with 500 ns per operation, 60.00 times [60.00, 60.00] as fast as redis-unix.",
                "Redis is the right answer where several processes or machines share the data: redis takes 50.0 us per read, of which about 90.0 % is the socket and not the engine."
            ]
        );
        assert_eq!(socket_share(&cases[..2], &cases[0]), None);
    }

    /// A share of 100 % would say that the server takes no time at all.
    #[test]
    fn a_server_as_fast_as_the_null_server_has_no_share() {
        let cases = [
            case("redis", "get", "memory", &[50_000, 46_000].repeat(6)),
            case("null", "get", "memory", &[46_000, 50_000].repeat(6)),
        ];
        let share = socket_share(&cases, &cases[0]);
        assert_eq!(share, Some(SocketShare::Inseparable));
        assert_eq!(socket_share_of_reads(&cases), None);
        let needs = needs(&cases, &[]);
        let told =
            "takes 48.0 us per read, which cannot be told apart from the time of a null server.";
        assert!(needs[1].ends_with(told), "{needs:?}");
    }

    #[test]
    fn the_ratios_of_the_write_up_are_within_a_class_and_say_what_is_behind_a_socket() {
        let cases = [
            case("redis", "put", "memory", &[50_000; 12]),
            case("store", "put", "memory", &[500; 12]),
            case("embedded", "put", "memory", &[40_000; 12]),
            case("null", "put", "memory", &[45_000; 12]),
            case("redis", "put", "always", &[200_000; 12]),
            case("store", "put", "always", &[100_000; 12]),
        ];
        let said = writeup(&cases);
        assert!(
            said[0].contains("claims PUT 1.59x and GET 2.33x over Redis"),
            "{said:?}"
        );
        assert!(
            said[0].contains("neither ratio compares the engines"),
            "{said:?}"
        );
        assert_eq!(
            said[1..],
            [
                "memory, both sides: our store in the process over Redis across a socket: PUT 100.00 times [100.00, 100.00]. The socket is 90.0 % of the time of PUT.",
                "memory, both sides, both across a socket: our server over Redis: PUT 1.25 times [1.25, 1.25].",
                "always, both sides: our store in the process over Redis across a socket: PUT 2.00 times [2.00, 2.00]."
            ]
        );
    }

    #[test]
    fn a_lead_below_five_percent_on_disk_is_none() {
        let footprint = |name: &str, disk: u64, open: u64| Footprint {
            subject: name.into(),
            durability: "process".into(),
            live_bytes: 1_000,
            disk_bytes: Some(disk),
            open_ns: Some(open),
            ..Footprint::default()
        };
        let all = [
            footprint("store", 1_200, 2_000_000),
            footprint("heed", 1_210, 500_000),
            footprint("redb", 1_900, 900_000),
        ];
        let needs = needs(&[], &all);
        assert_eq!(
            needs,
            [
                "Smallest on disk: process, 1000 B of data: no difference that matters between store and heed (1.20 bytes per live byte).",
                "Fastest to open: process, 1000 B of data: heed with 500 us."
            ]
        );
    }
}
