//! The verdicts of the audit beside those of porcupine (MIT), a checker of linearizability, on the same histories.
//!
//! `cargo xtask test --install` builds `tests/porcupine/` with Go into the target directory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use loadline_measure::failover::{
    Audit, Events, History, Kind, Operation, Outcome, Read, WriteId, audit, reads,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const HISTORIES: u64 = 1_000;
const WRITERS: u32 = 4;
const WRITES: u64 = 20;
const MS: u64 = 1_000_000;

/// The program that was built, in the directory of all builds.
fn checker() -> PathBuf {
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR"));
    programs.parent().unwrap().join("porcupine/check")
}

/// The outcome and the executions of a write: possible in every second history, anything in the others. A refused write has one
/// execution at most, and a register shows one at most, so that no write has two findings.
fn fate(rng: &mut SmallRng, is_right: bool, kind: &Kind) -> (Outcome, u64) {
    let outcomes = [
        Outcome::Acknowledged,
        Outcome::Refused,
        Outcome::Ambiguous,
        Outcome::Unconfirmed,
    ];
    let outcome = outcomes[rng.random_range(0..outcomes.len())];
    let executions = match outcome {
        Outcome::Acknowledged if is_right => 1,
        Outcome::Refused if is_right => 0,
        _ if is_right || *kind == Kind::Set || outcome == Outcome::Refused => {
            rng.random_range(0..2)
        }
        _ => rng.random_range(0..3),
    };
    (outcome, executions)
}

/// A history whose slow writes overlap, with reads of acknowledged ones.
fn history(seed: u64) -> History {
    let mut rng = SmallRng::seed_from_u64(seed);
    let is_right = seed.is_multiple_of(2);
    let kinds: Vec<Kind> = Kind::ALL.to_vec();
    let (mut operations, mut reads) = (Vec::new(), Vec::new());
    for sequence in 0..WRITES {
        for writer in 0..WRITERS {
            let kind = rng.random_range(0..kinds.len());
            let (outcome, executions) = match kinds[kind] {
                // Messages have no model.
                Kind::Publish => (Outcome::Acknowledged, 1),
                ref kind => fate(&mut rng, is_right, kind),
            };
            let id = WriteId { writer, sequence };
            let invoked_ns = 10 * MS * sequence + MS * u64::from(writer);
            let completed_ns = invoked_ns + rng.random_range(1..50 * MS);
            operations.push(Operation {
                id,
                kind,
                due_ns: invoked_ns,
                invoked_ns,
                completed_ns,
                outcome,
                error: None,
                executions,
                announced: false,
            });
            // Of a key with a finding of its own, a wrong read is no other finding.
            let is_read = outcome == Outcome::Acknowledged && executions == 1;
            if is_read && kinds[kind] != Kind::Publish && rng.random_bool(0.5) {
                let called_ns = completed_ns + rng.random_range(1..50 * MS);
                let is_stale = !is_right && rng.random_bool(0.1);
                let found = match rng.random_range(0..10) {
                    0 => None,
                    _ => Some(u64::from(!is_stale)),
                };
                reads.push(Read {
                    write: id,
                    kind,
                    acknowledged_ns: completed_ns,
                    invoked_ns: called_ns,
                    completed_ns: called_ns + rng.random_range(1..50 * MS),
                    found,
                });
            }
        }
    }
    History {
        kinds,
        operations,
        reads,
        fault_ns: 100 * MS,
        end_ns: 10 * MS * WRITES,
        ..History::default()
    }
}

/// The writes with a finding, and the reads with one.
fn findings(history: &History) -> u64 {
    let sent = |kind| {
        let operations = history.operations.iter();
        operations.filter(|one| one.kind == kind).count() as u64
    };
    let sent: Vec<u64> = (0..history.kinds.len()).map(sent).collect();
    let audits = audit(history, &sent).unwrap();
    let of_writes = |audit: &Audit| audit.lost() + audit.twice.unwrap_or(0) + audit.refused_there;
    let of_reads = reads(history, history.reads.len() as u64).unwrap().stale();
    audits.iter().map(of_writes).sum::<u64>() + of_reads
}

#[test]
fn audit_and_porcupine_agree_on_1000_histories() {
    let (mut events, mut expected) = (Events::default(), Vec::new());
    for seed in 0..HISTORIES {
        let history = history(seed);
        events.add("kill", &history);
        expected.push(findings(&history));
    }
    let checker = checker();
    let mut child = Command::new(&checker)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `cargo xtask test --install` builds it",
                checker.display()
            )
        });
    let mut input = child.stdin.take().unwrap();
    // The checker reads everything before it prints anything.
    input.write_all(events.into_lines().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = String::from_utf8(output.stdout).unwrap();
    let found: Vec<u64> = found.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found, expected);
    let right = expected.iter().step_by(2).sum::<u64>();
    let wrong = expected
        .iter()
        .skip(1)
        .step_by(2)
        .filter(|count| **count > 0);
    assert_eq!((right, wrong.count() as u64), (0, HISTORIES / 2));
    assert_eq!(
        expected.iter().sum::<u64>(),
        14_717,
        "docs/failover.md states it"
    );
}
