//! Transactions: commands that the server executes without others in between.

use loadline_resp::Reply;

use crate::Error;
use crate::flags::{Flags, Keys, Meta};
use crate::request::{Replies, Request, Requests, read};

/// A transaction (`MULTI` ... `EXEC`) of these commands: the server executes all of them without commands of
/// other clients in between.
///
/// The result is `Ok(None)` if a watched key has changed and nothing was executed. An error within the transaction,
/// such as a command on a key of the wrong type, is the result of that command alone; the others are executed.
///
/// Redis documentation: [`MULTI`](https://redis.io/docs/latest/commands/multi/),
/// [`EXEC`](https://redis.io/docs/latest/commands/exec/).
#[must_use]
pub fn atomic<Q: Request>(request: Q) -> Atomic<Q> {
    Atomic(request)
}

/// A transaction; see [`atomic`].
#[derive(Clone, Copy, Debug)]
pub struct Atomic<Q>(Q);

impl<Q: Request> Request for Atomic<Q> {
    type Output = Result<Option<Q::Output>, Error>;

    fn commands(&self) -> usize {
        self.0.commands() + 2
    }

    fn encode(&self, out: &mut Requests<'_>) {
        let edge = |name| Meta {
            name,
            flags: Flags::IDEMPOTENT | Flags::READ_ONLY,
            keys: Keys::None,
        };
        out.command(edge("MULTI"), &());
        self.0.encode(out);
        out.command(edge("EXEC"), &());
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        let mut refused = acknowledged(replies);
        for _ in 0..self.0.commands() {
            refused = refused.and(acknowledged(replies));
        }
        let done = replies.next()?;
        // The reason why a command was refused says more than the failure of `EXEC` that follows it.
        refused?;
        match done.into_without_attributes() {
            Reply::Null => Ok(None),
            Reply::Array(items) => Ok(Some(self.0.decode(&mut Elements(items.into_iter())))),
            other => Err(Error::unfit("the results of a transaction", &other)),
        }
    }
}

/// A transaction that depends on what is read before it. `await` as the last argument makes it asynchronous.
macro_rules! optimistic {
    ($connection:ident, $keys:ident, $attempts:ident, $planned:expr $(, $await:tt)?) => {{
        for _ in 0..$attempts {
            $connection.run($crate::commands::watch(&$keys))$(.$await)? ?;
            let socket = $connection.sockets();
            let planned = $planned;
            if $connection.sockets() != socket {
                // The read keys are not watched any more.
                continue;
            }
            let request = match planned {
                Ok(request) => request,
                Err(error) => {
                    $connection.run($crate::commands::unwatch())$(.$await)? ?;
                    return Err(error);
                }
            };
            match $connection.run($crate::atomic(request))$(.$await)? {
                Ok(Some(output)) => return Ok(output),
                Ok(None) => {}
                Err(error) if $crate::conn::carried::is_state_lost(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict { attempts: $attempts })
    }};
}
pub(crate) use optimistic;

/// The parts of the documentation that both kinds of connection share.
macro_rules! transaction_text {
    (what) => {
        "Runs a transaction that depends on what is read before it: watches the keys, lets `plan` read and return what
to write, and executes that at once. If a watched key has changed in between, or the connection was lost before the
write was sent, it starts again, up to this number of `attempts` in all."
    };
    (errors) => {
        "# Errors
[`Error::Conflict`] after the last attempt; nothing was written. Otherwise the error of `plan` or of the connection. A
transaction that may have been executed is not repeated."
    };
}
pub(crate) use transaction_text;

fn acknowledged<R: Replies>(replies: &mut R) -> Result<(), Error> {
    read(replies)
}

/// The replies inside the reply to `EXEC`.
struct Elements<'a>(std::vec::IntoIter<Reply<'a>>);

impl Replies for Elements<'_> {
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        self.0.next().ok_or(Error::Type {
            expected: "a result for each command of the transaction",
            got: "an array of another length",
        })
    }
}
