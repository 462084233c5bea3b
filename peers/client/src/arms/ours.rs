//! loadline-client.

use anyhow::ensure;
use loadline_client::commands::{get, set};
use loadline_client::{Client, blocking, multiplexed};

use super::{Arm, Runtimes, Work, keys, spread, value};
use crate::VALUE_BYTES;

pub struct Ours {
    plain: blocking::Connection,
    spinning: blocking::Connection,
    tasks: Runtimes<multiplexed::Connection>,
    keys: Vec<String>,
    value: String,
}

/// Writes the keys that every arm reads.
pub fn fill(url: &str) -> anyhow::Result<()> {
    let mut connection = Client::open(url)?.blocking()?;
    for key in keys() {
        connection.run(set(key, value()))?;
    }
    Ok(())
}

impl Ours {
    pub fn connect(url: &str) -> anyhow::Result<Self> {
        let client = Client::open(url)?;
        Ok(Self {
            plain: client.blocking()?,
            spinning: Client::open(&format!("{url}?spin=100us"))?.blocking()?,
            tasks: Runtimes::new(async || Ok(client.multiplexed().await?))?,
            keys: keys(),
            value: value(),
        })
    }

    fn pipeline(&mut self, is_set: bool, size: usize, ops: u64) -> anyhow::Result<()> {
        for _ in 0..ops / size as u64 {
            if is_set {
                let commands: Vec<_> = self.keys[..size]
                    .iter()
                    .map(|key| set(key, &self.value))
                    .collect();
                for reply in self.plain.run(&commands) {
                    reply?;
                }
            } else {
                let commands: Vec<_> = self.keys[..size].iter().map(get::<String>).collect();
                for reply in self.plain.run(&commands) {
                    ensure!(reply?.len() == VALUE_BYTES, "a value of another length");
                }
            }
        }
        Ok(())
    }

    fn lent(&mut self, size: usize, ops: u64) -> anyhow::Result<()> {
        for _ in 0..ops / size as u64 {
            let commands: Vec<_> = self.keys[..size].iter().map(get::<()>).collect();
            let mut right = 0;
            self.plain.run_each(&commands, |reply| {
                let bytes = reply
                    .ok()
                    .and_then(|reply| reply.as_bytes().map(<[u8]>::len));
                right += usize::from(bytes == Some(VALUE_BYTES));
            })?;
            ensure!(right == size, "other values");
        }
        Ok(())
    }
}

impl Arm for Ours {
    fn name(&self) -> &'static str {
        "loadline-client"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        match work {
            Work::Single { set: is_set, spin } => {
                let connection = if spin {
                    &mut self.spinning
                } else {
                    &mut self.plain
                };
                for key in self.keys.iter().cycle().take(ops as usize) {
                    if is_set {
                        connection.run(set(key, &self.value))?;
                    } else {
                        let value: String = connection.run(get(key))?;
                        ensure!(value.len() == VALUE_BYTES, "a value of another length");
                    }
                }
            }
            Work::Pipeline { set, size } => self.pipeline(set, size, ops)?,
            Work::Lent { size } => self.lent(size, ops)?,
            Work::Tasks {
                tasks,
                multi_thread,
            } => {
                let (runtime, connection) = self.tasks.choose(multi_thread);
                runtime.block_on(spread(tasks, ops, |task, share| {
                    let (connection, key) = (connection.clone(), super::key(task as usize));
                    async move {
                        for _ in 0..share {
                            let value: String = connection.run(get(&key)).await?;
                            ensure!(value.len() == VALUE_BYTES, "a value of another length");
                        }
                        Ok(())
                    }
                }))?;
            }
        }
        Ok(Some(0))
    }
}
