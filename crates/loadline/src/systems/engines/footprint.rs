//! The footprint of an engine, measured in child processes: one is filled and killed, others open its files again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use loadline_cache::{Error, KeyValue, connect};
use loadline_client::Tls;
use loadline_load::values::ValueSize;
use loadline_measure::engines::{Allocations, Footprint};
use loadline_measure::quantile::median;
use loadline_resp::Protocol;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tempfile::TempDir;

use super::{Contents, directory, fault};
use crate::exit::{Exit, Failure};
use crate::spelling::{Choice, Durability, Engine};
use crate::systems::client::client;
use crate::systems::servers::{self, Storage, own_child};
use crate::units::{bytes_text, duration_text, value_size_text};

/// Number of times that an engine is opened again.
const OPENS: usize = 3;
/// Time limit for one step of a child.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval at which the interrupt is checked meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Operations whose allocations are counted, and the number of keys meanwhile.
const COUNTED_OPS: u64 = 1_000;
/// Higher for reads, because they are cheap, and filling a hash table with random seeds varies by some 100
/// allocations.
const COUNTED_READS: u64 = 20_000;
const COUNTED_KEYS: u64 = 2_000;
/// The directory of Linux whose files are in memory.
const MEMORY: &str = "/dev/shm";
/// The largest values that are kept there, of which there are up to [`COUNTED_KEYS`].
const LARGEST_IN_MEMORY: u64 = 4 << 10;
/// The library of glibc that counts the allocations of a process.
const COUNTER: &str = "libmemusage.so";

/// A child's answer about an engine that it has filled.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Filled {
    pub(crate) live_bytes: u64,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) written_bytes: Option<u64>,
}

/// A child's answer about an engine that it has opened again.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Reopened {
    pub(crate) open_ns: u64,
    pub(crate) lost: u64,
}

/// The data of an engine.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub(crate) keys: u64,
    pub(crate) value_size: ValueSize,
    pub(crate) seed: u64,
}

/// Measures `engine` with `data`. Returns `None` for a server behind a Unix socket, because it is the same as over
/// TCP, and for the null server. Must be called on the main thread, because child processes are started.
///
/// # Errors
/// If a child cannot be started or fails, or if `interrupt` was set meanwhile.
pub(crate) fn measure(
    engine: &Engine,
    data: &Data,
    interrupt: &AtomicBool,
) -> Result<Option<Footprint>, Failure> {
    match &engine.choice {
        Choice::Embedded(..) => {}
        Choice::Null | Choice::Spawned { socket: true, .. } => return Ok(None),
        Choice::Spawned { program, .. } => {
            let storage = Storage {
                durability: engine.durability,
                dir: engine.dir.as_deref(),
                socket: false,
                has_disk: false,
            };
            let name = engine.to_string();
            let child = servers::Child::spawn_storing(&name, program, storage, interrupt)?;
            return server(engine, data, child, interrupt).map(Some);
        }
        Choice::Served => {
            let storage = Storage {
                durability: engine.durability,
                dir: engine.dir.as_deref(),
                socket: false,
                has_disk: false,
            };
            let child = servers::Child::embedded_storing(storage, interrupt)?;
            return server(engine, data, child, interrupt).map(Some);
        }
    }
    let dir = directory(engine)?;
    let is_durable = engine.durability != Durability::Memory;
    let path = dir.as_ref().map_or(Path::new("."), |dir| dir.path());
    let steps = Steps {
        engine,
        data,
        dir: path,
        interrupt,
    };
    let filled = Killed(steps.start("fill", data.keys, 0, false)?).answer::<Filled>(&steps)?;
    let mut footprint = Footprint {
        subject: engine.to_string(),
        durability: engine.durability.to_string(),
        keys: data.keys,
        live_bytes: filled.live_bytes,
        // Every key was written twice.
        logical_bytes: 2 * filled.live_bytes,
        memory_bytes: filled.memory_bytes,
        ..Footprint::default()
    };
    if is_durable {
        footprint.disk_bytes = Some(allocated_bytes(path));
        // Writes to a file system in memory are not counted.
        footprint.written_bytes = filled.written_bytes.filter(|bytes| *bytes > 0);
        let mut opens = Vec::new();
        for _ in 0..OPENS {
            let open = Killed(steps.start("open", data.keys, 0, false)?);
            opens.push(open.answer::<Reopened>(&steps)?);
        }
        let times: Vec<f64> = opens.iter().map(|open| open.open_ns as f64).collect();
        footprint.open_ns = median(&times).map(|ns| ns as u64);
        footprint.opens = opens.len() as u64;
        footprint.lost = opens.first().map(|open| open.lost);
    }
    drop(dir);
    footprint.allocations = allocations(engine, data, interrupt)?;
    Ok(Some(footprint))
}

/// Measures a server that was started for this purpose: it is filled over a connection, killed, and started again
/// on its files.
fn server(
    engine: &Engine,
    data: &Data,
    mut child: servers::Child,
    interrupt: &AtomicBool,
) -> Result<Footprint, Failure> {
    let failed = |error: Error| fault(&engine.choice, &error);
    let contents = Contents::new(data.keys, data.value_size.clone(), data.seed)
        .map_err(|error| fault(&engine.choice, &*error))?;
    let process = child.pid().to_string();
    let before = (resident_bytes(&process), written_bytes(&process));
    let mut store = connected(&child).map_err(failed)?;
    let live_bytes = contents
        .write_twice(&*store, engine.ttl())
        .map_err(failed)?;
    let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    let mut footprint = Footprint {
        subject: engine.to_string(),
        durability: engine.durability.to_string(),
        keys: data.keys,
        live_bytes,
        logical_bytes: 2 * live_bytes,
        memory_bytes: grown(resident_bytes(&process), before.0),
        ..Footprint::default()
    };
    if engine.durability == Durability::Memory {
        return Ok(footprint);
    }
    footprint.disk_bytes = child.dir().map(allocated_bytes);
    let written = grown(written_bytes(&process), before.1);
    footprint.written_bytes = written.filter(|bytes| *bytes > 0);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    contents.pair(0, &mut key, &mut value);
    let mut times = Vec::new();
    for _ in 0..OPENS {
        drop(store);
        let begun = Instant::now();
        child.restart(interrupt)?;
        store = connected(&child).map_err(failed)?;
        value.clear();
        store.get_into(&key, &mut value).map_err(failed)?;
        times.push(begun.elapsed().as_nanos() as f64);
    }
    footprint.open_ns = median(&times).map(|ns| ns as u64);
    footprint.opens = times.len() as u64;
    footprint.lost = Some(contents.missing(&*store).map_err(failed)?);
    Ok(footprint)
}

fn connected(child: &servers::Child) -> Result<Box<dyn KeyValue>, Error> {
    let server = child.server();
    let client = client(&server, &server.address, &Tls::default(), Protocol::Resp3);
    connect(client)
}

/// Resident memory of a process, by its id or `self`.
pub(crate) fn resident_bytes(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes that a process has caused to be written to storage, if the kernel reports them.
pub(crate) fn written_bytes(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

/// Allocations per operation. They do not depend on the disk, which takes milliseconds for each of 2,000 synced writes, so
/// they are counted on files in memory where possible. Returns `None` if they cannot be counted here.
fn allocations(
    engine: &Engine,
    data: &Data,
    interrupt: &AtomicBool,
) -> Result<Option<Allocations>, Failure> {
    // Logs and rewrites of an engine can take several times the data.
    let is_small = data.value_size.max() <= LARGEST_IN_MEMORY;
    if engine.durability != Durability::Memory && is_small {
        let in_memory = || {
            let dir = tempfile::Builder::new()
                .prefix("loadline-")
                .tempdir_in(MEMORY);
            dir.map(Some)
                .map_err(|error| Failure::unavailable(format!("{MEMORY}: {error}")))
        };
        // A file system in memory can be missing or too small.
        if let Ok(Some(counted)) = allocations_in(engine, data, interrupt, in_memory) {
            return Ok(Some(counted));
        }
    }
    allocations_in(engine, data, interrupt, || directory(engine))
}

/// The difference between a run with operations and one without, each in a directory of its own.
fn allocations_in(
    engine: &Engine,
    data: &Data,
    interrupt: &AtomicBool,
    directory: impl Fn() -> Result<Option<TempDir>, Failure>,
) -> Result<Option<Allocations>, Failure> {
    let count = |step: &str, ops: u64| -> Result<Option<u64>, Failure> {
        let dir = directory()?;
        let steps = Steps {
            engine,
            data,
            dir: dir.as_ref().map_or(Path::new("."), |dir| dir.path()),
            interrupt,
        };
        let child = steps.start(step, COUNTED_KEYS, ops, true)?;
        let output = child.wait_with_output();
        Ok(output.ok().and_then(|output| {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.success().then(|| allocated(&text)).flatten()
        }))
    };
    let Some(none) = count("get", 0)? else {
        return Ok(None);
    };
    let mut each = Vec::new();
    for (step, ops) in [
        ("get", COUNTED_READS),
        ("put", COUNTED_OPS),
        ("delete", COUNTED_OPS),
    ] {
        let Some(counted) = count(step, ops)? else {
            return Ok(None);
        };
        each.push(counted.saturating_sub(none) as f64 / ops as f64);
    }
    Ok(Some(Allocations {
        get: each[0],
        put: each[1],
        delete: each[2],
    }))
}

/// The calls that the counting library reports, all functions together.
fn allocated(report: &str) -> Option<u64> {
    let calls = |name: &str| -> Option<u64> {
        let (_, rest) = report.split_once(name)?;
        // There are colour codes between the bar and the number.
        let rest = rest.split_once('m').map_or(rest, |(_, rest)| rest);
        rest.split_ascii_whitespace().next()?.parse().ok()
    };
    let (malloc, calloc) = (calls(" malloc|")?, calls(" calloc|")?);
    Some(malloc + calloc + calls("realloc|")?)
}

struct Steps<'s> {
    engine: &'s Engine,
    data: &'s Data,
    dir: &'s Path,
    interrupt: &'s AtomicBool,
}

impl Steps<'_> {
    fn start(&self, step: &str, keys: u64, ops: u64, counted: bool) -> Result<Child, Failure> {
        let Choice::Embedded(kind, _) = self.engine.choice else {
            return Err(Failure::usage(format!("{} is a server.", self.engine)));
        };
        let mut command = own_child(&["__engine", "--engine", kind.name(), "--step", step])?;
        command
            .args(["--durability", &self.engine.durability.to_string()])
            .arg("--dir")
            .arg(self.dir)
            .args(["--keys", &keys.to_string(), "--ops", &ops.to_string()])
            .args(["--value-size", &value_size_text(&self.data.value_size)])
            .args(["--seed", &self.data.seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cache) = self.engine.cache {
            command
                .args(["--max-keys", &cache.keys.to_string()])
                .args(["--ttl", &duration_text(cache.ttl)]);
        }
        if let Some(bytes) = self.engine.memory_bytes {
            command.args(["--memory", &bytes_text(bytes)]);
        }
        if counted {
            command.env("LD_PRELOAD", COUNTER).stdin(Stdio::null());
        }
        command.spawn().map_err(|error| {
            Failure::unavailable(format!(
                "{}: cannot start a child process: {error}.",
                self.engine
            ))
        })
    }
}

/// A child that is killed after its answer.
struct Killed(Child);

impl Killed {
    /// Returns the line that the child prints, and kills it.
    fn answer<T: DeserializeOwned + Send>(mut self, steps: &Steps<'_>) -> Result<T, Failure> {
        let stdout = self.0.stdout.take().expect("its output is a pipe");
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // Fails after an interrupt, when the receiver is dropped.
            let _ = sender.send(read.map(|_| line));
        });
        let deadline = Instant::now() + PATIENCE;
        let line = loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok(line) => break line.unwrap_or_default(),
                Err(RecvTimeoutError::Timeout) if steps.interrupt.load(Ordering::Relaxed) => {
                    return Err(Failure::new(
                        Exit::Interrupted,
                        format!("{}: interrupted.", steps.engine),
                    ));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => break String::new(),
            }
        };
        serde_json::from_str(&line).map_err(|_| self.failure(steps))
    }

    /// The failure of a child that did not answer.
    fn failure(&mut self, steps: &Steps<'_>) -> Failure {
        let _ = self.0.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
        }
        let said = crate::printer::printable(text.lines().next().unwrap_or("it printed nothing"));
        Failure::unavailable(format!(
            "{} ({}): the process that measures its memory and disk failed: {said}",
            steps.engine, steps.engine.durability
        ))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // SIGKILL, so that the engine cannot write anything more. It fails only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Disk space of the files below `dir`; for a sparse file this is less than its length.
fn allocated_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_read_from_the_report_of_the_library() {
        let report = "\u{1b}[01;34mMemory usage summary:\u{1b}[0;0m heap total: 1200, heap peak: 9\n\
            \u{1b}[04;34m         total calls   total memory   failed calls\u{1b}[0m\n\
            \u{1b}[00;34m malloc|\u{1b}[0m         12           1200              0\n\
            \u{1b}[00;34mrealloc|\u{1b}[0m          3              0              0  (nomove:0, dec:0, free:0)\n\
            \u{1b}[00;34m calloc|\u{1b}[0m          1              8              0\n";
        assert_eq!(allocated(report), Some(16));
        assert_eq!(allocated("no such library"), None);
    }

    #[test]
    fn files_count_by_their_blocks() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/file"), vec![1; 10_000]).unwrap();
        let sparse = fs::File::create(dir.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let bytes = allocated_bytes(dir.path());
        assert!((10_000..1 << 20).contains(&bytes), "{bytes}");
    }
}
