//! Files of a store. Whatever they hold, they are checked, refused, repaired, or opened. What was repaired opens, and a
//! store that opened works and opens again.
//!
//! The first byte says what the others are: the bytes of a file as they are, or the operations of records whose
//! checksums are right, since hardly any others get behind these.

#![no_main]

use std::path::Path;

use crc32c::crc32c;
use libfuzzer_sys::fuzz_target;
use loadline_store::{ChangeLog, Options, Store};

/// The others are operations, and not a file.
const ARE_OPERATIONS: u8 = 1;
/// The second half of the records is in a second segment.
const HAS_SECOND: u8 = 1 << 1;
/// The last record is cut in the middle.
const IS_TORN: u8 = 1 << 2;
/// The segments are those of the first version.
const IS_OLD: u8 = 1 << 3;
/// Each record says that everything before it had reached the disk.
const IS_SYNCED: u8 = 1 << 4;
/// A byte is changed: two bytes in front of the operations say which one of the last file.
const IS_DAMAGED: u8 = 1 << 5;
/// The first segment is missing, as if it had been reclaimed.
const HAS_NO_FIRST: u8 = 1 << 6;

/// Bytes in front of the records of a segment.
const HEAD_BYTES: usize = 64;

/// The content of the head of a segment.
struct Head {
    id: u32,
    version: u32,
    position: u64,
    sequence: u64,
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, rest)) = data.split_first() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    if flags & ARE_OPERATIONS == 0 {
        write(dir.path(), 1, rest);
    } else {
        write_segments(dir.path(), *flags, rest);
    }
    // A store with fewer parts opens faster.
    let options = || Options::new().value_in_log_bytes(64).max_keys(1_000);
    let checked = Store::check(dir.path());
    let is_sound = checked.is_ok_and(|checked| checked.damage.is_none());
    let store = match Store::open(dir.path(), options()) {
        Ok(store) => {
            assert!(is_sound, "a damaged store was opened");
            store
        }
        // A segment that cannot be repaired is a version to come, or a missing file.
        Err(_) => {
            assert!(!is_sound, "a sound store was refused");
            match Store::repair(dir.path()) {
                Ok(_) => Store::open(dir.path(), options()).expect("what was repaired opens"),
                Err(_) => return,
            }
        }
    };
    let mut cursor = 0;
    loop {
        let visit = |key: &[u8], value: &[u8], _| assert!(key.len() + value.len() < 1 << 30);
        cursor = store
            .scan_entries(cursor, 100, visit)
            .expect("what was opened can be read");
        if cursor == 0 {
            break;
        }
    }
    store.put(b"after", b"opening").expect("it works");
    store.compact().expect("it works");
    drop(store);
    let store = Store::open(dir.path(), options()).expect("it opens again");
    let value = store.get(b"after").expect("it is a string");
    assert_eq!(value.as_deref(), Some(&b"opening"[..]));
    drop(store);
    let opened = ChangeLog::open(dir.path(), &options());
    assert!(opened.is_ok(), "the server opens it, too");
});

fn write(dir: &Path, id: u32, bytes: &[u8]) {
    std::fs::write(dir.join("LOCK"), b"").expect("there is room");
    std::fs::write(dir.join(format!("{id:010}.log")), bytes).expect("there is room");
}

/// Writes the operations to one or two segments.
fn write_segments(dir: &Path, flags: u8, mut operations: &[u8]) {
    let mut damaged = None;
    if flags & IS_DAMAGED != 0 && operations.len() >= 2 {
        let (place, rest) = operations.split_at(2);
        operations = rest;
        damaged = Some(usize::from(place[0]) + 256 * usize::from(place[1]));
    }
    let unsynced = if flags & IS_SYNCED == 0 { u32::MAX } else { 0 };
    let mut bodies = vec![];
    // The length of each body is in front of it.
    while let Some((length, rest)) = operations.split_first() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        if !body.is_empty() {
            bodies.push(body);
        }
        operations = rest;
    }
    let second = match flags & HAS_SECOND {
        0 => bodies.len(),
        _ => bodies.len() / 2,
    };
    let mut head = Head {
        id: 1,
        version: if flags & IS_OLD == 0 { 2 } else { 1 },
        position: 0,
        sequence: 0,
    };
    let (first, second) = bodies.split_at(second);
    let mut bytes = segment(&head, first, unsynced);
    if !second.is_empty() {
        if flags & HAS_NO_FIRST == 0 {
            write(dir, 1, &bytes);
        }
        head.id = 2;
        head.position = (bytes.len() - HEAD_BYTES) as u64;
        head.sequence = first.len() as u64;
        bytes = segment(&head, second, unsynced);
    }
    if let Some(place) = damaged {
        let place = place % bytes.len();
        bytes[place] ^= 1;
    }
    if flags & IS_TORN != 0 {
        bytes.truncate(bytes.len() - bytes.len().min(5));
    }
    write(dir, head.id, &bytes);
}

/// The bytes of a segment with records of these bodies, as docs/store-format.md draws them.
fn segment(head: &Head, bodies: &[&[u8]], unsynced: u32) -> Vec<u8> {
    const SALT: [u8; 8] = [7; 8];
    let mut bytes = b"LLSTORE\n".to_vec();
    bytes.extend(head.version.to_le_bytes());
    bytes.extend(head.id.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(head.position.to_le_bytes());
    bytes.extend(head.sequence.to_le_bytes());
    bytes.extend(SALT);
    bytes.extend([0; 12]);
    bytes.extend(crc32c(&bytes).to_le_bytes());
    for (number, body) in bodies.iter().enumerate() {
        let mut checked = body.to_vec();
        checked.extend((body.len() as u32).to_le_bytes());
        checked.extend(unsynced.to_le_bytes());
        checked.extend((head.sequence as u32 + number as u32).to_le_bytes());
        bytes.extend(crc32c(&[&checked[..], &SALT].concat()).to_le_bytes());
        bytes.extend(&checked[body.len()..]);
        bytes.extend(*body);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}
