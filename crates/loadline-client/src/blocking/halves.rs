//! The two halves of a request: it is written, and its replies are read later. Several connections that are
//! all written to before one is read work at the same time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::replies::Incoming;
use super::{Connection, Failed};
use crate::meter::{self, Meter};
use crate::request::Summary;
use crate::{Error, Request, Requests};

/// A request that was written. Its replies must be read before anything else is written.
pub(super) struct Written {
    summary: Summary,
    pub(super) deadline: Option<Instant>,
    pub(super) meter: Meter,
}

impl Connection {
    /// Connects if need be, and writes a request, once.
    ///
    /// # Errors
    /// Why it was not written, and whether the server may have executed a part of it.
    pub(super) fn write_half<Q: Request>(&mut self, request: &Q) -> Result<Written, Error> {
        let mut meter = Meter::begin();
        self.out.clear();
        let mut requests = Requests::new(&mut self.out, false);
        request.encode(&mut requests);
        let summary = requests.finish()?;
        meter.is(&summary);
        self.ensure_connected()?;
        if let Err(failed) = self.write_out(&summary) {
            let Failed {
                error,
                maybe_executed,
            } = failed;
            self.give_up();
            meter::lost(&self.config, &error);
            return Err(error.with_executed(maybe_executed));
        }
        let allowed =
            (self.config.response_timeout).and_then(|timeout| timeout.checked_add(summary.wait));
        Ok(Written {
            summary,
            deadline: allowed.and_then(|allowed| Instant::now().checked_add(allowed)),
            meter,
        })
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
        let limited = limit.filter(|limit| written.deadline.is_none_or(|own| *limit < own));
        if let Some(limit) = limited {
            let left = limit.saturating_duration_since(Instant::now());
            self.limit_reads(Some(left.max(Duration::from_millis(1))));
        }
        let mut incoming = Incoming {
            first: None,
            left: written.summary.commands,
            deadline: limited.or(written.deadline),
            fault: None,
            connection: self,
        };
        let output = written.meter.decode(&config, request, &mut incoming);
        incoming.finish();
        if limited.is_some() {
            self.limit_reads(config.response_timeout);
        }
        output
    }

    /// Sets how long one read may wait. A socket that takes no limit is dead, and the next read says so.
    fn limit_reads(&self, time: Option<Duration>) {
        if let Some(stream) = &self.stream {
            let _ = stream.set_timeout(time);
        }
    }
}
