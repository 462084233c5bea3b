//! The cache in memory: loadline-cache compared with quick_cache and moka, in one program (`peers/cache`) that is run for
//! each of them in turns, on CPU 1.
//!
//! All keep 10,000 values of 100 bytes in an `Arc` under a budget in bytes. quick_cache has no time to live, so both cases of
//! ours are compared with the same of it.

use std::time::Instant;

use super::generator::target_dir;
use super::programs::run_pinned;
use super::table::{Goal, Sample, Table};
use super::{Asked, MANIFEST, counts, interleave};
use crate::{cargo, is_on_path, run};

/// The cases, each with the names of ours, quick_cache and moka in the program.
const CASES: [(&str, [&str; 3]); 4] = [
    ("hit", ["ours", "quick", "moka"]),
    ("hit-ttl", ["ours-ttl", "quick", "moka-ttl"]),
    ("insert", ["ours-insert", "quick-insert", "moka-insert"]),
    (
        "insert-ttl",
        ["ours-ttl-insert", "quick-insert", "moka-ttl-insert"],
    ),
];
const NAMES: [&str; 3] = ["loadline-cache", "quick_cache", "moka"];
/// Operations of a run.
const TIMED: u64 = 5_000_000;
/// Operations of a run whose instructions are counted.
const COUNTED: u64 = 100_000;

/// Measures every case in rounds, and counts instructions. A case that fails leaves the others.
///
/// # Errors
/// If the program cannot be built.
pub(super) fn measure(asked: &Asked, table: &mut Table) -> anyhow::Result<()> {
    asked.check_cases(&CASES.map(|(case, _)| case))?;
    let words = [
        "build",
        "--release",
        "--manifest-path",
        MANIFEST,
        "-p",
        "cache-peers",
    ];
    run(
        &cargo(),
        &[&words[..], &["--example", "instructions"]].concat(),
        &[],
    )?;
    let program = target_dir(Some(MANIFEST))?.join("release/examples/instructions");
    let words = |subject: &str, ops: u64| {
        [
            program.display().to_string(),
            subject.into(),
            ops.to_string(),
        ]
        .to_vec()
    };
    let wanted = || CASES.iter().filter(|(case, _)| asked.wants(case));
    for (case, arms) in wanted().filter(|_| asked.rounds > 0) {
        let samples = interleave(case, asked.rounds, arms.len(), |arm| {
            let begun = Instant::now();
            let ended = run_pinned(&words(arms[arm], TIMED))?;
            Ok(Sample {
                ops_per_s: TIMED as f64 / begun.elapsed().as_secs_f64(),
                cpu_ns_per_op: ended.cpu.as_nanos() as f64 / TIMED as f64,
            })
        });
        table.add_arms(case, &NAMES, samples, |_| Goal::default());
    }
    if !is_on_path("valgrind") {
        table.note(counts::NO_VALGRIND.into());
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let mut line = |case: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!(" {cell:>14}"));
        table.note(format!("{case:<24}{}", cells.collect::<String>()));
    };
    line("instructions", &NAMES.map(String::from));
    for (case, arms) in wanted() {
        let count = |arm: &str| counts::instructions(dir.path(), COUNTED, |ops| words(arm, ops));
        let cells = arms.map(|arm| match count(arm) {
            Ok(count) => format!("{count:.0}"),
            Err(error) => format!("{error:#}"),
        });
        line(case, &cells);
    }
    Ok(())
}
