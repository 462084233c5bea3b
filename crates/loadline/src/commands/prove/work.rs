//! Comparisons of instructions per operation, with known work injected.

use std::time::{Duration, Instant};

use loadline_measure::Metric;
use loadline_measure::gate;
use loadline_measure::proof::{WorkKind, WorkTrial};
use loadline_measure::work::{Work, WorkError, WorkRules};

use crate::exit::Failure;
use crate::files;
use crate::plan::{self, Plan, Usual, UsualWork};
use crate::session::{self, Shell};
use crate::slowdown::InjectedSlowdown;

/// The function of the server that executes injected work.
pub(super) const FUNCTION: &str = "loadline_server::slowdown::slow_down";
/// Rounds of injected work in the two comparisons that determine its cost.
const FEW: u32 = 100;
const MANY: u32 = 1_100;

/// Attempts to determine the cost of injected work until both servers start.
const COST_TRIES: u32 = 3;

/// The work of each target of a plan.
type Counts = Result<Vec<Work>, Failure>;

/// Comparisons of all kinds of injected work.
pub(super) struct Comparisons<'p> {
    plan: &'p Plan,
    injected: Vec<InjectedSlowdown>,
    /// The results of each kind.
    pub(super) kinds: Vec<WorkKind>,
    pub(super) done: usize,
}

impl<'p> Comparisons<'p> {
    /// Creates comparisons of the first case of `plan` with each share among `injected` that is work; the others
    /// are timed.
    pub(super) fn new(plan: &'p Plan, injected: &[InjectedSlowdown]) -> Self {
        let injected = injected.iter().copied();
        let injected: Vec<InjectedSlowdown> = injected.filter(|one| !one.is_timed()).collect();
        Self {
            plan,
            kinds: injected
                .iter()
                .map(|one| WorkKind::new(one.kind().planted))
                .collect(),
            injected,
            done: 0,
        }
    }

    /// Makes `runs` comparisons of every kind, until an interrupt.
    pub(super) fn run(&mut self, runs: u32, shell: &Shell) -> Result<(), Failure> {
        let quietly = shell.quietly();
        let count = |plan: &Plan| {
            let works = session::count_first_case(plan, &quietly);
            (!shell.interrupted()).then_some(works)
        };
        self.run_by(count, runs, !shell.printer.quiet)
    }

    /// Does the same with a function that counts the work of each target of a plan; it returns `None` after an
    /// interrupt.
    fn run_by(
        &mut self,
        count: impl Fn(&Plan) -> Option<Counts>,
        runs: u32,
        is_told: bool,
    ) -> Result<(), Failure> {
        if self.injected.is_empty() {
            return Ok(());
        }
        let Some(work) = self.cost(&count).transpose()? else {
            return Ok(());
        };
        let usual = Usual {
            work,
            ..Usual::default()
        };
        let all = runs as usize * self.injected.len();
        for _ in 0..runs {
            for (injected, kind) in self.injected.iter().zip(&mut self.kinds) {
                let begun = Instant::now();
                let plan = plan::slowed(self.plan, *injected, usual);
                let Some(works) = count(&plan) else {
                    return Ok(());
                };
                let took = begun.elapsed().as_nanos() as u64;
                let trial = match works.as_deref() {
                    Ok([before, after]) => {
                        let name = &self.plan.cases[0].name;
                        let (metric, rules) = (Metric::ServerInstructions, WorkRules::default());
                        let row = gate::of_works(name, metric, before, after, &rules);
                        WorkTrial::of(&row, took)
                    }
                    Ok(_) => WorkTrial::without_count("a server was not counted.".into(), took),
                    // If a server does not start in time on a busy machine, the other comparisons continue.
                    Err(failure) => WorkTrial::without_count(failure.to_string(), took),
                };
                self.done += 1;
                if is_told {
                    say(self.done, all, *injected, &trial);
                }
                kind.trials.push(trial);
            }
        }
        Ok(())
    }

    /// The instructions of an operation and of injected work; `None` after an interrupt.
    fn cost(&self, count: &impl Fn(&Plan) -> Option<Counts>) -> Option<Result<UsualWork, Failure>> {
        let mut added = [0.0; 2];
        let mut per_op = 0.0;
        for (added, rounds) in added.iter_mut().zip([FEW, MANY]) {
            let plan = plan::working_plan(self.plan, rounds);
            let mut works = count(&plan)?;
            for _ in 1..COST_TRIES {
                if works.is_err() {
                    works = count(&plan)?;
                }
            }
            let works = match works {
                Ok(works) => works,
                Err(failure) => return Some(Err(failure)),
            };
            let estimates: Result<Vec<f64>, WorkError> = works.iter().map(per_operation).collect();
            match estimates.as_deref() {
                Ok([before, after]) => (per_op, *added) = (*before, after - before),
                Ok(_) => {}
                Err(error) => {
                    return Some(Err(Failure::unavailable(format!(
                        "The cost of injected work is unknown: {error}."
                    ))));
                }
            }
        }
        let per_round = (added[1] - added[0]) / f64::from(MANY - FEW);
        Some(Ok(UsualWork {
            per_op,
            per_call: added[0] - f64::from(FEW) * per_round,
            per_round,
        }))
    }
}

fn per_operation(work: &Work) -> Result<f64, WorkError> {
    Ok(work.estimate()?.instructions_per_op)
}

fn say(done: usize, all: usize, injected: InjectedSlowdown, trial: &WorkTrial) {
    files::write_error(&format!(
        "loadline: {done} of {all}, {}: {}, {:?}, {} ({:.1} s)",
        injected.name(),
        trial.ratio.map_or_else(
            || trial
                .not_counted
                .clone()
                .unwrap_or_else(|| "no estimate".to_owned()),
            |ratio| format!("{:+.2} %", (ratio - 1.0) * 100.0)
        ),
        trial.verdict,
        trial.first_function.as_deref().unwrap_or("no function"),
        Duration::from_nanos(trial.duration_ns).as_secs_f64()
    ));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use loadline_measure::work::{Pass, Source};

    use super::*;
    use crate::plan::{Surroundings, resolve_proof};
    use crate::spelling::Target;

    /// A server whose operation takes 1,000 instructions, with 10 more for each round of injected work.
    fn work(target: &Target) -> Work {
        let rounds = match target {
            Target::Slowed(slowdown) => u64::from(slowdown.work_per_command),
            _ => 0,
        };
        let pass = Pass {
            ops: 100,
            instructions: 100 * (1_000 + 10 * rounds),
            ..Pass::default()
        };
        Work {
            source: Source::Callgrind,
            tool: "valgrind-3.19.0".to_owned(),
            cpu: "x86_64".to_owned(),
            executable_sha1: None,
            fixed_randomness: true,
            passes: vec![pass; 3],
            functions: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Runs comparisons; those at the indexes `lost` fail because a server does not start.
    fn compared(lost: &[u32]) -> (Vec<WorkKind>, Result<(), Failure>) {
        let around = Surroundings::of_tests();
        let plan = resolve_proof("get", Some(1), &around).unwrap();
        let mut comparisons = Comparisons::new(&plan, &InjectedSlowdown::DEFAULT_WORK);
        let made = Cell::new(0);
        let count = |plan: &Plan| {
            made.set(made.get() + 1);
            let why = "embedded did not answer within 60 seconds.";
            Some(if lost.contains(&made.get()) {
                Err(Failure::unavailable(why))
            } else {
                Ok(plan.targets.iter().map(work).collect())
            })
        };
        let ended = comparisons.run_by(count, 2, false);
        (comparisons.kinds, ended)
    }

    #[test]
    fn server_that_does_not_start_costs_one_comparison_and_not_the_run() {
        // The first two determine the cost of injected work, and the second of them is repeated.
        let (kinds, ended) = compared(&[2, 5]);
        ended.unwrap();
        let of = |place: usize| &kinds[place].trials;
        assert!(kinds.iter().all(|kind| kind.trials.len() == 2), "{kinds:?}");
        let without = |kind: &WorkKind| {
            let trials = kind.trials.iter();
            trials.filter(|trial| trial.not_counted.is_some()).count()
        };
        assert_eq!(kinds.iter().map(without).sum::<usize>(), 1, "{kinds:?}");
        let why = of(1)[0].not_counted.as_deref().unwrap();
        assert_eq!(why, "embedded did not answer within 60 seconds.");
        assert!(of(1)[1].is_more() && !of(1)[0].is_more(), "{kinds:?}");
    }

    #[test]
    fn cost_that_stays_unknown_ends_the_run() {
        let (kinds, ended) = compared(&[1, 2, 3]);
        assert!(ended.is_err() && kinds.iter().all(|kind| kind.trials.is_empty()));
    }
}
