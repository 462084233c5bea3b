//! Clients that wait for keys, such as those of BLPOP, in the order of their arrival.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::{HashMap, HashSet};

/// A key of a database.
pub(crate) type WaitedKey = (usize, Vec<u8>);

/// The end of a wait without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    TimedOut,
    /// By CLIENT UNBLOCK with an error.
    Refused,
}

/// A wait for any of some keys.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub(crate) database: usize,
    /// Keys without duplicates. A client without keys waits for its deadline.
    pub(crate) keys: Vec<Vec<u8>>,
    /// In milliseconds since the Unix epoch; `None` for no deadline.
    pub(crate) deadline: Option<u64>,
    /// Whether the wait ends when a key is removed, too.
    pub(crate) needs_keys: bool,
}

/// A wait with its number in the order of arrival.
#[derive(Debug)]
struct Arrived {
    wait: Wait,
    number: u64,
}

/// All clients that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingClients {
    /// The clients that wait for a key, by the order of their arrival.
    keys: HashMap<WaitedKey, BTreeMap<u64, u64>>,
    clients: HashMap<u64, Arrived>,
    deadlines: BTreeSet<(u64, u64)>,
    arrivals: u64,
    /// Keys that were changed while clients wait for them, each once.
    changed: VecDeque<WaitedKey>,
    listed: HashSet<WaitedKey>,
    /// Clients whose waits were ended by others.
    released: Vec<(u64, Release)>,
    /// Whether a key was changed or a client released.
    has_work: bool,
}

impl WaitingClients {
    /// Whether no client waits for a key.
    pub(crate) fn are_none(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there are clients to be served or released.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_work
    }

    pub(super) fn add(&mut self, id: u64, wait: Wait) {
        self.arrivals += 1;
        let number = self.arrivals;
        for key in &wait.keys {
            let place = (wait.database, key.clone());
            self.keys.entry(place).or_default().insert(number, id);
        }
        self.deadlines
            .extend(wait.deadline.map(|deadline| (deadline, id)));
        self.clients.insert(id, Arrived { wait, number });
    }

    /// Ends the wait of a client and returns whether it waited.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let Some(Arrived { wait, number }) = self.clients.remove(&id) else {
            return false;
        };
        if let Some(deadline) = wait.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        for key in wait.keys {
            let place = (wait.database, key);
            if let Some(clients) = self.keys.get_mut(&place) {
                clients.remove(&number);
                if clients.is_empty() {
                    self.keys.remove(&place);
                }
            }
        }
        true
    }

    /// Notes the change of a key.
    pub(super) fn note(&mut self, database: usize, key: &[u8]) {
        let place = (database, key.to_vec());
        if self.keys.contains_key(&place) && self.listed.insert(place.clone()) {
            self.changed.push_back(place);
            self.has_work = true;
        }
    }

    /// Notes changes of all keys for which `has_changed` returns true.
    pub(super) fn note_where(&mut self, has_changed: impl Fn(usize, &[u8]) -> bool) {
        let keys = self.keys.keys();
        let changed = keys.filter(|(database, key)| has_changed(*database, key));
        let mut changed: Vec<WaitedKey> = changed.cloned().collect();
        changed.sort_unstable();
        for (database, key) in changed {
            self.note(database, &key);
        }
    }

    /// Notes changes of keys whose removal ends a wait, where `is_missing` returns true.
    pub(super) fn note_missing(&mut self, is_missing: impl Fn(usize, &[u8]) -> bool) {
        let waits = self
            .clients
            .values()
            .filter(|client| client.wait.needs_keys);
        let places = waits.flat_map(|client| {
            let keys = client.wait.keys.iter();
            keys.map(|key| (client.wait.database, key.clone()))
        });
        let missing: Vec<WaitedKey> = places
            .filter(|(database, key)| is_missing(*database, key))
            .collect();
        for (database, key) in missing {
            self.note(database, &key);
        }
    }

    /// Ends the wait of a client, which [`take_released`](Self::take_released) returns then.
    pub(super) fn release(&mut self, id: u64, how: Release) -> bool {
        let has_waited = self.remove(id);
        if has_waited {
            self.released.push((id, how));
            self.has_work = true;
        }
        has_waited
    }

    /// Releases the clients whose deadlines have passed.
    pub(super) fn time_out(&mut self, now: u64) {
        while let Some((deadline, id)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.release(id, Release::TimedOut);
        }
    }

    /// The next key that was changed. The last call returns `None`.
    pub(crate) fn next_changed(&mut self) -> Option<WaitedKey> {
        let place = self.changed.pop_front();
        match &place {
            Some(place) => drop(self.listed.remove(place)),
            None => self.has_work = !self.released.is_empty(),
        }
        place
    }

    pub(crate) fn take_released(&mut self) -> Vec<(u64, Release)> {
        self.has_work = !self.changed.is_empty();
        std::mem::take(&mut self.released)
    }

    /// The clients that wait for a key, the first one first, each with whether its wait ends when the key is removed.
    pub(crate) fn clients_of(&self, place: &WaitedKey) -> Vec<(u64, bool)> {
        let clients = self.keys.get(place);
        let ids = clients.into_iter().flat_map(BTreeMap::values);
        let needs_keys = |id: &u64| {
            let client = self.clients.get(id);
            client.is_some_and(|client| client.wait.needs_keys)
        };
        ids.map(|id| (*id, needs_keys(id))).collect()
    }

    /// The first deadline, in milliseconds since the Unix epoch.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(keys: &[&str], deadline: Option<u64>) -> Wait {
        Wait {
            database: 1,
            keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
            deadline,
            needs_keys: false,
        }
    }

    fn of(clients: &WaitingClients, key: &str) -> Vec<u64> {
        let clients = clients.clients_of(&(1, key.as_bytes().to_vec()));
        clients.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn clients_wait_in_the_order_of_their_arrival_until_they_go() {
        let mut clients = WaitingClients::default();
        clients.add(9, wait(&["a", "b"], None));
        clients.add(3, wait(&["b"], Some(10)));
        clients.add(5, wait(&["b", "c"], Some(10)));
        assert_eq!(of(&clients, "b"), [9, 3, 5]);
        clients.note(1, b"d");
        clients.note(0, b"b");
        assert!(!clients.has_work());
        for key in [b"c", b"b", b"c"] {
            clients.note(1, key);
        }
        assert!(clients.remove(9) && !clients.remove(9));
        assert_eq!(clients.next_changed(), Some((1, b"c".to_vec())));
        // A key that is changed again while its clients are served comes again.
        clients.note(1, b"c");
        assert_eq!(clients.next_changed(), Some((1, b"b".to_vec())));
        assert_eq!(clients.next_changed(), Some((1, b"c".to_vec())));
        assert_eq!(clients.next_changed(), None);
        assert!(!clients.has_work());
        assert_eq!((of(&clients, "a"), of(&clients, "b")), (vec![], vec![3, 5]));
        assert_eq!(clients.first_deadline(), Some(10));
        clients.time_out(9);
        assert!(clients.release(5, Release::Refused) && !clients.release(9, Release::TimedOut));
        clients.time_out(10);
        assert!(clients.has_work());
        let released = [(5, Release::Refused), (3, Release::TimedOut)];
        assert_eq!(clients.take_released(), released);
        assert!(clients.are_none() && clients.deadlines.is_empty() && !clients.has_work());
    }
}
