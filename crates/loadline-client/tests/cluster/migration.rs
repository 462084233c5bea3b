//! Slots that move from node to node while they are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_client::cluster::{Builder, Cluster, Node, slot_of};
use loadline_client::commands::*;
use loadline_client::{Config, ConnectionEvent, ConnectionEvents, atomic, cmd};

use crate::nodes::{Server, runtime, shared};

/// The least number of moves of the slot.
const MOVES: usize = 6;
/// Longer than the moves take.
const PATIENCE: Duration = Duration::from_secs(60);
const TASKS: usize = 8;

/// The work of a task: the number of keys that it made.
struct Done {
    keys: usize,
}

#[test]
fn writes_to_a_slot_that_moves_run_once_each_and_none_is_lost() {
    runtime().block_on(async {
        let cluster = shared().builder().open().await.unwrap();
        let before = refusals();
        let ended = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| tokio::spawn(write(cluster.clone(), task, Arc::clone(&ended))))
            .collect();
        // It is left to chance which refusals a move meets, so the slot moves until there was one of each kind.
        let moving = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            for moves in 1.. {
                std::thread::sleep(Duration::from_millis(50));
                shared().move_slot(slot_of(b"{moving}"));
                let after = refusals();
                if moves >= MOVES && before.iter().zip(&after).all(|(before, after)| after > before) {
                    return (moves, after);
                }
                assert!(
                    begun.elapsed() < PATIENCE,
                    "MOVED, ASK, TRYAGAIN: {before:?} before, {after:?} after {moves} moves"
                );
            }
            unreachable!("the moves end")
        });
        let (moves, after) = moving.await.unwrap();
        ended.store(true, Ordering::Relaxed);
        let mut all_keys = 0;
        for (task, done) in tasks.into_iter().enumerate() {
            let Done { keys } = done.await.unwrap();
            all_keys += keys;
            let names: Vec<String> = (0..keys).map(|n| key(task, n)).collect();
            let values: Vec<Option<u32>> = cluster.run(mget(&names)).await.unwrap();
            assert!(values.iter().all(|value| *value == Some(1)), "each write ran exactly once");
            let count: usize = cluster.run(get(counter(task))).await.unwrap();
            assert_eq!(count, 2 * keys);
        }
        println!("{moves} moves under {all_keys} writes of each kind; MOVED, ASK, TRYAGAIN before {before:?}, after {after:?}");
    });
}

/// A client that calls the old master of a slot is redirected, and the application gets to know of it, for both kinds of
/// cluster.
#[test]
fn slot_that_moves_is_an_event() {
    const KEY: &str = "{an event}";
    let slot = slot_of(KEY.as_bytes());
    let open = || {
        let events = ConnectionEvents::new(1_000);
        let seed = shared().masters()[0].node();
        let mut config =
            Config::from_url(&format!("redis://{}:{}", seed.host(), seed.port())).unwrap();
        config.events = Some(events.clone());
        (Builder::from_config(config).unwrap(), events)
    };
    let ((builder, of_blocking), (other, of_async)) = (open(), open());
    let mut blocking = builder.open_blocking().unwrap();
    let runtime = runtime();
    let cluster = runtime.block_on(other.open()).unwrap();
    let _: () = blocking.run(set(KEY, 1)).unwrap();
    let value: u32 = runtime.block_on(cluster.run(get(KEY))).unwrap();
    assert_eq!(value, 1);
    let before = [moved(&of_blocking, slot), moved(&of_async, slot)];
    assert_eq!(before, [vec![], vec![]], "it has not moved yet");
    shared().move_slot(slot);
    let masters = shared().masters();
    let master = masters.iter().find(|server| server.serves(slot)).unwrap();
    let value: u32 = blocking.run(get(KEY)).unwrap();
    assert_eq!(value, 1);
    let value: u32 = runtime.block_on(cluster.run(get(KEY))).unwrap();
    assert_eq!(value, 1);
    for (kind, events) in [("blocking", of_blocking), ("async", of_async)] {
        assert_eq!(moved(&events, slot), [master.node()], "{kind}");
    }
}

/// Where the events of a queue say that a slot is.
fn moved(events: &ConnectionEvents, slot: u16) -> Vec<Node> {
    let mut nodes = Vec::new();
    while let Some(event) = events.try_next() {
        if let ConnectionEvent::Moved { slot: of, node } = event
            && of == slot
        {
            nodes.push(node);
        }
    }
    nodes
}

/// Writes to the slot in every way, and looks at each result, until the slot has moved for the last time.
async fn write(cluster: Cluster, task: usize, ended: Arc<AtomicBool>) -> Done {
    let mut keys = 0;
    while !ended.load(Ordering::Relaxed) {
        let made: u32 = cluster.run(cmd("INCR").arg(key(task, keys))).await.unwrap();
        assert_eq!(made, 1, "a write was executed twice");
        // In a pipeline and in a transaction the order holds too.
        let expected = 2 * keys as i64;
        let (first, read) = cluster
            .run((incr(counter(task)), get::<i64>(counter(task))))
            .await;
        match (first, read) {
            (Ok(first), Ok(read)) => assert_eq!((first, read), (expected + 1, expected + 1)),
            other => panic!("{other:?}"),
        }
        let both = atomic((incr(counter(task)), get::<i64>(counter(task))));
        let (second, read) = cluster.run(both).await.unwrap().unwrap();
        assert_eq!(
            (second.unwrap(), read.unwrap()),
            (expected + 2, expected + 2)
        );
        // Keys that are on both sides of a move can be read only when all have moved.
        let pair = [key(task, keys), key(task, keys / 2)];
        let values: Vec<u32> = cluster.run(mget(&pair)).await.unwrap();
        assert_eq!(values, [1, 1]);
        keys += 1;
    }
    Done { keys }
}

fn key(task: usize, n: usize) -> String {
    format!("{{moving}}:{task}:{n}")
}

fn counter(task: usize) -> String {
    format!("{{moving}}:counter:{task}")
}

/// Number of times that nodes have answered `MOVED`, `ASK` and `TRYAGAIN`.
fn refusals() -> [u64; 3] {
    ["MOVED", "ASK", "TRYAGAIN"].map(|kind| {
        let of = |server: &Server| {
            let info: String = server
                .connection()
                .run(cmd("INFO").arg("errorstats"))
                .unwrap();
            let stat = format!("errorstat_{kind}:count=");
            let line = info.lines().find_map(|line| line.strip_prefix(&stat));
            line.map_or(0, |count| count.trim().parse().unwrap())
        };
        shared().masters().iter().map(of).sum()
    })
}
