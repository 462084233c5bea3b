//! The driver of redis-rs: a blocking connection, also to the master that sentinels name, or tasks that share a
//! `ConnectionManager`; or those of a cluster.

use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use driver_harness::{
    About, Block, Config, Driver, Failed, Mode, Operation, idle, run_tasks, runtime, serve,
};
use redis::aio::{self, ConnectionManager};
use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    ConnectionAddr, ConnectionLike, ProtocolVersion, RedisError, RedisResult, cluster_async, cmd,
};
use tokio::runtime::Runtime;

fn main() -> anyhow::Result<()> {
    serve(RedisRs::open)
}

/// The end of the name of a client with the settings that its documentation recommends.
const RECOMMENDED: &str = ".recommended";

struct RedisRs {
    config: Config,
    entrance: Entrance,
    keys: Rc<[String]>,
    value: Rc<str>,
    way: Way,
    held: Vec<redis::Connection>,
    /// Whether the plain connection has to be replaced, as redis-rs says.
    is_broken: bool,
}

/// The place where blocking connections are opened.
struct Entrance {
    client: redis::Client,
    sentinel: Option<SentinelClient>,
    is_recommended: bool,
}

enum Way {
    Blocking(Box<redis::Connection>),
    Cluster(Box<ClusterConnection>),
    Tasks(Runtime, ConnectionManager),
    ClusterTasks(Runtime, cluster_async::ClusterConnection),
}

impl Entrance {
    fn connect(&mut self) -> RedisResult<redis::Connection> {
        let connection = match &mut self.sentinel {
            Some(sentinel) => sentinel.get_connection()?,
            None if self.is_recommended => self
                .client
                .get_connection_with_timeout(Duration::from_secs(5))?,
            None => self.client.get_connection()?,
        };
        if self.is_recommended {
            recommended(&connection)?;
        }
        Ok(connection)
    }
}

/// The client of a cluster, with the times of [`recommended`] where they are asked for.
fn cluster(url: &str, is_recommended: bool) -> RedisResult<ClusterClient> {
    let mut builder = ClusterClient::builder([url]);
    if is_recommended {
        builder = builder
            .connection_timeout(Duration::from_secs(5))
            .response_timeout(Duration::from_secs(2));
    }
    builder.build()
}

/// Sets what the example of "Timeouts" in the documentation of redis-rs sets. A client of sentinels has no setting for the time to
/// connect: <https://redis.io/docs/latest/develop/clients/rust/connect/>
fn recommended(connection: &redis::Connection) -> RedisResult<()> {
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    connection.set_write_timeout(Some(Duration::from_secs(2)))
}

/// The client of the master that sentinels name, if there are any.
fn sentinel(config: &Config) -> RedisResult<Option<SentinelClient>> {
    let Some(sentinels) = &config.sentinel else {
        return Ok(None);
    };
    let addresses = sentinels.addresses.iter();
    let addresses = addresses.map(|one| ConnectionAddr::Tcp(one.host.clone(), one.port));
    let name = &sentinels.master;
    let mut builder = SentinelClientBuilder::new(addresses, name, SentinelServerType::Master)?
        .set_client_to_redis_db(config.database.into());
    if config.resp == 3 {
        builder = builder.set_client_to_redis_protocol(ProtocolVersion::RESP3);
    }
    if let Some(user) = &config.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &config.password {
        builder = builder.set_client_to_redis_password(password);
    }
    builder.build().map(Some)
}

impl RedisRs {
    fn open(config: &Config) -> anyhow::Result<(Self, About)> {
        let url = format!("{}?protocol={}", config.url(), config.resp);
        let is_recommended = config.client.ends_with(RECOMMENDED);
        let mut entrance = Entrance {
            client: redis::Client::open(url.as_str())?,
            sentinel: sentinel(config)?,
            is_recommended,
        };
        let cluster = || cluster(&url, is_recommended);
        let mut options = Vec::new();
        if is_recommended {
            options.push("recommended");
        }
        let way = match (config.client.trim_end_matches(RECOMMENDED), config.cluster) {
            ("redis-rs", false) => Way::Blocking(Box::new(entrance.connect()?)),
            ("redis-rs", true) => Way::Cluster(Box::new(cluster()?.get_connection()?)),
            ("redis-rs.tasks", is_cluster) => {
                options.push("tasks");
                let runtime = runtime()?;
                if is_cluster {
                    let connection = runtime.block_on(cluster()?.get_async_connection())?;
                    Way::ClusterTasks(runtime, connection)
                } else {
                    let manager = runtime.block_on(entrance.client.get_connection_manager())?;
                    Way::Tasks(runtime, manager)
                }
            }
            (other, _) => bail!("unknown client `{other}`"),
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
            entrance,
            way,
            held: Vec::new(),
            is_broken: false,
        };
        Ok((driver, about))
    }
}

impl Driver for RedisRs {
    fn block(&mut self, block: &Rc<Block>) -> anyhow::Result<()> {
        let work = Work {
            is_get: self.config.operation == Operation::Get,
            block: Rc::clone(block),
            keys: Rc::clone(&self.keys),
            value: Rc::clone(&self.value),
        };
        let Config {
            depth, concurrency, ..
        } = self.config;
        match (&mut self.way, self.config.mode) {
            (Way::Blocking(connection), Mode::Sync) => work.one_by_one(&mut **connection),
            (Way::Cluster(connection), Mode::Sync) => work.one_by_one(&mut **connection),
            (Way::Blocking(connection), Mode::Pipeline) => work.in_pipelines(connection, depth),
            (Way::Cluster(connection), Mode::Pipeline) => {
                work.in_pipelines_of_cluster(connection, depth);
            }
            (Way::Tasks(runtime, manager), Mode::Sync | Mode::Multiplexed) => {
                return run_tasks(runtime, concurrency, || work.clone().task(manager.clone()));
            }
            (Way::ClusterTasks(runtime, connection), Mode::Sync | Mode::Multiplexed) => {
                return run_tasks(runtime, concurrency, || {
                    work.clone().task(connection.clone())
                });
            }
            (_, mode) => bail!("{} has no mode {mode:?}", self.config.client),
        }
        Ok(())
    }

    fn increment(&mut self, key: &str) -> Result<(), Failed> {
        let done: RedisResult<u64> = match &mut self.way {
            Way::Blocking(connection) => {
                // A plain connection does not connect again by itself.
                if self.is_broken
                    && let Ok(another) = self.entrance.connect()
                {
                    **connection = another;
                }
                let done = cmd("INCR").arg(key).query(connection);
                let must_replace = done.as_ref().is_err_and(RedisError::is_unrecoverable_error);
                self.is_broken = must_replace || !ConnectionLike::is_open(&**connection);
                done
            }
            Way::Cluster(connection) => cmd("INCR").arg(key).query(&mut **connection),
            Way::Tasks(runtime, manager) => {
                runtime.block_on(async { cmd("INCR").arg(key).query_async(manager).await })
            }
            Way::ClusterTasks(runtime, connection) => {
                runtime.block_on(async { cmd("INCR").arg(key).query_async(connection).await })
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

    fn pause(&mut self, time: Duration) {
        match &self.way {
            Way::Tasks(runtime, _) | Way::ClusterTasks(runtime, _) => idle(runtime, time),
            Way::Blocking(_) | Way::Cluster(_) => std::thread::sleep(time),
        }
    }

    fn connect_another(&mut self) -> anyhow::Result<()> {
        self.held.push(self.entrance.connect()?);
        Ok(())
    }
}

/// The data that the calls of a block need.
#[derive(Clone)]
struct Work {
    is_get: bool,
    block: Rc<Block>,
    keys: Rc<[String]>,
    value: Rc<str>,
}

impl Work {
    fn one_by_one(&self, connection: &mut impl ConnectionLike) {
        while let Some(call) = self.block.next(1) {
            let key = &self.keys[self.block.choose()];
            let begun = call.begin();
            if self.is_get {
                note(&self.block, cmd("GET").arg(key).query(connection));
            } else {
                let set = cmd("SET").arg(key).arg(&*self.value).query(connection);
                written(&self.block, set);
            }
            self.block.done(&begun);
        }
    }

    async fn task(self, mut connection: impl aio::ConnectionLike) -> anyhow::Result<()> {
        let block = &self.block;
        while let Some(call) = block.next_of_task(1).await {
            let key = &self.keys[block.choose()];
            let begun = call.begin();
            if self.is_get {
                let get = cmd("GET").arg(key).query_async(&mut connection).await;
                note(block, get);
            } else {
                let mut set = cmd("SET");
                set.arg(key).arg(&*self.value);
                written(block, set.query_async(&mut connection).await);
            }
            block.done(&begun);
        }
        Ok(())
    }

    fn chosen(&self, depth: usize) -> Vec<&String> {
        let choose = || &self.keys[self.block.choose()];
        std::iter::repeat_with(choose).take(depth).collect()
    }

    fn in_pipelines(&self, connection: &mut redis::Connection, depth: usize) {
        while let Some(call) = self.block.next(depth) {
            let chosen = self.chosen(depth);
            let begun = call.begin();
            let mut pipeline = redis::pipe();
            if self.is_get {
                chosen.into_iter().for_each(|key| {
                    pipeline.get(key);
                });
                self.read(pipeline.query(connection), depth);
            } else {
                chosen.into_iter().for_each(|key| {
                    pipeline.set(key, &*self.value).ignore();
                });
                self.wrote(pipeline.query(connection), depth);
            }
            self.block.done(&begun);
        }
    }

    /// A pipeline of a cluster is split by the nodes of its keys.
    fn in_pipelines_of_cluster(&self, connection: &mut ClusterConnection, depth: usize) {
        while let Some(call) = self.block.next(depth) {
            let chosen = self.chosen(depth);
            let begun = call.begin();
            let mut pipeline = cluster_pipe();
            if self.is_get {
                chosen.into_iter().for_each(|key| {
                    pipeline.get(key);
                });
                self.read(pipeline.query(connection), depth);
            } else {
                chosen.into_iter().for_each(|key| {
                    pipeline.set(key, &*self.value).ignore();
                });
                self.wrote(pipeline.query(connection), depth);
            }
            self.block.done(&begun);
        }
    }

    fn read(&self, replies: RedisResult<Vec<Option<Vec<u8>>>>, depth: usize) {
        match replies {
            Ok(values) => values
                .iter()
                .for_each(|value| self.block.check(value.as_deref())),
            Err(error) => failed(&self.block, error, depth),
        }
    }

    fn wrote(&self, replies: RedisResult<()>, depth: usize) {
        if let Err(error) = replies {
            failed(&self.block, error, depth);
        }
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
