//! Redis Cluster: each command goes to the node that serves its keys.
//!
//! ```sh
//! cargo run -p loadline-client --example cluster --features tokio -- cluster://localhost:7000
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use loadline_client::cluster::{Builder, ReadFrom};
use loadline_client::commands::{get, incr, mget, mset, set};
use loadline_client::{Error, Scan, atomic};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("cluster://localhost:7000")).await
}

/// Runs commands, a pipeline and a transaction, and scans all masters.
pub(crate) async fn run(url: &str) -> Result<(), Error> {
    let cluster = Builder::from_url(url)?.open().await?;
    for master in cluster.masters() {
        println!("master: {master}");
    }

    // The commands of a pipeline go to their nodes at the same time.
    let (one, two) = cluster
        .run((set("example:one", 1), set("example:two", 2)))
        .await;
    one?;
    two?;
    // Keys in several slots: executed in parts.
    cluster
        .run(mset([("example:three", 3), ("example:four", 4)]))
        .await?;
    let values: Vec<i64> = cluster
        .run(mget(["example:one", "example:two", "example:three"]))
        .await?;
    println!("values: {values:?}");

    // The keys of a transaction must be in one slot, which a common hash tag ensures.
    let done = cluster
        .run(atomic((
            set("{example:ann}:name", "Ann"),
            incr("{example:ann}:visits"),
        )))
        .await?;
    if let Some((named, visits)) = done {
        named?;
        println!("visits of Ann: {}", visits?);
    }

    // Replicas take load off their masters, and lag behind them.
    let reader = Builder::from_url(url)?
        .read_from(ReadFrom::Replica)
        .open()
        .await?;
    let one: Option<i64> = reader.run(get("example:one")).await?;
    println!("a replica says: {one:?}");

    let mut scanning = cluster.scan(Scan::<String>::keys().matching("*example:*"));
    let mut keys = 0;
    while scanning.next().await?.is_some() {
        keys += 1;
    }
    println!("keys found: {keys}");
    Ok(())
}
