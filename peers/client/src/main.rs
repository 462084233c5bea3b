//! `client-peers URL [--case NAME] [--arm NAME] [--rounds N] [--ops N] [--hiredis PROGRAM] [--server PID]`:
//! measures loadline-client and its peers in blocks that take turns in random order, and prints a line of
//! JSON per block: case, arm, round, operations per second, CPU time and allocations per operation, and
//! how much of a CPU the server took where its process is named. An arm that fails is printed with its error, and
//! is left out of the other rounds.
//!
//! With the URL `cluster://HOST:PORT,...` it runs the cases of clusters, else those of a server.
//!
//! Every arm does the same: GET and SET of 64-byte strings under 1,000 keys that are there, values
//! owned by the caller but for the case `get-lent-100`. It runs on the CPUs that it was
//! given; who calls it pins it.

mod arms;

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, bail};
use nix::time::{ClockId, clock_gettime};

use arms::{Arm, Work};

#[cfg(feature = "allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Keys that are asked for.
pub const KEYS: usize = 1_000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 64;

/// A case: its name, what an arm does in it, and how many operations make a block.
const CASES: [(&str, Work, u64); 15] = [
    (
        "get",
        Work::Single {
            set: false,
            spin: false,
        },
        5_000,
    ),
    (
        "set",
        Work::Single {
            set: true,
            spin: false,
        },
        5_000,
    ),
    (
        "get-spin",
        Work::Single {
            set: false,
            spin: true,
        },
        8_000,
    ),
    (
        "get-pipeline-10",
        Work::Pipeline {
            set: false,
            size: 10,
        },
        40_000,
    ),
    (
        "set-pipeline-10",
        Work::Pipeline {
            set: true,
            size: 10,
        },
        40_000,
    ),
    (
        "get-pipeline-100",
        Work::Pipeline {
            set: false,
            size: 100,
        },
        300_000,
    ),
    ("get-lent-100", Work::Lent { size: 100 }, 300_000),
    (
        "set-pipeline-100",
        Work::Pipeline {
            set: true,
            size: 100,
        },
        300_000,
    ),
    (
        "tasks-1",
        Work::Tasks {
            tasks: 1,
            multi_thread: false,
        },
        5_000,
    ),
    (
        "tasks-64",
        Work::Tasks {
            tasks: 64,
            multi_thread: false,
        },
        200_000,
    ),
    (
        "tasks-512",
        Work::Tasks {
            tasks: 512,
            multi_thread: false,
        },
        400_000,
    ),
    (
        "tasks-512-multi",
        Work::Tasks {
            tasks: 512,
            multi_thread: true,
        },
        400_000,
    ),
    (
        "cluster-tasks-64",
        Work::Tasks {
            tasks: 64,
            multi_thread: false,
        },
        100_000,
    ),
    (
        "cluster-tasks-512",
        Work::Tasks {
            tasks: 512,
            multi_thread: false,
        },
        200_000,
    ),
    (
        "cluster-pipeline-100",
        Work::Pipeline {
            set: false,
            size: 100,
        },
        100_000,
    ),
];

struct Asked {
    url: String,
    case: Option<String>,
    arm: Option<String>,
    rounds: u64,
    ops: Option<u64>,
    hiredis: Option<String>,
    server: Option<u32>,
}

fn main() -> anyhow::Result<()> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    let (hiredis, only) = (asked.hiredis.as_deref(), asked.arm.as_deref());
    let (mut arms, unconnected) = arms::all(&asked.url, hiredis, only)?;
    let mut order = Order(0x9E37_79B9_7F4A_7C15);
    let on_cluster = asked.url.starts_with("cluster://");
    for (case, work, ops) in CASES {
        if case.starts_with("cluster-") != on_cluster {
            continue;
        }
        if asked.case.as_deref().is_some_and(|name| name != case) {
            continue;
        }
        let ops = asked.ops.unwrap_or(ops);
        for (name, error) in &unconnected {
            print_failure(case, name, error)?;
        }
        let mut failed = Vec::new();
        for round in 0..asked.rounds {
            order.shuffle(&mut arms);
            for arm in &mut arms {
                if failed.contains(&arm.name()) {
                    continue;
                }
                match block(arm.as_mut(), work, ops, asked.server) {
                    Ok(Some(block)) => print(case, arm.name(), round, &block)?,
                    Ok(None) => {}
                    Err(error) if only.is_some() => return Err(error),
                    Err(error) => {
                        print_failure(case, arm.name(), &error)?;
                        failed.push(arm.name());
                    }
                }
            }
        }
    }
    Ok(())
}

struct Block {
    ops_per_s: f64,
    cpu_ns_per_op: f64,
    allocations_per_op: Option<f64>,
    server_cpu_share: Option<f64>,
}

/// Runs one block; `None` where the arm has no such kind of call.
fn block(
    arm: &mut dyn Arm,
    work: Work,
    ops: u64,
    server: Option<u32>,
) -> anyhow::Result<Option<Block>> {
    let server_cpu = server.map(process_cpu_ns).transpose()?;
    let (cpu, allocations, start) = (cpu_ns()?, allocations(), Instant::now());
    let Some(outside_cpu_ns) = arm.run(work, ops)? else {
        return Ok(None);
    };
    let seconds = start.elapsed().as_secs_f64();
    let allocations = self::allocations().zip(allocations);
    let server_cpu = server.map(process_cpu_ns).transpose()?.zip(server_cpu);
    Ok(Some(Block {
        ops_per_s: ops as f64 / seconds,
        cpu_ns_per_op: (cpu_ns()? - cpu + outside_cpu_ns) as f64 / ops as f64,
        // Allocations of another program cannot be counted here.
        allocations_per_op: allocations
            .filter(|_| outside_cpu_ns == 0)
            .map(|(after, before)| (after - before) as f64 / ops as f64),
        server_cpu_share: server_cpu
            .map(|(after, before)| after.saturating_sub(before) as f64 / 1e9 / seconds),
    }))
}

fn print(case: &str, arm: &str, round: u64, block: &Block) -> anyhow::Result<()> {
    let line = serde_json::json!({
        "case": case, "arm": arm, "round": round, "ops_per_s": block.ops_per_s,
        "cpu_ns_per_op": block.cpu_ns_per_op, "allocations_per_op": block.allocations_per_op,
        "server_cpu_share": block.server_cpu_share,
    });
    writeln!(std::io::stdout(), "{line}").context("standard output is closed")
}

fn print_failure(case: &str, arm: &str, error: &anyhow::Error) -> anyhow::Result<()> {
    let line = serde_json::json!({ "case": case, "arm": arm, "error": format!("{error:#}") });
    writeln!(std::io::stdout(), "{line}").context("standard output is closed")
}

/// CPU time of this process.
fn cpu_ns() -> anyhow::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).context("the CPU time")?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// CPU time of all threads of another process that run.
fn process_cpu_ns(process: u32) -> anyhow::Result<u64> {
    let tasks = format!("/proc/{process}/task");
    let mut sum = 0;
    for task in std::fs::read_dir(&tasks).with_context(|| format!("{tasks} could not be read"))? {
        // A thread may end between the two looks.
        let Ok(stat) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let ns = stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
        sum += ns.with_context(|| format!("{tasks}: a schedstat says `{}`", stat.trim()))?;
    }
    Ok(sum)
}

/// Allocations since the start, where they are counted.
#[cfg(feature = "allocations")]
fn allocations() -> Option<u64> {
    let stats = ALLOCATOR.stats();
    Some((stats.allocations + stats.reallocations) as u64)
}

#[cfg(not(feature = "allocations"))]
fn allocations() -> Option<u64> {
    None
}

/// Enough of a random order for blocks (xorshift64, Marsaglia 2003).
struct Order(u64);

impl Order {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            items.swap(last, (self.0 % (last as u64 + 1)) as usize);
        }
    }
}

impl Asked {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut asked = Self {
            url: words.next().context("the URL of a server is missing")?,
            case: None,
            arm: None,
            rounds: 1,
            ops: None,
            hiredis: None,
            server: None,
        };
        while let Some(flag) = words.next() {
            let value = words
                .next()
                .with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--case" => asked.case = Some(value),
                "--arm" => asked.arm = Some(value),
                "--rounds" => asked.rounds = value.parse().context("--rounds")?,
                "--ops" => asked.ops = Some(value.parse().context("--ops")?),
                "--hiredis" => asked.hiredis = Some(value),
                "--server" => asked.server = Some(value.parse().context("--server")?),
                other => bail!("there is no flag {other}"),
            }
        }
        Ok(asked)
    }
}
