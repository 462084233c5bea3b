//! The requests of readers, in their order. The readers on tokio and the readers for one thread run the same steps:
//! `await` as the last argument makes them asynchronous.

/// One read of a stream; its events.
macro_rules! read_stream {
    ($connection:expr, $progress:expr, $wait:expr $(, $await:tt)?) => {
        if $progress.may_wait() {
            let waited = $connection.run($progress.wait($wait))$(.$await)?;
            $progress.waited(waited)
        } else {
            let looked = $connection.run($progress.look())$(.$await)?;
            $progress.looked(looked)
        }
    };
}
pub(crate) use read_stream;

/// One read of a consumer of a group; its events. A group that the server has lost is created again.
macro_rules! read_group {
    ($connection:expr, $membership:expr, $pending:expr, $wait:expr $(, $await:tt)?) => {{
        let read = match $membership.own_due() {
            Some(after) => {
                // Entries acknowledged while the question is on its way can still be in the answer.
                let known = $pending.known();
                let reads = $connection.run($membership.read_own(after))$(.$await)?;
                $membership.got_own(reads, &known)
            }
            None => {
                let reads = $connection.run($membership.wait_new($wait))$(.$await)?;
                $membership.got_new(reads)
            }
        };
        let events = match read {
            Err(error) if $membership.is_to_be_made(&error) => {
                let info = $connection.run(xinfo(&$membership.key))$(.$await)?;
                let group = $connection.run($membership.make_again())$(.$await)?;
                $membership.remade(info, group)
            }
            read => read,
        };
        events.inspect(|events| $pending.add(events))
    }};
}
pub(crate) use read_group;

/// Acknowledges entries, again if the connection broke before the reply.
macro_rules! acknowledge {
    ($connection:expr, $membership:expr, $pending:expr, $patience:expr, $ids:expr, $sleep:path $(, $await:tt)?) => {{
        if $ids.is_empty() {
            return Ok(());
        }
        let mut patience = $patience.clone();
        loop {
            let Err(error) = $connection.run($membership.ack($ids))$(.$await)? else {
                $pending.remove($ids);
                return Ok(());
            };
            let Some(pause) = patience.retry(&error, Instant::now()) else {
                return Err(error);
            };
            $sleep(pause)$(.$await)?;
        }
    }};
}
pub(crate) use acknowledge;
