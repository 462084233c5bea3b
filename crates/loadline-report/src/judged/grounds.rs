//! The evidence for rows.

use loadline_measure::compare::{Paired, Supported};
use loadline_measure::gate::{
    Change, Collapse, Gap, Grounds, JudgedRow, LimitGrounds, Remedy, RepetitionGrounds, RowVerdict,
    RunsFound,
};
use loadline_measure::words;
use loadline_measure::work::{WorkComparison, WorkVerdict};

use crate::paired;

/// The scope of a count of instructions, for every sentence that claims something about it.
const SCOPE: &str = "work in user space, not time: caches, the kernel and waiting are not in it";

/// The evidence `grounds` for a row, without a full stop.
pub(super) fn evidence(row: &JudgedRow, grounds: &Grounds) -> String {
    match grounds {
        Grounds::Nothing => String::new(),
        Grounds::Of(subject, grounds) => format!("{subject}: {}", evidence(row, grounds)),
        Grounds::Limit(grounds) => of_limit(row, grounds),
        Grounds::Gap(gap) => of_gap(*gap).to_owned(),
        Grounds::FewRuns { runs, least } => {
            let missing = least.saturating_sub(*runs);
            format!("the baseline holds {runs} of {least} runs; add {missing} more")
        }
        Grounds::Runs {
            change,
            found,
            remedy,
        } => of_runs(row, change, found) + &remedy.as_ref().map_or_else(String::new, of_remedy),
        Grounds::SingleRuns(change) => of_single_runs(row, change),
        Grounds::Repetitions(grounds) => of_repetitions(grounds),
        Grounds::FewOperations => format!("too few operations for {}", row.metric.name()),
        Grounds::Pair { paired, by_chance } => of_pair(row, paired, *by_chance),
        Grounds::Work(compared) => format!("{} ({SCOPE})", of_work(compared)),
        Grounds::Incomparable(it) => {
            format!(
                "not comparable: {} was {} and is {}",
                it.what, it.was, it.is
            )
        }
        Grounds::NoEstimate(error) => error.to_string(),
        Grounds::NumberOfFewRounds(rounds) => {
            format!("inconclusive: of {rounds} rounds; 8 or more with values above zero are needed")
        }
        Grounds::Number {
            bounds,
            number,
            collapse,
        } => {
            let [least, most, number] =
                [bounds.0, bounds.1, *number].map(|value| words::value(row.metric, value));
            let collapse = collapse.map_or_else(String::new, |it| of_collapse(row, it));
            format!("between {least} and {most}, stated {number}{collapse}")
        }
        Grounds::OtherOperations(driver) => {
            format!("the server counted other operations than {driver} reported")
        }
        Grounds::RatioOfFewRounds { ratio, rounds } => {
            format!("{ratio:.2} in {rounds} rounds, too few for an interval")
        }
        Grounds::Ratio {
            ratio,
            bounds: (lo, hi),
            rounds,
            factor,
        } => {
            let ratio = match Supported::of((*lo, *hi), false) {
                Supported::Ratio => format!("{ratio:.3} [{lo:.3}, {hi:.3}]"),
                _ => format!("between {lo:.3} and {hi:.3}"),
            };
            format!("{ratio} in {rounds} rounds; at least {factor} is required")
        }
    }
}

fn of_limit(row: &JudgedRow, grounds: &LimitGrounds) -> String {
    let limit = row.limit.as_deref().unwrap_or_default();
    let shown = |value: f64| words::value(row.metric, value);
    match grounds {
        LimitGrounds::Kept(value) => format!("{} keeps {limit}", shown(*value)),
        LimitGrounds::Broken(value, None) => format!("{} breaks {limit}", shown(*value)),
        LimitGrounds::Broken(value, Some(again)) => {
            let (value, again) = (shown(*value), shown(*again));
            format!("{value}, and {again} in the second run, break {limit}")
        }
        LimitGrounds::KeptAgain(value, again) => {
            let (value, again) = (shown(*value), shown(*again));
            format!("{value} breaks {limit}, but {again} in the second run keeps it")
        }
        LimitGrounds::BrokenOnce(value) => {
            let value = shown(*value);
            format!("{value} breaks {limit}, but the second run did not measure it")
        }
        LimitGrounds::LoadEnded(ns) => {
            let ended = words::duration(*ns as f64);
            format!("the load ended after {ended}, too early to judge {limit}")
        }
        LimitGrounds::NoCase => {
            format!("no case of this name was measured, so nothing keeps {limit}")
        }
        LimitGrounds::NotMeasured => {
            format!("not measured, or of too few samples, so {limit} cannot be judged")
        }
        LimitGrounds::FewSamples {
            count,
            needed,
            longest_ns,
        } => {
            let longest = longest_ns.map_or_else(String::new, |longest| {
                format!("; the longest took {}", words::duration(longest as f64))
            });
            format!("{count} samples are too few to judge {limit}, which needs {needed}{longest}")
        }
        LimitGrounds::FewRounds(rounds) => {
            format!("inconclusive: {rounds} rounds are too few to judge {limit}")
        }
        LimitGrounds::Bounds(lo, hi) => {
            let between = format!("between {} and {}", shown(*lo), shown(*hi));
            match row.verdict {
                RowVerdict::Critical => format!("{between} breaks {limit}"),
                RowVerdict::Equivalent => format!("{between} keeps {limit}"),
                _ => format!("{between} does not tell whether {limit} is kept"),
            }
        }
    }
}

fn of_repetitions(grounds: &RepetitionGrounds) -> String {
    match grounds {
        RepetitionGrounds::NotInEach => "not measured in every repetition of both".to_owned(),
        RepetitionGrounds::Few(1) => "cannot be judged from one repetition".to_owned(),
        RepetitionGrounds::Few(number) => format!("cannot be judged from {number} repetitions"),
        RepetitionGrounds::Varying => "inconclusive: the repetitions vary too much".to_owned(),
        RepetitionGrounds::LoadEnded => {
            "inconclusive: a load ended before the outage did".to_owned()
        }
        RepetitionGrounds::Longer(least) => format!("longer by at least {}", percent(*least)),
        RepetitionGrounds::Shorter(least) => format!("shorter by at least {}", percent(*least)),
        RepetitionGrounds::AtMostLonger(most) => format!("longer by {} at most", percent(*most)),
        RepetitionGrounds::NewlyTwice(writes) => {
            format!("{writes} executed twice, and none before")
        }
        RepetitionGrounds::NoWrite => "none in any repetition".to_owned(),
        RepetitionGrounds::More(least, most) => {
            format!("at least {least}, and at most {most} before")
        }
        RepetitionGrounds::AtMost(most, least) => {
            format!("at most {most}, and at least {least} before")
        }
    }
}

fn of_gap(gap: Gap) -> &'static str {
    match gap {
        Gap::NotInEveryRound => "the baseline holds it, but it was not measured in every round now",
        Gap::NotCounted => {
            "the baseline holds instructions per operation, but they were not counted now"
        }
        Gap::OtherMachineThanBaseline => {
            "measured on another machine than the baseline, so there is no verdict"
        }
        Gap::OtherMachine => "measured on another machine, so there is no verdict",
        Gap::CpuWait => {
            "inconclusive: server and generator waited for a CPU much longer than before"
        }
        Gap::NoReference => {
            "inconclusive: not measured with the reference in half of the rounds of both"
        }
        Gap::FewRounds => "inconclusive: too few rounds for an interval",
        Gap::NoRow => "one of the rows was not measured",
        Gap::Unpaired => "the rounds cannot be compared",
    }
}

fn of_runs(row: &JudgedRow, change: &Change, found: &RunsFound) -> String {
    let (worse, better) = row.metric.words();
    let [estimate, least, most] = [change.estimate, change.least, change.most].map(percent);
    let changed = format!("{worse} by {estimate}, by at least {least}");
    match found {
        RunsFound::Suspected(runs) => {
            format!("{changed}, than {runs} runs; it counts if a second run agrees")
        }
        RunsFound::ByChance => {
            format!("{changed}, in both runs, but not significant over all metrics")
        }
        RunsFound::Worse(runs) => format!("{changed}, than {runs} runs, in both runs"),
        RunsFound::Better => format!("{better} by at least {}", percent(-change.most)),
        RunsFound::Disagreeing => {
            format!("{changed}, both runs together, but they do not agree")
        }
        RunsFound::Slightly => format!("{changed}, which is below what warns"),
        RunsFound::Below(warning) => {
            format!("{worse} by {most} at most, less than {}", percent(*warning))
        }
        RunsFound::Open(margin) => format!(
            "inconclusive: between {least} and {most} {worse}, margin {}",
            percent(*margin)
        ),
    }
}

fn of_remedy(remedy: &Remedy) -> String {
    match remedy {
        Remedy::AddRuns => "; the echo differs from that of every run of the baseline: `baseline add` runs under the present conditions".to_owned(),
        Remedy::Runs { runs, more, share } => {
            format!("; {runs} runs ({more} more) can detect {}", percent(*share))
        }
        Remedy::None(share) => format!(
            "; no number of runs can detect {}: compare in pairs",
            percent(*share)
        ),
        Remedy::FreeCpus(then, now) => format!(
            "; server and generator waited for a CPU {} of the time, {} in the baseline: measure with free CPUs, or compare in pairs",
            percent(*now),
            percent(*then)
        ),
    }
}

fn of_single_runs(row: &JudgedRow, change: &Change) -> String {
    let (worse, better) = row.metric.words();
    let [least, most] = [change.least, change.most].map(percent);
    match row.verdict {
        RowVerdict::Slower => format!("{worse} by at least {least}, in one run each"),
        RowVerdict::Faster => {
            let least = percent(-change.most);
            format!("{better} by at least {least}, in one run each")
        }
        RowVerdict::Equivalent => format!("{worse} by {most} at most, in one run each"),
        _ => format!(
            "inconclusive: between {least} and {most} {worse}, room for how runs differ included"
        ),
    }
}

/// A comparison in the words of its metric: a cost is higher, not slower.
fn of_pair(row: &JudgedRow, paired: &Paired, by_chance: bool) -> String {
    let (worse, better) = row.metric.words();
    let mut text = paired::verdict(paired);
    text = text.replace("slower", worse).replace("faster", better);
    if by_chance {
        text += ", but not significant over all comparisons";
    }
    text + &paired::beside_totals(paired, row.baseline, row.candidate)
}

/// A comparison of instructions per operation.
fn of_work(compared: &WorkComparison) -> String {
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let (ratio, lo, hi) = (
        change(compared.ratio),
        change(compared.lo),
        change(compared.hi),
    );
    match compared.verdict {
        WorkVerdict::More => {
            format!("{ratio:.1} % more instructions per operation [{lo:.1}, {hi:.1}]")
        }
        WorkVerdict::Fewer => format!(
            "{:.1} % fewer instructions per operation [{:.1}, {:.1}]",
            -ratio, -hi, -lo
        ),
        WorkVerdict::Same => {
            format!("as many instructions per operation ({ratio:+.1} % [{lo:.1}, {hi:.1}])")
        }
        WorkVerdict::Inconclusive => {
            format!("inconclusive: {ratio:+.1} % instructions per operation [{lo:.1}, {hi:.1}]")
        }
    }
}

fn of_collapse(row: &JudgedRow, collapse: Collapse) -> String {
    match collapse {
        Collapse::BelowMinimum(least) => {
            let least = words::value(row.metric, least);
            format!(", below the minimum of {least}")
        }
        Collapse::BelowHalf => ", below half of it".to_owned(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
