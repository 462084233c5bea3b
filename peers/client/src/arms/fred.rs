//! fred.

use anyhow::ensure;
use fred::prelude::{Builder, Client, ClientLike, Config, KeysInterface};

use super::{Arm, Runtimes, Work, keys, spread, value};
use crate::VALUE_BYTES;

pub struct Fred {
    tasks: Runtimes<Client>,
    keys: Vec<String>,
    value: String,
}

impl Fred {
    pub fn connect(url: &str) -> anyhow::Result<Self> {
        let connect = async || {
            let client = Builder::from_config(Config::from_url(url)?).build()?;
            client.init().await?;
            Ok(client)
        };
        Ok(Self {
            tasks: Runtimes::new(connect)?,
            keys: keys(),
            value: value(),
        })
    }

    async fn single(&self, client: &Client, set: bool, ops: u64) -> anyhow::Result<()> {
        for key in self.keys.iter().cycle().take(ops as usize) {
            if set {
                let () = client
                    .set(key, self.value.as_str(), None, None, false)
                    .await?;
            } else {
                let value: String = client.get(key).await?;
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
            let pipeline = client.pipeline();
            for key in &self.keys[..size] {
                let () = if set {
                    pipeline
                        .set(key, self.value.as_str(), None, None, false)
                        .await?
                } else {
                    pipeline.get(key).await?
                };
            }
            let values: Vec<String> = pipeline.all().await?;
            let right = set || values.iter().all(|value| value.len() == VALUE_BYTES);
            ensure!(right && values.len() == size, "other values");
        }
        Ok(())
    }
}

impl Arm for Fred {
    fn name(&self) -> &'static str {
        "fred"
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
                        let value: String = client.get(&key).await?;
                        ensure!(value.len() == VALUE_BYTES, "a value of another length");
                    }
                    Ok(())
                }
            }))?,
        }
        Ok(Some(0))
    }
}
