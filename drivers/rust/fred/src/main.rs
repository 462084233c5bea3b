//! The driver of fred: tasks that share a connection.

use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use driver_harness::{
    About, Block, Config, Driver, Failed, Mode, Operation, idle, run_tasks, runtime, serve,
};
use fred::prelude::{
    Builder, Client, ClientLike, Error, ErrorKind, KeysInterface, ReconnectPolicy, ServerConfig,
};
use fred::types::RespVersion;
use tokio::runtime::Runtime;

fn main() -> anyhow::Result<()> {
    serve(Fred::open)
}

struct Fred {
    config: Config,
    runtime: Runtime,
    client: Client,
    keys: Rc<[String]>,
    value: Rc<str>,
    held: Vec<Client>,
}

fn connect(config: &Config, runtime: &Runtime) -> anyhow::Result<Client> {
    let mut settings = fred::prelude::Config::from_url(&config.url())?;
    if let Some(sentinels) = &config.sentinel {
        let addresses = sentinels.addresses.iter();
        let addresses = addresses.map(|one| (one.host.clone(), one.port)).collect();
        settings.server = ServerConfig::new_sentinel(addresses, sentinels.master.as_str());
    } else if config.cluster {
        settings.server = ServerConfig::new_clustered(vec![(config.host.clone(), config.port)]);
    }
    settings.version = if config.resp == 3 {
        RespVersion::RESP3
    } else {
        RespVersion::RESP2
    };
    let mut builder = Builder::from_config(settings);
    // Its builder has no policy of its own; the one of its examples.
    builder.set_policy(ReconnectPolicy::default());
    let client = builder.build()?;
    runtime.block_on(client.init())?;
    Ok(client)
}

impl Fred {
    fn open(config: &Config) -> anyhow::Result<(Self, About)> {
        let runtime = runtime()?;
        let client = connect(config, &runtime)?;
        let about = About {
            client: "fred",
            version: driver_harness::locked_version!("fred"),
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

impl Driver for Fred {
    fn block(&mut self, block: &Rc<Block>) -> anyhow::Result<()> {
        let is_get = self.config.operation == Operation::Get;
        let depth = match self.config.mode {
            Mode::Sync | Mode::Multiplexed => 1,
            Mode::Pipeline => self.config.depth,
            mode => bail!("fred has no mode {mode:?}"),
        };
        run_tasks(&self.runtime, self.config.concurrency, || {
            let (client, block) = (self.client.clone(), Rc::clone(block));
            let (keys, value) = (Rc::clone(&self.keys), Rc::clone(&self.value));
            async move {
                while let Some(call) = block.next_of_task(depth).await {
                    let chosen: Vec<_> = (0..depth).map(|_| block.choose()).collect();
                    let begun = call.begin();
                    if depth > 1 {
                        pipeline(&client, &block, is_get, &chosen, &keys, &value).await?;
                    } else if is_get {
                        note(&block, client.get(&keys[chosen[0]]).await);
                    } else if let Err(error) = client
                        .set::<(), _, _>(&keys[chosen[0]], &*value, None, None, false)
                        .await
                    {
                        block.fail(kind(&error), 1);
                    }
                    block.done(&begun);
                }
                Ok(())
            }
        })
    }

    fn increment(&mut self, key: &str) -> Result<(), Failed> {
        let done: Result<i64, Error> = self.runtime.block_on(self.client.incr(key));
        done.map(drop).map_err(|error| match error.kind() {
            ErrorKind::IO
            | ErrorKind::Timeout
            | ErrorKind::Canceled
            | ErrorKind::Backpressure
            | ErrorKind::Protocol => Failed::Lost(kind(&error)),
            _ => Failed::Refused(kind(&error)),
        })
    }

    fn pause(&mut self, time: Duration) {
        idle(&self.runtime, time);
    }

    fn connect_another(&mut self) -> anyhow::Result<()> {
        self.held.push(connect(&self.config, &self.runtime)?);
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
) -> anyhow::Result<()> {
    let pipeline = client.pipeline();
    for &key in chosen {
        let () = if is_get {
            pipeline.get(&keys[key]).await?
        } else {
            pipeline.set(&keys[key], value, None, None, false).await?
        };
    }
    if is_get {
        for reply in pipeline.try_all::<Option<Vec<u8>>>().await {
            note(block, reply);
        }
    } else {
        for error in pipeline
            .try_all::<()>()
            .await
            .into_iter()
            .filter_map(Result::err)
        {
            block.fail(kind(&error), 1);
        }
    }
    Ok(())
}

fn note(block: &Block, reply: Result<Option<Vec<u8>>, Error>) {
    match reply {
        Ok(value) => block.check(value.as_deref()),
        Err(error) => block.fail(kind(&error), 1),
    }
}

fn kind(error: &Error) -> String {
    let details = error.details().split(' ').next().unwrap_or_default();
    if !details.is_empty() && details.chars().all(|c| c.is_ascii_uppercase()) {
        return details.to_owned();
    }
    format!("{:?}", error.kind()).replace(' ', "")
}
