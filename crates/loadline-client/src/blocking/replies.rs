//! The replies to a request, read from the connection one after the other.

use std::ops::Range;
use std::time::{Duration, Instant};

use loadline_resp::Reply;

use super::{Connection, protocol_error};
use crate::{Error, Replies};

/// The replies to a request that was sent.
pub(super) struct Incoming<'c> {
    pub(super) connection: &'c mut Connection,
    /// Where the first reply stands, which is there already.
    pub(super) first: Option<Range<usize>>,
    pub(super) left: u32,
    pub(super) deadline: Option<Instant>,
    /// What broke the connection since.
    pub(super) fault: Option<Error>,
}

impl Incoming<'_> {
    fn range(&mut self) -> Result<Range<usize>, Error> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.left == 0 {
            return Err(Error::Usage(
                "the request reads more replies than it has commands",
            ));
        }
        self.left -= 1;
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let after = self
            .connection
            .config
            .response_timeout
            .unwrap_or(Duration::MAX);
        self.connection
            .next_reply(self.deadline, after)
            .inspect_err(|error| {
                self.connection.give_up();
                self.fault = Some(error.clone());
            })
    }

    /// Takes the replies that the request did not read.
    pub(super) fn finish(&mut self) {
        while self.left > 0 && self.fault.is_none() {
            // A fault is kept, and ends the loop.
            let _ = self.range();
        }
    }
}

impl Replies for Incoming<'_> {
    #[inline]
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        // A whole string that came along with the one before it is the commonest case by far.
        if self.first.is_none()
            && self.fault.is_none()
            && self.left > 0
            && let Some(text) = self.connection.input.next_bulk()
        {
            self.left -= 1;
            return Ok(Reply::Bulk(self.connection.input.text(text)));
        }
        let range = self.range()?;
        self.connection.input.read(range).map_err(protocol_error)
    }
}

/// The replies to a transaction that must not run, as the server would give them after a watched key
/// changed.
pub(super) struct Discarded {
    pub(super) left: u32,
}

impl Replies for Discarded {
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        self.left = self.left.saturating_sub(1);
        Ok(if self.left == 0 {
            Reply::Null
        } else {
            Reply::Simple(b"QUEUED")
        })
    }
}
