//! The load generators: `loadline run` compared with redis-benchmark, valkey-benchmark, memtier_benchmark and
//! resp-benchmark. The server is pinned to CPU 0 and the generators to CPU 1. All send GET for 64-byte values of
//! 1,000 existing keys (to the null server: without a value), with the same number of operations. After each run,
//! redis-server confirms this.
//!
//! The rate is the one that a program prints. CPU time is that of the whole program and its child processes, from
//! start to end: for ours, with everything that belongs to a run (connecting, loading its keys, querying the
//! server, 30 ms of an echo, the record); for resp-benchmark, with the start of Python. Cases of deep pipelines
//! have so many operations that the fixed cost of a run is a small part.
//!
//! Instructions per operation are the difference between two runs under callgrind, one with twice as many operations
//! as the other. A program that spins while it waits executes more of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::programs::{Server, peak_memory, run_pinned};
use super::table::{Goal, Memory, Sample, Table};
use super::{Asked, counts, interleave, progress};
use crate::{cargo, is_on_path, run};

const KEYS: usize = 1_000;
const VALUE_BYTES: usize = 64;
/// The case in which the memory of ours is measured.
const MEMORY_CASE: Case = CASES[3];
/// Memory limit of ours with 50 connections, in MiB.
const MEMORY_GOAL_MIB: f64 = 8.0;

/// Operations whose instructions are counted, without a pipeline. The fixed cost of a run grows with the distinct response
/// times of its record, which are most of its difference with few operations.
const COUNTED_OPS: u64 = 100_000;
/// Up to as many times as many operations are counted in a pipeline, where one takes so much less.
const MOST_TIMES: u64 = 4;

/// The load of one case, the same for all generators.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    target: Target,
    connections: u64,
    pipeline: u64,
    /// Operations per run.
    ops: u64,
    goals: &'static [(Rival, Goal)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Null,
    Redis,
    RedisSocket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    RedisBenchmark,
    ValkeyBenchmark,
    Memtier,
    RespBenchmark,
}

const RIVALS: [Rival; 4] = [
    Rival::RedisBenchmark,
    Rival::ValkeyBenchmark,
    Rival::Memtier,
    Rival::RespBenchmark,
];

const fn goal(ratio: f64, cpu_ratio: f64) -> Goal {
    Goal {
        ratio: Some(ratio),
        cpu_ratio: Some(cpu_ratio),
    }
}

const fn ratio(ratio: f64) -> Goal {
    Goal {
        ratio: Some(ratio),
        cpu_ratio: None,
    }
}

const fn case(
    name: &'static str,
    target: Target,
    (connections, pipeline): (u64, u64),
    ops: u64,
    goals: &'static [(Rival, Goal)],
) -> Case {
    Case {
        name,
        target,
        connections,
        pipeline,
        ops,
        goals,
    }
}

/// The cases with their goals.
const CASES: [Case; 8] = {
    use Rival::{Memtier, RedisBenchmark, RespBenchmark, ValkeyBenchmark};
    use Target::{Null, Redis, RedisSocket};
    [
        case(
            "null-10x100",
            Null,
            (10, 100),
            8_000_000,
            &[(RedisBenchmark, goal(2.5, 0.4))],
        ),
        case(
            "null-50x16",
            Null,
            (50, 16),
            4_000_000,
            &[(RedisBenchmark, goal(2.0, 0.5))],
        ),
        case(
            "null-50x1",
            Null,
            (50, 1),
            200_000,
            &[
                (RedisBenchmark, goal(2.0, 0.5)),
                (RespBenchmark, ratio(1.5)),
            ],
        ),
        case(
            "redis-50x1",
            Redis,
            (50, 1),
            200_000,
            &[
                (RedisBenchmark, goal(1.4, 0.6)),
                (ValkeyBenchmark, ratio(1.1)),
                (Memtier, ratio(1.1)),
                (RespBenchmark, ratio(1.1)),
            ],
        ),
        case(
            "redis-50x16",
            Redis,
            (50, 16),
            8_000_000,
            &[(RedisBenchmark, goal(1.0, 0.55))],
        ),
        case(
            "redis-1x100",
            Redis,
            (1, 100),
            4_000_000,
            &[(RedisBenchmark, goal(1.4, 0.75)), (Memtier, ratio(1.0))],
        ),
        case(
            "redis-1x1",
            Redis,
            (1, 1),
            30_000,
            &[(RedisBenchmark, ratio(1.0))],
        ),
        case(
            "unix-50x1",
            RedisSocket,
            (50, 1),
            300_000,
            &[
                (RedisBenchmark, ratio(1.35)),
                (ValkeyBenchmark, ratio(1.35)),
                (Memtier, ratio(1.35)),
            ],
        ),
    ]
};

/// Measures every case in rounds, ours and the peers in random order in each.
///
/// # Errors
/// If a program cannot be built or started, or its output is not understood.
pub(super) fn measure(asked: &Asked, table: &mut Table) -> anyhow::Result<()> {
    asked.check_cases(&CASES.map(|case| case.name))?;
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("server and generator need a CPU each, but this machine has only one");
    }
    let ours = build_ours()?;
    let null = build("loadline-null", "null-server")?;
    let dir = std::env::temp_dir().join(format!("loadline-peers-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let servers = (Server::null(&null)?, Server::redis(&dir)?);
    let measured = measure_in(asked, &ours, (&servers.0, &servers.1), &dir, table);
    std::fs::remove_dir_all(&dir).with_context(|| format!("{} is left", dir.display()))?;
    measured
}

fn measure_in(
    asked: &Asked,
    ours: &str,
    (null, redis): (&Server, &Server),
    dir: &Path,
    table: &mut Table,
) -> anyhow::Result<()> {
    for rival in RIVALS.into_iter().filter(|rival| !rival.is_there()) {
        table.note(format!("{} is not on PATH and was left out.", rival.name()));
    }
    preload(redis)?;
    let server = |case: &Case| match case.target {
        Target::Null => null,
        Target::Redis | Target::RedisSocket => redis,
    };
    let cases = || CASES.iter().filter(|case| asked.wants(case.name));
    for case in cases().filter(|_| asked.rounds > 0) {
        measure_case(case, asked.rounds, ours, server(case), table);
    }
    if is_on_path("valgrind") {
        table.note(format!("{:<20} {:<18} instructions", "per operation", ""));
        for case in cases() {
            count_case(case, ours, server(case), dir, table);
        }
    } else {
        table.note(counts::NO_VALGRIND.into());
    }
    if asked.cases.is_empty() && asked.rounds > 0 {
        let peak = peak_memory(&MEMORY_CASE.ours(ours, redis));
        if let Some(bytes) = table.keep("memory", peak) {
            table.set_memory(Memory {
                connections: MEMORY_CASE.connections,
                peak_mib: bytes as f64 / f64::from(1 << 20),
                goal_mib: MEMORY_GOAL_MIB,
            });
        }
    }
    Ok(())
}

fn measure_case(case: &Case, rounds: usize, ours: &str, server: &Server, table: &mut Table) {
    let rivals: Vec<Rival> = rivals(case).collect();
    let names = rivals.iter().map(|rival| rival.name());
    let names: Vec<&str> = std::iter::once("loadline").chain(names).collect();
    let samples = interleave(case.name, rounds, names.len(), |arm| {
        let sample = match arm.checked_sub(1) {
            None => case.run_ours(ours, server)?,
            Some(rival) => rivals[rival].run(case, server)?,
        };
        if case.target != Target::Null {
            case.check_hits(names[arm], server.take_hits_and_misses()?)?;
        }
        Ok(sample)
    });
    table.add_arms(case.name, &names, samples, |name| {
        let goal = case.goals.iter().find(|(other, _)| other.name() == name);
        goal.map(|(_, goal)| *goal).unwrap_or_default()
    });
}

/// The rivals that can be measured in a case.
fn rivals(case: &Case) -> impl Iterator<Item = Rival> {
    RIVALS
        .into_iter()
        .filter(|rival| rival.is_there() && rival.can(case))
}

/// Counts instructions per operation of ours and of the rivals, as lines below the table.
fn count_case(case: &Case, ours: &str, server: &Server, dir: &Path, table: &mut Table) {
    progress(&format!("{}, counting", case.name));
    for arm in [None].into_iter().chain(rivals(case).map(Some)) {
        let name = arm.map_or("loadline", Rival::name);
        let counted = COUNTED_OPS * case.pipeline.min(MOST_TIMES);
        let count = counts::instructions(dir, counted, |ops| {
            let few = Case { ops, ..*case };
            match arm {
                None => few.ours(ours, server),
                Some(rival) => rival.words(&few, server),
            }
        });
        let line = format!("{:<20} {name:<18}", case.name);
        match count {
            Ok(count) => table.note(format!("{line} {count:>12.0}")),
            // A program may need what the simulator does not have.
            Err(error) => table.note(format!("{line} not counted: {error:#}")),
        }
    }
}

/// The keys of each peer, in its own syntax.
fn preload(redis: &Server) -> anyhow::Result<()> {
    let value = "x".repeat(VALUE_BYTES);
    for key in 0..=KEYS {
        let names = [
            format!("key:{key:012}"),
            format!("memtier-{key}"),
            format!("key_{key:010}"),
        ];
        let mut words = vec!["MSET"];
        for name in &names {
            words.extend([name.as_str(), &value]);
        }
        redis.call(&words)?;
    }
    redis.call(&["CONFIG", "RESETSTAT"])?;
    Ok(())
}

/// Builds our program and returns its path.
pub(super) fn build_ours() -> anyhow::Result<String> {
    Ok(build("loadline", "loadline")?.display().to_string())
}

/// Builds a package of the workspace and returns the path of its program.
fn build(package: &str, program: &str) -> anyhow::Result<PathBuf> {
    run(&cargo(), &["build", "--release", "-p", package], &[])?;
    Ok(target_dir(None)?.join("release").join(program))
}

/// The target directory of cargo.
pub(super) fn target_dir(manifest: Option<&str>) -> anyhow::Result<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let mut command = Command::new(cargo());
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = manifest {
        command.args(["--manifest-path", manifest]);
    }
    let output = command.output().context("cargo metadata")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    Ok(metadata.target_directory)
}

impl Case {
    fn ours(&self, program: &str, server: &Server) -> Vec<String> {
        let target = match (self.target, &server.socket) {
            (Target::RedisSocket, Some(socket)) => format!("unix://{}", socket.display()),
            _ => format!("redis://{}", server.address),
        };
        words(&format!(
            "{program} run {target} --allow-non-empty --workload get --connections {} --threads 1 --pipeline {} \
             --ops {} --rounds 1 --keys {KEYS} --value-size {VALUE_BYTES}B --warmup 0s --quiet --json -",
            self.connections, self.pipeline, self.ops
        ))
    }

    fn run_ours(&self, program: &str, server: &Server) -> anyhow::Result<Sample> {
        #[derive(Deserialize)]
        struct Record {
            cases: Vec<Measured>,
        }
        #[derive(Deserialize)]
        struct Measured {
            ops: u64,
            throughput_ops_per_s: f64,
        }
        let ended = run_pinned(&self.ours(program, server))?;
        let record: Record = serde_json::from_str(&ended.stdout).context("the record of ours")?;
        let case = record
            .cases
            .first()
            .context("the record of ours has no case")?;
        if case.ops != self.ops {
            bail!(
                "ours performed {} operations instead of {}",
                case.ops,
                self.ops
            );
        }
        Ok(self.sample(case.throughput_ops_per_s, ended.cpu))
    }

    /// Checks that every GET found its key, and that their number is as requested.
    fn check_hits(&self, name: &str, (hits, misses): (u64, u64)) -> anyhow::Result<()> {
        let Self {
            name: case, ops, ..
        } = self;
        if misses > 0 || hits < *ops {
            bail!(
                "{name} did not perform {case}: of {ops} GETs, redis-server counted {hits} hits and {misses} misses"
            );
        }
        Ok(())
    }

    fn sample(&self, ops_per_s: f64, cpu: std::time::Duration) -> Sample {
        Sample {
            ops_per_s,
            cpu_ns_per_op: cpu.as_nanos() as f64 / self.ops as f64,
        }
    }
}

impl Rival {
    fn name(self) -> &'static str {
        match self {
            Self::RedisBenchmark => "redis-benchmark",
            Self::ValkeyBenchmark => "valkey-benchmark",
            Self::Memtier => "memtier_benchmark",
            Self::RespBenchmark => "resp-benchmark",
        }
    }

    fn is_there(self) -> bool {
        is_on_path(self.name())
    }

    /// resp-benchmark counts the CPUs available to it from 0, and does not support sockets in the file system.
    fn can(self, case: &Case) -> bool {
        self != Self::RespBenchmark || case.target != Target::RedisSocket
    }

    fn run(self, case: &Case, server: &Server) -> anyhow::Result<Sample> {
        let ended = run_pinned(&self.words(case, server))?;
        let ops_per_s = self
            .ops_per_s(&ended.stdout)
            .with_context(|| format!("{} printed no rate:\n{}", self.name(), ended.stdout))?;
        Ok(case.sample(ops_per_s, ended.cpu))
    }

    fn words(self, case: &Case, server: &Server) -> Vec<String> {
        let Case {
            connections,
            pipeline,
            ops,
            ..
        } = *case;
        let (port, program) = (server.address.port(), self.name());
        let socket = server
            .socket
            .as_ref()
            .filter(|_| case.target == Target::RedisSocket)
            .map(|socket| socket.display().to_string());
        match self {
            Self::RedisBenchmark | Self::ValkeyBenchmark => {
                let server = socket.map_or(format!("-p {port}"), |socket| format!("-s {socket}"));
                words(&format!(
                    "{program} {server} -c {connections} -P {pipeline} -n {ops} -r {KEYS} -d {VALUE_BYTES} -t get --csv"
                ))
            }
            Self::Memtier => {
                let server = socket.map_or(format!("-s 127.0.0.1 -p {port}"), |socket| {
                    format!("-S {socket}")
                });
                words(&format!(
                    "{program} {server} -c {connections} -t 1 --pipeline {pipeline} -n {} --ratio 0:1 -d {VALUE_BYTES} \
                     --key-minimum 1 --key-maximum {KEYS} --distinct-client-seed --hide-histogram",
                    ops / connections
                ))
            }
            Self::RespBenchmark => {
                let mut all = words(&format!(
                    "{program} -h 127.0.0.1 -p {port} -c {connections} -P {pipeline} -n {ops} --cores 0"
                ));
                all.push(format!("GET {{key uniform {KEYS}}}"));
                all
            }
        }
    }

    /// The rate in what the program printed.
    fn ops_per_s(self, printed: &str) -> Option<f64> {
        match self {
            Self::RedisBenchmark | Self::ValkeyBenchmark => {
                let line = printed.lines().find(|line| line.starts_with("\"GET\""))?;
                line.split(',').nth(1)?.trim_matches('"').parse().ok()
            }
            Self::Memtier => {
                let line = printed.lines().find(|line| line.starts_with("Totals"))?;
                line.split_ascii_whitespace().nth(1)?.parse().ok()
            }
            Self::RespBenchmark => {
                let (_, rest) = printed.rsplit_once("qps: ")?;
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                rest[..end].parse().ok()
            }
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_the_peers_print() {
        for (rival, printed, rate) in [
            (
                Rival::RedisBenchmark,
                "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"167785.23\",\"0.038\"\n",
                167_785.23,
            ),
            (
                Rival::Memtier,
                "Type         Ops/sec     Hits/sec\nGets      1146736.39         0.00\nTotals    1146736.40    0.00 \n",
                1_146_736.40,
            ),
            (
                Rival::RespBenchmark,
                "\u{1b}[Fqps: 288024(overall 288065), conn: 5\n\u{1b}[Fqps: 288065, conn: 10, cnt: 200000\n",
                288_065.0,
            ),
        ] {
            assert_eq!(rival.ops_per_s(printed), Some(rate));
            assert_eq!(rival.ops_per_s("Could not connect\n"), None);
        }
    }
}
