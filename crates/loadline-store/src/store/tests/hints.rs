//! Hints: what they save, and that nothing depends on them.

use super::*;
use crate::log::hint::{self, Hints};
use crate::log::{mark, recovery};
use crate::storage::Storage;
use crate::storage::journal::Fault;
use crate::store::Durability;

/// Bytes of a value that is only in the log.
const LONG: usize = 3_000;

fn open(journal: &Journal) -> Result<Store, Error> {
    super::open(journal, Options::new().max_keys(1_000))
}

/// Puts a value for each number, most of them long, deletes some, and sets some expiries.
fn write(store: &Store, numbers: std::ops::Range<u8>) {
    for number in numbers {
        let long = vec![number; LONG + usize::from(number)];
        match number % 10 {
            7 => store.put(&[number], b"short").unwrap(),
            8 => assert!(store.delete(&[number - 2]).unwrap()),
            9 => store
                .put_until(&[number], &long, Some(u64::MAX - 1))
                .unwrap(),
            _ => store.put(&[number], &long).unwrap(),
        }
    }
}

/// A store of several segments that have hints, and what it holds.
fn hinted() -> (Journal, Map) {
    let journal = Journal::default();
    let store = open(&journal).unwrap();
    write(&store, 0..100);
    rest(&store);
    // A record that says what was synced.
    store.put(b"after", b"the sync").unwrap();
    let map = held(&store);
    drop(store);
    (journal, map)
}

fn copy(journal: &Journal) -> Journal {
    Journal::with_files(journal.files())
}

fn names(journal: &Journal, ending: &str) -> Vec<String> {
    let names = journal.files().into_keys();
    names.filter(|name| name.ends_with(ending)).collect()
}

/// Offset of the long value of a key. The key in front of it is the same byte.
fn place_of(journal: &Journal, name: &str, number: u8) -> usize {
    let files = journal.files();
    let mut runs = files[name].windows(1 + LONG);
    let run = runs.position(|bytes| bytes.iter().all(|byte| *byte == number));
    1 + run.unwrap()
}

/// Opens the store and checks what it holds; returns how many hints were read, and how many were ignored.
fn check(journal: &Journal, expected: &Map) -> (u64, u64) {
    let store = open(journal).unwrap();
    let stats = store.stats();
    assert_eq!(held(&store), *expected);
    assert_eq!(stats.torn, None);
    (stats.hints, stats.ignored_hints)
}

#[test]
fn store_opens_without_reading_its_long_values() {
    let (journal, expected) = hinted();
    let (segments, hints) = (names(&journal, ".log"), names(&journal, ".hint"));
    assert!(segments.len() > 3, "{segments:?}");
    // All but the last one.
    assert_eq!(hints.len(), segments.len() - 1);
    let files = journal.files();
    let bytes = |names: &[String]| -> usize { names.iter().map(|name| files[name].len()).sum() };
    assert!(bytes(&hints) * 20 < bytes(&segments));
    let read = journal.read_bytes();
    let store = open(&journal).unwrap();
    let read = journal.read_bytes() - read;
    assert_eq!(store.stats().hints, hints.len() as u64);
    let all = bytes(&segments);
    // The last segment is examined and replayed as before, the hints once more for each.
    let last = files[&segments[segments.len() - 1]].len();
    assert!(read < 2 * last + all / 10, "{read} of {all} bytes");
    assert_eq!(held(&store), expected);
    let live = store.stats().live_bytes;
    drop(store);
    // The memory of the entries does not depend on the reads.
    for hint in hints {
        journal.remove(&hint).unwrap();
    }
    let store = open(&journal).unwrap();
    assert_eq!((store.stats().hints, store.stats().live_bytes), (0, live));
    assert_eq!(held(&store), expected);
}

/// Every prefix, every changed byte, and what is not a hint at all. The content is the same, and the hint goes.
#[test]
fn hint_that_is_not_whole_is_ignored() {
    let (journal, expected) = hinted();
    let hints = names(&journal, ".hint");
    let name = &hints[1];
    let whole = journal.files()[name].clone();
    let others = hints.len() as u64 - 1;
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
    damaged.extend((0..whole.len()).map(|place| {
        let mut changed = whole.clone();
        changed[place] ^= 1 << (place % 8);
        changed
    }));
    damaged.push([&whole[..], &[0]].concat());
    damaged.push(vec![0; whole.len()]);
    damaged.push(b"garbage".repeat(40));
    damaged.push(vec![1; 1 << 20]);
    damaged.push(journal.files()[&hints[0]].clone());
    let examined = recovery::examine(&journal, Hints::Compare).unwrap();
    assert_eq!(examined.hints(), (hints.len() as u64, vec![]));
    // Each takes a millisecond in a build for tests.
    for (number, bytes) in damaged.into_iter().enumerate() {
        let copy = copy(&journal);
        copy.damage(name, |file| *file = bytes);
        let examined = recovery::examine(&copy, Hints::Compare).unwrap();
        let (sound, ignored) = examined.hints();
        assert_eq!((sound, ignored.len()), (others, 1), "{number}");
        assert_eq!(ignored[0].0, *name);
        if number % 7 == 0 || number > 2 * whole.len() {
            assert_eq!(check(&copy, &expected), (others, 1), "{number}");
            assert!(!copy.files().contains_key(name), "{number}");
        }
    }
}

/// A hint with a right checksum that does not fit.
#[test]
fn hint_of_another_version_segment_state_or_limit_is_ignored() {
    let (journal, expected) = hinted();
    let hints = names(&journal, ".hint");
    let others = hints.len() as u64 - 1;
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let copy = copy(&journal);
        copy.damage(&hints[1], |file| {
            change(file);
            let crc = crc32c::crc32c_append(crc32c::crc32c(&file[64..]), &file[..60]);
            file[60..64].copy_from_slice(&crc.to_le_bytes());
        });
        let examined = recovery::examine(&copy, Hints::Compare).unwrap();
        let reason = examined.hints().1[0].1.reason();
        assert_eq!(check(&copy, &expected), (others, 1));
        reason
    };
    assert_eq!(with(&|file| file[6] = b'2'), "it has another version");
    let other = "it belongs to another segment, or to another state of this one";
    for field in [8, 16, 24, 32, 40, 48] {
        assert_eq!(with(&|file| file[field] ^= 1), other, "{field}");
    }
    let other = copy(&journal);
    let open_with_limit = || {
        let options = Options::new().max_keys(1_000).value_in_log_bytes(200);
        let options = options.segment_bytes(64 << 10).burst_bytes(0);
        Store::open_on(Box::new(other.clone()), options).unwrap()
    };
    let store = open_with_limit();
    let stats = store.stats();
    assert_eq!((stats.hints, stats.ignored_hints), (0, others + 1));
    assert_eq!(held(&store), expected);
    store.put(b"begins", b"a segment").unwrap();
    rest(&store);
    drop(store);
    // They are made again with the new limit.
    let store = open_with_limit();
    assert!(store.stats().hints > others, "{}", store.stats().hints);
    // Opened with a right checksum, and with what is not a record: nothing panics.
    for place in 64..200 {
        let copy = copy(&journal);
        copy.damage(&hints[1], |file| {
            file[place] ^= 0x15;
            let crc = crc32c::crc32c_append(crc32c::crc32c(&file[64..]), &file[..60]);
            file[60..64].copy_from_slice(&crc.to_le_bytes());
        });
        let store = open(&copy).unwrap();
        for key in 0..100_u8 {
            // A value, or the error of a checksum.
            let _ = store.get(&[key]);
        }
        let examined = recovery::examine(&copy, Hints::Compare).unwrap();
        assert!(examined.hints().0 <= others + 1);
    }
}

#[test]
fn damaged_value_is_found_when_it_is_read() {
    let (journal, expected) = hinted();
    let name = &names(&journal, ".log")[0];
    let place = place_of(&journal, name, 3);
    journal.damage(name, |file| file[place + 1_000] ^= 1);
    let store = open(&journal).unwrap();
    let text = format!("{name} is damaged at byte {place}: the value's checksum is wrong");
    for _ in 0..2 {
        assert_eq!(store.get(&[3]).unwrap_err().to_string(), text);
        assert_eq!(store.get_many(&[[3]]).unwrap_err().to_string(), text);
        assert_eq!(store.snapshot().get(&[3]).unwrap_err().to_string(), text);
    }
    assert_eq!(store.get(&[4]).unwrap().as_ref(), expected.get(&[4][..]));
    // A check reads everything.
    let examined = recovery::examine(&journal, Hints::Compare).unwrap();
    let broken = examined.broken.as_ref().unwrap();
    assert!(broken.is_damage && broken.path.to_str() == Some(name));
    assert_eq!(examined.hints().1.len(), 1);
    // Without the hint, the store is refused as before.
    let without = copy(&journal);
    without.remove(&names(&journal, ".hint")[0]).unwrap();
    let error = open(&without).unwrap_err().to_string();
    assert!(error.ends_with("the record's checksum is wrong"), "{error}");
    // The value cannot be copied, and its segment not be dropped.
    let error = store.compact().unwrap_err().to_string();
    assert!(error.ends_with(&text), "{error}");
    assert!(
        store
            .put(b"k", b"v")
            .unwrap_err()
            .to_string()
            .ends_with(&text)
    );
    assert_eq!(store.get(&[4]).unwrap().as_ref(), expected.get(&[4][..]));
    drop(store);
    // Without the key, there is no such value any more.
    let store = open(&journal).unwrap();
    assert!(store.delete(&[3]).unwrap());
    store.compact().unwrap();
    let mut expected = expected;
    expected.remove(&[3][..]);
    assert_eq!(held(&store), expected);
    drop(store);
    check(&journal, &expected);
}

/// A value is verified once, and again after an expiry was set, which moves its entry.
#[test]
fn value_is_verified_at_the_first_read() {
    let (journal, expected) = hinted();
    let store = open(&journal).unwrap();
    let name = names(&journal, ".log")[0].clone();
    assert_eq!(store.get(&[2]).unwrap().as_ref(), expected.get(&[2][..]));
    for number in [2, 3] {
        let place = place_of(&journal, &name, number);
        journal.damage(&name, |file| file[place] ^= 1);
    }
    assert!(store.get(&[2]).is_ok(), "it was verified before");
    let keyspace = store.inner.keyspace();
    keyspace.lock(&[3]).set_expiry(&[3], Some(u64::MAX - 2));
    assert!(store.get(&[3]).is_err());
}

#[test]
fn hints_go_with_their_segments() {
    let (journal, _) = hinted();
    journal.damage(&names(&journal, ".hint")[0], |file| file.truncate(3));
    let with_hints = copy(&journal);
    let store = open(&journal).unwrap();
    store.compact().unwrap();
    let expected = held(&store);
    rest(&store);
    let (segments, hints) = (names(&journal, ".log"), names(&journal, ".hint"));
    assert!(!hints.is_empty());
    for hint in &hints {
        assert!(segments.contains(&hint.replace("hint", "log")), "{hint}");
    }
    let files = journal.files();
    let of_log = files.iter().filter(|(name, _)| *name != mark::NAME);
    let disk: usize = of_log.map(|(_, file)| file.len()).sum();
    assert_eq!(store.stats().disk_bytes, disk as u64);
    drop(store);
    // A build without hints leaves them behind.
    for (name, file) in with_hints.files() {
        if name.ends_with(".hint") {
            let left = journal.create(&name, file.len() as u64, &file);
            drop(left.unwrap());
        }
    }
    check(&journal, &expected);
    assert_eq!(names(&journal, ".hint"), hints);
}

/// A server keeps all values in memory: it leaves the hints as they are, and removes them with their segments.
#[test]
fn server_leaves_hints() {
    let (journal, expected) = hinted();
    let before = names(&journal, ".hint");
    let open_log = || {
        let storage = Box::new(journal.clone());
        crate::store::ChangeLog::open_on(storage, &Options::new()).unwrap()
    };
    let (log, databases) = open_log();
    assert_eq!(databases[0].len(), expected.len());
    drop((log, databases));
    assert_eq!(names(&journal, ".hint"), before);
    assert_eq!(check(&journal, &expected).0, before.len() as u64);
}

#[test]
fn segment_of_short_values_has_no_hint() {
    let journal = Journal::default();
    let store = open(&journal).unwrap();
    for number in 0..4_000_u32 {
        store.put(&number.to_le_bytes(), &[7; 90]).unwrap();
    }
    rest(&store);
    assert!(names(&journal, ".log").len() > 3);
    assert_eq!(names(&journal, ".hint"), Vec::<String>::new());
}

#[test]
fn closing_a_store_writes_the_last_hints() {
    let journal = Journal::default();
    let store = open(&journal).unwrap();
    write(&store, 0..100);
    let expected = held(&store);
    store.close().unwrap();
    let segments = names(&journal, ".log").len() as u64;
    assert!(segments > 3, "{segments}");
    assert_eq!(check(&journal, &expected), (segments - 1, 0));
}

/// A hint is written after the sync of its segment, and not before.
#[test]
fn hint_covers_only_what_was_synced() {
    let journal = Journal::default();
    let store = open(&journal).unwrap();
    write(&store, 0..60);
    store
        .inner
        .disk
        .as_ref()
        .unwrap()
        .log
        .write_hints(100, || false);
    assert_eq!(names(&journal, ".hint"), Vec::<String>::new());
    store.sync().unwrap();
    store
        .inner
        .disk
        .as_ref()
        .unwrap()
        .log
        .write_hints(100, || false);
    assert!(!names(&journal, ".hint").is_empty());
}

/// A disk without room for hints: everything else works.
#[test]
fn hint_that_cannot_be_written_is_missed_by_nothing() {
    for fault in [Fault::Full, Fault::Broken] {
        for call in 0.. {
            let journal = Journal::default();
            let store = open(&journal).unwrap();
            write(&store, 0..60);
            store.sync().unwrap();
            let calls = journal.calls();
            journal.fail(fault, calls + call, calls + call + 1);
            let log = &store.inner.disk.as_ref().unwrap().log;
            log.write_hints(100, || false);
            let is_over = journal.calls() < calls + call;
            journal.heal();
            store.put(b"k", b"still works").unwrap();
            let expected = held(&store);
            drop(store);
            check(&journal, &expected);
            if is_over {
                break;
            }
        }
    }
}

/// A repair cuts segments off. Their hints would bring back what is gone.
#[test]
fn repair_leaves_no_hint_of_what_it_drops() {
    let (journal, expected) = hinted();
    let segments = names(&journal, ".log");
    for segment in [0, 1, segments.len() - 1] {
        let copy = copy(&journal);
        copy.damage(&segments[segment], |file| file[64 + 40] ^= 1);
        let examined = recovery::examine(&copy, Hints::Compare).unwrap();
        recovery::recover(&copy, examined, true).unwrap();
        let hints = names(&copy, ".hint");
        assert_eq!(hints.len(), segment, "{hints:?}");
        let store = open(&copy).unwrap();
        let rest = held(&store);
        assert!(rest.len() < expected.len());
        store.put(b"after", b"the repair").unwrap();
        assert_eq!(store.stats().hints, segment as u64);
    }
}

/// A hint says that its segment had reached the disk, also where no record says so: what is missing of it is not torn.
#[test]
fn segment_with_a_hint_is_not_torn() {
    let journal = Journal::default();
    let store = open(&journal).unwrap();
    write(&store, 0..100);
    rest(&store);
    drop(store);
    let name = &names(&journal, ".log")[1];
    let head = 64;
    for change in [
        |file: &mut Vec<u8>| file.truncate(file.len() - 8),
        |file: &mut Vec<u8>| file.truncate(2_000),
    ] {
        let copy = copy(&journal);
        copy.damage(name, change);
        let error = open(&copy).unwrap_err();
        let Error::Damaged { path, offset, .. } = &error else {
            panic!("{error}");
        };
        assert!(path.to_str() == Some(name) && *offset >= head, "{error}");
        let examined = recovery::examine(&copy, Hints::Compare).unwrap();
        assert!(examined.broken.unwrap().is_damage);
    }
    // A changed byte is found by a check, which does not take it for a torn record either.
    let place = place_of(&journal, name, 30);
    journal.damage(name, |file| file[place] ^= 1);
    let examined = recovery::examine(&journal, Hints::Compare).unwrap();
    assert!(examined.broken.unwrap().is_damage);
}

#[test]
fn hint_names_are_recognized() {
    assert_eq!(hint::name(2), "0000000002.hint");
    assert_eq!(hint::parse_name("0000000002.hint"), Some(2));
    for other in ["0000000002.log", "2.hint", "0000000000.hint", "x.hint"] {
        assert_eq!(hint::parse_name(other), None, "{other}");
    }
}

/// With hints and without them, after any number of writes and reopenings, the store holds the same.
#[test]
fn hints_of_many_openings_agree() {
    let journal = Journal::default();
    let mut map = Map::new();
    for round in 0..6_u8 {
        let options = Options::new().durability(match round % 2 {
            0 => Durability::Process,
            _ => Durability::Always,
        });
        let store = super::open(&journal, options.max_keys(1_000)).unwrap();
        assert_eq!(held(&store), map, "{round}");
        write(&store, 20 * round..20 * round + 40);
        rest(&store);
        map = held(&store);
        drop(store);
        let examined = recovery::examine(&journal, Hints::Compare).unwrap();
        assert!(examined.broken.is_none());
        let (sound, ignored) = examined.hints();
        assert!(
            sound > 0 && ignored.is_empty(),
            "{round}: {sound} {ignored:?}"
        );
    }
}
