//! A consumer of a group of a stream: each entry is handed out until it is acknowledged.
//!
//! ```sh
//! cargo run -p loadline-client --example stream_group -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::time::Duration;

use loadline_client::blocking::GroupReader;
use loadline_client::commands::xadd;
use loadline_client::streams::{Event, Start};
use loadline_client::{Client, Error};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    let handled = run(url.as_deref().unwrap_or("redis://localhost"))?;
    println!("{} orders", handled.len());
    Ok(())
}

/// Adds three orders to a stream, and handles them as one consumer of a group.
pub(crate) fn run(url: &str) -> Result<Vec<String>, Error> {
    let client = Client::open(url)?;
    let mut producer = client.blocking()?;
    // Creates the group and the stream unless they are there.
    let mut reader =
        GroupReader::create(&client, "example:orders", "bakers", "ann", Start::Oldest)?;
    for item in ["bread", "cake", "pie"] {
        producer.run(xadd("example:orders", [("item", item)]))?;
    }

    let mut handled = Vec::new();
    while let Some(event) = reader.next(Duration::from_millis(200))? {
        match event {
            Event::Entry(entry) => {
                let item = entry.get("item").map_or_else(Default::default, |item| {
                    String::from_utf8_lossy(item).into_owned()
                });
                println!("{}: {item}", entry.id);
                handled.push(item);
                // Without this, the next reader of this consumer gets the entry again.
                reader.ack(&[entry.id])?;
            }
            // Removed from the stream after this consumer took it.
            Event::Deleted(id) => reader.ack(&[id])?,
            other => println!("the stream is not what it was: {other:?}"),
        }
    }
    Ok(handled)
}
