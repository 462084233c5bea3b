//! A call of a command: its access to the connection, the store and the reply.

use loadline_resp::Protocol;
use loadline_store::{Keyspace, View};

use super::refusal::Refusal;
use super::reply::Reply;
use crate::buffer::Output;
use crate::notify::What;
use crate::others::Others;
use crate::session::Session;
use crate::state::Shared;

/// The state that a command can access.
pub(super) struct Call<'c> {
    pub(super) session: &'c mut Session,
    pub(super) shared: &'c mut Shared,
    pub(super) out: &'c mut Output,
    /// The key that has changed, if the command has waited for it.
    pub(super) changed: Option<&'c [u8]>,
    pub(super) others: &'c dyn Others,
}

impl Call<'_> {
    pub(super) fn refuse(&mut self, Refusal(text): &Refusal) {
        self.shared.stats.count_error(text);
        loadline_resp::encode::error(self.out, text);
    }

    pub(super) fn store(&self) -> &Keyspace {
        &self.shared.databases[self.session.database]
    }

    /// Brings the entries of `keys` into the cache of the processor, for a command that looks at each of them.
    pub(super) fn warm<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        self.shared.databases[self.session.database].warm(keys);
    }

    pub(super) fn now(&self) -> u64 {
        self.shared.now
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.session.protocol
    }

    pub(super) fn reply(&mut self) -> Reply<'_> {
        Reply {
            out: self.out,
            protocol: self.session.protocol,
        }
    }

    /// Passes the value at `key` to a closure without a copy, and counts the look-up.
    #[inline]
    pub(super) fn show<R>(
        &mut self,
        key: &[u8],
        look: impl FnOnce(Option<View<'_>>, &mut Reply<'_>) -> R,
    ) -> R {
        let mut was_there = false;
        let result = self.show_again(key, |value, reply| {
            was_there = value.is_some();
            look(value, reply)
        });
        self.count_lookup(key, was_there);
        result
    }

    /// Like [`show`](Self::show), without counting the look-up.
    #[inline]
    pub(super) fn show_again<R>(
        &mut self,
        key: &[u8],
        look: impl FnOnce(Option<View<'_>>, &mut Reply<'_>) -> R,
    ) -> R {
        let mut reply = Reply {
            out: self.out,
            protocol: self.session.protocol,
        };
        let store = &self.shared.databases[self.session.database];
        store.view(key, self.shared.now, |value| look(value, &mut reply))
    }

    /// Whether `key` exists. Does not count as a look-up, nor as a use.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.store()
            .inspect(key, self.now(), |value| value.is_some())
    }

    /// Whether `key` exists. Counts as a use, but not as a look-up.
    pub(super) fn finds(&self, key: &[u8]) -> bool {
        self.store().view(key, self.now(), |value| value.is_some())
    }

    /// The kind of the value at `key`. Counts as a look-up, but not as a use.
    pub(super) fn kind_of(&mut self, key: &[u8]) -> Option<&'static str> {
        let look = |value: Option<View<'_>>| value.map(View::kind);
        let kind = self.store().inspect(key, self.now(), look);
        self.count_lookup(key, kind.is_some());
        kind
    }

    /// Counts the look-up of a key.
    #[inline]
    pub(super) fn count_lookup(&mut self, key: &[u8], was_there: bool) {
        self.shared.stats.count_lookup(was_there);
        if !was_there {
            let database = self.session.database;
            self.shared.watched.note_what(database, key, What::Missed);
        }
    }
}
