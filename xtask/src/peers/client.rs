//! The clients: loadline-client compared with redis-rs, fred, rustis and hiredis, in one program (`peers/client`)
//! whose blocks alternate. The server is pinned to CPU 0, the clients to CPU 1.
//!
//! Every client gets and sets the same 64-byte strings under the same 1,000 keys over TCP, and owns the values
//! that it gets. The exception is `get-lent-100`, where both clients that can lend values from their buffer do so.
//! In `get-spin`, ours waits actively; the peers cannot and wait as usual. `tasks-512-serve` is `tasks-512-multi`
//! with `loadline serve` as the server, because redis-server is out of CPU there.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use super::generator::{build_ours, target_dir};
use super::programs::{Masters, Server, run_pinned};
use super::table::{Goal, Row, Sample, Table};
use super::{Asked, MANIFEST, counts, progress};
use crate::{cargo, is_on_path, run};

const OURS: &str = "loadline-client";
const CASES: [&str; 16] = [
    "get",
    "set",
    "get-spin",
    "get-pipeline-10",
    "set-pipeline-10",
    "get-pipeline-100",
    "get-lent-100",
    "set-pipeline-100",
    "tasks-1",
    "tasks-64",
    "tasks-512",
    "tasks-512-multi",
    OURS_SERVES,
    "cluster-tasks-64",
    "cluster-tasks-512",
    "cluster-pipeline-100",
];
/// The case whose server is ours, and the program's name for it.
const OURS_SERVES: &str = "tasks-512-serve";
const OURS_SERVES_WORK: &str = "tasks-512-multi";
/// Prefix of the cases that are measured on a cluster.
const ON_CLUSTER: &str = "cluster-";
/// The cases whose system calls, allocations and instructions are counted, and the number of operations.
const COUNTED: [(&str, u64); 5] = [
    ("get", 2_000),
    ("set", 2_000),
    ("get-pipeline-100", 20_000),
    ("tasks-64", 20_000),
    ("tasks-512", 40_000),
];

/// A line that the program prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Block(Block),
    Failed(Failed),
}

/// A client that could not run its block, and is not in the rounds after it.
#[derive(Debug, Deserialize)]
struct Failed {
    arm: String,
    error: String,
}

/// The line of a block.
#[derive(Debug, Deserialize)]
struct Block {
    case: String,
    arm: String,
    round: u64,
    ops_per_s: f64,
    cpu_ns_per_op: f64,
    allocations_per_op: Option<f64>,
    /// Whether the server is a single process.
    server_cpu_share: Option<f64>,
}

/// The goals of the client's issue.
fn goal(case: &str, peer: &str) -> Goal {
    let rust = matches!(peer, "redis-rs" | "fred" | "rustis");
    let (ratio, cpu_ratio) = match (case, peer) {
        ("get-pipeline-100" | "get-lent-100", "hiredis") => (Some(1.15), Some(0.75)),
        ("get-pipeline-100", "redis-rs") => (Some(1.25), None),
        ("tasks-64", _) if rust => (Some(1.3), Some(0.6)),
        ("tasks-512", _) if rust => (Some(1.5), None),
        ("tasks-512-multi" | OURS_SERVES, _) if rust => (Some(8.0), None),
        ("get-spin", "redis-rs") => (Some(2.3), None),
        ("get" | "set" | "get-pipeline-10" | "set-pipeline-10", _) => (Some(1.0), None),
        _ => (None, None),
    };
    Goal { ratio, cpu_ratio }
}

/// Measures every case in rounds, and counts system calls, allocations and instructions.
///
/// # Errors
/// If a program cannot be built or started, or its output is not understood.
pub(super) fn measure(asked: &Asked, table: &mut Table) -> anyhow::Result<()> {
    asked.check_cases(&CASES)?;
    // The counting program is built first, so that the plain one remains.
    let built = target_dir(Some(MANIFEST))?.join("release/client-peers");
    let counting = built.with_file_name("client-peers-counting");
    build(&["--features", "allocations"])?;
    std::fs::copy(&built, &counting).context("the counting program")?;
    build(&[])?;
    let dir = std::env::temp_dir().join(format!("loadline-peers-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let hiredis = hiredis_driver(&dir, table);
    let programs = Programs {
        timed: &built,
        counting: &counting,
        hiredis: hiredis.as_deref(),
        dir: &dir,
    };
    let measured = Server::redis(&dir).map(|redis| programs.measure(asked, &redis, table));
    std::fs::remove_dir_all(&dir).with_context(|| format!("{} is left", dir.display()))?;
    measured
}

/// The programs that are run, and a directory for their files.
struct Programs<'a> {
    timed: &'a Path,
    counting: &'a Path,
    hiredis: Option<&'a Path>,
    dir: &'a Path,
}

impl Programs<'_> {
    /// Measures what was asked for. A case that fails leaves the others.
    fn measure(&self, asked: &Asked, redis: &Server, table: &mut Table) {
        let bench = Bench::new(redis, self.hiredis);
        if asked.rounds > 0 {
            for case in CASES.into_iter().filter(|case| asked.wants(case)) {
                if case != OURS_SERVES && !case.starts_with(ON_CLUSTER) {
                    let timed = bench.time(case, case, asked.rounds, self.timed, table);
                    table.keep(case, timed);
                }
            }
            if asked.wants(OURS_SERVES) {
                let timed = self.time_on_ours(asked, table);
                table.keep(OURS_SERVES, timed);
            }
            if asked.wants_any(&CASES, ON_CLUSTER) {
                let timed = self.time_on_cluster(asked, table);
                table.keep("the cluster", timed);
            }
        }
        bench.count(asked, self, table);
    }

    fn time_on_ours(&self, asked: &Asked, table: &mut Table) -> anyhow::Result<()> {
        let ours = Server::loadline(&build_ours()?)?;
        let bench = Bench::new(&ours, None);
        bench.time(
            OURS_SERVES,
            OURS_SERVES_WORK,
            asked.rounds,
            self.timed,
            table,
        )
    }

    fn time_on_cluster(&self, asked: &Asked, table: &mut Table) -> anyhow::Result<()> {
        let masters = Masters::start(self.dir)?;
        let bench = Bench::on_cluster(&masters);
        let cases = CASES.iter().filter(|case| case.starts_with(ON_CLUSTER));
        for case in cases.filter(|case| asked.wants(case)) {
            let timed = bench.time(case, case, asked.rounds, self.timed, table);
            table.keep(case, timed);
        }
        Ok(())
    }
}

fn build(features: &[&str]) -> anyhow::Result<()> {
    let words = [
        "build",
        "--release",
        "--manifest-path",
        MANIFEST,
        "-p",
        "client-peers",
    ];
    run(&cargo(), &[&words, features].concat(), &[])
}

/// The driver of hiredis, built here; `None` if the library is not installed.
fn hiredis_driver(dir: &Path, table: &mut Table) -> Option<PathBuf> {
    let driver = dir.join("hiredis-driver");
    let program = driver.display().to_string();
    let words = ["-O2", "-o", &program, "peers/hiredis/driver.c", "-lhiredis"];
    match run("cc", &words, &[]) {
        Ok(()) => Some(driver),
        Err(error) => {
            table.note(format!(
                "hiredis was left out, because its driver could not be built (Debian package libhiredis-dev): {error}"
            ));
            None
        }
    }
}

struct Bench<'a> {
    url: String,
    /// The process of the server, if it is a single one.
    server: Option<String>,
    hiredis: Option<&'a Path>,
}

impl<'a> Bench<'a> {
    fn new(server: &Server, hiredis: Option<&'a Path>) -> Self {
        Self {
            url: format!("redis://{}", server.address),
            server: Some(server.process().to_string()),
            hiredis,
        }
    }

    /// A cluster has several processes, so none is examined.
    fn on_cluster(masters: &Masters) -> Self {
        Self {
            url: masters.url(),
            server: None,
            hiredis: None,
        }
    }

    fn words(&self, program: &Path, case: &str, rest: &[&str]) -> Vec<String> {
        let mut words = vec![program.display().to_string(), self.url.clone()];
        words.extend(["--case", case].map(Into::into));
        if let Some(server) = &self.server {
            words.extend(["--server".into(), server.clone()]);
        }
        if let Some(driver) = self.hiredis {
            words.extend(["--hiredis".into(), driver.display().to_string()]);
        }
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Runs the program's case `work` in rounds, as rows of `case`.
    fn time(
        &self,
        case: &str,
        work: &str,
        rounds: usize,
        program: &Path,
        table: &mut Table,
    ) -> anyhow::Result<()> {
        progress(&format!("{case}, {rounds} rounds"));
        let rounds = rounds.to_string();
        let words = self.words(program, work, &["--rounds", &rounds]);
        let (blocks, failed) = lines(&run_pinned(&words)?.stdout)?;
        for Failed { arm, error } in &failed {
            table.keep::<()>(&format!("{case} by {arm}"), Err(anyhow::anyhow!("{error}")));
        }
        let has_failed = |arm: &str| failed.iter().any(|failed| failed.arm == arm);
        if has_failed(OURS) {
            return Ok(());
        }
        let (ours, our_servers) = samples(&blocks, OURS);
        for peer in ["redis-rs", "fred", "rustis", "hiredis"] {
            let (theirs, their_servers) = samples(&blocks, peer);
            if !theirs.is_empty() && !has_failed(peer) {
                let row = Row::new(case, peer, &ours, &theirs, goal(case, peer));
                table.add(match (&our_servers, &their_servers) {
                    (Some(ours), Some(theirs)) => row.with_server_cpu(ours, theirs),
                    _ => row,
                });
            }
        }
        Ok(())
    }

    /// System calls, allocations and instructions per operation, as lines below the table.
    fn count(&self, asked: &Asked, programs: &Programs<'_>, table: &mut Table) {
        let Programs {
            timed: program,
            counting,
            dir,
            ..
        } = *programs;
        let (strace, valgrind) = (is_on_path("strace"), is_on_path("valgrind"));
        if !strace {
            table.note("System calls were not counted, because strace is not on PATH.".into());
        }
        if !valgrind {
            table.note(counts::NO_VALGRIND.into());
        }
        table.note(format!(
            "{:<18} {:<18} {:>12} {:>12} {:>12}",
            "per operation", "", "system calls", "allocations", "instructions"
        ));
        for (case, ops) in COUNTED.into_iter().filter(|(case, _)| asked.wants(case)) {
            progress(&format!("{case}, counting"));
            let words = self.words(
                counting,
                case,
                &["--ops", &ops.to_string(), "--rounds", "2"],
            );
            let counted = run_pinned(&words).and_then(|ended| lines(&ended.stdout));
            let Some((mut blocks, failed)) = noted(counted, &format!("{case:<18}"), table) else {
                continue;
            };
            for Failed { arm, error } in failed {
                table.note(format!("{case:<18} {arm:<18} not counted: {error}"));
            }
            // The first round warms up buffers.
            blocks.retain(|block| block.round > 0);
            blocks.sort_by(|one, other| one.arm.cmp(&other.arm));
            for block in blocks {
                let words = |ops: u64| {
                    let rest = ["--arm", &block.arm, "--ops", &ops.to_string()];
                    self.words(program, case, &rest)
                };
                let line = format!("{case:<18} {:<18}", block.arm);
                let calls = (strace && block.arm != "hiredis")
                    .then(|| counts::system_calls(dir, ops, words))
                    .and_then(|counted| noted(counted, &line, table));
                let instructions = valgrind
                    .then(|| counts::instructions(dir, ops, words))
                    .and_then(|counted| noted(counted, &line, table));
                let counts = [calls, block.allocations_per_op, instructions];
                table.note(line_of(&block, counts));
            }
        }
    }
}

/// The count; if it failed, adds a note below the table, and the others go on.
fn noted<T>(counted: anyhow::Result<T>, line: &str, table: &mut Table) -> Option<T> {
    counted
        .map_err(|error| table.note(format!("{line} not counted: {error:#}")))
        .ok()
}

/// A line with the system calls, allocations and instructions of a client.
fn line_of(block: &Block, counts: [Option<f64>; 3]) -> String {
    let mut line = format!("{:<18} {:<18}", block.case, block.arm);
    for (count, digits) in counts.into_iter().zip([2, 2, 0]) {
        line += &match count {
            Some(count) => format!(" {count:>12.digits$}"),
            None => format!(" {:>12}", "-"),
        };
    }
    line
}

/// The samples of one client, with the CPU use of the server if it is known.
fn samples(blocks: &[Block], arm: &str) -> (Vec<Sample>, Option<Vec<f64>>) {
    let mine = || blocks.iter().filter(|block| block.arm == arm);
    let samples = mine().map(|block| Sample {
        ops_per_s: block.ops_per_s,
        cpu_ns_per_op: block.cpu_ns_per_op,
    });
    let servers = mine().map(|block| block.server_cpu_share);
    (samples.collect(), servers.collect())
}

/// The blocks that the program printed, and the clients that failed.
fn lines(printed: &str) -> anyhow::Result<(Vec<Block>, Vec<Failed>)> {
    let (mut blocks, mut failed) = (Vec::new(), Vec::new());
    for line in printed.lines() {
        let read = serde_json::from_str(line);
        match read.with_context(|| format!("client-peers printed `{line}`"))? {
            Line::Block(block) => blocks.push(block),
            Line::Failed(arm) => failed.push(arm),
        }
    }
    Ok((blocks, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_failures_are_read_and_nonsense_is_refused() {
        let line = r#"{"case":"get","arm":"fred","round":0,"ops_per_s":7255.0,"cpu_ns_per_op":33877.0,"allocations_per_op":null,"server_cpu_share":0.25}"#;
        let failure = r#"{"case":"get","arm":"rustis","error":"it fell over"}"#;
        let (read, failed) = lines(&format!("{line}\n{failure}")).unwrap();
        assert_eq!(
            (&*failed[0].arm, &*failed[0].error),
            ("rustis", "it fell over")
        );
        assert_eq!((read[0].arm.as_str(), read[0].ops_per_s), ("fred", 7_255.0));
        let (samples, servers) = samples(&read, "fred");
        assert_eq!(
            (samples[0].cpu_ns_per_op, servers),
            (33_877.0, Some(vec![0.25]))
        );
        let unknown = lines(&line.replace("0.25", "null")).unwrap().0;
        assert!(super::samples(&unknown, "fred").1.is_none());
        assert!(lines("panicked at").is_err());
    }
}
