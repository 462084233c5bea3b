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

use std::time::Duration;

use crate::FromReply;
use crate::args::{Arg, ToArgs};
use crate::flags::{Flags, Keys, Meta};
use crate::request::Command;

/// One function per entry: its arguments, the type of its reply, and the words of the command.
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$reply:ident>)? ($($arg:ident: $type:ty),*) -> $output:ty
            = $wire:literal ($($part:expr),*), $flags:ident, $keys:expr;
    )*) => {$(
        $(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name $(<$reply: FromReply>)? ($($arg: $type),*) -> Command<impl ToArgs, $output> {
            const META: Meta = Meta {
                name: $wire,
                flags: Flags::$flags,
                keys: $keys,
            };
            Command::new(META, ($($part,)*))
        }
    )*

        /// What the functions above say about their commands.
        #[cfg(test)]
        pub(super) const METAS: &[Meta] = &[$(Meta {
            name: $wire,
            flags: Flags::$flags,
            keys: $keys,
        }),*];
    };
}

mod hashes;
mod keys;
mod lists;
mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;

pub use hashes::*;
pub use keys::*;
pub use lists::*;
pub use scripting::*;
pub use server::*;
pub use sets::*;
pub use sorted_sets::*;
pub use streams::*;
pub use strings::*;

/// What the functions of all groups say about their commands.
#[cfg(test)]
pub(crate) fn metas() -> Vec<Meta> {
    let groups = [
        hashes::METAS,
        keys::METAS,
        lists::METAS,
        scripting::METAS,
        server::METAS,
        sets::METAS,
        sorted_sets::METAS,
        streams::METAS,
        strings::METAS,
    ];
    groups.concat()
}

/// Whole milliseconds, at least one, since zero has another meaning in Redis.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
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

    #[test]
    fn no_time_that_is_given_becomes_endless() {
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(block_millis(Duration::from_micros(1)), 1);
        assert_eq!(block_millis(Duration::MAX), 0);
        assert_eq!(block_seconds(Duration::from_millis(1500)), 1.5);
        assert_eq!(block_seconds(Duration::MAX), 0.0);
    }
}
