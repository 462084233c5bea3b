//! Memory per connection, on both sides.
//!
//! The client's side is counted in a process of its own, since memory that this one has given back
//! to its allocator would be used again unseen. It opens a few connections first, so that what is
//! there once is there; then the growth of its anonymous memory over many more is shared among them.
//! Buffers of the kernel are in neither figure. The server's side is what CLIENT LIST says (`tot-mem`).

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use loadline_client::commands::ping;
use loadline_client::multiplexed::Dedicated;
use loadline_client::{Client, Error as ClientError, Protocol, Tls, cmd};
use loadline_load::block;
use loadline_load::outcome::{Memory, Outcome};
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::{Control, Error};
use serde::{Deserialize, Serialize};

use super::made::runtime;
use crate::exit::{Exit, Failure};
use crate::secret::Secret;
use crate::spelling::{Address, Server};
use crate::systems::connect::{PATIENCE, builder};
use crate::systems::servers::own_child;
use crate::workload::{Job, OpenJob, Site};

/// Connections that one block opens and counts.
const COUNTED: u32 = 200;
/// Connections that are open before any is counted.
const FIRST: u32 = 20;
/// The name of the connections that are counted.
const NAME: &str = "loadline-memory";

/// The standard input of the process that holds connections: a password must not be on a command
/// line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Errand {
    host: Option<String>,
    port: u16,
    socket: Option<std::path::PathBuf>,
    database: u32,
    user: Option<String>,
    password: Option<String>,
    connections: u32,
    resp: u8,
}

/// The output of that process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// Time of each connection until its first PING was answered.
    opened_ns: Vec<u64>,
    client_bytes: Option<f64>,
    server_bytes: Option<f64>,
}

/// The memory that connections take, in the client and in the server.
#[derive(Debug)]
pub(super) struct ConnectionMemory;

impl Job for ConnectionMemory {
    fn description(&self) -> &'static str {
        "opens 200 connections in a process of their own, once in each block"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["CLIENT"]
    }

    fn connections(&self) -> u32 {
        COUNTED
    }

    fn most_per_block(&self) -> Option<u64> {
        Some(COUNTED.into())
    }

    fn warms_up(&self) -> bool {
        false
    }

    fn makes_connections(&self) -> bool {
        true
    }

    fn works_over_tls(&self) -> bool {
        false
    }

    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure> {
        Ok(OpenJob::Blocks(Box::new(MemorySubject {
            server: site.server,
            protocol: site.client.config().protocol,
        })))
    }
}

/// Counts again in each block, which is one process regardless of the intended length.
struct MemorySubject<'t> {
    server: &'t Server,
    protocol: Option<Protocol>,
}

impl MemorySubject<'_> {
    fn count(&self) -> Result<Counted, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::unavailable(format!("connection_memory: {why}."))
        };
        let mut process = own_child(&["__connections"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let errand = serde_json::to_vec(&Errand::at(self.server, self.protocol))
            .map_err(|error| failed(&error))?;
        if let Some(mut stdin) = process.stdin.take() {
            stdin.write_all(&errand).map_err(|error| failed(&error))?;
        }
        let output = process.wait_with_output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().trim_start_matches("loadline: ");
            return Err(failed(&said.trim_end_matches('.')));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
    }
}

impl Subject for MemorySubject<'_> {
    fn block(&mut self, _: Stop, _: u64, control: &Control) -> Result<Outcome, Error> {
        block::run_whole(control, || {
            let counted = self.count();
            let counted = counted.map_err(|failure| Error::Subject(failure.to_string().into()))?;
            Ok(counted.into())
        })
    }
}

impl From<Counted> for Outcome {
    fn from(counted: Counted) -> Self {
        let mut outcome = Self::empty();
        outcome.ops = counted.opened_ns.len() as u64;
        outcome.clock_reads = outcome.ops;
        outcome.duration = Duration::from_nanos(counted.opened_ns.iter().sum());
        for &ns in &counted.opened_ns {
            outcome.response.record(ns);
            outcome.service.record(ns);
        }
        outcome.memory = Memory {
            client_bytes_per_connection: counted.client_bytes,
            server_bytes_per_connection: counted.server_bytes,
        };
        outcome
    }
}

impl Errand {
    fn at(server: &Server, protocol: Option<Protocol>) -> Self {
        let (host, port, socket) = match &server.address {
            Address::Tcp { host, port } => (Some(host.clone()), *port, None),
            Address::Unix(path) => (None, 0, Some(path.clone())),
        };
        Self {
            host,
            port,
            socket,
            database: server.database,
            user: server.login.user.clone(),
            password: server
                .login
                .password
                .as_ref()
                .map(|password| password.reveal().to_owned()),
            connections: COUNTED,
            resp: if protocol == Some(Protocol::Resp3) {
                3
            } else {
                2
            },
        }
    }

    fn client(self) -> Result<Client, Failure> {
        let address = match (self.host, self.socket) {
            (Some(host), _) => Address::Tcp {
                host,
                port: self.port,
            },
            (None, Some(path)) => Address::Unix(path),
            (None, None) => return Err(Failure::usage("__connections needs an address.")),
        };
        let mut server = Server {
            address,
            tls: false,
            database: self.database,
            login: crate::spelling::Login::default(),
        };
        server.login.user = self.user;
        server.login.password = self.password.map(Secret::new);
        let protocol = match self.resp {
            3 => Protocol::Resp3,
            _ => Protocol::Resp2,
        };
        Ok(builder(&server, &Tls::default())
            .protocol(Some(protocol))
            .connect_timeout(PATIENCE)
            .response_timeout(Some(PATIENCE))
            .client_name(NAME)
            .build())
    }
}

/// The other process: opens the connections that standard input asks for, and says what they take.
///
/// # Errors
/// That it was asked for something else, or that the server is not there.
pub(crate) fn hold_connections() -> Result<Counted, Failure> {
    let mut text = Vec::new();
    std::io::stdin()
        .read_to_end(&mut text)
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let errand: Errand = serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format!("__connections: {error}.")))?;
    let connections = errand.connections;
    let client = errand.client()?;
    runtime("connection_memory")?
        .block_on(hold(&client, connections))
        .map_err(|error| Failure::unavailable(format!("{error}.")))
}

async fn hold(client: &Client, connections: u32) -> Result<Counted, ClientError> {
    let mut held = Vec::with_capacity((FIRST + connections) as usize);
    for _ in 0..FIRST {
        held.push(open(client).await?);
    }
    let mut opened_ns = Vec::with_capacity(connections as usize);
    let before = anonymous_bytes();
    for _ in 0..connections {
        let begun = Instant::now();
        held.push(open(client).await?);
        opened_ns.push(begun.elapsed().as_nanos() as u64);
    }
    let grown = anonymous_bytes()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before) as f64 / f64::from(connections));
    let list = held[0]
        .run(cmd::<String>("CLIENT").arg("LIST"))
        .await
        .unwrap_or_default();
    Ok(Counted {
        opened_ns,
        client_bytes: grown,
        server_bytes: total_memory(&list),
    })
}

async fn open(client: &Client) -> Result<Dedicated, ClientError> {
    let mut connection = client.dedicated().await?;
    connection.run(ping()).await?;
    Ok(connection)
}

/// Anonymous memory of this process in bytes, if the system reports it (Linux).
fn anonymous_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1_024)
}

/// The mean of `tot-mem` over our connections in the text of CLIENT LIST; `None` where the server does
/// not tell.
fn total_memory(list: &str) -> Option<f64> {
    let field = |line: &str, name: &str| -> Option<String> {
        line.split(' ')
            .find_map(|pair| pair.strip_prefix(name))
            .map(ToOwned::to_owned)
    };
    let of_ours: Vec<f64> = list
        .lines()
        .filter(|line| field(line, "name=").as_deref() == Some(NAME))
        .filter_map(|line| field(line, "tot-mem=")?.parse().ok())
        .collect();
    (!of_ours.is_empty()).then(|| of_ours.iter().sum::<f64>() / of_ours.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_side_is_the_mean_over_our_connections() {
        let list = "id=1 addr=a name=loadline-memory age=0 tot-mem=20000 events=r\n\
                    id=2 addr=b name=loadline-memory age=0 tot-mem=22000 events=r\n\
                    id=3 addr=c name=shop age=0 tot-mem=900000 events=r\n";
        assert_eq!(total_memory(list), Some(21_000.0));
        assert_eq!(total_memory("id=1 name=loadline-memory age=0\n"), None);
        assert_eq!(total_memory(""), None);
    }

    #[test]
    fn errand_leads_to_the_server_that_it_was_made_for() {
        let server = Server {
            address: Address::Tcp {
                host: "db".into(),
                port: 7,
            },
            tls: false,
            database: 3,
            login: crate::spelling::Login {
                user: Some("ann".into()),
                password: Some(Secret::new("hunter2".into())),
            },
        };
        let text = serde_json::to_vec(&Errand::at(&server, Some(Protocol::Resp3))).unwrap();
        let errand: Errand = serde_json::from_slice(&text).unwrap();
        let client = errand.client().unwrap();
        let config = client.config();
        assert_eq!(config.database, 3);
        assert_eq!(config.user.as_deref(), Some("ann"));
        assert!(config.password.is_some());
        assert_eq!(config.client_name.as_deref(), Some(NAME));
    }
}
