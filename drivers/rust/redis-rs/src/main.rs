//! The driver of redis-rs: a blocking connection, or tasks that share a `ConnectionManager`.

use std::rc::Rc;
use std::time::Instant;

use anyhow::bail;
use driver_harness::{
    About, Block, Config, Driver, Failed, Mode, Operation, run_tasks, runtime, serve,
};
use redis::aio::ConnectionManager;
use redis::{RedisError, RedisResult, cmd};
use tokio::runtime::Runtime;

fn main() -> anyhow::Result<()> {
    serve(RedisRs::open)
}

struct RedisRs {
    config: Config,
    client: redis::Client,
    keys: Rc<[String]>,
    value: Rc<str>,
    way: Way,
    held: Vec<redis::Connection>,
}

enum Way {
    Blocking(Box<redis::Connection>),
    Tasks(Runtime, ConnectionManager),
}

impl RedisRs {
    fn open(config: &Config) -> anyhow::Result<(Self, About)> {
        let client = redis::Client::open(format!("{}?protocol={}", config.url(), config.resp))?;
        let mut options = Vec::new();
        let way = match config.client.as_str() {
            "redis-rs" => Way::Blocking(Box::new(client.get_connection()?)),
            "redis-rs.tasks" => {
                options.push("tasks");
                let runtime = runtime()?;
                let manager = runtime.block_on(client.get_connection_manager())?;
                Way::Tasks(runtime, manager)
            }
            other => bail!("unknown client `{other}`"),
        };
        let about = About {
            client: "redis-rs",
            version: driver_harness::locked_version!("redis"),
            options,
        };
        let driver = Self {
            keys: config.keys().into(),
            value: config.value().into(),
            config: config.clone(),
            client,
            way,
            held: Vec::new(),
        };
        Ok((driver, about))
    }
}

impl Driver for RedisRs {
    fn block(&mut self, block: &Rc<Block>) -> anyhow::Result<()> {
        let is_get = self.config.operation == Operation::Get;
        let (keys, value) = (&self.keys, &self.value);
        match (&mut self.way, self.config.mode) {
            (Way::Blocking(connection), Mode::Sync) => {
                while block.goes_on(1) {
                    let key = &keys[block.choose()];
                    let begun = Instant::now();
                    if is_get {
                        note(block, cmd("GET").arg(key).query(connection));
                    } else {
                        written(block, cmd("SET").arg(key).arg(&**value).query(connection));
                    }
                    block.done(begun, 1);
                }
                Ok(())
            }
            (Way::Blocking(connection), Mode::Pipeline) => {
                pipelines(block, connection, (is_get, self.config.depth), keys, value);
                Ok(())
            }
            (Way::Tasks(runtime, manager), Mode::Sync | Mode::Multiplexed) => {
                run_tasks(runtime, self.config.concurrency, || {
                    let (mut manager, block) = (manager.clone(), Rc::clone(block));
                    let (keys, value) = (Rc::clone(keys), Rc::clone(value));
                    async move {
                        while block.goes_on(1) {
                            let key = &keys[block.choose()];
                            let begun = Instant::now();
                            if is_get {
                                note(&block, cmd("GET").arg(key).query_async(&mut manager).await);
                            } else {
                                let set = cmd("SET")
                                    .arg(key)
                                    .arg(&*value)
                                    .query_async(&mut manager)
                                    .await;
                                written(&block, set);
                            }
                            block.done(begun, 1);
                        }
                        Ok(())
                    }
                })
            }
            (_, mode) => bail!("{} has no mode {mode:?}", self.config.client),
        }
    }

    fn increment(&mut self, key: &str) -> Result<(), Failed> {
        let done: RedisResult<u64> = match &mut self.way {
            Way::Blocking(connection) => {
                // A plain connection does not connect again by itself.
                if !redis::ConnectionLike::is_open(&**connection)
                    && let Ok(another) = self.client.get_connection()
                {
                    **connection = another;
                }
                cmd("INCR").arg(key).query(connection)
            }
            Way::Tasks(runtime, manager) => {
                runtime.block_on(async { cmd("INCR").arg(key).query_async(manager).await })
            }
        };
        done.map(drop).map_err(|error| {
            let is_reply = error.code().is_some() && !error.is_io_error();
            if is_reply {
                Failed::Refused(kind(&error))
            } else {
                Failed::Lost(kind(&error))
            }
        })
    }

    fn connect_another(&mut self) -> anyhow::Result<()> {
        self.held.push(self.client.get_connection()?);
        Ok(())
    }
}

fn pipelines(
    block: &Block,
    connection: &mut redis::Connection,
    (is_get, depth): (bool, usize),
    keys: &[String],
    value: &str,
) {
    while block.goes_on(depth) {
        let chosen: Vec<_> = (0..depth).map(|_| block.choose()).collect();
        let begun = Instant::now();
        let mut pipeline = redis::pipe();
        for key in chosen {
            if is_get {
                pipeline.get(&keys[key]);
            } else {
                pipeline.set(&keys[key], value).ignore();
            }
        }
        if is_get {
            match pipeline.query::<Vec<Option<Vec<u8>>>>(connection) {
                Ok(values) => values
                    .iter()
                    .for_each(|value| block.check(value.as_deref())),
                Err(error) => failed(block, error, depth),
            }
        } else if let Err(error) = pipeline.query::<()>(connection) {
            failed(block, error, depth);
        }
        block.done(begun, depth);
    }
}

/// Counts the commands of a pipeline that failed: those with an error reply, or all.
fn failed(block: &Block, error: RedisError, depth: usize) {
    let kind = kind(&error);
    match error.into_server_errors() {
        Some(errors) => errors
            .iter()
            .for_each(|(_, error)| block.fail(error.code(), 1)),
        None => block.fail(kind, depth),
    }
}

fn note(block: &Block, reply: RedisResult<Option<Vec<u8>>>) {
    match reply {
        Ok(value) => block.check(value.as_deref()),
        Err(error) => block.fail(kind(&error), 1),
    }
}

fn written(block: &Block, reply: RedisResult<()>) {
    if let Err(error) = reply {
        block.fail(kind(&error), 1);
    }
}

fn kind(error: &RedisError) -> String {
    error.code().map_or_else(
        || format!("{:?}", error.kind()).replace(' ', ""),
        str::to_owned,
    )
}
