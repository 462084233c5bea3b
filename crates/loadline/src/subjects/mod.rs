//! What is measured: a target, opened, and the wire subject that runs a case's blocks on it.

mod counters;
mod wire;

use loadline_load::block::Block;
use loadline_load::keys::KeyDist;
use loadline_load::pacing::{Pacing, Stop};
use loadline_load::values::Values;
use loadline_load::wire::{Session, Shape};
use loadline_load::workload::{Command, KeySpace, Workload};
use loadline_load::{Control, Error};

use crate::admin::{Admin, Info};
use crate::connect::Endpoint;
use crate::exit::Failure;
use crate::framing::RespFraming;
use crate::plan::{Case, Plan, run_prefix};
use crate::servers::Child;
use crate::target::{Server, Target};
use crate::tls::TlsClient;

pub(crate) use counters::Counters;
pub(crate) use wire::WireSubject;

/// Commands in flight per connection while keys are loaded.
const LOAD_PIPELINE: u32 = 64;
/// Connections that load keys.
const LOAD_CONNECTIONS: usize = 4;

/// A target that can be measured: started where it is ours, reachable, and allowed.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What reports call it.
    pub(crate) name: String,
    /// The target as it was planned.
    pub(crate) target: Target,
    /// Where connections go.
    pub(crate) endpoint: Endpoint,
    /// What the server said about itself before the run.
    pub(crate) info: Info,
    admin: Admin,
    /// The spaces whose keys are there already.
    loaded: Vec<String>,
    _child: Option<Child>,
}

impl Opened {
    /// Starts or reaches `target`. Must be called on the main thread, since children are tied to it.
    ///
    /// # Errors
    /// That it does not start or answer, holds keys and may not be measured, or lacks a command.
    pub(crate) fn open(target: &Target, plan: &Plan) -> Result<Self, Failure> {
        let (server, child) = match target {
            Target::Server(server) => (server.clone(), None),
            Target::Embedded => started(Child::embedded()?),
            Target::Spawn(program) => started(Child::spawn(program)?),
        };
        let tls = server.tls.then(|| TlsClient::new(&plan.tls)).transpose()?;
        let endpoint = Endpoint::new(server, plan.protocol, tls);
        let mut admin = Admin::open(&endpoint)?;
        let info = admin.info(&[])?;
        let name = target.to_string();
        if !target.is_ours() && !plan.allow_non_empty {
            admin.refuse_keys()?;
        }
        for case in &plan.cases {
            admin.require(&case.name, &case.workload.needs())?;
        }
        Ok(Self {
            name,
            target: target.clone(),
            endpoint,
            info,
            admin,
            loaded: Vec::new(),
            _child: child,
        })
    }

    /// The setting `name`, where the server tells it.
    pub(crate) fn setting(&mut self, name: &str) -> Option<String> {
        self.admin.setting(name).ok().flatten()
    }

    /// Brings every key of the case's space in, once per run.
    ///
    /// # Errors
    /// That the server refused a key or went away.
    pub(crate) fn load(
        &mut self,
        case: &Case,
        run_id: &str,
        seed: u64,
        control: &Control,
    ) -> Result<(), Failure> {
        if self.loaded.contains(&case.workload.space) {
            return Ok(());
        }
        let prefix = case.prefix(run_id);
        let Some(command) = case
            .workload
            .compile(&prefix, case.keys, &case.value_size)
            .load
        else {
            return Ok(());
        };
        let workload = workload(vec![command], case, &KeyDist::Sequential, seed)
            .map_err(|error| failure(&self.name, &error))?;
        let shape = Shape {
            connections: LOAD_CONNECTIONS,
            threads: 1,
            window: LOAD_PIPELINE,
            verify: false,
            seed,
        };
        let block = Block {
            pacing: Pacing::Closed,
            stop: Stop::after_ops(case.keys),
            interval: crate::INTERVAL,
            seed,
        };
        let outcome = Session::open(workload, &self.endpoint, RespFraming::new, shape)
            .and_then(|mut session| session.run(&block, control))
            .map_err(|error| failure(&self.name, &error))?;
        if let Some((kind, count)) = outcome.errors.iter().next() {
            return Err(Failure::unavailable(format!(
                "{}: {count} of {} keys of {} could not be loaded: {kind}.",
                self.name, case.keys, case.name
            )));
        }
        self.loaded.push(case.workload.space.clone());
        Ok(())
    }

    /// Removes what this run wrote, where the server lives on.
    ///
    /// # Errors
    /// That the server does not answer; the sentence names what is left.
    pub(crate) fn clean_up(&mut self, run_id: &str) -> Result<(), Failure> {
        if self.target.is_ours() {
            return Ok(());
        }
        // The connection may have broken meanwhile, and the keys must go all the same.
        let prefix = run_prefix(run_id);
        if self.admin.remove_prefix(&prefix).is_err() {
            self.admin = Admin::open(&self.endpoint)?;
            self.admin.remove_prefix(&prefix)?;
        }
        Ok(())
    }
}

fn started(child: Child) -> (Server, Option<Child>) {
    (child.server(), Some(child))
}

/// The commands of a case over its keys and values.
pub(crate) fn workload(
    commands: Vec<Command>,
    case: &Case,
    dist: &KeyDist,
    seed: u64,
) -> Result<Workload, Error> {
    let keys = KeySpace::new(dist, case.keys, case.in_flight())?;
    let values = Values::new(case.value_size.clone(), case.value_data, seed)?;
    Workload::new(commands, keys, values)
}

/// What a load says, as an error of the program.
pub(crate) fn failure(name: &str, error: &Error) -> Failure {
    match error {
        Error::Plan(why) => Failure::usage(format!("{name}: {why}.")),
        _ => Failure::unavailable(format!("{name}: {error}.")),
    }
}
