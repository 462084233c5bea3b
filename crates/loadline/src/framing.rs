//! RESP as the wire loop sees it, where replies end and as little more as possible, and as the fault proxy sees it.

use loadline_link::script::{Ends, Messages};
use loadline_load::reply::{Reply, Tally};
use loadline_load::wire::Framing;
use loadline_resp::{Decoder, Frame, Limits, ReplyKind, RequestParser, Skipper};

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

/// Separates the commands of one connection, and names them by their first word.
///
/// A command has one reply; push messages are none. So commands after SUBSCRIBE in RESP2 or MONITOR are not matched
/// with their replies.
#[derive(Debug)]
pub(crate) struct RespMessages {
    commands: RequestParser,
    replies: Skipper,
}

impl RespMessages {
    /// Messages of a new connection.
    pub(crate) fn new() -> Self {
        let limits = Limits::default();
        Self {
            commands: RequestParser::new(limits),
            replies: Skipper::new(limits),
        }
    }
}

impl Messages for RespMessages {
    fn message<'b>(&'b mut self, bytes: &'b [u8]) -> Result<(usize, Option<&'b [u8]>), String> {
        let parsed = self.commands.parse(bytes);
        let (used, command) = parsed.map_err(|error| error.to_string())?;
        Ok((used, command.and_then(|command| command.get(0))))
    }

    fn reply(&mut self, bytes: &[u8]) -> Result<(usize, Ends), String> {
        let (used, reply) = self
            .replies
            .next(bytes)
            .map_err(|error| error.to_string())?;
        let ends = match reply.map(|reply| reply.kind) {
            None => Ends::Nothing,
            Some(ReplyKind::Push) => Ends::Other,
            Some(_) => Ends::Reply,
        };
        Ok((used, ends))
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

    #[test]
    fn commands_are_named_and_pushes_are_no_replies() {
        let mut messages = RespMessages::new();
        let stream = b"*2\r\n$4\r\ninCR\r\n$1\r\nk\r\nPING\r\n*1\r\n$4\r\nEX";
        assert_eq!(messages.message(stream), Ok((21, Some(&b"inCR"[..]))));
        assert_eq!(messages.message(&stream[21..]), Ok((6, Some(&b"PING"[..]))));
        assert_eq!(messages.message(&stream[27..]), Ok((0, None)));
        let ends: Vec<_> = (0..3)
            .scan(0, |at, _| {
                let (used, ends) = messages
                    .reply(&b">1\r\n+news\r\n*1\r\n:1\r\n+OK"[*at..])
                    .unwrap();
                *at += used;
                Some((used, ends))
            })
            .collect();
        assert_eq!(
            ends,
            [(11, Ends::Other), (8, Ends::Reply), (3, Ends::Nothing)]
        );
    }
}
