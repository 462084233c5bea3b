//! `loadline prove`: can a verdict be trusted on this machine?

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::Metric;
use loadline_measure::compare;
use loadline_measure::gate::{BaselineRun, Judgement, Policy};
use loadline_measure::proof::{Kind, Proof, SCHEMA, Trial};
use loadline_measure::record::{Record, Verdict};

use crate::args::ProveArgs;
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::fingerprint;
use crate::interrupt::interrupt;
use crate::judging;
use crate::measuring;
use crate::plan::{self, Length, Plan, Surroundings};
use crate::printer::Printer;
use crate::target::{Slowdown, Target};

const DEFAULT_RUNS: u32 = 5;
const MOST_RUNS: u32 = 1_000;
/// Slowdowns that are planted, as shares.
const PLANTED: [f64; 3] = [0.05, 0.10, 0.20];
/// The latency in the path of both where a delay is planted: enough for a share of it to be more than
/// the link's own inaccuracy, and little enough for a block to have some hundred operations.
const LATENCY: Duration = Duration::from_micros(250);
/// How much longer blocks are where a delay is planted.
const LONGER_BLOCKS: u32 = 3;
/// Suites that are drawn from the noise.
const SUITES: u64 = 1_000;

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plant {
    Nothing,
    Burn(f64),
    Delay(f64),
}

pub(super) fn run(args: &ProveArgs) -> anyhow::Result<ExitCode> {
    let runs = args.runs.unwrap_or(DEFAULT_RUNS);
    if runs > MOST_RUNS {
        return Err(Failure::usage(format!(
            "--runs {runs}: more than {MOST_RUNS} are not possible."
        ))
        .into());
    }
    let json = args.json.clone().map(Output::from);
    if let Some(json) = &json {
        json.check()?;
    }
    let around = Surroundings::look();
    let plan = plan::resolve_proof(&args.workload, args.seed, &around)?;
    let printer = Printer::new(&args.display);
    let control = Control {
        interrupt: interrupt()?,
        ..Control::default()
    };
    let (begun, started_at) = (Instant::now(), jiff::Timestamp::now().to_string());
    let kinds = kinds(&plan, runs, &printer, &control)?;
    let mut proof = Proof {
        schema: SCHEMA.into(),
        started_at,
        version: env!("CARGO_PKG_VERSION").into(),
        scenario: format!(
            "{} on embedded, one connection, one command at a time",
            plan.cases[0].name
        ),
        environment: fingerprint::read(),
        kinds,
        drawn: Vec::new(),
        duration_ns: 0,
    };
    proof.draw(SUITES, plan.seed);
    proof.duration_ns = begun.elapsed().as_nanos() as u64;
    if let Some(json) = &json {
        let text = serde_json::to_string_pretty(&proof)
            .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        json.write(&text)?;
    }
    if !printer.quiet && json != Some(Output::Stdout) {
        files::print(&loadline_report::proof(&proof))?;
    }
    Ok(if control.interrupted() {
        Exit::Interrupted.into()
    } else {
        ExitCode::SUCCESS
    })
}

/// Compares `runs` times, all kinds in each, so that none has the quiet hours for itself.
fn kinds(
    plan: &Plan,
    runs: u32,
    printer: &Printer,
    control: &Control,
) -> Result<Vec<Kind>, Failure> {
    let plants: Vec<Plant> = std::iter::once(Plant::Nothing)
        .chain(PLANTED.map(Plant::Burn))
        .chain(PLANTED.map(Plant::Delay))
        .collect();
    let mut kinds: Vec<Kind> = plants.iter().map(|plant| plant.kind()).collect();
    let comparisons = runs as usize * plants.len();
    let mut done = 0;
    // What an operation takes where nothing is planted; the first comparison tells.
    let mut op = Duration::ZERO;
    for _ in 0..runs {
        for (plant, kind) in plants.iter().zip(&mut kinds) {
            let begun = Instant::now();
            let record = measuring::measure(&plant.plan(plan, op), &printer.quietly(), control)?;
            if control.interrupted() {
                return Ok(kinds);
            }
            if *plant == Plant::Nothing {
                op = time_per_op(&record);
            }
            let mut trial = trial(&record, begun.elapsed())?;
            if let Plant::Delay(_) = plant {
                // Behind a link the first is not the subject that the other kinds have.
                trial.normalised_ln = None;
            }
            done += 1;
            if !printer.quiet {
                crate::write_error(&format!(
                    "loadline: {done} of {comparisons}, {}: {}, {:?} ({:.1} s)",
                    plant.name(),
                    trial.ratio.map_or_else(
                        || "no median in half of the rounds".to_owned(),
                        |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0)
                    ),
                    trial.verdict,
                    begun.elapsed().as_secs_f64()
                ));
            }
            kind.trials.push(trial);
        }
    }
    Ok(kinds)
}

/// What an operation takes on the first target: the median, since it is the median that is judged.
fn time_per_op(record: &Record) -> Duration {
    Duration::from_nanos(record.cases[0].response_time_ns.p50.unwrap_or(0))
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
    let median = judged(Metric::P50);
    let first = judging::of_subject(record, &record.cases[0].subject.name);
    let run = BaselineRun::of_record(&first).map_err(|error| judging::incomparable(&error))?;
    let normalised_ln = run
        .cases
        .values()
        .find_map(|case| case.metrics.get(&Metric::P50)?.normalised_ln);
    Ok(Trial {
        ratio: median.map(|comparison| comparison.ratio),
        verdict: median.map_or(Verdict::Inconclusive, |comparison| comparison.verdict),
        tail_verdict: judged(Metric::CorrectedP99).map(|comparison| comparison.verdict),
        outcome: Judgement::of_comparisons(record, Policy::Strict).outcome,
        rounds: noise.len() as u64,
        duration_ns: took.as_nanos() as u64,
        noise,
        normalised_ln,
    })
}

impl Plant {
    fn kind(self) -> Kind {
        let (what, planted) = match self {
            Self::Nothing => ("nothing", 0.0),
            Self::Burn(share) => ("CPU in the server", share),
            Self::Delay(share) => ("a delay in the path", share),
        };
        Kind {
            what: what.into(),
            planted,
            trials: Vec::new(),
        }
    }

    fn name(self) -> String {
        let kind = self.kind();
        match kind.planted {
            0.0 => kind.what,
            share => format!("{:+.0} % by {}", share * 100.0, kind.what),
        }
    }

    /// The comparison of the embedded server with one that has this planted; an operation takes `op`
    /// on the first.
    fn plan(self, plan: &Plan, op: Duration) -> Plan {
        let slowed = |latency: Duration, burn_per_command: Duration| {
            Target::Slowed(Slowdown {
                burn_per_command,
                latency,
            })
        };
        let targets = match self {
            Self::Nothing => vec![Target::Embedded, Target::Embedded],
            Self::Burn(share) => vec![Target::Embedded, slowed(Duration::ZERO, op.mul_f64(share))],
            Self::Delay(share) => vec![
                slowed(LATENCY, Duration::ZERO),
                slowed(LATENCY + (LATENCY + op).mul_f64(share), Duration::ZERO),
            ],
        };
        let mut plan = Plan {
            targets,
            ..plan.clone()
        };
        if let Self::Delay(_) = self {
            // What takes longer needs longer blocks for as many operations.
            for case in &mut plan.cases {
                if let Length::Time(time) = case.length {
                    case.length = Length::Time(time * LONGER_BLOCKS);
                }
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_is_a_share_of_what_an_operation_takes() {
        let around = Surroundings {
            cores: 2,
            has_redis_server: false,
            password: None,
            entropy: 1,
        };
        let plan = plan::resolve_proof("get", None, &around).unwrap();
        let op = Duration::from_micros(40);
        let planted = |plant: Plant| plant.plan(&plan, op).targets[1].clone();
        assert_eq!(planted(Plant::Nothing), Target::Embedded);
        let Target::Slowed(burn) = planted(Plant::Burn(0.05)) else {
            panic!("it is slowed")
        };
        assert_eq!(burn.burn_per_command, Duration::from_micros(2));
        let Target::Slowed(delay) = planted(Plant::Delay(0.10)) else {
            panic!("it is slowed")
        };
        assert_eq!(delay.latency, Duration::from_micros(279));
    }
}
