//! `loadline prove`: can a verdict be trusted on this machine?

mod work;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loadline_measure::Metric;
use loadline_measure::compare;
use loadline_measure::gate::{BaselineRun, Judged, Thresholds};
use loadline_measure::proof::{Kind, Proof, SCHEMA, Trial};
use loadline_measure::quantile;
use loadline_measure::record::{Record, Verdict};

use super::surroundings;
use crate::args::ProveArgs;
use crate::commands::judging;
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::fingerprint;
use crate::plan::{self, Estimate, Plan, Usual};
use crate::session::{self, Ending, Results, Shell, finish};
use crate::slowdown::InjectedSlowdown;
use crate::systems::callgrind::Callgrind;

/// Comparisons of each kind, unless the time for them is over before.
const DEFAULT_RUNS: u32 = 2;
/// The time for those that are timed, unless a number of comparisons is given: with the counted ones, three minutes.
const TIME: Duration = Duration::from_secs(150);
/// Counting instructions of one comparison.
const COUNTING: Duration = Duration::from_millis(1_500);
const MOST_RUNS: u32 = 1_000;
/// Number of suites drawn from the noise.
const SUITES: u64 = 1_000;

pub(super) fn run(args: &ProveArgs) -> anyhow::Result<ExitCode> {
    let runs = args.runs.unwrap_or(DEFAULT_RUNS);
    if runs > MOST_RUNS {
        let why = format!("at most {MOST_RUNS}");
        return Err(Failure::invalid("--runs", "count", runs, why).into());
    }
    let json = args.json.clone().map(Output::from);
    if let Some(json) = &json {
        json.check()?;
    }
    let around = surroundings();
    let plan = plan::resolve_proof(&args.workload, args.seed, &around)?;
    let injected = injected(&args.plant);
    let limit = args.runs.is_none().then_some(TIME);
    let kinds: Vec<String> = injected.iter().map(|one| one.name()).collect();
    let mut description = plan.describe();
    description.section("Comparisons");
    description.line(format!("{runs} of each kind: {}", kinds.join(", ")));
    description.takes(estimate(&plan, &injected, runs));
    let Some(shell) = Shell::start_unless_dry(&args.plan, &args.display, &description)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (begun, started_at) = (Instant::now(), crate::units::now_text());
    let mut comparisons = Comparisons::new(&plan, &injected);
    let mut counted = work::Comparisons::new(&plan, &injected);
    let timed = comparisons.run(runs, limit, &shell);
    let broken = timed.and_then(|()| counted.run(runs, &shell)).err();
    if comparisons.done + counted.done == 0 {
        if let Some(failure) = broken {
            return Err(failure.into());
        }
        files::write_error("loadline: prove: interrupted before a comparison was done (130)");
        return Ok(Exit::Interrupted.into());
    }
    let mut proof = Proof {
        schema: SCHEMA.into(),
        started_at,
        version: env!("CARGO_PKG_VERSION").into(),
        scenario: format!(
            "{} on embedded, one connection, one command at a time",
            plan.cases[0].name
        ),
        environment: fingerprint::read(),
        kinds: comparisons.kinds,
        work: counted.kinds,
        work_function: work::FUNCTION.into(),
        drawn: Vec::new(),
        duration_ns: 0,
        cut_short: broken.is_some() || shell.interrupted(),
    };
    proof.draw(SUITES, plan.seed);
    proof.duration_ns = begun.elapsed().as_nanos() as u64;
    let text = serde_json::to_string_pretty(&proof)
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let results = Results {
        command: "prove",
        text: loadline_report::proof(&proof),
        is_closed: false,
        remarks: Vec::new(),
        files: json.into_iter().map(|json| (json, text.clone())).collect(),
        broken,
        ending: if proof.cut_short {
            Ending::interrupted()
        } else {
            Ending::done()
        },
    };
    Ok(finish(&results, &shell.printer))
}

/// The expected duration of `runs` comparisons of each kind.
fn estimate(plan: &Plan, injected: &[InjectedSlowdown], runs: u32) -> Option<Estimate> {
    let one = |injected: &InjectedSlowdown| {
        if !injected.is_timed() {
            return Some(Estimate::of_work(COUNTING));
        }
        // The length does not depend on the time of an operation. With one connection, planned rounds are seldom precise: the
        // six comparisons took 74 s on one idle machine and 121 s on another.
        let plan = plan::slowed(plan, *injected, Usual::default());
        plan.estimate().map(Estimate::usually_extended)
    };
    let kinds = injected
        .iter()
        .map(one)
        .collect::<Option<Vec<Estimate>>>()?;
    let all = kinds.into_iter().reduce(Estimate::and)?;
    Some(all.times(runs))
}

/// The slowdowns to inject, each kind once; by default all that can be measured here.
fn injected(asked: &[InjectedSlowdown]) -> Vec<InjectedSlowdown> {
    let mut injected: Vec<InjectedSlowdown> = Vec::new();
    let counted: &[InjectedSlowdown] = if Callgrind::is_installed() {
        &InjectedSlowdown::DEFAULT_WORK
    } else {
        &[]
    };
    let usual = [&InjectedSlowdown::DEFAULT, counted].concat();
    for one in if asked.is_empty() { &usual } else { asked } {
        if !injected.contains(one) {
            injected.push(*one);
        }
    }
    injected
}

/// Timed comparisons of all kinds.
struct Comparisons<'p> {
    plan: &'p Plan,
    plants: Vec<InjectedSlowdown>,
    /// The verdicts of each kind.
    kinds: Vec<Kind>,
    usual: Usual,
    done: usize,
}

impl<'p> Comparisons<'p> {
    /// The kinds among `injected` that are timed.
    fn new(plan: &'p Plan, injected: &[InjectedSlowdown]) -> Self {
        let injected = injected.iter().copied();
        let plants: Vec<InjectedSlowdown> = injected.filter(|one| one.is_timed()).collect();
        Self {
            plan,
            kinds: plants.iter().map(|plant| plant.kind()).collect(),
            plants,
            usual: Usual::default(),
            done: 0,
        }
    }

    /// Makes `runs` comparisons of every kind, until an interrupt, and until one more would probably end after `limit`, but
    /// at least one of every kind. Each run has one comparison of every kind, so that all kinds share the quiet and the busy
    /// times of the machine.
    fn run(&mut self, runs: u32, limit: Option<Duration>, shell: &Shell) -> Result<(), Failure> {
        let (quietly, start) = (shell.quietly(), Instant::now());
        let mut longest = Duration::ZERO;
        if self.plants.is_empty() {
            return Ok(());
        }
        if self.plants[0] != InjectedSlowdown::Nothing {
            // The injected time is a share, so the time of an operation must be known.
            let plan = plan::slowed(self.plan, InjectedSlowdown::Nothing, self.usual);
            self.usual = usual(&session::measure(&plan, &quietly)?.whole()?);
        }
        let all = runs as usize * self.plants.len();
        for run in 0..runs {
            for (plant, kind) in self.plants.iter().zip(&mut self.kinds) {
                let is_over = |limit| start.elapsed() + longest > limit;
                if run > 0 && limit.is_some_and(is_over) {
                    if !shell.printer.quiet {
                        say_over(self.done, all, runs);
                    }
                    return Ok(());
                }
                let begun = Instant::now();
                let plan = plan::slowed(self.plan, *plant, self.usual);
                let record = session::measure(&plan, &quietly)?.whole()?;
                if shell.interrupted() {
                    return Ok(());
                }
                let mut trial = trial(&record, begun.elapsed())?;
                if plant.is_near() {
                    self.usual = usual(&record);
                } else {
                    // With a link, the first target differs from that of the other kinds.
                    (trial.normalised_ln, trial.round_ln) = (None, None);
                }
                self.done += 1;
                longest = longest.max(begun.elapsed());
                if !shell.printer.quiet {
                    say(self.done, all, *plant, &trial);
                }
                kind.trials.push(trial);
            }
        }
        Ok(())
    }
}

fn say(done: usize, all: usize, plant: InjectedSlowdown, trial: &Trial) {
    files::write_error(&format!(
        "loadline: {done} of {all}, {}: {}, {:?} ({:.1} s)",
        plant.name(),
        trial.ratio.map_or_else(
            || "no median in half of the rounds".to_owned(),
            |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0)
        ),
        trial.verdict,
        Duration::from_nanos(trial.duration_ns).as_secs_f64()
    ));
}

fn say_over(done: usize, all: usize, runs: u32) {
    files::write_error(&format!(
        "loadline: {done} of {all} comparisons were made, since one more would end after {} s; --runs {runs} makes all",
        TIME.as_secs()
    ));
}

/// The time of an operation on the first target.
fn usual(record: &Record) -> Usual {
    let case = &record.cases[0];
    let tails = case.rounds.iter().filter_map(|round| round.tail);
    let tails: Vec<f64> = tails.map(|tail| tail.corrected_ns_p99 as f64).collect();
    Usual {
        p50: Duration::from_nanos(case.response_time_ns.p50.unwrap_or(0)),
        tail: Duration::from_nanos(quantile::median(&tails).unwrap_or(0.0) as u64),
        ..Usual::default()
    }
}

fn trial(record: &Record, took: Duration) -> Result<Trial, Failure> {
    let pairs = Metric::P50.of_pairs(&record.cases[0], &record.cases[1]);
    let (one, other) = pairs.unwrap_or_default();
    let noise = compare::log_ratios(&one, &other)
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let judged = |metric: Metric| {
        let mut all = record.comparisons.iter();
        all.find(|comparison| comparison.metric == metric.key())
    };
    let (median, tail) = (judged(Metric::P50), judged(Metric::CorrectedP99));
    let first = judging::of_subject(record, &record.cases[0].subject.name);
    let run = BaselineRun::of_record(&first).map_err(|error| judging::incomparable(&error))?;
    let kept = run
        .cases
        .values()
        .find_map(|case| case.metrics.get(&Metric::P50));
    Ok(Trial {
        ratio: median.map(|comparison| comparison.ratio),
        verdict: median.map_or(Verdict::Inconclusive, |comparison| comparison.verdict),
        tail_ratio: tail.map(|comparison| comparison.ratio),
        tail_verdict: tail.map(|comparison| comparison.verdict),
        outcome: Judged::of_comparisons(record, &Thresholds::default()).outcome,
        rounds: noise.len() as u64,
        duration_ns: took.as_nanos() as u64,
        noise,
        normalised_ln: kept.and_then(|kept| kept.normalised_ln),
        round_ln: kept.and_then(|kept| kept.round_ln),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six timed comparisons and four counted ones took 74 s on two idle cores and 121 s on two shared ones: both are within 30 %
    /// of the estimate.
    #[test]
    fn default_proof_is_estimated_as_it_takes() {
        let plan = plan::resolve_proof("get", None, &surroundings()).unwrap();
        let kinds = [
            &InjectedSlowdown::DEFAULT[..],
            &InjectedSlowdown::DEFAULT_WORK,
        ]
        .concat();
        let estimate = estimate(&plan, &kinds, DEFAULT_RUNS).unwrap();
        let most = estimate.most;
        assert!((94..105).contains(&most.as_secs()), "{most:?}");
        // On busy CPUs, the timed ones end after 150 s.
        let busy = estimate.sentence_beside(|| 9.0);
        assert!(busy.starts_with("takes about 175 s"), "{busy}");
    }
}
