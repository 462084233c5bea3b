//! A blocking connection: one socket for one thread.
//!
//! ```sh
//! cargo run -p loadline-client --example blocking -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::collections::HashMap;
use std::time::Duration;

use loadline_client::commands::{get, hgetall, hset, incr, pttl, set};
use loadline_client::{Client, Error};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("redis://localhost"))
}

/// Writes and reads a string, a counter and a hash.
pub(crate) fn run(url: &str) -> Result<(), Error> {
    let mut connection = Client::open(url)?.blocking()?;

    connection.run(set("example:greeting", "hello"))?;
    let greeting: String = connection.run(get("example:greeting"))?;
    println!("greeting: {greeting}");

    // The caller chooses the type of a reply. `None` means that the key does not exist.
    let missing: Option<String> = connection.run(get("example:missing"))?;
    println!("missing: {missing:?}");

    let visits = connection.run(incr("example:visits"))?;
    println!("visits: {visits}");

    connection.run(hset("example:user", [("name", "Ann"), ("city", "Oslo")]))?;
    let user: HashMap<String, String> = connection.run(hgetall("example:user"))?;
    println!("user: {} from {}", user["name"], user["city"]);

    connection.run(set("example:session", "token").expire(Duration::from_secs(60)))?;
    let left_ms = connection.run(pttl("example:session"))?;
    println!("the session expires in {left_ms} ms");
    Ok(())
}
