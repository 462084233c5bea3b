//! What the Redis manager of an application does with connections: the tasks of the suite
//! `manager`, through loadline-client, one at a time on one thread.

mod jobs;
mod made;
mod memory;

use std::fmt::Write;

use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::workload::{Chooser, Number, Part, Workload};
use loadline_load::{Control, Error};

use super::{failure, load_block, workload};
use crate::exit::Failure;
use crate::plan::Case;
use crate::targets::connect::Endpoint;
use crate::targets::{Admin, Counters, SECTIONS};
use crate::workload::Task;

pub(crate) use memory::hold_connections;

/// Where a task goes, by which ways.
pub(super) struct Place<'t> {
    /// What reports call the target.
    pub(super) name: &'t str,
    /// The server as the load reaches it, through a link where there is one.
    pub(super) through: &'t Endpoint,
    /// The server itself, for looking at its counters.
    pub(super) direct: &'t Endpoint,
}

/// Opens what runs the blocks of `case`, whose task is `task`.
///
/// # Errors
/// That a connection cannot be opened.
pub(super) fn open<'t>(
    place: &Place<'t>,
    case: &'t Case,
    task: Task,
    prefix: &str,
    seed: u64,
) -> Result<Box<dyn Subject + 't>, Failure> {
    let server = place.through.server();
    let client = crate::targets::client::client(server, &server.address, place.through.tls());
    let job: Box<dyn Job> = match task {
        Task::Pipeline => Box::new(jobs::Pipeline::open(&client)?),
        Task::PubSub => Box::new(jobs::PubSub::open(client, prefix)?),
        Task::Stream => Box::new(jobs::Stream::open(&client, place.through, prefix)?),
        Task::PoolInit => Box::new(made::PoolInit::new(client)?),
        Task::Connect => Box::new(made::Connect::new(client)),
        Task::ConnectionMemory => return Ok(Box::new(memory::Memory::new(server))),
    };
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let callers = workload(compiled.commands, case, &case.key_dist, seed).and_then(|workload| {
        let caller = Caller {
            job,
            prefix: prefix.to_owned(),
            per_call: task.batch(),
            calls: vec![Call::default(); AHEAD],
            sentence: String::new(),
        };
        Callers::new(workload, vec![caller], false, seed)
    });
    Ok(Box::new(TaskSubject {
        callers: callers.map_err(|error| failure(place.name, &error))?,
        admin: Admin::open(place.direct)?,
        declared: case
            .workload
            .sends()
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect(),
        case,
        task,
        block: load_block(case, seed),
    }))
}

/// A task that could not begin.
fn unreachable(task: &str, error: &impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("{task}: {error}."))
}

/// What one task does, again and again.
trait Job: Send {
    /// Brings about the state that the next call starts from. Not timed. What goes wrong here shows
    /// when the call is performed.
    fn arm(&mut self) {}

    /// Does it once with what was drawn. This is what is timed.
    ///
    /// # Errors
    /// What went wrong, in a sentence that starts with a word for its kind.
    fn perform(&mut self, call: &Call) -> Result<(), String>;
}

/// What was drawn for one call: keys with their values.
#[derive(Debug, Clone, Default)]
struct Call {
    pairs: Vec<(String, Vec<u8>)>,
}

/// Performs a job as the calling loop wants it.
struct Caller {
    job: Box<dyn Job>,
    prefix: String,
    /// Operations per call.
    per_call: u32,
    calls: Vec<Call>,
    /// What the last error said.
    sentence: String,
}

impl Callee for Caller {
    const ARMS: bool = true;

    fn ops_per_call(&self) -> u64 {
        self.per_call.into()
    }

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        let pairs = &mut self.calls[place].pairs;
        pairs.resize_with(self.per_call as usize, Default::default);
        for (key, value) in pairs {
            let number = chooser.number(Number::Key, workload.keys());
            key.clear();
            write!(key, "{}{number:08}", self.prefix).expect("a string takes everything");
            value.clear();
            Part::Payload.append(chooser, workload, value);
        }
    }

    fn arm(&mut self, _: usize) {
        self.job.arm();
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        match self.job.perform(&self.calls[place]) {
            Ok(()) => Reply::Other,
            Err(sentence) => {
                self.sentence = sentence;
                Reply::Error(self.sentence.as_bytes())
            }
        }
    }
}

/// One task on one server, and a second look through the server's own counters.
struct TaskSubject<'t> {
    callers: Callers<Caller>,
    admin: Admin,
    /// The commands that are counted as operations, in lower case.
    declared: Vec<String>,
    case: &'t Case,
    task: Task,
    block: Block,
}

impl TaskSubject<'_> {
    fn counters(&mut self) -> Result<Counters, Error> {
        let info = self
            .admin
            .info(&SECTIONS)
            .map_err(|error| Error::Subject(Box::new(error)))?;
        Ok(Counters::read(&info, &self.declared))
    }
}

impl Subject for TaskSubject<'_> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let before = self.counters()?;
        let block = Block {
            stop: self.case.bounded(stop),
            seed,
            ..self.block
        };
        let mut outcome = self.callers.run(&block, control)?;
        outcome.target = self.counters()?.since(&before);
        if matches!(self.task, Task::PoolInit | Task::Connect) {
            // Connections are what is made here, and no sign of a flaw.
            outcome.target.connections = None;
        }
        Ok(outcome)
    }
}
