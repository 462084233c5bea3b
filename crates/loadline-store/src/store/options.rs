//! How a store is opened.

use std::time::Duration;

/// What a write has survived when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of this process, `kill -9` included. A failure of the machine or its power can lose the
    /// most recent writes.
    #[default]
    Process,
    /// As [`Process`](Self::Process); and what is older than this interval has reached the disk, provided a
    /// sync takes less than half of it.
    Interval(Duration),
    /// A failure of the machine: the write has reached the disk (fdatasync). Writers that wait at the same time
    /// share one.
    Always,
}

/// How a store is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What a write has survived when it returns, unless the write itself says otherwise.
    pub durability: Durability,
    /// Values of at least this many bytes are kept in the log only, and read from there.
    pub value_in_log_bytes: usize,
    /// Largest segment of the log, in bytes. Smaller ones are made while the store holds little.
    pub segment_bytes: u64,
    /// Whether the log is written through mapped memory where the file system allows it, and not by system
    /// calls.
    pub mapped: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            value_in_log_bytes: 4 << 10,
            segment_bytes: 64 << 20,
            mapped: true,
        }
    }
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

    /// The same, with values of at least `bytes` bytes in the log only.
    #[must_use]
    pub fn value_in_log_bytes(self, bytes: usize) -> Self {
        Self {
            value_in_log_bytes: bytes,
            ..self
        }
    }

    /// The same with segments of at most `bytes` bytes, from 64 KiB to 1 GiB.
    #[must_use]
    pub fn segment_bytes(self, bytes: u64) -> Self {
        Self {
            segment_bytes: bytes.clamp(64 << 10, 1 << 30),
            ..self
        }
    }

    /// The same, with the log written by system calls.
    #[must_use]
    pub fn without_mapping(self) -> Self {
        Self {
            mapped: false,
            ..self
        }
    }
}
