//! Places a link in front of a server until standard input ends:
//! `cargo run --release -p loadline-link --example between -- 127.0.0.1:6379 10 auto`
//! (server, added round trip in milliseconds, and `auto`, `netem`, `l3` or `l4`).

#![expect(clippy::print_stdout, reason = "it prints the address to connect to")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use loadline_link::l3::Packets;
use loadline_link::l4::Route;
use loadline_link::link::{Link, choose};
use loadline_link::shape::Shape;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, latency, class] = &arguments[..] else {
        return Err("between needs a server, milliseconds and a class or auto".into());
    };
    let server: SocketAddr = server.parse()?;
    let latency: f64 = latency.parse()?;
    let shape = Shape::round_trip(Duration::try_from_secs_f64(latency / 1e3)?);
    let asked = match class.as_str() {
        "auto" => None,
        name => Some(name.parse()?),
    };
    let choice = choose(asked, &shape)?;
    let routes = [Route::from_loopback(server.into())];
    let link = Link::start(choice.class, &routes, shape, &Packets::default())?;
    println!("{}", choice.reason);
    let achieved = link.measure(50)?;
    for quantile in [0.5, 0.9] {
        let overshoot = achieved.overshoot(quantile);
        println!("overshoot at quantile {quantile}: {overshoot:?}");
    }
    println!("{}", link.addresses()[0]);
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
