//! Files that nothing of ours has written.

use proptest::prelude::*;

use super::*;
use crate::log::hint::Hints;
use crate::log::record::Draft;
use crate::log::recovery;
use crate::log::segment::{Head, name};

/// A segment with these bodies, all checksums being right.
fn segment(head: Head, bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut file = head.encode().to_vec();
    let mut draft = Draft::default();
    for (number, body) in (0..).zip(bodies) {
        draft.begin().extend_from_slice(body);
        draft.finish();
        file.extend_from_slice(draft.seal(head.salt, head.sequence.wrapping_add(number), 0));
    }
    file
}

fn heads() -> impl Strategy<Value = Head> {
    let number = || prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()];
    (1..4_u32, 0..4_u32, number(), number()).prop_map(|(id, oldest, position, sequence)| Head {
        id,
        oldest,
        position,
        sequence,
        salt: 7,
    })
}

/// Opens the files, if need be after a repair, and uses what opened.
fn use_files(files: BTreeMap<String, Vec<u8>>) {
    let journal = Journal::with_files(files);
    let store = open(&journal, Options::new()).or_else(|error| {
        let examined = recovery::examine(&journal, Hints::Compare).map_err(|_| error)?;
        recovery::recover(&journal, examined, true).unwrap();
        Ok::<_, Error>(open(&journal, Options::new()).unwrap())
    });
    if let Ok(store) = store {
        let before = held(&store);
        store.put(b"k", &[1; 200]).unwrap();
        store.compact().unwrap();
        let expected = held(&store);
        assert!(expected.len() >= before.len());
        drop(store);
        assert_eq!(held(&open(&journal, Options::new()).unwrap()), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 100_000 } else { 64 }))]

    #[test]
    fn any_operations_with_right_checksums_are_read_without_a_panic(
        heads in proptest::collection::vec(heads(), 1..3),
        bodies in proptest::collection::vec(proptest::collection::vec(0..24_u8, 1..40), 0..6),
    ) {
        let files = heads.iter().map(|head| (name(head.id), segment(*head, &bodies)));
        use_files(files.collect());
    }

    #[test]
    fn changed_files_are_read_without_a_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
        cuts: bool,
    ) {
        let journal = Journal::default();
        let store = open(&journal, Options::new()).unwrap();
        for number in 0..40_u8 {
            store.put(&[number % 7], &vec![number; usize::from(number) * 90]).unwrap();
        }
        drop(store);
        let mut files = journal.files();
        for (place, byte) in changes {
            let bytes: usize = files.values().map(Vec::len).sum();
            let mut place = place.index(bytes);
            for file in files.values_mut() {
                match file.get_mut(place) {
                    Some(changed) => {
                        *changed = byte;
                        break;
                    }
                    None => place -= file.len(),
                }
            }
        }
        if cuts && let Some(mut last) = files.last_entry() {
            let bytes = cut.index(last.get().len());
            last.get_mut().truncate(bytes);
        }
        use_files(files);
    }
}
