//! redis-rs.

use std::time::Duration;

use anyhow::ensure;
use redis::aio::MultiplexedConnection;

use super::{Arm, Runtimes, Work, keys, spread, value};
use crate::VALUE_BYTES;

pub struct RedisRs {
    plain: redis::Connection,
    tasks: Runtimes<MultiplexedConnection>,
    keys: Vec<String>,
    value: String,
}

impl RedisRs {
    pub fn connect(url: &str) -> anyhow::Result<Self> {
        let client = redis::Client::open(format!("{url}?protocol=resp3"))?;
        // Its default of half a second is less than a crowded connection takes.
        let config =
            redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
        Ok(Self {
            plain: client.get_connection()?,
            tasks: Runtimes::new(async || {
                Ok(client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?)
            })?,
            keys: keys(),
            value: value(),
        })
    }
}

impl Arm for RedisRs {
    fn name(&self) -> &'static str {
        "redis-rs"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        match work {
            Work::Single { set, .. } => {
                for key in self.keys.iter().cycle().take(ops as usize) {
                    if set {
                        let () = redis::cmd("SET")
                            .arg(key)
                            .arg(&self.value)
                            .query(&mut self.plain)?;
                    } else {
                        let value: String = redis::cmd("GET").arg(key).query(&mut self.plain)?;
                        ensure!(value.len() == VALUE_BYTES, "a value of another length");
                    }
                }
            }
            Work::Pipeline { set, size } => {
                for _ in 0..ops / size as u64 {
                    let mut pipeline = redis::pipe();
                    for key in &self.keys[..size] {
                        if set {
                            pipeline.set(key, &self.value).ignore();
                        } else {
                            pipeline.get(key);
                        }
                    }
                    let values: Vec<String> = pipeline.query(&mut self.plain)?;
                    let right = values.iter().all(|value| value.len() == VALUE_BYTES);
                    ensure!(right && (set || values.len() == size), "other values");
                }
            }
            // Its values are the caller's always.
            Work::Lent { .. } => return Ok(None),
            Work::Tasks {
                tasks,
                multi_thread,
            } => {
                let (runtime, connection) = self.tasks.choose(multi_thread);
                runtime.block_on(spread(tasks, ops, |task, share| {
                    let (mut connection, key) = (connection.clone(), super::key(task as usize));
                    async move {
                        for _ in 0..share {
                            let value: String = redis::cmd("GET")
                                .arg(&key)
                                .query_async(&mut connection)
                                .await?;
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
