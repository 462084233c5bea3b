mod accesses;
mod snapshots;

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

use crate::sorted::SortedSet;

/// A key; some are too long for a record.
fn name(key: u8) -> Vec<u8> {
    match key % 4 {
        3 => [b"long".repeat(150), vec![key]].concat(),
        _ => vec![key],
    }
}

/// A step with a key, and how long the key lives from then on.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, Vec<u8>, Option<u8>),
    PutKeeping(u8, Vec<u8>),
    PutWhereNothingIs(u8, Vec<u8>),
    PutEntry(u8, Value, Option<u8>),
    Append(u8, u8),
    ChangeEntry(u8, Option<u8>),
    ChangeExpiry(u8, Option<u8>),
    RemoveInPlace(u8),
    Take(u8),
    Rename(u8, u8),
    Copy(u8, u8),
    Increment(u8),
    Clear,
    Pass(u8),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..12_u8;
    // Some are too long for a record.
    let bytes = || {
        let long = (0..3_u8).prop_map(|byte| vec![byte; 600]);
        prop_oneof![4 => proptest::collection::vec(any::<u8>(), 0..4), 1 => long]
    };
    let life = any::<Option<u8>>;
    let members = proptest::collection::vec(bytes(), 1..4);
    let members = members
        .prop_map(|members| Value::Set(members.iter().map(|member| (&**member, ())).collect()));
    let scored = proptest::collection::vec((bytes(), any::<i8>()), 1..4);
    let sorted = (scored, any::<bool>()).prop_map(|(scored, is_packed)| {
        let mut set = SortedSet::new();
        if !is_packed {
            set.unpack();
        }
        for (member, score) in scored {
            set.insert(&member, f64::from(score));
        }
        Value::Sorted(set)
    });
    let value = prop_oneof![bytes().prop_map(Value::String), members, sorted];
    let step = prop_oneof![
        (key(), bytes(), life()).prop_map(|(key, bytes, life)| Step::Put(key, bytes, life)),
        (key(), bytes()).prop_map(|(key, bytes)| Step::PutKeeping(key, bytes)),
        (key(), bytes()).prop_map(|(key, bytes)| Step::PutWhereNothingIs(key, bytes)),
        (key(), value, life()).prop_map(|(key, value, life)| Step::PutEntry(key, value, life)),
        (key(), any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        (key(), life()).prop_map(|(key, life)| Step::ChangeEntry(key, life)),
        (key(), life()).prop_map(|(key, life)| Step::ChangeExpiry(key, life)),
        key().prop_map(Step::RemoveInPlace),
        key().prop_map(Step::Take),
        (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
        key().prop_map(Step::Increment),
        Just(Step::Clear),
        (1..50_u8).prop_map(Step::Pass),
        (1..50_u8).prop_map(Step::Pass),
        Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..200)
}

/// The plain version: an ordered map that is cleared of what is over after every step.
#[derive(Debug, Default)]
struct Model {
    entries: BTreeMap<u8, Entry>,
    now: u64,
}

impl Model {
    fn until(&self, life: Option<u8>) -> Option<u64> {
        life.map(|life| self.now + u64::from(life))
    }

    fn take_step(&mut self, step: &Step) {
        match step {
            Step::Put(key, bytes, life) => {
                let entry = Entry {
                    value: Value::String(bytes.clone()),
                    expires_at: self.until(*life),
                };
                self.entries.insert(*key, entry);
            }
            Step::PutKeeping(key, bytes) => {
                let fresh = Entry::lasting(Value::String(Vec::new()));
                let entry = self.entries.entry(*key).or_insert(fresh);
                entry.value = Value::String(bytes.clone());
            }
            Step::PutWhereNothingIs(key, bytes) => {
                let fresh = Entry::lasting(Value::String(bytes.clone()));
                self.entries.entry(*key).or_insert(fresh);
            }
            Step::PutEntry(key, value, life) => {
                let entry = Entry {
                    value: value.clone(),
                    expires_at: self.until(*life),
                };
                self.entries.insert(*key, entry);
            }
            Step::Append(key, byte) => {
                extend(self.entries.get_mut(key), *byte);
            }
            Step::ChangeEntry(key, life) | Step::ChangeExpiry(key, life) => {
                let until = self.until(*life);
                if let Some(entry) = self.entries.get_mut(key) {
                    entry.expires_at = until;
                }
            }
            Step::RemoveInPlace(key) | Step::Take(key) => {
                self.entries.remove(key);
            }
            Step::Rename(from, to) => {
                if let Some(entry) = self.entries.remove(from) {
                    self.entries.insert(*to, entry);
                }
            }
            Step::Copy(from, to) => {
                if let Some(entry) = self.entries.get(from).cloned() {
                    self.entries.insert(*to, entry);
                }
            }
            Step::Increment(key) => {
                let fresh = Entry::lasting(Value::String(Vec::new()));
                let entry = self.entries.entry(*key).or_insert(fresh);
                if let Value::String(bytes) = &mut entry.value {
                    bytes.push(b'+');
                }
            }
            Step::Clear => self.entries.clear(),
            Step::Pass(time) => self.now += u64::from(*time),
            Step::Sweep => {}
        }
        let now = self.now;
        self.entries
            .retain(|_, entry| entry.expires_at.is_none_or(|at| at > now));
    }
}

/// Adds a byte to a string, or a member to a sorted set.
fn extend(entry: Option<&mut Entry>, byte: u8) {
    match entry.map(|entry| &mut entry.value) {
        Some(Value::String(bytes)) => bytes.push(byte),
        Some(Value::Sorted(set)) => {
            set.insert(&[byte], f64::from(byte % 3));
        }
        _ => {}
    }
}

fn take_step(store: &Keyspace, step: &Step, model: &Model) {
    let now = model.now;
    match step {
        Step::Put(key, bytes, life) => {
            assert!(store.put_string(&name(*key), bytes, now, |_| Some(model.until(*life))));
        }
        Step::PutKeeping(key, bytes) => {
            let keep = |current: Option<(View<'_>, Option<u64>)>| {
                Some(current.and_then(|(_, expires_at)| expires_at))
            };
            assert!(store.put_string(&name(*key), bytes, now, keep));
        }
        Step::PutWhereNothingIs(key, bytes) => {
            let put = store.put_string(&name(*key), bytes, now, |current| match current {
                Some(_) => None,
                None => Some(None),
            });
            assert_eq!(put, !model.entries.contains_key(key));
        }
        Step::PutEntry(key, value, life) => {
            let entry = Entry {
                value: value.clone(),
                expires_at: model.until(*life),
            };
            store.modify(&name(*key), now, |_| ((), Change::Put(entry)));
        }
        Step::Append(key, byte) => store.modify(&name(*key), now, |entry| {
            extend(entry, *byte);
            ((), Change::Keep)
        }),
        Step::ChangeEntry(key, life) => store.modify(&name(*key), now, |entry| {
            if let Some(entry) = entry {
                entry.expires_at = model.until(*life);
            }
            ((), Change::Keep)
        }),
        Step::ChangeExpiry(key, life) => {
            let at = Expiry::At(model.until(*life));
            let was = store.modify_expiry(&name(*key), now, |was| (was, at));
            assert_eq!(was, model.entries.get(key).map(|entry| entry.expires_at));
        }
        Step::RemoveInPlace(key) => {
            store.modify(&name(*key), now, |_| ((), Change::Remove));
        }
        Step::Take(key) => {
            let taken = store.take(&name(*key), now);
            assert_eq!(taken.as_ref(), model.entries.get(key));
        }
        Step::Rename(from, to) => {
            let was_there = model.entries.contains_key(from);
            assert_eq!(store.rename(&name(*from), &name(*to), now), was_there);
        }
        Step::Copy(from, to) => {
            let is_there = model.entries.contains_key(from);
            assert_eq!(store.copy(&name(*from), store, &name(*to), now), is_there);
        }
        Step::Increment(key) => {
            let longer = |value: Option<View<'_>>| match value {
                Some(View::String(bytes)) => Ok([bytes, b"+"].concat()),
                Some(_) => Err(()),
                None => Ok(b"+".to_vec()),
            };
            let _ = store.replace_string(&name(*key), now, longer);
        }
        Step::Clear => store.clear(),
        Step::Pass(_) | Step::Sweep => {
            store.expire_some(now, usize::MAX);
        }
    }
}

proptest! {
    /// Against a plain map, with a clock of its own.
    #[test]
    fn keyspace_behaves_like_a_map_with_expiry(steps in steps(), counts_uses in any::<bool>()) {
        // Few shards, so that some hold several keys.
        let mut store = Keyspace::for_keys(12);
        store.evict_by(counts_uses.then_some(Victim::LeastUsed));
        let mut model = Model::default();
        for step in &steps {
            take_step(&store, step, &model);
            model.take_step(step);
            for key in 0..12 {
                let expected = model.entries.get(&key);
                let entry = store.entry(&name(key), model.now);
                prop_assert_eq!(entry.as_ref(), expected);
                let is_same = store.read(&name(key), model.now, |value| value == expected.map(|entry| &entry.value));
                prop_assert!(is_same);
            }
        }
        // Every key was asked for, so what is over is freed.
        prop_assert_eq!(store.len(), model.entries.len());
        prop_assert_eq!(store.charged_bytes(), store.added_up());
        let each = (0..12).filter_map(|key| store.memory_bytes(&name(key), model.now));
        let slots: usize = each.map(|bytes| bytes - size_of::<u32>()).sum();
        let counted: usize = store.each_shard().map(|shard| shard.held_bytes()).sum();
        prop_assert_eq!(counted, slots);
        let expiring = model.entries.values().filter(|entry| entry.expires_at.is_some());
        prop_assert_eq!(store.expiring(), expiring.count());
    }
}

#[test]
fn walk_shows_what_stays_exactly_once_while_others_come_and_go() {
    let store = Keyspace::new();
    let put = |key: String| store.put_string(key.as_bytes(), b"", 0, |_| Some(None));
    assert!((0..1_000).all(|n| put(format!("stays:{n}"))));
    let (mut cursor, mut shown, mut turn) = (0, Vec::new(), 0);
    loop {
        cursor = store.scan(cursor, 10, 0, |key, _| {
            shown.extend(key.starts_with(b"stays:").then(|| key.to_vec()));
        });
        (0..50).for_each(|n| assert!(put(format!("comes:{turn}:{n}"))));
        assert!(store.remove(format!("comes:{turn}:0").as_bytes(), 0));
        turn += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!(turn > 10, "the walk took {turn} calls");
    shown.sort();
    let unique = {
        let mut keys = shown.clone();
        keys.dedup();
        keys.len()
    };
    assert_eq!((shown.len(), unique), (1_000, 1_000));
}

#[test]
fn expired_keys_are_freed_in_bounded_steps_and_counted() {
    let store = Keyspace::new();
    for n in 0..10_000_u32 {
        let expires_at = (n % 2 == 0).then_some(5);
        store.put_string(&n.to_le_bytes(), b"v", 0, |_| Some(expires_at));
    }
    assert_eq!((store.expire_some(4, usize::MAX), store.len()), (0, 10_000));
    let first = store.expire_some(5, 1_000);
    assert!((1..1_500).contains(&first), "{first} in the first step");
    let calls = (0..100)
        .take_while(|_| store.expire_some(5, 1_000) > 0)
        .count();
    assert!((4..20).contains(&calls), "{calls} calls");
    assert_eq!(
        (store.len(), store.expiring(), store.expired()),
        (5_000, 0, 5_000)
    );
}

/// Keys that go take the room of their tables with them, however they go.
#[test]
fn memory_is_given_back() {
    let store = Keyspace::new();
    let fill = || {
        for n in 0..200_000_u32 {
            store.put_string(&n.to_le_bytes(), b"value", 0, |_| Some(Some(5)));
        }
    };
    let ways: [(&str, &dyn Fn()); 3] = [
        ("removal", &|| {
            (0..200_000_u32).for_each(|n| assert!(store.remove(&n.to_le_bytes(), 0)));
        }),
        ("expiry", &|| {
            store.expire_some(5, usize::MAX);
        }),
        ("clear", &|| store.clear()),
    ];
    store.remove(b"none", 0);
    let empty = store.total_memory_bytes();
    for (name, empty_it) in ways {
        fill();
        let full = store.total_memory_bytes() - empty;
        assert!(full > 200_000 * (5 + 4 + size_of::<u32>()), "{full}");
        empty_it();
        let left = store.total_memory_bytes() - empty;
        // Room for a few slots in each shard.
        assert!(left < full / 10, "{left} of {full} bytes after {name}");
    }
}

fn append(store: &Keyspace, key: &[u8]) {
    store.modify(key, 0, |entry| {
        if let Some(Value::String(bytes)) = entry.map(|entry| &mut entry.value) {
            bytes.push(b'x');
        }
        ((), Change::Keep)
    });
}

#[test]
fn values_keep_their_shape_under_other_names() {
    let (store, other) = (Keyspace::new(), Keyspace::new());
    store.put_string(b"k", b"v", 0, |_| Some(None));
    assert_eq!(store.shape(b"k", 0), Some(Shape::Packed));
    let look = |entry: Option<&mut Entry>| (entry.unwrap().expires_at = Some(9), Change::Keep);
    store.modify(b"k", 0, look);
    assert_eq!(store.shape(b"k", 0), Some(Shape::Packed));
    append(&store, b"k");
    assert_eq!(store.shape(b"k", 0), Some(Shape::Growing));
    assert!(store.rename(b"k", b"l", 0) && store.copy(b"l", &other, b"m", 0));
    assert_eq!(store.shape(b"k", 0), None);
    assert_eq!(store.shape(b"l", 0), Some(Shape::Growing));
    assert_eq!(other.shape(b"m", 0), Some(Shape::Growing));
    assert!(other.move_to(&store, b"m", 0) && other.is_empty());
    assert_eq!(store.shape(b"m", 0), Some(Shape::Growing));
    let plus = |_: Option<View<'_>>| Ok::<_, ()>(b"w");
    assert_eq!(store.replace_string(b"m", 0, plus), Ok((b"w", Some(9))));
    assert_eq!(store.shape(b"m", 0), Some(Shape::Packed));
    let held = store.total_memory_bytes();
    store.keep_as_text(b"m", 0);
    assert_eq!(store.shape(b"m", 0), Some(Shape::PackedText));
    assert_eq!(store.total_memory_bytes(), held);
    for expires_at in [Some(9), None] {
        store.modify_expiry(b"m", 0, |_| ((), Expiry::At(expires_at)));
        assert_eq!(store.shape(b"m", 0), Some(Shape::PackedText));
    }
    assert!(store.rename(b"m", b"n", 0) && store.copy(b"n", &store, b"m", 0));
    assert_eq!(store.shape(b"m", 0), Some(Shape::PackedText));
    store.make_growing(b"m", 0);
    assert_eq!(store.shape(b"m", 0), Some(Shape::Growing));
    assert!(store.total_memory_bytes() > held);
    let same = |_: Option<View<'_>>| Ok::<_, ()>(b"v");
    assert_eq!(store.shape(b"n", 0), Some(Shape::PackedText));
    assert_eq!(store.replace_string(b"n", 0, same), Ok((b"v", None)));
    assert_eq!(store.shape(b"n", 0), Some(Shape::Packed));
    let mut members = crate::Members::new();
    members.insert(b"a", ());
    members.relax();
    let set = Entry::lasting(Value::Set(members));
    store.modify(b"s", 0, |_| ((), Change::Put(set)));
    assert_eq!(store.shape(b"s", 0), Some(Shape::Hashed));
}

#[test]
fn caller_that_panics_leaves_the_store_whole() {
    let store = Keyspace::new();
    store.put_string(b"k", b"v", 0, |_| Some(None));
    append(&store, b"k");
    let panicking = || {
        store.modify(b"k", 0, |entry| -> ((), Change) {
            entry.unwrap().expires_at = Some(9);
            panic!("on purpose")
        });
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    assert_eq!(store.expiring(), 1);
    assert!(store.remove(b"k", 0));
    assert_eq!((store.len(), store.expiring()), (0, 0));
}

#[test]
fn threads_share_the_store() {
    let store = Keyspace::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..1_000_u32 {
                    store.modify(&(n % 10).to_le_bytes(), 0, |entry| match entry {
                        Some(entry) => {
                            if let Value::String(bytes) = &mut entry.value {
                                bytes.push(b'x');
                            }
                            ((), Change::Keep)
                        }
                        None => (
                            (),
                            Change::Put(Entry::lasting(Value::String(b"x".to_vec()))),
                        ),
                    });
                }
            });
        }
    });
    for n in 0..10_u32 {
        let is_whole = |value: Option<View<'_>>| matches!(value, Some(View::String(bytes)) if bytes.len() == 400);
        assert!(store.view(&n.to_le_bytes(), 0, is_whole));
    }
}

fn fill(store: &Keyspace, keys: u32) {
    for n in 0..keys {
        store.put_string(&n.to_le_bytes(), b"value", 0, |_| Some(None));
    }
}

#[test]
fn eviction_spares_what_is_used() {
    let mut store = Keyspace::new();
    store.evict_by(Some(Victim::LeastUsed));
    fill(&store, 10_000);
    let is_there = |n: u32| store.view(&n.to_le_bytes(), 0, |value| value.is_some());
    assert!((0..100).all(is_there));
    let mut gone = Vec::new();
    while gone.len() < 9_900 {
        store.evict(false, None, |key| gone.push(key.to_vec()));
    }
    assert!((0..100).all(is_there), "a key that was used is gone");
    assert_eq!((store.len(), store.tally().evictions), (100, 9_900));
    gone.sort_unstable();
    gone.dedup();
    assert_eq!(gone.len(), 9_900, "a key was shown twice");
    assert_eq!(store.charged_bytes(), store.added_up());
}

/// Keys that are written once each, with room for a tenth of them: those that stay are the last ones, as far as four steps
/// of age distinguish them.
#[test]
fn eviction_by_age_keeps_what_is_recent() {
    const KEYS: u32 = 40_000;
    const MOST: usize = 4_000;
    let mut store = Keyspace::for_keys(MOST);
    store.evict_by(Some(Victim::LeastRecent));
    for n in 0..KEYS {
        store.put_string(&n.to_le_bytes(), b"value", 0, |_| Some(None));
        // These are written again all the time, or read, and are never among the oldest.
        for recent in [n / 2_000, 20 + n / 2_000] {
            store.put_string(&recent.to_le_bytes(), b"again", 0, |_| Some(None));
        }
        store.view(&50_u32.to_le_bytes(), 0, |_| {});
        while store.len() > MOST {
            store.evict(false, None, |_| {});
        }
    }
    let is_there = |n: u32| store.peek(&n.to_le_bytes(), 0, |value| value.is_some());
    assert!(is_there(50), "it was read all the time");
    let newest = (KEYS - 1_000..KEYS).filter(|n| is_there(*n)).count();
    let old = (100..KEYS - 3 * MOST as u32)
        .filter(|n| is_there(*n))
        .count();
    println!("{newest} of the last 1,000 keys, {old} of those before the last 12,000");
    assert!(newest >= 950 && old <= MOST / 20, "{newest} {old}");
}

#[test]
fn eviction_by_expiry_takes_what_goes_first() {
    const KEYS: u32 = 40_000;
    let mut store = Keyspace::for_keys(KEYS as usize);
    store.evict_by(Some(Victim::FirstToExpire));
    fill(&store, 100);
    for n in 100..KEYS {
        store.put_string(&n.to_le_bytes(), b"value", 0, |_| {
            Some(Some(1_000 + u64::from(n)))
        });
    }
    while store.len() > KEYS as usize / 2 {
        store.evict(true, None, |_| {});
    }
    let is_there = |n: &u32| store.peek(&n.to_le_bytes(), 0, |value| value.is_some());
    assert_eq!((0..100).filter(is_there).count(), 100, "without an expiry");
    let first = (100..KEYS / 4).filter(is_there).count();
    let last = (KEYS / 4 * 3..KEYS).filter(|n| !is_there(n)).count();
    println!("{first} of the first quarter stayed, {last} of the last one went");
    assert!(
        first < KEYS as usize / 80 && last < KEYS as usize / 80,
        "{first} {last}"
    );
    while store.evict(true, None, |_| {}) == Evicted::One || store.expiring() > 0 {}
    assert_eq!(store.len(), 100);
}

#[test]
fn random_eviction_takes_old_and_new_keys() {
    const KEYS: u32 = 20_000;
    let mut store = Keyspace::new();
    store.evict_by(Some(Victim::Random));
    fill(&store, KEYS);
    while store.len() > KEYS as usize / 2 {
        let step = store.evict(false, Some(&7_u32.to_le_bytes()), |_| {});
        assert_eq!(step, Evicted::One);
    }
    let is_there = |n: &u32| store.peek(&n.to_le_bytes(), 0, |value| value.is_some());
    assert!(is_there(&7), "it was spared");
    for quarter in 0..4 {
        let keys = quarter * KEYS / 4..(quarter + 1) * KEYS / 4;
        let stayed = keys.filter(is_there).count();
        assert!((2_000..3_000).contains(&stayed), "{stayed} of 5,000");
    }
    while store.evict(false, None, |_| {}) == Evicted::One {}
    assert!(store.is_empty());
}

/// The index of so few keys does not shrink meanwhile.
#[test]
fn one_turn_of_eviction_removes_all_unused_keys_of_a_usual_shard() {
    for keys in 1..=20 {
        let mut store = Keyspace {
            count: 1,
            ..Keyspace::default()
        };
        store.evict_by(Some(Victim::LeastUsed));
        fill(&store, keys);
        while store.evict(false, None, |_| {}) == Evicted::One {}
        assert_eq!(store.len(), 0, "of {keys} keys");
    }
}

#[test]
fn eviction_spares_a_key_and_those_without_expiry() {
    let mut store = Keyspace::new();
    store.evict_by(Some(Victim::LeastUsed));
    fill(&store, 100);
    for n in 50..100_u32 {
        store.modify_expiry(&n.to_le_bytes(), 0, |_| ((), Expiry::At(Some(9))));
    }
    let spared = 70_u32.to_le_bytes();
    let mut wraps = 0;
    while wraps < 10 {
        wraps += usize::from(store.evict(true, Some(&spared), |_| {}) == Evicted::Wrapped);
    }
    assert_eq!((store.len(), store.expiring()), (51, 1));
    assert!(store.view(&spared, 0, |value| value.is_some()));
}

#[test]
fn hits_and_misses_are_counted_where_asked() {
    let store = Keyspace::new();
    fill(&store, 1);
    let found = |key: u32| store.look_up(&key.to_le_bytes(), 0, |value| value.is_some());
    assert!(found(0) && !found(1) && !found(2));
    store.view(b"3", 0, |_| {});
    let tally = store.tally();
    assert_eq!((tally.hits, tally.misses, tally.keys), (1, 2, 1));
}

#[test]
fn warming_keys_changes_and_counts_nothing() {
    let mut keyspace = Keyspace::new();
    keyspace.warm([&b"before the first"[..]].into_iter());
    keyspace.evict_by(Some(Victim::LeastUsed));
    // Few keys are not warmed.
    for key in 0..200_000_u32 {
        let expires_at = key.is_multiple_of(2).then_some(5);
        keyspace.put_string(&key.to_le_bytes(), b"value", 0, |_| Some(expires_at));
    }
    let state = |keyspace: &Keyspace| {
        let uses: Vec<_> = (0..1_000_u32)
            .map(|key| {
                let shard = keyspace.shard_of(&key.to_le_bytes());
                let found = shard.find_any(&key.to_le_bytes());
                found.map(|at| shard.slot(at).record.uses())
            })
            .collect();
        (
            keyspace.tally(),
            keyspace.len(),
            keyspace.charged_bytes(),
            uses,
        )
    };
    let before = state(&keyspace);
    let keys: Vec<[u8; 4]> = (0..2_000_u32).map(u32::to_le_bytes).collect();
    let mut keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    keys.extend([&b""[..], b"", &[7; 1_000]]);
    keyspace.warm(keys.into_iter());
    keyspace.warm(std::iter::empty());
    assert_eq!(state(&keyspace), before);
}
