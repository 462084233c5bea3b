//! The clients on a cluster. Keys are spread over its slots.

use anyhow::ensure;
use fred::prelude::{ClientLike, KeysInterface};
use loadline_client::commands::{get, set};
use rustis::client::BatchPreparedCommand;
use rustis::commands::StringCommands;

use super::{Arm, Connect, Connected, Runtimes, Work, connected, keys, spread, value};
use crate::VALUE_BYTES;

/// The clients of clusters, or the one that is called `only`. `nodes` is `host:port[,host:port...]`.
pub fn all(nodes: &str, only: Option<&str>) -> anyhow::Result<Connected<'static>> {
    fill(nodes)?;
    let ours = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(Ours::connect(nodes)?)) };
    let redis = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(RedisRs::connect(nodes)?)) };
    let fred = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(Fred::connect(nodes)?)) };
    let rustis = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(Rustis::connect(nodes)?)) };
    let known: [(&str, Connect<'_>); 4] = [
        ("loadline-client", &ours),
        ("redis-rs", &redis),
        ("fred", &fred),
        ("rustis", &rustis),
    ];
    connected(&known, only)
}

/// Writes the keys that every arm reads.
fn fill(nodes: &str) -> anyhow::Result<()> {
    let mut cluster = loadline_client::blocking::Cluster::open(&format!("cluster://{nodes}"))?;
    for key in keys() {
        cluster.run(set(key, value()))?;
    }
    Ok(())
}

fn check(value: &str) -> anyhow::Result<()> {
    ensure!(value.len() == VALUE_BYTES, "a value of another length");
    Ok(())
}

/// loadline-client.
struct Ours {
    plain: loadline_client::blocking::Cluster,
    tasks: Runtimes<loadline_client::cluster::Cluster>,
    keys: Vec<String>,
}

impl Ours {
    fn connect(nodes: &str) -> anyhow::Result<Self> {
        let url = format!("cluster://{nodes}");
        Ok(Self {
            plain: loadline_client::blocking::Cluster::open(&url)?,
            tasks: Runtimes::new(
                async || Ok(loadline_client::cluster::Cluster::open(&url).await?),
            )?,
            keys: keys(),
        })
    }
}

impl Arm for Ours {
    fn name(&self) -> &'static str {
        "loadline-client"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        match work {
            Work::Pipeline { set: false, size } => {
                for _ in 0..ops / size as u64 {
                    let commands: Vec<_> = self.keys[..size].iter().map(get::<String>).collect();
                    for reply in self.plain.run(&commands) {
                        check(&reply?)?;
                    }
                }
            }
            Work::Tasks {
                tasks,
                multi_thread,
            } => {
                let (runtime, cluster) = self.tasks.choose(multi_thread);
                runtime.block_on(spread(tasks, ops, |task, share| {
                    let (cluster, key) = (cluster.clone(), super::key(task as usize));
                    async move {
                        for _ in 0..share {
                            let value: String = cluster.run(get(&key)).await?;
                            check(&value)?;
                        }
                        Ok(())
                    }
                }))?;
            }
            Work::Single { .. } | Work::Pipeline { .. } | Work::Lent { .. } => return Ok(None),
        }
        Ok(Some(0))
    }
}

/// redis-rs, whose asynchronous pipelines stay within a slot, and whose blocking ones do not.
struct RedisRs {
    plain: redis::cluster::ClusterConnection,
    tasks: Runtimes<redis::cluster_async::ClusterConnection>,
    keys: Vec<String>,
}

impl RedisRs {
    fn connect(nodes: &str) -> anyhow::Result<Self> {
        let urls: Vec<String> = nodes
            .split(',')
            .map(|node| format!("redis://{node}?protocol=resp3"))
            .collect();
        let client = redis::cluster::ClusterClient::builder(urls)
            // Its default is less than a crowded connection takes.
            .response_timeout(std::time::Duration::from_secs(60))
            .build()?;
        Ok(Self {
            plain: client.get_connection()?,
            tasks: Runtimes::new(async || Ok(client.get_async_connection().await?))?,
            keys: keys(),
        })
    }
}

impl Arm for RedisRs {
    fn name(&self) -> &'static str {
        "redis-rs"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        match work {
            Work::Pipeline { set: false, size } => {
                for _ in 0..ops / size as u64 {
                    let mut pipeline = redis::cluster::cluster_pipe();
                    for key in &self.keys[..size] {
                        pipeline.get(key);
                    }
                    let values: Vec<String> = pipeline.query(&mut self.plain)?;
                    ensure!(values.len() == size, "other values");
                    values.iter().try_for_each(|value| check(value))?;
                }
            }
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
                            check(&value)?;
                        }
                        Ok(())
                    }
                }))?;
            }
            Work::Single { .. } | Work::Pipeline { .. } | Work::Lent { .. } => return Ok(None),
        }
        Ok(Some(0))
    }
}

/// fred.
struct Fred {
    tasks: Runtimes<fred::prelude::Client>,
    keys: Vec<String>,
}

impl Fred {
    fn connect(nodes: &str) -> anyhow::Result<Self> {
        let (first, others) = nodes.split_once(',').unwrap_or((nodes, ""));
        let others = others.split(',').filter(|node| !node.is_empty());
        let others: Vec<String> = others.map(|node| format!("node={node}")).collect();
        let url = format!("redis-cluster://{first}?{}", others.join("&"));
        let connect = async || {
            let config = fred::prelude::Config::from_url(&url)?;
            let client = fred::prelude::Builder::from_config(config).build()?;
            client.init().await?;
            Ok(client)
        };
        Ok(Self {
            tasks: Runtimes::new(connect)?,
            keys: keys(),
        })
    }
}

impl Arm for Fred {
    fn name(&self) -> &'static str {
        "fred"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        match work {
            Work::Pipeline { set: false, size } => {
                let (runtime, client) = self.tasks.choose(false);
                runtime.block_on(async {
                    for _ in 0..ops / size as u64 {
                        let pipeline = client.pipeline();
                        for key in &self.keys[..size] {
                            let () = pipeline.get(key).await?;
                        }
                        let values: Vec<String> = pipeline.all().await?;
                        ensure!(values.len() == size, "other values");
                        values.iter().try_for_each(|value| check(value))?;
                    }
                    Ok(())
                })?;
            }
            Work::Tasks {
                tasks,
                multi_thread,
            } => {
                let (runtime, client) = self.tasks.choose(multi_thread);
                runtime.block_on(spread(tasks, ops, |task, share| {
                    let (client, key) = (client.clone(), super::key(task as usize));
                    async move {
                        for _ in 0..share {
                            let value: String = client.get(&key).await?;
                            check(&value)?;
                        }
                        Ok(())
                    }
                }))?;
            }
            Work::Single { .. } | Work::Pipeline { .. } | Work::Lent { .. } => return Ok(None),
        }
        Ok(Some(0))
    }
}

/// rustis.
struct Rustis {
    tasks: Runtimes<rustis::client::Client>,
    keys: Vec<String>,
}

impl Rustis {
    fn connect(nodes: &str) -> anyhow::Result<Self> {
        let url = format!("redis+cluster://{nodes}");
        let connect = async || Ok(rustis::client::Client::connect(url.as_str()).await?);
        Ok(Self {
            tasks: Runtimes::new(connect)?,
            keys: keys(),
        })
    }
}

impl Arm for Rustis {
    fn name(&self) -> &'static str {
        "rustis"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        match work {
            Work::Pipeline { set: false, size } => {
                let (runtime, client) = self.tasks.choose(false);
                runtime.block_on(async {
                    for _ in 0..ops / size as u64 {
                        let mut pipeline = client.create_pipeline();
                        for key in &self.keys[..size] {
                            pipeline.get::<()>(key.as_str()).queue();
                        }
                        let values: Vec<String> = pipeline.execute().await?;
                        ensure!(values.len() == size, "other values");
                        values.iter().try_for_each(|value| check(value))?;
                    }
                    Ok(())
                })?;
            }
            Work::Tasks {
                tasks,
                multi_thread,
            } => {
                let (runtime, client) = self.tasks.choose(multi_thread);
                runtime.block_on(spread(tasks, ops, |task, share| {
                    let (client, key) = (client.clone(), super::key(task as usize));
                    async move {
                        for _ in 0..share {
                            let value: String = client.get(key.as_str()).await?;
                            check(&value)?;
                        }
                        Ok(())
                    }
                }))?;
            }
            Work::Single { .. } | Work::Pipeline { .. } | Work::Lent { .. } => return Ok(None),
        }
        Ok(Some(0))
    }
}
