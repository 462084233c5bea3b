//! The plan of `loadline capacity`: one target, one case, a limit, and the time of the search.

use std::time::Duration;

use loadline_load::pacing::{ArrivalProcess, Pacing};
use loadline_measure::capacity::Bounds;
use loadline_measure::limit::Slo;
use serde_json::{Value, json};

use super::description::Description;
use super::show::arrivals_text;
use super::{Case, Estimate, HIGHEST_RATE, Length, Plan, Surroundings};
use crate::args::{
    AgentsArgs, ArrivalsArg, CapacityArgs, LengthArgs, LimitArgs, LoadArgs, ResultArgs, RunArgs,
};
use crate::exit::Failure;
use crate::units::{duration_text, nanoseconds};

const DEFAULT_WORKLOAD: &str = "get";
const DEFAULT_TRIAL: Duration = Duration::from_millis(300);
/// The result of a shorter trial depends on chance.
const SHORTEST_TRIAL: Duration = Duration::from_millis(50);
const DEFAULT_MAX_TIME: Duration = Duration::from_secs(60);
/// The same for several load generators, whose trials start together.
const DEFAULT_JOINT_TIME: Duration = Duration::from_secs(120);
/// Time that a common start takes at least.
const JOINT_START: Duration = Duration::from_secs(1);
/// Trials of the shortest search: closed loops, a few rates, and a confirmation of ten.
const FEWEST_TRIALS: u32 = 15;
/// The largest share of the whole time for one trial, because a confirmation alone takes ten.
const LONGEST_SHARE: u32 = 20;
/// The length of the unmeasured load before a trial, as a share of the trial.
const LEAD_IN: u32 = 10;

/// A search, resolved.
#[derive(Debug, Clone)]
pub(crate) struct CapacityPlan {
    /// The common part of all runs; its case is the closed loop that the search starts from.
    pub(crate) base: Plan,
    pub(crate) slo: Slo,
    pub(crate) arrivals: ArrivalProcess,
    /// The minimum time of a trial.
    pub(crate) trial: Duration,
    /// The time of the whole search.
    pub(crate) max_time: Duration,
}

/// Resolves the arguments of `loadline capacity`.
///
/// # Errors
/// A usage error for an invalid value or combination.
pub(crate) fn resolve(args: &CapacityArgs, around: &Surroundings) -> Result<CapacityPlan, Failure> {
    let slo: Slo = args
        .slo
        .parse()
        .map_err(|error| Failure::usage(format!("--slo: {error}")))?;
    let trial = args.duration.unwrap_or(DEFAULT_TRIAL);
    let is_joint = args.agents.agents.is_some();
    let (default, start) = match is_joint {
        true => (DEFAULT_JOINT_TIME, JOINT_START),
        false => (DEFAULT_MAX_TIME, Duration::ZERO),
    };
    let max_time = args.max_time.unwrap_or(default);
    let shortest = (trial.saturating_add(start)).saturating_mul(FEWEST_TRIALS);
    if trial < SHORTEST_TRIAL {
        let why = format!(
            "must be at least {}, the shortest trial",
            duration_text(SHORTEST_TRIAL)
        );
        let text = duration_text(trial);
        return Err(Failure::invalid("--duration", "duration", text, why));
    }
    if max_time < shortest {
        let why = format!(
            "must be at least {} with trials of {}, to confirm an answer",
            duration_text(shortest),
            duration_text(trial)
        );
        let text = duration_text(max_time);
        return Err(Failure::invalid("--max-time", "duration", text, why));
    }
    let base = super::resolve(&as_run(args, trial), around)?;
    if let Some(called) = base.targets.iter().find(|target| target.is_in_process()) {
        return Err(Failure::usage(format!(
            "{called}: capacity is measured only for servers, but this target runs in this process."
        )));
    }
    if base.cases.len() > 1 || base.has_suite() {
        return Err(Failure::usage(
            "--workload: the search needs a single workload, but a suite has several cases.",
        ));
    }
    let arrivals = match args.load.arrivals {
        Some(ArrivalsArg::Uniform) => ArrivalProcess::Uniform,
        Some(ArrivalsArg::Poisson) | None => ArrivalProcess::Poisson,
    };
    Ok(CapacityPlan {
        base,
        slo,
        arrivals,
        trial,
        max_time,
    })
}

/// The closed loop that the search starts from, as a run.
fn as_run(args: &CapacityArgs, trial: Duration) -> RunArgs {
    let load = &args.load;
    let workload = match (&load.workload, load.traffic.command.is_empty()) {
        (Some(workload), _) => vec![workload.clone()],
        (None, true) => vec![DEFAULT_WORKLOAD.to_owned()],
        (None, false) => Vec::new(),
    };
    RunArgs {
        targets: vec![args.target.clone()],
        length: LengthArgs {
            duration: Some(trial),
            rounds: Some(1),
            ..LengthArgs::default()
        },
        load: LoadArgs {
            workload,
            traffic: load.traffic.clone(),
            ..LoadArgs::default()
        },
        data: args.data.clone(),
        connection: args.connection.clone(),
        limits: LimitArgs::default(),
        strict: false,
        agents: AgentsArgs::default(),
        results: ResultArgs::default(),
    }
}

impl CapacityPlan {
    /// The bounds of the search. Below the lowest rate, the longest trial has too few samples for the percentile.
    pub(crate) fn bounds(&self) -> Bounds {
        let longest = self.max_time / LONGEST_SHARE;
        Bounds {
            lowest: (self.slo.least_ops() as f64 / longest.as_secs_f64()).max(1.0),
            highest: HIGHEST_RATE as f64,
            trial: self.trial,
        }
    }

    /// The case of the plan in an open loop at `rate`, for `duration`.
    pub(crate) fn case(&self, rate: f64, duration: Duration) -> Case {
        Case {
            pacing: Pacing::Open {
                rate,
                arrivals: self.arrivals,
            },
            length: Length::Time(duration),
            ..self.closed().clone()
        }
    }

    /// The arguments of all trials of several load generators, of the arguments `typed`.
    pub(crate) fn joint_words(&self, typed: &[String]) -> Vec<String> {
        let is_of_trial =
            |word: &&String| word.starts_with("--duration=") || word.starts_with("--arrivals=");
        let mut words: Vec<String> = typed
            .iter()
            .filter(|word| !is_of_trial(word))
            .cloned()
            .collect();
        let is_work =
            |word: &String| word.starts_with("--workload=") || word.starts_with("--command=");
        if !words.iter().any(is_work) {
            words.push(format!("--workload={DEFAULT_WORKLOAD}"));
        }
        words
    }

    /// The arguments of one of their trials: `case` for `duration`, after an unmeasured `lead_in`.
    pub(crate) fn trial_words(
        &self,
        case: &Case,
        duration: Duration,
        lead_in: Duration,
    ) -> Vec<String> {
        let mut words = vec![
            format!("--duration={}", duration_text(duration)),
            "--rounds=1".to_owned(),
            format!("--warmup={}", duration_text(lead_in)),
        ];
        if let Pacing::Open { rate, arrivals } = case.pacing {
            // Less than one operation per second from the intended rate.
            words.push(format!("--rate={:.0}", rate.max(1.0)));
            words.push(format!("--arrivals={}", arrivals_text(arrivals)));
        }
        words
    }

    /// The numbers of load generators to try, of `most`.
    pub(crate) fn numbers_of_agents(most: u32) -> Vec<u32> {
        let doubled = std::iter::successors(Some(1_u32), |agents| agents.checked_mul(2));
        let fewer = doubled.take_while(|agents| *agents < most);
        fewer.chain([most]).collect()
    }

    /// The closed loop that the search starts from.
    pub(crate) fn closed(&self) -> &Case {
        &self.base.cases[0]
    }

    /// The length of the unmeasured load before a trial.
    pub(crate) fn lead_in(duration: Duration) -> Duration {
        duration / LEAD_IN
    }

    /// The plan in the form of the record.
    pub(crate) fn to_json(&self) -> Value {
        self.describe().into_json()
    }

    /// The description of the plan.
    pub(crate) fn describe(&self) -> Description {
        let arrivals = arrivals_text(self.arrivals);
        let (trial, max_time) = (self.trial, self.max_time);
        let mut out = self.base.describe();
        out.takes(Some(Estimate::up_to(max_time)));
        out.entry(
            "capacity",
            json!({
                "slo": self.slo.to_string(),
                "arrivals": arrivals,
                "trial_ns": nanoseconds(trial),
                "max_time_ns": nanoseconds(max_time),
            }),
        );
        out.section("Search");
        out.line(format!(
            "the highest rate with {}, starting from the throughput of that closed loop",
            self.slo
        ));
        out.line(format!(
            "open-loop trials of at least {}, {arrivals} arrivals, at least {:.0} operations per second",
            duration_text(trial),
            self.bounds().lowest
        ));
        out.line(format!(
            "confirmed by 5 trials that hold, and 5 at a slightly higher rate that fail; {} in total",
            duration_text(max_time)
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::exit::Exit;
    use crate::spelling::Target;

    fn resolved(words: &[&str]) -> Result<CapacityPlan, Failure> {
        let around = Surroundings {
            cores: 4,
            ..Surroundings::of_tests()
        };
        let cli = Cli::try_parse_from(["loadline", "capacity"].iter().chain(words)).unwrap();
        match cli.command {
            Command::Capacity(args) => resolve(&args, &around),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trial_of_agents_is_what_the_search_asks_for() {
        assert_eq!(CapacityPlan::numbers_of_agents(1), [1]);
        assert_eq!(CapacityPlan::numbers_of_agents(6), [1, 2, 4, 6]);
        let words = ["redis://db", "--agents", "2", "--coordinator", "redis://c"];
        let plan = resolved(&words).unwrap();
        assert_eq!(plan.max_time, Duration::from_secs(120));
        let typed = ["--duration=1s", "--keys=70", "--arrivals=poisson"].map(str::to_owned);
        assert_eq!(plan.joint_words(&typed), ["--keys=70", "--workload=get"]);
        let ms = Duration::from_millis;
        let closed = plan.trial_words(plan.closed(), ms(300), ms(30));
        assert_eq!(closed, ["--duration=300ms", "--rounds=1", "--warmup=30ms"]);
        let open = plan.trial_words(&plan.case(1_234.4, ms(300)), ms(300), ms(30));
        assert_eq!(open[3..], ["--rate=1234", "--arrivals=poisson"]);
        let short = [&words[..], &["--max-time", "15s"]].concat();
        assert_eq!(resolved(&short).unwrap_err().exit(), Exit::Usage);
    }

    #[test]
    fn target_is_all_that_must_be_said() {
        let plan = resolved(&["spawn:redis-server"]).unwrap();
        assert_eq!(plan.base.targets, [Target::Spawn("redis-server".into())]);
        assert_eq!(plan.slo, "p99<2ms".parse().unwrap());
        assert_eq!(plan.arrivals, ArrivalProcess::Poisson);
        assert_eq!(
            (plan.trial, plan.max_time),
            (Duration::from_millis(300), Duration::from_secs(60))
        );
        let closed = plan.closed();
        assert_eq!(
            (closed.name.as_str(), closed.connections, closed.pipeline),
            ("get", 50, 1)
        );
        assert_eq!(
            (closed.pacing, plan.base.cases.len(), plan.base.rounds),
            (Pacing::Closed, 1, 1)
        );
        // 10,000 operations in a twentieth of a minute.
        assert!((plan.bounds().lowest - 3_333.3).abs() < 0.1);
        let case = plan.case(5e4, Duration::from_secs(2));
        assert_eq!(case.length, Length::Time(Duration::from_secs(2)));
        assert!(matches!(case.pacing, Pacing::Open { rate, .. } if rate == 5e4));
    }

    #[test]
    fn impossible_searches_are_refused() {
        for (words, reason) in [
            (
                &["embedded", "--slo", "p99"][..],
                "--slo: invalid limit `p99`: expected",
            ),
            (
                &["embedded", "--slo", "mean<1ms"],
                "a percentile of the response time",
            ),
            (&["embedded", "--slo", "get.p99<1ms"], "expected no case"),
            (&["embedded", "--duration", "10ms"], "at least 50ms"),
            (
                &["embedded", "--max-time", "4s"],
                "at least 4500ms with trials of 300ms",
            ),
            (&["ram"], "only for servers"),
            (
                &["embedded", "--workload", "nope"],
                "unknown workload `nope`",
            ),
        ] {
            let failure = resolved(words).expect_err(&words.join(" "));
            assert_eq!(failure.exit(), Exit::Usage);
            assert!(failure.to_string().contains(reason), "{words:?}: {failure}");
        }
    }

    #[test]
    fn plan_says_how_it_searches() {
        let plan = resolved(&["embedded", "--slo", "p99.9<5ms", "--arrivals", "uniform"]).unwrap();
        let text = plan.describe().to_text();
        assert!(text.contains("the highest rate with p99.9<5ms"), "{text}");
        assert!(
            text.contains("uniform arrivals, at least 33333 operations per second"),
            "{text}"
        );
        assert_eq!(plan.to_json()["capacity"]["slo"], "p99.9<5ms");
    }
}
