//! Time until a value is gone from memory after another process has written its key, beside the bare notice of the
//! server: a thread that reads a socket with `CLIENT TRACKING`.
//!
//! Keys of two prefixes are written in turns. The notices of one go to the cache alone, those of the other one to the bare
//! socket alone, so that neither waits for the other.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use loadline_cache::codec::{Codec, CodecError};
use loadline_cache::{Cache, Tier, WriteMode};
use redis::Commands;

use super::tiers::{Server, patient};
use super::{ROUNDS, middle};

/// Writes of each prefix in a round.
const WRITES: u32 = 1_000;
/// Longer than a notice takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A value that sends the moment at which memory drops it.
struct Page(Sender<Instant>);

impl Drop for Page {
    fn drop(&mut self) {
        // The measurement may be over.
        let _ = self.0.send(Instant::now());
    }
}

/// Pages are loaded only.
struct NoBytes;

impl Codec<Page> for NoBytes {
    fn id(&self) -> u8 {
        201
    }

    fn encode(&self, _: &Page, _: &mut Vec<u8>) -> Result<(), CodecError> {
        Err("a page has no bytes".into())
    }

    fn decode(&self, _: &[u8]) -> Result<Page, CodecError> {
        Err("a page has no bytes".into())
    }
}

/// A cache of the keys that begin with `c:`, and the moments at which it drops values.
fn tracked(server: &Server) -> anyhow::Result<(Cache<u32, Page>, Receiver<Instant>)> {
    let (drops, dropped) = channel();
    let tier = patient(Tier::open(&server.url()).prefix("c:"));
    let tier = tier.mode(WriteMode::ReadOnly).tracked();
    let load = move |_: &u32| Ok::<_, io::Error>(Some(Page(drops.clone())));
    let pages = Cache::<u32, Page>::builder_weighed(1 << 20, |_, _| 16)
        .tier(tier, NoBytes)
        .build(load)?;
    let begun = Instant::now();
    while !pages.stats().tier.is_some_and(|tier| tier.is_tracking) {
        ensure!(begun.elapsed() < LIMIT, "changes are not reported");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((pages, dropped))
}

/// The moments at which a bare socket has a notice of a key that begins with `r:`, and the socket.
fn bare(server: &Server) -> anyhow::Result<(TcpStream, Receiver<Instant>)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?;
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    stream.write_all(b"HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX r:\r\n")?;
    let mut line = Vec::new();
    while line != b"+OK\r\n" {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)?;
        ensure!(read > 0, "the server refuses to report changes");
    }
    let (moments, received) = channel();
    std::thread::spawn(move || {
        loop {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                Ok(read) if read > 0 => {}
                _ => return,
            }
            if line.starts_with(b"r:") && moments.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    Ok((stream, received))
}

/// The 99th percentile.
fn slow(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

pub(crate) fn run() -> anyhow::Result<()> {
    let server = Server::start()?;
    let (pages, dropped) = tracked(&server)?;
    let (stream, received) = bare(&server)?;
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let mut seen = |key: String, moments: &Receiver<Instant>| -> anyhow::Result<f64> {
        let begun = Instant::now();
        let _: () = client.set(&key, "value")?;
        let moment = moments.recv_timeout(LIMIT).context("a notice is lost")?;
        Ok(moment.duration_since(begun).as_secs_f64() * 1e6)
    };
    let (mut p50, mut all) = ([vec![], vec![]], [vec![], vec![]]);
    for _ in 0..ROUNDS {
        let mut times = [vec![], vec![]];
        for number in 0..WRITES {
            pages.get(&number)?;
            times[0].push(seen(format!("c:{number}"), &dropped)?);
            times[1].push(seen(format!("r:{number}"), &received)?);
        }
        for (index, times) in times.iter_mut().enumerate() {
            p50[index].push(middle(times));
            all[index].append(times);
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    let pairs = p50[0].iter().zip(&p50[1]);
    let ratios: Vec<f64> = pairs.map(|(ours, bare)| ours / bare).collect();
    let (ours, raw) = (slow(&mut all[0]), slow(&mut all[1]));
    println!(
        "a value is gone from memory after {:.0} us (p99 {ours:.0} us), a bare notice is read after {:.0} us (p99 {raw:.0} us): \
         {:.2} times as long, p99 {:.2} (goal 1.5); {} writes each, none lost",
        middle(&p50[0]),
        middle(&p50[1]),
        middle(&ratios),
        ours / raw,
        all[0].len()
    );
    Ok(())
}
