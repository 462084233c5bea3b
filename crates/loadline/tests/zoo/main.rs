//! The zoo: benchmarks with one deliberate flaw each, driven against real servers. Every flaw must be
//! found by its rule, and runs without one must stay without findings.
//!
//! Where `loadline run` can be told to do it wrong, it is; the other flaws are small benchmarks over
//! sockets of their own, whose readings go to the same rules. The table that the tests print
//! (`cargo test -p loadline --test zoo -- --nocapture`) names flaw, rule and evidence.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "the table is what the zoo is for")]

mod bench;
mod clean;
mod commands;
mod hours;
#[path = "../../../loadline-client/tests/redis/port.rs"]
mod port;
#[path = "../cli/redis.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the commands, which use all of it"
)]
mod redis;
mod sockets;
mod stalls;
#[path = "../cli/util.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the commands, which use all of it"
)]
mod util;

use std::sync::{Mutex, MutexGuard, PoisonError};

use loadline_measure::doctor::Finding;

/// Animals disturb each other: one test at a time.
static CAGE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    CAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that `rule` is among the findings, and prints the row of the table.
#[track_caller]
fn caught(flaw: &str, rule: &str, findings: &[Finding]) -> Finding {
    let found = findings
        .iter()
        .find(|finding| finding.rule.as_str() == rule);
    let found = found.unwrap_or_else(|| panic!("{flaw}: {rule} is not among {findings:#?}"));
    println!("| {flaw} | {rule} | {} |", found.evidence);
    found.clone()
}
