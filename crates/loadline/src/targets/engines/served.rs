//! A server that is called like an engine, through a blocking connection.

use loadline_client::blocking::Connection;
use loadline_client::commands::{del, get, mget, mset, set};
use loadline_client::{Client, Reply};

use super::batch::{Keys, Pairs};
use super::{Batch, Handle};

/// A connection of one thread.
#[derive(Debug)]
pub(crate) struct ServedHandle(Connection);

impl ServedHandle {
    /// Connects.
    ///
    /// # Errors
    /// That there is no connection.
    pub(crate) fn open(client: &Client) -> anyhow::Result<Self> {
        Ok(Self(client.blocking()?))
    }
}

/// Appends a value where there is one.
fn copy(reply: &Reply<'_>, out: &mut Vec<u8>) -> bool {
    let value = reply.as_bytes();
    if let Some(value) = value {
        out.extend_from_slice(value);
    }
    value.is_some()
}

impl Handle for ServedHandle {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let reply = self.0.run_ref(&get::<()>(key))?;
        Ok(copy(&reply, out))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.run(set(key, value))?)
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.0.run(del(key))?;
        Ok(())
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let request = mget::<()>(Keys(keys));
        let Reply::Array(values) = self.0.run_ref(&request)? else {
            anyhow::bail!("MGET gave no list");
        };
        Ok(values.iter().filter(|value| copy(value, out)).count())
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        Ok(self.0.run(mset(Pairs(pairs)))?)
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.0.run(del(Keys(keys)))?;
        Ok(())
    }
}
