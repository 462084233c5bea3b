//! Transactions: commands that the server executes without others in between.
//!
//! ```sh
//! cargo run -p loadline-client --example transaction -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use loadline_client::commands::{decr_by, get, incr_by, set};
use loadline_client::{Client, Error, atomic};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("redis://localhost"))
}

/// Moves money between two accounts, first without and then with a condition.
pub(crate) fn run(url: &str) -> Result<(), Error> {
    let mut connection = Client::open(url)?.blocking()?;
    let (ann, bob) = connection.run((set("example:ann", 100), set("example:bob", 20)));
    ann?;
    bob?;

    // `MULTI` and `EXEC`. `None` would say that a watched key has changed, and none is watched here.
    let moved = connection.run(atomic((
        decr_by("example:ann", 30),
        incr_by("example:bob", 30),
    )))?;
    if let Some((ann, bob)) = moved {
        println!("Ann has {}, Bob has {}", ann?, bob?);
    }

    // A transaction that depends on what is read before it. The keys are watched, and the closure runs
    // again, up to 10 times in all, if one of them changes before the transaction is executed.
    let (ann, bob) = connection.transaction(["example:ann", "example:bob"], 10, |connection| {
        let balance: i64 = connection.run(get("example:ann"))?;
        let amount = balance.min(50);
        Ok((
            decr_by("example:ann", amount),
            incr_by("example:bob", amount),
        ))
    })?;
    println!("Ann has {}, Bob has {}", ann?, bob?);
    Ok(())
}
