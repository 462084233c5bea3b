//! Writers of a failover, their reads, and the subscriber of their messages: writes of new keys in an open loop through one loadline-client, with the outcome of each as the
//! client reports it. No write is repeated.
//!
//! It keeps no histograms and is not a fourth loop beside those of loadline-load: a history needs each write with its
//! outcome, and the task loop is a closed one.

pub(crate) mod driven;
mod lender;
mod route;
mod subscriber;
mod values;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use loadline_client::commands::get;
use loadline_client::pool;
use loadline_client::{Error, OwnedReply};
use loadline_load::pacing::{ArrivalProcess, Arrivals};
use loadline_measure::failover::{Kind, Operation, Outcome, PoolUse, Read, Wait, WriteId};
use tokio::task::{JoinSet, LocalSet};

use crate::exit::{Exit, Failure};
use crate::systems::client::Connector;
use crate::systems::engines::resident_bytes;
use crate::units::nanoseconds;
use lender::Lender;
use route::{Failed, Route, Way};
use subscriber::Subscriber;

/// Time limit for writes under way at the end of the load: the client gives them up before. The longest wait for a connection
/// of the pool and then for a reply.
const GRACE: Duration = Duration::from_secs(12);
/// Interval at which an interrupt is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Interval between checks of a pool.
const CHECK_EVERY: Duration = Duration::from_millis(10);
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
    /// The WAIT with each write, for which there is a pool.
    pub(crate) wait: Option<Wait>,
    /// The reads; `None` without any.
    pub(crate) reads: Option<Reading>,
}

/// The way of reads. With each write, its writer reads the last one that it had acknowledged.
#[derive(Debug)]
pub(crate) enum Reading {
    /// That of the writes.
    Writers,
    /// To replicas.
    Replicas(Connector),
}

/// The writes of a load.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) operations: Vec<Operation>,
    /// Writes that were sent, for each kind.
    pub(crate) sent: Vec<u64>,
    pub(crate) reads: Vec<Read>,
    /// Reads that were sent.
    pub(crate) reads_sent: u64,
    /// The last acknowledged write of each writer that can be read: its place.
    latest: Vec<Option<usize>>,
    /// The kinds of errors.
    pub(crate) errors: Vec<String>,
    /// The end of the load, in nanoseconds since its start.
    pub(crate) end_ns: u64,
    /// Checks of the pool that found it usable, if there is one: begin and end.
    pub(crate) pool_checks: Option<Vec<(u64, u64)>>,
    /// The use of the pool, if there is one.
    pub(crate) pool: Option<PoolUse>,
    /// The reason why the client ended early, in a sentence.
    pub(crate) ending: Option<String>,
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
            let subscriber = self.subscriber(&route).await;
            let subscriber = subscriber.map_err(|error| unreachable(&error))?;
            let memory_before_bytes = resident_bytes("self");
            let start = Instant::now();
            // The receiver is gone only if the fault has failed.
            let _ = begun.send(start);
            let checks = Rc::new(RefCell::new(Vec::new()));
            let checking = match (&route.writes, self.pool) {
                (Way::Pool(lender), Some(limits)) => {
                    let tags = lender.tag_of_each(&self.tags);
                    let keys = tags
                        .iter()
                        .map(|tag| format!("{}{{{tag}}}:check", self.prefix));
                    let keys = keys.collect();
                    let check = check(lender.clone(), keys, limits.min, start, Rc::clone(&checks));
                    Some(tokio::task::spawn_local(check))
                }
                _ => None,
            };
            let mut written = self.write(&route, start, &is_over).await;
            if let Some(subscriber) = subscriber {
                subscriber.note(&mut written.operations, is_over).await;
            }
            if let Some(checking) = checking {
                checking.abort();
                written.pool_checks = Some(checks.take());
            }
            if let Way::Pool(lender) = &route.writes {
                written.pool = Some(PoolUse {
                    memory_before_bytes,
                    ..self.used(lender).await
                });
            }
            Ok(written)
        })
    }

    async fn route(&self) -> Result<Route, Error> {
        let writes = match self.pool {
            Some(limits) => Way::Pool(self.lender(limits).await?),
            None => Way::Shared(self.connector.shared().await?),
        };
        let watches = self.kinds.contains(&Kind::Watch);
        let watching = match &writes {
            Way::Shared(_) if watches => Some(self.lender(pool::Limits::default()).await?),
            _ => None,
        };
        let reads = match &self.reads {
            None => None,
            Some(Reading::Writers) => Some(writes.clone()),
            Some(Reading::Replicas(connector)) => Some(Way::Shared(connector.shared().await?)),
        };
        Ok(Route {
            writes,
            wait: self.wait,
            watching,
            reads,
            channel: format!("{}messages", self.prefix),
        })
    }

    async fn lender(&self, limits: pool::Limits) -> Result<Lender, Error> {
        let pool = self.connector.pool(limits, self.pool_name()).await?;
        Ok(Lender::new(pool))
    }

    /// The client name of the connections of pools.
    fn pool_name(&self) -> String {
        format!("{}pool", self.prefix)
    }

    /// The use of a pool by a load that has ended. Memory is measured first, because the question is not part of the load.
    async fn used(&self, lender: &Lender) -> PoolUse {
        let memory_after_bytes = resident_bytes("self");
        let (waited, out_of_turn) = lender.counts();
        let leaked = match self.connector.shared().await {
            Ok(server) => lender.leaked(&server, &self.pool_name()).await,
            Err(_) => None,
        };
        PoolUse {
            waited,
            out_of_turn,
            leaked,
            memory_before_bytes: None,
            memory_after_bytes,
        }
    }

    async fn subscriber(&self, route: &Route) -> Result<Option<Subscriber>, Error> {
        let Some(kind) = self.kinds.iter().position(|kind| *kind == Kind::Publish) else {
            return Ok(None);
        };
        let pubsub = self.connector.pubsub().await?;
        let subscriber = Subscriber::start(pubsub, &route.channel, kind).await?;
        Ok(Some(subscriber))
    }

    async fn write(&self, route: &Route, start: Instant, is_over: &impl Fn() -> bool) -> Written {
        let written = Written::of_writers(self.tags.len(), self.kinds.len());
        let written = Rc::new(RefCell::new(written));
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
            let id = self.id(number);
            if let Some(read) = self.read(id.writer, route, start, &written) {
                tasks.spawn_local(read);
            }
            let route = route.clone();
            tasks.spawn_local(self.one((id, due_ns), route, start, Rc::clone(&written)));
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
        for read in &mut written.reads {
            read.completed_ns = read.completed_ns.min(now_ns);
        }
        written.end_ns = end_ns.min(nanoseconds(ended - start));
        written
    }

    /// Write number `number` of all writers.
    fn id(&self, number: u64) -> WriteId {
        let writers = self.tags.len() as u64;
        WriteId {
            writer: (number % writers) as u32,
            sequence: number / writers,
        }
    }

    /// A read of the last acknowledged write of a writer, if it has one and reads.
    fn read(
        &self,
        writer: u32,
        route: &Route,
        start: Instant,
        written: &Rc<RefCell<Written>>,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let way = route.reads.clone()?;
        let now_ns = nanoseconds(start.elapsed());
        let (place, read) = written.borrow_mut().begin_read(writer, now_ns)?;
        let (key, kind) = (
            self.key(read.write, read.kind),
            self.kinds[read.kind].clone(),
        );
        let written = Rc::clone(written);
        Some(async move {
            let found = way.read(&kind, &key, read.write).await;
            let completed_ns = nanoseconds(start.elapsed());
            written.borrow_mut().reads[place] = Read {
                completed_ns,
                found: found.ok(),
                ..read
            };
        })
    }

    /// One write.
    fn one(
        &self,
        (id, due_ns): (WriteId, u64),
        route: Route,
        start: Instant,
        written: Rc<RefCell<Written>>,
    ) -> impl Future<Output = ()> + use<> {
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
                announced: false,
            });
            let replied = route.write(&of_kind, &key, id).await;
            let now_ns = nanoseconds(start.elapsed());
            let mut written = written.borrow_mut();
            written.end(place, now_ns, replied.err().as_ref());
            if of_kind != Kind::Publish
                && written.operations[place].outcome == Outcome::Acknowledged
            {
                written.latest[id.writer as usize] = Some(place);
            }
        }
    }

    fn key(&self, id: WriteId, kind: usize) -> String {
        format!("{}{}", self.key_prefix(id.writer, kind), id.sequence)
    }

    /// The keys of a writer for a kind of write, without the sequence number at their end.
    pub(crate) fn key_prefix(&self, writer: u32, kind: usize) -> String {
        let tag = &self.tags[writer as usize];
        format!("{}{{{tag}}}:{}:", self.prefix, self.kinds[kind])
    }
}

/// Notes again and again when `count` connections of the pool of each key answered at the same time.
async fn check(
    lender: Lender,
    keys: Vec<String>,
    count: usize,
    start: Instant,
    checks: Rc<RefCell<Vec<(u64, u64)>>>,
) {
    let wanted = keys.len() * count;
    loop {
        let begun_ns = nanoseconds(start.elapsed());
        let mut lent = Vec::with_capacity(wanted);
        for key in keys.iter().flat_map(|key| vec![key; count]) {
            let Ok(connection) = lender.get(key).await else {
                break;
            };
            lent.push((key, connection));
        }
        let mut answers = 0;
        for (key, connection) in &mut lent {
            // A node that is not the master of the key refuses it.
            let answer = connection.dedicated().run(get::<OwnedReply>(key.as_str()));
            answers += usize::from(answer.await.is_ok());
        }
        drop(lent);
        if answers == wanted {
            let ended_ns = nanoseconds(start.elapsed());
            checks.borrow_mut().push((begun_ns, ended_ns));
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
}

impl Written {
    /// Empty counts for `writers` writers with `kinds` kinds of write.
    fn of_writers(writers: usize, kinds: usize) -> Self {
        Self {
            sent: vec![0; kinds],
            latest: vec![None; writers],
            ..Self::default()
        }
    }

    fn begin(&mut self, operation: Operation) -> usize {
        self.sent[operation.kind] += 1;
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// A read that has no answer yet, with its place; `None` if the writer has no acknowledged write.
    fn begin_read(&mut self, writer: u32, now_ns: u64) -> Option<(usize, Read)> {
        let write = &self.operations[self.latest[writer as usize]?];
        let read = Read {
            write: write.id,
            kind: write.kind,
            acknowledged_ns: write.completed_ns,
            invoked_ns: now_ns,
            completed_ns: u64::MAX,
            found: None,
        };
        self.reads_sent += 1;
        self.reads.push(read);
        Some((self.reads.len() - 1, read))
    }

    fn end(&mut self, place: usize, now_ns: u64, failed: Option<&Failed>) {
        let kind = failed.and_then(|failed| self.kind(failed.word()));
        let operation = &mut self.operations[place];
        operation.completed_ns = now_ns;
        operation.outcome = failed.map_or(Outcome::Acknowledged, Failed::outcome);
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

fn unreachable(error: &Error) -> Failure {
    Failure::unavailable(format!("{error}."))
}
