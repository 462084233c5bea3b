//! Damage to the files of a store, and what a repair leaves.

use std::path::Path;

use super::*;
use crate::log::record::Draft;
use crate::log::segment::Head;

/// Bytes of a record that says which segment is the oldest. A store that was reclaimed and closed ends with two.
const OLDEST_BYTES: usize = 24;

fn options() -> Options {
    Options::new().max_keys(1_000)
}

/// Makes a store whose first file was reclaimed, and returns what it holds.
fn reclaimed(dir: &Path) -> Map {
    let store = Store::open(dir, options()).unwrap();
    for number in 0..40_u8 {
        store.put(&[number], &[number; 100]).unwrap();
    }
    store.compact().unwrap();
    let map = held(&store);
    store.close().unwrap();
    assert!(!dir.join("0000000001.log").exists());
    map
}

/// Checks that the store opens, holds a part of `expected`, and keeps what is written to it. Returns the number of
/// keys that are left of `expected`.
fn use_rest(dir: &Path, expected: &Map) -> usize {
    for _ in 0..2 {
        held(&Store::open(dir, options()).unwrap());
    }
    let store = Store::open(dir, options()).unwrap();
    let rest = held(&store);
    assert!(rest.iter().all(|(key, value)| expected[key] == *value));
    store.put(b"after", b"the repair").unwrap();
    let mut with = rest.clone();
    with.insert(b"after".to_vec(), b"the repair".to_vec());
    store.close().unwrap();
    assert_eq!(held(&Store::open(dir, options()).unwrap()), with);
    rest.len()
}

/// The record that says that files were reclaimed is behind the damage. The files are not missing for that.
#[test]
fn damage_in_a_store_that_was_reclaimed_is_named_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let expected = reclaimed(dir.path());
    let path = dir.path().join("0000000002.log");
    let whole = std::fs::read(&path).unwrap();
    let entries_end = whole.len() - 2 * OLDEST_BYTES;
    let last_byte = 1 + whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut left = vec![];
    for place in (64..entries_end).step_by(88) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0000000002.log");
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Store::open(dir.path(), options()).unwrap_err();
        let Error::Damaged {
            path: named,
            offset,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(named, &path, "{error}");
        assert!((64..=place as u64).contains(offset), "{place}: {error}");
        let damage = Store::check(dir.path()).unwrap().damage.unwrap();
        assert_eq!((&damage.path, damage.offset), (named, *offset));
        assert_eq!(damage.bytes, last_byte as u64 - offset);
        assert_eq!(damage.missing, None);
        let dropped = Store::repair(dir.path()).unwrap();
        assert_eq!(dropped.damage, Some(damage));
        left.push(use_rest(dir.path(), &expected));
    }
    assert!(left.is_sorted() && left[0] == 0, "{left:?}");
    assert!(left.iter().max() > Some(&30), "{left:?}");
}

/// Nothing says any more whether the first file was reclaimed or is missing. The store is refused, and a repair says so.
#[test]
fn repair_names_a_file_that_can_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let expected = reclaimed(dir.path());
    let path = dir.path().join("0000000002.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let entries_end = bytes.len() - 2 * OLDEST_BYTES;
    bytes[entries_end..].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let error = Store::open(dir.path(), options()).unwrap_err();
    let expected_text = format!(
        "{} is damaged at byte {entries_end}: the record's checksum is wrong",
        path.display()
    );
    assert_eq!(error.to_string(), expected_text);
    let damage = Store::repair(dir.path()).unwrap().damage.unwrap();
    assert_eq!(damage.missing, Some(dir.path().join("0000000001.log")));
    assert_eq!(use_rest(dir.path(), &expected), expected.len());
}

/// A record that is not understood does not say which files were reclaimed once a repair has dropped it.
#[test]
fn entries_dropped_by_a_repair_have_no_effect() {
    let salt = 7;
    let mut file = Head {
        id: 2,
        oldest: 1,
        position: 40,
        sequence: 1,
        salt,
    }
    .encode()
    .to_vec();
    let put = b"\x01\x01\x05kvalue";
    let oldest_and_unknown = b"\x0e\x02\0\0\0\xff";
    let mut draft = Draft::default();
    for (sequence, body) in (1..).zip([&put[..], oldest_and_unknown]) {
        draft.begin().extend_from_slice(body);
        draft.finish();
        file.extend_from_slice(draft.seal(salt, sequence, 0));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0000000002.log");
    std::fs::write(&path, file).unwrap();
    let error = Store::open(dir.path(), options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} is damaged at byte 96: the record holds an operation that this build does not know",
            path.display()
        )
    );
    Store::repair(dir.path()).unwrap();
    let expected = Map::from([(b"k".to_vec(), b"value".to_vec())]);
    assert_eq!(use_rest(dir.path(), &expected), 1);
}

/// Copies of the files without `LOCK` are a store; a directory of another program that has such a file is none.
#[test]
fn store_is_known_by_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let expected = reclaimed(dir.path());
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    Store::check(dir.path()).unwrap();
    assert_eq!(use_rest(dir.path(), &expected), expected.len());

    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("LOCK"), b"").unwrap();
    std::fs::write(other.path().join("000005.log"), b"of another program").unwrap();
    let error = Store::check(other.path()).unwrap_err();
    assert!(
        error.to_string().ends_with(": there is no store here"),
        "{error}"
    );
    assert_eq!(std::fs::read(other.path().join("LOCK")).unwrap(), b"");

    // The log files are missing, or nothing was ever written.
    let empty = tempfile::tempdir().unwrap();
    let open = Store::open(empty.path(), options()).unwrap();
    let error = Store::check(empty.path()).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(open);
    for result in [Store::check(empty.path()), Store::repair(empty.path())] {
        let text = result.unwrap_err().to_string();
        assert!(
            text.ends_with(
                ": there is no store here: LOCK was left by one, but there are no log files"
            ),
            "{text}"
        );
    }

    let file = other.path().join("000005.log");
    for error in [
        Store::check(&file).unwrap_err(),
        Store::open(&file, options()).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("000005.log: Not a directory"), "{text}");
    }
}
