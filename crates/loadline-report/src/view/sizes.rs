//! The answer of a sweep over sizes as a sentence.

use loadline_measure::sizes::{Answer, Recommended, SizeRange};
use loadline_measure::words;

/// The result without a full stop, such as "sizes from 500 to 20k can be within 5 % of the best, and all others are
/// slower; 500 is the smallest whose median is, at 0.98x [0.95, 1.02] of the best in 10 rounds".
pub(super) fn sentence(answer: &Answer) -> String {
    match answer {
        Answer::Range(range) => of_range(range),
        Answer::Inconclusive {
            smallest,
            largest,
            rounds,
        } => format!(
            "inconclusive: sizes from {} to {} cannot be told apart in {}",
            words::amount(*smallest),
            words::amount(*largest),
            words::plural(*rounds as u64, "round"),
        ),
    }
}

fn of_range(range: &SizeRange) -> String {
    let rounds = words::plural(range.rounds as u64, "round");
    let [smallest, largest] = [range.smallest, range.largest].map(words::amount);
    let good = if smallest == largest {
        format!("all sizes but {smallest} are more than 5 % slower")
    } else if (range.smallest, range.largest) == range.tried {
        format!("all sizes from {smallest} to {largest} can be within 5 % of the best")
    } else {
        format!(
            "sizes from {smallest} to {largest} can be within 5 % of the best, and all others are slower"
        )
    };
    let of_best = match range.recommended {
        _ if smallest == largest => format!(" in {rounds}"),
        None => format!("; the smallest good size cannot be determined in {rounds}"),
        Some(Recommended {
            size,
            ratio,
            bounds,
        }) => {
            let at = bounds.map_or_else(String::new, |(lo, hi)| {
                let [lo, hi] = [lo, hi].map(words::bound);
                format!(" at {} [{lo}, {hi}] of the best", words::ratio(ratio))
            });
            let size = words::amount(size);
            format!("; {size} is the smallest whose median is,{at} in {rounds}")
        }
    };
    let beyond = if range.largest == range.tried.1 {
        "; larger sizes were not tried"
    } else {
        ""
    };
    format!("{good}{of_best}{beyond}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_states_what_was_tried() {
        let best = |size| Recommended {
            size,
            ratio: 1.0,
            bounds: None,
        };
        let near = |size, ratio: f64| Recommended {
            ratio,
            bounds: Some((ratio, ratio)),
            ..best(size)
        };
        let range = |smallest, largest, recommended, tried| {
            sentence(&Answer::Range(SizeRange {
                smallest,
                largest,
                recommended,
                tried,
                rounds: 10,
            }))
        };
        for (said, expected) in [
            (
                range(100, 1_000, Some(near(100, 0.96)), (1, 10_000)),
                "sizes from 100 to 1k can be within 5 % of the best, and all others are slower; 100 is the smallest whose median is, at 0.96x [0.96, 0.96] of the best in 10 rounds",
            ),
            (
                range(100, 1_000, Some(best(100)), (1, 10_000)),
                "sizes from 100 to 1k can be within 5 % of the best, and all others are slower; 100 is the smallest whose median is, in 10 rounds",
            ),
            (
                range(100, 1_000, None, (1, 10_000)),
                "sizes from 100 to 1k can be within 5 % of the best, and all others are slower; the smallest good size cannot be determined in 10 rounds",
            ),
            (
                range(20_000, 20_000, Some(best(20_000)), (1, 20_000)),
                "all sizes but 20k are more than 5 % slower in 10 rounds; larger sizes were not tried",
            ),
            (
                range(10, 10, Some(best(10)), (1, 100)),
                "all sizes but 10 are more than 5 % slower in 10 rounds",
            ),
            (
                range(1, 100, Some(near(1, 0.98)), (1, 100)),
                "all sizes from 1 to 100 can be within 5 % of the best; 1 is the smallest whose median is, at 0.98x [0.98, 0.98] of the best in 10 rounds; larger sizes were not tried",
            ),
        ] {
            assert_eq!(said, expected);
        }
        let open = Answer::Inconclusive {
            smallest: 1,
            largest: 20_000,
            rounds: 3,
        };
        assert_eq!(
            sentence(&open),
            "inconclusive: sizes from 1 to 20k cannot be told apart in 3 rounds"
        );
    }
}
