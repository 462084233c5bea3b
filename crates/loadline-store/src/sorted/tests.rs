//! Sorted sets beside a plain list that is sorted again after every change.

use super::*;
use proptest::prelude::*;

/// The members in order.
#[derive(Debug, Default)]
struct Naive(Vec<(Vec<u8>, f64)>);

impl Naive {
    fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.remove(member);
        self.0.push((member.to_vec(), score));
        self.0
            .sort_by(|one, other| order((one.1, &one.0), (other.1, &other.0)));
        old
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let at = self.0.iter().position(|(other, _)| other == member)?;
        Some(self.0.remove(at).1)
    }

    fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let rank = self.0.iter().position(|(other, _)| other == member)?;
        Some((rank, self.0[rank].1))
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u16, f64),
    InsertMany(u16, u16),
    Remove(u16),
    RemoveRange(u16, u16),
    Unpack,
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-3..4_i8).prop_map(f64::from),
        2 => any::<i64>().prop_map(|number| (number >> (number & 63)) as f64),
        1 => any::<f32>().prop_filter("a number", |score| !score.is_nan()).prop_map(f64::from),
        1 => any::<f64>().prop_filter("a number", |score| !score.is_nan()),
        1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)],
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = 0..400_u16;
    let step = prop_oneof![
        12 => (member.clone(), score()).prop_map(|(member, score)| Step::Insert(member, score)),
        2 => (member.clone(), 0..300_u16).prop_map(|(first, count)| Step::InsertMany(first, count)),
        6 => member.clone().prop_map(Step::Remove),
        2 => (member.clone(), 0..200_u16).prop_map(|(first, count)| Step::RemoveRange(first, count)),
        1 => Just(Step::Unpack),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A name of which the length depends on the number.
fn name(member: u16) -> Vec<u8> {
    format!("{member:0width$}", width = usize::from(member % 200)).into_bytes()
}

fn same(set: &SortedSet, naive: &Naive) {
    if let Form::Large(large) = &set.0 {
        large.check();
    }
    let all: Vec<_> = set
        .view()
        .iter()
        .map(|(name, score)| (name.to_vec(), score))
        .collect();
    assert_eq!(all, naive.0);
    let view = set.view();
    assert_eq!((view.len(), view.is_empty()), (all.len(), all.is_empty()));
    for start in [0, 1, all.len() / 2, all.len()] {
        for end in [start, all.len().saturating_sub(1), all.len(), all.len() + 3] {
            let part = all.get(start..end.min(all.len())).unwrap_or_default();
            let expected: Vec<(&[u8], f64)> =
                part.iter().map(|(name, score)| (&**name, *score)).collect();
            assert!(view.range(start..end).eq(expected.iter().copied()));
            assert!(
                view.range_reversed(start..end)
                    .eq(expected.iter().rev().copied())
            );
        }
        assert_eq!(
            view.get(start).map(|(name, _)| name),
            all.get(start).map(|(name, _)| &**name)
        );
    }
}

proptest! {
    /// Pages from the last place to the first, with changes between them.
    #[test]
    fn members_that_stay_are_on_a_page(
        count in 1..300_u16,
        size in 1..40_usize,
        changes in proptest::collection::vec((0..300_u16, proptest::option::of(score())), 0..100),
    ) {
        let mut set = SortedSet::new();
        for member in 0..count {
            set.insert(&name(member), f64::from(member % 7));
        }
        set.unpack();
        let (mut stay, mut seen): (Vec<u16>, Vec<Vec<u8>>) = ((0..count).collect(), Vec::new());
        let (mut end, mut changes) = (set.len(), changes.into_iter());
        while end > 0 {
            end = end.min(set.len());
            let begin = end.saturating_sub(size);
            seen.extend(set.view().page(begin..end).map(|(name, _)| name.to_vec()));
            end = begin;
            for (member, score) in changes.by_ref().take(3) {
                match score {
                    Some(score) => {
                        set.insert(&name(member), score);
                    }
                    None => {
                        set.remove(&name(member));
                        stay.retain(|other| *other != member);
                    }
                }
            }
        }
        for member in stay {
            prop_assert!(seen.contains(&name(member)), "{member}");
        }
    }

    #[test]
    fn sorted_sets_do_what_a_sorted_list_does(steps in steps(), probes in proptest::collection::vec((0..400_u16, score()), 8)) {
        let (mut set, mut naive) = (SortedSet::new(), Naive::default());
        for step in steps {
            match step {
                Step::Insert(member, score) => {
                    let score = if set.is_packed() { score + 0.0 } else { score };
                    prop_assert_eq!(set.insert(&name(member), score), naive.insert(&name(member), score));
                }
                Step::InsertMany(first, count) => {
                    for member in first..first + count {
                        let score = f64::from(member % 50);
                        prop_assert_eq!(set.insert(&name(member), score), naive.insert(&name(member), score));
                    }
                }
                Step::Remove(member) => {
                    prop_assert_eq!(set.remove(&name(member)), naive.remove(&name(member)));
                }
                Step::RemoveRange(first, count) => {
                    let (start, end) = (usize::from(first), usize::from(first + count));
                    let kept = naive.0.len();
                    set.remove_range(start..end);
                    naive.0.drain(start.min(kept)..end.min(kept));
                }
                Step::Unpack => set.unpack(),
            }
            same(&set, &naive);
        }
        for (member, score) in probes {
            let member = name(member);
            prop_assert_eq!(set.view().rank(&member), naive.rank(&member));
            prop_assert_eq!(set.view().score(&member), naive.rank(&member).map(|(_, score)| score));
            let before = naive.0.iter().take_while(|(_, other)| *other < score).count();
            let behind = naive.0.iter().take_while(|(_, other)| *other <= score + 1.0).count();
            let between = set.view().between(|_, other| other < score, |_, other| other > score + 1.0);
            let reversed = set.view().between_reversed(|_, other| other < score, |_, other| other > score + 1.0);
            prop_assert_eq!(reversed.len(), between.len());
            prop_assert_eq!(between.len(), behind.saturating_sub(before));
            prop_assert!(between.is_empty() || (between.start == before && reversed == between));
        }
        let copy = set.view().to_set();
        prop_assert!(copy == set);
    }
}

#[test]
fn members_that_go_leave_no_room_behind() {
    let mut set = SortedSet::new();
    set.unpack();
    for number in 0..50_000_u32 {
        set.insert(&number.to_le_bytes(), f64::from(number % 1_000));
    }
    let full = set.memory_bytes();
    assert!(full < 50_000 * 60, "{full}");
    for number in 0..49_990_u32 {
        assert!(set.remove(&number.to_le_bytes()).is_some());
    }
    assert!(
        set.memory_bytes() < full / 500,
        "{} of {full}",
        set.memory_bytes()
    );
    assert_eq!(set.len(), 10);
}

#[test]
fn small_scores_take_few_bytes() {
    let mut set = SortedSet::new();
    for (score, bytes) in [
        (7.0, 1),
        (-1.0, 4),
        (300.0, 2),
        (1e6, 4),
        (0.5, 5),
        (1.7e12, 7),
        (0.1, 9),
    ] {
        set.insert(b"m", score);
        let Form::Packed(packed) = &set.0 else {
            panic!("a set is packed until it is unpacked");
        };
        assert_eq!(packed.len(), 1 + bytes + 2, "{score}");
    }
}
