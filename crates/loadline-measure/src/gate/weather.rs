//! A against A on a virtual machine whose speed drifts and that other programs interrupt: comparisons and gates by the
//! rules of the lab, in virtual time and from a fixed seed.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::baseline::{Baseline, BaselineRun};
use super::candidate::Candidate;
use super::judgement::Outcome;
use super::reason::Judged;
use super::strict::{Thresholds, judge};
use crate::compare::{
    Paired, Rules, Verdict, correct_for_several, log_ratios, paired, precise_for,
};
use crate::metric::Metric;
use crate::record::{
    Case, Comparison, Environment, LatencySummary, Record, RoundSummary, Run, Scenario, Subject,
    Tail, TailSummary,
};

/// The workloads of a run.
const CASES: usize = 3;
/// The metrics that the lab compares.
const COMPARED: [Metric; 4] = [
    Metric::Throughput,
    Metric::P50,
    Metric::CorrectedP99,
    Metric::ServerCpu,
];
/// The rounds of a run for a gate.
const ROUNDS: usize = 12;
/// Slices of time of 25 ms: in a block, in the pause after it, and in an echo.
const SLICE_S: f64 = 0.025;
const BLOCK: usize = 10;
const PAUSE: usize = 1;
const ECHO: usize = 1;
/// The comparisons with a difference of 65 %, all of which are found.
const FOUND: u64 = 10;
/// The logarithm of the difference between two processes of the same binary, as a standard deviation.
const PROCESS: f64 = 0.0025;

/// A disturbance of the machine.
#[derive(Debug, Clone, Copy)]
struct Weather {
    /// The change of the logarithm of the speed in a second: of either direction, and downwards.
    wander: f64,
    slope: f64,
    /// The time between bursts of other programs and their length, in seconds.
    between_s: f64,
    burst_s: f64,
    /// Largest factor by which a burst slows the machine down.
    slow: f64,
    /// Whether echoes end before they wait for a CPU, since they are short.
    is_unseen_by_echo: bool,
}

const FAIR: Weather = Weather {
    wander: 0.01,
    slope: 0.0,
    between_s: f64::INFINITY,
    burst_s: 0.0,
    slow: 1.0,
    is_unseen_by_echo: false,
};
const WEATHERS: [(&str, Weather); 5] = [
    ("fair", FAIR),
    (
        "drift",
        Weather {
            wander: 0.06,
            slope: 0.02,
            ..FAIR
        },
    ),
    (
        "short bursts",
        Weather {
            between_s: 0.6,
            burst_s: 0.1,
            slow: 4.0,
            ..FAIR
        },
    ),
    (
        "long bursts",
        Weather {
            between_s: 8.0,
            burst_s: 3.0,
            slow: 8.0,
            ..FAIR
        },
    ),
    (
        "storm",
        Weather {
            wander: 0.06,
            slope: 0.02,
            between_s: 0.8,
            burst_s: 0.5,
            slow: 20.0,
            ..FAIR
        },
    ),
];

/// A machine at a time, in seconds.
struct Machine {
    noise: SmallRng,
    weather: Weather,
    at_s: f64,
    /// The logarithm of the speed.
    drift: f64,
    /// The burst that runs or comes next, and its slowdown.
    burst: (f64, f64),
    slow: f64,
    /// The sum over the slices of the share in which work waited for a CPU.
    waited: f64,
}

impl Machine {
    fn new(weather: Weather, seed: u64) -> Self {
        let mut machine = Self {
            noise: SmallRng::seed_from_u64(seed),
            weather,
            at_s: 0.0,
            drift: 0.0,
            burst: (0.0, 0.0),
            slow: 1.0,
            waited: 0.0,
        };
        machine.drift = 0.05 * machine.normal();
        machine
    }

    fn normal(&mut self) -> f64 {
        let (u, v): (f64, f64) = (self.noise.random(), self.noise.random());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.noise.random::<f64>()).ln()
    }

    /// The speed in the next slice of time.
    fn slice(&mut self) -> f64 {
        let weather = self.weather;
        let step = weather.wander * SLICE_S.sqrt() * self.normal();
        self.drift += step - weather.slope * SLICE_S;
        if self.at_s >= self.burst.1 {
            let from = self.at_s + self.exponential(weather.between_s);
            self.burst = (from, from + self.exponential(weather.burst_s));
            self.slow = self.noise.random_range(1.0..=weather.slow);
        }
        let is_slow = (self.burst.0..self.burst.1).contains(&self.at_s);
        self.at_s += SLICE_S;
        let slow = if is_slow { self.slow } else { 1.0 };
        self.waited += 1.0 - 1.0 / slow;
        (self.drift + 0.02 * self.normal()).exp() / slow
    }

    fn slices(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.slice()).collect()
    }

    /// A block of a subject that takes longer by the logarithm `worse`, after an echo and before a pause.
    fn block(&mut self, worse: f64) -> RoundSummary {
        let median = |speeds: &[f64]| crate::quantile::median(speeds).unwrap();
        let echo = match median(&self.slices(ECHO)) {
            _ if self.weather.is_unseen_by_echo => self.drift.exp(),
            echo => echo,
        };
        let before = self.waited;
        let speeds = self.slices(BLOCK);
        let waited = (self.waited - before) / BLOCK as f64;
        self.slices(PAUSE);
        let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
        let p50 = 1e8 * worse.exp() / median(&speeds);
        let tail = p50 * (1.5 + self.exponential(0.3));
        RoundSummary {
            duration_ns: 250_000_000,
            server_cpu_wait: Some(waited),
            throughput_ops_per_s: 1e5 * mean / worse.exp(),
            response_time_ns_p50: Some(p50 as u64),
            // Waiting costs no CPU time, but caches are colder after it.
            server_cpu_ns_per_op: Some(
                5e3 * (worse - 0.1 * mean.ln() + 0.02 * self.normal()).exp(),
            ),
            reference_ns_p50: Some((2e4 / echo) as u64),
            tail: Some(TailSummary {
                corrected_ns_p99: tail as u64,
                ..TailSummary::default()
            }),
            ..RoundSummary::default()
        }
    }

    fn case(name: &str, workload: usize, rounds: Vec<RoundSummary>) -> Case {
        let p99 = LatencySummary {
            p99: Some(1),
            ..LatencySummary::default()
        };
        Case {
            subject: Subject {
                name: name.to_owned(),
                ..Subject::default()
            },
            scenario: Scenario {
                workload: format!("work {workload}"),
                ..Scenario::default()
            },
            throughput_ops_per_s: 1e5,
            tail: Some(Tail {
                raw: p99,
                corrected: p99,
            }),
            rounds,
            ..Case::default()
        }
    }

    /// Two subjects in rounds of random order, until p50 is known as exactly as a gate needs.
    fn comparison(&mut self, worse: f64) -> Record {
        let mut record = Record::new(Run::default(), Environment::default());
        for index in 0..CASES {
            let worse = worse + PROCESS * self.normal();
            let mut rounds: [Vec<RoundSummary>; 2] = Default::default();
            let mut is_enough = false;
            while !is_enough {
                let first = usize::from(self.noise.random::<bool>());
                for side in [first, 1 - first] {
                    let block = self.block(worse * side as f64);
                    rounds[side].push(block);
                }
                let p50 = |side: usize| -> Vec<f64> {
                    let medians = rounds[side].iter();
                    medians
                        .filter_map(|round| Metric::P50.of_round(round))
                        .collect()
                };
                is_enough = precise_for(&log_ratios(&p50(0), &p50(1)).unwrap(), 3 * CASES);
            }
            let [a, b] = rounds;
            record.cases.push(Self::case("one", index, a));
            record.cases.push(Self::case("other", index, b));
            for metric in COMPARED {
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

    /// A run for a baseline.
    fn run(&mut self, id: usize, worse: f64) -> BaselineRun {
        let mut record = Record::new(Run::default(), Environment::default());
        record.run.id = id.to_string();
        for index in 0..CASES {
            let worse = worse + PROCESS * self.normal();
            let rounds = (0..ROUNDS).map(|_| self.block(worse)).collect();
            record.cases.push(Self::case("one", index, rounds));
        }
        // Some minutes pass between runs.
        self.drift = 0.5 * self.drift + 0.05 * self.normal();
        BaselineRun::of_record(&record).unwrap()
    }
}

fn is_alarm(judgement: &Judged) -> bool {
    matches!(judgement.outcome, Outcome::Warning | Outcome::Critical)
}

/// The cases of a record in which a difference is claimed, by the rules of a run of several targets.
fn claims(record: &Record) -> usize {
    let claims = |index: &usize| {
        let (a, b) = (&record.cases[2 * index], &record.cases[2 * index + 1]);
        let mut family: Vec<Paired> = COMPARED
            .into_iter()
            .map(|metric| {
                let (one, other) = metric.of_pairs(a, b).unwrap();
                paired(&one, &other, metric.direction(), &Rules::default()).unwrap()
            })
            .collect();
        correct_for_several(&mut family, Rules::default().alpha);
        let mut verdicts = family.iter().map(|paired| paired.verdict);
        verdicts.any(|verdict| matches!(verdict, Verdict::Slower | Verdict::Faster))
    };
    (0..CASES).filter(claims).count()
}

/// Judges a candidate, measured in the weather `now`, against a baseline of eight runs, with a second run where the
/// first one asks for it.
fn gated(machine: &mut Machine, now: Weather, worse: f64) -> bool {
    let place = Environment::default();
    let plan = serde_json::Value::Null;
    let mut baseline = Baseline::new(
        String::new(),
        "abc".to_owned(),
        plan,
        place.clone(),
        Vec::new(),
    );
    for id in 0..8 {
        baseline.add(machine.run(id, 0.0), &place, "abc").unwrap();
    }
    (machine.weather, machine.burst) = (now, (0.0, 0.0));
    let (first, again) = (machine.run(8, worse), machine.run(9, worse));
    let candidate = Candidate {
        first: &first,
        second: None,
        environment: &place,
        workload_hash: "abc",
    };
    let both = Candidate {
        second: Some(&again),
        ..candidate
    };
    judge(&baseline, &candidate).needs_second_run() && is_alarm(&judge(&baseline, &both))
}

fn size() -> u64 {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    if is_long { 10_000 } else { 200 }
}

/// Whether the mean throughputs of the first case differ by 5 %: the usual rule, which the weather misleads.
fn differ_in_total(record: &Record) -> bool {
    let total = |case: &Case| -> f64 {
        let rounds = case.rounds.iter();
        rounds.map(|round| round.throughput_ops_per_s).sum()
    };
    let ratio = total(&record.cases[0]) / total(&record.cases[1]);
    ratio.ln().abs() > 0.05_f64.ln_1p()
}

#[test]
fn against_a_raises_no_alarm_in_200_comparisons_of_any_weather() {
    let judged =
        |record: &Record| is_alarm(&Judged::of_comparisons(record, &Thresholds::default()));
    let mut broken = Vec::new();
    for (name, weather) in WEATHERS {
        let (mut alarms, mut claimed, mut misled) = (0, 0, 0);
        for seed in 0..size() {
            let record = Machine::new(weather, seed).comparison(0.0);
            alarms += u64::from(judged(&record));
            claimed += claims(&record) as u64;
            misled += u64::from(differ_in_total(&record));
        }
        let found = (0..FOUND).filter(|seed| judged(&Machine::new(weather, *seed).comparison(0.5)));
        let found = found.count() as u64;
        println!(
            "{name}: {alarms} alarms and {claimed} differences in {} comparisons, {misled} by totals; {found} of {FOUND} found",
            size()
        );
        // A difference in one case, without the correction for all of them, has a probability of 1 % at most.
        let most = size() * CASES as u64 / 100;
        if alarms > size() / 1_000 || claimed > most || found < FOUND {
            broken.push((name, alarms, claimed, found));
        }
        assert!(
            misled > 0 || name == "fair" || name == "drift",
            "{name} disturbs nothing"
        );
    }
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn against_a_passes_the_gate_in_200_runs_of_any_weather() {
    let mut broken = Vec::new();
    for (name, weather) in WEATHERS {
        let is_alarm =
            |worse: f64| move |seed: &u64| gated(&mut Machine::new(weather, *seed), weather, worse);
        let alarms = (0..size()).filter(is_alarm(0.0)).count() as u64;
        let found = (0..FOUND).filter(is_alarm(0.5)).count() as u64;
        println!(
            "{name}: {alarms} alarms in {} runs; {found} of {FOUND} found",
            size()
        );
        if alarms > size() / 1_000 || found < FOUND {
            broken.push((name, alarms, found));
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn against_a_passes_the_gate_in_200_busy_runs_after_a_calm_baseline() {
    let crowd = Weather {
        between_s: 0.2,
        burst_s: 1.0,
        slow: 4.0,
        is_unseen_by_echo: true,
        ..FAIR
    };
    let is_alarm =
        |worse: f64| move |seed: &u64| gated(&mut Machine::new(FAIR, *seed), crowd, worse);
    let alarms = (0..size()).filter(is_alarm(0.0)).count() as u64;
    let found = (0..FOUND).filter(is_alarm(1.5)).count() as u64;
    println!(
        "{alarms} alarms in {} runs; {found} of {FOUND} found",
        size()
    );
    assert!(alarms <= size() / 1_000 && found == FOUND);
}
