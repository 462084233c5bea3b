use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Rounds of two subjects of which the second has `ratio` times the metric of the first. The machine
/// makes whole rounds several times slower, and single blocks by up to `noise`.
fn rounds(ratio: f64, noise: f64, n: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut block = |level: f64| level * (noise * rng.random_range(-1.0..1.0_f64)).exp();
    (0..n)
        .map(|round| 100.0 * (1.0 + (round % 3) as f64))
        .map(|level| (block(level), block(level * ratio)))
        .unzip()
}

fn verdict(ratio: f64, direction: Direction) -> Verdict {
    let (a, b) = rounds(ratio, 0.01, 24, 1);
    paired(&a, &b, direction, &Rules::default())
        .unwrap()
        .verdict
}

#[test]
fn ratio_is_found_through_the_noise_of_the_machine() {
    let (a, b) = rounds(1.42, 0.03, 24, 2);
    let found = paired(&a, &b, Direction::LessIsBetter, &Rules::default()).unwrap();
    let (lo, hi) = found.interval.unwrap();
    assert!((found.ratio - 1.42).abs() < 0.03, "{found:?}");
    assert!(lo < 1.42 && 1.42 < hi && hi - lo < 0.15, "{found:?}");
    assert_eq!(
        (found.verdict, found.rounds, found.rounds_slower),
        (Verdict::Slower, 24, 24)
    );
}

#[test]
fn verdicts_follow_the_direction_of_the_metric() {
    for (ratio, less, more) in [
        (1.10, Verdict::Slower, Verdict::Faster),
        (0.90, Verdict::Faster, Verdict::Slower),
        (1.00, Verdict::Equivalent, Verdict::Equivalent),
    ] {
        assert_eq!(verdict(ratio, Direction::LessIsBetter), less, "{ratio}");
        assert_eq!(verdict(ratio, Direction::MoreIsBetter), more, "{ratio}");
    }
}

#[test]
fn wide_interval_is_inconclusive_in_both_directions() {
    let (a, b) = rounds(1.04, 0.3, 24, 3);
    for direction in [Direction::LessIsBetter, Direction::MoreIsBetter] {
        assert_eq!(
            paired(&a, &b, direction, &Rules::default())
                .unwrap()
                .verdict,
            Verdict::Inconclusive
        );
    }
}

#[test]
fn large_improvement_that_is_uncertain_is_not_called_the_same() {
    let bounds = (-0.30_f64, 0.01);
    assert_eq!(judge(bounds, &Rules::default()), Verdict::Inconclusive);
}

#[test]
fn bounds_are_the_sixth_values_from_both_ends_at_24_rounds() {
    let a = vec![1.0; 24];
    let b: Vec<f64> = (1..=24).map(|i| 1.0 + f64::from(i) / 100.0).collect();
    let found = paired(&a, &b, Direction::LessIsBetter, &Rules::default()).unwrap();
    let (lo, hi) = found.interval.unwrap();
    assert!(
        (lo - 1.06).abs() < 1e-12 && (hi - 1.19).abs() < 1e-12,
        "{lo} {hi}"
    );
    let half = (1.19_f64.ln() - 1.06_f64.ln()) / 2.0;
    assert!((found.half_width.unwrap() - half).abs() < 1e-12);
    let effect = 1.02 * half.exp() - 1.0;
    assert!((found.minimum_detectable_effect.unwrap() - effect).abs() < 1e-12);
}

#[test]
fn verdicts_count_the_rounds_beyond_the_margin() {
    let a = vec![100.0; 24];
    let mut b = vec![110.0; 24];
    b[..5].fill(101.0);
    let counted = |b: &[f64], direction| {
        let found = paired(&a[..b.len()], b, direction, &Rules::default()).unwrap();
        (found.verdict, found.rounds_slower, found.rounds_faster)
    };
    let less = Direction::LessIsBetter;
    assert_eq!(counted(&b, less), (Verdict::Slower, 19, 0));
    let more = Direction::MoreIsBetter;
    assert_eq!(counted(&b, more), (Verdict::Faster, 0, 19));
    assert_eq!(counted(&a, less), (Verdict::Equivalent, 0, 0));
    assert_eq!(counted(&b[..4], less), (Verdict::Inconclusive, 0, 0));
    b[..12].fill(80.0);
    assert_eq!(counted(&b, less), (Verdict::Inconclusive, 12, 12));
}

#[test]
fn unpaired_or_nonpositive_values_are_refused() {
    let compare = |a: &[f64], b: &[f64]| paired(a, b, Direction::LessIsBetter, &Rules::default());
    assert!(matches!(
        compare(&[1.0], &[]),
        Err(Error::Unpaired { a: 1, b: 0 })
    ));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            matches!(
                compare(&[1.0, 1.0], &[1.0, bad]),
                Err(Error::NotPositive { round: 1, .. })
            ),
            "{bad}"
        );
        assert!(
            matches!(
                compare(&[bad], &[1.0]),
                Err(Error::NotPositive { round: 0, .. })
            ),
            "{bad}"
        );
    }
    assert_eq!(compare(&[], &[]).unwrap().verdict, Verdict::Inconclusive);
}

#[test]
fn stops_on_precision_from_ten_rounds_and_always_at_forty() {
    let quiet = |n: usize| vec![0.01; n];
    assert!(!precise_enough(&quiet(9)));
    assert!(precise_enough(&quiet(10)));
    let loud = |n: usize| {
        (0..n)
            .map(|i| if i % 2 == 0 { 0.1 } else { -0.1 })
            .collect::<Vec<f64>>()
    };
    assert!(!precise_enough(&loud(39)));
    assert!(precise_enough(&loud(40)));
    let mut edge = quiet(10);
    edge[0] = 0.01 + 2.0 * 1.015_f64.ln() + 1e-6;
    assert!(!precise_enough(&edge), "the half-width is just above 1.5 %");
    edge[0] -= 2e-6;
    assert!(precise_enough(&edge), "the half-width is just below 1.5 %");
}

#[test]
fn significant_difference_is_no_reason_to_stop() {
    let (a, b) = rounds(2.0, 0.2, 20, 4);
    assert_eq!(
        paired(&a, &b, Direction::LessIsBetter, &Rules::default())
            .unwrap()
            .verdict,
        Verdict::Slower
    );
    assert!(!precise_enough(&log_ratios(&a, &b).unwrap()));
}

#[test]
fn more_comparisons_need_more_rounds() {
    // One in ten may say otherwise: pbinom(1, 12, .5) = 0.32 % suffices for one comparison,
    // pbinom(1, 14, .5) = 0.09 % for three, and pbinom(2, 22, .5) = 0.006 % for sixty.
    for (comparisons, rounds) in [(0, 12), (1, 12), (3, 14), (60, 22)] {
        assert_eq!(rounds_for(comparisons), rounds, "{comparisons}");
    }
    assert!(rounds_for(usize::MAX) == MAX_ROUNDS);
}

#[test]
fn gate_stops_when_its_comparisons_can_stand_and_are_narrow() {
    let quiet = |n: usize| vec![0.01; n];
    assert!(!precise_for(&quiet(13), 3));
    assert!(precise_for(&quiet(14), 3));
    assert!(!precise_for(&quiet(21), 60));
    assert!(precise_for(&quiet(22), 60));
    let apart = |n: usize, by: f64| {
        let side = |i: usize| if i.is_multiple_of(2) { by } else { -by };
        (0..n).map(side).collect::<Vec<f64>>()
    };
    assert!(precise_for(&apart(22, 0.0099), 3));
    assert!(!precise_for(&apart(39, 0.0101), 3));
    assert!(precise_for(&apart(40, 0.0101), 3));
}

#[test]
fn holm_adjusts_as_r_does() {
    // p.adjust(c(.01, .04, .03, .005), "holm") in R: 0.03 0.06 0.06 0.02
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
    }
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

#[test]
fn narrow_win_among_several_metrics_is_taken_back() {
    let slower_in = |n: usize| {
        let b: Vec<f64> = (0..24).map(|i| if i < n { 110.0 } else { 100.0 }).collect();
        paired(&[100.0; 24], &b, Direction::LessIsBetter, &Rules::default()).unwrap()
    };
    // 19 of 24 has a p-value of 0.33 %: enough alone, not among four. 24 of 24 is.
    let mut alone = [slower_in(19)];
    correct_for_several(&mut alone, ALPHA);
    assert_eq!(alone[0].verdict, Verdict::Slower);
    let mut family = [slower_in(19), slower_in(24), slower_in(0), slower_in(0)];
    correct_for_several(&mut family, ALPHA);
    let verdicts = family.map(|paired| paired.verdict);
    assert_eq!(
        verdicts,
        [
            Verdict::Inconclusive,
            Verdict::Slower,
            Verdict::Equivalent,
            Verdict::Equivalent
        ]
    );
}

#[test]
fn no_false_alarm_in_two_thousand_comparisons_of_the_same_with_the_same() {
    let alarms = (0..2_000)
        .map(|seed| rounds(1.0, 0.1, 24, seed))
        .filter(|(a, b)| {
            let found = paired(a, b, Direction::LessIsBetter, &Rules::default()).unwrap();
            matches!(found.verdict, Verdict::Slower | Verdict::Faster)
        })
        .count();
    assert!(
        alarms <= 8,
        "{alarms} alarms: each side may err in one of 200, and the margin guards both"
    );
}

proptest! {
    #[test]
    fn swapping_the_subjects_turns_the_verdict_round(
        rounds in prop::collection::vec((1.0..100.0_f64, 1.0..100.0_f64), 8..40),
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        let there = paired(&a, &b, Direction::LessIsBetter, &Rules::default()).unwrap();
        let back = paired(&b, &a, Direction::LessIsBetter, &Rules::default()).unwrap();
        let turned = match there.verdict {
            Verdict::Slower => Verdict::Faster,
            Verdict::Faster => Verdict::Slower,
            other => other,
        };
        prop_assert_eq!(back.verdict, turned);
        prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
        prop_assert_eq!((there.rounds_slower, there.rounds_faster), (back.rounds_faster, back.rounds_slower));
    }
}

#[test]
fn rounds_for_several_are_the_fewest_that_can_tell_them_apart() {
    let alpha = Rules::default().alpha;
    for family in 1..40 {
        let rounds = rounds_for_several(family, alpha);
        let verdicts = |rounds: u32| {
            let (slow, fast) = (vec![1.0; rounds as usize], vec![2.0; rounds as usize]);
            let paired = paired(&slow, &fast, Direction::MoreIsBetter, &Rules::default());
            let mut all = vec![paired.unwrap(); family];
            correct_for_several(&mut all, alpha);
            all.into_iter().map(|one| one.verdict).collect::<Vec<_>>()
        };
        let faster = vec![Verdict::Faster; family];
        assert_eq!(verdicts(rounds), faster, "{family}");
        assert_ne!(verdicts(rounds - 1), faster, "{family}");
    }
}

#[test]
fn ratio_is_supported_as_far_as_a_against_a_would_be_level() {
    let of = Supported::of;
    assert_eq!(of((1.2, 1.6), false), Supported::Ratio);
    assert_eq!(of((0.9, 1.1), true), Supported::Ratio);
    assert_eq!(of((1.2, 121.99), false), Supported::Bound(1.2));
    assert_eq!(of((0.007, 0.8), false), Supported::Bound(0.8));
    assert_eq!(of((1.2, 121.99), true), Supported::Nothing);
    for bounds in [(0.007, 121.99), (f64::NAN, 2.0), (0.0, f64::INFINITY)] {
        assert_eq!(of(bounds, false), Supported::Nothing, "{bounds:?}");
    }
}
