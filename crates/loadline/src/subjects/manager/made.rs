//! Connections and pools as what is made.

use loadline_client::commands::ping;
use loadline_client::pool::{Limits, Pool};
use loadline_client::{Client, Error, blocking};
use tokio::runtime::Runtime;

use super::{Call, Job, unreachable};
use crate::exit::Failure;

/// Makes a connection that blocks, and uses it once. The one before is closed in between.
pub(super) struct Connect {
    client: Client,
    last: Option<blocking::Connection>,
}

impl Connect {
    pub(super) fn new(client: Client) -> Self {
        Self { client, last: None }
    }

    fn make(&mut self) -> Result<(), Error> {
        let mut connection = self.client.blocking()?;
        connection.run(ping())?;
        self.last = Some(connection);
        Ok(())
    }
}

impl Job for Connect {
    fn arm(&mut self) {
        self.last = None;
    }

    fn perform(&mut self, _: &Call) -> Result<(), String> {
        self.make().map_err(|error| format!("CONNECT {error}"))
    }
}

/// Makes a pool of the default size (2 to 10 connections), and uses one of its connections. The one
/// before is closed in between.
pub(super) struct PoolInit {
    client: Client,
    runtime: Runtime,
    last: Option<Pool>,
}

impl PoolInit {
    /// # Errors
    /// That the system has no room for a runtime.
    pub(super) fn new(client: Client) -> Result<Self, Failure> {
        Ok(Self {
            client,
            runtime: runtime("pool_init")?,
            last: None,
        })
    }
}

impl Job for PoolInit {
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

    fn perform(&mut self, _: &Call) -> Result<(), String> {
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

/// A runtime on the thread that calls.
///
/// # Errors
/// That the system has no room for it.
pub(super) fn runtime(task: &str) -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| unreachable(task, &error))
}
