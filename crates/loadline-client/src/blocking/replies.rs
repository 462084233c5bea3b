//! The replies to a request, read from the connection one after the other.

use std::ops::Range;
use std::time::{Duration, Instant};

use loadline_resp::Reply;

use super::{Answered, Connection, protocol_error};
use crate::conn::carried::Outcome;
use crate::{Error, Replies};

/// The replies to a request that was sent.
pub(super) struct Incoming<'c> {
    connection: &'c mut Connection,
    /// Where the first reply is that was received and not taken.
    first: Option<Range<usize>>,
    left: u32,
    deadline: Option<Instant>,
    after: Duration,
    /// The error that has broken the connection since.
    fault: Option<Error>,
    /// Outcomes of the commands so far, for a request that may change the state of the connection.
    outcomes: Option<Vec<Outcome>>,
}

impl<'c> Incoming<'c> {
    /// The replies to a request whose first reply is there.
    #[inline]
    pub(super) fn new(connection: &'c mut Connection, answered: &Answered) -> Self {
        Self {
            connection,
            first: Some(answered.first.clone()),
            left: answered.summary.commands,
            deadline: answered.deadlines.reply,
            after: answered.deadlines.after,
            fault: None,
            outcomes: answered.bound.then(Vec::new),
        }
    }

    /// The last `left` replies to a request that changes no state, of which `first` may be there.
    pub(super) fn rest(
        connection: &'c mut Connection,
        left: u32,
        first: Option<Range<usize>>,
        deadline: Option<Instant>,
        fault: Option<Error>,
    ) -> Self {
        let timeout = connection.config.response_timeout;
        Self {
            connection,
            first,
            left,
            deadline,
            after: timeout.unwrap_or(Duration::MAX),
            fault,
            outcomes: None,
        }
    }

    /// Follows what the request changes.
    pub(super) fn following(mut self) -> Self {
        self.outcomes = Some(Vec::new());
        self
    }

    fn range(&mut self) -> Result<Range<usize>, Error> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.left == 0 {
            return Err(Error::Usage(
                "the request reads more replies than it has commands",
            ));
        }
        let range = match self.first.take() {
            Some(first) => Ok(first),
            None => self.receive(),
        };
        match range {
            Ok(range) => {
                self.left -= 1;
                if let Some(outcomes) = &mut self.outcomes {
                    let reply = self.connection.input.text(range.clone());
                    outcomes.push(Outcome::of(reply));
                }
                Ok(range)
            }
            Err(error) => {
                self.break_off(error.clone());
                Err(error)
            }
        }
    }

    fn receive(&mut self) -> Result<Range<usize>, Error> {
        let range = self.connection.next_reply(self.deadline, self.after)?;
        if self.left == 1 {
            self.connection.nothing_but_push()?;
        }
        Ok(range)
    }

    fn break_off(&mut self, error: Error) {
        self.follow();
        self.connection.give_up(&error);
        self.fault = Some(error);
    }

    fn follow(&mut self) {
        if let Some(outcomes) = self.outcomes.take() {
            let Connection { session, out, .. } = &mut *self.connection;
            session.follow(out, &outcomes);
        }
    }

    /// Takes the replies that the request did not read.
    #[inline]
    pub(super) fn finish(&mut self) {
        while self.left > 0 && self.fault.is_none() {
            // A fault is kept, and ends the loop.
            let _ = self.range();
        }
    }
}

impl Drop for Incoming<'_> {
    /// Closes a connection whose replies were not all taken, since reading one of them has panicked. They would
    /// be taken for those to the next request.
    #[inline]
    fn drop(&mut self) {
        if self.outcomes.is_some() {
            self.follow();
        }
        if self.left > 0 && self.fault.is_none() {
            let unread = std::io::Error::other("the reader of a reply has panicked");
            self.connection.give_up(&Error::connection(unread, true));
        }
    }
}

impl Replies for Incoming<'_> {
    // See `Connection::write_out`.
    #[inline(always)]
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        // A whole string that came along with the one before it is the commonest case by far.
        if self.first.is_none()
            && self.fault.is_none()
            && self.left > 1
            && self.outcomes.is_none()
            && let Some(text) = self.connection.input.next_bulk()
        {
            self.left -= 1;
            return Ok(Reply::Bulk(self.connection.input.text(text)));
        }
        let range = self.range()?;
        self.connection.input.read(range).map_err(protocol_error)
    }
}
