//! Jobs that make connections and pools.

use loadline_client::commands::ping;
use loadline_client::pool::{Limits, Pool};
use loadline_client::{Client, Error, blocking};
use tokio::runtime::Runtime;

use super::unreachable;
use crate::exit::Failure;
use crate::workload::{Calls, Job, OpenJob, Site};

/// The most that a block makes: a closed connection keeps its port for a minute, and ports are few.
const MOST_MADE: u64 = 250;

/// Makes a blocking connection and uses it once. The previous one is closed in between.
#[derive(Debug)]
pub(super) struct Connect;

impl Job for Connect {
    fn description(&self) -> &'static str {
        "makes a connection and sends a PING"
    }

    fn most_per_block(&self) -> Option<u64> {
        Some(MOST_MADE)
    }

    fn makes_connections(&self) -> bool {
        true
    }

    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure> {
        Ok(OpenJob::Calls(Box::new(MadeConnection {
            client: site.client,
            last: None,
        })))
    }
}

struct MadeConnection {
    client: Client,
    last: Option<blocking::Connection>,
}

impl MadeConnection {
    fn make(&mut self) -> Result<(), Error> {
        let mut connection = self.client.blocking()?;
        connection.run(ping())?;
        self.last = Some(connection);
        Ok(())
    }
}

impl Calls for MadeConnection {
    fn arm(&mut self) {
        self.last = None;
    }

    fn perform(&mut self, _: &[(String, Vec<u8>)]) -> Result<(), String> {
        self.make().map_err(|error| format!("CONNECT {error}"))
    }
}

/// Makes a pool of the default size (2 to 10 connections) and uses one of its connections. The previous
/// one is closed in between.
#[derive(Debug)]
pub(super) struct PoolInit;

impl Job for PoolInit {
    fn description(&self) -> &'static str {
        "makes a pool of 2 to 10 connections and sends a PING"
    }

    fn connections(&self) -> u32 {
        2
    }

    fn most_per_block(&self) -> Option<u64> {
        Some(MOST_MADE)
    }

    fn makes_connections(&self) -> bool {
        true
    }

    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure> {
        Ok(OpenJob::Calls(Box::new(MadePool {
            client: site.client,
            runtime: runtime("pool_init")?,
            last: None,
        })))
    }
}

struct MadePool {
    client: Client,
    runtime: Runtime,
    last: Option<Pool>,
}

impl Calls for MadePool {
    fn arm(&mut self) {
        let last = self.last.take();
        self.runtime.block_on(async move {
            drop(last);
            // The tasks of its connections end when they are polled again.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        });
    }

    fn perform(&mut self, _: &[(String, Vec<u8>)]) -> Result<(), String> {
        let made = self.runtime.block_on(async {
            let pool = self.client.pool(Limits::default()).await?;
            pool.get().await?.run(ping()).await?;
            Ok::<_, Error>(pool)
        });
        let pool = made.map_err(|error| format!("POOL {error}"))?;
        self.last = Some(pool);
        Ok(())
    }
}

/// A runtime on the calling thread.
///
/// # Errors
/// If the system cannot provide it.
pub(super) fn runtime(case: &str) -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| unreachable(case, &error))
}
