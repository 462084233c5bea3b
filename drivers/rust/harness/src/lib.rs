//! The common parts of the drivers of Rust clients: the protocol of docs/driver-protocol.md, the choice of keys, and
//! the times of a block.

mod block;

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

pub use block::{Begun, Block, Call};

/// Between two operations of a run with faults.
const PAUSE: Duration = Duration::from_millis(5);

/// The first line.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// The client of the program.
    pub client: String,
    /// The host of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is a node of a cluster.
    #[serde(default)]
    pub cluster: bool,
    /// The sentinels that name the server, if there are any.
    #[serde(default)]
    pub sentinel: Option<Sentinels>,
    /// The user, if one logs in.
    #[serde(default)]
    pub user: Option<String>,
    /// The password.
    #[serde(default)]
    pub password: Option<String>,
    /// The database.
    #[serde(default)]
    pub database: u32,
    /// The version of the protocol.
    pub resp: u8,
    /// Mode of the calls.
    pub mode: Mode,
    /// Operations of a pipeline.
    pub depth: usize,
    /// Concurrent tasks.
    pub concurrency: usize,
    /// Operations per second of an open loop; 0 for a closed one.
    #[serde(default)]
    pub rate: u64,
    /// The operation.
    pub operation: Operation,
    /// Prefix of every key.
    pub key_prefix: String,
    /// The number of keys.
    pub keys: usize,
    /// The bytes of a value.
    pub value_bytes: usize,
}

/// The sentinels that know a server by its name.
#[derive(Debug, Clone, Deserialize)]
pub struct Sentinels {
    /// The name of the server.
    pub master: String,
    /// The addresses of the sentinels.
    pub addresses: Vec<Place>,
}

/// The address of a sentinel.
#[derive(Debug, Clone, Deserialize)]
pub struct Place {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The mode of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One after the other.
    Sync,
    /// Several in one write.
    Pipeline,
    /// From tasks that share a connection.
    Multiplexed,
    /// From tasks that borrow connections.
    Pool,
    /// INCR of new keys, one after the other, with a line for each.
    Faults,
}

/// The operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Read a value.
    Get,
    /// Write a value.
    Set,
}

impl Config {
    /// The keys.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let prefix = &self.key_prefix;
        (0..self.keys)
            .map(|number| format!("{prefix}{number:08}"))
            .collect()
    }

    /// The value of every key.
    #[must_use]
    pub fn value(&self) -> String {
        "x".repeat(self.value_bytes)
    }

    /// The server as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        let login = match (&self.user, &self.password) {
            (_, None) => String::new(),
            (user, Some(password)) => {
                let user = user.as_deref().unwrap_or_default();
                format!("{}:{}@", escaped(user), escaped(password))
            }
        };
        format!(
            "redis://{login}{}:{}/{}",
            self.host, self.port, self.database
        )
    }
}

/// `text` as it is written in the login of a URL.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The outcome of an operation in a run with faults.
#[derive(Debug)]
pub enum Failed {
    /// The server replied with an error.
    Refused(String),
    /// Anything else.
    Lost(String),
}

/// A client at work.
pub trait Driver {
    /// Runs a block.
    ///
    /// # Errors
    /// If the client cannot go on.
    fn block(&mut self, block: &Rc<Block>) -> anyhow::Result<()>;

    /// Increments a key, with the defaults of the client.
    ///
    /// # Errors
    /// The error of the client.
    fn increment(&mut self, key: &str) -> Result<(), Failed>;

    /// Waits between two operations of a run with faults. The tasks of a client go on meanwhile, so that it can connect again.
    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Opens one more connection and holds it.
    ///
    /// # Errors
    /// If it cannot.
    fn connect_another(&mut self) -> anyhow::Result<()>;
}

/// The client's own words about itself.
#[derive(Debug)]
pub struct About {
    /// Its name.
    pub client: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its settings that matter.
    pub options: Vec<&'static str>,
}

/// The version of a crate in the lock file of this workspace.
#[macro_export]
macro_rules! locked_version {
    ($name:literal) => {
        $crate::version_in(include_str!("../../Cargo.lock"), $name)
    };
}

/// The version of the crate `name` in the text of a lock file.
#[must_use]
pub fn version_in(lock: &'static str, name: &str) -> &'static str {
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    entry
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("unknown", |(version, _)| version)
}

/// A runtime on one thread, which is what a driver of tasks has.
///
/// # Errors
/// If the operating system refuses it.
pub fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Lets the tasks of a runtime go on for a while.
pub fn idle(runtime: &Runtime, time: Duration) {
    runtime.block_on(async { tokio::time::sleep(time).await });
}

/// Runs `count` tasks to their ends.
///
/// # Errors
/// The first error of a task.
pub fn run_tasks<F: Future<Output = anyhow::Result<()>> + 'static>(
    runtime: &Runtime,
    count: usize,
    task: impl Fn() -> F,
) -> anyhow::Result<()> {
    let local = LocalSet::new();
    local.block_on(runtime, async {
        let tasks: Vec<_> = (0..count)
            .map(|_| tokio::task::spawn_local(task()))
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

/// Answers the lines on standard input until it ends.
///
/// # Errors
/// If the client cannot be opened or go on, or a line is not of the protocol.
pub fn serve<D: Driver>(
    open: impl FnOnce(&Config) -> anyhow::Result<(D, About)>,
) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let first = lines.next().context("the configuration is missing")??;
    let config: Config = serde_json::from_str(&first).context("the configuration")?;
    let (mut driver, about) = open(&config)?;
    say(&json!({ "ready": {
        "client": about.client,
        "version": about.version,
        "runtime": "Rust",
        "options": about.options,
    }}))?;
    for line in lines {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["open", count] => {
                let count: u32 = count.parse()?;
                (0..count).try_for_each(|_| driver.connect_another())?;
                say(&json!({ "opened": count }))?;
            }
            ["go", duration, ops, seed] => {
                let duration = Duration::from_nanos(duration.parse()?);
                let block = Rc::new(Block::new(&config, duration, ops.parse()?, seed.parse()?)?);
                if config.mode == Mode::Faults {
                    with_faults(&mut driver, &config, &block)?;
                } else {
                    driver.block(&block)?;
                }
                say(&json!({ "result": block.result()? }))?;
            }
            _ => bail!("unknown line `{line}`"),
        }
    }
    Ok(())
}

fn say(line: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn with_faults(driver: &mut dyn Driver, config: &Config, block: &Block) -> anyhow::Result<()> {
    let mut sequence = 0_u64;
    while block.next(1).is_some() {
        let key = format!("{}{sequence}", config.key_prefix);
        let begun = Instant::now();
        let done = driver.increment(&key);
        let ns = begun.elapsed().as_nanos() as u64;
        let (outcome, error) = match done {
            Ok(()) => ("acknowledged", String::new()),
            Err(Failed::Refused(error)) => ("failed", error),
            Err(Failed::Lost(error)) => ("unknown", error),
        };
        say(&json!({ "op": {
            "kind": "incr", "key": key, "sequence": sequence, "outcome": outcome, "error": error, "ns": ns,
        }}))?;
        sequence += 1;
        driver.pause(PAUSE);
    }
    Ok(())
}
