//! Pipelines: several commands in one write, each with a result of its own.
//!
//! ```sh
//! cargo run -p loadline-client --example pipeline -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use loadline_client::commands::{get, incr, lpush, mget, set};
use loadline_client::{Client, Error};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("redis://localhost"))
}

/// Runs a tuple and a list of commands, each in one round trip.
pub(crate) fn run(url: &str) -> Result<(), Error> {
    let mut connection = Client::open(url)?.blocking()?;

    // A tuple of commands gives a tuple of results.
    let (written, greeting, wrong, visits) = connection.run((
        set("example:greeting", "hello"),
        get::<String>("example:greeting"),
        // The greeting is a string and not a list. This is the error of this command only.
        lpush("example:greeting", "element"),
        incr("example:visits"),
    ));
    written?;
    println!("greeting: {}, visits: {}", greeting?, visits?);
    if let Err(error) = wrong {
        println!("expected: {error}");
    }

    // A list of commands gives a list of results.
    let keys: Vec<String> = (0..1000).map(|n| format!("example:key:{n}")).collect();
    let sets: Vec<_> = keys.iter().map(|key| set(key, "value")).collect();
    for result in connection.run(&sets[..]) {
        result?;
    }

    // The fastest way to read many replies: each is lent from the receive buffer.
    let gets: Vec<_> = keys.iter().map(get::<()>).collect();
    let mut bytes = 0;
    connection.run_each(&gets, |reply| {
        bytes += reply
            .ok()
            .and_then(|reply| reply.as_bytes().map(<[u8]>::len))
            .unwrap_or(0);
    })?;
    println!("{} values, {bytes} bytes", gets.len());

    let values: Vec<Option<String>> = connection.run(mget(&keys[..2]))?;
    println!("the first two: {values:?}");
    Ok(())
}
