//! Damaged stores: whatever was synced before a store was closed, killed or lost its power is there, or the store is refused.

use super::*;
use crate::log::hint::Hints;
use crate::log::{aside, mark, recovery};
use crate::storage::Storage;
use crate::storage::journal::Fault;
use crate::store::{Batch, Durability};

/// Deterministic random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}

/// The way in which a store ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Close,
    KillAfterSave,
    KillAfterIdleSync,
    Kill,
    PowerLoss,
}

const ENDS: [End; 5] = [
    End::Close,
    End::KillAfterSave,
    End::KillAfterIdleSync,
    End::Kill,
    End::PowerLoss,
];

const CLASSES: [Durability; 3] = [
    Durability::Process,
    Durability::Interval(std::time::Duration::from_secs(1)),
    Durability::Always,
];

fn open(journal: &Journal, durability: Durability) -> Result<Store, Error> {
    // Fewer parts open faster.
    super::open(
        journal,
        Options::new().max_keys(1_000).durability(durability),
    )
}

/// The content of a store, or the error that says what is damaged.
fn try_held(store: &Store) -> Result<Map, Error> {
    let mut map = Map::new();
    let mut cursor = 0;
    loop {
        cursor = store.scan(cursor, 100, b"", |key, value| {
            map.insert(key.to_vec(), value.to_vec());
        })?;
        if cursor == 0 {
            return Ok(map);
        }
    }
}

/// A store at its end, with what it held after each change.
struct Ended {
    journal: Journal,
    maps: Vec<Map>,
    /// Index of the last of them that had reached the disk as a whole.
    synced: usize,
    /// The same of which a mark has reached the disk, too.
    marked: usize,
}

impl Ended {
    fn new(random: &mut Random, durability: Durability, end: End) -> Self {
        let journal = Journal::default();
        let mut store = open(&journal, durability).unwrap();
        let mut ended = Self {
            journal: journal.clone(),
            maps: vec![Map::new()],
            synced: 0,
            marked: 0,
        };
        for _ in 0..8 + random.below(40) {
            match random.below(20) {
                0 => {
                    drop(store);
                    store = open(&journal, durability).unwrap();
                }
                1 => store.compact().unwrap(),
                2 => {
                    store.sync().unwrap();
                    ended.marked = ended.maps.len() - 1;
                }
                3 => {
                    rest(&store);
                    ended.marked = ended.maps.len() - 1;
                }
                _ => ended.change(random, &store, durability),
            }
        }
        ended.synced = ended.synced.max(ended.marked);
        ended.end(random, store, durability, end);
        ended
    }

    fn change(&mut self, random: &mut Random, store: &Store, durability: Durability) {
        let mut map = self.maps.last().unwrap().clone();
        let mut batch = Batch::new();
        for _ in 0..1 + random.below(3) {
            let key = [random.below(24) as u8];
            if random.below(4) == 0 && map.remove(&key[..]).is_some() {
                batch.delete(&key);
                continue;
            }
            let bytes = if random.below(3) == 0 {
                3_000
            } else {
                random.below(12)
            };
            let value = vec![self.maps.len() as u8; bytes];
            batch.put(&key, &value);
            map.insert(key.to_vec(), value);
        }
        store.apply(&batch).unwrap();
        self.maps.push(map);
        if durability == Durability::Always {
            self.synced = self.maps.len() - 1;
        }
    }

    fn end(&mut self, random: &mut Random, store: Store, durability: Durability, end: End) {
        let last = self.maps.len() - 1;
        match end {
            End::Close => store.close().unwrap(),
            End::KillAfterSave => store.sync().unwrap(),
            End::KillAfterIdleSync => rest(&store),
            End::Kill | End::PowerLoss => {
                // Dropping the store changes files.
                self.journal = self.crash(random, end);
                // Of a single thread, the disk knows from each change that the one before it had reached it. Nothing behind the last
                // one says so of that.
                if durability == Durability::Always && end == End::PowerLoss {
                    self.synced = self.synced.min(last.saturating_sub(1));
                }
                return;
            }
        }
        self.synced = last;
        self.journal = self.crash(random, End::Kill);
    }

    /// The files after the end of the process or of the machine.
    fn crash(&self, random: &mut Random, end: End) -> Journal {
        let events = self.journal.events();
        self.journal.crashed(events, |_| match end {
            End::PowerLoss if random.below(3) == 0 => Some(0),
            End::PowerLoss if random.below(2) == 0 => Some(random.below(3_100)),
            _ => None,
        })
    }

    /// Flips a bit, or cuts a file off, or removes one. Returns what was done.
    ///
    /// With `always`, the mark of the last commits can be lost with the power. Only the records behind them speak for them then,
    /// and a file that is cut off or missing has lost these as well.
    fn damage(&mut self, random: &mut Random, durability: Durability, end: End) -> String {
        let described = self.damage_file(random);
        let (always, lost_power) = (durability == Durability::Always, end == End::PowerLoss);
        if always && lost_power && !described.ends_with("flipped") {
            self.synced = self.marked;
        }
        described
    }

    fn damage_file(&self, random: &mut Random) -> String {
        let files = self.journal.files();
        let Some(name) = files.keys().nth(random.below(files.len())) else {
            return "no files".to_owned();
        };
        // Space that is reserved is not damaged as often as it is there.
        let used = files[name].iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |last| last + 1);
        match random.below(8) {
            0 => {
                self.journal.remove(name).unwrap();
                format!("{name} removed")
            }
            1..3 => {
                let bytes = random.below(used + 1);
                self.journal.damage(name, |file| file.truncate(bytes));
                format!("{name} cut off at byte {bytes}")
            }
            _ => {
                let (byte, bit) = (random.below(used), random.below(8));
                self.journal.damage(name, |file| {
                    if let Some(byte) = file.get_mut(byte) {
                        *byte ^= 1 << bit;
                    }
                });
                format!("bit {bit} of byte {byte} of {name} flipped")
            }
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    stores: u64,
    refused: u64,
    /// Opened with all changes.
    whole: u64,
    /// Opened without changes that had not been synced.
    cut: u64,
    lost: Vec<String>,
    wrong: Vec<String>,
}

impl Counts {
    fn add(&mut self, ended: &Ended, durability: Durability, case: &str) {
        self.stores += 1;
        let found = open(&ended.journal, durability).and_then(|store| try_held(&store));
        match found {
            Err(Error::Damaged { .. } | Error::Version { .. }) => self.refused += 1,
            Err(error) => self.wrong.push(format!("{case}: {error}")),
            Ok(found) => match ended.maps.iter().rposition(|map| *map == found) {
                Some(index) if index < ended.synced => {
                    let lost = ended.synced - index;
                    self.lost.push(format!("{case}: {lost} synced changes"));
                }
                Some(index) if index + 1 == ended.maps.len() => self.whole += 1,
                Some(_) => self.cut += 1,
                None => self.wrong.push(format!("{case}: {found:?}")),
            },
        }
    }

    fn plus(&mut self, other: Self) {
        self.stores += other.stores;
        self.refused += other.refused;
        self.whole += other.whole;
        self.cut += other.cut;
        self.lost.extend(other.lost);
        self.wrong.extend(other.wrong);
    }
}

/// Bit flips, cuts and missing files, in each class of durability and after each way to stop.
#[test]
fn damaged_store_is_refused_or_holds_all_that_was_synced() {
    let stores = if is_long() { 10_000 } else { 300 };
    let mut all = Counts::default();
    for (class, durability) in CLASSES.into_iter().enumerate() {
        for (way, end) in ENDS.into_iter().enumerate() {
            let mut counts = Counts::default();
            let first = class + way * CLASSES.len();
            for seed in (first as u64..stores).step_by(CLASSES.len() * ENDS.len()) {
                let mut random = Random(seed);
                let mut ended = Ended::new(&mut random, durability, end);
                let damage = ended.damage(&mut random, durability, end);
                let case = format!("{seed}: {durability:?}, {end:?}, {damage}");
                counts.add(&ended, durability, &case);
            }
            println!("{durability:?}, {end:?}: {counts:?}");
            all.plus(counts);
        }
    }
    println!("{all:?}");
    assert!(all.wrong.is_empty(), "{:#?}", all.wrong);
    assert!(all.lost.is_empty(), "{:#?}", all.lost);
    assert!(
        all.stores == stores && all.refused > stores / 10 && all.whole > stores / 10,
        "{all:?}"
    );
}

/// The error of a store that is not opened.
fn refused(journal: &Journal) -> String {
    let opened = open(journal, Durability::Process);
    opened.map_or_else(
        |error| error.to_string(),
        |store| format!("opened with {:?}", store.stats()),
    )
}

/// Nothing is written after the sync, so no record states it.
#[test]
fn damage_before_the_last_sync_is_refused() {
    let name = "0000000001.log";
    let syncs: [fn(&Store); 2] = [|store| store.sync().unwrap(), rest];
    for sync in syncs {
        let store_of_five = || {
            let journal = Journal::default();
            let store = open(&journal, Durability::Process).unwrap();
            for number in 0..5_u8 {
                store.put(&[number], &[number; 30]).unwrap();
            }
            sync(&store);
            journal
        };
        for record in 0..5 {
            let journal = store_of_five();
            let offset = 64 + record * 56;
            journal.damage(name, |file| file[offset + 20] ^= 0x40);
            assert_eq!(
                refused(&journal),
                format!("{name} is damaged at byte {offset}: the record's checksum is wrong")
            );
        }
    }
}

/// A store that was closed, with several files.
fn closed() -> (Journal, Vec<String>) {
    let journal = Journal::default();
    let store = open(&journal, Durability::Process).unwrap();
    for number in 0..100_u8 {
        store.put(&[number], &[number; 3_000]).unwrap();
    }
    store.close().unwrap();
    let is_log = |name: &String| name.ends_with(".log");
    let names: Vec<String> = journal.files().into_keys().filter(is_log).collect();
    assert!(names.len() > 3, "{names:?}");
    (journal, names)
}

#[test]
fn missing_newest_file_of_a_closed_store_is_refused() {
    for count in 1..3 {
        let (journal, names) = closed();
        let kept = names.len() - count;
        for name in &names[kept..] {
            journal.remove(name).unwrap();
        }
        let expected = format!("{} is damaged at byte 0: the file is missing", names[kept]);
        assert_eq!(refused(&journal), expected);
    }
}

#[test]
fn end_of_a_closed_store_that_was_cut_off_is_refused() {
    for bytes in [1, 8, 23, 24, 25, 300, 3_040] {
        let (journal, names) = closed();
        let last = names.last().unwrap();
        journal.damage(last, |file| file.truncate(file.len() - bytes));
        let expected = format!("{last} is damaged at byte ");
        let error = refused(&journal);
        assert!(error.starts_with(&expected), "{bytes}: {error}");
    }
}

/// A store with changes in several files that no sync covered, the first of which is damaged.
fn torn_in_the_first_file() -> (Journal, u64) {
    let journal = Journal::default();
    let store = open(&journal, Durability::Process).unwrap();
    store.put(b"synced", b"value").unwrap();
    store.sync().unwrap();
    for number in 0..60_u8 {
        store.put(&[number], &vec![number; 3_000]).unwrap();
    }
    let journal = journal.crashed(journal.events(), |_| None);
    let offset = 64 + 32;
    journal.damage("0000000001.log", |file| file[offset + 20] ^= 1);
    (journal, offset as u64)
}

#[test]
fn cut_off_changes_are_kept_aside() {
    let (journal, offset) = torn_in_the_first_file();
    let before = journal.files();
    let store = open(&journal, Durability::Process).unwrap();
    assert_eq!(held(&store).len(), 1);
    let torn = store.stats().torn.unwrap();
    assert_eq!((torn.offset, torn.unkept_bytes), (offset, 0));
    let kept: Vec<&str> = torn
        .kept
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    let expected = [
        format!("0000000001-{offset}-1.torn"),
        "0000000002-0-2.torn".to_owned(),
        "0000000003-0-3.torn".to_owned(),
    ];
    assert_eq!(kept, expected);
    let after = journal.files();
    let place = offset as usize;
    let first = &before["0000000001.log"];
    assert!(first[place..].starts_with(&after[kept[0]]));
    assert!(before["0000000002.log"].starts_with(&after[kept[1]]));
    let bytes: usize = kept.iter().map(|name| after[*name].len()).sum();
    assert_eq!(torn.bytes, bytes as u64);
    // They stay, and nothing of them is read again.
    store.put(b"after", b"it").unwrap();
    store.compact().unwrap();
    drop(store);
    let store = open(&journal, Durability::Process).unwrap();
    assert_eq!((held(&store).len(), store.stats().torn), (2, None));
    assert!(
        kept.iter()
            .all(|name| journal.files()[*name] == after[*name])
    );
}

/// The bytes that a recovery cut off are still there after any failure of the machine during its work, and the next one
/// goes on.
#[test]
fn interrupted_recovery_loses_nothing_of_what_it_cuts_off() {
    let (torn, _) = torn_in_the_first_file();
    drop(open(&torn, Durability::Process).unwrap());
    for events in 0..=torn.events() {
        let (journal, offset) = torn_in_the_first_file();
        let calls = journal.calls();
        journal.fail(Fault::Broken, calls + events as u64 + 1, u64::MAX);
        drop(open(&journal, Durability::Process));
        journal.heal();
        let store = open(&journal, Durability::Process).unwrap();
        assert_eq!(held(&store).len(), 1);
        let files = journal.files();
        let first = format!("0000000001-{offset}-");
        let mut missing = vec![first.as_str(), "0000000002-0-", "0000000003-0-"];
        missing.retain(|begin| {
            let is_kept = |name: &&String| name.starts_with(begin) && name.ends_with(".torn");
            !files.keys().any(|name| is_kept(&name))
        });
        assert!(
            missing.is_empty(),
            "{events}: {missing:?} of {:?}",
            files.keys()
        );
    }
}

#[test]
fn kept_bytes_are_bounded_and_the_oldest_go_first() {
    let (journal, _) = torn_in_the_first_file();
    let half = (aside::MOST_BYTES / 2) as usize;
    for number in [1, 2] {
        let name = format!("0000000009-64-{number}.torn");
        drop(journal.create(&name, half as u64, b"older").unwrap());
    }
    let store = open(&journal, Durability::Process).unwrap();
    let kept = store.stats().torn.unwrap().kept;
    assert!(kept[0].to_str().unwrap().ends_with("-3.torn"), "{kept:?}");
    let files = journal.files();
    assert!(!files.contains_key("0000000009-64-1.torn"));
    assert!(files.contains_key("0000000009-64-2.torn"));
}

/// A repair leaves a store that opens, with what was not damaged.
#[test]
fn repair_goes_on_without_the_newest_file() {
    let (journal, names) = closed();
    let missing = names.last().unwrap();
    let entries = held(&open(&journal, Durability::Process).unwrap()).len();
    let (journal, _) = (closed().0, journal);
    journal.remove(missing).unwrap();
    refused(&journal);
    let examined = recovery::examine(&journal, Hints::Leave).unwrap();
    recovery::recover(&journal, examined, true).unwrap();
    let left = held(&open(&journal, Durability::Process).unwrap()).len();
    assert!((1..entries).contains(&left), "{left} of {entries}");
    // Without any file of the log, the store is refused, and a repair leaves an empty one.
    for name in &names {
        if journal.files().contains_key(name) {
            journal.remove(name).unwrap();
        }
    }
    let store = open(&closed().0, Durability::Process).unwrap();
    drop(store);
    let (journal, names) = closed();
    names.iter().for_each(|name| journal.remove(name).unwrap());
    assert!(refused(&journal).ends_with("the file is missing"));
    let examined = recovery::examine(&journal, Hints::Leave).unwrap();
    recovery::recover(&journal, examined, true).unwrap();
    assert!(held(&open(&journal, Durability::Process).unwrap()).is_empty());
}

/// The files of the log were replaced by those of another one, and the mark was left.
#[test]
fn mark_of_another_log_is_ignored() {
    let (journal, _) = closed();
    let other = Journal::default();
    let store = open(&other, Durability::Process).unwrap();
    store.put(b"k", b"v").unwrap();
    drop(store);
    let mut files = other.files();
    files.insert(mark::NAME.to_owned(), journal.files()[mark::NAME].clone());
    // The first file of the other log has the number of the last one here.
    let last = journal
        .files()
        .into_keys()
        .rfind(|name| name.ends_with(".log"));
    assert_ne!(last.as_deref(), Some("0000000001.log"));
    let small = Journal::default();
    let store = open(&small, Durability::Process).unwrap();
    store.put(b"other", b"log").unwrap();
    store.sync().unwrap();
    drop(store);
    files.insert(mark::NAME.to_owned(), small.files()[mark::NAME].clone());
    let other = Journal::with_files(files);
    let examined = recovery::examine(&other, Hints::Leave).unwrap();
    let reason = "it belongs to another log; the next sync writes one for this log";
    assert_eq!(examined.mark.ignored, Some(reason));
    assert!(examined.broken.is_none());
    let store = open(&other, Durability::Process).unwrap();
    store.sync().unwrap();
    drop(store);
    let examined = recovery::examine(&other, Hints::Leave).unwrap();
    assert_eq!(examined.mark.ignored, None);
}

/// Also if it is the only one since the last sync.
#[test]
fn last_write_is_synced_when_the_store_rests() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    for key in [b"first", b"other"] {
        store.put(key, b"value").unwrap();
        let begun = crate::clock::now_ms();
        while store.stats().unsynced_bytes > 0 {
            assert!(crate::clock::now_ms() < begun + 30_000, "it is not synced");
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }
}
