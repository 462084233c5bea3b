//! Lua scripts: sent once, and then called by their digest.
//!
//! ```sh
//! cargo run -p loadline-client --example script -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use loadline_client::commands::{Script, get, set};
use loadline_client::{Client, Error};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("redis://localhost"))
}

/// Takes from a stock, but not below zero.
pub(crate) fn run(url: &str) -> Result<(), Error> {
    let mut connection = Client::open(url)?.blocking()?;
    let take = Script::new(
        "local left = tonumber(redis.call('GET', KEYS[1]) or '0')
         local wanted = tonumber(ARGV[1])
         if left < wanted then return -1 end
         return redis.call('DECRBY', KEYS[1], wanted)",
    );
    connection.run(set("example:stock", 10))?;
    for wanted in [7, 7, 3] {
        // The first call is answered with NOSCRIPT, and sent again with the code.
        let left: i64 = connection.run(take.call("example:stock", wanted))?;
        match left {
            -1 => println!("{wanted}: not enough"),
            left => println!("{wanted}: taken, {left} left"),
        }
    }
    // A pipeline cannot be sent a second time, so it carries the code.
    let (refilled, left) = connection.run((
        set("example:stock", 5),
        take.call::<i64>("example:stock", 1).whole(),
    ));
    refilled?;
    println!("after a refill: {} left", left?);
    let stock: i64 = connection.run(get("example:stock"))?;
    println!("stock: {stock}");
    Ok(())
}
