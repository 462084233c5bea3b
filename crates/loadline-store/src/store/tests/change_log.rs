//! The log of databases that their owner changes.

use std::collections::BTreeMap;

use super::*;
use crate::clock::now_ms;
use crate::fields::Fields;
use crate::keyspace::Keyspace;
use crate::list::List;
use crate::sorted::SortedSet;
use crate::storage::journal::Fault;
use crate::store::{ChangeLog, Durability, Edit, RewriteStep};
use crate::table::Bytes;
use crate::value::{Change, Entry, Expiry, Members, Value, View};

/// Databases with their log. Every change is made in memory and noted.
struct Rig {
    log: ChangeLog,
    databases: Vec<Keyspace>,
}

/// The content of all databases, with the order of collections where they have one.
type Held = BTreeMap<(usize, Vec<u8>), (String, Option<u64>)>;

impl Rig {
    fn open(journal: &Journal, durability: Durability) -> Self {
        let options = Options::new()
            .segment_bytes(64 << 10)
            .durability(durability);
        let (log, databases) = ChangeLog::open_on(Box::new(journal.clone()), &options).unwrap();
        Self { log, databases }
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.log.commit(&mut self.databases)
    }

    fn put(&mut self, database: usize, key: &[u8], value: Value, expires_at: Option<u64>) {
        self.log.put(database, key, value.view(), expires_at);
        let entry = Entry { value, expires_at };
        self.databases[database].modify(key, 0, |_| ((), Change::Put(entry)));
    }

    fn edit(&mut self, key: &[u8], change: impl FnOnce(&mut Value), edit: Edit<'_>) {
        self.databases[0].modify(key, 0, |entry| {
            change(&mut entry.unwrap().value);
            ((), Change::Keep)
        });
        self.log.edit(0, key, edit);
    }

    fn expire(&mut self, key: &[u8], at: Option<u64>) {
        self.databases[0].modify_expiry(key, 0, |_| ((), Expiry::At(at)));
        self.log.expire(0, key, at);
    }

    fn held(&self) -> Held {
        let mut held = Held::new();
        for (number, database) in self.databases.iter().enumerate() {
            let mut keys = vec![];
            database.scan(0, usize::MAX, now_ms(), |key, _| keys.push(key.to_vec()));
            for key in keys {
                let entry = database.entry(&key, 0).unwrap();
                held.insert((number, key), (shown(entry.value.view()), entry.expires_at));
            }
        }
        held
    }
}

/// A value with its order, where it has one.
fn shown(value: View<'_>) -> String {
    let (mut elements, is_ordered): (Vec<String>, bool) = match value {
        View::String(bytes) => return format!("{bytes:?}"),
        View::Set(members) => (
            members
                .iter()
                .map(|(member, ())| format!("{member:?}"))
                .collect(),
            members.is_ordered(),
        ),
        View::Hash(fields) => (
            fields.iter().map(|field| format!("{field:?}")).collect(),
            fields.is_ordered(),
        ),
        View::List(items) => (items.iter().map(|item| format!("{item:?}")).collect(), true),
        View::Sorted(set) => (
            set.iter().map(|member| format!("{member:?}")).collect(),
            set.is_packed(),
        ),
        View::Stream(stream) => (vec![format!("{stream:?}")], true),
    };
    if !is_ordered {
        elements.sort();
    }
    format!("{} {is_ordered} {elements:?}", value.kind())
}

fn members(members: &[&str]) -> Value {
    let mut set = Members::new();
    for member in members {
        set.insert(member.as_bytes(), ());
    }
    Value::Set(set)
}

fn set(value: &mut Value) -> &mut Members {
    match value {
        Value::Set(members) => members,
        other => panic!("{other:?}"),
    }
}

fn hash(value: &mut Value) -> &mut Fields {
    match value {
        Value::Hash(fields) => fields,
        other => panic!("{other:?}"),
    }
}

fn list(value: &mut Value) -> &mut List {
    match value {
        Value::List(items) => items,
        other => panic!("{other:?}"),
    }
}

fn sorted(value: &mut Value) -> &mut SortedSet {
    match value {
        Value::Sorted(set) => set,
        other => panic!("{other:?}"),
    }
}

fn string(value: &mut Value) -> &mut Vec<u8> {
    match value {
        Value::String(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// Changes of all kinds.
fn change_everything(rig: &mut Rig) {
    rig.put(0, b"set", members(&["1", "5"]), None);
    let add = |value: &mut Value| {
        set(value).insert_sorted(b"3", (), |other| other == b"5");
        set(value).remove(b"1");
    };
    rig.edit(b"set", add, Edit::AddMembers(&[b"3"]));
    rig.log.edit(0, b"set", Edit::RemoveMembers(&[b"1"]));
    let mut fields = Fields::new();
    fields.insert(b"b", Bytes::from(&b"1"[..]));
    fields.insert(b"a", Bytes::from(&b"2"[..]));
    rig.put(0, b"hash", Value::Hash(fields), Some(u64::MAX - 1));
    let set_fields = |value: &mut Value| {
        hash(value).insert(b"b", Bytes::from(&b"3"[..]));
        hash(value).insert(b"0", Bytes::from(&b""[..]));
        hash(value).remove(b"a");
    };
    rig.edit(
        b"hash",
        set_fields,
        Edit::SetFields(&[b"b", b"3", b"0", b""]),
    );
    rig.log
        .edit(0, b"hash", Edit::RemoveFields(&[b"a", b"none"]));
    let mut items = List::new();
    items.push_back(b"middle");
    rig.put(0, b"list", Value::List(items), None);
    let push = |value: &mut Value| {
        list(value).push_front(b"2");
        list(value).push_front(b"1");
        list(value).push_back(b"last");
        list(value).set(1, b"two");
        list(value).pop_front();
        list(value).pop_back();
    };
    rig.edit(b"list", push, Edit::PushFront(&[b"2", b"1"]));
    for edit in [
        Edit::PushBack(&[b"last"]),
        Edit::SetItem(1, b"two"),
        Edit::PopFront(1),
        Edit::PopBack(1),
    ] {
        rig.log.edit(0, b"list", edit);
    }
    let take_and_insert = |value: &mut Value| {
        list(value).remove_equal(-1, b"two");
        list(value).insert(1, b"inside");
    };
    let edit = Edit::RemoveItems(-1, b"two");
    rig.edit(b"list", take_and_insert, edit);
    rig.log.edit(0, b"list", Edit::InsertItem(1, b"inside"));
    change_sorted_sets(rig);
    rig.put(
        0,
        b"string",
        Value::String(b"text".to_vec()),
        Some(u64::MAX - 2),
    );
    let write = |value: &mut Value| *string(value) = b"teXX\0\0end".to_vec();
    rig.edit(b"string", write, Edit::Write(2, b"XX"));
    rig.log.edit(0, b"string", Edit::Write(6, b"end"));
    rig.put(3, b"elsewhere", members(&["x"]), None);
    rig.put(5, b"gone", members(&["x"]), None);
    rig.databases[5].clear();
    rig.log.clear(5);
    rig.put(0, b"deleted", members(&["x"]), None);
    rig.databases[0].remove(b"deleted", 0);
    rig.log.delete(0, b"deleted");
    rig.databases.swap(3, 4);
    rig.log.exchange(3, 4);
    rig.put(4, b"later", members(&["y"]), None);
}

/// A packed one and a large one.
fn change_sorted_sets(rig: &mut Rig) {
    for key in [&b"packed"[..], b"large"] {
        let mut set = SortedSet::new();
        if key == b"large" {
            set.unpack();
        }
        set.insert(b"a", -0.5);
        set.insert(b"b", f64::INFINITY);
        rig.put(0, key, Value::Sorted(set), None);
        let change = |value: &mut Value| {
            sorted(value).insert(b"c", 1e300);
            sorted(value).insert(b"a", 2.0);
            sorted(value).remove(b"b");
        };
        rig.edit(key, change, Edit::SetScores(&[(b"c", 1e300), (b"a", 2.0)]));
        rig.log.edit(0, key, Edit::RemoveScored(&[b"b", b"none"]));
    }
}

#[test]
fn changes_of_all_kinds_are_made_again() {
    let journal = Journal::default();
    let mut rig = Rig::open(&journal, Durability::Process);
    change_everything(&mut rig);
    let mut unordered = members(&["b", "1"]);
    set(&mut unordered).relax();
    rig.put(0, b"unordered", unordered, None);
    rig.commit().unwrap();
    let expected = rig.held();
    assert_eq!(expected.len(), 9);
    drop(rig);
    let rig = Rig::open(&journal, Durability::Process);
    assert_eq!(rig.held(), expected);
    drop(rig);
    // The library opens it, too, and writes what it reclaims as it was.
    let store = open(&journal, Options::new()).unwrap();
    store.compact().unwrap();
    drop(store);
    assert_eq!(Rig::open(&journal, Durability::Process).held(), expected);
}

/// A change that comes after one whose effect is over when the log is read: an expiry that was taken back, and one that
/// was reached before the key came into being again.
#[test]
fn changes_before_the_expiry_are_recovered() {
    let journal = Journal::default();
    let mut rig = Rig::open(&journal, Durability::Process);
    for key in [&b"kept"[..], b"over"] {
        rig.put(0, key, members(&["1"]), None);
        rig.expire(key, Some(now_ms() - 1));
    }
    rig.expire(b"kept", None);
    rig.edit(
        b"over",
        |value| {
            set(value).insert(b"2", ());
        },
        Edit::AddMembers(&[b"2"]),
    );
    rig.commit().unwrap();
    let held = rig.held();
    drop(rig);
    let rig = Rig::open(&journal, Durability::Process);
    assert_eq!(rig.held(), held);
    assert_eq!(held.len(), 1);
    assert_eq!(rig.databases[0].len(), 1, "what is over is freed");
}

/// Without a sync before the return, the crash of the machine below would lose it.
#[test]
fn commit_that_is_durable_at_once_survives_the_end_of_the_machine() {
    for (durability, survives) in [(Durability::Always, true), (Durability::Process, false)] {
        let journal = Journal::default();
        let mut rig = Rig::open(&journal, durability);
        // The first record of a segment has the file synced.
        rig.put(0, b"first", members(&["x"]), None);
        rig.commit().unwrap();
        change_everything(&mut rig);
        rig.commit().unwrap();
        let crashed = journal.crashed(journal.events(), |_| Some(0));
        let after = Rig::open(&crashed, durability).held();
        assert_eq!(after == rig.held(), survives, "{durability:?}");
    }
}

#[test]
fn commit_without_room_is_tried_again() {
    let journal = Journal::default();
    let mut rig = Rig::open(&journal, Durability::Process);
    journal.fail(Fault::Full, 0, u64::MAX);
    change_everything(&mut rig);
    let pending = rig.log.pending();
    for _ in 0..2 {
        let error = rig.commit().unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert_eq!(rig.log.pending(), pending);
    }
    rig.put(0, b"more", members(&["x"]), None);
    journal.heal();
    rig.commit().unwrap();
    assert_eq!(rig.log.pending(), 0);
    let held = rig.held();
    drop(rig);
    assert_eq!(Rig::open(&journal, Durability::Process).held(), held);
}

#[test]
fn log_that_failed_takes_no_changes() {
    for durability in [Durability::Process, Durability::Always] {
        let journal = Journal::default();
        let mut rig = Rig::open(&journal, durability);
        change_everything(&mut rig);
        rig.commit().unwrap();
        let before = rig.held();
        journal.fail(Fault::Broken, 0, u64::MAX);
        rig.put(0, b"more", members(&["x"]), None);
        let error = rig.commit().unwrap_err();
        assert!(matches!(error, Error::Failed { .. }), "{error}");
        journal.heal();
        assert!(rig.commit().is_err() && rig.log.check().is_err());
        drop(rig);
        assert_eq!(Rig::open(&journal, durability).held(), before);
    }
}

/// Collections that change in parts are written anew as a whole when the segments with these parts are reclaimed.
#[test]
fn reclaiming_keeps_collections_and_bounds_the_files() {
    const KEYS: u32 = 40;
    const FIXED_BYTES: u64 = 4 << 20;
    let journal = Journal::default();
    let mut rig = Rig::open(&journal, Durability::Process);
    for key in 0..KEYS {
        rig.put(0, &key.to_le_bytes(), members(&["first"]), None);
    }
    let mut most = 0;
    let padding = [7; 2_000];
    for round in 0..4_000_u32 {
        let key = round % KEYS;
        let (name, old) = (round.to_le_bytes(), (round.wrapping_sub(400)).to_le_bytes());
        let mut member = name.to_vec();
        member.extend_from_slice(&padding);
        let mut gone = old.to_vec();
        gone.extend_from_slice(&padding);
        let key = key.to_le_bytes();
        rig.edit(
            &key,
            |value| {
                set(value).insert(&member, ());
            },
            Edit::AddMembers(&[&member]),
        );
        let was_there = rig.databases[0].view(&key, 0, |value| match value {
            Some(View::Set(members)) => members.contains(&gone),
            _ => false,
        });
        if was_there {
            rig.edit(
                &key,
                |value| {
                    set(value).remove(&gone);
                },
                Edit::RemoveMembers(&[&gone]),
            );
        }
        rig.commit().unwrap();
        most = most.max(rig.log.stats(&rig.databases).disk_bytes);
    }
    let live = rig.log.stats(&rig.databases).live_bytes;
    let expected = rig.held();
    assert!(most <= live + live / 2 + FIXED_BYTES, "{most} for {live}");
    let written: usize = journal.files().values().map(Vec::len).sum();
    assert!(written < 4_000 * 2_000, "{written}: nothing was reclaimed");
    drop(rig);
    assert_eq!(Rig::open(&journal, Durability::Process).held(), expected);
}

/// A sweep that went on at the same number would pass over a part of what has this number now.
#[test]
fn reclaiming_passes_over_nothing_when_databases_are_exchanged() {
    let journal = Journal::default();
    let mut rig = Rig::open(&journal, Durability::Process);
    for key in 0..400_u32 {
        for database in 0..2 {
            rig.put(database, &key.to_le_bytes(), members(&["x"]), None);
        }
    }
    rig.commit().unwrap();
    for round in 0..800_u32 {
        let value = Value::String(vec![7; 2_000]);
        rig.put(2, &(round % 40).to_le_bytes(), value, None);
        if round % 10 == 0 {
            rig.databases.swap(0, 1);
            rig.log.exchange(0, 1);
        }
        rig.commit().unwrap();
        // The next sweep would copy what one has passed over, so this is looked at all the time.
        if round % 50 == 0 {
            let crashed = Journal::with_files(journal.files());
            let found = Rig::open(&crashed, Durability::Process).held();
            assert!(found == rig.held(), "round {round}: {} keys", found.len());
        }
    }
}

/// A crash at any step of a rewrite leaves what was committed. At the end, the files hold nothing else.
#[test]
fn rewrite_keeps_what_was_committed_and_removes_the_rest() {
    let journal = Journal::default();
    let mut rig = Rig::open(&journal, Durability::Process);
    for round in 0..40 {
        for key in 0..20_u8 {
            rig.put(0, &[key], Value::String(vec![round; 2_000]), None);
        }
        rig.commit().unwrap();
    }
    let written = |journal: &Journal| journal.files().values().map(Vec::len).sum::<usize>();
    let after_a_crash = || {
        let crashed = Journal::with_files(journal.files());
        Rig::open(&crashed, Durability::Process).held()
    };
    let before = written(&journal);
    let mut committed = rig.held();
    let rewrite = rig.log.begin_rewrite(&mut rig.databases).unwrap();
    // Nothing is written while a change is not committed: its key could be among what is copied.
    rig.put(0, &[1], Value::String(vec![b'n'; 2_000]), None);
    for _ in 0..2 * Keyspace::CURSORS {
        let step = rig.log.rewrite_some(rewrite, &mut rig.databases).unwrap();
        assert_eq!(step, RewriteStep::Writing);
    }
    assert_eq!(after_a_crash(), committed);
    rig.commit().unwrap();
    committed = rig.held();
    let mut steps = 0_u64;
    while rig.log.rewrite_some(rewrite, &mut rig.databases).unwrap() != RewriteStep::Done {
        if steps.is_multiple_of(10_000) {
            assert_eq!(after_a_crash(), committed, "step {steps}");
        }
        steps += 1;
    }
    assert_eq!(after_a_crash(), committed);
    let after = written(&journal);
    assert!(
        steps > Keyspace::CURSORS && after < before / 4,
        "{after} of {before}"
    );
    // Without room there is no rewrite, and nothing else changes.
    journal.fail(Fault::Full, 0, u64::MAX);
    let error = rig.log.begin_rewrite(&mut rig.databases).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    journal.heal();
    rig.put(0, b"more", members(&["x"]), None);
    rig.commit().unwrap();
    assert_eq!(after_a_crash(), rig.held());
}
