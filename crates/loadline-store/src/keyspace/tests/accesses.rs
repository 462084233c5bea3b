//! Tests of the last access to a key.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::age::{AccessMetric, LastAccess};
use crate::keyspace::Keyspace;
use crate::value::{Change, Entry, Expiry, Value};

/// The start, in seconds since the Unix epoch.
const START: u64 = 1_700_000_000;

fn keeping(access: AccessMetric) -> Keyspace {
    let mut keyspace = Keyspace::new();
    keyspace.keep_access(access, START * 1_000);
    keyspace
}

/// The last access to `key` at a second.
fn idle(keyspace: &Keyspace, key: &[u8], second: u64) -> Option<u64> {
    let last = keyspace.last_access(key, second * 1_000);
    last.map(|last| last.idle_seconds)
}

fn frequency(keyspace: &Keyspace, key: &[u8], second: u64) -> Option<u8> {
    let last = keyspace.last_access(key, second * 1_000);
    last.map(|last| last.frequency)
}

fn put(keyspace: &Keyspace, key: &[u8], bytes: &[u8], second: u64) {
    keyspace.put_string(key, bytes, second * 1_000, |_| Some(None));
}

fn frequent(frequency: u8) -> LastAccess {
    LastAccess {
        frequency,
        ..LastAccess::NEW
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, usize),
    Read(u8),
    Inspect(u8),
    Expire(u8),
    Grow(u8),
    Rename(u8, u8),
    Copy(u8, u8),
    Remove(u8),
    Set(u8, u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..40_u8;
    let step = prop_oneof![
        6 => (key(), 0..400_usize).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        3 => key().prop_map(Step::Read),
        1 => key().prop_map(Step::Inspect),
        1 => key().prop_map(Step::Expire),
        1 => key().prop_map(Step::Grow),
        1 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
        2 => key().prop_map(Step::Remove),
        1 => (key(), 0..1_000_000_u64).prop_map(|(key, idle)| Step::Set(key, idle)),
        3 => (0..30_000_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    /// The model keeps each time as a number of its own. All keys are in one shard, whose records move.
    #[test]
    fn times_are_those_of_the_model(steps in steps()) {
        let mut keyspace = Keyspace { count: 1, ..Keyspace::default() };
        keyspace.keep_access(AccessMetric::Time, START * 1_000);
        let mut model: BTreeMap<u8, u64> = BTreeMap::new();
        let mut second = START;
        for step in steps {
            let now = second * 1_000;
            match step {
                Step::Put(key, bytes) => {
                    put(&keyspace, &[key], &vec![7; bytes], second);
                    model.insert(key, second);
                }
                Step::Read(key) => {
                    keyspace.look_up(&[key], now, |_| {});
                    model.entry(key).and_modify(|at| *at = second);
                }
                Step::Inspect(key) => {
                    keyspace.inspect(&[key], now, |_| {});
                    let _ = keyspace.expires_at(&[key], now);
                    let _ = keyspace.shape(&[key], now);
                    let _ = keyspace.memory_bytes(&[key], now);
                }
                Step::Expire(key) => {
                    keyspace.modify_expiry(&[key], now, |_| ((), Expiry::At(Some(u64::MAX - 1))));
                    model.entry(key).and_modify(|at| *at = second);
                }
                Step::Grow(key) => {
                    keyspace.make_growing(&[key], now);
                    model.entry(key).and_modify(|at| *at = second);
                }
                Step::Rename(from, to) if from != to => {
                    keyspace.rename(&[from], &[to], now);
                    if model.remove(&from).is_some() {
                        model.insert(to, second);
                    }
                }
                Step::Copy(from, to) if from != to => {
                    keyspace.copy(&[from], &keyspace, &[to], now);
                    if model.contains_key(&from) {
                        model.extend([(from, second), (to, second)]);
                    }
                }
                Step::Rename(..) | Step::Copy(..) => {}
                Step::Remove(key) => {
                    keyspace.remove(&[key], now);
                    model.remove(&key);
                }
                Step::Set(key, idle_seconds) => {
                    keyspace.set_last_access(&[key], LastAccess { idle_seconds, ..LastAccess::NEW }, now);
                    model.entry(key).and_modify(|at| *at = second - idle_seconds);
                }
                Step::Wait(seconds) => second += seconds,
            }
        }
        for key in 0..40 {
            let shown = idle(&keyspace, &[key], second);
            let exact = model.get(&key).map(|at| second - at);
            prop_assert_eq!(shown.is_some(), exact.is_some());
            if let (Some(shown), Some(exact)) = (shown, exact) {
                prop_assert!((exact..exact + 512).contains(&shown), "{key}: {shown}, {exact} in fact");
            }
        }
    }
}

#[test]
fn keys_from_before_count_from_the_start() {
    let mut keyspace = Keyspace::new();
    for key in 0..200_u8 {
        put(&keyspace, &[key], b"value", 0);
    }
    assert_eq!(idle(&keyspace, &[7], START), None);
    keyspace.keep_access(AccessMetric::Time, START * 1_000);
    assert_eq!(idle(&keyspace, &[7], START + 30), Some(30));
    keyspace.view(&[8], (START + 30) * 1_000, |_| {});
    assert_eq!(idle(&keyspace, &[8], START + 40), Some(10));
    // Keeping the same again does not begin anew.
    keyspace.keep_access(AccessMetric::Time, (START + 50) * 1_000);
    assert_eq!(idle(&keyspace, &[7], START + 50), Some(50));
    assert_eq!(idle(&keyspace, &[250], START), None);
}

#[test]
fn accesses_that_are_no_uses_leave_the_time() {
    let mut keyspace = keeping(AccessMetric::Time);
    put(&keyspace, b"k", b"v", START);
    keyspace.count_uses(false);
    keyspace.view(b"k", (START + 9) * 1_000, |_| {});
    assert_eq!(idle(&keyspace, b"k", START + 9), Some(9));
    keyspace.count_uses(true);
    keyspace.view(b"k", (START + 9) * 1_000, |_| {});
    assert_eq!(idle(&keyspace, b"k", START + 9), Some(0));
}

#[test]
fn frequency_grows_with_accesses_and_falls_with_minutes() {
    let keyspace = keeping(AccessMetric::Frequency);
    put(&keyspace, b"k", b"v", START);
    assert_eq!(frequency(&keyspace, b"k", START), Some(5));
    // The first access above the start is always counted.
    keyspace.view(b"k", START * 1_000, |_| {});
    assert_eq!(frequency(&keyspace, b"k", START), Some(6));
    for _ in 0..2_000 {
        keyspace.view(b"k", START * 1_000, |_| {});
    }
    let many = frequency(&keyspace, b"k", START).unwrap();
    assert!((10..60).contains(&many), "{many}");
    keyspace.inspect(b"k", START * 1_000, |_| {});
    assert_eq!(frequency(&keyspace, b"k", START), Some(many));
    assert_eq!(frequency(&keyspace, b"k", START + 5 * 60), Some(many - 5));
    assert_eq!(frequency(&keyspace, b"k", START + 300 * 60), Some(0));
    // Another value keeps it, and another name too.
    keyspace.set_last_access(b"k", frequent(200), START * 1_000);
    put(&keyspace, b"k", b"a longer value", START);
    assert!(frequency(&keyspace, b"k", START) >= Some(200));
    assert!(keyspace.rename(b"k", b"l", START * 1_000));
    assert!(frequency(&keyspace, b"l", START) >= Some(200));
    assert!(keyspace.copy(b"l", &keyspace, b"k", START * 1_000));
    assert_eq!(frequency(&keyspace, b"k", START), Some(5));
}

/// Reads of one key of a page renew its origin again and again.
#[test]
fn frequencies_of_a_page_fall_together() {
    let keyspace = keeping(AccessMetric::Frequency);
    let set = Value::Set([(&b"member"[..], ())].into_iter().collect());
    for key in 0..=255_u8 {
        let entry = Entry::lasting(set.clone());
        keyspace.modify(&[key], START * 1_000, |_| ((), Change::Put(entry)));
        keyspace.set_last_access(&[key], frequent(key), START * 1_000);
    }
    for minutes in (0..200).step_by(40) {
        let second = START + minutes * 60;
        for key in (0..=255_u8).step_by(7) {
            keyspace.view(&[key], second * 1_000, |_| {});
        }
        for key in (0..=255_u8).filter(|key| !key.is_multiple_of(7)) {
            let falls = key.saturating_sub(minutes as u8);
            assert_eq!(frequency(&keyspace, &[key], second), Some(falls));
        }
    }
}

#[test]
fn change_of_the_kept_fact_converts_the_other() {
    let mut keyspace = keeping(AccessMetric::Time);
    for key in 0..100_u8 {
        put(&keyspace, &[key], b"value", START - u64::from(key) * 60);
    }
    keyspace.keep_access(AccessMetric::Frequency, START * 1_000);
    for key in 0..100_u8 {
        let falls = 5_u8.saturating_sub(key);
        assert_eq!(frequency(&keyspace, &[key], START), Some(falls), "{key}");
    }
    keyspace.keep_access(AccessMetric::Time, START * 1_000);
    for key in 0..5_u8 {
        let shown = idle(&keyspace, &[key], START).unwrap();
        let first = u64::from(key) * 60;
        assert!((first..first + 60).contains(&shown), "{key}: {shown}");
    }
    // A keyspace that was cleared keeps the same fact.
    keyspace.keep_access(AccessMetric::Frequency, START * 1_000);
    keyspace.clear();
    put(&keyspace, b"k", b"v", START);
    assert_eq!(frequency(&keyspace, b"k", START + 60), Some(4));
}
