//! A Redis server.

use std::ops::ControlFlow;
use std::time::Duration;

use loadline_client::Client;
use loadline_client::blocking::Connection;
use loadline_client::commands::{get, mget};

use super::{KeyValue, apply_on, run_confirmed, swap_on, write_on};
use crate::idle::Idle;
use crate::place::Wait;
use crate::requests;
use crate::{Batch, Error};

/// A server, with a connection for each thread that uses it at the moment.
#[derive(Debug)]
pub(super) struct ServerStore {
    client: Client,
    idle: Idle<(), Connection>,
    wait: Option<Wait>,
}

impl ServerStore {
    pub(super) fn open(url: &str, wait: Option<Wait>) -> Result<Self, Error> {
        let client = Client::open(url)?;
        let first = client.blocking()?;
        let idle = Idle::new();
        idle.give_back((), first);
        Ok(Self { client, idle, wait })
    }

    fn on<R>(&self, work: impl FnOnce(&mut Connection) -> Result<R, Error>) -> Result<R, Error> {
        let mut connection = match self.idle.take(&()) {
            Some(connection) => connection,
            None => self.client.blocking()?,
        };
        let result = work(&mut connection);
        // One in an unknown state does not serve again: keys may still be watched on it.
        if result.is_ok() || matches!(result, Err(Error::Unconfirmed { .. })) {
            self.idle.give_back((), connection);
        }
        result
    }
}

impl KeyValue for ServerStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.on(|connection| Ok(connection.run(get(key))?))
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.on(|connection| Ok(connection.run(mget(keys))?))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.on(|connection| run_confirmed(connection, requests::put(key, value, None), self.wait))
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        let request = requests::put(key, value, Some(ttl));
        self.on(|connection| run_confirmed(connection, request, self.wait))
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let removed =
            self.on(|connection| run_confirmed(connection, requests::delete(key), self.wait));
        Ok(removed? > 0)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.on(|connection| swap_on(connection, key, expected, next, self.wait))
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        self.on(|connection| apply_on(connection, batch, self.wait))
    }

    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        self.on(|connection| write_on(connection, batch, self.wait))
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.pages(prefix, |connection, keys| {
            let values: Vec<Option<Vec<u8>>> = connection.run(mget(keys))?;
            for (key, value) in keys.iter().zip(values) {
                if let Some(value) = value {
                    visit(key, &value);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn scan_keys(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.pages(prefix, |_, keys| {
            Ok(keys.iter().try_for_each(|key| visit(key)))
        })
    }
}

impl ServerStore {
    /// Shows `visit` the keys with a prefix in pages, until it breaks.
    fn pages(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&mut Connection, &[Vec<u8>]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let pattern = requests::pattern(prefix);
        let mut cursor = b"0".to_vec();
        self.on(|connection| {
            loop {
                let (next, keys) = connection.run(requests::page(&cursor, &pattern))?;
                if !keys.is_empty() && visit(connection, &keys)?.is_break() {
                    return Ok(());
                }
                if next == b"0" {
                    return Ok(());
                }
                cursor = next;
            }
        })
    }
}
