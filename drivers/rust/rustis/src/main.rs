//! The driver of rustis: tasks that share a connection.

use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use driver_harness::{
    About, Block, Config, Driver, Failed, Mode, Operation, idle, run_tasks, runtime, serve,
};
use rustis::client::{BatchPreparedCommand, Client, ClusterConfig, SentinelConfig, ServerConfig};
use rustis::commands::StringCommands;
use rustis::resp::BulkString;
use rustis::{Error, ErrorKind, RedisErrorKind, Result as RustisResult};
use tokio::runtime::Runtime;

fn main() -> anyhow::Result<()> {
    serve(Rustis::open)
}

struct Rustis {
    config: Config,
    runtime: Runtime,
    client: Client,
    keys: Rc<[String]>,
    value: Rc<str>,
    held: Vec<Client>,
}

/// The settings of a connection, with the defaults of rustis.
fn settings(config: &Config) -> RustisResult<rustis::client::Config> {
    let mut settings: rustis::client::Config = config.url().parse()?;
    if let Some(sentinels) = &config.sentinel {
        let addresses = sentinels.addresses.iter();
        let mut server = SentinelConfig::default();
        server.instances = addresses.map(|one| (one.host.clone(), one.port)).collect();
        server.service_name.clone_from(&sentinels.master);
        settings.server = ServerConfig::Sentinel(server);
    } else if config.cluster {
        let mut server = ClusterConfig::default();
        server.nodes = vec![(config.host.clone(), config.port)];
        settings.server = ServerConfig::Cluster(server);
    }
    Ok(settings)
}

impl Rustis {
    fn open(config: &Config) -> anyhow::Result<(Self, About)> {
        let runtime = runtime()?;
        let client = runtime.block_on(Client::connect(settings(config)?))?;
        let about = About {
            client: "rustis",
            version: driver_harness::locked_version!("rustis"),
            options: Vec::new(),
        };
        let driver = Self {
            config: config.clone(),
            runtime,
            client,
            keys: config.keys().into(),
            value: config.value().into(),
            held: Vec::new(),
        };
        Ok((driver, about))
    }
}

impl Driver for Rustis {
    fn block(&mut self, block: &Rc<Block>) -> anyhow::Result<()> {
        let is_get = self.config.operation == Operation::Get;
        let depth = match self.config.mode {
            Mode::Sync | Mode::Multiplexed => 1,
            Mode::Pipeline => self.config.depth,
            mode => bail!("rustis has no mode {mode:?}"),
        };
        run_tasks(&self.runtime, self.config.concurrency, || {
            let (client, block) = (self.client.clone(), Rc::clone(block));
            let (keys, value) = (Rc::clone(&self.keys), Rc::clone(&self.value));
            async move {
                while let Some(call) = block.next_of_task(depth).await {
                    let chosen: Vec<_> = (0..depth).map(|_| block.choose()).collect();
                    let begun = call.begin();
                    if depth > 1 {
                        pipeline(&client, &block, is_get, &chosen, &keys, &value).await;
                    } else if is_get {
                        note(&block, client.get(keys[chosen[0]].as_str()).await);
                    } else if let Err(error) = client.set(keys[chosen[0]].as_str(), &*value).await {
                        block.fail(kind(&error), 1);
                    }
                    block.done(&begun);
                }
                Ok(())
            }
        })
    }

    fn increment(&mut self, key: &str) -> Result<(), Failed> {
        match self.runtime.block_on(async { self.client.incr(key).await }) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Redis(_)) => {
                Err(Failed::Refused(kind(&error)))
            }
            Err(error) => Err(Failed::Lost(kind(&error))),
        }
    }

    fn pause(&mut self, time: Duration) {
        idle(&self.runtime, time);
    }

    fn connect_another(&mut self) -> anyhow::Result<()> {
        let settings = settings(&self.config)?;
        let connected = self.runtime.block_on(Client::connect(settings))?;
        self.held.push(connected);
        Ok(())
    }
}

async fn pipeline(
    client: &Client,
    block: &Block,
    is_get: bool,
    chosen: &[usize],
    keys: &[String],
    value: &str,
) {
    let mut pipeline = client.create_pipeline();
    for &key in chosen {
        if is_get {
            pipeline.get::<()>(keys[key].as_str()).queue();
        } else {
            pipeline.set(keys[key].as_str(), value).forget();
        }
    }
    if is_get {
        match pipeline.execute::<Vec<Option<BulkString>>>().await {
            Ok(values) => {
                for value in &values {
                    block.check(value.as_deref());
                }
            }
            Err(error) => block.fail(kind(&error), chosen.len()),
        }
    } else if let Err(error) = pipeline.execute::<()>().await {
        block.fail(kind(&error), chosen.len());
    }
}

fn note(block: &Block, reply: RustisResult<Option<BulkString>>) {
    match reply {
        Ok(value) => block.check(value.as_deref()),
        Err(error) => block.fail(kind(&error), 1),
    }
}

fn kind(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Redis(reply) if reply.kind == RedisErrorKind::Other => {
            reply.description().into()
        }
        ErrorKind::Redis(reply) => reply.kind.to_string(),
        other => {
            let said = other.to_string();
            said.split(':').next().unwrap_or_default().replace(' ', "")
        }
    }
}
