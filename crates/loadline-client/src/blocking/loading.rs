//! A server that reads its data into memory answers every command with `LOADING` and executes none. A request that
//! was answered so is sent again after a pause, as long as there is time.

use std::ops::Range;
use std::time::Instant;

use super::{Connection, Deadlines, Failed};
use crate::conn::backoff::Backoff;
use crate::request::Summary;

/// The start of the error reply.
const LOADING: &[u8] = b"-LOADING ";

/// The result of an attempt whose first reply may be that the server loads its data.
pub(super) enum Waited {
    /// The server executed nothing, and a pause has passed: the request is sent again.
    ForData,
    /// The attempt stays as it was.
    InVain(Result<Range<usize>, Failed>),
}

impl Connection {
    /// Waits a little where the server was loading its data and so executed nothing of the request, and where there
    /// is time to ask it again.
    #[cold]
    pub(super) fn wait_for_data(
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

    fn is_loading(&self, reply: Range<usize>) -> bool {
        self.input.text(reply).starts_with(LOADING)
    }
}
