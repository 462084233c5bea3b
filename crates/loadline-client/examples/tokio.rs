//! A multiplexed connection: many tasks share one socket, and their requests are written together.
//!
//! ```sh
//! cargo run -p loadline-client --example tokio --features tokio -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use loadline_client::commands::{get, incr, set};
use loadline_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("redis://localhost")).await
}

/// Counts with a hundred tasks on one connection.
pub(crate) async fn run(url: &str) -> Result<(), Error> {
    let connection = Client::open(url)?.multiplexed().await?;
    connection.run(set("example:count", 0)).await?;

    let tasks: Vec<_> = (0..100)
        .map(|_| {
            // A clone is the same connection.
            let connection = connection.clone();
            tokio::spawn(async move { connection.run(incr("example:count")).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task does not panic")?;
    }

    let count: i64 = connection.run(get("example:count")).await?;
    println!("count: {count}");
    Ok(())
}
