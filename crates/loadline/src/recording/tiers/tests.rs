//! Verdicts on made-up cases.

use clap::Parser;
use loadline_measure::record::{
    self, Environment, RoundSummary, Run, Scenario, Subject, TierVerdict,
};

use super::*;
use crate::args::{Cli, Command};
use crate::object::Encoding;
use crate::plan::{Surroundings, resolve_tiers};

const ROUNDS: usize = 10;

fn plan(words: &[&str]) -> TiersPlan {
    let cli = Cli::try_parse_from(["loadline", "tiers"].iter().chain(words)).unwrap();
    let Command::Tiers(args) = cli.command else {
        unreachable!("the command is tiers")
    };
    let around = Surroundings {
        cores: 2,
        has_redis_server: true,
        password: None,
        may_mount: false,
        memory_bytes: Some(8 << 30),
        entropy: 1,
        bundles: &[],
    };
    resolve_tiers(&args, &around).unwrap()
}

/// An operation that takes `us`, give or take `noise`, in each of ten rounds. Its names say nothing.
fn case(step: ArmOp, codec: Option<Encoding>, us: f64, noise: f64) -> (Arm, Case) {
    let rounds = (0..ROUNDS).map(|round| {
        // Recomputing is slow when the tiers are fast, so that the noise does not cancel.
        let is_up = (round % 2 == 0) == (step == ArmOp::Recompute);
        let swing = if is_up { 1.0 + noise } else { 1.0 - noise };
        RoundSummary {
            ops: 1_000,
            duration_ns: (us * swing * 1e6) as u64,
            ..RoundSummary::default()
        }
    });
    let subject = match step.place() {
        Some(place) => ["redis", "heed"][place],
        None => "here",
    };
    let case = Case {
        subject: Subject {
            name: subject.into(),
            ..Subject::default()
        },
        scenario: Scenario {
            workload: "an operation".into(),
            codec: codec.map(|codec| codec.name().into()),
            ..Scenario::default()
        },
        rounds: rounds.collect(),
        ..Case::default()
    };
    let arm = Arm {
        step,
        format: Format::plain(codec.unwrap_or(Encoding::Columns)),
        batch: 1,
    };
    (arm, case)
}

fn on(place: usize, op: TierOp, codec: Encoding, us: f64, noise: f64) -> (Arm, Case) {
    case(ArmOp::Tier(place, op), Some(codec), us, noise)
}

/// The answers for Redis with a hit of `get_us`, and LMDB, where recomputing takes 500 us.
fn concluded(words: &[&str], get_us: f64, noise: f64) -> record::Tiers {
    let (columns, tiles) = (Encoding::Columns, Encoding::ProtobufTiles);
    let mut cases = vec![case(ArmOp::Recompute, None, 500.0, noise)];
    for (place, us) in [get_us, 9.0].into_iter().enumerate() {
        cases.push(on(place, TierOp::Get, columns, us, noise));
        cases.push(on(place, TierOp::Miss, columns, us / 2.0, noise));
        cases.push(on(place, TierOp::Set, columns, us, noise));
    }
    cases.push(on(0, TierOp::Get, tiles, 690.0, noise));
    cases.push(on(0, TierOp::Set, tiles, 401.0, noise));
    concluded_of(words, cases)
}

fn concluded_of(words: &[&str], cases: Vec<(Arm, Case)>) -> record::Tiers {
    let mut record = Record::new(Run::default(), Environment::default());
    let plan = plan(&[&["redis", "heed"], words].concat());
    let mut ran = Vec::new();
    for (place, (arm, case)) in cases.into_iter().enumerate() {
        record.cases.push(case);
        ran.push(RanArm {
            group: TierGroup::Tiers,
            arm,
            case: CaseId(place),
            parts: Vec::new(),
        });
    }
    let facts = TierFacts {
        plan: &plan,
        memory_bytes: 200_000,
        given: plan.source.given(),
        ran,
        curve: None,
        load: None,
    };
    conclude_tiers(&mut record, &facts);
    match record.answer {
        record::Answer::Tiers(tiers) => *tiers,
        other => panic!("{other:?}"),
    }
}

/// The page of an answer, in one line.
fn said(tiers: record::Tiers) -> String {
    let mut record = Record::new(Run::default(), Environment::default());
    record.answer = record::Answer::Tiers(Box::new(tiers));
    let options = loadline_report::TextOptions {
        width: 200,
        color: false,
        unicode: false,
        verbose: true,
    };
    let text = loadline_report::text(&record, &options);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn answers(tiers: &record::Tiers) -> Vec<(&str, &str)> {
    let options = tiers.options.iter();
    options
        .map(|option| (option.name.as_str(), option.answer.as_str()))
        .collect()
}

/// The game server's case: its codec, and not Redis, made its tier lose.
#[test]
fn fast_tier_pays_and_a_slow_codec_is_what_to_fix() {
    let tiers = concluded(&[], 40.0, 0.02);
    // (20 + 40) / (500 - 40 + 20 + 40)
    let redis = &tiers.costs[0];
    assert!(
        (redis.break_even.unwrap() - 60.0 / 520.0).abs() < 0.005,
        "{redis:?}"
    );
    assert_eq!(redis.pays, TierVerdict::Yes);
    // 40 + 0.2 / 0.8 x 60
    assert!((redis.least_recompute_ns.unwrap() / 55e3 - 1.0).abs() < 0.02);
    let written = &tiers.costs[2];
    assert_eq!(
        (written.break_even, &written.pays),
        (None, &TierVerdict::No)
    );
    assert_eq!(
        answers(&tiers),
        [
            ("drop", "no"),
            ("fix", "yes"),
            ("selective", "no"),
            ("embedded", "yes")
        ]
    );
    // 0.8 x 40 + 0.2 x (20 + 500 + 40)
    assert!((redis.read_ns.unwrap() / 144e3 - 1.0).abs() < 0.02);
    let text = said(tiers);
    let verdict = "redis pays for this object: at a hit ratio of 80.0 %, a read takes 144 us on average with it and 500 us without. \
         With a message per tile it would not: the codec decides. \
         The embedded store heed is faster: 110 us, if servers need not share it.";
    assert!(text.starts_with(verdict), "{text}");
}

#[test]
fn tier_dearer_than_recomputing_is_dropped_or_kept_for_dearer_objects() {
    let tiers = concluded(&[], 900.0, 0.02);
    assert_eq!(tiers.costs[0].break_even, None);
    assert_eq!(
        answers(&tiers),
        [
            ("drop", "yes"),
            ("fix", "no"),
            ("selective", "yes"),
            ("embedded", "yes")
        ]
    );
    let verdict = "redis does not pay for this object: at a hit ratio of 80.0 %, a read takes 1.09 ms on average with it and \
         500 us without. It would pay for objects that take longer than 1.24 ms to recompute.";
    let text = said(tiers);
    assert!(text.starts_with(verdict), "{text}");
    let reason = "for objects of this size that take longer than 1.24 ms";
    assert!(text.contains(reason), "{text}");
}

/// The break-even is 60 %: above what is expected, below it, and too close to say.
#[test]
fn inseparable_tiers_have_no_answer() {
    let pays = |ratio: &str, noise| {
        let tiers = concluded(&["--hit-ratio", ratio], 230.0, noise);
        tiers.costs[0].pays.clone()
    };
    assert_eq!(pays("70%", 0.02), TierVerdict::Yes);
    assert_eq!(pays("40%", 0.02), TierVerdict::No);
    let middle = concluded(&[], 230.0, 0.0).costs[0].break_even.unwrap();
    let close = format!("{:.2}%", middle * 100.0);
    assert_eq!(pays(&close, 0.05), TierVerdict::Inconclusive);
    let verdict = said(concluded(&["--hit-ratio", &close], 230.0, 0.05));
    assert!(
        verdict.starts_with("Inconclusive for redis: it pays above a hit ratio between"),
        "{verdict}"
    );
}

/// Its hits are the fastest, but its misses and writes cost more than those of the server save.
#[test]
fn embedded_store_with_dear_writes_is_not_preferred() {
    let columns = Encoding::Columns;
    let embedded = |set_us: f64| {
        let mut cases = vec![case(ArmOp::Recompute, None, 500.0, 0.0)];
        for (place, get, set) in [(0, 40.0, 40.0), (1, 9.0, set_us)] {
            cases.push(on(place, TierOp::Get, columns, get, 0.0));
            cases.push(on(place, TierOp::Miss, columns, 1.0, 0.0));
            cases.push(on(place, TierOp::Set, columns, set, 0.0));
        }
        let tiers = concluded_of(&[], cases);
        tiers.options.last().unwrap().answer.clone()
    };
    assert_eq!(embedded(20.0), TierVerdict::Yes);
    assert_eq!(embedded(400.0), TierVerdict::No);
}

#[test]
fn conclusion_needs_the_cost_to_recompute() {
    let mut record = Record::new(Run::default(), Environment::default());
    let plan = plan(&[]);
    let facts = TierFacts {
        plan: &plan,
        memory_bytes: 0,
        given: None,
        ran: Vec::new(),
        curve: None,
        load: None,
    };
    conclude_tiers(&mut record, &facts);
    assert_eq!(record.answer, record::Answer::Cases);
}
