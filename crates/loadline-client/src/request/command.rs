//! A single command: of a known type, or of any name.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::{Replies, Request, Requests, read};
use crate::args::{ArgWriter, ToArgs, Words};
use crate::facts;
use crate::flags::{Flags, Keys, Meta};
use crate::{Error, FromReply};

/// A command with arguments of type `A`, whose reply is read as a `T`.
///
/// The functions of [`commands`](crate::commands) return them; [`cmd`] makes one of any name.
pub struct Command<A, T> {
    meta: Meta,
    args: A,
    wait: Duration,
    reply: PhantomData<fn() -> T>,
}

impl<A: ToArgs, T: FromReply> Command<A, T> {
    /// A command with these arguments after its name.
    #[inline]
    #[must_use]
    pub fn new(meta: Meta, args: A) -> Self {
        Self {
            meta,
            args,
            wait: Duration::ZERO,
            reply: PhantomData,
        }
    }

    /// The same command, its reply read as another type.
    #[must_use]
    pub fn read_as<U: FromReply>(self) -> Command<A, U> {
        Command {
            meta: self.meta,
            args: self.args,
            wait: self.wait,
            reply: PhantomData,
        }
    }

    /// The same command with this time to reply on top of the response timeout; `Duration::MAX` is no limit.
    #[must_use]
    pub fn waiting(self, time: Duration) -> Self {
        Self { wait: time, ..self }
    }

    /// Returns the properties of the command.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// The same command with its arguments encoded: a [`Cmd`] borrows nothing and has a type that can be written
    /// down, so it can be stored, cloned and sent to another thread.
    ///
    /// ```
    /// use loadline_client::Cmd;
    /// use loadline_client::commands::{get, incr};
    ///
    /// struct Jobs {
    ///     read: Cmd<Option<String>>,
    ///     counts: Vec<Cmd<i64>>,
    /// }
    ///
    /// let read = get("name").encoded();
    /// let counts = vec![incr("visits").encoded(), incr("reads").encoded()];
    /// let jobs = Jobs { read, counts };
    /// # drop(jobs);
    /// ```
    #[must_use]
    pub fn encoded(&self) -> Cmd<T> {
        let mut cmd = Cmd {
            meta: self.meta,
            flags: Some(self.meta.flags),
            keys: Some(self.meta.keys),
            encoded: Vec::new(),
            count: 0,
            wait: self.wait,
            reply: PhantomData,
        };
        cmd.push(self.meta.name);
        cmd.push(&self.args);
        cmd
    }

    /// The same command with other arguments and another type of reply.
    #[inline]
    pub(crate) fn map<B: ToArgs, U: FromReply>(self, change: impl FnOnce(A) -> B) -> Command<B, U> {
        Command {
            meta: self.meta,
            args: change(self.args),
            wait: self.wait,
            reply: PhantomData,
        }
    }

    /// The same command as one that waits at the server up to this time.
    #[inline]
    pub(crate) fn blocking(mut self, time: Duration) -> Self {
        self.meta.flags = self.meta.flags.with(Flags::BLOCKS);
        self.waiting(time)
    }

    /// The same command as one that must not be repeated.
    #[inline]
    pub(crate) fn unrepeatable(mut self) -> Self {
        self.meta.flags = self.meta.flags.unrepeatable();
        self
    }

    /// The same command with other properties.
    #[inline]
    pub(crate) fn flagged(mut self, flags: Flags) -> Self {
        self.meta.flags = flags;
        self
    }
}

// Whether it can be copied has nothing to do with the type of its reply.
impl<A: Clone, T> Clone for Command<A, T> {
    fn clone(&self) -> Self {
        Self {
            args: self.args.clone(),
            ..*self
        }
    }
}

impl<A: Copy, T> Copy for Command<A, T> {}

/// The name and the number of arguments, which can hold passwords.
impl<A: ToArgs, T> fmt::Debug for Command<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("name", &self.meta.name)
            .field("args", &self.args.count())
            .finish_non_exhaustive()
    }
}

impl<A: ToArgs, T: FromReply> Request for Command<A, T> {
    type Output = Result<T, Error>;

    #[inline]
    fn commands(&self) -> usize {
        1
    }

    // In line down to the last byte: with calls in between, a blocking GET takes a fifth more instructions.
    #[inline(always)]
    fn encode(&self, out: &mut Requests<'_>) {
        out.command(self.meta, &self.args);
        out.wait(self.wait);
    }

    #[inline(always)]
    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        read(replies)
    }
}

/// A command of any name, with arguments that are added one by one.
///
/// ```
/// use loadline_client::cmd;
///
/// let object = cmd::<Option<String>>("OBJECT").arg("ENCODING").arg("some-key");
/// # drop(object);
/// ```
#[must_use]
pub fn cmd<T: FromReply>(name: &str) -> Cmd<T> {
    let mut words = name.split_ascii_whitespace().peekable();
    let mut cmd = Cmd {
        meta: facts::lookup(words.peek().copied().unwrap_or_default()),
        flags: None,
        keys: None,
        encoded: Vec::new(),
        count: 0,
        wait: Duration::ZERO,
        reply: PhantomData,
    };
    words.for_each(|word| cmd.push(word));
    cmd
}

/// A command of any name; see [`cmd`].
///
/// Its name and options decide whether it may be sent again: `SET` may under
/// [`RetryPolicy::Idempotent`](crate::RetryPolicy), `SET` with `NX` may not. An unknown command is treated as a
/// write that must not be repeated and that can share a connection. [`Cmd::flags`] overrides this.
pub struct Cmd<T> {
    /// The facts about its name.
    meta: Meta,
    /// The properties and keys that the caller stated.
    flags: Option<Flags>,
    keys: Option<Keys>,
    encoded: Vec<u8>,
    count: usize,
    wait: Duration,
    reply: PhantomData<fn() -> T>,
}

impl<T: FromReply> Cmd<T> {
    /// Adds an argument, or all those of a list.
    #[must_use]
    pub fn arg(mut self, args: impl ToArgs) -> Self {
        self.push(args);
        self
    }

    fn push(&mut self, args: impl ToArgs) {
        let mut writer = ArgWriter::new(&mut self.encoded);
        args.write_args(&mut writer);
        self.count += writer.written();
    }

    /// Returns the properties of the command, as its name and options or [`Cmd::flags`] and [`Cmd::keys`] state them.
    #[must_use]
    pub fn meta(&self) -> Meta {
        let Meta { name, flags, keys } = match (self.flags, self.keys) {
            (Some(_), Some(_)) => self.meta,
            _ => facts::with_arguments(self.meta, self.words().skip(1)),
        };
        Meta {
            name,
            flags: self.flags.unwrap_or(flags),
            keys: self.keys.unwrap_or(keys),
        }
    }

    /// Returns the words of the command: its name and its arguments.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        Words::without_header(&self.encoded, self.count)
    }

    /// The words as they are sent, without their number.
    #[cfg(feature = "cache")]
    pub(crate) fn encoded_words(&self) -> &[u8] {
        &self.encoded
    }

    /// Returns the arguments that are keys, by which a cluster routes the command.
    #[must_use]
    pub fn routing_keys(&self) -> Vec<&[u8]> {
        let words = Words::without_header(&self.encoded, self.count);
        crate::cluster::routing_keys(self.meta().keys, words)
    }

    /// The same command, its reply read as another type.
    #[must_use]
    pub fn read_as<U: FromReply>(self) -> Cmd<U> {
        Cmd {
            meta: self.meta,
            flags: self.flags,
            keys: self.keys,
            encoded: self.encoded,
            count: self.count,
            wait: self.wait,
            reply: PhantomData,
        }
    }

    /// Sets the properties of the command, in place of those of its name and options.
    #[must_use]
    pub fn flags(mut self, flags: Flags) -> Self {
        self.flags = Some(flags);
        self
    }

    /// Sets which arguments are keys, in place of what its name says.
    #[must_use]
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Adds to the time in which the server must reply, on top of the response timeout; `Duration::MAX` is no
    /// limit.
    #[must_use]
    pub fn waiting(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }
}

impl<A: ToArgs, T: FromReply> From<Command<A, T>> for Cmd<T> {
    fn from(command: Command<A, T>) -> Self {
        command.encoded()
    }
}

impl<T> Clone for Cmd<T> {
    fn clone(&self) -> Self {
        Self {
            encoded: self.encoded.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for Cmd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cmd")
            .field("name", &self.meta.name)
            .field("args", &self.count)
            .finish_non_exhaustive()
    }
}

impl<T: FromReply> Request for Cmd<T> {
    type Output = Result<T, Error>;

    fn commands(&self) -> usize {
        1
    }

    fn encode(&self, out: &mut Requests<'_>) {
        if self.count == 0 {
            out.fault = Some(Error::Usage("a command needs a name"));
        }
        out.encoded(self.meta(), self.count, &self.encoded);
        out.wait(self.wait);
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        read(replies)
    }
}
