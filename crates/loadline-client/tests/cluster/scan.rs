//! `SCAN` over all masters, while slots move and while a master is lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loadline_client::cluster::{Cursor, ReadFrom, slot_of};
use loadline_client::commands::*;
use loadline_client::{Error, Scan};

use crate::nodes::{self, runtime, shared};

const KEYS: usize = 3_000;

fn name(prefix: &str, n: usize) -> String {
    format!("{prefix}:{n}")
}

#[test]
fn every_key_comes_although_slots_move() {
    runtime().block_on(async {
        let cluster = shared().builder().open().await.unwrap();
        let names: BTreeSet<String> = (0..KEYS).map(|n| name("scan", n)).collect();
        let writes: Vec<_> = names.iter().map(|name| set(name, 1)).collect();
        for written in cluster.run(writes).await {
            written.unwrap();
        }
        let mut cursor = Cursor::start();
        let (mut seen, mut pages, mut all) = (BTreeSet::new(), 0, 0);
        let (mut nodes, mut travelling) = (BTreeSet::new(), Vec::<String>::new());
        while !cursor.is_finished() {
            nodes.extend(cursor.node().cloned());
            let keys: Vec<String> = cluster.scan_page(&mut cursor, "scan:*", 100).await.unwrap();
            (all, pages) = (all + keys.len(), pages + 1);
            seen.extend(keys);
            // Slots go to the next master in the middle of its scan and of the others': those of keys that were
            // not seen yet, which a plain scan of one node after the other would miss. The first ones are back
            // where they were after three moves, within the scan of one node.
            if pages % 10 == 5 && pages < 100 {
                if pages == 5 || pages > 25 {
                    travelling = names.difference(&seen).take(5).cloned().collect();
                }
                let slots: Vec<u16> = travelling
                    .iter()
                    .map(|key| slot_of(key.as_bytes()))
                    .collect();
                let moving = move || slots.into_iter().for_each(|slot| shared().move_slot(slot));
                tokio::task::spawn_blocking(moving).await.unwrap();
            }
        }
        println!(
            "{KEYS} keys: {all} returned in {pages} pages of {} nodes",
            nodes.len()
        );
        assert_eq!(nodes.len(), 3);
        assert_eq!(seen, names);
        assert!(pages > KEYS / 100, "{pages} pages");
        let none: Vec<String> = cluster.scan_page(&mut cursor, "scan:*", 100).await.unwrap();
        assert!(none.is_empty(), "a scan that is finished has nothing left");
        cluster.run(del(names)).await.unwrap();
    });
}

#[test]
fn scan_goes_on_when_a_master_is_lost() {
    let mut servers = nodes::Cluster::start();
    let mut cluster = servers.builder().open_blocking().unwrap();
    let names: BTreeSet<String> = (0..KEYS).map(|n| name("scan", n)).collect();
    for written in cluster.run(names.iter().map(|name| set(name, 1)).collect::<Vec<_>>()) {
        written.unwrap();
    }
    for master in servers.masters() {
        let in_step: u64 = master
            .connection()
            .run(loadline_client::cmd("WAIT").arg((1u32, 5_000u32)))
            .unwrap();
        assert_eq!(in_step, 1);
    }
    let mut cursor = Cursor::start();
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        seen.extend(
            cluster
                .scan_page::<String>(&mut cursor, "scan:*", 100)
                .unwrap(),
        );
    }
    let lost = cursor.node().cloned().expect("a node is being scanned");
    servers.kill(&lost);
    let killed = Instant::now();
    let mut errors = 0;
    while !cursor.is_finished() {
        match cluster.scan_page::<String>(&mut cursor, "scan:*", 100) {
            Ok(keys) => seen.extend(keys),
            Err(Error::Type { .. } | Error::Usage(_)) => panic!("the scan itself is wrong"),
            Err(_) => {
                errors += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        assert!(killed.elapsed() < Duration::from_secs(60), "{cursor:?}");
    }
    println!("blocking: {errors} errors until the replica of {lost} was scanned");
    assert!(errors > 0, "the loss of the node was not noticed");
    assert_eq!(seen, names);
}

/// Moves a slot to the next master, next to a runtime.
async fn move_aside(slot: u16) {
    let moving = move || shared().move_slot(slot);
    tokio::task::spawn_blocking(moving).await.unwrap();
}

#[test]
fn scan_of_all_keys_or_of_one_is_whole_although_slots_move() {
    const FIELDS: u64 = 2_000;
    let fields: BTreeSet<(String, u64)> = (0..FIELDS).map(|n| (format!("f{n}"), n)).collect();
    let names: BTreeSet<String> = (0..1_000).map(|n| name("walk", n)).collect();
    let mut blocking = shared().builder().open_blocking().unwrap();
    let pairs = Vec::from_iter(fields.iter().map(|(field, n)| (field, *n)));
    blocking.run(hset("walk-hash", &pairs)).unwrap();
    for written in blocking.run(Vec::from_iter(names.iter().map(|name| set(name, 1)))) {
        written.unwrap();
    }
    let of_hash = slot_of(b"walk-hash");
    let master = blocking.master_of("walk-hash");

    let (mut seen, mut elements) = (BTreeSet::new(), 0);
    for pair in blocking.scan(Scan::<(String, u64)>::hash("walk-hash").count(50)) {
        seen.insert(pair.unwrap());
        elements += 1;
        if elements == FIELDS / 2 {
            shared().move_slot(of_hash);
        }
    }
    assert_ne!(blocking.master_of("walk-hash"), master, "the slot moved");
    println!("{elements} elements of {FIELDS} fields");
    assert!(
        elements > FIELDS,
        "the new master was not scanned from its beginning"
    );
    assert_eq!(seen, fields);

    let (mut seen, mut elements) = (BTreeSet::new(), 0);
    for key in blocking.scan(Scan::<String>::keys().matching("walk:*")) {
        seen.insert(key.unwrap());
        elements += 1;
        if elements % 300 == 0 {
            let unseen = names.difference(&seen).next();
            unseen
                .into_iter()
                .for_each(|key| shared().move_slot(slot_of(key.as_bytes())));
        }
    }
    assert_eq!(seen, names);

    runtime().block_on(async {
        // Replicas take turns with what is read, and a cursor is known to one server alone.
        let builder = shared().builder().read_from(ReadFrom::Replica);
        let cluster = builder.open().await.unwrap();
        let (mut seen, mut elements) = (BTreeSet::new(), 0);
        let mut pairs = cluster.scan(Scan::<(String, u64)>::hash("walk-hash").count(50));
        while let Some(pair) = pairs.next().await.unwrap() {
            seen.insert(pair);
            elements += 1;
            if elements == FIELDS / 2 {
                move_aside(of_hash).await;
            }
        }
        assert_eq!(seen, fields);
        assert!(elements <= 3 * FIELDS, "{elements} elements");
        let mut seen = BTreeSet::new();
        let mut keys = cluster.scan(Scan::<String>::keys().matching("walk:*"));
        while let Some(key) = keys.next().await.unwrap() {
            seen.insert(key);
        }
        assert_eq!(seen, names);
        cluster
            .run((del("walk-hash"), del(names.clone())))
            .await
            .0
            .unwrap();
    });
}
