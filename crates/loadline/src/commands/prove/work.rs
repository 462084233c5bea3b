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
pub(super) const FUNCTION: &str = "loadline_server::commands::slow_down";
/// Rounds of injected work in the two comparisons from which its cost follows.
const FEW: u32 = 100;
const MANY: u32 = 1_100;

/// Comparisons of all kinds of injected work.
pub(super) struct Comparisons<'p> {
    plan: &'p Plan,
    injected: Vec<InjectedSlowdown>,
    /// What was found, for each of them.
    pub(super) kinds: Vec<WorkKind>,
    pub(super) done: usize,
}

impl<'p> Comparisons<'p> {
    /// Comparisons of the first case of `plan` with each share of `injected`; the others are timed.
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

    /// Compares `runs` times, all kinds in each, until all is done or an interrupt ends it.
    pub(super) fn run(&mut self, runs: u32, shell: &Shell) -> Result<(), Failure> {
        if self.injected.is_empty() {
            return Ok(());
        }
        let quietly = shell.quietly();
        let Some(work) = self.cost(&quietly)? else {
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
                let works = session::count_first_case(&plan, &quietly)?;
                if shell.interrupted() {
                    return Ok(());
                }
                let [before, after] = &works[..] else {
                    return Err(Failure::unavailable("a server was not counted."));
                };
                let name = &self.plan.cases[0].name;
                let metric = Metric::ServerInstructions;
                let row = gate::of_works(name, metric, before, after, &WorkRules::default());
                let trial = WorkTrial::of(&row, begun.elapsed().as_nanos() as u64);
                self.done += 1;
                if !shell.printer.quiet {
                    say(self.done, all, *injected, &trial);
                }
                kind.trials.push(trial);
            }
        }
        Ok(())
    }

    /// What an operation and injected work execute; `None` after an interrupt.
    fn cost(&self, shell: &Shell) -> Result<Option<UsualWork>, Failure> {
        let mut added = [0.0; 2];
        let mut per_op = 0.0;
        for (added, rounds) in added.iter_mut().zip([FEW, MANY]) {
            let plan = plan::working_plan(self.plan, rounds);
            let works = session::count_first_case(&plan, shell)?;
            if shell.interrupted() {
                return Ok(None);
            }
            let estimates: Result<Vec<f64>, WorkError> = works.iter().map(per_operation).collect();
            let estimates = estimates.map_err(|error| {
                Failure::unavailable(format!("The cost of injected work is unknown: {error}."))
            })?;
            if let [before, after] = estimates[..] {
                (per_op, *added) = (before, after - before);
            }
        }
        let per_round = (added[1] - added[0]) / f64::from(MANY - FEW);
        Ok(Some(UsualWork {
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
            || "no estimate".to_owned(),
            |ratio| format!("{:+.2} %", (ratio - 1.0) * 100.0)
        ),
        trial.verdict,
        trial.first_function.as_deref().unwrap_or("no function"),
        Duration::from_nanos(trial.duration_ns).as_secs_f64()
    ));
}
