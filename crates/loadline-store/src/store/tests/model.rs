//! Random operations against a map, with the store opened again in between.

use proptest::prelude::*;

use super::*;
use crate::store::{Batch, Durability};

#[derive(Debug, Clone)]
pub(super) enum Step {
    Put(u8, Vec<u8>),
    Delete(u8),
    Swap(u8, Option<Vec<u8>>),
    /// Puts and deletions.
    Apply(Vec<(u8, Option<Vec<u8>>)>),
    Sync,
    /// The work of the thread in the background when nothing was written for a while.
    Rest,
    Compact,
    Reopen,
}

pub(super) fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..24_u8;
    let value = || {
        let short = proptest::collection::vec(any::<u8>(), 0..8);
        // Long enough to fill segments, and to be kept in the log only.
        prop_oneof![8 => short, 1 => any::<u8>().prop_map(|byte| vec![byte; 3000])]
    };
    let write = (key(), proptest::option::weighted(0.7, value()));
    let step = prop_oneof![
        20 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        6 => key().prop_map(Step::Delete),
        4 => (key(), proptest::option::of(value())).prop_map(|(key, value)| Step::Swap(key, value)),
        6 => proptest::collection::vec(write, 1..12).prop_map(Step::Apply),
        2 => Just(Step::Sync),
        1 => Just(Step::Rest),
        1 => Just(Step::Compact),
        2 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..count)
}

/// Performs a step on a store, unless it is to open it again.
pub(super) fn perform(store: &Store, step: &Step, map: &Map) -> Result<(), Error> {
    match step {
        Step::Put(key, value) => store.put(&[*key], value),
        Step::Delete(key) => store.delete(&[*key]).map(drop),
        Step::Swap(key, value) => {
            let expected = map.get(&vec![*key]).map(Vec::as_slice);
            let swapped = store.compare_and_swap(&[*key], expected, value.as_deref())?;
            assert!(swapped);
            Ok(())
        }
        Step::Apply(writes) => {
            let mut batch = Batch::new();
            for (key, value) in writes {
                match value {
                    Some(value) => batch.put(&[*key], value),
                    None => batch.delete(&[*key]),
                };
            }
            store.apply(&batch)
        }
        Step::Sync => store.sync(),
        Step::Rest => {
            rest(store);
            Ok(())
        }
        Step::Compact => store.compact(),
        Step::Reopen => Ok(()),
    }
}

/// The same on the map.
pub(super) fn expect(map: &mut Map, step: &Step) {
    let mut set = |key: u8, value: &Option<Vec<u8>>| {
        match value {
            Some(value) => map.insert(vec![key], value.clone()),
            None => map.remove(&vec![key]),
        };
    };
    match step {
        Step::Put(key, value) => set(*key, &Some(value.clone())),
        Step::Delete(key) => set(*key, &None),
        Step::Swap(key, value) => set(*key, value),
        Step::Apply(writes) => writes.iter().for_each(|(key, value)| set(*key, value)),
        Step::Sync | Step::Rest | Step::Compact | Step::Reopen => {}
    }
}

fn check(steps: &[Step], options: &Options) {
    let journal = Journal::default();
    let mut store = open(&journal, options.clone()).unwrap();
    let mut map = Map::new();
    for step in steps {
        perform(&store, step, &map).unwrap();
        expect(&mut map, step);
        if matches!(step, Step::Reopen) {
            drop(store);
            store = open(&journal, options.clone()).unwrap();
            assert_eq!(store.stats().torn, None);
        }
        assert_eq!(held(&store), map);
        let keys: Vec<[u8; 1]> = (0..25).rev().map(|key| [key]).collect();
        let values = keys.iter().map(|key| map.get(&key[..]).cloned());
        assert!(values.eq(store.get_many(&keys).unwrap()));
        let live = store.stats().live_bytes;
        drop(store);
        // Counting step by step gives the same as counting from the beginning.
        store = open(&journal, options.clone()).unwrap();
        assert_eq!(store.stats().live_bytes, live);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 5_000 } else { 16 }))]

    #[test]
    fn store_holds_what_a_map_would(steps in steps(60)) {
        check(&steps, &Options::new());
    }

    #[test]
    fn durable_store_holds_what_a_map_would(steps in steps(60)) {
        check(&steps, &Options::new().durability(Durability::Always));
    }
}
