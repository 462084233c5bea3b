//! The room that a store takes on its disk, and a disk that is full.

use super::*;
use crate::store::Batch;
use crate::store::reclaim::Load;
use crate::store::wakeup::SyncMode;

/// Lets a store rest, and returns the bytes of its files. The thread in the background can be at work because of the last
/// write, and ends a sweep at the bytes that a store under load is allowed; so this is repeated until there are fewer than
/// `limit`, or for too many times.
fn rest(store: &Store, limit: u64) -> u64 {
    const MOST_TIMES: usize = 100;
    let rests = (0..MOST_TIMES).map(|_| {
        store
            .inner
            .work_under(Load::Idle, SyncMode::Always, || false);
        store.stats().disk_bytes
    });
    let mut bytes = u64::MAX;
    for rested in rests {
        bytes = rested;
        if bytes < limit {
            break;
        }
    }
    bytes
}

/// Many times the live bytes are written; the files take no more than 1.5 times these, and what is fixed.
#[test]
fn room_on_the_disk_is_bounded() {
    const KEYS: u32 = 4_000;
    const FIXED_BYTES: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let mut random = 1_u32;
    let mut most = 0;
    for number in 0..12 * KEYS {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = if number < KEYS {
            number
        } else {
            (random >> 8) % KEYS
        };
        store
            .put(&key.to_le_bytes(), &[number as u8; 1_000])
            .unwrap();
        if number % KEYS == KEYS - 1 {
            // Reclaimed segments are removed by the thread in the background.
            let live = store.stats().live_bytes;
            let rested = rest(&store, live + live / 2 + FIXED_BYTES);
            most = most.max(rested);
        }
    }
    let live = store.stats().live_bytes;
    assert!(
        (live..live + live / 2 + FIXED_BYTES).contains(&most),
        "{most} bytes for {live} live ones"
    );
    let files = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|file| file.unwrap())
        .filter(|file| file.file_name() != "RESERVE");
    let on_disk: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(on_disk <= live + live / 2 + FIXED_BYTES, "{on_disk}");
    let expected = held(&store);
    drop(store);
    assert_eq!(
        held(&Store::open(dir.path(), Options::new()).unwrap()),
        expected
    );
}

/// While writes go on, a small store takes more room, up to a limit, and gives it back when it rests.
#[test]
fn burst_of_writes_takes_a_limited_room() {
    const KEYS: u32 = 400;
    const BURST_BYTES: u64 = 8 << 20;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().burst_bytes(BURST_BYTES);
    let store = Store::open(dir.path(), options).unwrap();
    let mut most = 0;
    for number in 0..75 * KEYS {
        let key = number % KEYS;
        store
            .put(&key.to_le_bytes(), &[number as u8; 1_000])
            .unwrap();
        if number % 50 == 0 {
            most = most.max(store.stats().disk_bytes);
        }
    }
    let live = store.stats().live_bytes;
    let allowed = live + BURST_BYTES;
    // In addition, what is written during a sweep, what the sweep copies, and the segment that is written.
    let limit = allowed + allowed / 8 + live + (2 << 20);
    assert!((allowed / 2..limit).contains(&most), "{most} of {limit}");
    let limit = live + live / 2 + (1 << 20);
    let at_rest = rest(&store, limit);
    assert!(at_rest <= limit, "{at_rest}");
}

#[test]
fn deleted_entries_leave_no_room_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let mut batch = Batch::new();
    for number in 0..2_000_u32 {
        store.put(&number.to_le_bytes(), &[1; 2_000]).unwrap();
        batch.delete(&number.to_le_bytes());
    }
    store.apply(&batch).unwrap();
    store.compact().unwrap();
    let stats = store.stats();
    assert_eq!((stats.keys, stats.live_bytes), (0, 0));
    drop(store);
    assert!(Store::check(dir.path()).unwrap().bytes < 1_000);
}

/// A file system of its own, which is removed with this value.
struct Small(tempfile::TempDir);

impl Small {
    /// Mounts one of 8 MiB. `None`, said past the capturing of the test harness, where that needs more rights.
    fn mount() -> Option<Self> {
        use std::io::Write;
        use std::process::Command;
        if !rustix::process::geteuid().is_root() {
            let said = b"\n*** NOT TESTED: a store on a full file system, since that needs root\n";
            std::io::stderr().write_all(said).unwrap();
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=8m", "loadline-store"];
        let mounted = Command::new("mount")
            .args(mount)
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(mounted.success());
        Some(Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg(self.0.path())
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn full_file_system_is_survived() {
    let Some(small) = Small::mount() else { return };
    for options in [Options::new(), Options::new().without_mapping()] {
        let data = small.0.path().join("data");
        let store = Store::open(&data, options.clone()).unwrap();
        let mut expected = Map::new();
        let error = loop {
            let number = expected.len() as u32;
            let (key, value) = (number.to_le_bytes().to_vec(), vec![number as u8; 10_000]);
            match store.put(&key, &value) {
                Ok(()) => expected.insert(key, value),
                Err(error) => break error,
            };
            assert!(number < 1_000, "8 MiB hold no more");
        };
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert!(expected.len() > 500);
        assert_eq!(held(&store), expected);
        drop(store);
        let store = Store::open(&data, options).unwrap();
        assert_eq!(held(&store), expected);
        // More room, and it goes on without having been opened again.
        assert!(matches!(
            store.put(b"k", &[0; 10_000]),
            Err(Error::Full { .. })
        ));
        let more = ["-o", "remount,size=16m"];
        let remounted = std::process::Command::new("mount")
            .args(more)
            .arg(small.0.path())
            .status();
        assert!(remounted.unwrap().success());
        store.put(b"k", &[0; 10_000]).unwrap();
        drop(store);
        std::fs::remove_dir_all(&data).unwrap();
        let less = ["-o", "remount,size=8m"];
        let remounted = std::process::Command::new("mount")
            .args(less)
            .arg(small.0.path())
            .status();
        assert!(remounted.unwrap().success());
    }
}

/// Each segment has room for one value only: there is nothing to reclaim, although the files are larger than allowed.
#[test]
fn segments_that_values_do_not_fill_are_not_swept_again_and_again() {
    const VALUE_BYTES: usize = 33_000;
    const KEYS: u8 = 2;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().segment_bytes(64 << 10);
    let options = options.slack_bytes(0).burst_bytes(0);
    let store = Store::open(dir.path(), options).unwrap();
    for key in 0..KEYS {
        store.put(&[key], &[key; VALUE_BYTES]).unwrap();
    }
    let looks = std::cell::Cell::new(0_u64);
    let stops = || {
        looks.set(looks.get() + 1);
        looks.get() > 10_000
    };
    (store.inner).work_under(Load::Idle, SyncMode::Always, stops);
    let stats = store.stats();
    let allowed = stats.live_bytes + stats.live_bytes * 9 / 25;
    assert!(stats.disk_bytes > allowed, "{stats:?}");
    assert!(looks.get() <= 10_000, "it sweeps without an end");
    for key in 0..KEYS {
        assert_eq!(store.get(&[key]).unwrap().unwrap(), [key; VALUE_BYTES]);
    }
}
