//! Stores after a crash, and on a disk that fails.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRng, TestRunner};

use super::model::{Step, expect, perform, steps};
use super::*;
use crate::storage::Storage;
use crate::storage::journal::Fault;
use crate::store::Durability;

/// Opens a store as the other tests do, but for a few keys: to make its 4,096 parts would take most of the time of
/// an opening.
fn open(journal: &Journal, options: Options) -> Result<Store, Error> {
    const KEYS: u64 = 1_000;
    super::open(journal, options.max_keys(KEYS))
}

/// The steps that were performed on a store, one after the other.
struct History {
    journal: Journal,
    /// The content of the store after each step, the first one being nothing.
    maps: Vec<Map>,
    /// Number of events when each step was begun, and when it was acknowledged.
    begun: Vec<usize>,
    acknowledged: Vec<usize>,
    /// Whether everything before the end of a step had reached the disk then.
    is_durable: Vec<bool>,
}

impl History {
    fn new(steps: &[Step], durability: Durability) -> Self {
        let journal = Journal::default();
        let options = || Options::new().durability(durability);
        let mut store = open(&journal, options()).unwrap();
        let mut history = Self {
            journal: journal.clone(),
            maps: vec![Map::new()],
            begun: vec![],
            acknowledged: vec![],
            is_durable: vec![],
        };
        let mut map = Map::new();
        for step in steps {
            history.begun.push(journal.events());
            if matches!(step, Step::Reopen) {
                drop(store);
                store = open(&journal, options()).unwrap();
            }
            perform(&store, step, &map).unwrap();
            expect(&mut map, step);
            history.maps.push(map.clone());
            history.acknowledged.push(journal.events());
            let writes = !matches!(step, Step::Reopen);
            let is_durable = matches!(step, Step::Sync | Step::Rest)
                || durability == Durability::Always && writes;
            history.is_durable.push(is_durable);
        }
        history
    }

    /// Checks that `after`, a state that a crash after `events` events has left, opens, and holds what the store
    /// held after some step: at least as late as the last one that had to survive, and no later than the
    /// last one that was begun. All events survive the end of a process, only durable ones that of a machine.
    ///
    /// Returns the number of hints that opening it has read.
    fn check(&self, after: &Journal, events: usize, machine: bool) -> u64 {
        let acknowledged = |index: &usize| self.acknowledged[*index] <= events;
        let survives = |index: &usize| !machine || self.is_durable[*index];
        let count = self.begun.len();
        let first = (0..count)
            .rev()
            .find(|index| acknowledged(index) && survives(index));
        let first = first.map_or(0, |index| index + 1);
        let last = (0..count)
            .filter(|index| self.begun[*index] <= events)
            .count();
        let opened = open(after, Options::new());
        let store = opened.unwrap_or_else(|error| panic!("after {events} events: {error}"));
        let found = held(&store);
        let is_known = self.maps[first..=last].contains(&found);
        assert!(
            is_known,
            "after {events} events, machine {machine}: {found:?} is none of {:?}",
            &self.maps[first..=last]
        );
        // It works, and is the same when it is opened again.
        store.put(b"after", b"the crash").unwrap();
        let expected = held(&store);
        let hints = store.stats().hints;
        drop(store);
        assert_eq!(held(&open(after, Options::new()).unwrap()), expected);
        hints
    }

    /// Checks the end of the machine at every event, with every prefix of what was not synced, and the last write torn at
    /// every byte. Returns the number of these states, and of those that were opened with hints.
    fn check_torn_states(&self) -> (u64, u64) {
        let (mut states, mut hinted) = (0, 0);
        for events in 0..=self.journal.events() {
            let unsynced = self.journal.unsynced(events);
            for kept in 0..=unsynced.len() {
                let torn = unsynced.get(kept).copied();
                let bytes = torn.map_or(0, |torn| self.journal.event_bytes(torn));
                let is_last = kept + 1 >= unsynced.len();
                // Every byte of the last one; of others a few.
                let step = if is_last { 1 } else { 1 + bytes / 3 };
                // The long values are all the same bytes.
                let step = if bytes > 500 { step.max(97) } else { step };
                for cut in (0..=bytes).step_by(step) {
                    let keep = |index: usize| match torn {
                        Some(torn) if index == torn => Some(cut),
                        Some(torn) if index > torn => Some(0),
                        _ => None,
                    };
                    let crashed = self.journal.crashed(events, keep);
                    hinted += u64::from(self.check(&crashed, events, true) > 0);
                    states += 1;
                }
            }
        }
        (states, hinted)
    }
}

/// Steps that make segments with hints, which are used and removed. Short ones, so that every call and byte can be tried.
fn steps_with_hints() -> Vec<Step> {
    let long = |key: u8| Step::Put(key, vec![key; 3_000]);
    let mut steps = vec![];
    for round in 0..3 {
        steps.extend([long(1), long(2 + round), Step::Put(9, vec![round])]);
        steps.extend([Step::Reopen, Step::Delete(2), Step::Rest]);
    }
    steps.extend([Step::Compact, long(8), Step::Reopen, long(7), Step::Rest]);
    steps
}

fn samples(count: usize, length: usize) -> impl Iterator<Item = Vec<Step>> {
    let config = Config::default();
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    (0..count).map(move |_| steps(length).new_tree(&mut runner).unwrap().current())
}

/// The end of the process at every event: what was written is there.
#[test]
fn end_of_a_process_loses_nothing() {
    let mut states = 0_u64;
    for steps in samples(if is_long() { 400 } else { 4 }, 40) {
        let history = History::new(&steps, Durability::Process);
        for events in 0..=history.journal.events() {
            history.check(&history.journal.crashed(events, |_| None), events, false);
            states += 1;
        }
    }
    println!("{states} ends of a process");
}

/// The end of the machine with hints, some of which were being written.
#[test]
fn end_of_a_machine_leaves_no_hint_that_says_too_much() {
    for durability in [Durability::Always, Durability::Process] {
        let history = History::new(&steps_with_hints(), durability);
        let (states, hinted) = history.check_torn_states();
        println!("{states} torn states, {hinted} of them opened with hints");
        assert!(
            hinted > 100 && states > hinted + 100,
            "{hinted} of {states}"
        );
    }
}

#[test]
fn end_of_a_machine_loses_nothing_that_was_synced() {
    const LONG_STATES: u64 = 1_000_000;
    let mut states = 0_u64;
    let mut printed = 0;
    for (number, steps) in samples(if is_long() { usize::MAX } else { 4 }, 14).enumerate() {
        if states >= LONG_STATES {
            break;
        }
        if states / 50_000 > printed {
            printed = states / 50_000;
            println!("{states} torn states so far, {number} histories");
        }
        let durability = [Durability::Always, Durability::Process][number % 2];
        let history = History::new(&steps, durability);
        states += history.check_torn_states().0;
    }
    println!("{states} torn states");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 20_000 } else { 25 }))]

    /// The end of the machine with any part of what was not synced.
    #[test]
    fn end_of_a_machine_in_any_order_loses_nothing_that_was_synced(
        steps in steps(30),
        always: bool,
        at in 0.0..1.0_f64,
        kept in proptest::collection::vec(any::<u16>(), 200),
    ) {
        let durability = if always { Durability::Always } else { Durability::Process };
        let history = History::new(&steps, durability);
        let events = (at * history.journal.events() as f64) as usize;
        let crashed = history.journal.crashed(events, |index| {
            match kept[index % kept.len()] {
                number if number % 3 == 0 => Some(0),
                number if number % 3 == 1 => Some(usize::from(number / 3) % 3_100),
                _ => None,
            }
        });
        history.check(&crashed, events, true);
    }
}

/// The contents that a store can have whose calls fail.
struct Outcomes {
    /// Possible contents of memory: a step that failed has happened or not.
    possible: Vec<Map>,
    /// Possible contents of the log after steps that failed, though not of memory: of a value of zeros, the part that
    /// was written is all of it, since the rest of the file is zeros.
    doubtful: Vec<Map>,
}

impl Outcomes {
    fn failed(&mut self, before: Map, after: Map) {
        self.doubtful.push(after.clone());
        self.possible = vec![before, after];
    }

    fn succeeded(&mut self, before: &Map, after: Map) {
        // A step without a change writes nothing, and succeeds after a failure, too.
        if after != *before {
            self.doubtful.clear();
        }
        self.possible = vec![after];
    }

    /// Checks what a store holds after it was opened again.
    fn reopened(&mut self, found: Map, call: u64) {
        self.possible.append(&mut self.doubtful);
        let possible = &self.possible;
        assert!(
            possible.contains(&found),
            "call {call}: {found:?}, not {possible:?}"
        );
        self.possible = vec![found];
    }
}

/// Every call fails, one after the other. What was acknowledged before is there after a reopening, and what failed
/// is there as a whole or not at all.
fn fail_everywhere(
    fault: Fault,
    lasts: u64,
    durability: Durability,
    samples: impl Iterator<Item = Vec<Step>>,
) {
    let (mut runs, mut failures) = (0_u64, 0_u64);
    for steps in samples {
        for call in 1.. {
            let journal = Journal::default();
            journal.fail(fault, call, call.saturating_add(lasts));
            let options = || Options::new().durability(durability);
            let Ok(mut store) = open(&journal, options()) else {
                assert!(call < 10, "opening does few calls");
                continue;
            };
            let mut outcomes = Outcomes {
                possible: vec![Map::new()],
                doubtful: vec![],
            };
            for step in &steps {
                if matches!(step, Step::Reopen) {
                    drop(store);
                    match open(&journal, options()) {
                        Ok(opened) => store = opened,
                        Err(_) => {
                            failures += 1;
                            journal.heal();
                            store = open(&journal, options()).unwrap();
                        }
                    }
                    outcomes.reopened(journal.paused(|| held(&store)), call);
                    continue;
                }
                let map = journal.paused(|| held(&store));
                let possible = &outcomes.possible;
                assert!(
                    possible.contains(&map),
                    "call {call}: {map:?}, not {possible:?}"
                );
                let mut after = map.clone();
                expect(&mut after, step);
                match perform(&store, step, &map) {
                    Ok(()) => outcomes.succeeded(&map, after),
                    Err(Error::Full { .. }) if durability == Durability::Process => {
                        failures += 1;
                        // Nothing has happened.
                        assert_eq!(journal.paused(|| held(&store)), map);
                        outcomes.possible = vec![map];
                    }
                    Err(_) => {
                        failures += 1;
                        outcomes.failed(map, after);
                    }
                }
            }
            let is_over = journal.calls() < call;
            drop(store);
            journal.heal();
            let store = open(&journal, options()).unwrap();
            outcomes.reopened(held(&store), call);
            store.put(b"k", b"works again").unwrap();
            runs += 1;
            if is_over {
                break;
            }
        }
    }
    println!("{runs} runs, {failures} failures");
    assert!(failures > 0);
}

fn samples_with_hints(count: usize) -> impl Iterator<Item = Vec<Step>> {
    samples(count, 40).chain([steps_with_hints()])
}

#[test]
fn every_call_that_fails_once_loses_nothing() {
    let count = if is_long() { 100 } else { 2 };
    for durability in [Durability::Process, Durability::Always] {
        fail_everywhere(Fault::Broken, 1, durability, samples_with_hints(count));
        // A write tries again after the first ones.
        fail_everywhere(Fault::Full, 10, durability, samples_with_hints(count));
    }
}

#[test]
fn every_call_from_which_on_all_fail_loses_nothing() {
    let count = if is_long() { 100 } else { 2 };
    for durability in [Durability::Process, Durability::Always] {
        fail_everywhere(
            Fault::Broken,
            u64::MAX,
            durability,
            samples_with_hints(count),
        );
        fail_everywhere(Fault::Full, u64::MAX, durability, samples_with_hints(count));
    }
}

#[test]
fn full_disk_leaves_the_store_readable_and_it_recovers() {
    let journal = Journal::default();
    let store = open(&journal, Options::new()).unwrap();
    store.put(b"before", b"value").unwrap();
    journal.fail(Fault::Full, 0, u64::MAX);
    let error = store.put(b"k", &[0; 100_000]).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert!(
        error.to_string().starts_with("no room on the disk: "),
        "{error}"
    );
    assert_eq!(held(&store).len(), 1);
    journal.heal();
    store.put(b"k", &[0; 100_000]).unwrap();
    assert_eq!(held(&store).len(), 2);
}

#[test]
fn log_that_failed_takes_no_writes_until_it_is_opened_again() {
    let journal = Journal::default();
    let store = open(&journal, Options::new()).unwrap();
    store.put(b"before", b"value").unwrap();
    journal.fail(Fault::Broken, 0, u64::MAX);
    let first = store.put(b"k", b"v").unwrap_err();
    journal.heal();
    let second = store.put(b"k", b"v").unwrap_err();
    assert_eq!(first.to_string(), second.to_string());
    assert_eq!(
        second.to_string(),
        "the log has failed and takes no writes until the store is opened again: 0000000001.log: \
         Input/output error (os error 5)"
    );
    assert!(store.delete(b"before").is_err() && store.sync().is_err());
    assert_eq!(held(&store).len(), 1);
    drop(store);
    let store = open(&journal, Options::new()).unwrap();
    store.put(b"k", b"v").unwrap();
    assert_eq!(held(&store).len(), 2);
}

/// Most of what is written to a small store is overwritten before it has to reach the disk, and never synced. Whatever of it
/// a failure of the machine leaves behind while its files are removed, what was synced before is there.
#[test]
fn overwritten_entries_need_no_sync() {
    let put = |number: u8| Step::Put(number % 4, vec![number; 12_000]);
    let sync_at = |number: u8| [5, 20].contains(&number).then_some(Step::Sync);
    let steps: Vec<Step> = (0..110)
        .flat_map(|number| [Some(put(number)), sync_at(number)])
        .flatten()
        .collect();
    let history = History::new(&steps, Durability::Process);
    let journal = &history.journal;
    let count = journal.events();
    let bytes = |events: &[usize]| -> usize {
        let bytes = events.iter().map(|event| journal.event_bytes(*event));
        bytes.sum()
    };
    let all: Vec<usize> = (0..count).collect();
    let (written, unsynced) = (bytes(&all), bytes(&journal.unsynced(count)));
    assert!(
        unsynced > written / 2,
        "{} of {written} bytes were synced",
        written - unsynced
    );
    let mut states = 0;
    for events in (1..=count).filter(|events| journal.is_removal(events - 1)) {
        let is_name = |event: &usize| journal.event_bytes(*event) == 0;
        let mut names = journal.unsynced(events);
        names.retain(is_name);
        // No byte of the unsynced ones is left, with every prefix of the changes of names.
        for kept in (0..=names.len()).step_by(if is_long() { 1 } else { 3 }) {
            let first_lost = names.get(kept).copied().unwrap_or(usize::MAX);
            let keep = |event: usize| {
                let stays = event < first_lost && names.binary_search(&event).is_ok();
                (!stays).then_some(0)
            };
            history.check(&journal.crashed(events, keep), events, true);
            states += 1;
        }
    }
    println!("{states} states while files were removed");
    assert!(states > 50, "{states}");
}

/// A store with some records that were synced, and some after that.
fn synced_and_not() -> Journal {
    let journal = Journal::default();
    let store = open(&journal, Options::new()).unwrap();
    for number in 0..5_u8 {
        store.put(&[number], &[number; 30]).unwrap();
    }
    store.sync().unwrap();
    for number in 5..8_u8 {
        store.put(&[number], &[number; 30]).unwrap();
    }
    journal
}

#[test]
fn damage_to_what_was_synced_is_not_cut_off() {
    let name = "0000000001.log";
    let records = synced_and_not().files()[name].len();
    let record = 56;
    let (mut refused, mut torn) = (0, 0);
    for offset in 64..records.min(64 + 8 * record) {
        let journal = synced_and_not();
        journal.damage(name, |file| file[offset] ^= 0x40);
        let number = (offset - 64) / record;
        match open(&journal, Options::new()) {
            // Nothing behind the last record says anything of those that were not synced.
            Ok(store) => {
                assert!(number >= 5 || (offset - 64) % record >= 50, "byte {offset}");
                torn += u32::from(store.stats().torn.is_some());
            }
            Err(Error::Damaged {
                path, offset: at, ..
            }) => {
                assert!(number < 5, "byte {offset}");
                assert_eq!(path.to_str(), Some(name));
                assert_eq!(at as usize, 64 + number * record);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(
        refused > 200 && torn > 100,
        "{refused} refused, {torn} torn"
    );
}

#[test]
fn torn_tail_is_reported_with_its_bytes() {
    let journal = synced_and_not();
    journal.damage("0000000001.log", |file| file[64 + 6 * 56] ^= 1);
    let store = open(&journal, Options::new()).unwrap();
    assert_eq!(held(&store).len(), 6);
    let torn = store.stats().torn.unwrap();
    assert_eq!((torn.offset, torn.records), (64 + 6 * 56, 1));
    // The padding behind the last record is zeros.
    assert!((105..=112).contains(&torn.bytes), "{torn:?}");
}

#[test]
fn missing_file_is_damage() {
    let journal = Journal::default();
    let store = open(&journal, Options::new()).unwrap();
    for number in 0..100_u8 {
        store.put(&[number], &[number; 3_000]).unwrap();
    }
    drop(store);
    let names: Vec<String> = journal.files().into_keys().collect();
    assert!(names.len() > 3);
    for missing in &names[..names.len() - 1] {
        let copy = journal.crashed(journal.events(), |_| None);
        copy.remove(missing).unwrap();
        let error = open(&copy, Options::new()).unwrap_err();
        let expected = format!("{missing} is damaged at byte 0: the file is missing");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn file_of_a_later_version_is_refused() {
    let journal = synced_and_not();
    journal.damage("0000000001.log", |file| {
        file[8] = 4;
        let crc = crc32c::crc32c(&file[..60]);
        file[60..64].copy_from_slice(&crc.to_le_bytes());
    });
    let error = open(&journal, Options::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0000000001.log has version 4 of the format; this build reads versions 1 to 3"
    );
}
