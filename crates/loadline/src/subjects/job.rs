//! Cases that a job performs through loadline-client, one call at a time on one thread.

use std::fmt::Write;
use std::sync::Arc;

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
use crate::systems::client::client;
use crate::systems::connect::Endpoint;
use crate::systems::{Admin, Counters, SECTIONS};
use crate::workload::{Calls, Job, OpenJob, Site};

/// The server of a job.
pub(super) struct JobServer<'t> {
    /// Name of the target in reports.
    pub(super) name: &'t str,
    /// The server as the load reaches it, through a link if there is one.
    pub(super) through: &'t Endpoint,
    /// The server without a link, for reading its counters.
    pub(super) direct: &'t Endpoint,
}

/// Opens the subject that runs the blocks of `case`, performed by `job`.
///
/// # Errors
/// If a connection cannot be opened.
pub(super) fn open<'t>(
    place: &JobServer<'t>,
    case: &'t Case,
    job: &'static dyn Job,
    prefix: &str,
    seed: u64,
) -> Result<Box<dyn Subject + 't>, Failure> {
    let server = place.through.server();
    let endpoint = place.through.clone();
    let open = job.open(Site {
        client: client(
            server,
            &server.address,
            place.through.tls(),
            place.through.protocol(),
        ),
        server,
        socket: Arc::new(move || endpoint.socket()),
        prefix: prefix.to_owned(),
    })?;
    let calls = match open {
        OpenJob::Calls(calls) => calls,
        OpenJob::Blocks(subject) => return Ok(subject),
    };
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let callers = workload(compiled.commands, case, &case.key_dist, seed).and_then(|workload| {
        let caller = Caller {
            job: calls,
            prefix: prefix.to_owned(),
            per_call: job.batch(),
            pairs: vec![Vec::new(); AHEAD],
            sentence: String::new(),
        };
        Callers::new(workload, vec![caller], false, seed)
    });
    Ok(Box::new(JobSubject {
        callers: callers.map_err(|error| failure(place.name, &error))?,
        admin: Admin::open(place.direct)?,
        declared: case
            .workload
            .sends()
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect(),
        case,
        job,
        block: load_block(case, seed),
    }))
}

/// Performs a job for the call loop.
struct Caller {
    job: Box<dyn Calls>,
    prefix: String,
    /// Operations per call.
    per_call: u32,
    /// Keys and values of the calls that are prepared.
    pairs: Vec<Vec<(String, Vec<u8>)>>,
    /// The text of the last error.
    sentence: String,
}

impl Callee for Caller {
    const ARMS: bool = true;

    fn ops_per_call(&self) -> u64 {
        self.per_call.into()
    }

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        let pairs = &mut self.pairs[place];
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
        match self.job.perform(&self.pairs[place]) {
            Ok(()) => Reply::Other,
            Err(sentence) => {
                self.sentence = sentence;
                Reply::Error(self.sentence.as_bytes())
            }
        }
    }
}

/// One job on one server; the server's own counters are the cross-check.
struct JobSubject<'t> {
    callers: Callers<Caller>,
    admin: Admin,
    /// Commands that are counted as operations, in lower case.
    declared: Vec<String>,
    case: &'t Case,
    job: &'static dyn Job,
    block: Block,
}

impl JobSubject<'_> {
    fn counters(&mut self) -> Result<Counters, Error> {
        let info = self
            .admin
            .info(&SECTIONS)
            .map_err(|error| Error::Subject(Box::new(error)))?;
        Ok(Counters::read(&info, &self.declared))
    }
}

impl Subject for JobSubject<'_> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let before = self.counters()?;
        let block = Block {
            stop: self.case.bounded(stop),
            seed,
            ..self.block
        };
        let mut outcome = self.callers.run(&block, control)?;
        outcome.target = self.counters()?.since(&before);
        if self.job.makes_connections() {
            // The case measures new connections, so their number is no finding.
            outcome.target.connections = None;
        }
        Ok(outcome)
    }
}
