//! The part of the store in memory.

use std::hint::black_box;

use loadline_store::{Expiry, Keyspace, View};

use crate::{Measured, VALUE, distinct, keys};

/// Milliseconds since the Unix epoch; nothing expires.
const NOW: u64 = 1_000;

pub(crate) fn run() -> Vec<Measured> {
    let (keyspace, keys) = (Keyspace::new(), keys());
    for key in &keys {
        insert(&keyspace, key);
    }
    for key in &keys {
        overwrite(&keyspace, key);
        read(&keyspace, key);
        read_missing(&keyspace, key);
        expire(&keyspace, key);
    }
    for key in &keys {
        remove(&keyspace, key);
    }
    [
        Measured::new(&insert, 1),
        Measured::new(&overwrite, 1),
        Measured::new(&read, 1),
        Measured::new(&read_missing, 1),
        Measured::new(&expire, 1),
        Measured::new(&remove, 1),
    ]
    .into()
}

#[inline(never)]
fn insert(keyspace: &Keyspace, key: &str) {
    distinct("insert");
    put(keyspace, key);
}

#[inline(never)]
fn overwrite(keyspace: &Keyspace, key: &str) {
    distinct("overwrite");
    put(keyspace, key);
}

#[inline(always)]
fn put(keyspace: &Keyspace, key: &str) {
    black_box(keyspace.put_string(key.as_bytes(), VALUE, NOW, |_| Some(None)));
}

#[inline(never)]
fn read(keyspace: &Keyspace, key: &str) {
    distinct("read");
    black_box(keyspace.view(key.as_bytes(), NOW, length));
}

#[inline(never)]
fn read_missing(keyspace: &Keyspace, key: &str) {
    distinct("read_missing");
    // A name that no key has.
    black_box(keyspace.view(&key.as_bytes()[1..], NOW, length));
}

fn length(value: Option<View<'_>>) -> usize {
    match value {
        Some(View::String(bytes)) => bytes.len(),
        _ => 0,
    }
}

#[inline(never)]
fn expire(keyspace: &Keyspace, key: &str) {
    distinct("expire");
    keyspace.modify_expiry(key.as_bytes(), NOW, |_| ((), Expiry::At(Some(NOW + 1_000))));
}

#[inline(never)]
fn remove(keyspace: &Keyspace, key: &str) {
    distinct("remove");
    black_box(keyspace.remove(key.as_bytes(), NOW));
}
