//! A cluster that speaks TLS: the nodes among each other, and to clients.

use std::io::Write;
use std::time::{Duration, Instant};

use loadline_client::cluster::{Builder, slot_of};
use loadline_client::commands::*;
use loadline_client::pubsub::Event;
use loadline_client::{Config, Tls};
use rcgen::CertifiedKey;
use rustls::pki_types::CertificateDer;
use tempfile::NamedTempFile;

use crate::nodes::{self, runtime};

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// A cluster with a certificate of its own, and how clients get to it that trust what they are told to.
fn start() -> (nodes::Cluster, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (file(&cert.pem()), file(&signing_key.serialize_pem()));
    let path = |file: &NamedTempFile| file.path().to_str().unwrap().to_owned();
    let (certificate, key) = (path(&certificate), path(&key));
    let options = [
        ["--tls-cluster", "yes"],
        ["--tls-replication", "yes"],
        ["--tls-auth-clients", "no"],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &certificate],
    ];
    // The servers have read the files once they are up.
    let servers = nodes::Cluster::start_with(options.as_flattened());
    (servers, cert.der().clone())
}

fn builder(servers: &nodes::Cluster, tls: Tls) -> Builder {
    let (first, second) = (
        servers.masters()[0].tls_node(),
        servers.replicas()[1].tls_node(),
    );
    let mut config = Config::from_url(&format!("rediss://{first}")).unwrap();
    config.tls = tls;
    Builder::from_config(config).unwrap().seed(second)
}

#[test]
fn commands_redirections_subscriptions_and_failover_work_encrypted() {
    let (mut servers, certificate) = start();
    let stranger = builder(&servers, Tls::default()).open_blocking();
    assert!(stranger.is_err(), "a self-signed certificate was trusted");
    let trusting = Tls::trusting([certificate]).unwrap();
    let mut blocking = builder(&servers, trusting.clone()).open_blocking().unwrap();
    let opening = builder(&servers, trusting);
    runtime().block_on(async {
        let cluster = opening.open().await.unwrap();
        let mut masters = cluster.masters();
        let mut tls: Vec<_> = servers
            .masters()
            .iter()
            .map(nodes::Server::tls_node)
            .collect();
        masters.sort();
        tls.sort();
        assert_eq!(masters, tls, "the map names the ports that speak TLS");
        let keys: Vec<String> = (0..30).map(|n| format!("tls:{n}")).collect();
        for key in &keys {
            cluster.run(set(key, key)).await.unwrap();
            assert_eq!(blocking.run(get::<String>(key)).unwrap(), *key);
        }
        assert_eq!(cluster.run(mget::<String>(&keys)).await.unwrap(), keys);
        // The slot goes elsewhere, and the old master says where, with the port that speaks TLS.
        let mut pubsub = cluster.pubsub().await.unwrap();
        let mut heard = blocking.pubsub().unwrap();
        pubsub.ssubscribe("{tls:lost}").await.unwrap();
        heard.ssubscribe(["{tls:lost}", "{other}"]).unwrap();
        let before = cluster.master_of("{tls:lost}").unwrap();
        servers.move_slot(slot_of(b"tls:lost"));
        cluster.run(set("{tls:lost}", "moved")).await.unwrap();
        assert_eq!(blocking.run(get::<String>("{tls:lost}")).unwrap(), "moved");
        let lost = cluster.master_of("{tls:lost}").unwrap();
        assert!(lost != before && tls.contains(&lost), "{lost}");
        assert!(matches!(
            pubsub.next().await,
            Some(Event::Resubscribed { .. })
        ));
        let event = heard.next(Duration::from_secs(60));
        assert!(
            matches!(event, Some(Event::Resubscribed { .. })),
            "{event:?}"
        );
        // Its new master is killed, and a replica takes over.
        servers.kill(&lost);
        let killed = Instant::now();
        while let Err(error) = cluster.run(set("{tls:lost}", "after")).await {
            assert!(killed.elapsed() < Duration::from_secs(60), "{error}");
        }
        println!(
            "from SIGKILL of a master to the next write, encrypted: {:?}",
            killed.elapsed()
        );
        assert!(matches!(
            pubsub.next().await,
            Some(Event::Resubscribed { .. })
        ));
        let large = "x".repeat(100_000);
        cluster.run(spublish("{tls:lost}", &large)).await.unwrap();
        match pubsub.next().await {
            Some(Event::Message(message)) => assert_eq!(message.payload, large.as_bytes()),
            other => panic!("{other:?}"),
        }
    });
}
