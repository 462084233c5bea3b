//! Subjects: they run the blocks of a case on a target, one implementation for each kind of target.

mod calls;
pub(crate) mod client;
mod colocated;
mod counted;
mod counted_client;
mod driver;
mod engine;
mod job;
mod load;
mod lockstep;
mod masters;
mod null;
mod reference;
mod tail;
pub(crate) mod tier;
mod wire;
mod writers;

use std::slice;
use std::time::Duration;

use loadline_load::block::Block;
use loadline_load::keys::KeyDist;
use loadline_load::pacing::{Pacing, Stop};
use loadline_load::runner::Subject;
use loadline_load::values::Values;
use loadline_load::workload::{Command, KeySpace, Workload};
use loadline_load::{Control, Error};

use crate::exit::Failure;
use crate::plan::{Case, KEYS, Plan};
use crate::spelling::Target;
use crate::systems::hints::hint;
use crate::systems::servers::Child;
use crate::systems::{Access, Opened, Refusals};
use calls::CallSubject;
use engine::EngineSubject;
use masters::ClusterSubject;
use wire::{LoadServer, WireSubject};

pub(crate) use counted::{Counted, can_count};
pub(crate) use counted_client::{CountedClient, obey};
pub(crate) use driver::{Admins, Driven, DriverSubject};
pub(crate) use load::load;
pub(crate) use null::NullPings;
pub(crate) use reference::Reference;
pub(crate) use writers::{Reading, Writers, Written, driven};

/// The length of an interval of the series in a record.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time limit for operations in a simulator.
const LONGEST_PASS: Duration = Duration::from_secs(60);

/// Opens `target` for the cases of `plan`. Must be called on the main thread, because child processes end with the
/// thread that starts them.
///
/// # Errors
/// Those of [`Opened::open`], and if the target lacks a command that a case needs, or denies it to this user.
pub(crate) fn open(target: &Target, plan: &Plan, control: &Control) -> Result<Opened, Failure> {
    let mut opened = Opened::open(target, plan, control)?;
    let refusals = opened.refusals(&plan.cases, &[])?;
    for case in &plan.cases {
        require(&mut opened, case)?;
        require_rights(&mut opened, case, &refusals)?;
    }
    Ok(opened)
}

/// Does the same as [`require`] for commands that the user has no right to run.
fn require_rights(target: &mut Opened, case: &Case, refusals: &Refusals) -> Result<(), Failure> {
    let needs = case.workload.needs();
    let mut refused = refusals.iter().filter(|(name, _)| needs.contains(name));
    let Some((name, said)) = refused.next() else {
        return Ok(());
    };
    if case.workload.rules.bundle.is_some() {
        let rights = std::iter::once((name, said)).chain(refused);
        let missing = rights.map(|(name, _)| format!("right to run {name}"));
        target.left_out.push((case.name.clone(), missing.collect()));
        return Ok(());
    }
    Err(Failure::unavailable(format!(
        "{}: {name}, which workload {} needs, was answered `{said}`. No keys were loaded.\n\
         Allow its user +{} on ~{KEYS}* with ACL SETUSER, log in as another user, or leave this workload out.",
        target.name,
        case.name,
        name.to_ascii_lowercase(),
    )))
}

/// Leaves out a case of a bundle that `target` does not support, and refuses any other such case.
fn require(target: &mut Opened, case: &Case) -> Result<(), Failure> {
    let rules = &case.workload.rules;
    let missing = match &mut target.access {
        Access::Server(server)
            if server.endpoint.server().tls
                && rules.job.is_some_and(|job| !job.works_over_tls()) =>
        {
            vec!["connection without TLS".into()]
        }
        Access::Server(server) => server.admin.missing_commands(&case.workload.needs())?,
        Access::Cluster(_) if rules.job.is_some() => {
            vec!["single node for all keys".into()]
        }
        Access::Cluster(cluster) => cluster.admin.missing_commands(&case.workload.needs())?,
        Access::Engine(_) if case.durability.is_some() => Vec::new(),
        Access::Engine(_) => calls::missing(&case.workload)
            .into_iter()
            .map(Into::into)
            .collect(),
    };
    if missing.is_empty() {
        return Ok(());
    }
    if rules.bundle.is_some() {
        target.left_out.push((case.name.clone(), missing));
        return Ok(());
    }
    Err(Failure::unavailable(format!(
        "{} does not have {}, which workload {} needs.\nLeave this target or this workload out.",
        target.name,
        missing.join(" and "),
        case.name
    )))
}

/// Creates the subject that runs the blocks of `case` on `target`.
///
/// # Errors
/// If a connection cannot be opened.
pub(crate) fn of<'s>(
    target: &'s Opened,
    case: &'s Case,
    run_id: &str,
    seed: u64,
) -> Result<Box<dyn Subject + 's>, Failure> {
    let prefix = case.prefix(run_id);
    if case.durability.is_some() {
        let subject = EngineSubject::open(target, case, &prefix, seed);
        return Ok(Box::new(
            subject.map_err(|error| failure(&target.name, &error))?,
        ));
    }
    Ok(match &target.access {
        Access::Server(server) => {
            let further = server.path.as_ref().map(|(_, further)| further);
            let through = further.unwrap_or(&server.endpoint);
            let direct = &server.endpoint;
            if let Some(job) = case.workload.rules.job {
                let place = job::JobServer {
                    name: &target.name,
                    through,
                    direct,
                };
                return job::open(&place, case, job, &prefix, seed);
            }
            let place = LoadServer {
                through: through.clone(),
                direct: direct.clone(),
                prefix: prefix.clone(),
                keys: case.keys,
            };
            let subject = WireSubject::open(&target.name, slice::from_ref(&place), case, seed)?;
            // Behind a link, an operation also waits for the link's own thread, which is not monitored.
            if target.with_tails && server.path.is_none() {
                let child = server.child.as_ref().map(Child::pid);
                Box::new(subject.with_tail(child, direct, &prefix, seed)?)
            } else {
                Box::new(subject)
            }
        }
        Access::Cluster(cluster) => Box::new(ClusterSubject::open(cluster, case, prefix, seed)?),
        Access::Engine(engine) => Box::new(
            CallSubject::open(engine, case, &prefix, seed)
                .map_err(|error| failure(&target.name, &error))?,
        ),
    })
}

/// The block that loads the keys of a case.
pub(crate) fn load_block(case: &Case, seed: u64) -> Block {
    Block {
        pacing: Pacing::Closed,
        stop: Stop::after_ops(case.keys),
        interval: INTERVAL,
        seed,
    }
}

/// The commands of a case over its keys and values.
fn workload(
    commands: Vec<Command>,
    case: &Case,
    dist: &KeyDist,
    seed: u64,
) -> Result<Workload, Error> {
    let keys = KeySpace::new(dist, case.keys, case.in_flight())?;
    let values = Values::new(case.value_size.clone(), case.value_data, seed)?;
    Workload::new(commands, keys, values)
}

/// Converts an error of the load generator into a failure.
pub(crate) fn failure(name: &str, error: &Error) -> Failure {
    match error {
        Error::Plan(why) => Failure::usage(format!("{name}: {why}.")),
        _ => {
            let said = error.to_string();
            // The error of a subject can already be a whole sentence.
            let failure = Failure::unavailable(format!("{name}: {}.", said.trim_end_matches('.')));
            match hint(&said).filter(|_| !said.contains('\n')) {
                Some(hint) => failure.followed_by(hint),
                None => failure,
            }
        }
    }
}
