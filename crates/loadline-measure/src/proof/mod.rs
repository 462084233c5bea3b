//! Whether verdicts are reliable on a machine: how often they report a difference where there is none, and
//! how often they detect a known one.
//!
//! Comparisons of a subject with itself give the machine's noise: one list of logarithms per comparison, as
//! [`log_ratios`](crate::compare::log_ratios) returns them. Many more comparisons are simulated in two stages
//! (Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8): a comparison is
//! drawn, with the differences between its processes, and then its rounds with replacement. Part of a
//! comparison's median is the chance of its few rounds, which drawing adds a second time, so the medians are
//! shrunk towards 0 until their remaining variance is that between processes. Both subjects are the same, so
//! either can be the second. A slowdown is simulated by adding its logarithm to every round.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

use crate::Metric;
use crate::compare::{self, Paired, Rules, Verdict};
use crate::gate::strict::Thresholds;
use crate::gate::{self, Baseline, BaselineCase, BaselineRun, Candidate, Measured, Outcome};
use crate::metric::Direction;
use crate::quantile;
use crate::record::{Bounds, Environment};

mod work;

pub use work::{WorkKind, WorkTrial};

/// The schema of a proof in JSON.
pub const SCHEMA: &str = "loadline.proof/1";

/// The results of a machine's comparisons of a subject with itself, and with slower ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// The version of Loadline.
    pub version: String,
    /// Scenario of the comparisons, in a sentence.
    pub scenario: String,
    /// The environment.
    pub environment: Environment,
    /// The injected slowdowns and the verdicts.
    pub kinds: Vec<Kind>,
    /// The same for instructions per operation; empty if they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<WorkKind>,
    /// The function that executes the injected work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_function: String,
    /// The verdicts of many more comparisons, simulated from the noise of the real ones.
    pub drawn: Vec<Drawn>,
    /// The total duration.
    pub duration_ns: u64,
    /// Whether an interrupt or a failure ended it before its last comparison.
    #[serde(default)]
    pub cut_short: bool,
}

/// A kind of slowdown and the verdicts of its comparisons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// The slowdown, such as "CPU in the server".
    pub what: String,
    /// The slowdown of `metric`, as a share; 0 for comparisons of a subject with itself.
    pub planted: f64,
    /// The metric of `planted`: [`Metric::P50`] or [`Metric::CorrectedP99`].
    #[serde(default = "median")]
    pub metric: Metric,
    /// The comparisons.
    pub trials: Vec<Trial>,
}

/// The result of one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The median response time of the second over that of the first; `None` if too few rounds have one.
    pub ratio: Option<f64>,
    /// The verdict on it.
    pub verdict: Verdict,
    /// The corrected 99th percentile of the second over that of the first; `None` like `tail_verdict`.
    #[serde(default)]
    pub tail_ratio: Option<f64>,
    /// The verdict on the corrected 99th percentile; `None` if CPU waiting time was not observed, for example
    /// behind a link.
    #[serde(default)]
    pub tail_verdict: Option<Verdict>,
    /// The outcome of the whole comparison, which includes other metrics.
    pub outcome: Outcome,
    /// Rounds in which both sides had enough operations for a ratio.
    pub rounds: u64,
    /// The duration.
    pub duration_ns: u64,
    /// The logarithms of the ratios of its rounds.
    pub noise: Vec<f64>,
    /// The value that a run of a baseline would store for the first subject: the logarithm in units of the
    /// reference, as in [`Measured`].
    pub normalised_ln: Option<f64>,
    /// The same without the reference.
    #[serde(default)]
    pub round_ln: Option<f64>,
}

/// The result of simulated comparisons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// The method: `pairs` or `baseline`.
    pub method: String,
    /// The simulated slowdown, as a share.
    pub planted: f64,
    /// Cases that were judged together.
    pub cases: u64,
    /// Suites with an alarm.
    pub alarms: Share,
}

impl Kind {
    /// The difference by `metric`: the median of the measured ratios of all comparisons; `None` if there is
    /// none.
    #[must_use]
    pub fn measured(&self) -> Option<f64> {
        let ratio = |trial: &Trial| match self.metric {
            Metric::CorrectedP99 => trial.tail_ratio,
            _ => trial.ratio,
        };
        let ratios: Vec<f64> = self.trials.iter().filter_map(ratio).collect();
        quantile::median(&ratios)
    }

    /// Number of comparisons that called the median slower.
    #[must_use]
    pub fn found(&self) -> Share {
        self.count(|trial| trial.verdict == Verdict::Slower)
    }

    /// Number of comparisons that called the corrected 99th percentile slower; `None` if no comparison has one.
    #[must_use]
    pub fn tails_found(&self) -> Option<Share> {
        let verdicts = || self.trials.iter().filter_map(|trial| trial.tail_verdict);
        let found = verdicts().filter(|verdict| *verdict == Verdict::Slower);
        let share = Share {
            hits: found.count() as u64,
            of: verdicts().count() as u64,
        };
        (share.of > 0).then_some(share)
    }

    /// Number of comparisons that were a warning or worse.
    #[must_use]
    pub fn alarms(&self) -> Share {
        self.count(|trial| trial.outcome >= Outcome::Warning)
    }

    fn count(&self, is_hit: impl Fn(&Trial) -> bool) -> Share {
        Share {
            hits: self.trials.iter().filter(|trial| is_hit(trial)).count() as u64,
            of: self.trials.len() as u64,
        }
    }
}

impl Trial {
    /// The value that a run of a baseline would store for the first subject.
    fn as_run(&self) -> Option<Measured> {
        let (normalised, own) = (self.normalised_ln?, self.round_ln?);
        Some(run_of(normalised, own))
    }
}

/// A run of a baseline, in one metric of one case, from the medians of its rounds: in units of the reference,
/// and without it.
fn run_of(normalised_ln: f64, round_ln: f64) -> Measured {
    Measured {
        normalised_ln: Some(normalised_ln),
        round_ln: Some(round_ln),
        raw: round_ln.exp(),
        rounds: 1,
    }
}

/// The metric of older proofs.
fn median() -> Metric {
    Metric::P50
}

impl Proof {
    /// Simulates comparisons from the noise of those without a slowdown: suites of 20 cases for false alarms,
    /// and single cases for detection.
    pub fn draw(&mut self, suites: u64, seed: u64) {
        let unplanted = || self.kinds.iter().filter(|kind| kind.planted == 0.0);
        let trials = || unplanted().flat_map(|kind| &kind.trials);
        let noise: Vec<Vec<f64>> = trials().map(|trial| trial.noise.clone()).collect();
        let all = self.kinds.iter().flat_map(|kind| &kind.trials);
        let runs: Vec<Measured> = all.filter_map(Trial::as_run).collect();
        let plans = [(0.0, 20), (0.05, 1), (0.10, 1), (0.20, 1)];
        self.drawn = plans
            .iter()
            .flat_map(|(planted, cases)| {
                let draw = Draw {
                    planted: *planted,
                    cases: *cases,
                    baseline_runs: Thresholds::default().least_runs,
                    suites,
                    seed,
                };
                let drawn = |method: &str, alarms: Share| Drawn {
                    method: method.to_owned(),
                    planted: *planted,
                    cases: *cases as u64,
                    alarms,
                };
                [
                    (!noise.is_empty()).then(|| drawn("pairs", of_pairs(&noise, &draw))),
                    of_baselines(&runs, &draw).map(|alarms| drawn("baseline", alarms)),
                ]
            })
            .flatten()
            .collect();
    }
}

/// The number of events and of opportunities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The number of events.
    pub hits: u64,
    /// The number of opportunities.
    pub of: u64,
}

/// The parameters of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// The slowdown of every case, as a share; 0 for none.
    pub planted: f64,
    /// Cases of a suite, which are judged together.
    pub cases: usize,
    /// Runs of each baseline, if the method needs one.
    pub baseline_runs: usize,
    /// Suites.
    pub suites: u64,
    /// The seed.
    pub seed: u64,
}

impl Share {
    /// The share, from 0 to 1; 0 without opportunities.
    #[must_use]
    pub fn value(self) -> f64 {
        self.hits as f64 / self.of.max(1) as f64
    }

    /// The 95 % interval of the true share (Clopper and Pearson, "The Use of Confidence or Fiducial
    /// Limits Illustrated in the Case of the Binomial", 1934).
    #[must_use]
    pub fn interval_95(self) -> Bounds {
        let (hits, misses) = (self.hits as f64, self.of.saturating_sub(self.hits) as f64);
        let quantile = |a: f64, b: f64, p: f64| {
            Beta::new(a, b)
                .expect("both parameters are above zero")
                .inverse_cdf(p)
        };
        Bounds {
            lo: if self.hits == 0 {
                0.0
            } else {
                quantile(hits, misses + 1.0, 0.025)
            },
            hi: if self.hits >= self.of {
                1.0
            } else {
                quantile(hits + 1.0, misses, 0.975)
            },
        }
    }
}

/// Simulates suites of comparisons from the noise of real ones and counts those in which any case is called
/// slower after Holm's correction.
#[must_use]
pub fn of_pairs(noise: &[Vec<f64>], draw: &Draw) -> Share {
    let mut rng = SmallRng::seed_from_u64(draw.seed);
    let rules = Rules::default();
    let planted = draw.planted.ln_1p();
    let noise = Stages::of(noise);
    let mut share = Share::default();
    for _ in 0..draw.suites {
        let mut family: Vec<Paired> = (0..draw.cases)
            .filter_map(|_| noise.draw(planted, &rules, &mut rng))
            .collect();
        compare::correct_for_several(&mut family, rules.alpha);
        let is_slower = |paired: &Paired| paired.verdict == Verdict::Slower;
        share.of += 1;
        share.hits += u64::from(family.iter().any(is_slower));
    }
    share
}

/// Noise for two-stage drawing; see the module documentation.
struct Stages {
    /// The median of each comparison, and the deviations of its rounds from it.
    comparisons: Vec<(f64, Vec<f64>)>,
    /// The share of a median that is caused by differences between processes.
    kept: f64,
}

impl Stages {
    fn of(noise: &[Vec<f64>]) -> Self {
        let around_median = |rounds: &Vec<f64>| {
            let middle = quantile::median(rounds)?;
            Some((middle, rounds.iter().map(|d| d - middle).collect()))
        };
        let comparisons: Vec<(f64, Vec<f64>)> = noise.iter().filter_map(around_median).collect();
        // The variance of the median of n normal values is pi / 2 times that of their mean.
        let by_chance = |(_, off): &(f64, Vec<f64>)| {
            let deviation = quantile::scaled_mad(off).unwrap_or_default();
            std::f64::consts::FRAC_PI_2 * deviation.powi(2) / off.len() as f64
        };
        let by_chance: f64 = comparisons.iter().map(by_chance).sum();
        let all: f64 = comparisons.iter().map(|(middle, _)| middle * middle).sum();
        let kept = if all > by_chance {
            (1.0 - by_chance / all).sqrt()
        } else {
            0.0
        };
        Self { comparisons, kept }
    }

    fn draw(&self, planted: f64, rules: &Rules, rng: &mut SmallRng) -> Option<Paired> {
        let (middle, off) = self.comparisons.choose(rng)?;
        let turn = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
        let centre = turn * self.kept * middle + planted;
        let b: Vec<f64> = (0..off.len())
            .map(|_| (centre + turn * off[rng.random_range(0..off.len())]).exp())
            .collect();
        compare::paired(&vec![1.0; b.len()], &b, Direction::LessIsBetter, rules).ok()
    }
}

/// Draws baselines and candidates from the stored values of real runs, and counts the suites in which the
/// gate raises an alarm, which requires both runs of the candidate and Holm's correction. `None` if there are
/// too few runs.
#[must_use]
pub fn of_baselines(runs: &[Measured], draw: &Draw) -> Option<Share> {
    let held = draw.baseline_runs;
    if runs.len() < held + 2 {
        return None;
    }
    let mut rng = SmallRng::seed_from_u64(draw.seed);
    let planted = draw.planted.ln_1p();
    let mut share = Share::default();
    for _ in 0..draw.suites {
        let mut drawn: Vec<BaselineRun> = (0..held + 2)
            .map(|index| BaselineRun {
                id: index.to_string(),
                ..BaselineRun::default()
            })
            .collect();
        for case in 0..draw.cases {
            // Without replacement: a run of the baseline cannot be its candidate.
            let values = rand::seq::index::sample(&mut rng, runs.len(), drawn.len());
            for (index, (run, value)) in drawn.iter_mut().zip(values).enumerate() {
                let slower = if index < held { 0.0 } else { planted };
                let run_drawn = slowed(runs[value], slower);
                run.cases
                    .insert(format!("case {case:02}"), case_of(run_drawn));
            }
        }
        share.of += 1;
        share.hits += u64::from(is_alarm(drawn));
    }
    Some(share)
}

/// The run with every time of the case longer by this logarithm.
fn slowed(run: Measured, slower: f64) -> Measured {
    Measured {
        normalised_ln: run.normalised_ln.map(|ln| ln + slower),
        round_ln: run.round_ln.map(|ln| ln + slower),
        raw: run.raw * slower.exp(),
        ..run
    }
}

fn case_of(measured: Measured) -> BaselineCase {
    BaselineCase {
        metrics: [(Metric::P50, measured)].into(),
        ..BaselineCase::default()
    }
}

/// Whether the gate raises an alarm. The last two runs are the candidate's, the others the baseline's.
fn is_alarm(mut runs: Vec<BaselineRun>) -> bool {
    let (second, first) = (runs.pop(), runs.pop());
    let place = Environment::default();
    let mut baseline = Baseline::new(
        String::new(),
        String::new(),
        serde_json::Value::Null,
        place.clone(),
        Vec::new(),
    );
    baseline.runs = runs;
    first.is_some_and(|first| {
        let candidate = Candidate {
            first: &first,
            second: second.as_ref(),
            environment: &place,
            workload_hash: "",
        };
        gate::judge(&baseline, &candidate).outcome >= Outcome::Warning
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of comparisons with the noise of `docs/analysis.md`: 1.5 % between rounds, 0.44 % between
    /// processes.
    fn noise(comparisons: usize) -> Vec<Vec<f64>> {
        let mut rng = SmallRng::seed_from_u64(11);
        let mut normal = move |deviation: f64| {
            let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
            (sum - 6.0) * deviation
        };
        (0..comparisons)
            .map(|_| {
                let processes = normal(0.0044);
                (0..24).map(|_| processes + normal(0.015)).collect()
            })
            .collect()
    }

    #[test]
    fn shares_have_the_intervals_of_the_tables() {
        // Clopper-Pearson intervals as R's binom.test gives them.
        for (hits, of, lo, hi) in [
            (0, 1_000, 0.0, 0.003_682),
            (1, 1_000, 0.000_025_3, 0.005_559),
            (99, 100, 0.945_54, 0.999_747),
            (5, 10, 0.187_086, 0.812_914),
            (20, 20, 0.831_566, 1.0),
        ] {
            let found = Share { hits, of }.interval_95();
            assert!((found.lo - lo).abs() < 2e-5, "{hits} of {of}: {found:?}");
            assert!((found.hi - hi).abs() < 2e-5, "{hits} of {of}: {found:?}");
        }
        assert_eq!(Share::default().value(), 0.0);
    }

    /// Summed over all possible results instead of sampled.
    #[test]
    fn interval_of_a_share_holds_the_true_one_in_95_percent_or_more() {
        for of in [5_u64, 20, 60] {
            let intervals: Vec<Bounds> = (0..=of)
                .map(|hits| Share { hits, of }.interval_95())
                .collect();
            for percent in 1..100 {
                let truth = f64::from(percent) / 100.0;
                let mut likely = (1.0 - truth).powi(of as i32);
                let mut covered = 0.0;
                for (hits, interval) in intervals.iter().enumerate() {
                    if (interval.lo..=interval.hi).contains(&truth) {
                        covered += likely;
                    }
                    likely *=
                        (of as usize - hits) as f64 / (hits + 1) as f64 * truth / (1.0 - truth);
                }
                assert!(covered >= 0.95, "{of}, {truth}: {covered}");
                assert!(
                    of < 60 || percent % 50 != 0 || covered < 0.98,
                    "not wider than needed: {covered}"
                );
            }
        }
    }

    #[test]
    fn pairs_of_such_noise_raise_no_false_alarm_and_show_five_percent() {
        let noise = noise(30);
        let draw = Draw {
            planted: 0.0,
            cases: 20,
            baseline_runs: 8,
            suites: 300,
            seed: 1,
        };
        assert_eq!(of_pairs(&noise, &draw).hits, 0);
        for (planted, least) in [(0.05, 0.85), (0.10, 1.0), (0.20, 1.0)] {
            let draw = Draw {
                planted,
                cases: 1,
                ..draw
            };
            let found = of_pairs(&noise, &draw).value();
            assert!(found >= least, "{planted}: {found}");
        }
    }

    /// Simulated comparisons are as wide as new real ones and no wider: in 400 comparisons without a
    /// difference between processes no variance is left, and with one that difference remains.
    #[test]
    fn first_stage_keeps_what_processes_differ_by() {
        let mut rng = SmallRng::seed_from_u64(12);
        let mut normal = |deviation: f64| {
            let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
            (sum - 6.0) * deviation
        };
        for (processes, least, most) in [(0.0, 0.0, 0.4), (0.004, 0.55, 0.9), (0.03, 0.95, 1.0)] {
            let noise: Vec<Vec<f64>> = (0..400)
                .map(|_| {
                    let own = normal(processes);
                    (0..24).map(|_| own + normal(0.015)).collect()
                })
                .collect();
            let stages = Stages::of(&noise);
            assert!(
                (least..=most).contains(&stages.kept),
                "{processes}: {}",
                stages.kept
            );
        }
    }

    #[test]
    fn baselines_of_such_runs_raise_no_false_alarm_and_show_twenty_percent() {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let runs: Vec<Measured> = (0..40)
            .map(|_| {
                let (own, reference) = (0.01 * normal(), 0.03 * normal());
                run_of(own - 0.2 * reference, own + 0.8 * reference)
            })
            .collect();
        let draw = Draw {
            planted: 0.0,
            cases: 20,
            baseline_runs: 8,
            suites: 100,
            seed: 1,
        };
        assert_eq!(of_baselines(&runs, &draw).unwrap().hits, 0);
        let planted = Draw {
            planted: 0.2,
            cases: 1,
            ..draw
        };
        assert!(of_baselines(&runs, &planted).unwrap().value() > 0.99);
        assert_eq!(of_baselines(&runs[..9], &draw), None);
    }
}
