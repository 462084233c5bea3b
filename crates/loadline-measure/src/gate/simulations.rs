//! Simulations of the rules with noise of the size that `docs/analysis.md` states and a fixed seed: the rate
//! of false alarms, and the rate of detected changes.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::baseline::{Baseline, BaselineCase, BaselineRun, Measured};
use super::candidate::Candidate;
use super::judgement::{Outcome, RowVerdict};
use super::reason::Judged;
use super::strict::Thresholds;
use super::strict::judge;
use crate::compare::{Verdict, log_ratios, precise_for};
use crate::metric::Metric;
use crate::record::{Case, Comparison, Environment, Record, RoundSummary, Run, Scenario, Subject};

/// The cases of a suite.
const CASES: usize = 20;

/// The number of trials of a rule, and of suites without changes that are judged against baselines.
#[derive(Debug, Clone, Copy)]
struct Size {
    runs: usize,
    suites: usize,
}

/// The long setting has as many trials as docs/analysis.md states limits for; see CONTRIBUTING.md.
fn size() -> Size {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let (runs, suites) = if is_long { (1_000, 10_000) } else { (200, 200) };
    Size { runs, suites }
}

/// Normal noise from a seed.
struct Noise(SmallRng);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    fn normal(&mut self, deviation: f64) -> f64 {
        let (u, v): (f64, f64) = (self.0.random(), self.0.random());
        deviation * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// With heavy tails: one value in ten comes from a distribution three times as wide. The
    /// standard deviation of all is as given.
    fn heavy(&mut self, deviation: f64) -> f64 {
        let wide = if self.0.random_bool(0.1) { 3.0 } else { 1.0 };
        self.normal(deviation * wide / 1.8_f64.sqrt())
    }
}

/// Standard deviations of the logarithm of the ratio of two subjects within a round. At 24 rounds
/// the half-width of the interval is 0.73 of them, and changes of 3.5 %, 5.2 % and 13 % would show.
const ROUND_P50: f64 = 0.0205;
const ROUND_CPU: f64 = 0.042;
const ROUND_THROUGHPUT: f64 = 0.147;

/// Standard deviation between two processes of the same binary.
const PROCESS: f64 = 0.0044;

/// Number of times that servers are started anew in a comparison.
const GENERATIONS: f64 = 3.0;

/// A round of two subjects; the second takes longer by the logarithm `worse`.
fn round(noise: &mut Noise, worse: f64) -> [RoundSummary; 2] {
    let level = noise.normal(0.3).exp();
    let of = |p50: f64, cpu: f64, throughput: f64| RoundSummary {
        throughput_ops_per_s: 1e5 / level * (-throughput).exp(),
        response_time_ns_p50: Some((1e8 * level * p50.exp()) as u64),
        server_cpu_ns_per_op: Some(5e3 * level * cpu.exp()),
        ..RoundSummary::default()
    };
    let other = of(
        worse + noise.heavy(ROUND_P50),
        noise.heavy(ROUND_CPU),
        noise.heavy(ROUND_THROUGHPUT),
    );
    [of(0.0, 0.0, 0.0), other]
}

/// A record of two targets under some workloads; the number of rounds of a workload is what makes
/// the comparison by p50 precise enough.
fn pairs(noise: &mut Noise, worse_by: &[f64]) -> Record {
    let mut record = Record::new(Run::default(), Environment::default());
    for (index, worse) in worse_by.iter().enumerate() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let worse = worse + noise.normal(PROCESS / GENERATIONS.sqrt());
        loop {
            let [one, other] = round(noise, worse);
            a.push(one);
            b.push(other);
            let p50 = |rounds: &[RoundSummary]| -> Vec<f64> {
                rounds
                    .iter()
                    .filter_map(|round| Metric::P50.of_round(round))
                    .collect()
            };
            if precise_for(&log_ratios(&p50(&a), &p50(&b)).unwrap(), 3 * worse_by.len()) {
                break;
            }
        }
        for (name, rounds) in [("one", a), ("other", b)] {
            record.cases.push(Case {
                subject: Subject {
                    name: name.to_owned(),
                    ..Subject::default()
                },
                scenario: Scenario {
                    workload: format!("work {index}"),
                    ..Scenario::default()
                },
                rounds,
                ..Case::default()
            });
        }
        for metric in [Metric::Throughput, Metric::P50, Metric::ServerCpu] {
            record.comparisons.push(Comparison {
                a: 2 * index,
                b: 2 * index + 1,
                metric: metric.key().to_owned(),
                direction: metric.direction(),
                ratio: 1.0,
                interval: None,
                minimum_detectable_effect: None,
                rounds: 0,
                verdict: Verdict::Inconclusive,
                evidence: String::new(),
            });
        }
    }
    record
}

fn is_worse(verdict: RowVerdict) -> bool {
    matches!(
        verdict,
        RowVerdict::Slower | RowVerdict::Warning | RowVerdict::Critical
    )
}

fn is_alarm(judgement: &Judged) -> bool {
    matches!(judgement.outcome, Outcome::Warning | Outcome::Critical)
}

/// Standard deviations between runs, normalised by the reference.
const RUN_P50: f64 = 0.010;
const RUN_MEAN: f64 = 0.056;
/// Standard deviations of the reference between runs, on a quiet machine and on a busy one.
const MOVES: [f64; 2] = [0.02, 0.08];

/// The effect of the machine on runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Machine {
    /// No effect that the reference would show.
    Still,
    /// It slows the reference, and the cases by a share of that which differs between suites.
    Moving,
    /// The same with the whole reference removed: the earlier rule.
    MovingTakenOut,
}

/// The variation between runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Runs {
    /// Normal, equal for all cases, independent.
    Alike,
    /// One value in ten comes from a distribution three times as wide.
    Heavy,
    /// The cases' deviations lie between half and twice the usual one, evenly on a log scale.
    Unlike,
    /// Half of the variance is the run's own, the same for all cases.
    Together,
    /// All of these at once.
    Worst,
}

/// Runs of a suite.
struct Suite<'n> {
    noise: &'n mut Noise,
    kind: Runs,
    /// Width of each case's noise, relative to the usual one.
    widths: Vec<f64>,
    /// The variation of the reference between runs, and the share of it that affects the cases.
    moves: f64,
    follows: f64,
    machine: Machine,
    made: usize,
}

impl<'n> Suite<'n> {
    fn new(noise: &'n mut Noise, (kind, machine): (Runs, Machine), cases: usize) -> Self {
        let unlike = matches!(kind, Runs::Unlike | Runs::Worst);
        let mut width = |_| {
            let at: f64 = noise.0.random_range(-1.0..1.0);
            if unlike { at.exp2() } else { 1.0 }
        };
        let widths = (0..cases).map(&mut width).collect();
        let (mut moves, mut follows) = (0.0, 0.0);
        if machine != Machine::Still {
            moves = MOVES[noise.0.random_range(0..MOVES.len())];
            follows = noise.0.random();
        }
        Self {
            noise,
            kind,
            widths,
            moves,
            follows,
            machine,
            made: 0,
        }
    }

    fn draw(&mut self, deviation: f64) -> f64 {
        if matches!(self.kind, Runs::Heavy | Runs::Worst) {
            self.noise.heavy(deviation)
        } else {
            self.noise.normal(deviation)
        }
    }

    /// One value per case, with this deviation.
    fn values(&mut self, deviation: f64) -> Vec<f64> {
        let share = if matches!(self.kind, Runs::Together | Runs::Worst) {
            0.5_f64
        } else {
            0.0
        };
        let whole = self.draw(deviation * share.sqrt());
        let own = deviation * (1.0 - share).sqrt();
        let widths = self.widths.clone();
        widths
            .into_iter()
            .map(|width| width * (whole + self.draw(own)))
            .collect()
    }

    fn run(&mut self, worse: &[f64]) -> BaselineRun {
        // The effect of the machine on all cases of a run, and on the echo.
        let moved = self.noise.normal(self.moves);
        let follows = self.follows;
        let is_told = self.machine != Machine::MovingTakenOut;
        let measured = |ln: f64, sign: f64| Measured {
            normalised_ln: Some(ln + sign * (follows - 1.0) * moved),
            round_ln: is_told.then_some(ln + sign * follows * moved),
            // Without raw values, only the normalised value can be judged.
            raw: if is_told { 1e5 } else { 0.0 },
            rounds: 12,
        };
        let (p50, throughput) = (self.values(RUN_P50), self.values(RUN_MEAN));
        let cases = worse.iter().enumerate().map(|(index, worse)| {
            let metrics = BTreeMap::from([
                (Metric::P50, measured(worse + p50[index], 1.0)),
                (
                    Metric::Throughput,
                    measured(20.0 - worse - throughput[index], -1.0),
                ),
            ]);
            let case = BaselineCase {
                metrics,
                ..BaselineCase::default()
            };
            (format!("case {index:02}"), case)
        });
        let cases = cases.collect();
        self.made += 1;
        BaselineRun {
            id: self.made.to_string(),
            started_at: String::new(),
            cases,
        }
    }
}

/// Judges a candidate as the gate does: with a second run if the first one asks for it.
fn gated(noise: &mut Noise, of: (Runs, Machine), runs: usize, worse: &[f64]) -> bool {
    let mut suite = Suite::new(noise, of, worse.len());
    let place = Environment::default();
    let mut baseline = Baseline::new(
        String::new(),
        "abc".to_owned(),
        serde_json::Value::Null,
        place.clone(),
        Vec::new(),
    );
    for _ in 0..runs {
        let normal = suite.run(&vec![0.0; worse.len()]);
        baseline.add(normal, &place, "abc").unwrap();
    }
    let first = suite.run(worse);
    let again = suite.run(worse);
    let candidate = Candidate {
        first: &first,
        second: None,
        environment: &place,
        workload_hash: "abc",
    };
    let judgement = judge(&baseline, &candidate);
    judgement.needs_second_run()
        && is_alarm(&judge(
            &baseline,
            &Candidate {
                second: Some(&again),
                ..candidate
            },
        ))
}

#[test]
fn pairs_raise_at_most_one_false_alarm_in_a_thousand_runs_of_a_suite() {
    let tries = size().runs;
    let mut noise = Noise::new(21);
    let alarms = (0..tries)
        .map(|_| pairs(&mut noise, &[0.0; CASES]))
        .filter(|record| is_alarm(&Judged::of_comparisons(record, &Thresholds::default())))
        .count();
    println!("pairs, nothing planted: {alarms} alarms in {tries} suites of {CASES} cases");
    assert!(
        alarms * 1_000 <= tries,
        "{alarms} false alarms in {tries} runs"
    );
}

#[test]
fn pairs_find_five_percent_and_alarm_at_ten() {
    let tries = size().runs;
    let mut noise = Noise::new(22);
    for share in [0.05_f64, 0.10] {
        let (mut found, mut alarms) = (0, 0);
        for _ in 0..tries {
            let record = pairs(&mut noise, &[share.ln_1p()]);
            let judgement = Judged::of_comparisons(&record, &Thresholds::default());
            let p50 = &judgement.rows[1];
            assert_eq!(p50.metric, Metric::P50);
            found += usize::from(is_worse(p50.verdict));
            alarms += usize::from(is_alarm(&judgement));
        }
        println!("pairs, {share} planted: p50 slower in {found} of {tries}, alarm in {alarms}");
        assert!(found * 100 >= tries * 99, "{share}: {found} of {tries}");
        // An estimate of 5 % is a warning, so a true 5 % is detected in about half of the runs.
        let is_certain = share > 0.05;
        assert!(
            !is_certain || alarms == tries,
            "{share}: {alarms} of {tries}"
        );
    }
}

/// The kinds of noise, and the required detection rate in percent on a still and on a moving machine. With
/// heavy tails one of two runs lies far off too often; a case twice as wide as the others needs more runs;
/// and on a moving machine the coefficient of the reference has to be estimated from eight runs.
const KINDS: [(Runs, usize, usize); 5] = [
    (Runs::Alike, 99, 88),
    (Runs::Heavy, 94, 86),
    (Runs::Unlike, 85, 77),
    (Runs::Together, 98, 85),
    (Runs::Worst, 85, 77),
];

#[test]
fn baselines_raise_at_most_one_false_alarm_in_a_thousand_runs_of_a_suite() {
    let suites = size().suites;
    let mut noise = Noise::new(23);
    let mut broken = Vec::new();
    for (kind, _, _) in KINDS {
        for (runs, machine) in [
            (8, Machine::Still),
            (20, Machine::Still),
            (8, Machine::Moving),
        ] {
            let of = (kind, machine);
            let judged = (0..suites).filter(|_| gated(&mut noise, of, runs, &[0.0; CASES]));
            let alarms = judged.count();
            println!("{runs} runs, {of:?}, nothing planted: {alarms} alarms in {suites} suites");
            if alarms * 1_000 > suites {
                broken.push((of, runs, alarms));
            }
        }
    }
    assert!(broken.is_empty(), "false alarms in {suites}: {broken:?}");
}

const TEN_PERCENT: f64 = 0.095_310_179_8;

/// Number of trials of a suite with this number of cases. Suites take as much longer as they have more cases.
fn tries(cases: usize) -> usize {
    let runs = size().runs;
    if cases == 1 { runs } else { runs / 2 }
}

/// Number of times that 10 % are detected against a baseline of eight runs; `worse` is the change of each case.
fn found(of: (Runs, Machine), worse: &[f64]) -> usize {
    let tries = tries(worse.len());
    let mut noise = Noise::new(24);
    let found = (0..tries).filter(|_| gated(&mut noise, of, 8, worse));
    let found = found.count();
    let (cases, slower) = (worse.len(), worse.iter().filter(|x| **x > 0.0).count());
    println!("8 runs, {of:?}, 10 % planted in {slower} of {cases} cases: found {found} of {tries}");
    found
}

/// Checks that baselines of eight runs find 10 % at the rates of [`KINDS`], which `promised` selects.
fn find_ten_percent(machine: Machine, promised: impl Fn((Runs, usize, usize)) -> usize) {
    let mut alone_in_suite = [0.0; CASES];
    alone_in_suite[0] = TEN_PERCENT;
    let mut broken = Vec::new();
    for kind in KINDS {
        let of = (kind.0, machine);
        for planted in [&[TEN_PERCENT; CASES][..], &[TEN_PERCENT], &alone_in_suite] {
            let (found, tries) = (found(of, planted), tries(planted.len()));
            if found * 100 < tries * promised(kind) {
                broken.push((of, planted.len(), format!("{found} of {tries}")));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn baselines_of_eight_runs_find_ten_percent_on_a_still_machine() {
    find_ten_percent(Machine::Still, |(_, still, _)| still);
}

#[test]
fn baselines_of_eight_runs_find_ten_percent_on_a_moving_machine() {
    find_ten_percent(Machine::Moving, |(_, _, moving)| moving);
}

#[test]
fn taking_the_reference_out_by_as_much_as_it_explains_finds_more_than_in_full() {
    for (kind, _, _) in KINDS {
        let [now, before] = [Machine::Moving, Machine::MovingTakenOut]
            .map(|machine| found((kind, machine), &[TEN_PERCENT]));
        assert!(now * 10 >= before * 11, "{kind:?}: {now}, {before} in full");
    }
}
