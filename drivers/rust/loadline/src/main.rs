//! The driver of loadline-client: a blocking connection, or tasks that share one.

use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use driver_harness::{
    About, Block, Config, Driver, Failed, Mode, Operation, idle, run_tasks, runtime, serve,
};
use loadline_client::cluster::{self, Cluster};
use loadline_client::commands::{get, incr, set};
use loadline_client::{Client, Error, Request, blocking, multiplexed};
use tokio::runtime::Runtime;

fn main() -> anyhow::Result<()> {
    serve(Ours::open)
}

struct Ours {
    config: Config,
    client: Client,
    keys: Rc<[String]>,
    value: Rc<str>,
    way: Way,
    held: Vec<blocking::Connection>,
}

enum Way {
    Blocking(Blocking),
    Tasks(Runtime, Shared),
}

/// A connection of one thread.
enum Blocking {
    Server(Box<blocking::Connection>),
    Cluster(Box<blocking::Cluster>),
}

/// A connection that tasks share.
#[derive(Clone)]
enum Shared {
    Server(multiplexed::Connection),
    Cluster(Cluster),
}

impl Blocking {
    fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request),
            Self::Cluster(cluster) => cluster.run(request),
        }
    }
}

impl Shared {
    async fn run<Q: Request>(&self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request).await,
            Self::Cluster(cluster) => cluster.run(request).await,
        }
    }
}

impl Ours {
    fn open(config: &Config) -> anyhow::Result<(Self, About)> {
        let client = Client::open(&format!("{}?resp={}", config.url(), config.resp))?;
        let cluster = || cluster::Builder::from_config(client.config().clone());
        let mut options = Vec::new();
        let way = match config.client.as_str() {
            "loadline" if config.cluster => {
                Way::Blocking(Blocking::Cluster(Box::new(cluster()?.open_blocking()?)))
            }
            "loadline" => Way::Blocking(Blocking::Server(Box::new(client.blocking()?))),
            "loadline.tasks" => {
                options.push("tasks");
                let runtime = runtime()?;
                let connection = if config.cluster {
                    Shared::Cluster(runtime.block_on(cluster()?.open())?)
                } else {
                    Shared::Server(runtime.block_on(client.multiplexed())?)
                };
                Way::Tasks(runtime, connection)
            }
            other => bail!("unknown client `{other}`"),
        };
        let about = About {
            client: "loadline-client",
            version: env!("CARGO_PKG_VERSION"),
            options,
        };
        let ours = Self {
            keys: config.keys().into(),
            value: config.value().into(),
            config: config.clone(),
            client,
            way,
            held: Vec::new(),
        };
        Ok((ours, about))
    }
}

impl Driver for Ours {
    fn block(&mut self, block: &Rc<Block>) -> anyhow::Result<()> {
        let is_get = self.config.operation == Operation::Get;
        let (keys, value) = (&self.keys, &self.value);
        match (&mut self.way, self.config.mode) {
            (Way::Blocking(connection), Mode::Sync) => {
                while let Some(call) = block.next(1) {
                    let key = &keys[block.choose()];
                    let begun = call.begin();
                    if is_get {
                        note(block, connection.run(get::<Option<Vec<u8>>>(key)));
                    } else if let Err(error) = connection.run(set(key, &**value)) {
                        block.fail(kind(&error), 1);
                    }
                    block.done(&begun);
                }
                Ok(())
            }
            (Way::Blocking(connection), Mode::Pipeline) => {
                while let Some(call) = block.next(self.config.depth) {
                    let chosen: Vec<_> = (0..self.config.depth).map(|_| block.choose()).collect();
                    let begun = call.begin();
                    if is_get {
                        let commands: Vec<_> = chosen
                            .iter()
                            .map(|&key| get::<Option<Vec<u8>>>(&keys[key]))
                            .collect();
                        for reply in connection.run(&commands) {
                            note(block, reply);
                        }
                    } else {
                        let commands: Vec<_> = chosen
                            .iter()
                            .map(|&key| set(&keys[key], &**value))
                            .collect();
                        for error in connection
                            .run(&commands)
                            .into_iter()
                            .filter_map(Result::err)
                        {
                            block.fail(kind(&error), 1);
                        }
                    }
                    block.done(&begun);
                }
                Ok(())
            }
            (Way::Tasks(runtime, connection), Mode::Sync | Mode::Multiplexed) => {
                run_tasks(runtime, self.config.concurrency, || {
                    let (connection, block) = (connection.clone(), Rc::clone(block));
                    let (keys, value) = (Rc::clone(keys), Rc::clone(value));
                    async move {
                        while let Some(call) = block.next_of_task(1).await {
                            let key = &keys[block.choose()];
                            let begun = call.begin();
                            if is_get {
                                note(&block, connection.run(get::<Option<Vec<u8>>>(key)).await);
                            } else if let Err(error) = connection.run(set(key, &*value)).await {
                                block.fail(kind(&error), 1);
                            }
                            block.done(&begun);
                        }
                        Ok(())
                    }
                })
            }
            (_, mode) => bail!("{} has no mode {mode:?}", self.config.client),
        }
    }

    fn increment(&mut self, key: &str) -> Result<(), Failed> {
        let done = match &mut self.way {
            Way::Blocking(connection) => connection.run(incr(key)),
            Way::Tasks(runtime, connection) => {
                runtime.block_on(async { connection.run(incr(key)).await })
            }
        };
        match done {
            Ok(_) => Ok(()),
            Err(error @ Error::Server(_)) => Err(Failed::Refused(kind(&error))),
            Err(error) => Err(Failed::Lost(kind(&error))),
        }
    }

    fn pause(&mut self, time: Duration) {
        match &self.way {
            Way::Tasks(runtime, _) => idle(runtime, time),
            Way::Blocking(_) => std::thread::sleep(time),
        }
    }

    fn connect_another(&mut self) -> anyhow::Result<()> {
        self.held.push(self.client.blocking()?);
        Ok(())
    }
}

fn note(block: &Block, reply: Result<Option<Vec<u8>>, Error>) {
    match reply {
        Ok(value) => block.check(value.as_deref()),
        Err(error) => block.fail(kind(&error), 1),
    }
}

fn kind(error: &Error) -> String {
    match error {
        Error::Server(said) => said.to_string(),
        Error::Connection { .. } => "Connection".into(),
        Error::Timeout { .. } => "Timeout".into(),
        Error::Protocol { .. } => "Protocol".into(),
        _ => "Other".into(),
    }
}
