//! A server behind the interface of engines, through a blocking connection.

use std::time::Duration;

use loadline_client::blocking::Connection;
use loadline_client::commands::{del, get, mget, mset, set, set_ex};
use loadline_client::{Client, Reply, atomic};

use super::batch::{Keys, Pairs};
use super::{Batch, Handle};

/// A connection of one thread.
#[derive(Debug)]
pub(crate) struct ServedHandle {
    connection: Connection,
    /// Time to live of written keys; `None` for no limit.
    ttl: Option<Duration>,
}

impl ServedHandle {
    /// Connects. Written keys live for `ttl`.
    ///
    /// # Errors
    /// If the connection cannot be made.
    pub(crate) fn open(client: &Client, ttl: Option<Duration>) -> anyhow::Result<Self> {
        Ok(Self {
            connection: client.blocking()?,
            ttl,
        })
    }
}

/// Appends a value if there is one.
fn copy(reply: &Reply<'_>, out: &mut Vec<u8>) -> bool {
    let value = reply.as_bytes();
    if let Some(value) = value {
        out.extend_from_slice(value);
    }
    value.is_some()
}

impl Handle for ServedHandle {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let reply = self.connection.run_ref(&get::<()>(key))?;
        Ok(copy(&reply, out))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        match self.ttl {
            None => self.connection.run(set(key, value))?,
            Some(ttl) => self.connection.run(set_ex(key, value, ttl))?,
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.connection.run(del(key))?;
        Ok(())
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let request = mget::<()>(Keys(keys));
        let Reply::Array(values) = self.connection.run_ref(&request)? else {
            anyhow::bail!("the reply to MGET is not a list");
        };
        Ok(values.iter().filter(|value| copy(value, out)).count())
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        let Some(ttl) = self.ttl else {
            return Ok(self.connection.run(mset(Pairs(pairs)))?);
        };
        // MSET sets no time to live.
        let requests: Vec<_> = pairs
            .pairs()
            .map(|(key, value)| set_ex(key, value, ttl))
            .collect();
        let Some(replies) = self.connection.run(atomic(requests))? else {
            anyhow::bail!("EXEC did not execute the transaction");
        };
        replies.into_iter().try_for_each(|reply| Ok(reply?))
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.connection.run(del(Keys(keys)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Mutex};

    use loadline_client::{Protocol, Tls};

    use super::*;
    use crate::target::Server;
    use crate::targets::NullServer;
    use crate::targets::client::client;
    use crate::targets::engines::null;

    /// A connection that records what it has received.
    struct Heard(TcpStream, Arc<Mutex<Vec<u8>>>);

    impl Read for Heard {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1.lock().unwrap().extend_from_slice(&buffer[..read]);
            Ok(read)
        }
    }

    impl Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    #[test]
    fn the_writes_of_a_cache_have_their_time_to_live_alone_and_in_batches() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = Arc::clone(&heard);
        let server = NullServer::start(move |stream| {
            let value_bytes = AtomicUsize::new(0);
            let stream = Heard(stream, Arc::clone(&hearing));
            let _ = null::Connection::new(&value_bytes).serve(stream);
        })
        .unwrap();
        let at = Server::local(server.address());
        let client = client(&at, &at.address, &Tls::default(), Protocol::Resp3);
        let mut pairs = Batch::default();
        for key in [b"a", b"b"] {
            pairs.push(|out| out.extend_from_slice(key), |out| out.push(b'1'));
        }
        let sent = |ttl: Option<Duration>| {
            let mut handle = ServedHandle::open(&client, ttl).unwrap();
            heard.lock().unwrap().clear();
            handle.put(b"k", b"v").unwrap();
            handle.put_all(&pairs).unwrap();
            let sent = heard.lock().unwrap();
            String::from_utf8(sent.clone())
                .unwrap()
                .replace("\r\n", " ")
        };
        assert_eq!(
            sent(None),
            "*3 $3 SET $1 k $1 v *5 $4 MSET $1 a $1 1 $1 b $1 1 "
        );
        let set =
            |key: &str, value: &str| format!("*5 $3 SET $1 {key} $1 {value} $2 PX $7 1800000 ");
        assert_eq!(
            sent(Some(Duration::from_secs(1_800))),
            format!(
                "{}*1 $5 MULTI {}{}*1 $4 EXEC ",
                set("k", "v"),
                set("a", "1"),
                set("b", "1")
            )
        );
    }
}
