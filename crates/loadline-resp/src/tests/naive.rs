//! The plain versions: recursive, and from the start each time. They are the oracles.

use crate::{Attributed, Error, Limits, Malformed, OwnedReply, ReplyKind};

/// Strictness of reading a reply.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Check {
    /// As the decoder does.
    Content,
    /// As the skipper does, which sees only lengths and line endings.
    Framing,
}

pub(super) type Decoded = Result<Option<(OwnedReply, usize)>, Error>;

pub(super) fn decode(buf: &[u8], limits: &Limits, check: Check) -> Decoded {
    let mut reader = Reader {
        rest: buf,
        limits,
        check,
    };
    let reply = reader.reply(0)?;
    Ok(reply.map(|reply| (reply, buf.len() - reader.rest.len())))
}

/// The kinds of replies, with the text of the errors, and how the bytes end.
pub(super) type Skips = (Vec<(ReplyKind, Vec<u8>)>, Result<(), Error>);

/// All replies in the bytes.
pub(super) fn skip(mut bytes: &[u8], limits: &Limits) -> Skips {
    let mut kinds = Vec::new();
    loop {
        match decode(bytes, limits, Check::Framing) {
            Ok(None) => return (kinds, Ok(())),
            Err(error) => return (kinds, Err(error)),
            Ok(Some((reply, used))) => {
                kinds.push(kind(reply.into_without_attributes()));
                bytes = &bytes[used..];
            }
        }
    }
}

fn kind(reply: OwnedReply) -> (ReplyKind, Vec<u8>) {
    match reply {
        OwnedReply::Null => (ReplyKind::Nil, Vec::new()),
        OwnedReply::Push(_) => (ReplyKind::Push, Vec::new()),
        OwnedReply::Error(text) | OwnedReply::BlobError(text) => {
            let kept = &text[..text.len().min(crate::ERROR_TEXT_BYTES)];
            let first = kept
                .split(|&byte| byte == b'\r' || byte == b'\n')
                .next()
                .unwrap();
            (ReplyKind::Error, first.to_vec())
        }
        _ => (ReplyKind::Value, Vec::new()),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    limits: &'a Limits,
    check: Check,
}

impl Reader<'_> {
    fn reply(&mut self, depth: usize) -> Result<Option<OwnedReply>, Error> {
        let Some((&first, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        let text_limit = match first {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Some(self.limits.max_line_bytes),
            b'$' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|' => None,
            b';' | b'.' => return Err(Error::Streamed),
            _ => return Err(Malformed::Type(first).into()),
        };
        self.rest = rest;
        let Some(line) = self.line(text_limit)? else {
            return Ok(None);
        };
        if text_limit.is_some() {
            return self.scalar(first, line).map(Some);
        }
        match std::str::from_utf8(&line).unwrap_or("no number") {
            "?" => Err(Error::Streamed),
            "-1" if first == b'$' || first == b'*' => Ok(Some(OwnedReply::Null)),
            text => {
                let len = text
                    .parse::<u64>()
                    .ok()
                    .filter(|len| len.to_string() == text);
                self.sized(first, len.ok_or(Malformed::Length)?, depth)
            }
        }
    }

    fn line(&mut self, limit: Option<usize>) -> Result<Option<Vec<u8>>, Error> {
        let too_long = limit.map_or(Malformed::Length.into(), |limit| Error::LineTooLong {
            limit,
        });
        let most = limit.unwrap_or(20);
        let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') else {
            return if self.rest.len() >= most + 2 {
                Err(too_long)
            } else {
                Ok(None)
            };
        };
        if end > most + 1 {
            return Err(too_long);
        }
        if end == 0 || self.rest[end - 1] != b'\r' {
            return Err(Malformed::LineEnding.into());
        }
        let line = self.rest[..end - 1].to_vec();
        self.rest = &self.rest[end + 1..];
        Ok(Some(line))
    }

    fn scalar(&self, first: u8, line: Vec<u8>) -> Result<OwnedReply, Error> {
        let text = String::from_utf8_lossy(&line).into_owned();
        let content = self.check == Check::Content;
        Ok(match first {
            b'+' => OwnedReply::Simple(line),
            b'-' => OwnedReply::Error(line),
            b'_' if content && !line.is_empty() => return Err(Malformed::Null.into()),
            b'_' => OwnedReply::Null,
            _ if !content => OwnedReply::Integer(0),
            b':' => OwnedReply::Integer(text.parse().map_err(|_| Malformed::Integer)?),
            b'#' if text == "t" || text == "f" => OwnedReply::Boolean(text == "t"),
            b'#' => return Err(Malformed::Boolean.into()),
            b',' => OwnedReply::Double(match text.as_str() {
                "inf" | "+inf" => f64::INFINITY,
                "-inf" => f64::NEG_INFINITY,
                "nan" | "-nan" => f64::NAN,
                word if word.contains(['n', 'N', 'f', 'F']) => return Err(Malformed::Double.into()),
                number => number.parse().map_err(|_| Malformed::Double)?,
            }),
            _ => {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
                if digits.is_empty() || digits.contains(|digit: char| !digit.is_ascii_digit()) {
                    return Err(Malformed::BigNumber.into());
                }
                OwnedReply::BigNumber(line)
            }
        })
    }

    fn sized(&mut self, first: u8, len: u64, depth: usize) -> Result<Option<OwnedReply>, Error> {
        if matches!(first, b'$' | b'!' | b'=') {
            return self.string(first, len);
        }
        let limit = self.limits.max_depth;
        if depth >= limit {
            return Err(Error::TooDeep { limit });
        }
        let limit = self.limits.max_aggregate_len;
        let factor = if matches!(first, b'%' | b'|') { 2 } else { 1 };
        if len > limit || u128::from(len) * factor + 1 > u128::from(u64::MAX) {
            return Err(Error::AggregateTooLong { len, limit });
        }
        let mut items = Vec::new();
        for _ in 0..u128::from(len) * factor {
            let Some(item) = self.reply(depth + 1)? else {
                return Ok(None);
            };
            items.push(item);
        }
        let pairs = |items: &[OwnedReply]| {
            items
                .chunks_exact(2)
                .map(|pair| (pair[0].clone(), pair[1].clone()))
                .collect::<Vec<_>>()
        };
        Ok(Some(match first {
            b'*' => OwnedReply::Array(items),
            b'~' => OwnedReply::Set(items),
            b'>' => OwnedReply::Push(items),
            b'%' => OwnedReply::Map(pairs(&items)),
            _ => {
                let Some(reply) = self.reply(depth + 1)? else {
                    return Ok(None);
                };
                OwnedReply::Attribute(Box::new(Attributed {
                    attributes: pairs(&items),
                    reply,
                }))
            }
        }))
    }

    fn string(&mut self, first: u8, len: u64) -> Result<Option<OwnedReply>, Error> {
        let limit = self.limits.max_bulk_bytes;
        if len > limit {
            return Err(Error::BulkTooLong { bytes: len, limit });
        }
        let len = usize::try_from(len).unwrap();
        let ending = self.rest.get(len..).unwrap_or_default();
        if !b"\r\n".starts_with(&ending[..ending.len().min(2)]) {
            return Err(Malformed::Terminator.into());
        }
        if ending.len() < 2 {
            return Ok(None);
        }
        let body = self.rest[..len].to_vec();
        self.rest = &ending[2..];
        Ok(Some(match first {
            b'$' => OwnedReply::Bulk(body),
            b'!' => OwnedReply::BlobError(body),
            _ if self.check == Check::Framing => OwnedReply::Bulk(body),
            _ if body.get(3) == Some(&b':') => OwnedReply::Verbatim {
                format: body[..3].try_into().unwrap(),
                text: body[4..].to_vec(),
            },
            _ => return Err(Malformed::Verbatim.into()),
        }))
    }
}
