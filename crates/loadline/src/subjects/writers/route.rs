//! The way of writes and reads to the client.

use std::time::Duration;

use loadline_client::commands::{get, incr_by, wait};
use loadline_client::{Error, OwnedReply, Request, atomic, cmd};
use loadline_measure::failover::{Kind, Outcome, Wait, WriteId};

use super::lender::Lender;
use super::values;
use crate::systems::client::SharedConnection;

/// The script of a [`Kind::Lua`].
const SCRIPT: &str = "return redis.call('INCR', KEYS[1])";
/// Attempts of a transaction that is not executed, because the connection was lost before.
const ATTEMPTS: u32 = 10;

/// The way of a request to the client.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// A connection of all.
    Shared(SharedConnection),
    /// A connection of the pool for each request.
    Pool(Lender),
}

/// The ways of a load.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) writes: Way,
    /// The WAIT with each write, for which there is a pool.
    pub(super) wait: Option<Wait>,
    /// Connections for transactions that watch keys, where the writers share one.
    pub(super) watching: Option<Lender>,
    pub(super) reads: Option<Way>,
    /// The channel of the messages.
    pub(super) channel: String,
}

/// A request without an acknowledgement.
#[derive(Debug)]
pub(super) enum Failed {
    /// The request has an error.
    Request(Error),
    /// The write has none, and WAIT has one.
    Wait(Error),
    /// WAIT reported too few replicas.
    TooFew,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

impl Way {
    /// Runs a request about a key.
    async fn run<Q: Request>(&self, key: &str, request: Q) -> Result<Q::Output, Error> {
        match self {
            Self::Shared(connection) => Ok(connection.run(request).await),
            Self::Pool(lender) => Ok(lender.get(key).await?.run(request).await),
        }
    }

    /// Reads the value of a write, and returns the executions that it shows.
    pub(super) async fn read(&self, kind: &Kind, key: &str, id: WriteId) -> Result<u64, Failed> {
        if *kind == Kind::Xadd {
            let length = self.run(key, cmd::<u64>("XLEN").arg(key));
            return Ok(length.await??);
        }
        let found: Option<String> = self.run(key, get(key)).await??;
        Ok(values::executions(kind, id, found.as_deref()))
    }
}

impl Route {
    /// Writes once.
    pub(super) async fn write(&self, kind: &Kind, key: &str, id: WriteId) -> Result<(), Failed> {
        let value = values::of(id);
        let request = match kind {
            Kind::Multi => {
                let one = || cmd::<OwnedReply>("INCRBY").arg(key).arg(1);
                let done = self.run(key, atomic((one(), one()))).await?;
                // Without watched keys, the server always executes it.
                return Ok(done.map_or(Ok(()), |(first, second)| first.and(second).map(drop))?);
            }
            Kind::Watch => return Ok(self.watch(key).await?),
            Kind::Set => cmd("SET").arg(key).arg(value),
            Kind::Lua => cmd("EVAL").arg(SCRIPT).arg(1).arg(key),
            Kind::Xadd => cmd("XADD").arg(key).arg("*").arg("write").arg(value),
            Kind::Publish => cmd("PUBLISH").arg(self.channel.as_str()).arg(value),
            _ => cmd::<OwnedReply>("INCR").arg(key),
        };
        self.run(key, request).await.map(drop)
    }

    async fn run<T>(
        &self,
        key: &str,
        request: impl Request<Output = Result<T, Error>>,
    ) -> Result<T, Failed> {
        let Some(wanted) = self.wait else {
            return Ok(self.writes.run(key, request).await??);
        };
        // In one request: a WAIT on a later connection would not be about this write.
        let timeout = Duration::from_nanos(wanted.timeout_ns);
        let together = (request, wait(wanted.replicas, timeout));
        let (done, replicas) = self.writes.run(key, together).await?;
        let done = done?;
        match replicas {
            Ok(replicas) if replicas >= wanted.replicas => Ok(done),
            Ok(_) => Err(Failed::TooFew),
            Err(error) => Err(Failed::Wait(error)),
        }
    }

    /// Adds 1 and the present value, in a transaction that depends on it. An INCRBY, so that the fault proxy counts only the
    /// EXEC.
    async fn watch(&self, key: &str) -> Result<(), Error> {
        let lender = match (&self.writes, &self.watching) {
            (Way::Pool(lender), _) | (_, Some(lender)) => lender,
            (Way::Shared(_), None) => {
                return Err(Error::Usage("WATCH needs a connection of its own"));
            }
        };
        let mut connection = lender.get(key).await?;
        let connection = connection.dedicated();
        let done = connection.transaction(key, ATTEMPTS, |connection| async move {
            let value: Option<i64> = connection.run(get(key)).await?;
            Ok(incr_by(key, 1 + value.unwrap_or(0)))
        });
        let done = done.await;
        if matches!(&done, Err(Error::Server(reply)) if reply.code() == "MOVED") {
            lender.was_moved().await;
        }
        done?.map(drop)
    }
}

impl Failed {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Wait(_) | Self::TooFew => Outcome::Unconfirmed,
            // The command was executed, and its reply is not understood.
            Self::Request(Error::Type { .. }) => Outcome::Ambiguous,
            Self::Request(error) if error.maybe_executed() => Outcome::Ambiguous,
            Self::Request(_) => Outcome::Refused,
        }
    }

    /// The kind of the error in a word.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::TooFew => "too few replicas",
            Self::Request(error) | Self::Wait(error) => word(error),
        }
    }
}

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
        Error::Conflict { .. } => "conflict",
        _ => "other",
    }
}
