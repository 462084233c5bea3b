//! A server called through loadline-client, in each of the ways in which an application can.

use std::rc::Rc;

use loadline_client::commands::{Script, get, mget, mset, set};
use loadline_client::{Client, Error as ClientError, Password, atomic, blocking, multiplexed};
use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::task::{Done, Performer, Tasks};
use loadline_load::workload::{Chooser, Part, Workload};
use loadline_load::{Control, Error};

use super::{load_block, workload};
use crate::exit::Failure;
use crate::plan::{Case, Mode};
use crate::target::{Address, Server};

/// The scripts of [`Mode::Script`]: one operation per key.
const GET_SCRIPT: &str = "local found = {} for i, key in ipairs(KEYS) do found[i] = redis.call('GET', key) end return found";
const SET_SCRIPT: &str =
    "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i]) end return #KEYS";
/// How long a reply may take beside the added latency: the largest batches are a long way to go.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A client of `server`, which may be reached through a link at `address`.
///
/// # Errors
/// A usage error for a server that is reached by TLS.
pub(crate) fn client(server: &Server, address: &Address) -> Result<Client, Failure> {
    if server.tls {
        return Err(Failure::usage(format!(
            "{server}: call modes are measured without TLS; name the server as redis:// or unix://."
        )));
    }
    let mut builder = Client::builder()
        .address(match address {
            Address::Tcp { host, port } => loadline_client::Address::Tcp {
                host: host.clone(),
                port: *port,
            },
            Address::Unix(path) => loadline_client::Address::Unix(path.clone()),
        })
        .database(server.database)
        .client_name(crate::connect::CLIENT_NAME)
        .connect_timeout(PATIENCE)
        .response_timeout(Some(PATIENCE));
    if let Some(password) = &server.login.password {
        let password = Password::new(password.reveal());
        builder = match &server.login.user {
            Some(user) => builder.login(user.clone(), password),
            None => builder.password(password),
        };
    }
    Ok(builder.build())
}

/// Opens what runs the blocks of a cell: `case` in `mode`, with `size` operations per call or tasks
/// in flight.
///
/// # Errors
/// That a connection cannot be opened.
pub(crate) fn open(
    client: &Client,
    case: &Case,
    mode: Mode,
    size: u32,
    prefix: &str,
    seed: u64,
) -> Result<Box<dyn Subject>, Failure> {
    let unreachable = |error: ClientError| Failure::unavailable(format!("{mode}: {error}."));
    let broken = |error: Error| Failure::unavailable(format!("{mode}: {error}."));
    let is_set = case.workload.name == "set";
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let workload = workload(compiled.commands, case, &case.key_dist, seed).map_err(broken)?;
    let parts = Parts::of(case, prefix);
    let block = load_block(case, seed);
    if mode == Mode::Async {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::unavailable(format!("{mode}: {error}.")))?;
        let connection = runtime
            .block_on(client.multiplexed())
            .map_err(unreachable)?;
        let performer = Shared {
            connection,
            parts: Rc::new(parts),
            is_set,
        };
        let tasks = Tasks::new(workload, performer, size as usize, Rc::new(runtime), seed);
        return Ok(Box::new(AsyncSubject {
            tasks: tasks.map_err(broken)?,
            block,
        }));
    }
    let caller = Caller {
        connection: client.blocking().map_err(unreachable)?,
        mode,
        is_set,
        script: Script::new(if is_set { SET_SCRIPT } else { GET_SCRIPT }),
        size: if mode == Mode::Sync { 1 } else { size as usize },
        parts,
        places: (0..AHEAD).map(|_| Place::default()).collect(),
        sentence: String::new(),
    };
    let callers = Callers::new(workload, vec![caller], false, seed).map_err(broken)?;
    Ok(Box::new(CallSubject { callers, block }))
}

/// What a key and a value are made of.
#[derive(Debug)]
struct Parts {
    key: Vec<Part>,
}

impl Parts {
    fn of(case: &Case, prefix: &str) -> Self {
        let (operations, _) = case.workload.calls(prefix, case.keys);
        let key = operations[0][0].arguments[0].clone();
        Self { key }
    }

    fn fill(&self, pair: &mut Pair, is_set: bool, chooser: &mut Chooser, workload: &Workload) {
        let (key, value) = pair;
        key.clear();
        value.clear();
        for part in &self.key {
            part.append(chooser, workload, key);
        }
        if is_set {
            Part::Payload.append(chooser, workload, value);
        }
    }
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// A call that is ready.
#[derive(Debug, Default)]
struct Place {
    pairs: Vec<Pair>,
}

/// A blocking connection and how it is called.
struct Caller {
    connection: blocking::Connection,
    mode: Mode,
    is_set: bool,
    script: Script,
    /// Operations per call.
    size: usize,
    parts: Parts,
    places: Vec<Place>,
    /// What the last error said.
    sentence: String,
}

struct CallSubject {
    callers: Callers<Caller>,
    block: Block,
}

impl Subject for CallSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        self.callers.run(&block, control)
    }
}

impl Callee for Caller {
    fn ops_per_call(&self) -> u64 {
        self.size as u64
    }

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        let pairs = &mut self.places[place].pairs;
        pairs.resize_with(self.size, Pair::default);
        for pair in pairs {
            self.parts.fill(pair, self.is_set, chooser, workload);
        }
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        let pairs = &self.places[place].pairs;
        let said = if self.is_set {
            write(&mut self.connection, self.mode, &self.script, pairs)
        } else {
            read(&mut self.connection, self.mode, &self.script, pairs)
        };
        match said {
            Ok(true) => Reply::Other,
            Ok(false) => Reply::Nil,
            Err(error) => {
                self.sentence = error.to_string();
                Reply::Error(self.sentence.as_bytes())
            }
        }
    }
}

/// Values as an application has them: each its own.
type Found = Option<Vec<u8>>;

/// Reads every key and says whether all were there.
fn read(
    connection: &mut blocking::Connection,
    mode: Mode,
    script: &Script,
    pairs: &[Pair],
) -> Result<bool, ClientError> {
    let keys = || pairs.iter().map(|(key, _)| key.as_slice());
    let commands = || keys().map(get::<Found>).collect::<Vec<_>>();
    let all_there = |found: Vec<Found>| found.iter().all(Option::is_some);
    match mode {
        Mode::Sync | Mode::Async => Ok(connection.run(get::<Found>(&pairs[0].0))?.is_some()),
        Mode::Pipeline => {
            let found = connection.run(commands());
            Ok(all_there(found.into_iter().collect::<Result<_, _>>()?))
        }
        Mode::Batch => {
            let keys: Vec<&[u8]> = keys().collect();
            Ok(all_there(connection.run(mget(&keys))?))
        }
        Mode::Transaction => {
            let found = connection.run(atomic(commands()))?.unwrap_or_default();
            Ok(all_there(found.into_iter().collect::<Result<_, _>>()?))
        }
        Mode::Script => {
            let keys: Vec<&[u8]> = keys().collect();
            Ok(all_there(connection.run(script.call(&keys, ()))?))
        }
    }
}

/// Writes every pair.
fn write(
    connection: &mut blocking::Connection,
    mode: Mode,
    script: &Script,
    pairs: &[Pair],
) -> Result<bool, ClientError> {
    let commands = || {
        pairs
            .iter()
            .map(|(key, value)| set(key, value))
            .collect::<Vec<_>>()
    };
    match mode {
        Mode::Sync | Mode::Async => connection.run(set(&pairs[0].0, &pairs[0].1))?,
        Mode::Pipeline => connection
            .run(commands())
            .into_iter()
            .collect::<Result<(), _>>()?,
        Mode::Batch => {
            let pairs: Vec<(&[u8], &[u8])> = pairs
                .iter()
                .map(|(key, value)| (key.as_slice(), value.as_slice()))
                .collect();
            connection.run(mset(&pairs))?;
        }
        Mode::Transaction => {
            let done = connection.run(atomic(commands()))?.unwrap_or_default();
            done.into_iter().collect::<Result<(), _>>()?;
        }
        Mode::Script => {
            let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| key.as_slice()).collect();
            let values: Vec<&[u8]> = pairs.iter().map(|(_, value)| value.as_slice()).collect();
            let _: i64 = connection.run(script.call(&keys, &values))?;
        }
    }
    Ok(true)
}

/// A multiplexed connection that tasks share.
#[derive(Clone)]
struct Shared {
    connection: multiplexed::Connection,
    parts: Rc<Parts>,
    is_set: bool,
}

struct AsyncSubject {
    tasks: Tasks<Shared>,
    block: Block,
}

impl Subject for AsyncSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        self.tasks.run(&block, control)
    }
}

impl Performer for Shared {
    type Operation = Pair;

    fn prepare(&self, _: usize, chooser: &mut Chooser, workload: &Workload) -> Pair {
        let mut pair = Pair::default();
        self.parts.fill(&mut pair, self.is_set, chooser, workload);
        pair
    }

    async fn perform(&self, (key, value): Pair) -> Done {
        let said = if self.is_set {
            self.connection.run(set(&key, &value)).await.map(|()| true)
        } else {
            let found = self.connection.run(get::<Found>(&key)).await;
            found.map(|found| found.is_some())
        };
        match said {
            Ok(true) => Done::Well,
            Ok(false) => Done::Nil,
            Err(error) => Done::Failed(error.to_string()),
        }
    }
}
