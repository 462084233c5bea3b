//! What `loadline doctor` is asked for: a target, and the probes that it is put through.

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

/// How long idle round trips are made: on loopback some ten thousand.
const IDLE: Duration = Duration::from_millis(600);
/// Round trips per second on a server with other users.
const GENTLE_RATE: f64 = 1_000.0;
/// How long the target is loaded.
const LOAD: Duration = Duration::from_millis(900);
/// How long hits, misses and pings are measured, each.
const PAIR: Duration = Duration::from_millis(600);
/// Blocks of each probe: enough for a bound of a ratio.
const ROUNDS: u32 = 12;
const WARMUP: Duration = Duration::from_millis(100);
const CONNECTIONS: u32 = 50;
/// Connections to a server that does nothing: it has a thread for each.
const NULL_CONNECTIONS: u32 = 4;
const PIPELINE: u32 = 16;
const KEYS: u64 = 10_000;
/// A hit of this size is answered with as many bytes as a miss, but for two.
const HIT_BYTES: u64 = 1;
const LOAD_BYTES: u64 = 64;

/// An examination, resolved.
#[derive(Debug, Clone)]
pub(crate) struct DoctorPlan {
    /// What belongs to every run; its cases are the probes.
    pub(crate) base: Plan,
    pub(crate) probes: Probes,
    /// Whether findings show in the exit code.
    pub(crate) strict: bool,
}

/// What the target is put through.
#[derive(Debug, Clone)]
pub(crate) struct Probes {
    /// One round trip after the other.
    pub(crate) idle: Case,
    /// The same at a rate too low to disturb other users.
    pub(crate) gentle: Case,
    /// As much as the two sides carry.
    pub(crate) load: Case,
    /// What a server that does nothing answers as well.
    pub(crate) ping: Case,
    /// Reads that find a value as small as the answer of a miss.
    pub(crate) hit: Case,
    /// Reads that find nothing.
    pub(crate) miss: Case,
}

/// Resolves what was typed.
///
/// # Errors
/// A usage error for what cannot be.
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
    /// The same for a target with this number of masters, each of which needs a connection.
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

    /// The probes of a target that may be loaded.
    fn all(&self) -> Vec<Case> {
        let all = [&self.idle, &self.load, &self.ping, &self.hit, &self.miss];
        all.into_iter().cloned().collect()
    }
}

fn built_in(name: &str) -> Definition {
    workload::named(name, 1).expect("ping and get are built in")
}
