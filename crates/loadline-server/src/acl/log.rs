//! The log of denied commands and logins.

use std::collections::VecDeque;

/// What was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denial {
    Command,
    Key,
    Login,
    Channel,
}

impl Denial {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Login => "auth",
        }
    }
}

/// An entry, which stands for all similar denials within a minute.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) count: i64,
    pub(crate) denial: Denial,
    pub(crate) context: &'static str,
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) at_ms: u64,
    /// The line of CLIENT LIST of the last client.
    pub(crate) client: String,
}

/// The newest entries, the last one first.
#[derive(Debug, Default)]
pub(crate) struct AclLog {
    pub(crate) entries: VecDeque<Entry>,
}

impl AclLog {
    /// Entries that are looked at for a similar one.
    const LOOKED_AT: usize = 10;
    const SIMILAR_MS: u64 = 60_000;
    /// The most bytes of a name that are kept.
    const NAME_BYTES: usize = 4_096;

    /// Adds an entry; at most `most` are kept.
    pub(crate) fn add(&mut self, mut entry: Entry, most: u64) {
        entry.object.truncate(Self::NAME_BYTES);
        entry.user.truncate(Self::NAME_BYTES);
        let is_similar = |old: &Entry| {
            old.denial == entry.denial
                && old.context == entry.context
                && old.object == entry.object
                && old.user == entry.user
                && old.at_ms.abs_diff(entry.at_ms) <= Self::SIMILAR_MS
        };
        let mut newest = self.entries.iter().take(Self::LOOKED_AT);
        if let Some(place) = newest.position(is_similar) {
            let old = self.entries.remove(place);
            entry.count += old.map_or(0, |old| old.count);
        }
        self.entries.push_front(entry);
        self.entries
            .truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
}
