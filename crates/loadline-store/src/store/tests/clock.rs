//! Keys that have expired, and a clock that is set back.

use super::*;
use crate::clock::{AHEAD_MS, now_ms};
use crate::keyspace::Keyspace;
use crate::store::{ChangeLog, Durability};
use crate::value::View;

/// Does `work` an hour later, and sets the clock back.
fn an_hour_later<R>(work: impl FnOnce() -> R) -> R {
    AHEAD_MS.set(3_600_000);
    let result = work();
    AHEAD_MS.set(0);
    result
}

/// Opens a store in `journal`, and puts keys that expire in a minute.
fn expiring(journal: &Journal) -> Store {
    let store = open(journal, Options::new()).unwrap();
    for number in 0..100_u8 {
        let value = [number; 120];
        let value = &value[..if number % 2 == 0 { 10 } else { 120 }];
        let until = now_ms() + 60_000;
        store.put_until(&[number], value, Some(until)).unwrap();
    }
    store.put(b"lasting", b"1").unwrap();
    store
}

/// The keys of the store that is opened again, after the end of its process.
fn reopened(store: Store, journal: &Journal) -> Vec<Vec<u8>> {
    drop(store);
    let store = open(journal, Options::new()).unwrap();
    held(&store).into_keys().collect()
}

#[test]
fn expired_keys_do_not_return_when_the_clock_goes_back() {
    type Observe = fn(&Store);
    let observe: [(&str, Observe); 5] = [
        ("get", |store| {
            (0..100_u8).for_each(|number| assert_eq!(store.get(&[number]).unwrap(), None));
        }),
        ("get_many", |store| {
            let keys: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
            let values = store.get_many(&keys).unwrap();
            assert!(values.iter().all(Option::is_none));
        }),
        ("scan", |store| assert_eq!(held(store).len(), 1)),
        ("background", |store| {
            let freed = store.inner.keyspace().expire_some(now_ms(), usize::MAX);
            assert_eq!(freed, 100);
        }),
        ("compact", |store| store.compact().unwrap()),
    ];
    for (name, observe) in observe {
        let journal = Journal::default();
        let store = expiring(&journal);
        an_hour_later(|| observe(&store));
        let keys = reopened(store, &journal);
        assert_eq!(keys, [b"lasting"], "{name}: {} keys", keys.len());
    }
}

#[test]
fn keys_that_expired_at_an_opening_do_not_return() {
    let journal = Journal::default();
    drop(expiring(&journal));
    let store = an_hour_later(|| open(&journal, Options::new()).unwrap());
    assert_eq!(reopened(store, &journal), [b"lasting"]);
}

#[test]
fn expired_key_that_was_put_again_stays() {
    let journal = Journal::default();
    let store = expiring(&journal);
    an_hour_later(|| {
        assert_eq!(store.get(&[1]).unwrap(), None);
        store.put(&[1], b"again").unwrap();
        store.put(&[2], b"anew").unwrap();
    });
    let keys = reopened(store, &journal);
    assert!(
        keys.contains(&vec![1]) && keys.contains(&vec![2]),
        "{keys:?}"
    );
}

/// Databases of a server with a key in the first one that expires in a minute.
fn server(journal: &Journal) -> (ChangeLog, Vec<Keyspace>) {
    let (mut log, mut databases) =
        ChangeLog::open_on(Box::new(journal.clone()), &Options::new()).unwrap();
    let until = Some(now_ms() + 60_000);
    databases[0].put_string(b"a", b"1", now_ms(), |_| Some(until));
    log.put_string(0, b"a", b"1", until);
    log.commit(&mut databases).unwrap();
    (log, databases)
}

/// The value of `a` in a database after the server was killed and started again.
fn restarted(log: ChangeLog, journal: &Journal, database: usize) -> Option<Vec<u8>> {
    drop(log);
    let opened = ChangeLog::open_on(Box::new(journal.clone()), &Options::new());
    let (_, databases) = opened.unwrap();
    databases[database].view(b"a", now_ms(), |value| match value {
        Some(View::String(value)) => Some(value.to_vec()),
        _ => None,
    })
}

#[test]
fn expired_key_of_a_server_does_not_return_when_the_clock_goes_back() {
    let journal = Journal::default();
    let (mut log, mut databases) = server(&journal);
    let later = now_ms() + 3_600_000;
    assert!(databases[0].view(b"a", later, |value| value.is_none()));
    log.commit(&mut databases).unwrap();
    assert_eq!(log.durability(), Durability::Process);
    assert_eq!(restarted(log, &journal, 0), None);
}

#[test]
fn expiry_is_logged_before_what_follows_it() {
    let journal = Journal::default();
    let (mut log, mut databases) = server(&journal);
    let later = now_ms() + 3_600_000;
    assert!(databases[0].put_string(b"a", b"2", later, |value| value.is_none().then_some(None)));
    log.put_string(0, b"a", b"2", None);
    log.commit(&mut databases).unwrap();
    assert_eq!(restarted(log, &journal, 0), Some(b"2".to_vec()));
    // Exchanged before it expires, and put where it was.
    let journal = Journal::default();
    let (mut log, mut databases) = server(&journal);
    databases.swap(0, 3);
    log.exchange(0, 3);
    assert!(databases[3].view(b"a", later, |value| value.is_none()));
    databases[0].put_string(b"a", b"3", later, |_| Some(None));
    log.put_string(0, b"a", b"3", None);
    log.commit(&mut databases).unwrap();
    assert_eq!(restarted(log, &journal, 0), Some(b"3".to_vec()));
}
