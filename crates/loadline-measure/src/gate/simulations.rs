//! The rules on made-up noise of the size that `docs/analysis.md` states, with a fixed seed: how
//! often they raise a false alarm, and how often they find what was planted.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::baseline::{Baseline, BaselineCase, BaselineRun, Measured};
use super::judgement::{Judgement, Outcome, Policy, RowVerdict};
use super::strict::{Candidate, judge};
use crate::compare::{Verdict, log_ratios, precise_for};
use crate::metric::Metric;
use crate::record::{Case, Comparison, Environment, Record, RoundSummary, Run, Scenario, Subject};

/// The cases of a suite.
const CASES: usize = 20;

/// How often a rule is tried. `cargo test --release -p loadline-measure simulations` tries as many
/// runs as the limits are stated for.
const RUNS: usize = if cfg!(debug_assertions) { 200 } else { 1_000 };

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

/// How much two processes of the same binary differ.
const PROCESS: f64 = 0.0044;

/// How often servers are started anew in a comparison.
const GENERATIONS: f64 = 3.0;

/// A round of two subjects of which the second takes `worse` longer, as a logarithm.
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

fn is_alarm(judgement: &Judgement) -> bool {
    matches!(judgement.outcome, Outcome::Warning | Outcome::Critical)
}

/// Standard deviations between runs, normalised by the reference.
const RUN_P50: f64 = 0.010;
const RUN_MEAN: f64 = 0.056;

fn run(noise: &mut Noise, id: usize, worse: &[f64]) -> BaselineRun {
    let measured = |ln: f64| Measured {
        normalised_ln: Some(ln),
        raw: 1e5,
        rounds: 12,
    };
    let cases = worse.iter().enumerate().map(|(index, worse)| {
        let metrics = BTreeMap::from([
            (Metric::P50, measured(worse + noise.normal(RUN_P50))),
            (
                Metric::Throughput,
                measured(20.0 - worse - noise.normal(RUN_MEAN)),
            ),
        ]);
        let case = BaselineCase {
            metrics,
            response_time: String::new(),
        };
        (format!("case {index:02}"), case)
    });
    BaselineRun {
        id: id.to_string(),
        started_at: String::new(),
        cases: cases.collect(),
    }
}

/// Judges a candidate as a gate does: a second run is made where the first asks for it.
fn gated(noise: &mut Noise, runs: usize, worse: &[f64]) -> bool {
    let place = Environment::default();
    let mut baseline = Baseline::new(
        String::new(),
        "abc".to_owned(),
        serde_json::Value::Null,
        place.clone(),
        Vec::new(),
    );
    for id in 0..runs {
        let normal = run(noise, id, &vec![0.0; worse.len()]);
        baseline.add(normal, &place, "abc").unwrap();
    }
    let first = run(noise, 1_000, worse);
    let again = run(noise, 1_001, worse);
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
    let mut noise = Noise::new(21);
    let alarms = (0..RUNS)
        .map(|_| pairs(&mut noise, &[0.0; CASES]))
        .filter(|record| is_alarm(&Judgement::of_comparisons(record, Policy::Strict)))
        .count();
    println!("pairs, nothing planted: {alarms} alarms in {RUNS} suites of {CASES} cases");
    assert!(
        alarms * 1_000 <= RUNS,
        "{alarms} false alarms in {RUNS} runs"
    );
}

#[test]
fn pairs_find_five_percent_and_alarm_at_ten() {
    let mut noise = Noise::new(22);
    for share in [0.05_f64, 0.10] {
        let (mut found, mut alarms) = (0, 0);
        for _ in 0..RUNS {
            let record = pairs(&mut noise, &[share.ln_1p()]);
            let judgement = Judgement::of_comparisons(&record, Policy::Strict);
            let p50 = &judgement.rows[1];
            assert_eq!(p50.metric, Metric::P50);
            found += usize::from(is_worse(p50.verdict));
            alarms += usize::from(is_alarm(&judgement));
        }
        println!("pairs, {share} planted: p50 slower in {found} of {RUNS}, alarm in {alarms}");
        assert!(found * 100 >= RUNS * 99, "{share}: {found} of {RUNS}");
        // An estimate of 5 % warns, so that a true 5 % warns in about half of the runs.
        let is_certain = share > 0.05;
        assert!(!is_certain || alarms == RUNS, "{share}: {alarms} of {RUNS}");
    }
}

#[test]
fn baselines_raise_at_most_one_false_alarm_in_a_thousand_runs_of_a_suite() {
    let mut noise = Noise::new(23);
    for runs in [8, 20] {
        let judged = (0..RUNS).filter(|_| gated(&mut noise, runs, &[0.0; CASES]));
        let alarms = judged.count();
        println!("{runs} runs, nothing planted: {alarms} alarms in {RUNS} suites of {CASES}");
        assert!(
            alarms * 1_000 <= RUNS,
            "{alarms} of {RUNS}, {runs} in the baseline"
        );
    }
}

#[test]
fn baselines_find_ten_percent() {
    let worse = 0.10_f64.ln_1p();
    let mut alone_in_suite = [0.0; CASES];
    alone_in_suite[0] = worse;
    // The fewer runs there are, the less they tell of how runs differ: 8 find what concerns all
    // cases, 10 what concerns the only case, and 16 one case among twenty. What fewer find is shown.
    for (runs, planted, is_enough) in [
        (8, &[worse; CASES][..], true),
        (8, &[worse][..], false),
        (8, &alone_in_suite[..], false),
        (10, &[worse][..], true),
        (12, &alone_in_suite[..], false),
        (16, &alone_in_suite[..], true),
    ] {
        let mut noise = Noise::new(24);
        let found = (0..RUNS)
            .filter(|_| gated(&mut noise, runs, planted))
            .count();
        let (cases, slower) = (planted.len(), planted.iter().filter(|x| **x > 0.0).count());
        println!("{runs} runs, 10 % planted in {slower} of {cases} cases: found {found} of {RUNS}");
        assert!(
            !is_enough || found * 100 >= RUNS * 99,
            "{found} of {RUNS}, {runs} in the baseline"
        );
    }
}
