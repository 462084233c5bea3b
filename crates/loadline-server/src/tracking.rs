//! Keys that clients have in their caches, and the notices that these keys have changed.
//!
//! A client is remembered for each key that it reads, or names prefixes of keys. A change of such a key is noted while the
//! command is executed that makes it. Its notice is sent behind the reply to that command to the client of the command,
//! and before their next replies to others.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};
use rand::RngExt;

/// The options of CLIENT TRACKING.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Notices of all keys with the client's prefixes.
    pub(crate) broadcasts: bool,
    /// Only keys read after CLIENT CACHING YES are remembered.
    pub(crate) opts_in: bool,
    /// Keys read after CLIENT CACHING NO are not remembered.
    pub(crate) opts_out: bool,
    /// No notices of the client's own changes.
    pub(crate) no_loop: bool,
    /// The client that gets the notices; 0 for the client itself.
    pub(crate) redirect: u64,
}

/// A client that tracks keys.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    pub(crate) options: Options,
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
    /// Whether CLIENT CACHING was called right before.
    pub(crate) caching: bool,
    /// Whether the client that gets the notices has gone.
    pub(crate) is_broken: bool,
}

/// A prefix that clients track.
#[derive(Debug, Default)]
struct Prefix {
    clients: BTreeSet<u64>,
    /// Keys changed in this turn, each with the client that changed it last.
    keys: BTreeMap<Vec<u8>, Option<u64>>,
}

/// A notice that is not sent yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Key(u64, Vec<u8>),
    /// All keys have gone.
    All(u64),
}

/// Keys of a prefix for a client: the client, and the keys in order.
pub(crate) type Broadcast = (u64, Vec<Vec<u8>>);

/// All clients that track keys, and the keys they have read.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    clients: HashMap<u64, Tracked>,
    /// The clients that have read a key, of any database. They can have stopped to track it.
    keys: HashMap<Vec<u8>, BTreeSet<u64>>,
    /// Pairs of a key and a client.
    items: usize,
    prefixes: BTreeMap<Vec<u8>, Prefix>,
    /// The client whose command is executed.
    pub(crate) current: Option<u64>,
    pending: Vec<Notice>,
    /// Encoded messages for clients, by their ids.
    outbox: BTreeMap<u64, Vec<u8>>,
    /// Times in a row that the table was over its limit after keys were dropped.
    overruns: usize,
    /// The keys declared by the script that is executed.
    pub(crate) script_keys: Option<Vec<Vec<u8>>>,
}

/// Keys that are dropped at once from a table over its limit, times the number of attempts.
const EFFORT: usize = 100;

impl Tracking {
    /// Whether any client tracks keys.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        !self.clients.is_empty()
    }

    pub(crate) fn client(&self, id: u64) -> Option<&Tracked> {
        self.clients.get(&id)
    }

    pub(crate) fn client_mut(&mut self, id: u64) -> Option<&mut Tracked> {
        self.clients.get_mut(&id)
    }

    /// The numbers of clients, keys, pairs of both, and prefixes.
    pub(crate) fn counts(&self) -> [(&'static str, usize); 4] {
        [
            ("tracking_clients", self.clients.len()),
            ("tracking_total_keys", self.keys.len()),
            ("tracking_total_items", self.items),
            ("tracking_total_prefixes", self.prefixes.len()),
        ]
    }

    /// Lets a client track keys with `options`; prefixes are added to those that it has.
    pub(crate) fn start(&mut self, id: u64, options: Options, prefixes: &[&[u8]]) {
        let client = self.clients.entry(id).or_default();
        client.options = options;
        client.is_broken = false;
        if !options.broadcasts {
            return;
        }
        let all: &[&[u8]] = if prefixes.is_empty() {
            &[b""]
        } else {
            prefixes
        };
        for prefix in all {
            client.prefixes.insert(prefix.to_vec());
            let known = self.prefixes.entry(prefix.to_vec()).or_default();
            known.clients.insert(id);
        }
    }

    /// Ends the tracking of a client. Its keys stay in the table until they change.
    pub(crate) fn stop(&mut self, id: u64) {
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        for prefix in client.prefixes {
            if let Some(known) = self.prefixes.get_mut(&prefix) {
                known.clients.remove(&id);
                if known.clients.is_empty() {
                    self.prefixes.remove(&prefix);
                }
            }
        }
        if self.clients.is_empty() {
            // Without clients, changes are not noted.
            self.forget_keys();
        }
    }

    fn forget_keys(&mut self) {
        self.keys = HashMap::new();
        self.items = 0;
    }

    /// Whether the client wants its reads remembered.
    pub(crate) fn remembers(&self, id: u64) -> bool {
        self.clients.get(&id).is_some_and(|client| {
            let options = client.options;
            !options.broadcasts
                && (!options.opts_in || client.caching)
                && (!options.opts_out || !client.caching)
        })
    }

    /// Ends the effect of CLIENT CACHING.
    pub(crate) fn end_caching(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.caching = false;
        }
    }

    /// Remembers that a client has read a key.
    pub(crate) fn remember(&mut self, id: u64, key: &[u8]) {
        if self.keys.entry_ref(key).or_default().insert(id) {
            self.items += 1;
        }
    }

    /// Notes the change of a key.
    pub(crate) fn note(&mut self, key: &[u8]) {
        if !self.is_used() {
            return;
        }
        // As in Redis, broadcasts of what a script does go to its own client, too.
        let by = self.current.filter(|_| self.script_keys.is_none());
        for (prefix, known) in &mut self.prefixes {
            if key.starts_with(prefix) {
                known.keys.insert(key.to_vec(), by);
            }
        }
        self.drop_key(key, self.current);
    }

    /// Takes a key out of the table, and notifies its clients.
    fn drop_key(&mut self, key: &[u8], by: Option<u64>) {
        let Some(ids) = self.keys.remove(key) else {
            return;
        };
        self.items -= ids.len();
        for id in ids {
            let options = self.clients.get(&id).map(|client| client.options);
            let is_wanted =
                |options: &Options| !(options.broadcasts || options.no_loop && by == Some(id));
            if options.as_ref().is_some_and(is_wanted) {
                self.pending.push(Notice::Key(id, key.to_vec()));
            }
        }
    }

    /// Notes that a database was emptied.
    pub(crate) fn note_flush(&mut self) {
        self.pending
            .extend(self.clients.keys().copied().map(Notice::All));
        self.forget_keys();
    }

    pub(crate) fn take_pending(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.pending)
    }

    /// Takes the keys with prefixes that were changed in this turn, for each prefix and client.
    pub(crate) fn take_broadcasts(&mut self) -> Vec<Broadcast> {
        let mut broadcasts = Vec::new();
        for known in self.prefixes.values_mut() {
            let keys = std::mem::take(&mut known.keys);
            if keys.is_empty() {
                continue;
            }
            for id in &known.clients {
                let options = self.clients.get(id).map(|client| client.options);
                let no_loop = options.is_some_and(|options| options.no_loop);
                let keys = keys.iter();
                let wanted = keys.filter(|(_, by)| !no_loop || **by != Some(*id));
                let wanted: Vec<Vec<u8>> = wanted.map(|(key, _)| key.clone()).collect();
                if !wanted.is_empty() {
                    broadcasts.push((*id, wanted));
                }
            }
        }
        broadcasts
    }

    /// Drops random keys of a table with more than `most` keys, and notifies their clients. The number of dropped keys is
    /// bounded, and grows until the limit is reached.
    pub(crate) fn limit(&mut self, most: u64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most == 0 || self.keys.len() <= most {
            self.overruns = 0;
            return;
        }
        let over = self.keys.len() - most;
        let effort = EFFORT.saturating_mul(self.overruns + 1);
        let skipped = rand::rng().random_range(0..=most);
        let keys = self.keys.keys().skip(skipped).take(over.min(effort));
        for key in keys.cloned().collect::<HashSet<_>>() {
            self.drop_key(&key, None);
        }
        let is_within = self.keys.len() <= most;
        self.overruns = if is_within { 0 } else { self.overruns + 1 };
    }

    /// The messages for a client, which go behind its replies so far.
    pub(crate) fn outbox(&mut self, id: u64) -> &mut Vec<u8> {
        self.outbox.entry(id).or_default()
    }

    /// Whether messages wait for any client.
    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(crate) fn take_messages(&mut self, id: u64) -> Option<Vec<u8>> {
        self.outbox.remove(&id)
    }

    /// The clients with messages.
    pub(crate) fn receivers(&self) -> Vec<u64> {
        self.outbox.keys().copied().collect()
    }

    /// Ends what is held about a connection.
    pub(crate) fn forget(&mut self, id: u64) {
        self.stop(id);
        self.outbox.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_over_its_limit_drops_keys_with_notices() {
        let mut tracking = Tracking::default();
        tracking.start(1, Options::default(), &[]);
        for number in 0..1_000_u32 {
            tracking.remember(1, &number.to_be_bytes());
        }
        tracking.limit(0);
        assert!(tracking.take_pending().is_empty());
        for left in [900, 700, 400, 10] {
            tracking.limit(10);
            assert_eq!((tracking.keys.len(), tracking.items), (left, left));
        }
        assert_eq!(tracking.take_pending().len(), 990);
    }

    #[test]
    fn nothing_is_left_of_clients_that_have_gone() {
        let mut tracking = Tracking::default();
        tracking.start(
            1,
            Options {
                broadcasts: true,
                ..Options::default()
            },
            &[b"a", b"b"],
        );
        tracking.start(2, Options::default(), &[]);
        tracking.remember(2, b"k");
        tracking.note(b"k");
        tracking.note(b"ab");
        tracking.outbox(2).push(b'x');
        tracking.forget(1);
        tracking.forget(2);
        assert_eq!(tracking.counts().map(|(_, count)| count), [0; 4]);
        assert!(!tracking.has_messages() && tracking.take_broadcasts().is_empty());
    }
}
