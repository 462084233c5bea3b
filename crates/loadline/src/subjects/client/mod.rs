//! A server called through loadline-client, in each call mode of an application.

mod operation;
mod typed;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use loadline_client::Error as ClientError;
use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::keys::KeyDist;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::task::{Done, Performer, Tasks};
use loadline_load::workload::{Chooser, Workload};
use loadline_load::{Control, Error};

use super::{load_block, workload};
use crate::exit::Failure;
use crate::plan::{Case, Mode};
use crate::systems::client::{self, Blocking, Connector};
use crate::workload as workloads;
use operation::{Operation, Ready};
use typed::Typed;

pub(crate) use typed::CodecCost;

/// Operations per pipeline while objects are loaded.
const LOAD_SIZE: u32 = 100;

/// Runs the blocks of a cell.
pub(crate) struct Called {
    subject: Box<dyn Subject>,
    /// Operations per call, or tasks in flight.
    size: u64,
    typed: Option<Arc<Typed>>,
}

impl Called {
    /// Cost of the codec since the last call of this method, if values are objects.
    pub(crate) fn take_codec_cost(&self) -> Option<CodecCost> {
        self.typed.as_ref().map(|typed| typed.take())
    }
}

impl Subject for Called {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let outcome = self.subject.block(stop, seed, control)?;
        if outcome.ops > 0 || stop.ops == Some(0) || control.interrupted() {
            return Ok(outcome);
        }
        // Without a call there would be no figure, so one is made even if the time is over.
        let least = stop.ops.map_or(self.size, |ops| ops.min(self.size));
        self.subject.block(Stop::after_ops(least), seed, control)
    }
}

/// Opens the subject of a cell: `case` in `mode`, with `size` operations per call or tasks in flight. `block` is
/// the template of its blocks.
///
/// # Errors
/// If a connection cannot be opened.
pub(crate) fn open(
    connector: &Connector,
    case: &Case,
    mode: Mode,
    size: u32,
    prefix: &str,
    block: Block,
) -> Result<Called, Failure> {
    let seed = block.seed;
    let unreachable = |error: ClientError| Failure::unavailable(format!("{mode}: {error}."));
    let broken = |error: Error| Failure::unavailable(format!("{mode}: {error}."));
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let workload = workload(compiled.commands, case, &case.key_dist, seed).map_err(broken)?;
    let typed = Typed::of(case, seed).map(Arc::new);
    let operation = Operation::of(case, prefix, typed.clone());
    let lost = Lost::default();
    let subject: Box<dyn Subject> = if mode == Mode::Async {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::unavailable(format!("{mode}: {error}.")))?;
        let connection = runtime.block_on(connector.shared()).map_err(unreachable)?;
        let performer = SharedCaller {
            connection,
            operation: Rc::new(operation),
            lost: lost.clone(),
        };
        let tasks = Tasks::new(workload, performer, size as usize, Rc::new(runtime), seed);
        let mut tasks = tasks.map_err(broken)?;
        Box::new(Calls {
            run: move |block: &Block, control: &Control| tasks.run(block, control),
            block,
            lost,
        })
    } else {
        let size = if mode == Mode::Sync { 1 } else { size };
        let caller =
            Caller::open(connector, operation, mode, size, lost.clone()).map_err(unreachable)?;
        let mut callers = Callers::new(workload, vec![caller], false, seed).map_err(broken)?;
        Box::new(Calls {
            run: move |block: &Block, control: &Control| callers.run(block, control),
            block,
            lost,
        })
    };
    Ok(Called {
        subject,
        size: u64::from(size),
        typed,
    })
}

/// Writes the objects of `case` to all of its keys.
///
/// # Errors
/// If the server cannot be reached or refuses a key.
pub(crate) fn load_objects(
    connector: &Connector,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<(), Failure> {
    let writes = Case {
        workload: workloads::named("set", 1).expect("set is built in"),
        key_dist: KeyDist::Sequential,
        ..case.clone()
    };
    let block = load_block(case, seed);
    let mut writer = open(connector, &writes, Mode::Pipeline, LOAD_SIZE, prefix, block)?;
    load_by(&mut writer, case, seed, control)
}

/// Loads every key of `case` into a cluster, with commands that work on any server.
///
/// # Errors
/// If a node cannot be reached or refuses a key.
pub(crate) fn load_cluster(
    connector: &Connector,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<(), Failure> {
    let failed = |error: Error| super::failure(&case.name, &error);
    for operation in Operation::of_load(case, prefix) {
        let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
        let load = compiled.load.into_iter().collect();
        let workload = workload(load, case, &KeyDist::Sequential, seed).map_err(failed)?;
        let lost = Lost::default();
        let caller = Caller::open(
            connector,
            operation,
            Mode::Pipeline,
            LOAD_SIZE,
            lost.clone(),
        )
        .map_err(|error| Failure::unavailable(format!("{}: {error}.", case.name)))?;
        let mut callers = Callers::new(workload, vec![caller], false, seed).map_err(failed)?;
        let mut writer = Calls {
            run: |block: &Block, control: &Control| callers.run(block, control),
            block: load_block(case, seed),
            lost,
        };
        load_by(&mut writer, case, seed, control)?;
    }
    Ok(())
}

/// Makes a subject write every key once.
fn load_by(
    writer: &mut dyn Subject,
    case: &Case,
    seed: u64,
    control: &Control,
) -> Result<(), Failure> {
    let outcome = writer
        .block(Stop::after_ops(case.keys), seed, control)
        .map_err(|error| super::failure(&case.name, &error))?;
    match outcome.errors.iter().next() {
        None => Ok(()),
        Some((kind, count)) => Err(super::load::not_loaded("The target", case, kind, count)),
    }
}

/// The sentence about a lost server. All calls after that fail immediately, because each would wait as long as the
/// first one, and the block ends.
#[derive(Debug, Clone, Default)]
struct Lost(Arc<Gone>);

#[derive(Debug, Default)]
struct Gone {
    sentence: OnceLock<String>,
    /// Ends the block. The run then fails with the sentence, so this is not taken for an interrupt of the user.
    end: OnceLock<Arc<AtomicBool>>,
}

impl Lost {
    fn sentence(&self) -> Option<&str> {
        self.0.sentence.get().map(String::as_str)
    }

    /// Sets the control that ends the blocks; it is the same for all of them.
    fn end_by(&self, control: &Control) {
        self.0.end.get_or_init(|| Arc::clone(&control.interrupt));
    }

    /// The text of `error`, with the server's reply first, because errors are counted by their first word.
    fn note(&self, error: &ClientError) -> String {
        let sentence = match error {
            ClientError::Server(said) => return said.to_string(),
            other => format!("CLIENT {other}"),
        };
        if is_gone(error) {
            self.0.sentence.get_or_init(|| error.to_string());
            if let Some(end) = self.0.end.get() {
                end.store(true, Ordering::Relaxed);
            }
        }
        sentence
    }

    /// Returns `outcome`, or an error if the server was lost meanwhile.
    fn unless_lost(&self, outcome: Outcome) -> Result<Outcome, Error> {
        match self.sentence() {
            None => Ok(outcome),
            Some(sentence) => Err(Error::Subject(sentence.into())),
        }
    }
}

/// Whether `error` concerns the connection and not a single request.
fn is_gone(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Connection { .. }
            | ClientError::Timeout { .. }
            | ClientError::Protocol { .. }
            | ClientError::Login { .. }
            | ClientError::Closed { .. }
            | ClientError::Cluster(_)
    )
}

/// Blocks of calls to a server that can be lost.
struct Calls<R> {
    /// Runs a block.
    run: R,
    /// The template of the blocks.
    block: Block,
    lost: Lost,
}

impl<R: FnMut(&Block, &Control) -> Result<Outcome, Error>> Subject for Calls<R> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        self.lost.end_by(control);
        let outcome = (self.run)(&block, control)?;
        self.lost.unless_lost(outcome)
    }
}

/// A blocking connection in a call mode.
struct Caller {
    connection: Blocking,
    mode: Mode,
    /// Operations per call.
    size: usize,
    operation: Operation,
    /// The prepared calls.
    places: Vec<Vec<Ready>>,
    /// Text of the last error.
    sentence: String,
    lost: Lost,
}

impl Caller {
    fn open(
        connector: &Connector,
        operation: Operation,
        mode: Mode,
        size: u32,
        lost: Lost,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            connection: connector.blocking()?,
            mode,
            size: size as usize,
            operation,
            places: (0..AHEAD).map(|_| Vec::new()).collect(),
            sentence: String::new(),
            lost,
        })
    }
}

impl Callee for Caller {
    fn ops_per_call(&self) -> u64 {
        self.size as u64
    }

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        let ready = &mut self.places[place];
        ready.resize_with(self.size, Ready::default);
        for ready in ready {
            self.operation.fill(ready, chooser, workload);
        }
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        if let Some(sentence) = self.lost.sentence() {
            return Reply::Error(sentence.as_bytes());
        }
        let ready = &mut self.places[place];
        self.operation.encode(ready);
        let given = self
            .operation
            .call(&mut self.connection, self.mode, ready)
            .map_err(|error| self.lost.note(&error));
        match given.and_then(|given| self.operation.judge(ready, &given)) {
            Ok(true) => Reply::Other,
            Ok(false) => Reply::Nil,
            Err(sentence) => {
                self.sentence = sentence;
                Reply::Error(self.sentence.as_bytes())
            }
        }
    }
}

/// A multiplexed connection that tasks share.
#[derive(Clone)]
struct SharedCaller {
    connection: client::SharedConnection,
    operation: Rc<Operation>,
    lost: Lost,
}

impl Performer for SharedCaller {
    type Operation = Ready;

    fn prepare(&self, _: usize, chooser: &mut Chooser, workload: &Workload) -> Ready {
        let mut ready = Ready::default();
        self.operation.fill(&mut ready, chooser, workload);
        ready
    }

    async fn perform(&self, mut ready: Ready) -> Done {
        if let Some(sentence) = self.lost.sentence() {
            return Done::Failed(sentence.to_owned());
        }
        let one = std::slice::from_mut(&mut ready);
        self.operation.encode(one);
        let given = match self.connection.run(self.operation.one(&one[0])).await {
            Ok(given) => given,
            Err(error) => return Done::Failed(self.lost.note(&error)),
        };
        match self.operation.judge(one, &[given]) {
            Ok(true) => Done::Well,
            Ok(false) => Done::Nil,
            Err(sentence) => Done::Failed(sentence),
        }
    }
}
