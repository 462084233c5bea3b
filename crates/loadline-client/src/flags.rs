//! Properties of commands: whether they can be repeated, whether they block, whether they need a connection of
//! their own.

use std::ops::BitOr;

/// Properties of a command that matter to the connection it runs on.
///
/// ```
/// use loadline_client::Flags;
///
/// let flags = Flags::READ_ONLY | Flags::BLOCKS;
/// assert!(flags.contains(Flags::READ_ONLY));
/// assert!(!flags.contains(Flags::DEDICATED));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Changes data, and changes it again if it is repeated.
    pub const NONE: Self = Self(0);
    /// Changes nothing, so it can be sent again at any time.
    pub const READ_ONLY: Self = Self(1);
    /// Changes data, but leaves the same data when executed twice, if no other client writes in between.
    pub const IDEMPOTENT: Self = Self(2);
    /// Can wait at the server, and holds up later commands of its connection meanwhile.
    pub const BLOCKS: Self = Self(4);
    /// Changes the state of its connection (`WATCH`, `MULTI`, `SUBSCRIBE`), so it must not be shared.
    pub const DEDICATED: Self = Self(8);

    /// Returns whether it has all of these properties.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the properties of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The properties of a request of two commands: it can be repeated only if both can, and it blocks or needs
    /// its own connection if one does.
    #[inline]
    pub(crate) const fn together(self, other: Self) -> Self {
        let (mine, others) = (self.with_implied().0, other.with_implied().0);
        Self((mine & others & Self::REPEATABLE) | ((mine | others) & !Self::REPEATABLE))
    }

    const REPEATABLE: u8 = Flags::READ_ONLY.0 | Flags::IDEMPOTENT.0;

    /// These properties without those that let it be repeated.
    #[inline]
    pub(crate) const fn unrepeatable(self) -> Self {
        Self(self.0 & !Self::REPEATABLE)
    }

    /// Reading twice is the same as reading once.
    const fn with_implied(self) -> Self {
        if self.contains(Self::READ_ONLY) {
            self.with(Self::IDEMPOTENT)
        } else {
            self
        }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// Which arguments of a command are keys, counted from the one after the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keys {
    /// None: the command is about the server, a channel or a script.
    #[default]
    None,
    /// The first.
    First,
    /// The one at this place, counted from zero.
    At(u8),
    /// The first two.
    FirstTwo,
    /// All.
    All,
    /// All from this place on, counted from zero.
    From(u8),
    /// All but the last, which is a timeout.
    AllButLast,
    /// Every second one, from the first on.
    Alternating,
    /// The arguments after a count, which is at this place.
    Counted(u8),
    /// The first, and those after a count, which is the second.
    FirstAndCounted,
    /// The first half of those after the word `STREAMS`.
    Streams,
    /// Not known.
    Unknown,
}

/// The name and properties of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The name on the wire, in capitals; for a command with a subcommand its first word.
    pub name: &'static str,
    /// Its properties.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: Keys,
}

/// Decides which requests are sent again automatically after their connection broke.
///
/// Under every policy, a request that was never handed to the operating system is sent on the next connection,
/// since the server cannot have executed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Requests that change nothing.
    #[default]
    ReadOnly,
    /// These, and writes that leave the same data when executed twice, such as `SET` and `DEL`. Another client can
    /// write between the two executions, and the second one overwrites that.
    Idempotent,
    /// No requests.
    Never,
}

impl RetryPolicy {
    /// Returns whether a request with these properties that the server may have executed is sent again.
    #[must_use]
    pub fn allows(self, flags: Flags) -> bool {
        if flags.contains(Flags::DEDICATED) {
            // Its meaning depended on the state of the connection that is gone.
            return false;
        }
        match self {
            Self::ReadOnly => flags.contains(Flags::READ_ONLY),
            Self::Idempotent => flags.with_implied().contains(Flags::IDEMPOTENT),
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_may_be_repeated_only_where_all_of_its_commands_may() {
        let get = Flags::READ_ONLY;
        let set = Flags::IDEMPOTENT;
        let incr = Flags::NONE;
        assert!(RetryPolicy::ReadOnly.allows(get.together(get)));
        assert!(!RetryPolicy::ReadOnly.allows(get.together(set)));
        assert!(RetryPolicy::Idempotent.allows(get.together(set)));
        assert!(!RetryPolicy::Idempotent.allows(get.together(incr)));
        assert!(!RetryPolicy::Never.allows(get));
        assert!(get.together(Flags::BLOCKS).contains(Flags::BLOCKS));
    }

    #[test]
    fn dedicated_commands_are_never_repeated() {
        assert!(!RetryPolicy::Idempotent.allows(Flags::READ_ONLY | Flags::DEDICATED));
    }
}
