//! Histories with planted faults.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const HISTORIES: u64 = 100;
const WRITERS: u32 = 4;
const MS: u64 = 1_000_000;
/// The time between two writes of a writer.
const EVERY: u64 = 10 * MS;

/// A history of `writes` per writer, whose kinds take turns, without a failure.
fn clean(rng: &mut SmallRng, writes: u64) -> History {
    let mut operations = Vec::new();
    for sequence in 0..writes {
        for writer in 0..WRITERS {
            let invoked_ns = sequence * EVERY + u64::from(writer) * MS;
            operations.push(Operation {
                id: WriteId { writer, sequence },
                kind: (sequence % Kind::ALL.len() as u64) as usize,
                due_ns: invoked_ns,
                invoked_ns,
                completed_ns: invoked_ns + rng.random_range(1..=2 * MS),
                outcome: Outcome::Acknowledged,
                error: None,
                executions: 1,
            });
        }
    }
    History {
        kinds: Kind::ALL.to_vec(),
        fault_ns: writes / 2 * EVERY,
        end_ns: writes * EVERY,
        operations,
        ..History::default()
    }
}

fn sent(history: &History) -> Vec<u64> {
    let count = |kind| {
        history
            .operations
            .iter()
            .filter(move |one| one.kind == kind)
    };
    (0..history.kinds.len())
        .map(|kind| count(kind).count() as u64)
        .collect()
}

fn audited(history: &History) -> Vec<Audit> {
    audit(history, &sent(history)).unwrap()
}

/// Draws `count` different places below `end`.
fn drawn(rng: &mut SmallRng, count: usize, end: usize) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    while places.len() < count {
        places.insert(rng.random_range(0..end));
    }
    places
}

fn total(audits: &[Audit], of: impl Fn(&Audit) -> u64) -> u64 {
    audits.iter().map(of).sum()
}

#[test]
fn clean_histories_have_no_findings() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let writes = rng.random_range(20..200);
        let history = clean(&mut rng, writes);
        let audits = audited(&history);
        for audit in &audits {
            let findings = [audit.ambiguous, audit.refused, audit.refused_there];
            assert_eq!((audit.loss, findings), (None, [0; 3]), "{seed}");
            assert_eq!(audit.twice.unwrap_or(0), 0, "{seed}");
            assert_eq!(audit.there(), audit.sent, "{seed}");
        }
        let clocks = clocks(&history);
        assert_eq!(clocks.detection_ns, None, "{seed}");
        let outage = clocks.outage.unwrap();
        assert!(outage.length_ns() <= EVERY + 2 * MS, "{seed}: {outage:?}");
        assert!(clocks.first_write_ns.unwrap() <= EVERY + 5 * MS, "{seed}");
    }
}

#[test]
fn planted_losses_are_all_found_with_their_window() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = clean(&mut rng, 100);
        let count = rng.random_range(1..50);
        let lost = drawn(&mut rng, count, history.operations.len());
        for place in &lost {
            history.operations[*place].executions = 0;
        }
        let audits = audited(&history);
        assert_eq!(total(&audits, Audit::lost), count as u64, "{seed}");
        assert_eq!(total(&audits, |audit| audit.twice.unwrap_or(0)), 0);
        let operations = lost.iter().map(|place| &history.operations[*place]);
        let losses = || audits.iter().filter_map(|audit| audit.loss);
        let first = operations.clone().min_by_key(|one| one.invoked_ns).unwrap();
        let found = losses().min_by_key(|loss| loss.from_ns).unwrap();
        assert_eq!(
            (found.from_ns, found.first),
            (first.invoked_ns, first.id),
            "{seed}"
        );
        let last = operations.max_by_key(|one| one.completed_ns).unwrap();
        let found = losses().max_by_key(|loss| loss.to_ns).unwrap();
        assert_eq!(
            (found.to_ns, found.last),
            (last.completed_ns, last.id),
            "{seed}"
        );
    }
}

#[test]
fn planted_duplicates_are_all_found_among_ambiguous_writes() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = clean(&mut rng, 100);
        // Ambiguous writes, some of them executed, must not hide a duplicate.
        let end = history.operations.len();
        let (mut ambiguous, mut there) = (0, 0);
        for place in drawn(&mut rng, 40, end) {
            let one = &mut history.operations[place];
            (one.outcome, one.executions) = (Outcome::Ambiguous, rng.random_range(0..2));
            ambiguous += 1;
            there += one.executions;
        }
        let incrs = |one: &&mut Operation| one.kind > 0 && one.executions == 1;
        let mut incrs: Vec<_> = history.operations.iter_mut().filter(incrs).collect();
        let count = rng.random_range(1..20);
        for place in drawn(&mut rng, count, incrs.len()) {
            incrs[place].executions += rng.random_range(1..3);
        }
        let audits = audited(&history);
        let twice = total(&audits, |audit| audit.twice.unwrap_or(0));
        assert_eq!(twice, count as u64, "{seed}");
        assert_eq!(audits[0].twice, None, "a second SET does not show");
        assert_eq!(total(&audits, |audit| audit.ambiguous), ambiguous);
        assert_eq!(total(&audits, |audit| audit.ambiguous_there), there);
        assert_eq!(total(&audits, Audit::lost), 0, "{seed}");
    }
}

#[test]
fn planted_outages_are_found_to_the_nanosecond() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = clean(&mut rng, 100);
        let writer = rng.random_range(0..WRITERS);
        let first = history.fault_ns / EVERY;
        let after = rng.random_range(first + 3..95);
        let mut failed = Vec::new();
        for one in &mut history.operations {
            if one.id.writer == writer && (first..after).contains(&one.id.sequence) {
                one.outcome = Outcome::Refused;
                one.executions = 0;
                failed.push(one.completed_ns);
            }
        }
        let at = |sequence: u64| {
            let mut own = history
                .operations
                .iter()
                .filter(|one| one.id.writer == writer);
            own.find(|one| one.id.sequence == sequence)
                .unwrap()
                .completed_ns
        };
        history.ready_ns = Some(history.fault_ns + MS);
        let clocks = clocks(&history);
        let gap = Gap {
            writer,
            from_ns: at(first - 1),
            to_ns: at(after),
            is_open: false,
        };
        assert_eq!(clocks.outage, Some(gap), "{seed}");
        let detected = failed.iter().min().unwrap() - history.fault_ns;
        assert_eq!(clocks.detection_ns, Some(detected), "{seed}");
        assert_eq!(clocks.first_write_ns, Some(at(after) - history.fault_ns));
        assert_eq!(clocks.ready_ns, Some(MS));
    }
}

#[test]
fn outage_that_outlasts_the_load_is_open() {
    let mut history = clean(&mut SmallRng::seed_from_u64(1), 50);
    for one in &mut history.operations {
        if one.invoked_ns >= history.fault_ns {
            one.outcome = Outcome::Ambiguous;
        }
    }
    let clocks = clocks(&history);
    let outage = clocks.outage.unwrap();
    assert!(
        outage.is_open && outage.to_ns == history.end_ns,
        "{outage:?}"
    );
    assert_eq!(clocks.first_write_ns, None);
}

#[test]
fn refused_write_that_was_executed_is_a_defect_of_the_client() {
    let mut history = clean(&mut SmallRng::seed_from_u64(1), 10);
    history.operations[3].outcome = Outcome::Refused;
    assert_eq!(audited(&history)[0].refused_there, 1);
}

#[test]
fn history_that_misses_a_write_does_not_add_up() {
    let mut history = clean(&mut SmallRng::seed_from_u64(1), 10);
    let sent = sent(&history);
    history.operations.pop();
    let problem = audit(&history, &sent).unwrap_err();
    assert!(
        problem.starts_with("8 xadd were sent, but 7 were"),
        "{problem}"
    );
}

/// A history with any outcomes and executions. A refused write is executed once at most, so that no write has two findings.
fn random(seed: u64) -> History {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut history = clean(&mut rng, 50);
    for one in &mut history.operations {
        // Slow replies overlap.
        one.completed_ns += rng.random_range(0..5) * EVERY;
        one.outcome =
            [Outcome::Acknowledged, Outcome::Refused, Outcome::Ambiguous][rng.random_range(0..3)];
        let shows_more = history.kinds[one.kind] != Kind::Set && one.outcome != Outcome::Refused;
        one.executions = rng.random_range(0..if shows_more { 3 } else { 2 });
    }
    history
}

#[test]
fn events_have_every_write_and_break_their_models_where_the_audit_has_a_finding() {
    const TRIALS: u64 = 2;
    for seed in 0..HISTORIES {
        let history = random(seed);
        let mut events = Events::default();
        for _ in 0..TRIALS {
            events.add("kill", &history);
        }
        let (mut busy, mut counts, mut wrong) = (BTreeSet::new(), BTreeMap::new(), 0);
        // The values that a register or a counter with this one write can have.
        let mut possible = BTreeMap::<_, RangeInclusive<u64>>::new();
        let (mut before_ns, mut index) = ([0; TRIALS as usize], 0);
        for line in events.into_lines().lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["index"], index, "{seed}");
            index += 1;
            let time_ns = event["time"].as_u64().unwrap();
            let before_ns = &mut before_ns[event["trial"].as_u64().unwrap() as usize];
            assert!(time_ns >= *before_ns, "{seed}: {line}");
            *before_ns = time_ns;
            let kind = event["type"].as_str().unwrap();
            let Some(process) = event["process"].as_u64() else {
                assert_eq!((kind, time_ns), ("info", history.fault_ns), "{line}");
                continue;
            };
            let key = event["value"][0].as_str().unwrap().to_owned();
            match kind {
                "invoke" => assert!(busy.insert(process), "{seed}: {line}"),
                // The process is never free again.
                "info" => assert!(busy.contains(&process), "{seed}: {line}"),
                _ => assert!(busy.remove(&process), "{seed}: {line}"),
            }
            if event["f"] != "read" {
                *counts.entry(kind.to_owned()).or_insert(0) += 1;
            }
            match (event["f"].as_str().unwrap(), kind) {
                (_, "invoke") => {}
                ("read", _) => {
                    let found = event["value"][1].as_u64().unwrap();
                    wrong += u64::from(!possible[&key].contains(&found));
                }
                (_, kind) => {
                    let values = match kind {
                        "ok" => 1..=1,
                        "fail" => 0..=0,
                        _ => 0..=1,
                    };
                    assert!(possible.insert(key, values).is_none(), "{seed}: {line}");
                }
            }
        }
        let audits = audited(&history);
        let findings =
            |audit: &Audit| audit.lost() + audit.twice.unwrap_or(0) + audit.refused_there;
        assert_eq!(wrong, TRIALS * total(&audits, findings), "{seed}");
        let counted: [fn(&Audit) -> u64; 4] = [
            |audit| audit.refused,
            |audit| audit.ambiguous,
            |audit| audit.sent,
            |audit| audit.acknowledged,
        ];
        let counted = counted.map(|of| TRIALS * total(&audits, of));
        assert_eq!(
            counts.into_values().collect::<Vec<u64>>(),
            counted,
            "{seed}"
        );
    }
}

#[test]
fn timeline_counts_every_write_once_and_shows_the_outage() {
    let mut history = clean(&mut SmallRng::seed_from_u64(1), 100);
    history.errors = vec!["timeout".to_owned()];
    let outage = history.fault_ns..history.fault_ns + 20 * EVERY;
    let mut failed = 0;
    for one in &mut history.operations {
        if outage.contains(&one.invoked_ns) {
            (one.outcome, one.error) = (Outcome::Ambiguous, Some(0));
            failed += 1;
        }
    }
    let line = timeline(&history);
    // 1 s in at most 60 intervals, and those of the last replies.
    assert_eq!((line.interval_ns, line.acknowledged.len()), (20 * MS, 51));
    let acknowledged: u64 = line.acknowledged.iter().sum();
    assert_eq!(acknowledged + failed, history.operations.len() as u64);
    assert_eq!(line.errors["timeout"].iter().sum::<u64>(), failed);
    assert_eq!(errors(&history)["timeout"], failed);
    let place = (history.fault_ns / line.interval_ns) as usize + 2;
    assert_eq!(
        (line.acknowledged[place], line.response_max_ns[place]),
        (0, None)
    );
    assert!(line.response_p50_ns[0] <= line.response_max_ns[0]);
}

#[test]
fn recovery_is_the_first_group_that_is_as_fast_as_before() {
    let mut history = clean(&mut SmallRng::seed_from_u64(1), 200);
    let slow_until = history.fault_ns + 50 * EVERY;
    for one in &mut history.operations {
        one.completed_ns = one.due_ns + MS;
        if (history.fault_ns..slow_until).contains(&one.due_ns) {
            one.completed_ns += MS;
        }
    }
    // Four writes every 10 ms: groups of 50 begin every 125 ms.
    assert_eq!(clocks(&history).recovery_ns, Some(500 * MS));
    history.operations.truncate(500);
    assert_eq!(
        clocks(&history).recovery_ns,
        None,
        "it was slow until the end"
    );
}
