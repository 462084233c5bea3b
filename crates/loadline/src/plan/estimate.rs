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
/// Counting instructions begins no case after this time, unless counts were requested.
const COUNTING: Duration = Duration::from_secs(8);
/// Counting them for a single case.
const COUNTING_CASE: Duration = Duration::from_millis(2_500);
/// The largest time of cases that are begun before that.
const LAST_CASE: Duration = Duration::from_secs(4);
/// The delay of a block on CPUs that one other program uses: each of its threads waits for a CPU when it begins.
const LATE: Duration = Duration::from_millis(8);

/// The largest slowdown that is believed: a short look at the CPUs says little of the minutes that follow.
const MOST_SLOWDOWN: f64 = 4.0;
/// From this one on, the estimate differs by more than noise.
const LEAST_SLOWDOWN: f64 = 1.2;
/// The shortest estimate for which the CPUs are examined: that takes some of their time, and whether a command takes one
/// second or two is seen soon.
const LEAST_EXAMINED: Duration = Duration::from_secs(3);

/// The expected duration of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) most: Duration,
    /// The time that is added where work takes twice as long, because other programs use the CPUs, and twice that where it
    /// takes three times as long. Blocks end by a clock, so it is that of work, and of threads that begin late.
    added: Duration,
    /// The rounds that follow on a busy machine only, since planned ones are precise enough on an idle one.
    further: Duration,
    /// Whether it can end earlier, because blocks or rounds end as soon as they have enough.
    pub(crate) is_limit: bool,
    /// Whether all of it is done once more before an alarm.
    is_repeated: bool,
}

impl Estimate {
    /// The estimate of a duration that is known.
    pub(crate) fn about(time: Duration) -> Self {
        Self {
            most: time,
            added: Duration::ZERO,
            further: Duration::ZERO,
            is_limit: false,
            is_repeated: false,
        }
    }

    /// The estimate of a limit that is kept.
    pub(crate) fn up_to(limit: Duration) -> Self {
        Self {
            is_limit: true,
            ..Self::about(limit)
        }
    }

    /// The estimate of work that takes `time` on idle CPUs.
    pub(crate) fn of_work(time: Duration) -> Self {
        Self {
            added: time,
            ..Self::about(time)
        }
    }

    /// The estimate of the same if it is divided into `blocks`.
    pub(in crate::plan) fn in_blocks(self, blocks: u32) -> Self {
        Self {
            added: self.added + LATE * blocks,
            ..self
        }
    }

    /// The estimate of the same if `time` follows where other programs use the CPUs.
    fn extended_by(self, time: Duration) -> Self {
        Self {
            further: time,
            ..self
        }
    }

    /// The estimate of the same if half of the rounds that can follow usually do, and not a quarter of them.
    pub(crate) fn usually_extended(self) -> Self {
        let part = self.further / 3;
        Self {
            most: self.most + part,
            further: self.further - part,
            ..self
        }
    }

    /// The estimate of `times` repetitions.
    pub(crate) fn times(self, times: u32) -> Self {
        Self {
            most: self.most * times,
            added: self.added * times,
            further: self.further * times,
            ..self
        }
    }

    /// The estimate of two parts, one after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            most: self.most + other.most,
            added: self.added + other.added,
            further: self.further + other.further,
            is_limit: self.is_limit || other.is_limit,
            is_repeated: self.is_repeated || other.is_repeated,
        }
    }

    /// The estimate of a run that is repeated before an alarm.
    pub(crate) fn repeated_before_an_alarm(self) -> Self {
        Self {
            is_repeated: true,
            ..self
        }
    }

    /// The sentence for a machine on which work takes `slowdown` times as long as on an idle one. It is examined only where
    /// the sentence depends on it.
    pub(crate) fn sentence_beside(self, slowdown: impl FnOnce() -> f64) -> String {
        if self.most < LEAST_EXAMINED || (self.added + self.further).is_zero() {
            return self.sentence();
        }
        let slowdown = slowdown();
        if slowdown < LEAST_SLOWDOWN {
            return self.sentence();
        }
        let excess = slowdown.min(MOST_SLOWDOWN) - 1.0;
        let longer = Self {
            most: self.most + self.added.mul_f64(excess) + self.further.mul_f64(excess.min(1.0)),
            ..self
        };
        longer.sentence_with(", since other programs use the CPUs")
    }

    /// Such as `takes about 35 s` or `takes up to 2 min`.
    pub(crate) fn sentence(self) -> String {
        self.sentence_with("")
    }

    fn sentence_with(self, reason: &str) -> String {
        let word = if self.is_limit { "up to" } else { "about" };
        let time = rough_duration_text(self.most);
        let again = if self.is_repeated {
            "; an alarm needs a second run as long"
        } else {
            ""
        };
        format!("takes {word} {time}{reason}{again}")
    }
}

impl Plan {
    /// The expected duration. `None` if the plan has a number of operations, whose time depends on the target.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        let cases = self.cases.iter().map(|case| self.measuring(case));
        let rounds = cases.collect::<Option<Vec<Estimate>>>()?;
        let rounds = rounds.into_iter().reduce(Estimate::and)?;
        let schedule = &self.schedule;
        let warmup = self.warmup * self.cases.len() as u32;
        let opening: Duration = self.targets.iter().map(opening).sum();
        let warming = warmup * self.targets.len() as u32 * schedule.generations;
        // A server that runs already cannot be counted.
        let is_counted = schedule.instructions.is_asked().is_some()
            && self.targets.iter().all(Target::is_started);
        let counted = u32::from(is_counted) * self.cases.len() as u32;
        let mut measuring = rounds.and(Estimate::about(warming));
        measuring.is_limit = schedule.end == RoundsEnd::OncePrecise;
        let opening = Estimate::of_work(opening * schedule.generations);
        Some(measuring.and(opening).and(counting(counted)))
    }

    /// All rounds of a case, with a part of those that follow only if the planned ones are not precise enough.
    fn measuring(&self, case: &Case) -> Option<Estimate> {
        let Length::Time(time) = case.length else {
            return None;
        };
        let (targets, schedule) = (self.targets.len() as u32, &self.schedule);
        let (mut round, mut blocks) = (time / self.rounds.max(1) * targets, targets);
        if schedule.has_tails() && case.has_tail() {
            round += TAIL * targets;
            blocks += targets;
        }
        if schedule.has_reference() {
            round += REFERENCE;
            blocks += 1;
        }
        let usual = schedule.more_rounds() / EXTENSION;
        let rounds = self.rounds + usual;
        let rare = schedule.more_rounds() - usual;
        let planned = Estimate::about(round * rounds).in_blocks(blocks * rounds);
        Some(planned.extended_by(round * rare))
    }
}

/// The estimate of counting the instructions of `cases` cases.
pub(in crate::plan) fn counting(cases: u32) -> Estimate {
    let (time, most) = (COUNTING_CASE * cases, COUNTING + LAST_CASE);
    match time <= COUNTING {
        true => Estimate::of_work(time),
        // Work that takes longer is left out.
        false => Estimate::about(COUNTING).and(Estimate::of_work(time.min(most) - COUNTING)),
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
        let limit = Estimate::up_to(Duration::from_secs(130));
        assert_eq!(limit.times(2).sentence(), "takes up to 4 min");
    }

    #[test]
    fn work_takes_longer_on_busy_cpus_and_blocks_do_not() {
        let (blocks, counting) = (Duration::from_secs(41), Duration::from_secs(12));
        let both = Estimate::about(blocks).and(Estimate::of_work(counting));
        assert_eq!(both.sentence_beside(|| 1.1), "takes about 53 s");
        let busy = "takes about 65 s, since other programs use the CPUs";
        assert_eq!(both.sentence_beside(|| 2.0), busy);
        let [nine, four] = [9.0, 4.0].map(|slowdown| both.sentence_beside(|| slowdown));
        assert_eq!(nine, four);
    }

    #[test]
    fn cpus_are_examined_only_for_estimates_that_depend_on_them() {
        let examined = |estimate: Estimate| {
            let mut examined = false;
            let sentence = estimate.sentence_beside(|| {
                examined = true;
                3.0
            });
            assert_eq!(examined, sentence != estimate.sentence());
            examined
        };
        let seconds = Duration::from_secs_f64;
        assert!(examined(Estimate::of_work(seconds(3.0))));
        assert!(!examined(Estimate::of_work(seconds(2.9))));
        assert!(!examined(Estimate::about(seconds(60.0))));
    }

    /// Counting ends by a clock as well, but for the case that is being counted.
    #[test]
    fn counting_of_many_cases_takes_little_longer_on_busy_cpus() {
        let seconds = |cases| {
            let counting = counting(cases);
            [counting.most, counting.added].map(|time| time.as_secs_f64())
        };
        assert_eq!(seconds(0), [0.0, 0.0]);
        assert_eq!(seconds(2), [5.0, 5.0]);
        assert_eq!(seconds(4), [10.0, 2.0]);
        assert_eq!(seconds(40), [12.0, 4.0]);
    }

    /// Beside four builds on two CPUs, each of the six comparisons of `prove` took 30 s and not 13: 40 rounds and not 28, with
    /// blocks that began late.
    #[test]
    fn rounds_that_are_not_precise_are_estimated_on_busy_cpus() {
        let rounds = Estimate::about(Duration::from_secs(10));
        let some = rounds.extended_by(Duration::from_secs(4)).in_blocks(100);
        let at = |slowdown| some.sentence_beside(|| slowdown);
        assert_eq!(at(1.0), "takes about 10 s");
        assert!(at(2.0).starts_with("takes about 15 s"), "{}", at(2.0));
        assert!(at(3.0).starts_with("takes about 16 s"), "{}", at(3.0));
    }
}
