//! A server that reads its data into memory answers every command with `LOADING` and executes none. A request that
//! was answered so is sent again after a pause, as long as there is time. If sentinels name the master, so is one whose
//! writes a replica has refused, on another connection.

use std::io;
use std::ops::Range;
use std::time::Instant;

use super::{Connection, Deadlines, Failed};
use crate::conn::backoff::Backoff;
use crate::conn::session::Unavailable;
use crate::conn::unwritten::is_unwritten;
use crate::request::Summary;
use crate::{Error, Flags};

/// The start of the error reply.
const LOADING: &[u8] = b"-LOADING ";

/// The result of an attempt whose first reply may be that the server loads its data.
pub(super) enum Waited {
    /// The server executed nothing that matters, and a pause has passed: the request is sent again.
    ForData,
    /// The attempt stays as it was.
    InVain(Result<Range<usize>, Failed>),
}

impl Connection {
    /// Whether the server can have shown that it is not the one to ask now.
    // The result of an attempt is large, and is moved only where this holds.
    #[inline]
    pub(super) fn may_be_unserved(&self, summary: &Summary) -> bool {
        self.unavailable.is_some() || self.can_be_refused(summary)
    }

    /// Waits, or gives the connection up, if the server has shown that it is not the one to ask now.
    #[cold]
    pub(super) fn wait_or_leave(
        &mut self,
        attempted: Result<Range<usize>, Failed>,
        summary: &Summary,
        deadlines: Deadlines,
        backoff: &mut Option<Backoff>,
    ) -> Waited {
        if self.unavailable == Some(Unavailable::Loading) {
            self.wait_for_data(attempted, summary, deadlines, backoff)
        } else if self.can_be_refused(summary) {
            self.leave_replica(attempted, summary, deadlines, backoff)
        } else {
            Waited::InVain(attempted)
        }
    }

    /// Waits a little where the server was loading its data and so executed nothing of the request, and where there
    /// is time to ask it again.
    fn wait_for_data(
        &mut self,
        attempted: Result<Range<usize>, Failed>,
        summary: &Summary,
        deadlines: Deadlines,
        backoff: &mut Option<Backoff>,
    ) -> Waited {
        let Ok(first) = attempted else {
            return Waited::InVain(attempted);
        };
        self.input.hold(first.clone());
        let is_nothing_executed = self.is_loading(first.clone())
            && (1..summary.commands).all(|_| {
                let reply = self.next_reply(deadlines.reply, deadlines.after);
                reply.is_ok_and(|reply| self.is_loading(reply))
            })
            && self.nothing_but_push().is_ok();
        let now = Instant::now();
        let pause = backoff.get_or_insert_with(Backoff::new).failed(now);
        // The answer after the pause needs some time too.
        let is_in_time = deadlines
            .write
            .is_none_or(|deadline| now + 2 * pause < deadline);
        if is_nothing_executed && is_in_time {
            self.input.release();
            std::thread::sleep(pause);
            return Waited::ForData;
        }
        // The replies are read again, to be handed out.
        Waited::InVain(Ok(self.input.rewind()))
    }

    /// Whether the replies to a request show only together whether it was executed: sentinels name the server, which can
    /// become a replica at any command of a pipeline.
    #[inline]
    fn can_be_refused(&self, summary: &Summary) -> bool {
        let is_demoted = self.unavailable == Some(Unavailable::Demoted);
        let can_be = summary.commands > 1 && !summary.flags.contains(Flags::READ_ONLY);
        (is_demoted || can_be) && self.session.follows_sentinels()
    }

    /// Gives the connection up if its server is a replica that has executed no write of the request, and if there is
    /// time to send the request to the master.
    fn leave_replica(
        &mut self,
        attempted: Result<Range<usize>, Failed>,
        summary: &Summary,
        deadlines: Deadlines,
        backoff: &mut Option<Backoff>,
    ) -> Waited {
        let Ok(first) = attempted else {
            return Waited::InVain(attempted);
        };
        let mut replies = self.input.text(first.clone()).to_vec();
        self.input.hold(first);
        let mut is_refused = self.unavailable == Some(Unavailable::Demoted);
        let complete = (1..summary.commands).all(|_| {
            let reply = self.next_reply(deadlines.reply, deadlines.after);
            is_refused |= self.unavailable == Some(Unavailable::Demoted);
            reply.is_ok_and(|reply| {
                replies.extend_from_slice(self.input.text(reply));
                true
            })
        });
        let now = Instant::now();
        let is_in_time = deadlines.write.is_none_or(|deadline| now < deadline);
        if is_refused && complete && is_in_time && is_unwritten(&self.out, &replies) {
            self.input.release();
            let what = "the server has become a replica";
            let demoted = io::Error::new(io::ErrorKind::ConnectionReset, what);
            self.give_up(&Error::connection(demoted, false));
            let pause = backoff.get_or_insert_with(Backoff::new).failed(now);
            self.config.pause(pause);
            return Waited::ForData;
        }
        // The replies are read again, to be handed out.
        Waited::InVain(Ok(self.input.rewind()))
    }

    fn is_loading(&self, reply: Range<usize>) -> bool {
        self.input.text(reply).starts_with(LOADING)
    }
}
