//! Plans of the commands that judge: rounds by precision for a comparison, and separate runs with a
//! reference for a baseline.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loadline_measure::compare::{MAX_ROUNDS, MIN_ROUNDS};
use serde_json::{Value, json};
use sha1_smol::Sha1;

use super::{
    BlockEnd, Length, Placement, Plan, RoundParts, RoundsEnd, Schedule, Surroundings, lengths,
    resolve,
};
use crate::args::{CompareArgs, Instructions, MeasureArgs};
use crate::exit::Failure;
use crate::spelling::{Configuration, Copied, Program, Setting, Target, is_left_out};
use crate::units::duration_text;

/// The block of a comparison or a baseline by several agents, whose common start takes as long.
const JOINT_BLOCK: Duration = Duration::from_millis(500);
/// The longest block of a comparison or a baseline: twice the time after which a median is not dominated by
/// momentary effects. On an idle machine, the blocks of a comparison end earlier, with enough operations.
const BLOCK: Duration = Duration::from_millis(100);
/// Long enough for connections and caches if medians are stable by then; otherwise the warm-up continues for
/// up to three times as long. `--warmup` sets another length.
const WARMUP: Duration = Duration::from_millis(100);
/// Generations of the processes of our own servers in a comparison.
const GENERATIONS: u32 = 3;
/// The minimum number of rounds over all generations; the bounds are the 6th of 24 from either end.
const ROUNDS_OF_GENERATIONS: u32 = 24;
/// The most rounds over all cases, so that a comparison takes about a minute at most.
const MOST_ROUNDS_OF_ALL: u32 = 80;
/// Rounds of each run of a baseline, so that the eight runs of a new one take a minute. Runs differ by more than their rounds do.
const ROUNDS_OF_A_RUN: u32 = 5;
/// Rounds of a run that is judged alone: the bounds are the second values from both ends.
const ROUNDS_OF_A_SINGLE_RUN: u32 = 12;

/// The comparison of two targets.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn resolve_compare(args: CompareArgs, around: &Surroundings) -> Result<Plan, Failure> {
    let asked = Asked::of(&args.measure);
    let mut plan = match args.like_config {
        Some(changes) => {
            let plan = resolve(&args.measure.over(vec![args.a]), around)?;
            with_settings(plan, changes, args.b.as_deref(), around)?
        }
        None => {
            let targets = [Some(args.a), args.b].into_iter().flatten().collect();
            resolve(&args.measure.over(targets), around)?
        }
    };
    plan.profiles = args.work.profile;
    Ok(plan.for_comparison(asked))
}

/// Replaces the running server of `plan` by two servers of our own with its settings, the second one with `changes` and
/// the program of the target `candidate`.
///
/// # Errors
/// A usage error if the target is not a running server or `candidate` not a program, and for a setting that is ours.
fn with_settings(
    mut plan: Plan,
    changes: Vec<Setting>,
    candidate: Option<&str>,
    around: &Surroundings,
) -> Result<Plan, Failure> {
    let wrong = |why: String| Failure::usage(format!("--like-config: {why}"));
    let targets = std::mem::take(&mut plan.targets);
    let [Target::Server(server)] = &targets[..] else {
        let given = targets.first().map(Target::to_string);
        return Err(wrong(format!(
            "{} has no settings to read; A is a running server, such as redis://HOST:PORT.",
            given.unwrap_or_default()
        )));
    };
    if let Some(ours) = changes.iter().find(|change| is_left_out(&change.name)) {
        return Err(wrong(format!(
            "`{}` cannot be changed; place, logins, TLS, replication and clustering of these servers are Loadline's.",
            ours.name
        )));
    }
    let usual = if around.has_redis_server {
        "redis-server"
    } else {
        "valkey-server"
    };
    let path = match candidate.map(Target::parse).transpose()? {
        None => PathBuf::from(usual),
        Some(Target::Spawn(Program { path, config: None })) => path,
        Some(other) => {
            return Err(wrong(format!(
                "B is `{other}`; name a program that gets the settings, such as spawn:redis-server."
            )));
        }
    };
    let with = |path: PathBuf, changes| {
        Target::Spawn(Program {
            path,
            config: Some(Configuration::Copied(Copied {
                of: server.to_string(),
                changes,
                text: Arc::default(),
            })),
        })
    };
    plan.targets = vec![with(usual.into(), Vec::new()), with(path, changes)];
    plan.settings_of = Some(server.clone());
    Ok(plan)
}

/// One run of a baseline, or of its candidate, on `target`.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn resolve_run(
    measure: MeasureArgs,
    target: String,
    around: &Surroundings,
) -> Result<Plan, Failure> {
    run_of(measure, target, ROUNDS_OF_A_RUN, around)
}

/// A run on `target` that is judged by bounds over its own rounds.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn resolve_single_run(
    measure: MeasureArgs,
    target: String,
    around: &Surroundings,
) -> Result<Plan, Failure> {
    run_of(measure, target, ROUNDS_OF_A_SINGLE_RUN, around)
}

fn run_of(
    measure: MeasureArgs,
    target: String,
    rounds: u32,
    around: &Surroundings,
) -> Result<Plan, Failure> {
    let asked = Asked::of(&measure);
    let mut plan = resolve(&measure.over(vec![target]), around)?;
    plan.lay_out(asked, rounds);
    plan.schedule.parts = RoundParts::Tails;
    plan.schedule.instructions = asked.instructions;
    plan.schedule.placement = Placement::pinned_if(plan.targets.iter().all(Target::is_started));
    Ok(plan)
}

/// The comparison of the embedded server with itself on a single connection, so that a slowdown per command
/// is a slowdown of the response time.
///
/// # Errors
/// A usage error if there is no such workload.
pub(crate) fn resolve_proof(
    workload: &str,
    seed: Option<u64>,
    around: &Surroundings,
) -> Result<Plan, Failure> {
    let words = [
        format!("--workload={workload}"),
        "--connections=1".to_owned(),
    ];
    let seed = seed.map(|seed| format!("--seed={seed}"));
    let words: Vec<String> = words.into_iter().chain(seed).collect();
    let measure = MeasureArgs::from_words(&words).map_err(Failure::usage)?;
    let embedded = || Target::Embedded.to_string();
    let plan = resolve(&measure.over(vec![embedded(), embedded()]), around)?;
    Ok(plan.for_comparison(Asked::NOTHING))
}

/// Which parts of the length were given.
#[derive(Debug, Clone, Copy)]
struct Asked {
    rounds: Option<u32>,
    length: bool,
    warmup: bool,
    instructions: Instructions,
}

impl Asked {
    const NOTHING: Self = Self {
        rounds: None,
        length: false,
        warmup: false,
        instructions: Instructions::Off,
    };

    fn of(measure: &MeasureArgs) -> Self {
        let length = &measure.length;
        Self {
            rounds: length.rounds,
            length: length.ops.is_some() || length.duration.is_some(),
            warmup: length.warmup.is_some(),
            instructions: measure.counting.instructions,
        }
    }
}

impl Plan {
    /// Plans rounds until the comparison is precise enough, over several generations of our own servers.
    fn for_comparison(mut self, asked: Asked) -> Self {
        let generations = if self.targets.iter().any(Target::is_ours) {
            GENERATIONS
        } else {
            1
        };
        let least = if generations > 1 {
            ROUNDS_OF_GENERATIONS
        } else {
            MIN_ROUNDS as u32
        };
        self.lay_out(asked, least);
        self.schedule = Schedule {
            generations: generations.min(self.rounds),
            end: match asked.rounds {
                Some(_) => RoundsEnd::Planned,
                None => {
                    let cases = u32::try_from(self.cases.len()).unwrap_or(u32::MAX).max(1);
                    let most = (MAX_ROUNDS as u32).min(MOST_ROUNDS_OF_ALL / cases);
                    RoundsEnd::Extended(most.saturating_sub(self.rounds))
                }
            },
            parts: RoundParts::Tails,
            blocks: if asked.length {
                BlockEnd::Length
            } else {
                BlockEnd::Enough
            },
            placement: Placement::pinned_if(self.targets.iter().all(Target::is_started)),
            instructions: asked.instructions,
        };
        self
    }

    /// Whether a case is one of a suite.
    pub(crate) fn has_suite(&self) -> bool {
        let mut cases = self.cases.iter();
        cases.any(|case| case.workload.rules.bundle.is_some())
    }

    /// The number of threads, as it would be typed, if the arguments `typed` leave it to the machine: on others, the work is
    /// the same only with it. Suites have their own.
    pub(crate) fn threads_word(&self, typed: &[String]) -> Option<String> {
        let is_typed = typed.iter().any(|word| word.starts_with("--threads="));
        (!self.has_suite() && !is_typed).then(|| format!("--threads={}", self.cases[0].threads))
    }

    /// The lengths of rounds by several agents that the arguments `typed` leave open, as they would be typed.
    pub(crate) fn joint_lengths(&self, typed: &[String]) -> Vec<String> {
        let is_typed = |flag: &str| typed.iter().any(|word| word.starts_with(flag));
        let mut lengths = Vec::new();
        if !is_typed("--rounds=") {
            lengths.push(format!("--rounds={}", self.rounds));
        }
        if !is_typed("--warmup=") {
            lengths.push(format!("--warmup={}", duration_text(self.warmup)));
        }
        if !is_typed("--ops=") && !is_typed("--duration=") {
            let time = duration_text(JOINT_BLOCK * self.rounds);
            lengths.push(format!("--duration={time}"));
        }
        lengths
    }

    /// Plans `least` rounds, unless the arguments say otherwise or fewer fit.
    fn lay_out(&mut self, asked: Asked, least: u32) {
        if !asked.warmup && !asked.length {
            self.warmup = WARMUP;
        }
        if asked.rounds.is_none() {
            let fitting = self.cases.iter().map(|case| lengths::blocks(case.length));
            self.rounds = if asked.length {
                least.min(fitting.min().unwrap_or(least))
            } else {
                least
            };
        }
        if !asked.length {
            for case in &mut self.cases {
                case.length = Length::Time(BLOCK * self.rounds);
            }
        }
    }
}

/// A hash of everything in the recorded plan that makes two runs the same work, without the targets and the
/// seed. With `--agents`, it is the plan of the agent of rank 0, and `agents` is their number; otherwise 0.
pub(crate) fn workload_hash(plan: &Value, agents: usize) -> String {
    let mut work = json!({
        "cases": plan.get("cases"),
        "latency_ns": plan.get("latency_ns"),
        "resp": plan.get("resp"),
        "rounds": plan.get("rounds"),
    });
    // Only if it is set, so that all other runs keep their hash.
    if let Some(path) = plan.get("path").filter(|path| !path.is_null()) {
        work["path"] = path.clone();
    }
    if agents > 0 {
        work["agents"] = agents.into();
    }
    Sha1::from(work.to_string()).digest().to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn another_path_is_other_work() {
        let plain = json!({ "latency_ns": 1_000_000, "rounds": 5 });
        let mut narrow = plain.clone();
        narrow["path"] = Value::Null;
        assert_eq!(workload_hash(&plain, 0), workload_hash(&narrow, 0));
        narrow["path"] = json!({ "bytes_per_second": 1_000_000 });
        assert_ne!(workload_hash(&plain, 0), workload_hash(&narrow, 0));
    }

    fn plan(words: &[&str]) -> Plan {
        let words = ["loadline", "compare"].iter().chain(words);
        let Command::Compare(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is a comparison");
        };
        let around = Surroundings::of_tests();
        resolve_compare(*args, &around).unwrap()
    }

    #[test]
    fn servers_of_our_own_are_started_three_times() {
        let plan = plan(&["embedded", "embedded", "--workload", "get"]);
        assert_eq!((plan.rounds, plan.most_rounds()), (24, 40));
        let rounds: Vec<_> = (0..3)
            .map(|generation| plan.rounds_of(generation))
            .collect();
        assert_eq!(rounds, [(0, 8), (8, 16), (16, 40)]);
        assert_eq!(
            plan.cases[0].block(30, plan.rounds).duration,
            Some(BLOCK),
            "rounds beyond the least are as long"
        );
    }

    #[test]
    fn block_ends_with_operations_enough_unless_a_length_was_asked_for() {
        let ends = |words: &[&str]| {
            let plan = plan(words);
            plan.block(&plan.cases[0], 0).ops
        };
        assert_eq!(
            ends(&["embedded", "embedded", "--workload", "get"]),
            Some(4_000)
        );
        let words = [
            "embedded",
            "embedded",
            "--workload",
            "get",
            "--pipeline",
            "16",
        ];
        assert_eq!(ends(&words), Some(64_000));
        for asked in [["--duration", "2s"], ["--rate", "1000"]] {
            let words = [
                "embedded",
                "embedded",
                "--workload",
                "get",
                asked[0],
                asked[1],
            ];
            assert_eq!(ends(&words), None, "{asked:?}");
        }
    }

    #[test]
    fn running_servers_are_not_restarted() {
        let plan = plan(&["redis://one", "redis://other"]);
        assert_eq!((plan.schedule.generations, plan.rounds), (1, 10));
        let lengths = ["--rounds=10", "--warmup=100ms", "--duration=5s"];
        assert_eq!(plan.joint_lengths(&[]), lengths);
        assert_eq!(plan.most_rounds(), 20, "four cases share 80 rounds");
        let one = self::plan(&["redis://one", "redis://other", "--workload", "get"]);
        assert_eq!(one.most_rounds(), 40);
    }

    #[test]
    fn explicit_options_override_the_plan() {
        let plan = plan(&["embedded", "embedded", "--rounds", "5", "--duration", "1s"]);
        assert_eq!((plan.rounds, plan.most_rounds()), (5, 5));
        let words = plan.joint_lengths(&["--rounds=5".into(), "--duration=1s".into()]);
        assert_eq!(words, ["--warmup=250ms"]);
        let plan = self::plan(&["embedded", "embedded", "--duration", "400ms"]);
        assert_eq!(plan.rounds, 8, "blocks are not shorter than 50 ms");
        assert!(plan.schedule.has_reference());
    }

    #[test]
    fn workload_hash_is_independent_of_the_target() {
        let hash = |words: &[&str]| workload_hash(&plan(words).to_json(), 0);
        let one = hash(&["embedded", "embedded", "--workload", "get"]);
        let elsewhere = hash(&["redis://a", "embedded", "--workload", "get", "--seed", "5"]);
        assert_eq!(one, elsewhere);
        let other = hash(&[
            "embedded",
            "embedded",
            "--workload",
            "get",
            "--pipeline",
            "2",
        ]);
        assert_ne!(one, other);
        assert_eq!(one.len(), 40);
    }
}
