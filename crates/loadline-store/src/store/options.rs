//! How a store is opened.

use std::time::Duration;

/// What a write has survived when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of this process, `kill -9` included. A failure of the machine or its power can lose the
    /// most recent writes.
    #[default]
    Process,
    /// As [`Process`](Self::Process); and everything older than this interval has reached the disk.
    Interval(Duration),
    /// A failure of the machine: the write has reached the disk (fdatasync). Writers that wait at the same time
    /// share one.
    Always,
}

/// How a store is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// What a write has survived when it returns, unless the write itself says otherwise.
    pub durability: Durability,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with this durability.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }
}
