//! The replies in memory, without connections.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::ReadCacheStats;
use crate::tracking::Invalidation;
use crate::{Cmd, Flags, OwnedReply};

/// Bytes of memory of a key with one small reply; the number of keys that fit is estimated by it.
const ENTRY_BYTES: usize = 256;
/// Bytes of a key and of a reply beyond their own: allocations and their place in tables.
const KEY_BYTES: usize = 128;
const REPLY_BYTES: usize = 64;

/// Commands that read their first argument, and whose reply is the same until that key changes.
const KEPT: &[&str] = &[
    "BITCOUNT",
    "BITPOS",
    "EXISTS",
    "GEODIST",
    "GEOHASH",
    "GEOPOS",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HSTRLEN",
    "HVALS",
    "JSON.GET",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "SCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "STRLEN",
    "TYPE",
    "XLEN",
    "XRANGE",
    "XREVRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZLEXCOUNT",
    "ZMSCORE",
    "ZRANGE",
    "ZRANK",
    "ZREVRANK",
    "ZSCORE",
];

/// The replies of one key, each with the words of its command.
type Replies = Arc<Vec<(Vec<u8>, Arc<OwnedReply>)>>;

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<Bytes, Replies> for Weight {
    fn weight(&self, key: &Bytes, replies: &Replies) -> u64 {
        let replies = replies.iter();
        let replies = replies.map(|(words, reply)| words.len() + REPLY_BYTES + held_bytes(reply));
        (key.len() + KEY_BYTES + replies.sum::<usize>()) as u64
    }
}

/// Bytes of a reply with all that it holds.
fn held_bytes(reply: &OwnedReply) -> usize {
    let own = size_of::<OwnedReply>();
    match reply {
        OwnedReply::Array(items) | OwnedReply::Set(items) | OwnedReply::Push(items) => {
            own + items.iter().map(held_bytes).sum::<usize>()
        }
        OwnedReply::Map(pairs) => {
            let pairs = pairs.iter();
            own + pairs
                .map(|(key, value)| held_bytes(key) + held_bytes(value))
                .sum::<usize>()
        }
        OwnedReply::Attribute(inner) => own + held_bytes(&inner.reply),
        other => own + other.as_bytes().map_or(0, <[u8]>::len),
    }
}

/// Requests about a key whose replies are on their way.
#[derive(Debug, Default)]
struct Reading {
    calls: usize,
    /// Whether a notice of the key has arrived since the first of them was begun.
    is_overtaken: bool,
}

/// Replies up to a number of bytes.
pub(super) struct Core {
    prefixes: Vec<Bytes>,
    replies: Cache<Bytes, Replies, Weight>,
    /// Locked while replies are added, and while they are dropped for a notice.
    reading: Mutex<HashMap<Bytes, Reading>>,
    is_current: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
    overtaken: AtomicU64,
    gaps: AtomicU64,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The way in which a command is run.
pub(super) enum Look<'c> {
    /// Its reply is in memory.
    Kept(Arc<OwnedReply>),
    /// It is sent, and its reply kept.
    Read(Read<'c>),
    /// It is sent.
    Pass,
}

/// A request whose reply is to be kept.
pub(super) struct Read<'c> {
    core: &'c Core,
    key: Bytes,
}

impl Core {
    pub(super) fn new(prefixes: Vec<Bytes>, bytes: usize) -> Self {
        let keys = (bytes / ENTRY_BYTES).max(1);
        Self {
            prefixes,
            replies: Cache::with_weighter(keys, bytes as u64, Weight),
            reading: Mutex::default(),
            is_current: AtomicBool::new(true),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            overtaken: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
        }
    }

    pub(super) fn stats(&self) -> ReadCacheStats {
        ReadCacheStats {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            overtaken: self.overtaken.load(Relaxed),
            gaps: self.gaps.load(Relaxed),
            keys: self.replies.len() as u64,
            bytes: self.replies.weight(),
            is_current: self.is_current.load(Relaxed),
        }
    }

    pub(super) fn look<T: crate::FromReply>(&self, command: &Cmd<T>) -> Look<'_> {
        let Some(key) = self.key_of(command) else {
            return Look::Pass;
        };
        if let Some(replies) = self.replies.get(key) {
            let words = command.encoded_words();
            if let Some((_, reply)) = replies.iter().find(|(known, _)| known == words) {
                self.hits.fetch_add(1, Relaxed);
                return Look::Kept(Arc::clone(reply));
            }
        }
        self.misses.fetch_add(1, Relaxed);
        let key = Bytes::copy_from_slice(key);
        self.lock().entry(key.clone()).or_default().calls += 1;
        Look::Read(Read { core: self, key })
    }

    /// The key of a command whose reply can be kept now.
    fn key_of<'k, T: crate::FromReply>(&self, command: &'k Cmd<T>) -> Option<&'k [u8]> {
        if !self.is_current.load(Relaxed) {
            return None;
        }
        let mut words = command.words();
        let name = words.next()?;
        let is_kept = |kept: &&str| name.eq_ignore_ascii_case(kept.as_bytes());
        let key = words.next().filter(|_| KEPT.iter().any(is_kept))?;
        // The only one with several keys.
        let is_one = words.len() == 0 || !name.eq_ignore_ascii_case(b"EXISTS");
        let is_tracked = self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        (is_one && is_tracked).then_some(key)
    }

    /// Drops what is kept of the keys of a command that is not a read.
    pub(super) fn has_run<T: crate::FromReply>(&self, command: &Cmd<T>) {
        if !command.meta().flags.contains(Flags::READ_ONLY) {
            command
                .routing_keys()
                .into_iter()
                .for_each(|key| self.forget(key));
        }
    }

    pub(super) fn forget(&self, key: &[u8]) {
        let mut reading = self.lock();
        if let Some(reading) = reading.get_mut(key) {
            reading.is_overtaken = true;
        }
        self.replies.remove(key);
    }

    /// Drops everything, and what is on its way.
    fn forget_all(&self) {
        let mut reading = self.lock();
        (reading.values_mut()).for_each(|reading| reading.is_overtaken = true);
        self.replies.clear();
        self.gaps.fetch_add(1, Relaxed);
    }

    /// Takes a notice, if there was one in time, and whether the connection is down.
    pub(super) fn take(&self, notice: Option<Invalidation>, is_out: bool) {
        if is_out {
            self.is_current.store(false, Relaxed);
        }
        match notice {
            Some(Invalidation::Key(key)) => self.forget(&key),
            Some(Invalidation::Refused { .. }) => {
                self.is_current.store(false, Relaxed);
                self.forget_all();
            }
            Some(_) => {
                self.forget_all();
                self.is_current.store(!is_out, Relaxed);
            }
            // The end of an outage without a gap: a master that did not report is none any more.
            None if !is_out && !self.is_current.load(Relaxed) => {
                self.forget_all();
                self.is_current.store(true, Relaxed);
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, Reading>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read<'_> {
    /// Keeps the reply, unless a notice of its key has arrived since the request was begun.
    pub(super) fn keep(self, command: &Cmd<OwnedReply>, reply: OwnedReply) {
        let reading = self.core.lock();
        let is_overtaken = reading
            .get(&self.key)
            .is_none_or(|reading| reading.is_overtaken);
        if is_overtaken || !self.core.is_current.load(Relaxed) {
            self.core.overtaken.fetch_add(1, Relaxed);
            return;
        }
        let words = command.encoded_words();
        let older = self.core.replies.get(&self.key).unwrap_or_default();
        let others = older.iter().filter(|(known, _)| known != words);
        let mut replies: Vec<_> = others.cloned().collect();
        replies.push((words.to_vec(), Arc::new(reply)));
        self.core
            .replies
            .insert(self.key.clone(), Arc::new(replies));
        drop(reading);
    }
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        let mut reading = self.core.lock();
        if let Entry::Occupied(mut entry) = reading.entry(self.key.clone()) {
            entry.get_mut().calls -= 1;
            if entry.get().calls == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{exists, get, hget, pttl, set};

    fn core(bytes: usize) -> Core {
        Core::new(
            vec![Bytes::from_static(b"a:"), Bytes::from_static(b"b:")],
            bytes,
        )
    }

    fn read<'c>(core: &'c Core, command: &Cmd<OwnedReply>) -> Read<'c> {
        match core.look(command) {
            Look::Read(read) => read,
            Look::Kept(_) => panic!("it is kept"),
            Look::Pass => panic!("it cannot be kept"),
        }
    }

    fn kept(core: &Core, command: &Cmd<OwnedReply>) -> Option<OwnedReply> {
        match core.look(command) {
            Look::Kept(reply) => Some((*reply).clone()),
            _ => None,
        }
    }

    fn key(key: &'static str) -> Option<Invalidation> {
        Some(Invalidation::Key(Bytes::from_static(key.as_bytes())))
    }

    fn gap() -> Option<Invalidation> {
        Some(Invalidation::Gap { outage: None })
    }

    #[test]
    fn reply_is_kept_until_its_key_changes() {
        let core = core(1 << 20);
        let (one, field) = (get("a:1").encoded(), hget("a:1", "f").encoded());
        read(&core, &one).keep(&one, OwnedReply::Integer(1));
        read(&core, &field).keep(&field, OwnedReply::Null);
        assert_eq!(kept(&core, &one), Some(OwnedReply::Integer(1)));
        assert_eq!(kept(&core, &field), Some(OwnedReply::Null));
        core.take(key("a:2"), false);
        assert!(kept(&core, &one).is_some());
        core.take(key("a:1"), false);
        assert!(kept(&core, &one).is_none() && kept(&core, &field).is_none());
        assert!(core.lock().is_empty());
    }

    /// Also if another request about the key was begun after the notice: its reply can be newer or not.
    #[test]
    fn reply_that_a_notice_overtakes_is_not_kept() {
        let core = core(1 << 20);
        let one = get("a:1").encoded();
        let early = read(&core, &one);
        core.take(key("a:1"), false);
        let late = read(&core, &one);
        late.keep(&one, OwnedReply::Integer(2));
        early.keep(&one, OwnedReply::Integer(1));
        assert!(kept(&core, &one).is_none());
        for notice in [gap(), Some(Invalidation::All)] {
            let early = read(&core, &one);
            core.take(notice, false);
            early.keep(&one, OwnedReply::Integer(1));
        }
        let early = read(&core, &one);
        core.forget(b"a:1");
        early.keep(&one, OwnedReply::Integer(1));
        assert_eq!((core.stats().overtaken, core.stats().keys), (5, 0));
        read(&core, &one).keep(&one, OwnedReply::Integer(3));
        assert_eq!(kept(&core, &one), Some(OwnedReply::Integer(3)));
    }

    #[test]
    fn nothing_is_kept_during_an_outage_nor_after_it_from_before() {
        let core = core(1 << 20);
        let one = get("a:1").encoded();
        read(&core, &one).keep(&one, OwnedReply::Integer(1));
        let early = read(&core, &get("a:2").encoded());
        core.take(None, true);
        assert!(matches!(core.look(&one), Look::Pass));
        early.keep(&get("a:2").encoded(), OwnedReply::Integer(1));
        // The connection is back, and its gap is still to come.
        core.take(key("a:3"), false);
        assert!(matches!(core.look(&one), Look::Pass));
        core.take(gap(), false);
        assert!(matches!(core.look(&one), Look::Read(_)));
        assert_eq!(core.stats().keys, 0);
        core.take(None, true);
        core.take(None, false);
        assert!(core.stats().is_current && core.stats().gaps == 2);
    }

    #[test]
    fn only_reads_of_one_tracked_key_are_kept() {
        let core = core(1 << 20);
        let passed: [Cmd<OwnedReply>; 4] = [
            get("c:1").encoded(),
            exists(["a:1", "a:2"]).encoded().read_as(),
            pttl("a:1").encoded().read_as(),
            set("a:1", 1).encoded().read_as(),
        ];
        for command in &passed {
            assert!(matches!(core.look(command), Look::Pass), "{command:?}");
        }
        let one = exists("a:1").encoded().read_as();
        read(&core, &one).keep(&one, OwnedReply::Integer(1));
        core.has_run(&passed[2]);
        assert!(kept(&core, &one).is_some());
        core.has_run(&passed[3]);
        assert!(kept(&core, &one).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let core = core(100_000);
        for number in 0..1_000 {
            let command = get(format!("b:{number}")).encoded();
            read(&core, &command).keep(&command, OwnedReply::Bulk(vec![0; 1_000]));
        }
        let stats = core.stats();
        assert!(stats.bytes <= 100_000 && stats.keys > 40, "{stats:?}");
    }
}
