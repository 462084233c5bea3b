//! rustis.

use anyhow::ensure;
use rustis::client::{BatchPreparedCommand, Client};
use rustis::commands::StringCommands;

use super::{Arm, Runtimes, Work, keys, spread, value};
use crate::VALUE_BYTES;

pub struct Rustis {
    tasks: Runtimes<Client>,
    keys: Vec<String>,
    value: String,
}

impl Rustis {
    pub fn connect(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            tasks: Runtimes::new(async || Ok(Client::connect(url).await?))?,
            keys: keys(),
            value: value(),
        })
    }

    async fn single(&self, client: &Client, set: bool, ops: u64) -> anyhow::Result<()> {
        for key in self.keys.iter().cycle().take(ops as usize) {
            if set {
                client.set(key.as_str(), self.value.as_str()).await?;
            } else {
                let value: String = client.get(key.as_str()).await?;
                ensure!(value.len() == VALUE_BYTES, "a value of another length");
            }
        }
        Ok(())
    }

    async fn pipeline(
        &self,
        client: &Client,
        set: bool,
        size: usize,
        ops: u64,
    ) -> anyhow::Result<()> {
        for _ in 0..ops / size as u64 {
            let mut pipeline = client.create_pipeline();
            for key in &self.keys[..size] {
                if set {
                    pipeline.set(key.as_str(), self.value.as_str()).queue();
                } else {
                    pipeline.get::<()>(key.as_str()).queue();
                }
            }
            let values: Vec<String> = pipeline.execute().await?;
            let right = set || values.iter().all(|value| value.len() == VALUE_BYTES);
            ensure!(right && values.len() == size, "other values");
        }
        Ok(())
    }
}

impl Arm for Rustis {
    fn name(&self) -> &'static str {
        "rustis"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        let (runtime, client) = match work {
            Work::Tasks { multi_thread, .. } => self.tasks.choose(multi_thread),
            _ => self.tasks.choose(false),
        };
        match work {
            // Its values are the caller's always.
            Work::Lent { .. } => return Ok(None),
            Work::Single { set, .. } => runtime.block_on(self.single(client, set, ops))?,
            Work::Pipeline { set, size } => {
                runtime.block_on(self.pipeline(client, set, size, ops))?
            }
            Work::Tasks { tasks, .. } => runtime.block_on(spread(tasks, ops, |task, share| {
                let (client, key) = (client.clone(), super::key(task as usize));
                async move {
                    for _ in 0..share {
                        let value: String = client.get(key.as_str()).await?;
                        ensure!(value.len() == VALUE_BYTES, "a value of another length");
                    }
                    Ok(())
                }
            }))?,
        }
        Ok(Some(0))
    }
}
