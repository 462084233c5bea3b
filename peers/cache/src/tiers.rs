//! A cache over a Redis server and over a store: multi-gets beside redis-rs, a frozen server, and a store that is opened
//! again.

use std::hint::black_box;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use loadline_cache::codec::{Bitcode, Raw};
use loadline_cache::{Cache, Tier};
use redis::Commands;

use super::object::{Floor, SIDE};
use super::{ROUNDS, middle};

/// Bytes of a value of a multi-get.
const BLOB_BYTES: usize = 91_000;
/// Floors in a store that is opened again.
const FLOORS: u32 = 50;
/// Cost of generating a floor.
const RECOMPUTE: Duration = Duration::from_micros(500);

/// A redis-server of its own, ended with it.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    /// Holds its socket.
    directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", ""]);
        let directory = tempfile::tempdir()?;
        command.arg("--unixsocket").arg(directory.path().join("s"));
        let process = command
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server does not start")?;
        let server = Self {
            process,
            port,
            directory,
        };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(
                begun.elapsed() < Duration::from_secs(20),
                "redis-server does not come up"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn unix_url(&self) -> String {
        format!("unix://{}/s", self.directory.path().display())
    }

    fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status()?;
        ensure!(status.success(), "kill {signal} failed");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The median time of a call of each arm, in microseconds. The arms take turns.
pub(crate) fn turns(calls: u32, arms: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut times = vec![Vec::new(); arms.len()];
    for round in 0..ROUNDS {
        for turn in 0..arms.len() {
            let arm = (turn + round) % arms.len();
            let begun = Instant::now();
            (0..calls).for_each(|_| arms[arm]());
            times[arm].push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
        }
    }
    times.iter().map(|times| middle(times)).collect()
}

/// A tier that waits longer than a busy machine pauses.
pub(crate) fn patient(tier: Tier) -> Tier {
    tier.timeout(Duration::from_secs(5))
}

/// Several large values at once: what each of them costs.
fn batches(server: &Server) -> anyhow::Result<()> {
    let tier = patient(Tier::open(&server.url()).prefix("blob:"));
    let cache = Cache::<u32, Vec<u8>>::builder().memory(0, |_, _| 1);
    let load = |key: &u32| Ok::<_, io::Error>(Some(vec![*key as u8; BLOB_BYTES]));
    let cache = cache.tier(tier, Raw).build(load)?;
    let keys: Vec<u32> = (0..50).collect();
    ensure!(
        cache.get_many(&keys).iter().all(Result::is_ok),
        "a load failed"
    );
    let names: Vec<String> = keys.iter().map(|key| format!("blob:{key}")).collect();
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let mut peer =
        |names: &[String]| -> Vec<Vec<u8>> { client.mget(names).expect("the server answers") };
    let peer = std::cell::RefCell::new(&mut peer);
    // Tens of the same fifty, in turns: what differs from fifty at once is the size of the batch, and not how many values the
    // caches of the processor have to hold on the server's side.
    let (ours, others) = (Tens::default(), Tens::default());
    let times = turns(
        10,
        &mut [
            &mut || drop(black_box(cache.get_many(&keys[..10]))),
            &mut || drop(black_box(cache.get_many(&keys[ours.next()]))),
            &mut || drop(black_box(cache.get_many(&keys))),
            &mut || drop(black_box((peer.borrow_mut())(&names[..10]))),
            &mut || drop(black_box((peer.borrow_mut())(&names[others.next()]))),
            &mut || drop(black_box((peer.borrow_mut())(&names))),
        ],
    );
    println!(
        "values of {BLOB_BYTES} bytes, us each     the same 10  10 of 50    50  50 against the same 10, against 10 of 50 (goal 1)"
    );
    for (name, times) in [("get_many", &times[..3]), ("redis-rs, MGET", &times[3..])] {
        let each = [times[0] / 10.0, times[1] / 10.0, times[2] / 50.0];
        println!(
            "{name:<33} {:>11.1} {:>9.1} {:>5.1}  {:.2}, {:.2}",
            each[0],
            each[1],
            each[2],
            each[2] / each[0],
            each[2] / each[1]
        );
    }
    Ok(())
}

/// Ten keys of fifty, and other ten each time.
#[derive(Default)]
struct Tens(std::cell::Cell<usize>);

impl Tens {
    fn next(&self) -> std::ops::Range<usize> {
        let begin = self.0.get();
        self.0.set((begin + 10) % 50);
        begin..begin + 10
    }
}

fn recompute() {
    let begun = Instant::now();
    while begun.elapsed() < RECOMPUTE {
        std::hint::spin_loop();
    }
}

/// A server that is frozen under load. `limit`: what bounds the reads of the tier.
fn frozen(limit: &str, limited: impl Fn(Tier) -> Tier) -> anyhow::Result<()> {
    let mut firsts = Vec::new();
    let (mut opens, mut recoveries, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let server = Server::start()?;
        let tier = limited(Tier::open(&server.url()));
        let cache = Cache::<u32, Vec<u8>>::builder()
            .tier(tier, Raw)
            .build(|_| {
                recompute();
                Ok::<_, io::Error>(Some(vec![7; 1_000]))
            })?;
        let timed = |key: u32| -> anyhow::Result<f64> {
            let begun = Instant::now();
            cache.get(&key)?;
            Ok(begun.elapsed().as_secs_f64() / RECOMPUTE.as_secs_f64())
        };
        (0..50).try_for_each(|key| timed(key).map(drop))?;
        server.signal("-STOP")?;
        firsts.push(timed(1_000)?);
        let is_open = || cache.stats().tier.is_some_and(|tier| tier.is_open);
        let mut key = 1_000;
        while !is_open() {
            key += 1;
            timed(key)?;
        }
        for _ in 0..100 {
            key += 1;
            opens.push(timed(key)?);
        }
        let asked = || {
            let tier = cache.stats().tier;
            tier.map_or(0, |tier| tier.gets.count + tier.puts.count)
        };
        server.signal("-CONT")?;
        let (begun, before) = (Instant::now(), asked());
        while is_open() {
            key += 1;
            timed(key)?;
        }
        let after = asked();
        recoveries.push(begun.elapsed().as_secs_f64() * 1e3);
        requests.push((after - before) as f64);
    }
    println!(
        "frozen server, {limit}, in times of a load of {RECOMPUTE:?}: first miss {:.2} (goal 2), with the breaker open {:.2} (goal 1.05); \
         recovery after {:.0} ms and {:.0} requests",
        middle(&firsts),
        middle(&opens),
        middle(&recoveries),
        middle(&requests)
    );
    Ok(())
}

/// From the opening of a cache to its first hit in a store that another one has filled.
///
/// `is_settled`: the one that filled the store was open until its thread in the background had nothing left to do, as that of
/// an application is. Otherwise it ends at once, like a process that is killed.
fn reopening(store: &str, is_settled: bool) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let url = format!("{store}:{}", directory.path().display());
    let value = Floor::generate(SIDE, SIDE, 7);
    let build = || {
        let value = value.clone();
        let cache = Cache::<u32, Floor>::builder_weighed(64 << 20, |_, floor| floor.bytes())
            .tier(patient(Tier::open(&url)), Bitcode);
        cache.build(move |_| Ok::<_, io::Error>(Some(value.clone())))
    };
    let filled = build()?;
    (0..FLOORS).try_for_each(|key| filled.get(&key).map(drop))?;
    if is_settled {
        settled(directory.path())?;
    }
    drop(filled);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(build_and_get(&build, 1)? * 1e3);
    }
    let how = match is_settled {
        true => "",
        false => " that was closed in the midst of its writes",
    };
    println!(
        "reopening {store}{how} with {FLOORS} floors to the first hit: {:.2} ms (goal 0.3)",
        middle(&times)
    );
    Ok(())
}

/// Waits until no file of a directory has changed for two seconds.
fn settled(directory: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let mut newest = Duration::MAX;
        for entry in std::fs::read_dir(directory)? {
            let changed = entry?.metadata()?.modified()?;
            newest = newest.min(changed.elapsed().unwrap_or_default());
        }
        if newest > Duration::from_secs(2) {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "the store does not come to rest"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Seconds until the first value is there.
fn build_and_get(
    build: &dyn Fn() -> Result<Cache<u32, Floor>, loadline_cache::Error>,
    key: u32,
) -> anyhow::Result<f64> {
    let tries = Instant::now();
    loop {
        let begun = Instant::now();
        match build() {
            Ok(cache) => {
                cache.get(&key)?;
                let elapsed = begun.elapsed().as_secs_f64();
                let tier = cache.stats().tier;
                ensure!(
                    tier.is_some_and(|tier| tier.hits == 1),
                    "the store has lost a value"
                );
                return Ok(elapsed);
            }
            // The threads of the cache before hold the directory a moment longer.
            Err(error) if tries.elapsed() > Duration::from_secs(10) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Measures the parts that are wanted.
pub(crate) fn run(wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    if wanted("batches") {
        batches(&Server::start()?)?;
    }
    if wanted("frozen") {
        frozen("timeout of a load", |tier| tier.timeout(RECOMPUTE))?;
        frozen(
            "hedged at the 99th percentile, timeout of 100 ms",
            Tier::hedge,
        )?;
    }
    if wanted("reopen") {
        reopening("store", true)?;
        reopening("store", false)?;
        reopening("heed", true)?;
    }
    Ok(())
}
