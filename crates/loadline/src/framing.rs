//! RESP as the wire loop sees it: where replies end, and as little more as possible.

use loadline_load::reply::{Reply, Tally};
use loadline_load::wire::Framing;
use loadline_resp::{Decoder, Frame, Limits, ReplyKind, Skipper};

/// Separates the replies of one connection.
#[derive(Debug)]
pub(crate) struct RespFraming {
    skipper: Skipper,
    decoder: Decoder,
    /// Whether a count of zero says that nothing was there.
    zero_is_nil: bool,
}

impl RespFraming {
    /// Framing for a connection that has just been greeted.
    pub(crate) fn new() -> Self {
        let limits = Limits::default();
        Self {
            skipper: Skipper::new(limits),
            decoder: Decoder::new(limits),
            zero_is_nil: false,
        }
    }

    /// The same where replies count keys that were there, so that zero is a miss. Only a connection
    /// whose replies are checked one by one sees it.
    pub(crate) fn counting() -> Self {
        Self {
            zero_is_nil: true,
            ..Self::new()
        }
    }
}

impl Framing for RespFraming {
    fn feed(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), String> {
        self.skipper
            .feed(bytes, |reply| match reply.kind {
                ReplyKind::Value => tally.replies += 1,
                ReplyKind::Nil => {
                    tally.replies += 1;
                    tally.nils += 1;
                }
                ReplyKind::Error => {
                    tally.replies += 1;
                    tally.errors.count(reply.error);
                }
                ReplyKind::Push => {}
            })
            .map_err(|error| error.to_string())
    }

    fn first<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, Reply<'b>)>, String> {
        let decoded = self
            .decoder
            .decode(bytes)
            .map_err(|error| error.to_string())?;
        let zero_is_nil = self.zero_is_nil;
        Ok(decoded.map(|(reply, used)| match reply {
            Frame::Integer(0) if zero_is_nil => (used, Reply::Nil),
            reply => (used, meaning(reply)),
        }))
    }
}

/// Meaning of a reply for a load generator.
fn meaning(reply: loadline_resp::Reply<'_>) -> Reply<'_> {
    match reply.into_without_attributes() {
        Frame::Bulk(bytes) | Frame::Simple(bytes) | Frame::Verbatim { text: bytes, .. } => {
            Reply::Payload(bytes)
        }
        Frame::Null => Reply::Nil,
        Frame::Error(text) | Frame::BlobError(text) => Reply::Error(text),
        Frame::Push(_) => Reply::Push,
        _ => Reply::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"+OK\r\n$3\r\nabc\r\n$-1\r\n_\r\n-ERR no\r\n>2\r\n+invalidate\r\n*0\r\n*1\r\n:1\r\n";

    #[test]
    fn replies_are_counted_by_what_they_say() {
        let (mut framing, mut tally) = (RespFraming::new(), Tally::default());
        for byte in STREAM {
            framing
                .feed(std::slice::from_ref(byte), &mut tally)
                .unwrap();
        }
        assert_eq!((tally.replies, tally.nils, tally.errors.total()), (6, 2, 1));
        assert!(framing.feed(b"?\r\n", &mut tally).is_err());
    }

    #[test]
    fn replies_are_read_one_by_one() {
        let (mut framing, mut at, mut replies) = (RespFraming::new(), 0, Vec::new());
        while let Some((used, reply)) = framing.first(&STREAM[at..]).unwrap() {
            at += used;
            replies.push(reply);
        }
        let wanted = [
            Reply::Payload(b"OK"),
            Reply::Payload(b"abc"),
            Reply::Nil,
            Reply::Nil,
            Reply::Error(b"ERR no"),
            Reply::Push,
            Reply::Other,
        ];
        assert_eq!(replies, wanted);
        assert_eq!(at, STREAM.len());
    }
}
