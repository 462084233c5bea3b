//! A cache over a Redis server and over a store, beside the bare transfer and redis-rs.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use loadline_cache::codec::{Bitcode, Flat, Raw, Rkyv};
use loadline_cache::{Cache, Tier};
use prost::Message;
use redis::Commands;

use super::{ROUNDS, middle};

/// Calls of one turn.
const CALLS: u32 = 200;
const TILES: usize = 100 * 100;
/// Bytes of a value of a multi-get.
const BLOB_BYTES: usize = 91_000;
/// What a floor costs to generate.
const RECOMPUTE: Duration = Duration::from_micros(500);

/// A floor, column by column.
#[derive(Clone, bitcode::Encode, bitcode::Decode, rkyv::Archive, rkyv::Serialize)]
struct Floor {
    kinds: Vec<u8>,
    heights: Vec<i16>,
    flags: Vec<u16>,
    items: Vec<u32>,
}

/// The same as a lean message: numbers of a column are packed.
#[derive(Clone, PartialEq, prost::Message)]
struct FloorMessage {
    #[prost(uint32, repeated, tag = "1")]
    kinds: Vec<u32>,
    #[prost(sint32, repeated, tag = "2")]
    heights: Vec<i32>,
    #[prost(uint32, repeated, tag = "3")]
    flags: Vec<u32>,
    #[prost(uint32, repeated, tag = "4")]
    items: Vec<u32>,
}

fn floor() -> (Floor, FloorMessage) {
    let random = |tile: usize| (tile as u32 + 1).wrapping_mul(0x9e37_79b9).rotate_left(9);
    let numbers = || (0..TILES).map(random);
    let floor = Floor {
        kinds: numbers().map(|number| (number % 12) as u8).collect(),
        heights: numbers()
            .map(|number| (number % 400) as i16 - 200)
            .collect(),
        flags: numbers().map(|number| number as u16).collect(),
        items: numbers()
            .map(|number| if number % 50 == 0 { number } else { 0 })
            .collect(),
    };
    let message = FloorMessage {
        kinds: floor.kinds.iter().copied().map(u32::from).collect(),
        heights: floor.heights.iter().copied().map(i32::from).collect(),
        flags: floor.flags.iter().copied().map(u32::from).collect(),
        items: floor.items.clone(),
    };
    (floor, message)
}

/// A redis-server of its own, ended with it.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", ""]);
        let process = command
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server does not start")?;
        let server = Self { process, port };
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

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
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
fn turns(calls: u32, arms: &mut [&mut dyn FnMut()]) -> Vec<f64> {
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

/// A connection that does nothing but the transfer.
struct Bare {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Bare {
    fn new(server: &Server, key: &str, reply_bytes: usize) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?;
        stream.set_nodelay(true)?;
        let header = format!("${reply_bytes}\r\n").len();
        Ok(Self {
            stream,
            request: format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).into_bytes(),
            reply: vec![0; header + reply_bytes + 2],
        })
    }

    fn get(&mut self) -> io::Result<&[u8]> {
        self.stream.write_all(&self.request)?;
        self.stream.read_exact(&mut self.reply)?;
        Ok(&self.reply)
    }
}

/// A hit in Redis beside the transfer of the same bytes and their decoding, and beside redis-rs with Protocol Buffers.
fn hits(server: &Server) -> anyhow::Result<()> {
    let (value, message) = floor();
    let tier = Tier::open(&server.url())
        .prefix("floor:")
        .timeout(Duration::from_secs(5));
    let flat = flat_floors(server, &value)?;
    let load = move |_: &u32| Ok::<_, io::Error>(Some(value.clone()));
    // Memory has no room, so every call goes to Redis.
    let cache = Cache::<u32, Floor>::builder().memory(0, |_, _| 1);
    let cache = cache.tier(tier, Bitcode).build(load)?;
    cache.get(&1)?;
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let frame: Vec<u8> = client.get("floor:1")?;
    // The frame of the cache has a header of 44 bytes before what the codec wrote.
    let (header, body) = (44, frame.len() - 44);
    let mut bare = Bare::new(server, "floor:1", frame.len())?;
    let _: () = client.set("lean", message.encode_to_vec())?;
    let times = turns(
        CALLS,
        &mut [
            &mut || drop(black_box(cache.get(&1).expect("loads do not fail"))),
            &mut || {
                let reply = bare.get().expect("the server answers");
                let end = reply.len() - 2;
                let value: Floor =
                    bitcode::decode(&reply[end - body..end]).expect("it was encoded");
                black_box(value);
            },
            &mut || {
                let bytes: Vec<u8> = client.get("lean").expect("the server answers");
                black_box(FloorMessage::decode(&bytes[..]).expect("it was encoded"));
            },
            &mut || drop(black_box(flat.get(&1).expect("loads do not fail"))),
        ],
    );
    let tier = cache.stats().tier.context("there is a tier")?;
    ensure!(tier.misses == 1, "the calls did not hit: {tier:?}");
    println!(
        "hit in Redis of {} bytes, us: ours {:.1}, transfer and decode {:.1} (ratio {:.2}, goal 1.25), redis-rs with lean \
         protobuf of {} bytes {:.1} (ratio {:.1}, goal 5)",
        header + body,
        times[0],
        times[1],
        times[0] / times[1],
        message.encoded_len(),
        times[2],
        times[2] / times[0]
    );
    println!(
        "the same with values that are read in place (rkyv): ours {:.1} us, redis-rs with lean protobuf {:.1} times as long (goal 5)",
        times[3],
        times[2] / times[3]
    );
    Ok(())
}

/// A cache of floors that are read in place. The first is in Redis.
fn flat_floors(server: &Server, floor: &Floor) -> anyhow::Result<Cache<u32, Flat<Floor>>> {
    let flat = Flat::new(floor).map_err(|why| anyhow::anyhow!(why))?;
    let tier = Tier::open(&server.url()).prefix("flat:");
    let cache = Cache::<u32, Flat<Floor>>::builder().memory(0, |_, _| 1);
    let cache = cache
        .tier(tier.timeout(Duration::from_secs(5)), Rkyv)
        .build(move |_| Ok::<_, io::Error>(Some(flat.clone())))?;
    cache.get(&1)?;
    Ok(cache)
}

/// Several large values at once: what each of them costs.
fn batches(server: &Server) -> anyhow::Result<()> {
    let tier = Tier::open(&server.url())
        .prefix("blob:")
        .timeout(Duration::from_secs(5));
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
    let mut peer = |count: usize| -> Vec<Vec<u8>> {
        client.mget(&names[..count]).expect("the server answers")
    };
    let peer = std::cell::RefCell::new(&mut peer);
    let times = turns(
        10,
        &mut [
            &mut || drop(black_box(cache.get_many(&keys[..10]))),
            &mut || drop(black_box(cache.get_many(&keys))),
            &mut || drop(black_box((peer.borrow_mut())(10))),
            &mut || drop(black_box((peer.borrow_mut())(50))),
        ],
    );
    let each = [
        times[0] / 10.0,
        times[1] / 50.0,
        times[2] / 10.0,
        times[3] / 50.0,
    ];
    println!(
        "values of {BLOB_BYTES} bytes, us each: ours {:.1} in a multi-get of 10 and {:.1} of 50 (ratio {:.2}, goal 1), redis-rs \
         {:.1} and {:.1} (ratio {:.2})",
        each[0],
        each[1],
        each[1] / each[0],
        each[2],
        each[3],
        each[3] / each[2]
    );
    Ok(())
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

/// From the beginning of a process to its first hit in a store.
fn reopening(store: &str) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let url = format!("{store}:{}", directory.path().display());
    let (value, _) = floor();
    let build = || {
        let value = value.clone();
        let tier = Tier::open(&url).timeout(Duration::from_secs(5));
        let cache = Cache::<u32, Floor>::builder().tier(tier, Bitcode);
        cache.build(move |_| Ok::<_, io::Error>(Some(value.clone())))
    };
    (0..50).try_for_each(|key| build_and_get(&build, key).map(drop))?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(build_and_get(&build, 1)? * 1e3);
    }
    println!(
        "reopening {store} with 50 floors to the first hit: {:.2} ms (goal 0.3)",
        middle(&times)
    );
    Ok(())
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
                return Ok(begun.elapsed().as_secs_f64());
            }
            // The threads of the cache before hold the directory a moment longer.
            Err(error) if tries.elapsed() > Duration::from_secs(10) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Measures the parts that are wanted.
pub(crate) fn run(wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    if wanted("hits") {
        hits(&Server::start()?)?;
    }
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
        reopening("store")?;
        reopening("heed")?;
    }
    Ok(())
}
