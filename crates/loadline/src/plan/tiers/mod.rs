//! `loadline tiers`: which object, which tiers, and what is measured in the same rounds.

use std::path::PathBuf;
use std::time::Duration;

mod arms;
mod load;
mod show;

use loadline_load::keys::KeyDist;
use loadline_load::pacing::Pacing;
use loadline_load::values::{ValueData, ValueSize};
use loadline_resp::Protocol;

use super::bounds::check_memory;
use super::path::{self, PathShape};
use super::{Case, MOST_ROUNDS, Plan, Schedule, Surroundings, TlsFiles, lengths, targets};
use crate::args::{LengthArgs, LinkArg, TiersArgs};
use crate::exit::Failure;
use crate::object::{Encoding, Format, LONGEST_SIDE, SIDE};
use crate::spelling::{Choice, Durability, Engine, Kind, Target};
use crate::workload;

pub(crate) use arms::{Arm, ArmOp, Flawed, Setup, TierGroup, TierOp, TierStage};
pub(crate) use load::CacheLoad;

/// Time per arm, unless another was asked for: all arms take a minute.
const DEFAULT_LENGTH: Duration = Duration::from_millis(350);
/// Rounds of that time: intervals take eight at least.
const DEFAULT_ROUNDS: u32 = 10;
const DEFAULT_HIT_RATIO: f64 = 0.8;
const DEFAULT_BATCHES: [u32; 2] = [10, 100];
/// The objects of a batch are held in memory, twice.
const MOST_BATCH: u32 = 1_000;
/// Objects that operations take turns with ...
const MOST_OBJECTS: u64 = 64;
/// ... and bytes that they may take together.
const OBJECTS_BYTES: u64 = 64 << 20;
/// Bytes of a tile in memory.
const TILE_BYTES: u64 = 20;
/// The largest object.
const LARGEST_BYTES: u64 = 256 << 20;

/// Source of the object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A generated floor.
    Floor { width: u32, height: u32 },
    /// A file, with the time that its object takes to recompute.
    File { path: PathBuf, cost: Duration },
    /// The output of a shell command.
    Command(String),
}

/// A tier below memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TierPlace {
    /// Its place among the targets of the plan.
    pub(crate) target: usize,
    /// Added round-trip time.
    pub(crate) latency: Duration,
    /// The name in reports.
    pub(crate) name: String,
}

/// A measurement of tiers, resolved.
#[derive(Debug, Clone)]
pub(crate) struct TiersPlan {
    /// The common part of all runs. Its only case is a template for those of the arms.
    pub(crate) base: Plan,
    pub(crate) source: Source,
    /// Number of objects that are made before the first operation.
    pub(crate) objects: u64,
    /// The tiers below memory, those over a socket first.
    pub(crate) places: Vec<TierPlace>,
    /// One after the other; the arms of each are measured in the same rounds.
    pub(crate) stages: Vec<TierStage>,
    /// The codec of the tiers.
    pub(crate) format: Format,
    /// The hit ratio that the answers assume.
    pub(crate) hit_ratio: f64,
    /// Whether the flaws of the write-up are measured.
    pub(crate) reproduce: bool,
    /// A trace whose miss ratios are estimated.
    pub(crate) trace: Option<PathBuf>,
    /// A load on whole caches, in place of the stages.
    pub(crate) load: Option<CacheLoad>,
}

impl TiersPlan {
    /// The first tier that is a server.
    pub(crate) fn server(&self) -> Option<usize> {
        arms::first_server(&self.places, &self.base.targets)
    }

    /// Whether a tier is an embedded store.
    pub(crate) fn is_embedded(&self, place: usize) -> bool {
        self.base.targets[self.places[place].target].is_in_process()
    }
}

impl Source {
    fn resolve(args: &TiersArgs) -> Result<Self, Failure> {
        if let Some(command) = &args.load_command {
            return Ok(Self::Command(command.clone()));
        }
        if let (Some(path), Some(cost)) = (&args.object_file, args.load_cost) {
            if cost.is_zero() {
                let why = "must be above zero; an object without a cost needs no cache";
                return Err(Failure::invalid("--load-cost", "duration", "0s", why));
            }
            return Ok(Self::File {
                path: path.clone(),
                cost,
            });
        }
        let text = args.floor.as_deref();
        let (width, height) = text.map_or(Ok((SIDE, SIDE)), floor_size)?;
        Ok(Self::Floor { width, height })
    }

    /// The time to recompute the object, if it is given and not measured.
    pub(crate) fn given(&self) -> Option<Duration> {
        match self {
            Self::File { cost, .. } => Some(*cost),
            Self::Floor { .. } | Self::Command(_) => None,
        }
    }

    /// The codec of the tiers: the fastest one of the object.
    fn format(&self) -> Format {
        Format::plain(match self {
            Self::Floor { .. } => Encoding::Columns,
            Self::File { .. } | Self::Command(_) => Encoding::Raw,
        })
    }

    /// The bytes of an object in memory, as far as they are known before there is one.
    fn bytes(&self) -> Result<u64, Failure> {
        Ok(match self {
            Self::Floor { width, height } => u64::from(*width) * u64::from(*height) * TILE_BYTES,
            Self::File { path, .. } => {
                let file = std::fs::metadata(path).map_err(|error| {
                    Failure::bad_file(format!("--object-file {}: {error}.", path.display()))
                })?;
                if !(1..=LARGEST_BYTES).contains(&file.len()) {
                    return Err(Failure::bad_file(format!(
                        "--object-file {}: {} bytes; an object has 1 byte to 256 MiB.",
                        path.display(),
                        file.len()
                    )));
                }
                file.len()
            }
            Self::Command(_) => 0,
        })
    }
}

/// Resolves what was typed.
///
/// # Errors
/// A usage error for what cannot be, and a bad file for an object that cannot be read.
pub(crate) fn resolve(args: &TiersArgs, around: &Surroundings) -> Result<TiersPlan, Failure> {
    let source = Source::resolve(args)?;
    let mut chosen = chosen(args, around)?;
    targets::log_in(&mut chosen, &args.login, around)?;
    if args.reproduce && chosen.iter().all(Target::is_in_process) {
        return Err(Failure::usage(
            "--reproduce: none of the tiers is a server, and the benchmark that it repeats reads from one.",
        ));
    }
    let places = places(args, &chosen)?;
    let (hit_ratio, batches) = (hit_ratio(args)?, batches(args)?);
    let (length, rounds, warmup) = lengths::resolve(&with_length(args), 1, MOST_ROUNDS)?;
    let bytes = source.bytes()?;
    let format = source.format();
    let mut base = Plan {
        targets: chosen,
        latency: Duration::ZERO,
        path: PathShape::resolve(None, None, LinkArg::Auto)?,
        cases: vec![template(length, &source, bytes)],
        rounds,
        schedule: Schedule::PLAIN,
        warmup,
        seed: args.choices.seed.unwrap_or(around.entropy),
        protocol: Protocol::Resp3,
        tls: TlsFiles::default(),
        allow_non_empty: args.choices.allow_non_empty,
        profiles: None,
        settings_of: None,
    };
    check_memory(
        &base,
        2 * u64::from(batches.iter().copied().max().unwrap_or(1)),
        around,
    )?;
    let shape = arms::Shape {
        source: &source,
        format,
        places: &places,
        targets: &base.targets,
        batches: &batches,
        reproduce: args.reproduce,
    };
    let stages = match args.key_dist {
        Some(_) => Vec::new(),
        None => shape.stages(),
    };
    let load = CacheLoad::resolve(args, &mut base, around)?;
    Ok(TiersPlan {
        base,
        objects: objects(&source, bytes),
        source,
        stages,
        places,
        format,
        hit_ratio,
        reproduce: args.reproduce,
        trace: args.trace.clone(),
        load,
    })
}

/// The hit ratio that the answers assume.
fn hit_ratio(args: &TiersArgs) -> Result<f64, Failure> {
    let hit_ratio = args.hit_ratio.unwrap_or(DEFAULT_HIT_RATIO);
    if !(0.0..=1.0).contains(&hit_ratio) || hit_ratio == 0.0 {
        let text = format!("{}%", hit_ratio * 100.0);
        let why = "must be above 0% and at most 100%";
        return Err(Failure::invalid("--hit-ratio", "share", text, why));
    }
    Ok(hit_ratio)
}

/// Sizes of the batches.
fn batches(args: &TiersArgs) -> Result<Vec<u32>, Failure> {
    let batches = if args.batch.is_empty() {
        DEFAULT_BATCHES.to_vec()
    } else {
        args.batch.clone()
    };
    if let Some(batch) = batches
        .iter()
        .find(|size| !(2..=MOST_BATCH).contains(*size))
    {
        let why =
            format!("from 2 to {MOST_BATCH}, because the objects of a call are held in memory");
        return Err(Failure::invalid("--batch", "count", batch, why));
    }
    Ok(batches)
}

/// The default length of an arm or of a load, unless another was asked for.
fn with_length(args: &TiersArgs) -> LengthArgs {
    let (default, rounds) = match args.key_dist {
        Some(_) => (load::DEFAULT_LENGTH, None),
        None => (DEFAULT_LENGTH, Some(DEFAULT_ROUNDS)),
    };
    let args = &args.length;
    let is_open = args.ops.is_none() && args.duration.is_none();
    LengthArgs {
        ops: args.ops,
        duration: args.duration.or(is_open.then_some(default)),
        warmup: args.warmup,
        rounds: args.rounds.or(rounds.filter(|_| is_open)),
    }
}

fn floor_size(text: &str) -> Result<(u32, u32), Failure> {
    let sides = text.split_once('x').and_then(|(width, height)| {
        let side = |side: &str| {
            side.parse()
                .ok()
                .filter(|side| (1..=LONGEST_SIDE).contains(side))
        };
        Some((side(width)?, side(height)?))
    });
    sides.ok_or_else(|| {
        let why =
            format!("expected WIDTHxHEIGHT, such as `100x100`, each from 1 to {LONGEST_SIDE}");
        Failure::invalid("--floor", "size", text, why)
    })
}

/// The targets behind the tiers, those over a socket first.
fn chosen(args: &TiersArgs, around: &Surroundings) -> Result<Vec<Target>, Failure> {
    let mut chosen: Vec<Target> = Vec::new();
    let default_names = if around.has_redis_server {
        &["redis", "redis-unix"][..]
    } else {
        &["embedded"]
    };
    let kinds = [Kind::Store, Kind::Heed, Kind::Redb, Kind::Fjall];
    let built_in = kinds.iter().filter(|kind| kind.is_built_in());
    let built_in = built_in.map(|kind| kind.name());
    let names: Vec<&str> = if args.tiers.is_empty() && args.key_dist.is_some() {
        vec![default_names[0]]
    } else if args.tiers.is_empty() {
        default_names.iter().copied().chain(built_in).collect()
    } else {
        args.tiers.iter().map(String::as_str).collect()
    };
    for name in names {
        let target = tier(name, args)?;
        if chosen
            .iter()
            .any(|known| known.to_string() == target.to_string())
        {
            return Err(Failure::usage(format!("TIER `{target}`: named twice.")));
        }
        chosen.push(target);
    }
    chosen.sort_by_key(Target::is_in_process);
    Ok(chosen)
}

fn tier(name: &str, args: &TiersArgs) -> Result<Target, Failure> {
    if name.contains("://") {
        let target = Target::parse(name)?;
        if target.is_cluster() {
            return Err(Failure::usage(format!(
                "TIER `{target}`: a single server is needed, because an operation is split into its parts on one connection."
            )));
        }
        return Ok(target);
    }
    let choice = Choice::parse(name)
        .map_err(|why| Failure::usage(why.to_string().replacen("ENGINE", "TIER", 1)))?;
    // A cache needs nothing after a power failure, so each tier has the weakest class that it knows and that has files.
    let classes = if choice.is_server() {
        [Durability::Memory; 3]
    } else {
        [
            Durability::Process,
            Durability::Interval(Duration::from_secs(1)),
            Durability::Memory,
        ]
    };
    let durability = classes
        .into_iter()
        .find(|class| choice.lacks(*class).is_none());
    let durability = durability.unwrap_or(Durability::Always);
    Ok(Target::Engine(Engine {
        choice,
        durability,
        dir: args.dir.clone(),
        cache: None,
        memory_bytes: None,
    }))
}

/// Whether a link can be put before it: it is a server over TCP.
fn is_over_tcp(target: &Target) -> bool {
    match target {
        Target::Engine(engine) => engine.choice.is_over_tcp(),
        Target::Server(server) => matches!(server.address, crate::spelling::Address::Tcp { .. }),
        Target::Sentinel(_) => true,
        _ => false,
    }
}

/// The tiers: each target, and the first one over TCP again with each latency.
fn places(args: &TiersArgs, chosen: &[Target]) -> Result<Vec<TierPlace>, Failure> {
    let mut places: Vec<TierPlace> = (0..chosen.len())
        .map(|target| TierPlace {
            target,
            latency: Duration::ZERO,
            name: chosen[target].to_string(),
        })
        .collect();
    if args.latency.is_empty() {
        return Ok(places);
    }
    let Some(first) = chosen.iter().position(is_over_tcp) else {
        return Err(Failure::usage(
            "--latency: none of the tiers is a server over TCP.",
        ));
    };
    let mut at = first + 1;
    for text in &args.latency {
        let latency = path::latency(text)?;
        if latency.is_zero() || places.iter().any(|place| place.latency == latency) {
            continue;
        }
        let name = format!(
            "{} +{}",
            chosen[first],
            crate::units::duration_text(latency)
        );
        places.insert(
            at,
            TierPlace {
                target: first,
                latency,
                name,
            },
        );
        at += 1;
    }
    Ok(places)
}

/// The common part of the cases of all arms.
fn template(length: super::Length, source: &Source, bytes: u64) -> Case {
    Case {
        name: "tiers".into(),
        workload: workload::over_strings("tiers", "tiers", &["GET {key}", "SET {key} {value}"]),
        connections: 1,
        threads: 1,
        pipeline: 1,
        batch: None,
        pacing: Pacing::Closed,
        length,
        keys: objects(source, bytes),
        key_dist: KeyDist::Uniform,
        value_size: ValueSize::Fixed(bytes.max(1)),
        value_data: ValueData::Random,
        verify: false,
        codec: None,
        durability: None,
    }
}

/// Number of objects: one if it is read or made by a command.
fn objects(source: &Source, bytes: u64) -> u64 {
    match source {
        Source::Floor { .. } => (OBJECTS_BYTES / bytes.max(1)).clamp(1, MOST_OBJECTS),
        Source::File { .. } | Source::Command(_) => 1,
    }
}

#[cfg(test)]
mod tests;
