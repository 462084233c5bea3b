//! Prints the accuracy and throughput of links on this machine:
//! `cargo run --release -p loadline-link --example accuracy`. The packet level and real-time scheduling need
//! root. Arguments after `--` select tables: `accuracy`, `throughput`, `fresh`. Run as root, a link keeps
//! idle CPUs from sleeping; run the program as another user to see the figures without that.

#![expect(clippy::print_stdout, reason = "it prints tables")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use loadline_link::Wakefulness;
use loadline_link::address::Address;
use loadline_link::echo::{Echo, MESSAGE_BYTES};
use loadline_link::l3::Packets;
use loadline_link::l4::{Proxy, Route};
use loadline_link::link::{Achieved, CLASSES, Class, Link};
use loadline_link::shape::Shape;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const LATENCIES_US: [u64; 6] = [500, 1_000, 5_000, 10_000, 50_000, 100_000];
/// Time limit for one line of the table.
const LINE_TIME: Duration = Duration::from_secs(10);
const MOST_TRIPS: usize = 5_000;

const CONNECTIONS: usize = 10;
const PIPELINE: usize = 16;

fn main() -> Result<()> {
    let mut possible = Vec::new();
    for class in CLASSES {
        match class.probe(&Shape::default()) {
            Ok(()) => possible.push(class),
            Err(missing) => println!("{class} is not available here: {missing}"),
        }
    }
    match Wakefulness::claim() {
        Ok(_) => println!("Idle CPUs poll instead of sleeping."),
        Err(error) => {
            println!("Idle CPUs sleep, because the kernel refuses to keep them awake: {error}.");
        }
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let wants = |table: &str| wanted.is_empty() || wanted.iter().any(|word| word == table);
    if wants("accuracy") {
        accuracy(&possible)?;
    }
    if wants("throughput") {
        throughput()?;
    }
    if wants("fresh") {
        fresh_connections(&possible)?;
    }
    Ok(())
}

/// Prints the overshoot of consecutive round trips on one connection.
fn accuracy(classes: &[Class]) -> Result<()> {
    println!("\nRound trips of {MESSAGE_BYTES} B, in sequence, in us. Overshoot is the round trip");
    println!(
        "minus the added latency and the median of the direct ones; pressure is the share of the"
    );
    println!(
        "time in which a thread of this machine waited for a CPU. Late is the time between when bytes"
    );
    println!("were due and when the link released them.");
    println!(
        "class  socket   added  trips  direct p50  overshoot p50      p99  late p50   late p99  early  pressure"
    );
    for us in LATENCIES_US {
        let latency = Duration::from_micros(us);
        let count = (LINE_TIME.as_nanos() / latency.as_nanos()).min(MOST_TRIPS as u128) as usize;
        let shape = Shape::round_trip(latency);
        for class in classes {
            let echo = Echo::tcp()?;
            let routes = [Route::from_loopback(echo.address()?)];
            let link = Link::start(*class, &routes, shape, &Packets::default())?;
            let pressure = Pressure::now();
            let achieved = link.measure(count)?;
            line("tcp", &achieved, &pressure);
        }
        let directory = tempfile::tempdir()?;
        let echo = Echo::unix(&directory.path().join("echo"))?;
        let route = Route {
            listen: Address::Unix(directory.path().join("link")),
            upstream: echo.address()?,
        };
        let proxy = Proxy::start(&[route], shape)?;
        let wakefulness = Wakefulness::claim();
        let pressure = Pressure::now();
        let direct = echo.round_trips(&echo.address()?, count, Duration::ZERO)?;
        let through = echo.round_trips(&proxy.addresses()[0], count, latency)?;
        let achieved = Achieved {
            class: Class::L4,
            shape,
            mtu: None,
            direct,
            through,
            release: Some(proxy.lateness()),
            scheduling: Some(proxy.stats().scheduling),
            keeps_awake: wakefulness.is_ok(),
        };
        line("unix", &achieved, &pressure);
    }
    Ok(())
}

/// Time that threads of this machine spent waiting for a CPU.
struct Pressure {
    since: Instant,
    stalled_us: Option<u64>,
}

impl Pressure {
    fn now() -> Self {
        let said = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let total = said
            .split_whitespace()
            .find_map(|word| word.strip_prefix("total="));
        Self {
            since: Instant::now(),
            stalled_us: total.and_then(|total| total.parse().ok()),
        }
    }

    /// The share of the time since `self` in which a thread waited.
    fn share(&self) -> String {
        let (Some(before), Some(after)) = (self.stalled_us, Self::now().stalled_us) else {
            return "unknown".into();
        };
        let share = (after - before) as f64 / self.since.elapsed().as_micros() as f64;
        format!("{:.0} %", 100.0 * share)
    }
}

fn line(socket: &str, achieved: &Achieved, pressure: &Pressure) {
    let (direct, through) = (&achieved.direct, &achieved.through);
    let latency = achieved.shape.latency();
    let us = |duration: Duration| duration.as_nanos() as f64 / 1e3;
    let late = |quantile| match &achieved.release {
        Some(release) => format!("{:.1}", us(release.quantile(quantile))),
        None => "-".into(),
    };
    let base = us(direct.quantile(0.5));
    let overshoot = |quantile| us(through.quantile(quantile)) - us(latency) - base;
    println!(
        "{:6} {socket:6} {:7} {:6} {base:11.1} {:14.1} {:8.1} {:>9} {:>10} {:>6} {:>9}",
        achieved.class.name(),
        latency.as_micros(),
        through.count(),
        overshoot(0.5),
        overshoot(0.99),
        late(0.5),
        late(0.99),
        if through.quantile(0.0) < latency {
            "yes"
        } else {
            "never"
        },
        pressure.share(),
    );
}

/// Operations per second of many pipelined connections, compared with the maximum that the latency allows.
fn throughput() -> Result<()> {
    println!(
        "\nl4, {CONNECTIONS} connections, {PIPELINE} messages of {MESSAGE_BYTES} B in flight on each"
    );
    println!("added, ms   operations/s   of the ideal");
    for latency in [0, 1, 10, 100].map(Duration::from_millis) {
        let server = TcpListener::bind("127.0.0.1:0")?;
        let routes = [Route::from_loopback(server.local_addr()?.into())];
        let proxy = Proxy::start(&routes, Shape::round_trip(latency))?;
        let turns = (10_000 / (1 + latency.as_millis())).max(60) as usize;
        let elapsed = pipelined(&server, tcp(&proxy.addresses()[0])?, turns)?;
        let operations = (CONNECTIONS * PIPELINE * turns) as f64;
        let rate = operations / elapsed.as_secs_f64();
        let ideal = (CONNECTIONS * PIPELINE) as f64 / latency.as_secs_f64();
        let share = format!("{:.1} %", 100.0 * rate / ideal);
        let share = if latency.is_zero() { "-" } else { &share };
        println!("{:9} {rate:14.0} {share:>14}", latency.as_millis());
    }
    Ok(())
}

fn pipelined(server: &TcpListener, address: SocketAddr, turns: usize) -> Result<Duration> {
    const BYTES: usize = PIPELINE * MESSAGE_BYTES;
    let connections = (0..CONNECTIONS)
        .map(|_| {
            let client = TcpStream::connect(address)?;
            client.set_nodelay(true)?;
            let peer = server.accept()?.0;
            peer.set_nodelay(true)?;
            Ok((client, peer))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for (mut client, mut peer) in connections {
            scope.spawn(move || {
                let mut bytes = [0; BYTES];
                // Until the client closes, or until an error that the client sees as well.
                while let Ok(got @ 1..) = peer.read(&mut bytes) {
                    if peer.write_all(&bytes[..got]).is_err() {
                        return;
                    }
                }
            });
            clients.push(scope.spawn(move || {
                let mut bytes = [7; BYTES];
                for _ in 0..turns {
                    client.write_all(&bytes)?;
                    client.read_exact(&mut bytes)?;
                }
                Ok::<_, std::io::Error>(())
            }));
        }
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(start.elapsed())
}

const REQUEST_BYTES: usize = 32;

/// The time that a new connection takes at each class; only links that handle packets slow it down.
fn fresh_connections(classes: &[Class]) -> Result<()> {
    let latency = Duration::from_millis(100);
    println!("\nA new connection at 100 ms added, in ms");
    println!("class  congestion control  connect  1,000 replies of 100 B  one reply of 1 MiB");
    for class in classes {
        for control in ["reno", "cubic", "bbr"] {
            let server = TcpListener::bind("127.0.0.1:0")?;
            let routes = [Route::from_loopback(server.local_addr()?.into())];
            let packets = Packets {
                congestion_control: Some(control.into()),
                ..Packets::default()
            };
            let link = match Link::start(*class, &routes, Shape::round_trip(latency), &packets) {
                Ok(link) => link,
                Err(error) => {
                    println!("{:6} {control:18} {error}", class.name());
                    continue;
                }
            };
            let address = tcp(&link.addresses()[0])?;
            let (connect, small) = fresh(&server, address, 1_000, 100)?;
            let (_, large) = fresh(&server, address, 1, 1 << 20)?;
            let ms = |duration: Duration| duration.as_nanos() as f64 / 1e6;
            println!(
                "{:6} {:18} {:8.1} {:23.1} {:19.1}",
                class.name(),
                if *class == Class::L4 { "-" } else { control },
                ms(connect),
                ms(small),
                ms(large)
            );
            if *class == Class::L4 {
                break;
            }
        }
    }
    Ok(())
}

/// Measures connecting, then `requests` sent together with replies of `reply_bytes` each.
fn fresh(
    server: &TcpListener,
    address: SocketAddr,
    requests: usize,
    reply_bytes: usize,
) -> Result<(Duration, Duration)> {
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || {
            let mut peer = server.accept()?.0;
            peer.set_nodelay(true)?;
            let reply = vec![1; reply_bytes];
            let mut request = [0; REQUEST_BYTES];
            for _ in 0..requests {
                peer.read_exact(&mut request)?;
                peer.write_all(&reply)?;
            }
            Ok::<_, std::io::Error>(())
        });
        let start = Instant::now();
        let mut client = TcpStream::connect(address)?;
        client.set_nodelay(true)?;
        let connect = start.elapsed();
        let start = Instant::now();
        client.write_all(&vec![0; requests * REQUEST_BYTES])?;
        client.read_exact(&mut vec![0; requests * reply_bytes])?;
        let elapsed = start.elapsed();
        answering.join().map_err(|_| "the server panicked")??;
        Ok((connect, elapsed))
    })
}

fn tcp(address: &Address) -> Result<SocketAddr> {
    match address {
        Address::Tcp(address) => Ok(*address),
        Address::Unix(path) => Err(format!("{} is not TCP", path.display()).into()),
    }
}
