//! A request whose reply is waited for in more than one step.

use std::fmt;
use std::time::Duration;

use super::Connection;
use super::halves::Written;
use crate::{Error, Request};

/// A request that was sent, with the connection on which its reply comes. Dropped, it closes the connection.
pub struct Sent<Q> {
    connection: Connection,
    request: Q,
    written: Written,
}

impl<Q> fmt::Debug for Sent<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Sends a request, once, and returns before its reply is there.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use loadline_client::commands::{get, set};
    /// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
    /// # let mut connection = loadline_client::Client::open(url)?.blocking()?;
    /// # connection.run(set("key", "value"))?;
    /// let mut sent = connection.send(get::<String>("key"))?;
    /// while !sent.is_answered_within(Duration::from_millis(1)) {
    ///     // Something else can be done here.
    /// }
    /// let (connection, value) = sent.finish();
    /// # drop(connection);
    /// assert_eq!(value?, "value");
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The reason why it could not be sent. The connection is closed.
    pub fn send<Q: Request>(mut self, request: Q) -> Result<Sent<Q>, Error> {
        let written = self.write_half(&request)?;
        Ok(Sent {
            connection: self,
            request,
            written,
        })
    }
}

impl<Q: Request> Sent<Q> {
    /// Waits up to `patience` until a part of the reply is there or the connection has failed. Returns whether it is.
    pub fn is_answered_within(&mut self, patience: Duration) -> bool {
        self.connection.is_readable_within(patience)
    }

    /// Reads the reply, within the response timeout of the connection since the request was sent.
    pub fn finish(mut self) -> (Connection, Q::Output) {
        let output = (self.connection).read_half(&self.request, &self.written, None);
        (self.connection, output)
    }
}
