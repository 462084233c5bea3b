//! The two halves of a request: it is written, and its replies are read later. Several connections that are
//! all written to before one is read work at the same time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::replies::Incoming;
use super::{Connection, Failed};
use crate::meter::{self, Meter};
use crate::request::Summary;
use crate::{Error, Request};

/// A request that was written. Its replies must be read before anything else is written.
pub(super) struct Written {
    summary: Summary,
    bound: bool,
    pub(super) deadline: Option<Instant>,
    pub(super) meter: Meter,
}

impl Connection {
    /// Connects if need be, and writes a request, once.
    ///
    /// # Errors
    /// The reason why it was not written, and whether the server may have executed a part of it.
    pub(super) fn write_half<Q: Request>(&mut self, request: &Q) -> Result<Written, Error> {
        let mut meter = Meter::begin();
        let summary = self.encode(request, false, &mut meter)?;
        let now = Instant::now();
        let deadlines = self.deadlines(&summary, now);
        self.get_in_step(now);
        let bound = self.prepare(&summary, now)?;
        if let Err(failed) = self.write_out(&summary, deadlines) {
            let Failed {
                error,
                maybe_executed,
            } = failed;
            self.give_up(&error);
            meter::lost(&self.config, &error);
            return Err(error.with_executed(maybe_executed));
        }
        Ok(Written {
            summary,
            bound,
            deadline: deadlines.reply,
            meter,
        })
    }

    /// Waits up to `patience` until there is something to read, or the connection has failed.
    pub(super) fn is_readable_within(&mut self, patience: Duration) -> bool {
        let socket = self.socket.as_mut();
        !self.input.is_empty() || socket.is_none_or(|socket| socket.is_readable_within(patience))
    }

    /// Reads the replies to a request that was written, at most until the limit, and never longer than a
    /// reply may take.
    pub(super) fn read_half<Q: Request>(
        &mut self,
        request: &Q,
        written: &Written,
        limit: Option<Instant>,
    ) -> Q::Output {
        let config = Arc::clone(&self.config);
        let deadline = [limit, written.deadline].into_iter().flatten().min();
        if limit.is_some() {
            // A socket that takes no timeout is dead, and the next read says so.
            let _ = self.keep(deadline);
        }
        let commands = written.summary.commands;
        let mut incoming = Incoming::rest(self, commands, None, deadline, None);
        if written.bound {
            incoming = incoming.following();
        }
        let output = written.meter.decode(&config, request, &mut incoming);
        incoming.finish();
        output
    }
}
