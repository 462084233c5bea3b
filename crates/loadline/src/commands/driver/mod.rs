//! `loadline __driver`: a driver of the client of this project within the program (docs/driver-protocol.md), for machines that have no
//! other one.

mod block;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use loadline_client::commands::{get, incr, ping, set};
use loadline_client::sentinel::{Node, Sentinel};
use loadline_client::{Address, Client, Error, Password, Protocol, blocking, cluster, multiplexed};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{self, Runtime};
use tokio::task::LocalSet;

use crate::systems::client::{Blocking, Connector};
use crate::systems::drivers::SentinelConfig;
use crate::systems::threads::Threads;
use crate::units::nanoseconds;
use block::{Block, kind};

/// The pause between operations of a run with faults.
const PAUSE: Duration = Duration::from_millis(5);

/// The first line, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Config {
    host: String,
    port: u16,
    #[serde(default)]
    cluster: bool,
    #[serde(default)]
    sentinel: Option<SentinelConfig>,
    user: Option<String>,
    password: Option<String>,
    database: u32,
    resp: u8,
    mode: String,
    depth: usize,
    concurrency: usize,
    #[serde(default)]
    rate: u64,
    operation: String,
    key_prefix: String,
    keys: u32,
    value_bytes: usize,
}

/// The connection, with what is called on it.
struct Ours {
    config: Config,
    client: Client,
    connected: Connected,
    keys: Rc<[String]>,
    value: Rc<str>,
    /// Further connections.
    held: Vec<blocking::Connection>,
}

enum Connected {
    Blocking(Blocking),
    Shared(Runtime, multiplexed::Connection),
}

pub(super) fn run() -> anyhow::Result<ExitCode> {
    let mut lines = std::io::stdin().lock().lines();
    let line = lines.next().context("the configuration is missing")??;
    let mut ours = Ours::open(serde_json::from_str(&line)?)?;
    let version = env!("CARGO_PKG_VERSION");
    say(&json!({"ready": {
        "client": "loadline-client", "version": version, "runtime": "Rust", "options": ["built in"],
    }}))?;
    for line in lines {
        let line = line?;
        let mut words = line.split(' ');
        let command = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
        match (command, &numbers[..]) {
            ("open", &[count]) => {
                for _ in 0..count {
                    let mut connection = ours.client.blocking()?;
                    connection.run(ping())?;
                    ours.held.push(connection);
                }
                say(&json!({"opened": count}))?;
            }
            ("go", &[duration, most, seed]) => {
                let threads = Threads::of_process(u64::from(std::process::id()));
                let cpu = threads.cpu();
                let duration = Duration::from_nanos(duration);
                let block = Rc::new(Block::new(&ours.config, duration, most, seed));
                ours.run(&block)?;
                say(&json!({"result": block.result(|| threads.cpu_since(&cpu))}))?;
            }
            _ => bail!("unknown line {line}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn client(config: &Config) -> Client {
    let protocol = if config.resp == 3 {
        Protocol::Resp3
    } else {
        Protocol::Resp2
    };
    let address = match &config.sentinel {
        None => Address::Tcp {
            host: config.host.clone(),
            port: config.port,
        },
        Some(SentinelConfig { master, addresses }) => {
            let nodes = addresses
                .iter()
                .map(|one| Node::new(one.host.as_str(), one.port));
            Address::Sentinel(Sentinel::new(master, nodes.collect::<Vec<_>>()))
        }
    };
    let mut builder = Client::builder()
        .address(address)
        .database(config.database)
        .protocol(Some(protocol));
    if let Some(password) = config.password.as_deref().map(Password::new) {
        builder = match &config.user {
            Some(user) => builder.login(user, password),
            None => builder.password(password),
        };
    }
    builder.build()
}

fn say(line: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

impl Ours {
    fn open(config: Config) -> anyhow::Result<Self> {
        let client = client(&config);
        let connected = if config.mode == "multiplexed" {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let connection = runtime.block_on(client.multiplexed())?;
            Connected::Shared(runtime, connection)
        } else {
            let connector = if config.cluster {
                let builder = cluster::Builder::from_config(client.config().clone())?;
                Connector::Cluster(Box::new(builder))
            } else {
                Connector::Server(client.clone())
            };
            Connected::Blocking(connector.blocking()?)
        };
        let keys = (0..config.keys).map(|number| format!("{}{number:08}", config.key_prefix));
        Ok(Self {
            keys: keys.collect(),
            value: "x".repeat(config.value_bytes).into(),
            client,
            connected,
            held: Vec::new(),
            config,
        })
    }

    /// Makes the calls of a block.
    fn run(&mut self, block: &Rc<Block>) -> anyhow::Result<()> {
        let is_get = self.config.operation == "get";
        let (keys, value) = (&self.keys, &self.value);
        match (&mut self.connected, self.config.mode.as_str()) {
            (Connected::Blocking(connection), "sync") => {
                one_by_one(connection, is_get, keys, value, block);
                Ok(())
            }
            (Connected::Blocking(connection), "pipeline") => {
                in_pipelines(connection, self.config.depth, is_get, keys, value, block);
                Ok(())
            }
            (Connected::Blocking(connection), "faults") => {
                with_faults(connection, &self.config.key_prefix, block)
            }
            (Connected::Shared(runtime, connection), "multiplexed") => {
                let tasks = LocalSet::new();
                for _ in 0..self.config.concurrency {
                    let (keys, value, block) = (keys.clone(), value.clone(), block.clone());
                    let connection = connection.clone();
                    tasks.spawn_local(async move {
                        task(&connection, is_get, &keys, &value, &block).await;
                    });
                }
                runtime.block_on(tasks);
                Ok(())
            }
            (_, mode) => bail!("there is no mode {mode}"),
        }
    }
}

fn one_by_one(
    connection: &mut Blocking,
    is_get: bool,
    keys: &[String],
    value: &str,
    block: &Block,
) {
    while let Some(call) = block.next(1) {
        let key = &keys[block.choose()];
        let begun = Instant::now();
        if is_get {
            block.read(connection.run(get(key)));
        } else {
            block.wrote(connection.run(set(key, value)));
        }
        block.done(&call, begun);
    }
}

fn in_pipelines(
    connection: &mut Blocking,
    depth: usize,
    is_get: bool,
    keys: &[String],
    value: &str,
    block: &Block,
) {
    while let Some(call) = block.next(depth) {
        let chosen: Vec<&String> = (0..depth).map(|_| &keys[block.choose()]).collect();
        let begun = Instant::now();
        if is_get {
            let commands: Vec<_> = chosen.into_iter().map(get).collect();
            for reply in connection.run(&commands) {
                block.read(reply);
            }
        } else {
            let commands: Vec<_> = chosen.into_iter().map(|key| set(key, value)).collect();
            for reply in connection.run(&commands) {
                block.wrote(reply);
            }
        }
        block.done(&call, begun);
    }
}

/// One of the callers that share a connection.
async fn task(
    connection: &multiplexed::Connection,
    is_get: bool,
    keys: &[String],
    value: &str,
    block: &Block,
) {
    while let Some(call) = block.next_of_task().await {
        let key = &keys[block.choose()];
        let begun = Instant::now();
        if is_get {
            block.read(connection.run(get(key)).await);
        } else {
            block.wrote(connection.run(set(key, value)).await);
        }
        block.done(&call, begun);
    }
}

/// Increments a key of its own, one after the other, with a line for each.
fn with_faults(connection: &mut Blocking, prefix: &str, block: &Block) -> anyhow::Result<()> {
    for sequence in 0_u64.. {
        if block.next(1).is_none() {
            break;
        }
        let key = format!("{prefix}{sequence}");
        let begun = Instant::now();
        let done = connection.run(incr(&key));
        let ns = nanoseconds(begun.elapsed());
        let (outcome, error) = match &done {
            Ok(_) => ("acknowledged", None),
            Err(error @ Error::Server(_)) => ("failed", Some(kind(error))),
            Err(error) => ("unknown", Some(kind(error))),
        };
        say(&json!({"op": {
            "kind": "incr", "key": key, "sequence": sequence, "outcome": outcome, "error": error,
            "ns": ns,
        }}))?;
        thread::sleep(PAUSE);
    }
    Ok(())
}
