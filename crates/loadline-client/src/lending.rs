//! Requests whose replies are lent to a closure, from where they were received.

use std::cell::RefCell;

use loadline_resp::Reply;

use crate::request::{Replies, Request, Requests};
use crate::{Error, ServerError};

/// The error for lending the reply to a request of several commands.
pub(crate) const LENT_ALONE: Error = Error::Usage("only the reply to a single command can be lent");

/// A request of one command, whose reply is lent.
#[cfg(feature = "tokio")]
pub(crate) struct Lending<Q, F> {
    request: Q,
    /// Called once, by the first reply or the error that comes instead.
    read: std::cell::Cell<Option<F>>,
}

#[cfg(feature = "tokio")]
impl<Q, F> Lending<Q, F> {
    pub(crate) fn new(request: Q, read: F) -> Self {
        Self {
            request,
            read: std::cell::Cell::new(Some(read)),
        }
    }
}

#[cfg(feature = "tokio")]
impl<Q: Request, T, F: FnOnce(Reply<'_>) -> T> Request for Lending<Q, F> {
    type Output = Result<T, Error>;

    fn commands(&self) -> usize {
        self.request.commands()
    }

    fn encode(&self, out: &mut Requests<'_>) {
        if self.request.commands() != 1 {
            out.refuse(LENT_ALONE);
        }
        self.request.encode(out);
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        let reply = replies.next()?;
        if let Some(text) = reply.error_text() {
            return Err(Error::server(text));
        }
        let read = self.read.take().expect("a reply is decoded once");
        Ok(read(reply))
    }
}

/// A request of any number of commands, each of whose replies is lent.
pub(crate) struct Each<Q, F> {
    request: Q,
    read: RefCell<F>,
}

impl<Q, F> Each<Q, F> {
    pub(crate) fn new(request: Q, read: F) -> Self {
        Self {
            request,
            read: RefCell::new(read),
        }
    }
}

impl<Q: Request, F: FnMut(Result<Reply<'_>, ServerError>)> Request for Each<Q, F> {
    type Output = Result<(), Error>;

    fn commands(&self) -> usize {
        self.request.commands()
    }

    fn encode(&self, out: &mut Requests<'_>) {
        self.request.encode(out);
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        let mut read = self.read.borrow_mut();
        for _ in 0..self.request.commands() {
            let reply = replies.next()?;
            match reply.error_text() {
                None => read(Ok(reply)),
                Some(text) => read(Err(ServerError::new(text))),
            }
        }
        Ok(())
    }
}
