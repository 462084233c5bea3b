//! Answers requests without doing anything: `+OK` to every command, but for the few that load
//! generators send to find out what they talk to.

use std::fmt::Write;

/// What a request that is larger than this in one argument is taken for: no request.
const LARGEST_ARGUMENT: usize = 512 << 20;
/// Arguments of one request at most.
const MOST_ARGUMENTS: usize = 1 << 20;

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
    // All that a load consists of is answered alike, and at once.
    if name.len() == 3 {
        replies.extend_from_slice(b"+OK\r\n");
        return;
    }
    let first = argument(rest).to_ascii_uppercase();
    match name.to_ascii_uppercase().as_slice() {
        b"PING" => replies.extend_from_slice(b"+PONG\r\n"),
        b"HELLO" => replies.extend_from_slice(hello(&first)),
        b"DBSIZE" => replies.extend_from_slice(b":0\r\n"),
        b"SCAN" => replies.extend_from_slice(b"*2\r\n$1\r\n0\r\n*0\r\n"),
        b"INFO" => bulk(
            "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n",
            replies,
        ),
        b"CONFIG" => setting(rest, replies),
        b"COMMAND" => commands(rest, &first, replies),
        b"CLIENT" if first == b"LIST" => bulk("", replies),
        b"CLIENT" if first == b"ID" => replies.extend_from_slice(b":1\r\n"),
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

/// `CONFIG GET name`: the setting is there and empty.
fn setting(rest: &[u8], replies: &mut Vec<u8>) {
    let arguments: Vec<&[u8]> = arguments(rest).collect();
    match arguments[..] {
        [_, name] => {
            replies.extend_from_slice(b"*2\r\n");
            bulk(&String::from_utf8_lossy(name), replies);
            bulk("", replies);
        }
        _ => replies.extend_from_slice(b"+OK\r\n"),
    }
}

/// `COMMAND INFO name ...`: every command is there.
fn commands(rest: &[u8], first: &[u8], replies: &mut Vec<u8>) {
    let names: Vec<&[u8]> = arguments(rest).skip(1).collect();
    if first != b"INFO" {
        replies.extend_from_slice(b"*0\r\n");
        return;
    }
    replies.extend_from_slice(format!("*{}\r\n", names.len()).as_bytes());
    for name in names {
        replies.extend_from_slice(b"*6\r\n");
        bulk(&String::from_utf8_lossy(name), replies);
        replies.extend_from_slice(b":-1\r\n*0\r\n:1\r\n:1\r\n:1\r\n");
    }
}

fn bulk(text: &str, replies: &mut Vec<u8>) {
    let mut header = String::new();
    write!(header, "${}\r\n", text.len()).expect("a string takes everything");
    replies.extend_from_slice(header.as_bytes());
    replies.extend_from_slice(text.as_bytes());
    replies.extend_from_slice(b"\r\n");
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
        let mut out = format!("*{}\r\n", words.len());
        for word in words {
            write!(out, "${}\r\n{word}\r\n", word.len()).expect("a string takes everything");
        }
        out.into_bytes()
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
    fn what_generators_ask_first_is_answered_in_kind() {
        for (words, reply) in [
            (&["hello", "3"][..], "%3\r\n"),
            (&["HELLO", "2"], "*6\r\n"),
            (&["CONFIG", "GET", "save"], "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
            (
                &["COMMAND", "INFO", "GET", "SET"],
                "*2\r\n*6\r\n$3\r\nGET\r\n",
            ),
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
    fn what_is_no_request_is_refused() {
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
