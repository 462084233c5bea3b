//! One function per command. Each returns a [`Command`] that any connection can run.
//!
//! A key or value is any type that is one argument ([`Arg`]); a list is any type that is a number of arguments
//! ([`ToArgs`]). If a command replies with stored data, the caller chooses its type:
//!
//! ```
//! use loadline_client::commands::{get, incr, set};
//!
//! let pipeline = (set("greeting", "hello"), get::<String>("greeting"), incr("visits"));
//! # drop(pipeline);
//! ```
//!
//! The options of a command are methods of it. An option that changes the reply changes its type:
//!
//! ```
//! use std::time::Duration;
//! use loadline_client::commands::{set, zadd, zrange};
//!
//! // Sets the value if there is none; replies with the value that is there.
//! let lock = set("lock", "me").nx().get::<String>().expire(Duration::from_secs(10));
//! let raised = zadd("board", [(31.5, "ann")]).gt().ch();
//! let best = zrange::<String>("board", "+inf", 20).by_score().rev().limit(0, 3).with_scores();
//! # drop((lock, raised, best));
//! ```
//!
//! [`Command::encoded`] makes a [`Cmd`](crate::Cmd) of any of them, which can be stored.

use std::time::Duration;

use crate::FromReply;
use crate::args::{Arg, ArgWriter, ToArgs};
use crate::facts;
use crate::flags::{Flags, Meta};
use crate::request::Command;

/// One function per entry: its arguments, the type of its reply, and the words of the command. A subcommand on which the
/// facts about the command depend is before the brackets. After `+` are the type of its options and, in brackets, the
/// words after them.
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$reply:ident>)? ($($arg:ident: $type:ty),*) -> $output:ty
            = $wire:literal $($sub:literal)? ($($part:expr),*) $(+ $options:ident $([$($tail:expr),*])?)?
            $(, waiting($wait:expr))?;
    )*) => {$(
        $(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name $(<$reply: FromReply>)? ($($arg: $type),*)
            -> Command<arguments!(type $($options $([$($tail),*])?)?), $output>
        {
            const META: Meta = facts::of(&[$wire $(, $sub)?]);
            let args = arguments!(($($sub,)? $($part,)*) $(; $options, ($($($tail,)*)?))?);
            Command::new(META, args)$(.blocking($wait))?
        }
    )*};
}

/// The arguments of a command without and with options, and their types.
macro_rules! arguments {
    (type) => { impl ToArgs };
    (type $options:ident) => { $options<impl ToArgs> };
    (type $options:ident [$($tail:expr),*]) => { $options<impl ToArgs, impl ToArgs> };
    ($head:expr) => { $head };
    ($head:expr; $options:ident, $tail:expr) => { $options { before: $head, after: $tail } };
}

/// The options of a command as methods: their arguments, the type of the reply of the command with them (`R` is that
/// without), the words of the option, and the properties of the command with it if they are others.
macro_rules! options {
    ($(
        $(#[$about:meta])*
        $options:ident {$(
            $(#[$doc:meta])*
            $name:ident $(<$reply:ident>)? ($($arg:ident: $type:ty),*) -> $output:ty
                $(where $bound:path)? = ($($part:expr),*) $(, $flags:ident)?;
        )*}
    )*) => {$(
        $(#[$about])*
        ///
        /// They are methods of the [`Command`]. `B` are its arguments up to the options, and `A` those after them.
        #[derive(Clone, Copy, Debug)]
        pub struct $options<B, A = ()> {
            pub(super) before: B,
            pub(super) after: A,
        }

        impl<B: ToArgs, A: ToArgs> ToArgs for $options<B, A> {
            #[inline]
            fn count(&self) -> usize {
                self.before.count() + self.after.count()
            }

            #[inline]
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                self.before.write_args(out);
                self.after.write_args(out);
            }
        }

        impl<B, A> $options<B, A> {
            /// The same arguments with one more option.
            #[inline]
            pub(super) fn and<P>(self, option: P) -> $options<(B, P), A> {
                $options {
                    before: (self.before, option),
                    after: self.after,
                }
            }
        }

        impl<B: ToArgs, A: ToArgs, R: FromReply> Command<$options<B, A>, R> {
            #[doc = include_str!("option.md")]
            #[inline]
            #[must_use]
            pub fn option(self, words: impl ToArgs) -> Command<$options<impl ToArgs, A>, R> {
                self.map(|args| args.and(words)).unrepeatable()
            }
        }

        more_options! {
            $options {$(
                $(#[$doc])*
                $name $(<$reply>)? ($($arg: $type),*) -> $output $(where $bound)? = ($($part),*) $(, $flags)?;
            )*}
        }
    )*};
}

/// Options as methods, written as in [`options!`], of a type that has been declared there.
macro_rules! more_options {
    ($(
        $options:ident {$(
            $(#[$doc:meta])*
            $name:ident $(<$reply:ident>)? ($($arg:ident: $type:ty),*) -> $output:ty
                $(where $bound:path)? = ($($part:expr),*) $(, $flags:ident)?;
        )*}
    )*) => {$(
        impl<B: ToArgs, A: ToArgs, R: FromReply> Command<$options<B, A>, R> {$(
            $(#[$doc])*
            #[inline]
            #[must_use]
            pub fn $name $(<$reply: FromReply>)? (self, $($arg: $type),*)
                -> Command<$options<impl ToArgs, A>, $output>
            $(where R: $bound)?
            {
                self.map(|args| args.and(($($part,)*)))$(.flagged(Flags::$flags))?
            }
        )*}
    )*};
}

mod hash_fields;
mod json;
#[cfg(test)]
mod modules_tests;
mod recent;
mod search;
mod sketches;
mod time_series;
mod vectors;

mod acl;
mod bits;
mod cluster;
mod connection;
mod functions;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod options;
mod pubsub;
mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;

pub use hash_fields::*;
pub use json::*;
pub use recent::*;
pub use search::*;
pub use sketches::*;
pub use time_series::*;
pub use vectors::*;

pub use acl::*;
pub use bits::*;
pub use cluster::*;
pub use connection::*;
pub use functions::*;
pub use geo::*;
pub use hashes::*;
pub use hyperloglog::*;
pub use keys::*;
pub use lists::*;
pub use options::{OrNil, Scored};
pub use pubsub::*;
pub use scripting::*;
pub use server::*;
pub use sets::*;
pub use sorted_sets::*;
pub use streams::*;
pub use strings::*;

/// Words that a command takes, as an enumeration.
macro_rules! words {
    ($(
        $(#[$about:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    )*};
}
use words;

/// Keys with their number before them.
fn counted<K: ToArgs>(keys: K) -> (usize, K) {
    (keys.count(), keys)
}

/// Whole milliseconds, at least one, since zero has another meaning in Redis.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Whole milliseconds, where zero means no time.
fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds for blocking commands; `Duration::MAX` is zero, which is no limit.
fn block_seconds(time: Duration) -> f64 {
    if time == Duration::MAX {
        return 0.0;
    }
    millis(time) as f64 / 1000.0
}

/// Milliseconds for blocking commands; `Duration::MAX` is zero, which is no limit.
fn block_millis(time: Duration) -> u64 {
    if time == Duration::MAX {
        return 0;
    }
    millis(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_options<B: ToArgs>(_: &Command<SetOptions<B>, ()>) {}

    fn zadd_options<B: ToArgs, A: ToArgs>(_: &Command<ZaddOptions<B, A>, u64>) {}

    #[test]
    fn type_of_a_command_names_its_options_and_its_reply() {
        set_options(&set("key", "value"));
        set_options(&set("key", "value").expire(Duration::from_secs(1)));
        zadd_options(&zadd("board", [(31.5, "ann")]));
        zadd_options(&zadd("board", [(31.5, "ann")]).gt().ch());
    }

    #[test]
    fn no_time_that_is_given_becomes_endless() {
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(block_millis(Duration::from_micros(1)), 1);
        assert_eq!(block_millis(Duration::MAX), 0);
        assert_eq!(block_seconds(Duration::from_millis(1500)), 1.5);
        assert_eq!(block_seconds(Duration::MAX), 0.0);
    }
}
