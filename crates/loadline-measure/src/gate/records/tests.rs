use super::*;
use crate::gate::judgement::Outcome;
use crate::record::{Environment, RoundSummary, Run, Scenario, Subject};
use crate::work::{Pass, Source, Work};

/// A record of one target under one workload, whose median response time is `factor` times that of
/// the reference.
fn record(factor: f64) -> Record {
    let place = Environment {
        cpu_model: Some("Example CPU".to_owned()),
        kernel: Some("Linux 6.1.0".to_owned()),
        ..Environment::default()
    };
    let mut record = Record::new(Run::default(), place);
    let rounds = (0..24).map(|round| {
        let level = 1e6 * f64::from(1 + round % 4);
        let p50 = level * factor * (1.0 + 0.001 * f64::from(round % 5 - 2));
        RoundSummary {
            throughput_ops_per_s: 1e12 / p50,
            response_time_ns_p50: Some(p50 as u64),
            reference_ns_p50: Some(level as u64),
            ..RoundSummary::default()
        }
    });
    record.cases.push(Case {
        subject: Subject {
            name: "embedded".to_owned(),
            ..Subject::default()
        },
        scenario: Scenario {
            workload: "get".to_owned(),
            ..Scenario::default()
        },
        throughput_ops_per_s: 1e12 / (2.5e6 * factor),
        rounds: rounds.collect(),
        response_time_ns: crate::LatencySummary {
            p50: Some((2.5e6 * factor) as u64),
            ..crate::LatencySummary::default()
        },
        ..Case::default()
    });
    record
}

#[test]
fn difference_of_records_includes_run_spread_and_never_alarms() {
    for (factor, verdict, outcome) in [
        (2.0, RowVerdict::Equivalent, Outcome::None),
        (2.0 * 1.04, RowVerdict::Inconclusive, Outcome::Inconclusive),
        (2.0 * 1.30, RowVerdict::Slower, Outcome::Inconclusive),
        (2.0 * 0.80, RowVerdict::Faster, Outcome::None),
    ] {
        let judgement = judge(&record(2.0), &record(factor), &WorkRules::default());
        let found = (judgement.rows[1].verdict, judgement.outcome);
        assert_eq!(judgement.rows[1].metric, Metric::P50);
        assert_eq!(found, (verdict, outcome), "{factor}: {judgement:#?}");
        assert_eq!(judgement.rows[0].verdict, verdict, "throughput, {factor}");
        assert_eq!(judgement.notes[0], Reason::Remark(Remark::SingleRuns));
        assert!(!judgement.refused);
    }
    let judgement = judge(&record(2.0), &record(2.6), &WorkRules::default());
    let row = &judgement.rows[1];
    assert!(judgement.reasons.contains(&Reason::of(row.clone())));
    let Grounds::SingleRuns(change) = row.evidence else {
        panic!("{row:?}");
    };
    assert!((change.least - 0.255).abs() < 0.0005, "{change:?}");
}

#[test]
fn busy_machine_is_divided_out() {
    let (before, mut after) = (record(2.0), record(2.0));
    for round in &mut after.cases[0].rounds {
        round.throughput_ops_per_s /= 3.0;
        round.response_time_ns_p50 = round.response_time_ns_p50.map(|ns| ns * 3);
        round.reference_ns_p50 = round.reference_ns_p50.map(|ns| ns * 3);
    }
    let judgement = judge(&before, &after, &WorkRules::default());
    let verdicts: Vec<RowVerdict> = judgement.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [RowVerdict::Equivalent; 2]);
}

#[test]
fn without_the_reference_nothing_is_claimed() {
    let (before, mut after) = (record(2.0), record(4.0));
    for round in &mut after.cases[0].rounds[2..] {
        round.reference_ns_p50 = None;
    }
    let judgement = judge(&before, &after, &WorkRules::default());
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    assert!(
        judgement
            .rows
            .iter()
            .all(|row| row.evidence == Grounds::Gap(Gap::NoReference))
    );
    assert!(
        judgement.rows[0].baseline.is_some(),
        "what was measured is shown all the same"
    );
}

#[test]
fn another_machine_claims_nothing_and_another_server_is_said() {
    let (before, mut after) = (record(2.0), record(4.0));
    after.environment.cpu_model = Some("Other CPU".to_owned());
    let judgement = judge(&before, &after, &WorkRules::default());
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    assert!(
        judgement
            .rows
            .iter()
            .all(|row| row.verdict == RowVerdict::Inconclusive)
    );
    assert!(
        matches!(judgement.notes[1], Reason::Differs(_)),
        "{judgement:?}"
    );
    let mut unknown = record(2.0);
    unknown.environment.kernel = None;
    let judgement = judge(&unknown, &unknown, &WorkRules::default());
    assert_eq!(judgement.notes[1], Reason::UnknownProperty("kernel"));
}

#[test]
fn other_work_is_refused() {
    let refusal = |change: fn(&mut Record), reason: RecordReason| {
        let mut after = record(2.0);
        change(&mut after);
        let judgement = judge(&record(2.0), &after, &WorkRules::default());
        assert!(judgement.refused && judgement.rows.is_empty());
        assert_eq!(
            (judgement.outcome, judgement.exit_code(false)),
            (Outcome::Inconclusive, 3)
        );
        assert_eq!(judgement.reasons[0], Reason::Records(reason));
    };
    refusal(
        |after| after.cases[0].scenario.connections = 7,
        RecordReason::OtherScenario("get".to_owned()),
    );
    refusal(
        |after| after.cases[0].scenario.workload = "set".to_owned(),
        RecordReason::OneSided(Side::First, "get".to_owned()),
    );
    refusal(
        |after| after.cases.clear(),
        RecordReason::OneSided(Side::First, "get".to_owned()),
    );
    refusal(
        |after| after.cases.push(after.cases[0].clone()),
        RecordReason::TwoCases(record(2.0).run.id, "get".to_owned()),
    );
    let nothing = Record::new(Run::default(), Environment::default());
    let judgement = judge(&nothing, &nothing, &WorkRules::default());
    assert_eq!(judgement.reasons, [Reason::Remark(Remark::NoCases)]);
}

#[test]
fn work_is_judged_across_records_even_of_other_machines() {
    let counted = |instructions: u64, valgrind: &str| {
        let pass = Pass {
            ops: 1_000,
            instructions,
            ..Pass::default()
        };
        let mut record = record(2.0);
        record.cases[0].work = Some(Work {
            source: Source::Callgrind,
            tool: valgrind.to_owned(),
            cpu: "x86_64 avx2".to_owned(),
            executable_sha1: None,
            fixed_randomness: true,
            passes: vec![pass; 3],
            functions: Vec::new(),
            frames: Vec::new(),
        });
        record
    };
    let before = counted(3_600_000, "valgrind-3.19.0");
    let mut after = counted(3_700_000, "valgrind-3.19.0");
    after.environment.cpu_model = Some("Other CPU".to_owned());
    let judgement = judge(&before, &after, &WorkRules::default());
    assert_eq!(judgement.outcome, Outcome::Warning, "{judgement:#?}");
    let Reason::Row(row) = &judgement.reasons[0] else {
        panic!("{judgement:?}");
    };
    let Grounds::Work(work) = row.evidence else {
        panic!("{row:?}");
    };
    assert_eq!((work.ratio * 1e3).round(), 1_028.0);
    let tolerant = WorkRules {
        warning: 0.05,
        ..WorkRules::default()
    };
    let tolerated = judge(&before, &after, &tolerant);
    assert_ne!(tolerated.outcome, Outcome::Warning);
    let other = counted(3_700_000, "valgrind-3.22.0");
    let judgement = judge(&before, &other, &WorkRules::default());
    let row = judgement.rows.last().unwrap();
    assert_eq!(
        (row.metric, row.verdict),
        (Metric::ServerInstructions, RowVerdict::Inconclusive)
    );
    assert!(
        matches!(&row.evidence, Grounds::Incomparable(it) if it.what == "the tool that counts"),
        "{row:?}"
    );
}
