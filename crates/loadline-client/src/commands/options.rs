//! The options of commands.

use std::marker::PhantomData;

use crate::FromReply;
use crate::args::{ArgWriter, ToArgs};
use crate::request::Command;

/// The arguments of a command that has options: those before the options, the options, and those after them. `S` says
/// which options there are, as methods of the [`Command`].
///
/// ```
/// use loadline_client::commands::zadd;
///
/// // ZADD board GT CH 31.5 ann
/// let raised = zadd("board", [(31.5, "ann")]).gt().ch();
/// # drop(raised);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WithOptions<S, H, O, L> {
    head: H,
    options: O,
    tail: L,
    kind: PhantomData<S>,
}

impl<S, H, L> WithOptions<S, H, (), L> {
    /// No options yet.
    #[inline]
    pub(super) fn new(head: H, tail: L) -> Self {
        Self {
            head,
            options: (),
            tail,
            kind: PhantomData,
        }
    }
}

impl<S, H, O, L> WithOptions<S, H, O, L> {
    /// The same arguments with one more option.
    #[inline]
    pub(super) fn and<P>(self, option: P) -> WithOptions<S, H, (O, P), L> {
        WithOptions {
            head: self.head,
            options: (self.options, option),
            tail: self.tail,
            kind: PhantomData,
        }
    }
}

impl<S, H: ToArgs, O: ToArgs, L: ToArgs> ToArgs for WithOptions<S, H, O, L> {
    #[inline]
    fn count(&self) -> usize {
        self.head.count() + self.options.count() + self.tail.count()
    }

    #[inline]
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        self.head.write_args(out);
        self.options.write_args(out);
        self.tail.write_args(out);
    }
}

impl<S, H: ToArgs, O: ToArgs, L: ToArgs, R: FromReply> Command<WithOptions<S, H, O, L>, R> {
    /// Adds words among the options: an option of a later version of Redis, or one that is chosen at run time
    /// (`None` adds nothing). The command is then treated as a write that must not be repeated.
    ///
    /// ```
    /// use loadline_client::commands::set;
    ///
    /// let keep = true;
    /// let command = set("key", "value").option(keep.then_some("KEEPTTL"));
    /// # drop(command);
    /// ```
    #[inline]
    #[must_use]
    pub fn option(self, words: impl ToArgs) -> Command<WithOptions<S, H, impl ToArgs, L>, R> {
        self.map(|args| args.and(words)).unrepeatable()
    }
}

/// A reply that an option can turn into nil.
pub trait OrNil {
    /// The same reply, or nil.
    type OrNil: FromReply;
}

impl OrNil for () {
    type OrNil = Option<()>;
}

impl OrNil for String {
    type OrNil = Option<Self>;
}

impl<T: FromReply> OrNil for Option<T> {
    type OrNil = Self;
}

/// A list of members, to which an option adds the scores.
pub trait Scored {
    /// Pairs of members and scores.
    type WithScores: FromReply;
}

impl<T: FromReply> Scored for Vec<T> {
    type WithScores = Vec<(T, f64)>;
}
