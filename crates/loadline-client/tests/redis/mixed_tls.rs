//! TLS to a port without it, and the reverse: the error says what is likely.

use std::sync::Arc;

use loadline_client::{Client, Tls};

use crate::dripping_tls::{certificate, server_config};
use crate::fake;
use crate::server::{Redis, runtime};

/// The texts of the errors with which each kind of connection cannot be opened.
fn refused(client: &Client) -> Vec<String> {
    runtime().block_on(async {
        vec![
            client.blocking().unwrap_err().to_string(),
            client.multiplexed().await.unwrap_err().to_string(),
            client.pubsub().await.map(drop).unwrap_err().to_string(),
            client.blocking_pubsub().map(drop).unwrap_err().to_string(),
        ]
    })
}

fn encrypted(port: u16) -> Client {
    let url = format!("rediss://localhost:{port}?connect_timeout=300ms");
    let trusting = Tls::trusting([certificate().0]).unwrap();
    Client::builder().url(&url).unwrap().tls(trusting).build()
}

#[test]
fn tls_to_a_port_without_it_names_the_plain_url() {
    let redis = Redis::start();
    let url = redis.url();
    let port: u16 = url.rsplit_once(':').unwrap().1.parse().unwrap();
    let silent = fake::serve(|mut stream, _| while !fake::read(&mut stream).is_empty() {});
    let replying = fake::serve(|mut stream, _| fake::answer(&mut stream, &[b"-ERR unknown\r\n"]));
    let closing = fake::serve(|mut stream, _| drop(fake::read(&mut stream)));
    for port in [port, silent.port(), replying.port(), closing.port()] {
        for text in refused(&encrypted(port)) {
            assert!(text.contains("redis://"), "{text}");
        }
    }
}

#[test]
fn plain_connection_to_a_tls_port_names_the_tls_url() {
    let (certificate, key) = certificate();
    let config = Arc::new(server_config(certificate, key));
    let tls = fake::serve(move |mut stream, _| {
        let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        // It fails, and sends an alert.
        let _ = session.complete_io(&mut stream);
    });
    let closing = fake::serve(|mut stream, _| drop(fake::read(&mut stream)));
    for port in [tls.port(), closing.port()] {
        let client = Client::open(&format!("redis://localhost:{port}")).unwrap();
        for text in refused(&client) {
            assert!(text.contains("rediss://"), "{text}");
        }
    }
}
