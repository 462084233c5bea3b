//! `loadline __driver`: a driver of the client of this project within the program (docs/driver-protocol.md), for machines that have no
//! other one.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use loadline_client::blocking::Connection;
use loadline_client::commands::{get, incr, set};
use loadline_client::{Address, Client, Error, Password, Protocol};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::targets::engines::resident_bytes;
use crate::targets::threads::Threads;
use crate::units::nanoseconds;

/// The pause between operations of a run with faults.
const PAUSE: Duration = Duration::from_millis(5);

/// The first line, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Config {
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<String>,
    database: u32,
    resp: u8,
    mode: String,
    depth: usize,
    operation: String,
    key_prefix: String,
    keys: u32,
    value_bytes: usize,
}

/// A block in progress.
struct Block {
    end: Option<Instant>,
    most: u64,
    choice: u32,
    begun: u64,
    ops: u64,
    misses: u64,
    errors: BTreeMap<String, u64>,
    histogram: BTreeMap<u64, u64>,
}

pub(super) fn run() -> anyhow::Result<ExitCode> {
    let mut lines = std::io::stdin().lock().lines();
    let line = lines.next().context("the configuration is missing")??;
    let config: Config = serde_json::from_str(&line)?;
    let mut connection = connect(&config)?;
    let keys: Vec<String> = (0..config.keys)
        .map(|number| format!("{}{number:08}", config.key_prefix))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    say(&json!({"ready": {
        "client": "loadline-client", "version": version, "runtime": "Rust", "options": ["built in"],
    }}))?;
    for line in lines {
        let line = line?;
        let numbers = line
            .strip_prefix("go ")
            .with_context(|| format!("unknown line {line}"))?;
        let numbers: Vec<u64> = numbers
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [duration, most, seed] = numbers[..] else {
            bail!("unknown line {line}");
        };
        let threads = Threads::of_process(u64::from(std::process::id()));
        let (cpu, start) = (threads.cpu(), Instant::now());
        let mut block = Block {
            end: (duration > 0).then(|| start + Duration::from_nanos(duration)),
            most,
            choice: (seed as u32).max(1),
            begun: 0,
            ops: 0,
            misses: 0,
            errors: BTreeMap::new(),
            histogram: BTreeMap::new(),
        };
        if config.mode == "faults" {
            block.with_faults(&mut connection, &config.key_prefix)?;
        } else {
            block.calls(&mut connection, &config, &keys);
        }
        let elapsed = start.elapsed();
        let cpu = threads.cpu_since(&cpu).unwrap_or_default();
        say(&json!({"result": block.result(elapsed, cpu)}))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn connect(config: &Config) -> anyhow::Result<Connection> {
    let protocol = if config.resp == 3 {
        Protocol::Resp3
    } else {
        Protocol::Resp2
    };
    let mut builder = Client::builder()
        .address(Address::Tcp {
            host: config.host.clone(),
            port: config.port,
        })
        .database(config.database)
        .protocol(Some(protocol));
    if let Some(password) = config.password.as_deref().map(Password::new) {
        builder = match &config.user {
            Some(user) => builder.login(user, password),
            None => builder.password(password),
        };
    }
    Ok(builder.build().blocking()?)
}

fn say(line: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The kind of an error: the first word of an error reply, or that of the failure.
fn kind(error: &Error) -> String {
    match error {
        Error::Server(said) => {
            let said = said.to_string();
            said.split(' ').next().unwrap_or_default().to_owned()
        }
        Error::Connection { .. } => "Connection".into(),
        Error::Timeout { .. } => "Timeout".into(),
        Error::Protocol { .. } => "Protocol".into(),
        _ => "Other".into(),
    }
}

impl Block {
    /// Whether another call of `size` operations begins.
    fn goes_on(&mut self, size: u64) -> bool {
        let is_full = self.most > 0 && self.begun >= self.most;
        let is_over = self.begun > 0 && self.end.is_some_and(|end| Instant::now() >= end);
        self.begun += size;
        !is_full && !is_over
    }

    /// The number of the next key (xorshift32, the same in all drivers).
    fn choose(&mut self, keys: usize) -> usize {
        self.choice ^= self.choice << 13;
        self.choice ^= self.choice >> 17;
        self.choice ^= self.choice << 5;
        self.choice as usize % keys
    }

    fn calls(&mut self, connection: &mut Connection, config: &Config, keys: &[String]) {
        let depth = if config.mode == "pipeline" {
            config.depth
        } else {
            1
        };
        let value = "x".repeat(config.value_bytes);
        let (is_get, wanted) = (config.operation == "get", Some(config.value_bytes));
        while self.goes_on(depth as u64) {
            let chosen: Vec<&String> = (0..depth).map(|_| &keys[self.choose(keys.len())]).collect();
            let begun = Instant::now();
            if is_get && depth == 1 {
                let reply = connection.run(get::<Option<Vec<u8>>>(chosen[0]));
                self.note(reply.map(|value| value.map(|value| value.len())), wanted);
            } else if is_get {
                let commands: Vec<_> = chosen.iter().map(get::<Option<Vec<u8>>>).collect();
                for reply in connection.run(&commands) {
                    self.note(reply.map(|value| value.map(|value| value.len())), wanted);
                }
            } else if depth == 1 {
                self.note(
                    connection.run(set(chosen[0], &value)).map(|_| wanted),
                    wanted,
                );
            } else {
                let commands: Vec<_> = chosen.iter().map(|key| set(key, &value)).collect();
                for reply in connection.run(&commands) {
                    self.note(reply.map(|_| wanted), wanted);
                }
            }
            let ns = nanoseconds(begun.elapsed());
            let shift = u64::from((u64::BITS - ns.leading_zeros()).saturating_sub(11));
            *self
                .histogram
                .entry(1024 * shift + (ns >> shift))
                .or_default() += depth as u64;
            self.ops += depth as u64;
        }
    }

    /// Counts a reply by the length of its value.
    fn note(&mut self, reply: Result<Option<usize>, Error>, wanted: Option<usize>) {
        let wrong = match reply {
            Ok(None) => {
                self.misses += 1;
                return;
            }
            Ok(length) if length == wanted => return,
            Ok(_) => "WRONGVALUE".to_owned(),
            Err(error) => kind(&error),
        };
        *self.errors.entry(wrong).or_default() += 1;
    }

    /// Increments a key of its own, one after the other, with a line for each.
    fn with_faults(&mut self, connection: &mut Connection, prefix: &str) -> anyhow::Result<()> {
        for sequence in 0_u64.. {
            if !self.goes_on(1) {
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

    fn result(&self, elapsed: Duration, cpu: Duration) -> Value {
        let histogram: Vec<(u64, u64)> = self
            .histogram
            .iter()
            .map(|(slot, count)| (*slot, *count))
            .collect();
        json!({
            "ops": self.ops, "errors": self.errors, "misses": self.misses,
            "elapsed_ns": nanoseconds(elapsed), "user_cpu_ns": nanoseconds(cpu), "system_cpu_ns": 0,
            "max_rss_bytes": resident_bytes("self").unwrap_or(0), "histogram": histogram,
        })
    }
}
