//! Operations of the client, blocking and multiplexed, against the null server.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use anyhow::{Context, ensure};
use loadline_client::commands::{get, set};
use loadline_client::{Client, blocking, multiplexed};
use loadline_null::{NullServer, Reads};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::{KEYS, Measured, VALUE, distinct, keys};

/// Commands of a pipeline.
const PIPELINE: usize = 100;
/// Tasks that share a connection.
const TASKS: usize = 64;
/// Calls of what takes many operations.
const CALLS: usize = 20;

pub(crate) fn run() -> anyhow::Result<Vec<Measured>> {
    let keys = keys();
    let server = NullServer::start(Reads::Sized(Arc::new(AtomicUsize::new(VALUE.len()))))?;
    let address = server.address().context("it listens on TCP")?;
    let client = Client::open(&format!("redis://{address}"))?;

    let (mut reader, mut writer) = (client.blocking()?, client.blocking()?);
    for key in &keys {
        let read = blocking_get(&mut reader, key)?;
        ensure!(read == VALUE.len(), "a value of {read} bytes");
        blocking_set(&mut writer, key)?;
    }
    for _ in 0..CALLS {
        let read = blocking_pipeline(&mut reader, &keys[..PIPELINE])?;
        ensure!(read == PIPELINE * VALUE.len(), "values of {read} bytes");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shared = runtime.block_on(client.multiplexed())?;
    for _ in 0..KEYS {
        let read = multiplexed_get(&runtime, &shared)?;
        ensure!(read == VALUE.len(), "a value of {read} bytes");
    }
    for _ in 0..CALLS {
        let read = multiplexed_tasks(&runtime, &shared);
        ensure!(read == TASKS * VALUE.len(), "values of {read} bytes");
    }
    Ok(vec![
        Measured::new(&blocking_get, 1),
        Measured::new(&blocking_set, 1),
        Measured::new(&blocking_pipeline, PIPELINE as u64),
        Measured::new(&multiplexed_get, 1),
        Measured::new(&multiplexed_tasks, TASKS as u64),
    ])
}

#[inline(never)]
fn blocking_get(
    connection: &mut blocking::Connection,
    key: &str,
) -> Result<usize, loadline_client::Error> {
    distinct("blocking_get");
    let value: String = connection.run(get(key))?;
    Ok(value.len())
}

#[inline(never)]
fn blocking_set(
    connection: &mut blocking::Connection,
    key: &str,
) -> Result<(), loadline_client::Error> {
    distinct("blocking_set");
    connection.run(set(key, VALUE))
}

#[inline(never)]
fn blocking_pipeline(
    connection: &mut blocking::Connection,
    keys: &[String],
) -> Result<usize, loadline_client::Error> {
    distinct("blocking_pipeline");
    let gets: Vec<_> = keys.iter().map(|key| get::<()>(key.as_str())).collect();
    let mut bytes = 0;
    connection.run_each(&gets, |reply| {
        let reply = reply.ok();
        bytes += reply
            .and_then(|reply| reply.as_bytes().map(<[u8]>::len))
            .unwrap_or(0);
    })?;
    Ok(bytes)
}

#[inline(never)]
fn multiplexed_get(
    runtime: &Runtime,
    connection: &multiplexed::Connection,
) -> Result<usize, loadline_client::Error> {
    distinct("multiplexed_get");
    let value: String = runtime.block_on(connection.run(get("key")))?;
    Ok(value.len())
}

#[inline(never)]
fn multiplexed_tasks(runtime: &Runtime, connection: &multiplexed::Connection) -> usize {
    distinct("multiplexed_tasks");
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let connection = connection.clone();
            tasks.spawn(async move { connection.run(get::<String>("key")).await });
        }
        let mut bytes = 0;
        while let Some(Ok(Ok(value))) = tasks.join_next().await {
            bytes += value.len();
        }
        bytes
    })
}
