//! Accuracy of methods of gating, on noise that real comparisons left behind.
//!
//! ```text
//! cargo run --release -p loadline-measure --example stored_noise
//! cargo run --release -p loadline-measure --example stored_noise -- FILE
//! cargo run --release -p loadline-measure --example stored_noise -- --from STATE RECORD...
//! ```
//!
//! Without a file it takes the noise in `testdata/`, which was measured. The last form writes such
//! lines of records: of comparisons of a server with itself, each a run of its own.

mod noise;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use loadline_measure::Record;
use loadline_measure::proof::{Draw, Share, of_baselines};

use noise::{Noise, lines};

const STORED: &str = include_str!("../../testdata/noise.csv");
/// Suites that are drawn for each figure.
const SUITES: u64 = 10_000;
/// The cases of a suite.
const CASES: usize = 20;
/// Injected slowdowns, as shares.
const PLANTED: [f64; 3] = [0.05, 0.10, 0.20];
/// The sizes of baselines.
const BASELINES: [usize; 4] = [8, 12, 16, 20];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] => tables(STORED),
        ["--from", state, records @ ..] if !records.is_empty() => convert(state, records),
        [file] if !file.starts_with('-') => read(file).and_then(|text| tables(&text)),
        _ => Err("usage: stored_noise [FILE] or stored_noise --from STATE RECORD...".to_owned()),
    };
    let written = done.and_then(|text| {
        io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| format!("standard output cannot be written: {error}"))
    });
    let Err(error) = written else {
        return ExitCode::SUCCESS;
    };
    // Where even this cannot be written, the exit code says it.
    let _ = writeln!(io::stderr(), "stored_noise: {error}");
    ExitCode::FAILURE
}

#[expect(
    clippy::disallowed_methods,
    reason = "the example reads its arguments; the library reads no file"
)]
fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"))
}

fn convert(state: &str, records: &[&str]) -> Result<String, String> {
    let mut out = String::new();
    let mut number = 0;
    for file in records {
        let record = Record::from_json(read(file)?.as_bytes());
        let record = record.map_err(|error| format!("{file}: {error}"))?;
        match lines(state, number + 1, &record) {
            Some(lines) => {
                number += 1;
                out.push_str(&lines);
            }
            None => {
                let _ = writeln!(
                    out,
                    "# {file}: not of two subjects with operations enough for a p99"
                );
            }
        }
    }
    Ok(out)
}

fn tables(text: &str) -> Result<String, String> {
    let mut out = String::new();
    for noise in Noise::parse(text)? {
        let _ = writeln!(
            out,
            "{} comparisons, machine {}\n{:<32} {:>22}   found of one case planted with, in %\n{:<32} {:>22} {:>19} {:>19} {:>19}",
            noise.runs(),
            noise.state,
            "",
            "false alarms per 1,000",
            "method",
            "suites of 20 cases",
            "+5 %",
            "+10 %",
            "+20 %"
        );
        let usual = |draw: &Draw| Some(noise.naive(draw));
        out.push_str(&row("mean, p95, p99 of a run, +20 %", usual));
        out.push_str(&row("pairs, p50", |draw| Some(noise.pairs(draw))));
        out.push_str(&row("pairs, corrected p99", |draw| {
            Some(noise.tail_pairs(draw)).filter(|share| share.of > 0)
        }));
        let runs = noise.as_runs();
        for baseline_runs in BASELINES {
            let name = format!("baseline of {baseline_runs} runs, p50");
            out.push_str(&row(&name, |draw| {
                let draw = Draw {
                    baseline_runs,
                    ..*draw
                };
                of_baselines(&runs, &draw)
            }));
        }
        let alone = noise.naive(&Draw {
            cases: 1,
            ..NOTHING
        });
        let _ = writeln!(
            out,
            "mean, p95, p99 of a run, +20 %, one case: {} false alarms per 1,000\n",
            with_interval(alone, 1_000.0)
        );
    }
    Ok(out)
}

/// Nothing planted in a suite.
const NOTHING: Draw = Draw {
    planted: 0.0,
    cases: CASES,
    baseline_runs: BASELINES[0],
    suites: SUITES,
    seed: 1,
};

/// A method: its false alarms in suites, and what it finds of what is planted in one case.
fn row(name: &str, method: impl Fn(&Draw) -> Option<Share>) -> String {
    let Some(alarms) = method(&NOTHING) else {
        return format!("{name:<32} {:>22}\n", "too few runs");
    };
    let mut out = format!("{name:<32} {:>22}", with_interval(alarms, 1_000.0));
    for planted in PLANTED {
        let one = Draw {
            planted,
            cases: 1,
            suites: SUITES / 10,
            ..NOTHING
        };
        let found = method(&one).unwrap_or_default();
        let _ = write!(out, " {:>19}", with_interval(found, 100.0));
    }
    out.push('\n');
    out
}

/// A share, with its 95 % interval (Clopper and Pearson).
fn with_interval(share: Share, of: f64) -> String {
    let interval = share.interval_95();
    let [value, lo, hi] = [share.value(), interval.lo, interval.hi].map(|one| one * of);
    format!("{value:.1} [{lo:.1}, {hi:.1}]")
}
