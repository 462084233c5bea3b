//! Requests: a command, several commands, a transaction.

mod command;

use std::time::Duration;

use loadline_resp::{Reply, encode};

use crate::args::{ArgWriter, ToArgs};
use crate::flags::{Flags, Meta};
use crate::{Error, FromReply};

pub use command::{Cmd, Command, cmd};

/// One or more commands that are sent together, and the type of their results.
///
/// A [`Command`] has one `Result`. A tuple of commands has a tuple of results, and a `Vec` or array has a `Vec` of
/// results, each with an error of its own: these are pipelines. [`atomic`](crate::atomic) makes a transaction of any of
/// them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a request",
    label = "a command is needed here, or a tuple, list or array of commands",
    note = "the functions of `commands` return commands, and `cmd(\"NAME\").arg(..)` makes one of any name"
)]
pub trait Request {
    /// The result of the request.
    type Output;

    /// Returns the number of commands.
    fn commands(&self) -> usize;

    /// Writes the commands.
    fn encode(&self, out: &mut Requests<'_>);

    /// Reads one reply for each command that was written.
    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output;

    /// Returns whether the request has to be sent a second time after this output, with
    /// [`Requests::is_second_try`]. A script that the server does not know is sent with its code this way.
    fn wants_second_try(&self, output: &Self::Output) -> bool {
        let _ = output;
        false
    }
}

/// The replies to the commands of a request, in their order.
pub trait Replies {
    /// Returns the next reply, which can be an error reply.
    ///
    /// # Errors
    /// The reason why there is none.
    fn next(&mut self) -> Result<Reply<'_>, Error>;
}

/// No replies, for one reason.
pub(crate) struct Failed(pub(crate) Error);

impl Replies for Failed {
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        Err(self.0.clone())
    }
}

/// Collects the commands of one request.
#[derive(Debug)]
pub struct Requests<'b> {
    out: &'b mut Vec<u8>,
    second_try: bool,
    summary: Summary,
    fault: Option<Error>,
    /// The end of each command, for a request that is to be cut into its commands.
    parts: Option<&'b mut Vec<Part>>,
}

/// A command of a request that is to be cut into its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) meta: Meta,
    /// The end of its bytes, which start at the end of the previous command.
    pub(crate) end: usize,
}

/// The properties of all commands of a request together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) commands: u32,
    pub(crate) flags: Flags,
    /// The name of the first command.
    pub(crate) name: &'static str,
    /// Time that the server can wait on purpose; `Duration::MAX` is no limit.
    pub(crate) wait: Duration,
}

impl<'b> Requests<'b> {
    pub(crate) fn new(out: &'b mut Vec<u8>, second_try: bool) -> Self {
        Self {
            out,
            second_try,
            summary: Summary {
                commands: 0,
                flags: Flags::READ_ONLY,
                name: "",
                wait: Duration::ZERO,
            },
            fault: None,
            parts: None,
        }
    }

    /// As [`Requests::new`], and notes the end of each command. `out` must be empty.
    pub(crate) fn noting(out: &'b mut Vec<u8>, second_try: bool, parts: &'b mut Vec<Part>) -> Self {
        Self {
            parts: Some(parts),
            ..Self::new(out, second_try)
        }
    }

    /// Appends a command.
    // See `Command::encode`.
    #[inline(always)]
    pub fn command(&mut self, meta: Meta, args: &(impl ToArgs + ?Sized)) {
        let count = args.count();
        self.head(count, meta.name);
        let mut writer = ArgWriter::new(self.out);
        args.write_args(&mut writer);
        if writer.written() != count {
            self.fault = Some(Error::Usage(
                "an implementation of ToArgs wrote a number of arguments that differs from its count",
            ));
        }
        self.account(meta);
    }

    /// Appends the number of words and the name.
    // It is called in one place.
    #[inline(always)]
    fn head(&mut self, count: usize, name: &str) {
        let name = name.as_bytes();
        // Nearly all commands are this short, and the two numbers are one digit each.
        if count < 9 && name.len() < 10 {
            let (words, len) = (b'1' + count as u8, b'0' + name.len() as u8);
            self.out
                .extend_from_slice(&[b'*', words, b'\r', b'\n', b'$', len, b'\r', b'\n']);
            self.out.extend_from_slice(name);
            self.out.extend_from_slice(b"\r\n");
        } else {
            encode::array_header(self.out, count as u64 + 1);
            encode::bulk(self.out, name);
        }
    }

    /// Returns whether this is the second try; see [`Request::wants_second_try`].
    #[must_use]
    pub fn is_second_try(&self) -> bool {
        self.second_try
    }

    /// Adds to the time in which the server must reply, on top of the response timeout.
    #[inline]
    pub fn wait(&mut self, time: Duration) {
        if !time.is_zero() {
            self.summary.wait = self.summary.wait.saturating_add(time);
        }
    }

    /// Appends a command that is encoded already.
    fn encoded(&mut self, meta: Meta, count: usize, args: &[u8]) {
        encode::array_header(self.out, count as u64);
        self.out.extend_from_slice(args);
        self.account(meta);
    }

    /// Appends encoded commands.
    pub(crate) fn raw(&mut self, commands: &[u8], summary: &Summary) {
        self.out.extend_from_slice(commands);
        let sum = &mut self.summary;
        if sum.commands == 0 {
            sum.name = summary.name;
        }
        sum.flags = sum.flags.together(summary.flags);
        sum.commands += summary.commands;
        sum.wait = sum.wait.max(summary.wait);
    }

    #[inline(always)]
    fn account(&mut self, meta: Meta) {
        let summary = &mut self.summary;
        if summary.commands == 0 {
            summary.name = meta.name;
        }
        summary.flags = summary.flags.together(meta.flags);
        summary.commands += 1;
        if let Some(parts) = &mut self.parts {
            let end = self.out.len();
            parts.push(Part { meta, end });
        }
    }

    /// Refuses to send the request, for this reason.
    #[cfg(feature = "tokio")]
    pub(crate) fn refuse(&mut self, fault: Error) {
        self.fault = Some(fault);
    }

    /// The properties of all commands together.
    ///
    /// # Errors
    /// `Usage` if they cannot be sent.
    // As a call, what it takes and returns is copied piece by piece, which takes longer than to look at the fault.
    #[inline]
    pub(crate) fn finish(self) -> Result<Summary, Error> {
        self.fault.map_or(Ok(self.summary), Err)
    }
}

/// Reads one reply as a value.
#[inline(always)]
pub(crate) fn read<T: FromReply, R: Replies>(replies: &mut R) -> Result<T, Error> {
    let reply = replies.next()?;
    if let Some(text) = reply.error_text() {
        return Err(Error::server(text));
    }
    T::from_reply(reply)
}

impl<Q: Request + ?Sized> Request for &Q {
    type Output = Q::Output;

    #[inline]
    fn commands(&self) -> usize {
        (**self).commands()
    }

    #[inline]
    fn encode(&self, out: &mut Requests<'_>) {
        (**self).encode(out);
    }

    #[inline]
    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        (**self).decode(replies)
    }

    fn wants_second_try(&self, output: &Self::Output) -> bool {
        (**self).wants_second_try(output)
    }
}

/// Lists of requests of one type.
macro_rules! lists {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<Q: Request, $($generics)*> Request for $type {
            type Output = Vec<Q::Output>;

            fn commands(&self) -> usize {
                self.iter().map(Request::commands).sum()
            }

            fn encode(&self, out: &mut Requests<'_>) {
                self.iter().for_each(|request| request.encode(out));
            }

            fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
                self.iter().map(|request| request.decode(replies)).collect()
            }
        }
    )*};
}

lists! {
    [] [Q];
    [] Vec<Q>;
    [const N: usize] [Q; N];
}

/// Requests of different types.
macro_rules! tuples {
    ($($($part:ident),+;)*) => {$(
        #[expect(non_snake_case, reason = "the parts are named after their types")]
        impl<$($part: Request),+> Request for ($($part,)+) {
            type Output = ($($part::Output,)+);

            fn commands(&self) -> usize {
                let ($($part,)+) = self;
                0 $(+ $part.commands())+
            }

            fn encode(&self, out: &mut Requests<'_>) {
                let ($($part,)+) = self;
                $($part.encode(out);)+
            }

            fn decode<Source: Replies>(&self, replies: &mut Source) -> Self::Output {
                let ($($part,)+) = self;
                ($($part.decode(replies),)+)
            }
        }
    )*};
}

tuples! {
    A;
    A, B;
    A, B, C;
    A, B, C, D;
    A, B, C, D, E;
    A, B, C, D, E, F;
    A, B, C, D, E, F, G;
    A, B, C, D, E, F, G, H;
    A, B, C, D, E, F, G, H, I;
    A, B, C, D, E, F, G, H, I, J;
    A, B, C, D, E, F, G, H, I, J, K;
    A, B, C, D, E, F, G, H, I, J, K, L;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{get, incr, set};
    use crate::{RetryPolicy, atomic, facts};

    fn encoded(request: &impl Request) -> (String, Summary) {
        let mut out = Vec::new();
        let mut requests = Requests::new(&mut out, false);
        request.encode(&mut requests);
        let summary = requests.finish().unwrap();
        (String::from_utf8(out).unwrap(), summary)
    }

    #[test]
    fn command_is_an_array_of_bulk_strings() {
        let (wire, summary) = encoded(&set("k", 7));
        assert_eq!(wire, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n7\r\n");
        assert_eq!((summary.commands, summary.name), (1, "SET"));
        let (same, _) = encoded(&cmd::<()>("SET").arg(("k", 7)));
        assert_eq!(same, wire);
        let command = set("k", 7).nx().expire(Duration::from_secs(1));
        let (wire, summary) = encoded(&command);
        assert_eq!(encoded(&command.encoded()), (wire, summary));
    }

    #[test]
    fn command_head_has_the_right_numbers_at_any_digit_count() {
        for name in ["GET", "ZRANGE", "INCRBYFLOAT", "NINECHARS", "TENLETTERS"] {
            for count in [0, 1, 7, 8, 9, 10, 100] {
                let meta = facts::lookup("GET");
                let request = Command::<_, ()>::new(Meta { name, ..meta }, vec!["a"; count]);
                let words = [vec![name], vec!["a"; count]].concat();
                let mut expected = Vec::new();
                encode::command(&mut expected, &words);
                assert_eq!(encoded(&request).0.into_bytes(), expected);
            }
        }
    }

    #[test]
    fn tuple_is_as_repeatable_as_its_least_repeatable_command() {
        let (_, summary) = encoded(&(get::<String>("a"), get::<String>("b")));
        assert!(RetryPolicy::ReadOnly.allows(summary.flags));
        let (_, summary) = encoded(&(get::<String>("a"), incr("b")));
        assert_eq!(summary.commands, 2);
        assert!(!RetryPolicy::Idempotent.allows(summary.flags));
        let (_, summary) = encoded(&atomic((set("a", 1), set("b", 2))));
        assert_eq!(summary.commands, 4);
        assert!(!RetryPolicy::ReadOnly.allows(summary.flags));
        assert!(RetryPolicy::Idempotent.allows(summary.flags));
    }

    struct Liar;

    impl ToArgs for Liar {
        fn count(&self) -> usize {
            2
        }

        fn write_args(&self, out: &mut ArgWriter<'_>) {
            out.arg(b"one");
        }
    }

    #[test]
    fn arguments_that_lie_about_their_number_are_refused() {
        let mut out = Vec::new();
        let mut requests = Requests::new(&mut out, false);
        requests.command(facts::lookup("DEL"), &Liar);
        assert!(matches!(requests.finish(), Err(Error::Usage(_))));
    }
}
