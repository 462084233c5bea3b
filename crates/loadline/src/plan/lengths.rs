//! The length of a case and its division into rounds.

use std::time::Duration;

use loadline_load::pacing::Stop;
use loadline_measure::compare::{self, MAX_ROUNDS, MIN_ROUNDS, Rules};

use crate::args::LengthArgs;
use crate::exit::Failure;
use crate::units::duration_text;

const DEFAULT_ROUNDS: u32 = 10;
/// Blocks of each cell of `modes`.
pub(super) const MODES_ROUNDS: u32 = 3;
/// The fewest rounds that compare the sizes of a call in `modes`. With fewer than ten, the bounds for all pairs of the
/// default sizes together are not possible.
pub(super) const SIZE_ROUNDS: u32 = 10;
/// Shorter blocks are dominated by noise; the default rounds are at least this long.
const SHORTEST_BLOCK: Duration = Duration::from_millis(50);
/// Default blocks of targets that are compared: twice the shortest, so that momentary effects do not dominate
/// a median.
const COMPARED_BLOCK: Duration = Duration::from_millis(100);
/// Operations equivalent to the shortest block.
const SMALLEST_BLOCK_OPS: u64 = 4_000;
/// Default time of a run, divided among all cases and targets.
const DEFAULT_BUDGET: Duration = Duration::from_secs(24);
const SHORTEST_DEFAULT: Duration = Duration::from_secs(1);
const LONGEST_DEFAULT: Duration = Duration::from_secs(5);
const LONGEST_WARMUP: Duration = Duration::from_millis(500);
/// A week. A run keeps the figures of every tenth of a second in memory.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);
const MOST_OPS: u64 = 1_000_000_000_000;
/// A quarter of the time that an operation takes at 50,000 per second: the warm-up of a run by
/// operations is about a quarter of its length, as it is for a run by time.
const WARMUP_PER_OP: Duration = Duration::from_micros(5);

/// The length of a case on one target, over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// A number of operations.
    Ops(u64),
    /// A time.
    Time(Duration),
}

impl Length {
    /// End of the block of `round`, counted from 0. The first rounds take the remainder of the division.
    pub(crate) fn block(self, round: u32, rounds: u32) -> Stop {
        match self {
            Self::Ops(ops) => {
                let rounds = u64::from(rounds);
                Stop::after_ops(ops / rounds + u64::from(u64::from(round) < ops % rounds))
            }
            Self::Time(time) => Stop::after(time / rounds),
        }
    }
}

/// The length of each case on each target, the number of rounds, and the warm-up; `measured` is the
/// number of cases times the number of targets.
pub(super) fn resolve(
    args: &LengthArgs,
    measured: usize,
    most_rounds: u32,
) -> Result<(Length, u32, Duration), Failure> {
    for (flag, time) in [("--duration", args.duration), ("--warmup", args.warmup)] {
        if let Some(time) = time.filter(|time| *time > LONGEST) {
            let why = format!(
                "at most {}, because results of every interval are held in memory",
                duration_text(LONGEST)
            );
            return Err(Failure::invalid(flag, "duration", duration_text(time), why));
        }
    }
    let length = match (args.ops, args.duration) {
        (Some(ops), _) if ops > MOST_OPS => {
            let why = format!("at most {MOST_OPS}, which take eleven days at a million per second");
            return Err(Failure::invalid("--ops", "count", ops, why));
        }
        (Some(ops), _) => Length::Ops(ops),
        (None, Some(Duration::ZERO)) => {
            let why = "must be above zero";
            return Err(Failure::invalid("--duration", "duration", "0s", why));
        }
        (None, Some(time)) => Length::Time(time),
        (None, None) => {
            let share = DEFAULT_BUDGET / u32::try_from(measured).unwrap_or(u32::MAX).max(1);
            Length::Time(share.clamp(SHORTEST_DEFAULT, LONGEST_DEFAULT))
        }
    };
    let rounds = match args.rounds {
        Some(rounds) => asked_rounds(rounds, length, most_rounds)?,
        None => default_rounds(length),
    };
    let warmup = args.warmup.unwrap_or_else(|| match length {
        Length::Time(time) => LONGEST_WARMUP.min(time / 4),
        Length::Ops(ops) => u32::try_from(ops).map_or(LONGEST_WARMUP, |ops| {
            LONGEST_WARMUP.min(WARMUP_PER_OP * ops)
        }),
    });
    Ok((length, rounds, warmup))
}

/// The maximum number of rounds of several targets until their ratios are precise, if neither a length nor
/// rounds were given: shorter blocks within the same length. `None` if that is not more than the minimum.
pub(super) fn rounds_until_precise(args: &LengthArgs, length: Length) -> Option<u32> {
    let nothing_asked = args.ops.is_none() && args.duration.is_none() && args.rounds.is_none();
    let Length::Time(time) = length else {
        return None;
    };
    let blocks = (time.as_nanos() / COMPARED_BLOCK.as_nanos()).min(MAX_ROUNDS as u128) as u32;
    (nothing_asked && blocks > MIN_ROUNDS as u32).then_some(blocks)
}

/// Default rounds in which the fastest of `subjects` can be shown to be ahead of all others; a run that is too short for
/// the usual number keeps its own.
pub(super) fn rounds_for_several(rounds: u32, subjects: usize) -> u32 {
    let others = subjects.saturating_sub(1);
    match rounds < DEFAULT_ROUNDS {
        true => rounds,
        false => rounds.max(compare::rounds_for_several(others, Rules::default().alpha)),
    }
}

fn asked_rounds(rounds: u32, length: Length, most_rounds: u32) -> Result<u32, Failure> {
    if rounds > most_rounds {
        let why = format!("at most {most_rounds}, because the histogram of each round is kept");
        return Err(Failure::invalid("--rounds", "count", rounds, why));
    }
    let too_short = match length {
        Length::Ops(ops) => ops < u64::from(rounds),
        Length::Time(time) => time / rounds < Duration::from_millis(1),
    };
    if too_short {
        let why = "too many for a run of this length; use fewer rounds or a longer run";
        return Err(Failure::invalid("--rounds", "count", rounds, why));
    }
    Ok(rounds)
}

fn default_rounds(length: Length) -> u32 {
    blocks(length).min(DEFAULT_ROUNDS)
}

/// The number of sufficiently long blocks in `length`; at least one.
pub(super) fn blocks(length: Length) -> u32 {
    let blocks = match length {
        Length::Ops(ops) => u128::from(ops / SMALLEST_BLOCK_OPS),
        Length::Time(time) => time.as_nanos() / SHORTEST_BLOCK.as_nanos(),
    };
    u32::try_from(blocks).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn args(ops: Option<u64>, duration: Option<Duration>, rounds: Option<u32>) -> LengthArgs {
        LengthArgs {
            ops,
            duration,
            warmup: None,
            rounds,
        }
    }

    #[test]
    fn default_suite_keeps_to_its_budget() {
        let (length, rounds, warmup) = resolve(&args(None, None, None), 8, 100).unwrap();
        let Length::Time(time) = length else {
            panic!("{length:?}")
        };
        assert_eq!((time, rounds), (Duration::from_secs(3), 10));
        assert!((time + warmup) * 8 <= Duration::from_secs(30));
    }

    #[test]
    fn short_runs_have_fewer_rounds_and_less_warmup() {
        let ms = Duration::from_millis;
        for (ops, time, rounds, warmup) in [
            (Some(1_000), None, 1, ms(5)),
            (Some(20_000), None, 5, ms(100)),
            (Some(10_000_000_000), None, 10, ms(500)),
            (None, Some(ms(120)), 2, ms(30)),
            (None, Some(ms(10_000)), 10, ms(500)),
        ] {
            let (_, found_rounds, found_warmup) = resolve(&args(ops, time, None), 1, 100).unwrap();
            assert_eq!(
                (found_rounds, found_warmup),
                (rounds, warmup),
                "{ops:?} {time:?}"
            );
        }
    }

    #[test]
    fn rounds_end_by_precision_where_nothing_was_asked_for() {
        let time = |ms| Length::Time(Duration::from_millis(ms));
        let nothing = args(None, None, None);
        for (length, rounds) in [
            (time(1_000), None),
            (time(1_100), Some(11)),
            (time(3_000), Some(30)),
            (time(5_000), Some(40)),
            (Length::Ops(1_000_000), None),
        ] {
            assert_eq!(rounds_until_precise(&nothing, length), rounds, "{length:?}");
        }
        for asked in [
            args(Some(1_000_000), None, None),
            args(None, Some(Duration::from_secs(3)), None),
            args(None, None, Some(20)),
        ] {
            assert_eq!(rounds_until_precise(&asked, time(3_000)), None, "{asked:?}");
        }
    }

    #[test]
    fn rounds_that_cannot_be_are_refused() {
        assert!(resolve(&args(Some(3), None, Some(4)), 1, 100).is_err());
        assert!(resolve(&args(None, Some(Duration::from_millis(3)), Some(4)), 1, 100).is_err());
        assert!(resolve(&args(None, None, Some(101)), 1, 100).is_err());
        assert!(resolve(&args(None, Some(Duration::ZERO), None), 1, 100).is_err());
        assert!(resolve(&args(None, Some(LONGEST), None), 1, 100).is_ok());
        let longer = LONGEST + Duration::from_nanos(1);
        assert!(resolve(&args(None, Some(longer), None), 1, 100).is_err());
        assert!(resolve(&args(Some(MOST_OPS + 1), None, None), 1, 100).is_err());
        assert_eq!(resolve(&args(Some(4), None, Some(4)), 1, 100).unwrap().1, 4);
    }

    proptest! {
        #[test]
        fn blocks_add_up(ops in 1_u64..1_000_000, rounds in 1_u32..50) {
            let sum: u64 = (0..rounds).filter_map(|round| Length::Ops(ops).block(round, rounds).ops).sum();
            prop_assert_eq!(sum, ops);
        }
    }

    #[test]
    fn more_subjects_take_more_rounds_to_tell_apart() {
        assert_eq!(rounds_for_several(10, 1), 10);
        assert_eq!(rounds_for_several(10, 6), 10);
        assert_eq!(rounds_for_several(10, 7), 11);
        assert_eq!(rounds_for_several(10, 12), 12);
        assert_eq!(rounds_for_several(6, 12), 6);
    }
}
