//! The time that a plan takes, printed before it starts.

use std::time::Duration;

use super::schedule::RoundsEnd;
use super::{Case, Length, Plan};
use crate::spelling::Target;
use crate::units::rough_duration_text;

/// Opening a target, loading its keys and closing it.
const OPENING: Duration = Duration::from_millis(600);
/// The same for our own server.
const OPENING_EMBEDDED: Duration = Duration::from_millis(150);
/// The usual part of the rounds that can follow the planned ones.
const EXTENSION: u32 = 4;
/// A block of the reference.
const REFERENCE: Duration = Duration::from_millis(40);
/// A block of operations one at a time, for the tail.
const TAIL: Duration = Duration::from_millis(100);
/// Counting instructions, unless counts were requested: it begins no case after eight seconds.
pub(in crate::plan) const COUNTING: Duration = Duration::from_secs(12);
/// Counting them for a single case.
const COUNTING_CASE: Duration = Duration::from_millis(2_500);

/// The part of a command's time that grows with the time that work on a CPU takes: starting, loading and counting, and the
/// rounds that follow where the planned ones are not precise enough. Measured for the commands with defaults at loads of 3
/// to 7 on two CPUs: 0.4 to 0.6 of it.
const SHARE_OF_WORK: f64 = 0.5;
/// The largest slowdown that is believed: a short look at the CPUs says little of the minutes that follow.
const MOST_SLOWDOWN: f64 = 4.0;
/// From this one on, the estimate differs by more than noise.
const LEAST_SLOWDOWN: f64 = 1.2;

/// The expected duration of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) most: Duration,
    /// Whether it can end earlier, because blocks or rounds end as soon as they have enough.
    pub(crate) is_limit: bool,
}

impl Estimate {
    /// The estimate of a duration that is known.
    pub(crate) fn about(time: Duration) -> Self {
        Self {
            most: time,
            is_limit: false,
        }
    }

    /// The estimate of `times` repetitions.
    pub(crate) fn times(self, times: u32) -> Self {
        Self {
            most: self.most * times,
            ..self
        }
    }

    /// The estimate of two parts, one after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            most: self.most + other.most,
            is_limit: self.is_limit || other.is_limit,
        }
    }

    /// The sentence for a machine on which work on a CPU takes `slowdown` times as long as on one that is idle.
    pub(crate) fn sentence_beside(self, slowdown: f64) -> String {
        if slowdown < LEAST_SLOWDOWN {
            return self.sentence();
        }
        let factor = 1.0 + (slowdown.min(MOST_SLOWDOWN) - 1.0) * SHARE_OF_WORK;
        let longer = Self {
            most: self.most.mul_f64(factor),
            ..self
        };
        format!("{}, since other programs use the CPUs", longer.sentence())
    }

    /// Such as `takes about 35 s` or `takes up to 2 min`.
    pub(crate) fn sentence(self) -> String {
        let word = if self.is_limit { "up to" } else { "about" };
        format!("takes {word} {}", rough_duration_text(self.most))
    }
}

impl Plan {
    /// The expected duration. `None` if the plan has a number of operations, whose time depends on the target.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        let blocks = self.cases.iter().map(|case| self.time_of(case));
        let blocks: Duration = blocks.sum::<Option<Duration>>()?;
        let schedule = &self.schedule;
        let warmup = self.warmup * self.cases.len() as u32;
        let targets = self.targets.iter().map(|target| warmup + opening(target));
        let targets = targets.sum::<Duration>() * schedule.generations;
        // A server that runs already cannot be counted.
        let is_counted = schedule.instructions.is_asked().is_some()
            && self.targets.iter().all(Target::is_started);
        let counting = match is_counted {
            true => COUNTING.min(COUNTING_CASE * self.cases.len() as u32),
            false => Duration::ZERO,
        };
        Some(Estimate {
            most: blocks + targets + counting,
            is_limit: schedule.end == RoundsEnd::OncePrecise,
        })
    }

    /// All rounds of a case, with a part of those that follow only if the planned ones are not precise enough.
    fn time_of(&self, case: &Case) -> Option<Duration> {
        let Length::Time(time) = case.length else {
            return None;
        };
        let (rounds, schedule) = (self.rounds.max(1), &self.schedule);
        let mut target = time / rounds;
        if schedule.has_tails() && case.has_tail() {
            target += TAIL;
        }
        let mut round = target * self.targets.len() as u32;
        if schedule.has_reference() {
            round += REFERENCE;
        }
        Some(round * (self.rounds + schedule.more_rounds() / EXTENSION))
    }
}

fn opening(target: &Target) -> Duration {
    match target {
        Target::Embedded | Target::Slowed(_) => OPENING_EMBEDDED,
        _ => OPENING,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::plan::{Surroundings, resolve, resolve_compare};

    fn run(words: &[&str]) -> Option<Estimate> {
        let words = ["loadline", "run"].iter().chain(words);
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is a run");
        };
        resolve(&args, &Surroundings::of_tests())
            .unwrap()
            .estimate()
    }

    /// Four cases on two targets, 3 s each with a warm-up of 500 ms: 28 s, and 0.8 s for opening.
    #[test]
    fn default_run_takes_half_a_minute() {
        let estimate = run(&[]).unwrap();
        assert!(estimate.most < Duration::from_secs(45), "{estimate:?}");
        assert!(estimate.most > Duration::from_secs(25), "{estimate:?}");
        assert!(run(&["--duration", "20s"]).unwrap().most > Duration::from_secs(160));
        assert_eq!(run(&["--ops", "1000"]), None);
    }

    fn comparison(words: &[&str]) -> Duration {
        let words = ["loadline", "compare"].iter().chain(words);
        let Command::Compare(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is a comparison");
        };
        let plan = resolve_compare(*args, &Surroundings::of_tests()).unwrap();
        plan.estimate().unwrap().most
    }

    #[test]
    fn default_comparison_takes_a_minute_at_most() {
        let most = comparison(&["embedded", "embedded"]);
        assert!(most <= Duration::from_secs(60), "{most:?}");
    }

    /// Such a comparison took 21 s beside other work.
    #[test]
    fn counting_is_estimated_by_the_cases_of_started_servers() {
        let of = |target, counts| {
            comparison(&[
                target,
                target,
                "--workload",
                "get",
                "--instructions",
                counts,
            ])
        };
        let counted = |target| of(target, "auto") - of(target, "off");
        let started = of("embedded", "auto");
        assert!((16..26).contains(&started.as_secs()), "{started:?}");
        let (started, running) = (counted("embedded"), counted("redis://a"));
        assert_eq!((started, running), (COUNTING_CASE, Duration::ZERO));
    }

    #[test]
    fn sentence_says_whether_it_can_end_earlier() {
        let about = Estimate::about(Duration::from_millis(34_400));
        assert_eq!(about.sentence(), "takes about 35 s");
        let limit = Estimate {
            most: Duration::from_secs(130),
            is_limit: true,
        };
        assert_eq!(limit.times(2).sentence(), "takes up to 4 min");
    }

    /// On two CPUs at a load of five, `tiers` took 76 s and not 53.
    #[test]
    fn estimate_is_longer_on_busy_cpus() {
        let about = Estimate::about(Duration::from_secs(53));
        assert_eq!(about.sentence_beside(1.1), "takes about 53 s");
        let busy = "takes about 80 s, since other programs use the CPUs";
        assert_eq!(about.sentence_beside(2.0), busy);
        assert_eq!(about.sentence_beside(9.0), about.sentence_beside(4.0));
    }
}
