//! The replies of one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loadline_resp::{Error, Limits, RequestParser, encode, head};

/// The most words of a request that is read without the parser.
const WORDS: usize = 1_024;
/// Reply to `INFO`.
const INFO: &[u8] = b"# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n";

/// The replies to reads.
#[derive(Clone, Debug, Default)]
pub enum Reads {
    /// `+OK`, as to most other commands.
    #[default]
    Ok,
    /// Values of this many bytes. `SET` and `MSET` on all connections that share it store the length of their first value.
    Sized(Arc<AtomicUsize>),
}

/// Answers the requests of one connection, however they are split.
#[derive(Debug)]
pub struct Answers {
    parser: RequestParser,
    /// The start of a request that is incomplete.
    partial: Vec<u8>,
    state: State,
}

/// The part of a connection's state that replies depend on.
#[derive(Debug)]
struct State {
    reads: Reads,
    /// A value of the length that was asked for last.
    value: Vec<u8>,
    /// The number of commands in an open transaction.
    queued: Option<u64>,
}

impl Answers {
    /// Answers for a new connection.
    #[must_use]
    pub fn new(reads: Reads) -> Self {
        Self {
            parser: RequestParser::new(Limits::default()),
            partial: Vec::new(),
            state: State {
                reads,
                value: Vec::new(),
                queued: None,
            },
        }
    }

    /// Appends the replies to all requests that `received` completes.
    ///
    /// # Errors
    /// If the bytes are not requests. The connection has to be closed.
    pub fn take(&mut self, received: &[u8], replies: &mut Vec<u8>) -> Result<(), Error> {
        if self.partial.is_empty() {
            let used = self.state.usual(received, replies);
            let rest = &received[used..];
            let used = others(&mut self.parser, &mut self.state, rest, replies)?;
            self.partial.extend_from_slice(&rest[used..]);
            return Ok(());
        }
        self.partial.extend_from_slice(received);
        let used = others(&mut self.parser, &mut self.state, &self.partial, replies)?;
        self.partial.drain(..used);
        Ok(())
    }
}

/// Answers all complete requests at the start of `bytes`, and returns their length.
fn others(
    parser: &mut RequestParser,
    state: &mut State,
    bytes: &[u8],
    replies: &mut Vec<u8>,
) -> Result<usize, Error> {
    let mut at = 0;
    while at < bytes.len() {
        let (used, request) = parser.parse(&bytes[at..])?;
        at += used;
        let Some(request) = request else {
            break;
        };
        let mut words = request.iter();
        let name = words.next().unwrap_or_default();
        state.reply(name, request.len() - 1, || words, replies);
    }
    Ok(at)
}

impl State {
    /// Answers short requests of the usual form at the start of `bytes`, and returns their length.
    fn usual(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let (mut name, mut arguments) = (&rest[..0], 0);
            let used = head::words(rest, WORDS, |place, word| {
                if place == 0 {
                    name = word;
                }
                arguments = place;
            });
            let Some(used) = used else {
                return at;
            };
            self.reply(name, arguments, || strings(&rest[..used]).skip(1), replies);
            at += used;
        }
    }

    /// Replies to one command, whose arguments are read only if the reply depends on them.
    #[inline]
    fn reply<'b, W: Iterator<Item = &'b [u8]>>(
        &mut self,
        name: &[u8],
        arguments: usize,
        words: impl FnOnce() -> W,
        out: &mut Vec<u8>,
    ) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if let Some(queued) = &mut self.queued
            && !is("EXEC")
        {
            *queued += 1;
            out.extend_from_slice(b"+QUEUED\r\n");
            return;
        }
        match name.len() {
            3 | 4 if is("GET") || is("MGET") => match &self.reads {
                Reads::Ok => out.extend_from_slice(b"+OK\r\n"),
                Reads::Sized(bytes) => {
                    let bytes = bytes.load(Ordering::Relaxed);
                    self.values(bytes, (name.len() == 4).then_some(arguments), out);
                }
            },
            3 if is("SET") => self.written(words().nth(1), out),
            3 if is("DEL") => encode::integer(out, arguments as i64),
            4 if is("MSET") => self.written(words().nth(1), out),
            4 if is("PING") => out.extend_from_slice(b"+PONG\r\n"),
            4 if is("SCAN") => out.extend_from_slice(b"*2\r\n$1\r\n0\r\n*0\r\n"),
            4 if is("INFO") => encode::bulk(out, INFO),
            4 if is("EXEC") => {
                let queued = self.queued.take().unwrap_or(0);
                encode::array_header(out, queued);
                (0..queued).for_each(|_| out.extend_from_slice(b"+OK\r\n"));
            }
            5 if is("MULTI") => {
                self.queued = Some(0);
                out.extend_from_slice(b"+OK\r\n");
            }
            5 if is("HELLO") => out.extend_from_slice(hello(words().next())),
            6 if is("DBSIZE") => out.extend_from_slice(b":0\r\n"),
            6 if is("CONFIG") || is("CLIENT") => about(name, arguments, words(), out),
            7 if is("COMMAND") => about(name, arguments, words(), out),
            _ => out.extend_from_slice(b"+OK\r\n"),
        }
    }

    /// Replies to a read of one value, or of several.
    fn values(&mut self, bytes: usize, count: Option<usize>, out: &mut Vec<u8>) {
        self.value.resize(bytes, b'x');
        if let Some(count) = count {
            encode::array_header(out, count as u64);
        }
        (0..count.unwrap_or(1)).for_each(|_| encode::bulk(out, &self.value));
    }

    /// Replies to a write of `value`.
    fn written(&self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        if let Reads::Sized(bytes) = &self.reads {
            bytes.store(value.unwrap_or_default().len(), Ordering::Relaxed);
        }
        out.extend_from_slice(b"+OK\r\n");
    }
}

/// The strings of a request that [`head::words`] has read.
fn strings(request: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = head::length(request, b'*').map_or(request.len(), |(_, bytes)| bytes);
    std::iter::from_fn(move || {
        let rest = &request[at..];
        let text = head::bulk(rest)?;
        at += text.end + 2;
        Some(&rest[text])
    })
}

fn hello(version: Option<&[u8]>) -> &'static [u8] {
    if version == Some(b"3") {
        b"%3\r\n+server\r\n+null\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
    } else {
        b"*6\r\n+server\r\n+null\r\n+version\r\n+7.0.0\r\n+proto\r\n:2\r\n"
    }
}

/// Replies to questions of load generators about the server: every setting is there and empty, and so is every command.
fn about<'b>(
    name: &[u8],
    arguments: usize,
    mut words: impl Iterator<Item = &'b [u8]>,
    out: &mut Vec<u8>,
) {
    let question = words.next().unwrap_or_default().to_ascii_uppercase();
    let others = arguments.saturating_sub(1) as u64;
    match (&name.to_ascii_uppercase()[..], &question[..]) {
        (b"CONFIG", b"GET") => {
            encode::array_header(out, 2 * others);
            for setting in words {
                encode::bulk(out, setting);
                encode::bulk(out, b"");
            }
        }
        (b"CLIENT", b"LIST") => encode::bulk(out, b""),
        (b"CLIENT", b"ID") => out.extend_from_slice(b":1\r\n"),
        (b"COMMAND", b"INFO") => {
            encode::array_header(out, others);
            for command in words {
                encode::array_header(out, 6);
                encode::bulk(out, command);
                out.extend_from_slice(b":-1\r\n*0\r\n:1\r\n:1\r\n:1\r\n");
            }
        }
        (b"COMMAND", _) => out.extend_from_slice(b"*0\r\n"),
        _ => out.extend_from_slice(b"+OK\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(words: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        encode::command(&mut out, words);
        out
    }

    fn answered(answers: &mut Answers, input: &[u8]) -> String {
        let mut replies = Vec::new();
        answers.take(input, &mut replies).unwrap();
        String::from_utf8(replies).unwrap()
    }

    #[test]
    fn pipeline_is_answered_wherever_it_is_cut() {
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let many: Vec<&str> = ["DEL"]
            .into_iter()
            .chain(many.iter().map(String::as_str))
            .collect();
        let pipeline = [
            wire(&["GET", "a"]),
            wire(&["SET", "key", "va\r\nlue"]),
            b"*0\r\nPING\r\n".to_vec(),
            wire(&many),
            wire(&["PING"]),
        ]
        .concat();
        let replies = "+OK\r\n+OK\r\n+PONG\r\n:100\r\n+PONG\r\n";
        for cut in 0..=pipeline.len() {
            let mut answers = Answers::new(Reads::Ok);
            let head = answered(&mut answers, &pipeline[..cut]);
            let tail = answered(&mut answers, &pipeline[cut..]);
            assert_eq!(head + &tail, replies, "cut at {cut}");
            assert_eq!(answers.partial, b"");
        }
    }

    #[test]
    fn questions_of_generators_are_answered_in_kind() {
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
            let said = answered(&mut Answers::new(Reads::Ok), &wire(words));
            assert!(said.starts_with(reply), "{words:?}: {said}");
        }
    }

    #[test]
    fn reads_have_the_length_of_the_last_write() {
        let bytes = Arc::new(AtomicUsize::new(0));
        let mut answers = Answers::new(Reads::Sized(Arc::clone(&bytes)));
        let requests = [
            wire(&["SET", "k", "1234"]),
            wire(&["GET", "k"]),
            wire(&["MGET", "k", "l"]),
            wire(&["MULTI"]),
            wire(&["SET", "k", "5"]),
            wire(&["EXEC"]),
            wire(&["DEL", "k", "l"]),
            wire(&["MSET", "k", "12", "l", "3"]),
        ];
        assert_eq!(
            answered(&mut answers, &requests.concat()),
            "+OK\r\n$4\r\nxxxx\r\n*2\r\n$4\r\nxxxx\r\n$4\r\nxxxx\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n:2\r\n+OK\r\n"
        );
        assert_eq!(bytes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn bytes_that_are_no_requests_are_refused() {
        for input in [
            &b"*1\r\n:1\r\n"[..],
            b"*1\r\n$99999999999999999999\r\n",
            b"*x\r\n",
            b"*1\r\n$4\r\nPINGxx",
        ] {
            let mut answers = Answers::new(Reads::Ok);
            assert!(answers.take(input, &mut Vec::new()).is_err(), "{input:?}");
        }
    }
}
