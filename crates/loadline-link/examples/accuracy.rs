//! Prints how precisely links delay: `cargo run --release -p loadline-link --example accuracy`.

#![expect(clippy::print_stdout, reason = "printing its tables is what it is for")]

use std::error::Error;
use std::time::Duration;

use loadline_link::address::Address;
use loadline_link::echo::Echo;
use loadline_link::l4::{Proxy, Route};
use loadline_link::shape::Shape;

const LATENCIES_US: [u64; 6] = [500, 1_000, 5_000, 10_000, 50_000, 100_000];
/// A latency's share of the run, at most `MOST` round trips.
const TIME: Duration = Duration::from_secs(4);
const MOST: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    println!("l4, one connection, round trips of 64 B one after the other, in microseconds");
    println!("socket  added   count  direct p50  p50-added  p99-added  overshoot p50  p99");
    for socket in ["tcp", "unix"] {
        for (index, us) in LATENCIES_US.into_iter().enumerate() {
            let path = |what: &str| directory.path().join(format!("{what}{index}"));
            let echo = match socket {
                "tcp" => Echo::tcp()?,
                _ => Echo::unix(&path("echo"))?,
            };
            let listen = match socket {
                "tcp" => Address::any_loopback(),
                _ => Address::Unix(path("link")),
            };
            let latency = Duration::from_micros(us);
            let route = Route {
                listen,
                upstream: echo.address()?,
            };
            let proxy = Proxy::start(&[route], Shape::round_trip(latency))?;
            let count = (TIME.as_nanos() / latency.as_nanos()).min(MOST as u128) as usize;
            let direct = echo.round_trips(&echo.address()?, MOST, Duration::ZERO)?;
            let through = echo.round_trips(&proxy.addresses()[0], count, latency)?;
            let micros = |duration: Duration| duration.as_nanos() as f64 / 1e3;
            let base = micros(direct.quantile(0.5));
            let over = |quantile| micros(through.quantile(quantile)) - us as f64;
            println!(
                "{socket:6} {us:6} {count:7} {base:11.1} {:10.1} {:10.1} {:14.1} {:.1}",
                over(0.5),
                over(0.99),
                over(0.5) - base,
                over(0.99) - base,
            );
        }
    }
    Ok(())
}
