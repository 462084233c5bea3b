//! Hints of a store that is sound. Whatever they hold, the store opens and holds what it does without them. A hint whose
//! checksum was made right is a lie that opening cannot notice: then a value that is only in the log is still read as it
//! was written, or not at all, and a check names the hint.
//!
//! The first byte says how the others change a hint: as a whole, or at places in it.

#![no_main]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use crc32c::{crc32c, crc32c_append};
use libfuzzer_sys::fuzz_target;
use loadline_store::{Error, Options, Store};

/// The others are the hint. Otherwise, each three of them are an offset and the byte that is there.
const IS_WHOLE: u8 = 1;
/// The checksum is made right.
const IS_RIGHT: u8 = 1 << 1;
/// It is the hint of the second segment.
const IS_SECOND: u8 = 1 << 2;
/// It begins as the hint of the other segment.
const IS_OTHERS: u8 = 1 << 3;

/// Bytes of a hint in front of its records, the last four of which are the checksum.
const HEAD_BYTES: usize = 64;

/// Where the length is from which on values are left out.
const LIMIT: std::ops::Range<usize> = 12..16;

/// Bytes from which on a value is only in the log.
const LONG: usize = 64;

type Files = BTreeMap<String, Vec<u8>>;
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store with fewer parts opens faster.
fn options() -> Options {
    let options = Options::new().value_in_log_bytes(LONG);
    options.segment_bytes(64 << 10).max_keys(1_000)
}

fn read(dir: &Path) -> Files {
    let files = std::fs::read_dir(dir).expect("a directory");
    let read = files.map(|file| {
        let path = file.expect("a file").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("a name of ours").to_owned();
        (name, std::fs::read(path).expect("it can be read"))
    });
    read.collect()
}

/// The files of a store of three segments, two of which have hints, and what it holds.
static STORE: LazyLock<(Files, Map)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let mut map = Map::new();
    // Every opening begins a segment.
    for round in 0..3_u8 {
        let store = Store::open(dir.path(), options()).expect("it opens");
        for number in 0..6 {
            let key = [b'k', number];
            let value = vec![16 * round + number; 1_000 - usize::from(number)];
            store
                .put_until(&key, &value, (number == 2).then_some(u64::MAX - 1))
                .expect("it works");
            map.insert(key.to_vec(), value);
        }
        let short = [b's', round];
        store.put(&short, b"short").expect("it works");
        map.insert(short.to_vec(), b"short".to_vec());
        assert!(store.delete(&[b'k', round]).expect("it works"));
        map.remove(&[b'k', round][..]);
        store.close().expect("it works");
    }
    let files = read(dir.path());
    let hints = files.keys().filter(|name| name.ends_with(".hint"));
    assert_eq!(hints.count(), 2);
    (files, map)
});

/// The hint that the bytes describe, with its name.
fn hint(files: &Files, flags: u8, rest: &[u8]) -> (&'static str, Vec<u8>) {
    const NAMES: [&str; 2] = ["0000000001.hint", "0000000002.hint"];
    let second = usize::from(flags & IS_SECOND != 0);
    let base = match flags & IS_OTHERS {
        0 => second,
        _ => 1 - second,
    };
    let mut bytes = files[NAMES[base]].clone();
    if flags & IS_WHOLE != 0 {
        bytes = rest.to_vec();
    } else {
        for change in rest.chunks_exact(3) {
            let place = usize::from(change[0]) + 256 * usize::from(change[1]);
            // A place behind the end cuts it off.
            match bytes.get_mut(place) {
                Some(byte) => *byte = change[2],
                None => bytes.truncate(bytes.len().saturating_sub(place % 7)),
            }
        }
    }
    if flags & IS_RIGHT != 0 && bytes.len() >= HEAD_BYTES {
        let crc = checksum(&bytes).to_le_bytes();
        bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&crc);
    }
    (NAMES[second], bytes)
}

fn checksum(hint: &[u8]) -> u32 {
    crc32c_append(crc32c(&hint[HEAD_BYTES..]), &hint[..HEAD_BYTES - 4])
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, rest)) = data.split_first() else {
        return;
    };
    let (files, expected) = &*STORE;
    let (name, bytes) = hint(files, *flags, rest);
    let is_same = files[name] == bytes;
    // The engine learns checksums from comparisons.
    let is_lie = !is_same
        && bytes.len() >= HEAD_BYTES
        && bytes[HEAD_BYTES - 4..HEAD_BYTES] == checksum(&bytes).to_le_bytes();
    let dir = tempfile::tempdir().expect("a directory");
    for (other, file) in files {
        let file = if other == name { &bytes } else { file };
        std::fs::write(dir.path().join(other), file).expect("there is room");
    }
    let checked = Store::check(dir.path()).expect("it can be read");
    assert!(checked.damage.is_none() && checked.torn.is_none());
    // Another limit leaves out the same values if none of them is in between. The hint agrees then, and is not used.
    let is_other_limit = is_lie
        && bytes[..LIMIT.start] == files[name][..LIMIT.start]
        && bytes[LIMIT.end..HEAD_BYTES - 4] == files[name][LIMIT.end..HEAD_BYTES - 4]
        && bytes[HEAD_BYTES..] == files[name][HEAD_BYTES..];
    if !is_other_limit {
        assert_eq!(checked.ignored_hints.len(), usize::from(!is_same));
    }
    match Store::open(dir.path(), options()) {
        Ok(store) if is_lie => use_lie(&store, expected),
        // A lie can say that there was damage.
        Err(error) if is_lie => assert!(matches!(error, Error::Damaged { .. }), "{error}"),
        Err(error) => panic!("a sound store was refused: {error}"),
        Ok(store) => {
            let stats = store.stats();
            let read = 1 + u64::from(is_same);
            assert_eq!((stats.hints, stats.ignored_hints), (read, 2 - read));
            assert_eq!(stats.keys, expected.len() as u64);
            for (key, value) in expected {
                let held = store.get(key).expect("it can be read");
                assert_eq!(held.as_ref(), Some(value));
            }
        }
    }
});

/// Reads what a store with a lie holds, and writes to it.
fn use_lie(store: &Store, expected: &Map) {
    for key in expected.keys() {
        match store.get(key) {
            Ok(value) => assert!(value.is_none_or(|value| value.len() < 1 << 20)),
            Err(error) => assert!(
                matches!(error, Error::Damaged { .. } | Error::NotAString { .. }),
                "{error}"
            ),
        }
    }
    store.put(b"after", b"opening").expect("it works");
    let value = store.get(b"after").expect("it is a string");
    assert_eq!(value.as_deref(), Some(&b"opening"[..]));
}
