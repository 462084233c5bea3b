//! The plan of `loadline modes`: a sweep over modes, operations, counts and latencies.

mod cases;
mod estimate;
mod show;

use std::fmt;
use std::slice;
use std::time::Duration;

use clap::ValueEnum;

pub(crate) use crate::args::Mode;
use crate::args::ModesArgs;
use crate::exit::Failure;
use crate::plan::{Plan, Surroundings, lengths};
use crate::spelling::Target;
use crate::units;
use crate::workload::Definition;

use super::{
    Case, PathShape, Placement, Schedule, TlsFiles, bounds::check_memory, path, protocol, targets,
};
use loadline_resp::Protocol;

const DEFAULT_COUNTS: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const DEFAULT_LATENCIES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(100),
];
/// With it, the default sweep takes less than three minutes.
const DEFAULT_BUDGET: Duration = Duration::from_millis(300);
const DEFAULT_BATCH: u32 = 100;
const DEFAULT_IN_FLIGHT: u32 = 100;
const MOST_BATCH: u32 = 100_000;
const MOST_COUNT: u64 = 1_000_000_000;
const DEFAULT_SIZES: [u32; 7] = [1, 5, 20, 100, 500, 2_000, 10_000];
/// Default sizes that are left out if the memory is insufficient.
const LARGER_SIZES: [u32; 2] = [30_000, 100_000];

impl Mode {
    /// Redis commands that it needs in addition to the operation.
    pub(crate) fn needs(self, workload: &Definition) -> Vec<String> {
        let names: Vec<&str> = match self {
            Self::Sync | Self::Async | Self::Pipeline => Vec::new(),
            Self::Batch => workload.for_many_keys().into_iter().collect(),
            Self::Transaction => vec!["MULTI", "EXEC"],
            Self::Script => vec!["EVALSHA", "EVAL"],
        };
        names.into_iter().map(Into::into).collect()
    }

    /// Reason why no server supports this mode for the workload; `None` if servers do.
    pub(crate) fn lacks_form(self, workload: &Definition) -> Option<String> {
        (self == Self::Batch && workload.for_many_keys().is_none()).then(|| {
            format!(
                "Redis has no command that is {} for many keys",
                workload.name
            )
        })
    }

    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
            Self::Pipeline => "pipeline",
            Self::Batch => "batch",
            Self::Transaction => "transaction",
            Self::Script => "script",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A sweep, resolved.
#[derive(Debug, Clone)]
pub(crate) struct ModesPlan {
    /// The common part of all runs; its cases are the operations.
    pub(crate) base: Plan,
    pub(crate) modes: Vec<Mode>,
    /// Operations per cell, ascending.
    pub(crate) counts: Vec<u64>,
    pub(crate) latencies: Vec<Duration>,
    /// Operations per call of the modes that have several.
    pub(crate) batch: u32,
    /// The sizes that are compared to find the best batch, ascending.
    pub(crate) sizes: Vec<u32>,
    /// Interleaved rounds that compare the sizes.
    pub(crate) size_rounds: u32,
    /// Tasks of the mode async.
    pub(crate) in_flight: u32,
    /// Time limit of one cell.
    pub(crate) budget: Duration,
    /// Whether all keys have one hash tag, so that a cluster has them in one slot.
    pub(crate) hash_tag: bool,
}

/// Resolves the arguments of `loadline modes`.
///
/// # Errors
/// A usage error for an invalid value or combination.
pub(crate) fn resolve(args: &ModesArgs, around: &Surroundings) -> Result<ModesPlan, Failure> {
    let target = target(args, around)?;
    if args.hash_tag && !target.is_cluster() {
        return Err(Failure::usage(format!(
            "--hash-tag: {target} is not a cluster and has no slots."
        )));
    }
    let latencies = latencies(args)?;
    let counts = ascending(&args.ops, &DEFAULT_COUNTS);
    if let Some(count) = counts.iter().find(|count| **count > MOST_COUNT) {
        let why = format!("at most {MOST_COUNT}; operations that exceed --budget are extrapolated");
        return Err(Failure::invalid("--ops", "count", count, why));
    }
    let batch = args.batch.unwrap_or(DEFAULT_BATCH);
    let in_flight = args.in_flight.unwrap_or(DEFAULT_IN_FLIGHT);
    let mut sizes = ascending(&args.sizes, &DEFAULT_SIZES);
    let largest = sizes.last().copied().unwrap_or(1);
    for (flag, value) in [
        ("--batch", batch),
        ("--in-flight", in_flight),
        ("--sizes", largest),
    ] {
        if value > MOST_BATCH {
            let why = format!(
                "at most {MOST_BATCH}, because the calls and their replies are held in memory"
            );
            return Err(Failure::invalid(flag, "count", value, why));
        }
    }
    let budget = args.budget.unwrap_or(DEFAULT_BUDGET);
    if budget < Duration::from_millis(10) {
        let why = "must be at least 10ms, to measure a cell";
        let text = units::duration_text(budget);
        return Err(Failure::invalid("--budget", "duration", text, why));
    }
    let modes = chosen(&args.mode, Mode::value_variants());
    let cases = cases::cases(args)?;
    for case in &cases {
        let lacking: Vec<String> = modes
            .iter()
            .filter_map(|mode| mode.lacks_form(&case.workload))
            .collect();
        if lacking.len() == modes.len() {
            return Err(Failure::usage(format!(
                "--mode batch: {}; name another mode as well.",
                lacking.join(" and ")
            )));
        }
    }
    let base = base(args, around, target, cases)?;
    check_memory(&base, u64::from(batch.max(in_flight).max(largest)), around)?;
    if args.sizes.is_empty() {
        add_larger_sizes(&mut sizes, &base, around);
    }
    let plan = ModesPlan {
        size_rounds: base.rounds.max(lengths::SIZE_ROUNDS),
        base,
        modes,
        counts,
        latencies,
        batch,
        sizes,
        in_flight,
        budget,
        hash_tag: args.hash_tag,
    };
    refuse_split(&plan)?;
    Ok(plan)
}

/// Refuses a plan none of whose modes the slots of its cluster allow.
fn refuse_split(plan: &ModesPlan) -> Result<(), Failure> {
    let of = |mode: &Mode| plan.splits(*mode);
    let reasons: Option<Vec<String>> = plan.modes.iter().map(of).collect();
    let Some(reason) = reasons.and_then(|reasons| reasons.into_iter().next()) else {
        return Ok(());
    };
    let modes: Vec<&str> = plan.modes.iter().map(|mode| mode.name()).collect();
    Err(Failure::usage(format!(
        "--mode {}: not possible on {}, since {reason}.",
        modes.join(","),
        plan.base.targets[0]
    )))
}

/// Adds the larger default sizes for which memory suffices while the calls of all sizes are open.
fn add_larger_sizes(sizes: &mut Vec<u32>, base: &Plan, around: &Surroundings) {
    for size in LARGER_SIZES {
        let together = sizes.iter().chain([&size]).copied().map(u64::from).sum();
        if check_memory(base, together, around).is_ok() {
            sizes.push(size);
        }
    }
}

fn base(
    args: &ModesArgs,
    around: &Surroundings,
    target: Target,
    cases: Vec<Case>,
) -> Result<Plan, Failure> {
    let is_started = target.is_started();
    Ok(Plan {
        targets: vec![target],
        // Its latency stays zero: the sweep opens a link for each latency.
        path: PathShape::resolve(
            args.path.jitter.as_deref(),
            args.path.bandwidth.as_deref(),
            args.link,
        )?,
        cases,
        rounds: args.rounds.unwrap_or(lengths::MODES_ROUNDS),
        schedule: Schedule {
            placement: Placement::pinned_if(is_started),
            instructions: args.counting.instructions,
            ..Schedule::PLAIN
        },
        protocol: protocol(&args.connection, Protocol::Resp3),
        tls: TlsFiles::given(&args.connection.tls),
        ..Plan::bare(&args.choices, around)
    })
}

/// The target; by default a redis-server if one is found, since our own server has no scripts.
fn target(args: &ModesArgs, around: &Surroundings) -> Result<Target, Failure> {
    let mut target = match &args.target {
        Some(text) => Target::parse(text)?,
        None if around.has_redis_server => Target::Spawn("redis-server".into()),
        None => Target::Embedded,
    };
    if target.is_in_process() {
        return Err(Failure::usage(format!(
            "{target}: not a server, so it has no call modes."
        )));
    }
    targets::refuse_unused_tls(slice::from_ref(&target), &args.connection.tls)?;
    targets::log_in(slice::from_mut(&mut target), &args.connection.login, around)?;
    Ok(target)
}

fn latencies(args: &ModesArgs) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::new();
    for text in &args.latency {
        latencies.push(path::latency(text)?);
    }
    Ok(ascending(&latencies, &DEFAULT_LATENCIES))
}

/// The given values, or else the default ones, each once and ascending.
fn ascending<T: Copy + Ord>(asked: &[T], usual: &[T]) -> Vec<T> {
    let mut all = if asked.is_empty() { usual } else { asked }.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

/// The given values, each once, or else all.
fn chosen<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    let wanted = |item: &&T| asked.is_empty() || asked.contains(item);
    all.iter().filter(wanted).copied().collect()
}

impl ModesPlan {
    /// Operations in flight at the same time in `mode`: those of one call, or the number of tasks.
    pub(crate) fn size(&self, mode: Mode) -> u32 {
        match mode {
            Mode::Sync => 1,
            Mode::Async => self.in_flight,
            Mode::Pipeline | Mode::Batch | Mode::Transaction | Mode::Script => self.batch,
        }
    }

    /// Reason why calls in `mode` are not possible on this target, if it is the slots of its keys.
    pub(crate) fn splits(&self, mode: Mode) -> Option<String> {
        let of_one_slot = matches!(mode, Mode::Transaction | Mode::Script);
        let apart = self.base.targets[0].is_cluster() && !self.hash_tag;
        (of_one_slot && apart).then(|| {
            "its keys are in different slots of the cluster; --hash-tag puts them into one".into()
        })
    }
}

#[cfg(test)]
mod tests;
