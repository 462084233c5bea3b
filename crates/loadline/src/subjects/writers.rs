//! Writers of a failover: writes of new keys in an open loop through one loadline-client, with the outcome of each as the
//! client reports it. No write is repeated.
//!
//! It keeps no histograms and is not a fourth loop beside those of loadline-load: a history needs each write with its
//! outcome, and the task loop is a closed one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use loadline_client::pool::{self, Pool};
use loadline_client::{Error, OwnedReply, Request, atomic, cmd};
use loadline_load::pacing::{ArrivalProcess, Arrivals};
use loadline_measure::failover::{Kind, Operation, Outcome, WriteId};
use tokio::task::{JoinSet, LocalSet};

use crate::exit::{Exit, Failure};
use crate::systems::client::{Blocking, Connector, SharedConnection};
use crate::units::nanoseconds;

/// The script of a [`Kind::Lua`].
const SCRIPT: &str = "return redis.call('INCR', KEYS[1])";
/// The commands of a [`Kind::Multi`], each an INCRBY of 1: not an INCR, so that the fault proxy counts only its EXEC.
const TOGETHER: u64 = 2;
/// Time limit for writes under way at the end of the load: the client gives them up before.
const GRACE: Duration = Duration::from_secs(5);
/// Interval at which an interrupt is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Interval between checks of a pool.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// Keys that are read at once.
const READ_TOGETHER: usize = 500;
/// Kinds of errors that are counted separately.
const MOST_KINDS: usize = 32;

/// A load of writers.
#[derive(Debug)]
pub(crate) struct Writers {
    pub(crate) connector: Connector,
    /// The prefix of the keys.
    pub(crate) prefix: String,
    /// The kinds of write, which take turns.
    pub(crate) kinds: Vec<Kind>,
    /// A hash tag for each writer.
    pub(crate) tags: Vec<String>,
    /// Writes per second of all writers.
    pub(crate) rate: u64,
    pub(crate) time: Duration,
    /// The pool through which they write; `None` if they share one connection.
    pub(crate) pool: Option<pool::Limits>,
}

/// The way of a write to the client.
#[derive(Debug, Clone)]
enum Route {
    Shared(SharedConnection),
    /// A connection of the pool for each write.
    Pool(Pool),
}

impl Route {
    async fn run<T>(&self, request: impl Request<Output = Result<T, Error>>) -> Result<T, Error> {
        match self {
            Self::Shared(connection) => connection.run(request).await,
            Self::Pool(pool) => pool.get().await?.run(request).await,
        }
    }

    /// Writes once.
    async fn write(&self, kind: &Kind, key: String, value: String) -> Result<(), Error> {
        let request = match kind {
            Kind::Multi => {
                let one = || cmd::<OwnedReply>("INCRBY").arg(key.as_str()).arg(1);
                let done = self.run(atomic((one(), one()))).await?;
                // Without watched keys, the server always executes it.
                return done.map_or(Ok(()), |(first, second)| first.and(second).map(drop));
            }
            Kind::Set => cmd("SET").arg(key).arg(value),
            Kind::Lua => cmd("EVAL").arg(SCRIPT).arg(1).arg(key),
            Kind::Xadd => cmd("XADD").arg(key).arg("*").arg("write").arg(value),
            _ => cmd::<OwnedReply>("INCR").arg(key),
        };
        self.run(request).await.map(drop)
    }
}

/// The writes of a load.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) operations: Vec<Operation>,
    /// Writes that were sent, for each kind.
    pub(crate) sent: Vec<u64>,
    /// The kinds of errors.
    pub(crate) errors: Vec<String>,
    /// The end of the load, in nanoseconds since its start.
    pub(crate) end_ns: u64,
    /// Checks of the pool that found it usable, if there is one: begin and end.
    pub(crate) pool_checks: Option<Vec<(u64, u64)>>,
}

impl Writers {
    /// Writes until the time is over or `is_over`, and sends the time of the start to `begun` once the client is connected.
    ///
    /// # Errors
    /// If the client cannot connect, or the runtime cannot be made.
    pub(crate) fn run(
        &self,
        begun: &SyncSender<Instant>,
        is_over: impl Fn() -> bool,
    ) -> Result<Written, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::Internal, format!("No runtime: {error}.")))?;
        LocalSet::new().block_on(&runtime, async {
            let route = self.route().await.map_err(|error| unreachable(&error))?;
            let start = Instant::now();
            // The receiver is gone only if the fault has failed.
            let _ = begun.send(start);
            let checks = Rc::new(RefCell::new(Vec::new()));
            let checking = match (&route, self.pool) {
                (Route::Pool(pool), Some(limits)) => {
                    let check = check(pool.clone(), limits.min, start, Rc::clone(&checks));
                    Some(tokio::task::spawn_local(check))
                }
                _ => None,
            };
            let mut written = self.write(&route, start, is_over).await;
            if let Some(checking) = checking {
                checking.abort();
                written.pool_checks = Some(checks.take());
            }
            Ok(written)
        })
    }

    async fn route(&self) -> Result<Route, Error> {
        if let Some(limits) = self.pool
            && let Some(pool) = self.connector.pool(limits).await
        {
            return pool.map(Route::Pool);
        }
        self.connector.shared().await.map(Route::Shared)
    }

    async fn write(&self, route: &Route, start: Instant, is_over: impl Fn() -> bool) -> Written {
        let written = Rc::new(RefCell::new(Written {
            sent: vec![0; self.kinds.len()],
            ..Written::default()
        }));
        let mut tasks = JoinSet::new();
        let mut arrivals = Arrivals::new(self.rate as f64, ArrivalProcess::Uniform, 0, 1, 0);
        let end_ns = nanoseconds(self.time);
        let mut number = 0;
        while arrivals.next_ns() < end_ns && !is_over() {
            let due_ns = arrivals.next_ns();
            let due = start + Duration::from_nanos(due_ns);
            arrivals.advance();
            if due > Instant::now() {
                tokio::time::sleep_until(due.into()).await;
            } else {
                // A load that is late must not keep replies waiting.
                tokio::task::yield_now().await;
            }
            let route = route.clone();
            tasks.spawn_local(self.one((number, due_ns), route, start, Rc::clone(&written)));
            number += 1;
            while tasks.try_join_next().is_some() {}
        }
        let ended = Instant::now();
        while !tasks.is_empty() && !is_over() && ended.elapsed() < GRACE {
            // A timeout only means that it is time to look again.
            let _ = tokio::time::timeout(LOOK_EVERY, tasks.join_next()).await;
        }
        drop(tasks);
        let now_ns = nanoseconds(start.elapsed());
        let mut written = written.take();
        for operation in &mut written.operations {
            // Writes that the client never answered: their outcome is unknown.
            if operation.completed_ns == u64::MAX {
                operation.completed_ns = now_ns;
            }
        }
        written.end_ns = end_ns.min(nanoseconds(ended - start));
        written
    }

    /// Write number `number` of all writers.
    fn one(
        &self,
        (number, due_ns): (u64, u64),
        route: Route,
        start: Instant,
        written: Rc<RefCell<Written>>,
    ) -> impl Future<Output = ()> + use<> {
        let writers = self.tags.len() as u64;
        let id = WriteId {
            writer: (number % writers) as u32,
            sequence: number / writers,
        };
        let kind = (id.sequence % self.kinds.len() as u64) as usize;
        let (key, of_kind) = (self.key(id, kind), self.kinds[kind].clone());
        async move {
            let place = written.borrow_mut().begin(Operation {
                id,
                kind,
                due_ns,
                invoked_ns: nanoseconds(start.elapsed()),
                completed_ns: u64::MAX,
                outcome: Outcome::Ambiguous,
                error: None,
                executions: 0,
            });
            let replied = route.write(&of_kind, key, value(id)).await;
            let now_ns = nanoseconds(start.elapsed());
            written
                .borrow_mut()
                .end(place, now_ns, replied.err().as_ref());
        }
    }

    fn key(&self, id: WriteId, kind: usize) -> String {
        let tag = &self.tags[id.writer as usize];
        format!(
            "{}{{{tag}}}:{}:{}",
            self.prefix, self.kinds[kind], id.sequence
        )
    }

    /// Reads every key, and notes how many times each write was executed.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(crate) fn count_executions(&self, operations: &mut [Operation]) -> Result<(), Failure> {
        let mut connection = self
            .connector
            .blocking()
            .map_err(|error| unreachable(&error))?;
        // The keys of a writer are in one slot, so that a cluster can read them together.
        let mut together = BTreeMap::<_, Vec<&mut Operation>>::new();
        for operation in operations {
            let group = (operation.id.writer, operation.kind);
            together.entry(group).or_default().push(operation);
        }
        for ((_, kind), mut operations) in together {
            for some in operations.chunks_mut(READ_TOGETHER) {
                let keys = some.iter().map(|operation| self.key(operation.id, kind));
                self.count(&mut connection, kind, keys.collect(), some)
                    .map_err(|error| unreachable(&error))?;
            }
        }
        Ok(())
    }

    /// Notes the executions of `operations`, all of one kind, from the values of their keys.
    fn count(
        &self,
        connection: &mut Blocking,
        kind: usize,
        keys: Vec<String>,
        operations: &mut [&mut Operation],
    ) -> Result<(), Error> {
        if self.kinds[kind] == Kind::Xadd {
            let lengths = keys.into_iter().map(|key| cmd::<u64>("XLEN").arg(key));
            let lengths = connection.run(lengths.collect::<Vec<_>>());
            for (operation, length) in operations.iter_mut().zip(lengths) {
                operation.executions = length?;
            }
            return Ok(());
        }
        let values = connection.run(cmd::<Vec<Option<String>>>("MGET").arg(keys))?;
        for (operation, found) in operations.iter_mut().zip(values) {
            operation.executions = executions(&self.kinds[kind], operation.id, found.as_deref());
        }
        Ok(())
    }
}

/// Notes again and again when `count` connections of the pool answered at the same time.
async fn check(pool: Pool, count: usize, start: Instant, checks: Rc<RefCell<Vec<(u64, u64)>>>) {
    loop {
        let begun_ns = nanoseconds(start.elapsed());
        let mut lent = Vec::with_capacity(count);
        while lent.len() < count {
            let Ok(connection) = pool.get().await else {
                break;
            };
            lent.push(connection);
        }
        let mut answers = 0;
        for connection in &mut lent {
            let answer = connection.run(cmd::<OwnedReply>("PING")).await;
            answers += usize::from(answer.is_ok());
        }
        drop(lent);
        if answers == count {
            let ended_ns = nanoseconds(start.elapsed());
            checks.borrow_mut().push((begun_ns, ended_ns));
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
}

fn value(id: WriteId) -> String {
    format!("{}:{}", id.writer, id.sequence)
}

/// The executions of a write whose key has this value.
fn executions(kind: &Kind, id: WriteId, found: Option<&str>) -> u64 {
    let number = || found.and_then(|found| found.parse().ok()).unwrap_or(0_u64);
    match kind {
        Kind::Set => u64::from(found == Some(value(id).as_str())),
        Kind::Multi => number().div_ceil(TOGETHER),
        _ => number(),
    }
}

impl Written {
    fn begin(&mut self, operation: Operation) -> usize {
        self.sent[operation.kind] += 1;
        self.operations.push(operation);
        self.operations.len() - 1
    }

    fn end(&mut self, place: usize, now_ns: u64, error: Option<&Error>) {
        let kind = error.and_then(|error| self.kind(word(error)));
        let operation = &mut self.operations[place];
        operation.completed_ns = now_ns;
        operation.outcome = outcome(error);
        operation.error = kind;
    }

    /// The place of a kind of errors; `None` if there are too many others.
    fn kind(&mut self, word: &str) -> Option<usize> {
        let known = self.errors.iter().position(|kind| kind == word);
        if known.is_none() && self.errors.len() < MOST_KINDS {
            self.errors.push(word.to_owned());
            return Some(self.errors.len() - 1);
        }
        known
    }
}

fn outcome(error: Option<&Error>) -> Outcome {
    match error {
        None => Outcome::Acknowledged,
        // The command was executed, and its reply is not understood.
        Some(Error::Type { .. }) => Outcome::Ambiguous,
        Some(error) if error.maybe_executed() => Outcome::Ambiguous,
        Some(_) => Outcome::Refused,
    }
}

/// An error in a word.
fn word(error: &Error) -> &str {
    match error {
        Error::Server(reply) => reply.code(),
        Error::Connection { .. } => "disconnected",
        Error::Timeout { .. } => "timeout",
        Error::QueueFull { .. } => "queue full",
        Error::Protocol { .. } => "protocol",
        Error::Login { .. } => "login",
        Error::Cluster(_) => "no node",
        Error::Closed { .. } => "closed",
        Error::Pool { .. } => "no free connection",
        _ => "other",
    }
}

fn unreachable(error: &Error) -> Failure {
    Failure::unavailable(format!("{error}."))
}
