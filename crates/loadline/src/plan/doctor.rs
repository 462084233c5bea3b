//! The plan of `loadline doctor`: a target, and the probes.

use std::time::Duration;

use loadline_load::keys::KeyDist;
use loadline_load::pacing::{ArrivalProcess, Pacing};
use loadline_load::values::{ValueData, ValueSize};
use loadline_resp::Protocol;

use super::{Case, Length, Plan, Surroundings, TlsFiles};
use super::{protocol, targets, threads};
use crate::args::DoctorArgs;
use crate::exit::Failure;
use crate::workload::{self, Definition};

/// The time for idle round trips; on loopback, some ten thousand.
const IDLE: Duration = Duration::from_millis(600);
/// Round trips per second on a server with other users.
const GENTLE_RATE: f64 = 1_000.0;
/// The time under load.
const LOAD: Duration = Duration::from_millis(900);
/// The time for hits, misses and pings, each.
const PAIR: Duration = Duration::from_millis(600);
/// Blocks of each probe, enough for the bounds of a ratio.
const ROUNDS: u32 = 12;
const WARMUP: Duration = Duration::from_millis(100);
const CONNECTIONS: u32 = 50;
/// Connections to the null server, which shares the CPUs with the generator.
const NULL_CONNECTIONS: u32 = 4;
const PIPELINE: u32 = 16;
const KEYS: u64 = 10_000;
/// The reply to a hit of this size is two bytes longer than that to a miss.
const HIT_BYTES: u64 = 1;
const LOAD_BYTES: u64 = 64;

/// An examination, resolved.
#[derive(Debug, Clone)]
pub(crate) struct DoctorPlan {
    /// The common part of all runs; its cases are the probes.
    pub(crate) base: Plan,
    pub(crate) probes: Probes,
    /// Whether findings affect the exit code.
    pub(crate) strict: bool,
}

/// The probes.
#[derive(Debug, Clone)]
pub(crate) struct Probes {
    /// Single round trips.
    pub(crate) idle: Case,
    /// The same at a rate too low to disturb other users.
    pub(crate) gentle: Case,
    /// Full load.
    pub(crate) load: Case,
    /// Pings, which the null server answers, too.
    pub(crate) ping: Case,
    /// Reads that hit; the values are as small as the reply to a miss.
    pub(crate) hit: Case,
    /// Reads that miss.
    pub(crate) miss: Case,
}

/// Resolves the arguments of `loadline doctor`.
///
/// # Errors
/// A usage error for an invalid value or combination.
pub(crate) fn resolve(args: &DoctorArgs, around: &Surroundings) -> Result<DoctorPlan, Failure> {
    let targets = targets::resolve(std::slice::from_ref(&args.target), &args.connection, around)?;
    if let Some(called) = targets.iter().find(|target| target.is_in_process()) {
        return Err(Failure::usage(format!(
            "{called}: the doctor examines only servers, and this target is not a server."
        )));
    }
    let threads = threads(args.threads, CONNECTIONS, around.cores)?;
    let probes = Probes::with(threads);
    Ok(DoctorPlan {
        base: Plan {
            targets,
            cases: probes.all(),
            rounds: ROUNDS,
            warmup: WARMUP,
            protocol: protocol(&args.connection, Protocol::Resp2),
            tls: TlsFiles::given(&args.connection.tls),
            ..Plan::bare(&args.choices, around)
        },
        probes,
        strict: args.strict,
    })
}

impl DoctorPlan {
    /// The same for a target with `masters` masters, each of which needs a connection.
    pub(crate) fn for_masters(&self, masters: u32) -> Self {
        let mut plan = self.clone();
        let probes = &mut plan.probes;
        for case in [
            &mut probes.idle,
            &mut probes.gentle,
            &mut probes.load,
            &mut probes.ping,
            &mut probes.hit,
            &mut probes.miss,
        ] {
            case.connections = case.connections.max(masters);
        }
        plan.base.cases = plan.probes.all();
        plan
    }
}

impl Probes {
    fn with(threads: u32) -> Self {
        let one = Case {
            name: "idle".into(),
            workload: built_in("ping"),
            connections: 1,
            threads: 1,
            pipeline: 1,
            batch: None,
            pacing: Pacing::Closed,
            length: Length::Time(IDLE),
            keys: KEYS,
            key_dist: KeyDist::Uniform,
            value_size: ValueSize::Fixed(LOAD_BYTES),
            value_data: ValueData::Random,
            verify: false,
            codec: None,
            durability: None,
        };
        let get = built_in("get");
        let read = |name: &str, space: &str, keys_are_there: bool| Case {
            name: name.into(),
            workload: Definition {
                name: name.into(),
                space: space.into(),
                load: get.load.clone().filter(|_| keys_are_there),
                ..get.clone()
            },
            length: Length::Time(PAIR),
            value_size: ValueSize::Fixed(HIT_BYTES),
            ..one.clone()
        };
        Self {
            gentle: Case {
                pacing: Pacing::Open {
                    rate: GENTLE_RATE,
                    arrivals: ArrivalProcess::Uniform,
                },
                ..one.clone()
            },
            load: Case {
                name: "load".into(),
                workload: get.clone(),
                connections: CONNECTIONS,
                threads,
                pipeline: PIPELINE,
                length: Length::Time(LOAD),
                ..one.clone()
            },
            ping: Case {
                name: "ping".into(),
                connections: NULL_CONNECTIONS,
                pipeline: PIPELINE,
                length: Length::Time(PAIR),
                ..one.clone()
            },
            hit: read("hit", "doctor-hit", true),
            miss: read("miss", "doctor-miss", false),
            idle: one,
        }
    }

    /// The probes of a target that can be loaded.
    fn all(&self) -> Vec<Case> {
        let all = [&self.idle, &self.load, &self.ping, &self.hit, &self.miss];
        all.into_iter().cloned().collect()
    }
}

fn built_in(name: &str) -> Definition {
    workload::named(name, 1).expect("ping and get are built in")
}
