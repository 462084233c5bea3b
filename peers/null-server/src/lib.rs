//! Answers requests without doing anything: `+OK` to every command, but for the few that load
//! generators send to find out what they talk to.

use std::io::Write;

/// Limit of one argument: a larger one is taken for no request.
const LARGEST_ARGUMENT: usize = 512 << 20;
/// Arguments of one request at most.
const MOST_ARGUMENTS: usize = 1 << 20;

/// Its reply to INFO.
const INFO: &[u8] = b"# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n";

/// The stream is not one of requests.
#[derive(Debug, PartialEq, Eq)]
pub struct NotRequests;

/// Appends the replies to all whole requests at the head of `input` to `replies`, and returns how
/// many bytes those requests took.
///
/// # Errors
/// [`NotRequests`] where the bytes are no RESP arrays of bulk strings.
pub fn answer(input: &[u8], replies: &mut Vec<u8>) -> Result<usize, NotRequests> {
    let mut at = 0;
    while let Some((used, name, rest)) = request(&input[at..])? {
        reply(name, rest, replies);
        at += used;
    }
    Ok(at)
}

/// The first request of `input`: its length, its name and the bytes of its other arguments.
#[inline]
#[expect(clippy::type_complexity, reason = "one place takes it apart")]
fn request(input: &[u8]) -> Result<Option<(usize, &[u8], &[u8])>, NotRequests> {
    let Some((arguments, mut at)) = header(input, b'*', MOST_ARGUMENTS)? else {
        return Ok(None);
    };
    if arguments == 0 {
        return Err(NotRequests);
    }
    let (mut name, mut after_name) = (&input[..0], at);
    for argument in 0..arguments {
        let Some((bytes, used)) = header(&input[at..], b'$', LARGEST_ARGUMENT)? else {
            return Ok(None);
        };
        let end = at + used + bytes;
        if input.len() < end + 2 {
            return Ok(None);
        }
        if argument == 0 {
            name = &input[at + used..end];
            after_name = end + 2;
        }
        at = end + 2;
    }
    Ok(Some((at, name, &input[after_name..at])))
}

/// A number behind `kind` and before a line's end, and the length of the line.
#[inline]
fn header(input: &[u8], kind: u8, most: usize) -> Result<Option<(usize, usize)>, NotRequests> {
    let Some((&first, digits)) = input.split_first() else {
        return Ok(None);
    };
    if first != kind {
        return Err(NotRequests);
    }
    let mut number = 0_usize;
    for (place, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if digits.len() > place + 1 => return Ok(Some((number, place + 3))),
            b'\r' => return Ok(None),
            _ => return Err(NotRequests),
        }
        if number > most {
            return Err(NotRequests);
        }
    }
    Ok(None)
}

#[inline]
fn reply(name: &[u8], rest: &[u8], replies: &mut Vec<u8>) {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let first_is = |other: &str| argument(rest).eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        4 if is("PING") => replies.extend_from_slice(b"+PONG\r\n"),
        4 if is("SCAN") => replies.extend_from_slice(b"*2\r\n$1\r\n0\r\n*0\r\n"),
        4 if is("INFO") => bulk(INFO, replies),
        5 if is("HELLO") => replies.extend_from_slice(hello(argument(rest))),
        6 if is("DBSIZE") => replies.extend_from_slice(b":0\r\n"),
        6 if is("CONFIG") && first_is("GET") => settings(rest, replies),
        6 if is("CLIENT") && first_is("LIST") => bulk(b"", replies),
        6 if is("CLIENT") && first_is("ID") => replies.extend_from_slice(b":1\r\n"),
        7 if is("COMMAND") && first_is("INFO") => commands(rest, replies),
        7 if is("COMMAND") => replies.extend_from_slice(b"*0\r\n"),
        _ => replies.extend_from_slice(b"+OK\r\n"),
    }
}

fn hello(version: &[u8]) -> &'static [u8] {
    if version == b"3" {
        b"%3\r\n+server\r\n+null\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
    } else {
        b"*6\r\n+server\r\n+null\r\n+version\r\n+7.0.0\r\n+proto\r\n:2\r\n"
    }
}

/// `CONFIG GET name ...`: every setting is there and empty.
fn settings(rest: &[u8], replies: &mut Vec<u8>) {
    header_of(b'*', 2 * arguments(rest).skip(1).count(), replies);
    for name in arguments(rest).skip(1) {
        bulk(name, replies);
        bulk(b"", replies);
    }
}

/// `COMMAND INFO name ...`: every command is there.
fn commands(rest: &[u8], replies: &mut Vec<u8>) {
    header_of(b'*', arguments(rest).skip(1).count(), replies);
    for name in arguments(rest).skip(1) {
        replies.extend_from_slice(b"*6\r\n");
        bulk(name, replies);
        replies.extend_from_slice(b":-1\r\n*0\r\n:1\r\n:1\r\n:1\r\n");
    }
}

fn bulk(text: &[u8], replies: &mut Vec<u8>) {
    header_of(b'$', text.len(), replies);
    replies.extend_from_slice(text);
    replies.extend_from_slice(b"\r\n");
}

fn header_of(kind: u8, number: usize, replies: &mut Vec<u8>) {
    replies.push(kind);
    write!(replies, "{number}\r\n").expect("a vector takes everything");
}

/// The first argument in `rest`.
fn argument(rest: &[u8]) -> &[u8] {
    arguments(rest).next().unwrap_or_default()
}

/// The arguments in `rest`, which is well formed.
fn arguments(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (bytes, used) = header(rest, b'$', LARGEST_ARGUMENT).ok()??;
        let argument = rest.get(used..used + bytes)?;
        rest = rest.get(used + bytes + 2..)?;
        Some(argument)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(words: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        header_of(b'*', words.len(), &mut out);
        for word in words {
            bulk(word.as_bytes(), &mut out);
        }
        out
    }

    fn answered(input: &[u8]) -> (Result<usize, NotRequests>, String) {
        let mut replies = Vec::new();
        let used = answer(input, &mut replies);
        (used, String::from_utf8(replies).expect("replies are text"))
    }

    #[test]
    fn a_pipeline_is_answered_and_its_rest_is_kept_wherever_it_is_cut() {
        let pipeline = [
            wire(&["GET", "a"]),
            wire(&["SET", "key", "va\r\nlue"]),
            wire(&["PING"]),
        ]
        .concat();
        let replies = "+OK\r\n+OK\r\n+PONG\r\n";
        assert_eq!(answered(&pipeline), (Ok(pipeline.len()), replies.into()));
        for cut in 0..pipeline.len() {
            let (used, head) = answered(&pipeline[..cut]);
            let used = used.expect("a cut is no error");
            let (_, tail) = answered(&pipeline[used..]);
            assert_eq!(head + &tail, replies, "cut at {cut}");
        }
    }

    #[test]
    fn first_questions_of_generators_are_answered() {
        for (words, reply) in [
            (&["hello", "3"][..], "%3\r\n"),
            (&["HELLO", "2"], "*6\r\n"),
            (&["CONFIG", "GET", "save"], "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
            (
                &["COMMAND", "INFO", "GET", "SET"],
                "*2\r\n*6\r\n$3\r\nGET\r\n",
            ),
            (
                &["config", "get", "save", "appendonly"],
                "*4\r\n$4\r\nsave\r\n$0\r\n\r\n$10\r\nappendonly\r\n$0\r\n\r\n",
            ),
            (&["CONFIG", "RESETSTAT"], "+OK\r\n"),
            (&["CONFIG"], "+OK\r\n"),
            (&["COMMAND", "DOCS"], "*0\r\n"),
            (&["INFO", "server"], "$54\r\n# Server\r\nredis_version:"),
            (&["CLIENT", "LIST"], "$0\r\n\r\n"),
            (&["client", "id"], ":1\r\n"),
            (&["SELECT", "1"], "+OK\r\n"),
            (&["MGET", "a", "b"], "+OK\r\n"),
            (&["ping"], "+PONG\r\n"),
            (&["DBSIZE"], ":0\r\n"),
            (&["SCAN", "0"], "*2\r\n$1\r\n0\r\n*0\r\n"),
            (&["CLIENT", "SETNAME", "x"], "+OK\r\n"),
        ] {
            let (used, said) = answered(&wire(words));
            assert_eq!(used, Ok(wire(words).len()));
            assert!(said.starts_with(reply), "{words:?}: {said}");
        }
    }

    #[test]
    fn malformed_request_is_refused() {
        for input in [
            &b"GET a\r\n"[..],
            b"*0\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$99999999999999999999\r\n",
            b"*-1\r\n",
            b"*x\r\n",
        ] {
            assert_eq!(answered(input).0, Err(NotRequests), "{input:?}");
        }
    }
}
