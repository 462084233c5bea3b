//! Where one reply ends and the next begins, and from the bytes of one to its value.

use std::ops::Range;

use loadline_resp::{Decoder, Error, Limits, Malformed, Reply, ReplyKind, Skipper, head};

/// The longest line that is looked at without the skipper.
const SHORT_LINE_BYTES: usize = 32;

/// Finds the ends of replies in a stream of bytes, examining each byte once.
#[derive(Debug)]
pub(crate) struct Scanner {
    skipper: Skipper,
    max_short_bulk_bytes: usize,
}

/// The meaning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// This number of bytes completes a reply.
    Reply(usize),
    /// This number of bytes completes a push message.
    Push(usize),
    /// All of the bytes belong to a reply that is not complete.
    Partial,
}

impl Scanner {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            skipper: Skipper::new(limits),
            max_short_bulk_bytes: usize::try_from(limits.max_bulk_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Looks at bytes that follow those it has seen; the ones after the returned end must come again.
    ///
    /// # Errors
    /// If the bytes are not RESP or are over a limit.
    #[inline]
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Result<Scanned, Error> {
        if self.skipper.is_between_replies()
            && let Some(end) = self.short(bytes)
        {
            return Ok(Scanned::Reply(end));
        }
        self.long(bytes)
    }

    fn long(&mut self, bytes: &[u8]) -> Result<Scanned, Error> {
        let (end, reply) = self.skipper.next(bytes)?;
        Ok(match reply.map(|reply| reply.kind) {
            None => Scanned::Partial,
            Some(ReplyKind::Push) => Scanned::Push(end),
            Some(_) => Scanned::Reply(end),
        })
    }

    /// The text of a bulk string that the bytes begin with, if nothing is between replies, the string is short
    /// and all of it is there; the line ending that follows the text is the string's too.
    // As `head::bulk`.
    #[inline(always)]
    pub(crate) fn next_bulk(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let text = head::bulk(bytes)?;
        let fits = text.len() <= self.max_short_bulk_bytes && self.skipper.is_between_replies();
        fits.then_some(text)
    }

    /// The end of a reply of the commonest kinds that is all there.
    #[inline]
    fn short(&self, bytes: &[u8]) -> Option<usize> {
        match bytes.first()? {
            b'$' => {
                let text = head::bulk(bytes)?;
                (text.len() <= self.max_short_bulk_bytes).then_some(text.end + 2)
            }
            b'+' | b':' => {
                let line = &bytes[..bytes.len().min(SHORT_LINE_BYTES)];
                let feed = line.iter().position(|&byte| byte == b'\n')?;
                (line[feed - 1] == b'\r').then_some(feed + 1)
            }
            _ => None,
        }
    }
}

/// The value of the reply that the bytes begin with, and where it ends, if it is of the commonest kinds and
/// all there. The bytes went through [`Scanner`], so that no limit is looked at again.
#[cfg(any(feature = "tokio", test))]
#[inline]
pub(crate) fn first_short(bytes: &[u8]) -> Option<(Reply<'_>, usize)> {
    match bytes.first()? {
        b'$' => {
            let text = head::bulk(bytes)?;
            let end = text.end + 2;
            Some((Reply::Bulk(&bytes[text]), end))
        }
        b'+' => {
            let line = &bytes[..bytes.len().min(SHORT_LINE_BYTES)];
            let feed = line.iter().position(|&byte| byte == b'\n')?;
            (line[feed - 1] == b'\r').then(|| (Reply::Simple(&line[1..feed - 1]), feed + 1))
        }
        _ => None,
    }
}

/// The value of the reply that is exactly these bytes, as [`Scanner`] found them.
///
/// # Errors
/// If the scanner does not look at the bytes, such as an integer that is none.
#[inline]
pub(crate) fn decode(frame: &[u8], limits: Limits) -> Result<Reply<'_>, Error> {
    match frame {
        [b'$', ..] => {
            if let Some((_, body)) = head::length(frame, b'$') {
                return Ok(Reply::Bulk(&frame[body..frame.len() - 2]));
            }
        }
        [b'+', text @ .., _, _] => return Ok(Reply::Simple(text)),
        _ => {}
    }
    let decoded = Decoder::new(limits).decode(frame)?;
    decoded
        .map(|(reply, _)| reply)
        .ok_or(Error::Malformed(Malformed::Length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLES: &[&[u8]] = &[
        b"$10\r\nten bytes.\r\n",
        b"+OK\r\n",
        b"+\r\n",
        b":42\r\n",
        b":-9223372036854775808\r\n",
        b"$5\r\nhello\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"$12\r\nline\r\nbreaks\r\n",
        b"-ERR no\r\n",
        b"_\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        b"%1\r\n+k\r\n$1\r\nv\r\n",
        b"#t\r\n",
        b",1.5\r\n",
    ];

    /// The plain version: the decoder finds the end.
    fn naive(bytes: &[u8]) -> Option<usize> {
        let decoded = Decoder::new(Limits::default()).decode(bytes).unwrap();
        decoded.map(|(_, end)| end)
    }

    #[test]
    fn value_is_the_one_that_the_decoder_builds() {
        for sample in SAMPLES {
            let (expected, _) = Decoder::new(Limits::default())
                .decode(sample)
                .unwrap()
                .unwrap();
            assert_eq!(decode(sample, Limits::default()).unwrap(), expected);
        }
    }

    #[test]
    fn short_reply_is_read_only_when_it_is_all_there() {
        for sample in SAMPLES {
            let (expected, end) = Decoder::new(Limits::default())
                .decode(sample)
                .unwrap()
                .unwrap();
            let common = matches!(expected, Reply::Bulk(_) | Reply::Simple(_));
            let followed = [sample, &b"$1\r\nx\r\n"[..]].concat();
            let found = first_short(&followed);
            assert_eq!(found, common.then_some((expected, end)));
            for cut in 0..sample.len() {
                assert_eq!(first_short(&sample[..cut]), None, "{cut} of {sample:?}");
            }
        }
        assert_eq!(first_short(b"$1\r\nab\r\n"), None);
        assert_eq!(first_short(b"+a\nb\r\n"), None);
    }

    #[test]
    fn bulk_string_is_taken_whole_only_between_replies() {
        let mut scanner = Scanner::new(Limits::default());
        assert_eq!(scanner.next_bulk(b"$2\r\nhi\r\n+OK\r\n"), Some(4..6));
        assert_eq!(scanner.next_bulk(b"$2\r\nhi\r"), None);
        assert_eq!(scanner.next_bulk(b"+OK\r\n"), None);
        assert_eq!(scanner.next(b"*2\r\n:1\r\n").unwrap(), Scanned::Partial);
        assert_eq!(scanner.next_bulk(b"$2\r\nhi\r\n"), None, "it is an element");
    }

    #[test]
    fn scanner_distinguishes_push_messages() {
        let mut scanner = Scanner::new(Limits::default());
        let push = b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!(scanner.next(push).unwrap(), Scanned::Push(push.len()));
    }

    #[test]
    fn limits_hold_for_short_replies_too() {
        let limits = Limits {
            max_bulk_bytes: 4,
            ..Limits::default()
        };
        assert!(Scanner::new(limits).next(b"$5\r\nhello\r\n").is_err());
        assert_eq!(Scanner::new(limits).next_bulk(b"$5\r\nhello\r\n"), None);
        assert!(Scanner::new(limits).next(b"$4\r\nhell\r\n").is_ok());
    }

    #[test]
    fn scanner_refuses_malformed_replies() {
        for bytes in [
            &b"$-5\r\n"[..],
            b"$05\r\nhello\r\n",
            b"$\r\n",
            b"+a\nb\r\n",
            b"$1\r\nab\r\n",
            b"x\r\n",
        ] {
            let found = Scanner::new(Limits::default()).next(bytes);
            assert!(
                found.is_err(),
                "{:?}: {found:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    proptest! {
        #[test]
        fn every_split_finds_the_same_ends(
            picks in prop::collection::vec(0..SAMPLES.len(), 1..20),
            cuts in prop::collection::vec(1usize..12, 1..40),
        ) {
            let stream: Vec<u8> = picks.iter().flat_map(|&pick| SAMPLES[pick]).copied().collect();
            let mut scanner = Scanner::new(Limits::default());
            let mut ends = Vec::new();
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            let mut seen = 0;
            while at < stream.len() {
                seen = (seen.max(at) + cuts.next().unwrap()).min(stream.len());
                while at < seen {
                    match scanner.next(&stream[at..seen]).unwrap() {
                        Scanned::Reply(end) => {
                            at += end;
                            ends.push(at);
                        }
                        Scanned::Push(_) => unreachable!("there are none among the samples"),
                        Scanned::Partial => at = seen,
                    }
                }
            }
            let mut expected = Vec::new();
            let mut rest = 0;
            while let Some(end) = naive(&stream[rest..]).filter(|_| rest < stream.len()) {
                rest += end;
                expected.push(rest);
            }
            prop_assert_eq!(ends, expected);
        }
    }
}
