//! Pub/sub: a subscriber that says where messages may be missing.
//!
//! ```sh
//! cargo run -p loadline-client --example pubsub --features tokio -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use loadline_client::commands::publish;
use loadline_client::pubsub::Event;
use loadline_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    let heard = run(url.as_deref().unwrap_or("redis://localhost")).await?;
    println!("{} messages", heard.len());
    Ok(())
}

/// Publishes three messages and receives them.
pub(crate) async fn run(url: &str) -> Result<Vec<String>, Error> {
    let client = Client::open(url)?;
    let mut subscriber = client.pubsub().await?;
    // This returns when the server has confirmed it. What is published from here on is received, or
    // announced as missing.
    subscriber.subscribe("example:news").await?;

    let publisher = client.multiplexed().await?;
    for n in 1..=3 {
        publisher
            .run(publish("example:news", format!("message {n}")))
            .await?;
    }

    let mut heard = Vec::new();
    while heard.len() < 3 {
        match subscriber.next().await {
            Some(Event::Message(message)) => {
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                println!("{}: {text}", String::from_utf8_lossy(&message.channel));
                heard.push(text);
            }
            // The connection broke and is there again. Messages of this time are missing.
            Some(Event::Resubscribed { outage }) => println!("nothing was heard for {outage:?}"),
            Some(other) => println!("{other:?}"),
            None => break,
        }
    }
    Ok(heard)
}
