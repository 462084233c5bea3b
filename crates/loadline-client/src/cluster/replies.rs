//! Replies that were collected, to be read like those of a connection.

use loadline_resp::{Attributed, Frame, OwnedReply, Reply};

use crate::{Error, Replies};

/// The reply to one command, or the reason why there is none.
pub(crate) type Outcome = Result<OwnedReply, Error>;

/// The outcomes of a request's commands, in their order.
pub(crate) struct Collected {
    outcomes: std::vec::IntoIter<Outcome>,
    /// The one that is lent.
    current: OwnedReply,
}

impl Collected {
    pub(crate) fn new(outcomes: Vec<Outcome>) -> Self {
        Self {
            outcomes: outcomes.into_iter(),
            current: OwnedReply::Null,
        }
    }
}

impl Replies for Collected {
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        self.current = self.outcomes.next().unwrap_or(Err(Error::Usage(
            "the request reads more replies than it has commands",
        )))?;
        Ok(lend(&self.current))
    }
}

/// The same reply, borrowed.
pub(super) fn lend(reply: &OwnedReply) -> Reply<'_> {
    match reply {
        Frame::Simple(text) => Frame::Simple(text),
        Frame::Error(text) => Frame::Error(text),
        Frame::Integer(number) => Frame::Integer(*number),
        Frame::Bulk(bytes) => Frame::Bulk(bytes),
        Frame::Null => Frame::Null,
        Frame::Boolean(value) => Frame::Boolean(*value),
        Frame::Double(number) => Frame::Double(*number),
        Frame::BigNumber(digits) => Frame::BigNumber(digits),
        Frame::BlobError(text) => Frame::BlobError(text),
        Frame::Verbatim { format, text } => Frame::Verbatim {
            format: *format,
            text,
        },
        Frame::Array(items) => Frame::Array(items.iter().map(lend).collect()),
        Frame::Map(pairs) => Frame::Map(lend_pairs(pairs)),
        Frame::Set(items) => Frame::Set(items.iter().map(lend).collect()),
        Frame::Push(items) => Frame::Push(items.iter().map(lend).collect()),
        Frame::Attribute(inner) => Frame::Attribute(Box::new(Attributed {
            attributes: lend_pairs(&inner.attributes),
            reply: lend(&inner.reply),
        })),
    }
}

fn lend_pairs(pairs: &[(OwnedReply, OwnedReply)]) -> Vec<(Reply<'_>, Reply<'_>)> {
    pairs
        .iter()
        .map(|(key, value)| (lend(key), lend(value)))
        .collect()
}
