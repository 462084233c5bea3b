//! Histories with planted faults.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const HISTORIES: u64 = 100;
const WRITERS: u32 = 4;
const OUTCOMES: [Outcome; 4] = [
    Outcome::Acknowledged,
    Outcome::Refused,
    Outcome::Ambiguous,
    Outcome::Unconfirmed,
];
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
                announced: false,
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

/// The same history with INCR in place of messages, which the clocks ignore.
fn without_messages(mut history: History) -> History {
    let kinds = history.kinds.iter_mut();
    let messages = kinds.filter(|kind| **kind == Kind::Publish);
    messages.for_each(|kind| *kind = Kind::Incr);
    history
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
        let clocks = clocks(&without_messages(history));
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
fn planted_shortages_of_replicas_are_unknown_and_no_loss() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = clean(&mut rng, 100);
        let count = rng.random_range(1..50);
        let mut there = 0;
        for place in drawn(&mut rng, count, history.operations.len()) {
            let one = &mut history.operations[place];
            (one.outcome, one.executions) = (Outcome::Unconfirmed, rng.random_range(0..2));
            there += one.executions;
        }
        let audits = audited(&history);
        let found: [fn(&Audit) -> u64; 4] = [
            |audit| audit.unconfirmed,
            |audit| audit.ambiguous,
            |audit| audit.unconfirmed_there,
            Audit::lost,
        ];
        let found = found.map(|of| total(&audits, of));
        assert_eq!(found, [count as u64, count as u64, there, 0], "{seed}");
    }
}

/// Reads of each acknowledged write by its writer, right after the acknowledgement.
fn with_reads(mut history: History) -> History {
    let writes = history.operations.iter();
    let acknowledged = writes.filter(|one| one.outcome == Outcome::Acknowledged);
    let reads = acknowledged.map(|one| Read {
        write: one.id,
        kind: one.kind,
        acknowledged_ns: one.completed_ns,
        invoked_ns: one.completed_ns + MS,
        completed_ns: one.completed_ns + 2 * MS,
        found: Some(1),
    });
    history.reads = reads.collect();
    history
}

#[test]
fn planted_stale_reads_are_all_found_with_their_window() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = with_reads(clean(&mut rng, 100));
        let sent = history.reads.len() as u64;
        let clean = reads(&history, sent).unwrap();
        assert_eq!((clean.stale, clean.answered), (None, sent), "{seed}");
        let count = rng.random_range(1..50);
        let mut places = drawn(&mut rng, count + 5, history.reads.len());
        for _ in 0..5 {
            history.reads[places.pop_first().unwrap()].found = None;
        }
        let (mut from_ns, mut to_ns, mut oldest_ns) = (u64::MAX, 0, 0);
        for place in places {
            let read = &mut history.reads[place];
            read.found = Some(0);
            let age_ns = rng.random_range(0..=MS);
            read.acknowledged_ns = read.invoked_ns - age_ns;
            from_ns = from_ns.min(read.invoked_ns);
            to_ns = to_ns.max(read.completed_ns);
            oldest_ns = oldest_ns.max(age_ns);
        }
        let found = reads(&history, sent).unwrap();
        let stale = Stale {
            count: count as u64,
            from_ns,
            to_ns,
            oldest_ns,
        };
        assert_eq!((found.stale, found.failed), (Some(stale), 5), "{seed}");
        assert!(reads(&history, sent + 1).is_err(), "{seed}");
    }
}

/// Messages of all writers, and the events of a subscriber without a gap, in the order in which the server executed them.
fn published(rng: &mut SmallRng) -> (History, Vec<Heard>) {
    let mut history = clean(rng, 100);
    history.kinds = vec![Kind::Publish];
    let mut executed = Vec::new();
    for one in &mut history.operations {
        // Slow replies overlap, also those of one writer.
        one.completed_ns += rng.random_range(0..5) * EVERY;
        one.kind = 0;
        executed.push((rng.random_range(one.invoked_ns..=one.completed_ns), one.id));
    }
    executed.sort_unstable_by_key(|(at_ns, _)| *at_ns);
    let heard = executed.into_iter().map(|(_, id)| Heard::Message(id));
    (history, heard.collect())
}

#[test]
fn planted_silent_gaps_are_all_found_and_announced_ones_are_no_loss() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut history, mut heard) = published(&mut rng);
        receive(&mut history.operations, 0, &heard);
        let whole = &audited(&history)[0];
        assert_eq!((whole.loss, whole.announced), (None, 0), "{seed}");
        assert_eq!(whole.twice, Some(0), "{seed}");
        // Far enough apart that no message fits into both.
        let silent = rng.random_range(50..150);
        let (missed, announced) = (rng.random_range(1..20), rng.random_range(1..20));
        let gap = rng.random_range(250..350);
        heard.splice(gap..gap + announced, [Heard::Gap]);
        heard.drain(silent..silent + missed);
        heard.push(heard[0]);
        receive(&mut history.operations, 0, &heard);
        let found = &audited(&history)[0];
        let (missed, announced) = (missed as u64, announced as u64);
        assert_eq!(
            (found.lost(), found.announced),
            (missed, announced),
            "{seed}"
        );
        assert_eq!(found.twice, Some(1), "{seed}");
        assert_eq!(found.there(), found.sent - missed - announced, "{seed}");
    }
}

#[test]
fn messages_missed_at_either_end_are_announced_by_a_gap_there_only() {
    let (mut history, heard) = published(&mut SmallRng::seed_from_u64(1));
    for (gap_first, gap_last) in [(false, false), (true, false), (false, true)] {
        let mut middle = heard[30..heard.len() - 30].to_vec();
        if gap_first {
            middle.insert(0, Heard::Gap);
        }
        if gap_last {
            middle.push(Heard::Gap);
        }
        receive(&mut history.operations, 0, &middle);
        let found = &audited(&history)[0];
        let announced = 30 * (u64::from(gap_first) + u64::from(gap_last));
        assert_eq!((found.announced, found.lost()), (announced, 60 - announced));
    }
}

#[test]
fn planted_outages_are_found_to_the_nanosecond() {
    for seed in 0..HISTORIES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut history = without_messages(clean(&mut rng, 100));
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
fn messages_hide_no_outage_of_the_keys_of_their_writer() {
    let mut history = clean(&mut SmallRng::seed_from_u64(1), 50);
    history.kinds = vec![Kind::Incr, Kind::Publish];
    for one in &mut history.operations {
        one.kind = (one.id.sequence % 2) as usize;
        if one.kind == 0 && one.invoked_ns >= history.fault_ns {
            one.outcome = Outcome::Refused;
        }
    }
    let found = clocks(&history);
    assert!(found.outage.unwrap().is_open, "{found:?}");
    assert_eq!(found.first_write_ns, None);
    history.kinds = vec![Kind::Publish; 2];
    assert!(clocks(&history).first_write_ns.is_some());
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
        problem.starts_with("8 multi were sent, but 7 were"),
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
        one.outcome = OUTCOMES[rng.random_range(0..OUTCOMES.len())];
        let shows_more = history.kinds[one.kind] != Kind::Set && one.outcome != Outcome::Refused;
        one.executions = rng.random_range(0..if shows_more { 3 } else { 2 });
    }
    history
}

/// The history with reads, of which some are stale and as many failed, and the number of stale ones.
fn with_poor_reads(history: History) -> (History, u64) {
    let mut history = with_reads(history);
    let mut stale = 0;
    for read in history.reads.iter_mut().step_by(7) {
        (read.found, stale) = (Some(0), stale + 1);
    }
    for read in history.reads.iter_mut().skip(1).step_by(7) {
        read.found = None;
    }
    (history, stale)
}

#[test]
fn events_have_every_write_and_break_their_models_where_the_audit_has_a_finding() {
    const TRIALS: u64 = 2;
    for seed in 0..HISTORIES {
        let (history, stale) = with_poor_reads(random(seed));
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
            let is_read = ["read", "receive"].iter().any(|one| event["f"] == *one);
            if !is_read {
                *counts.entry(kind.to_owned()).or_insert(0) += 1;
            }
            match kind {
                "invoke" => {}
                "fail" if is_read => assert!(event["value"][1].is_null(), "{line}"),
                _ if is_read => {
                    let found = event["value"][1].as_u64().unwrap();
                    wrong += u64::from(!possible[&key].contains(&found));
                }
                _ => {
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
        let findings = stale + total(&audits, findings);
        assert_eq!(wrong, TRIALS * findings, "{seed}");
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
