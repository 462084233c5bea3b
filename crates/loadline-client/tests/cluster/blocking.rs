//! The client for one thread.

use std::time::{Duration, Instant};

use loadline_client::cluster::{ReadFrom, slot_of};
use loadline_client::commands::*;
use loadline_client::{Error, FromReply, Replies, Request, Requests, atomic};

use crate::nodes::{self, shared};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn one_thread_runs_commands_pipelines_and_transactions_on_all_nodes() {
    let mut cluster = shared().builder().open_blocking().unwrap();
    assert_eq!(cluster.masters().len(), 3);
    for n in 0..30 {
        cluster.run(set(format!("blocking:{n}"), n)).unwrap();
        let value: i64 = cluster.run(get(format!("blocking:{n}"))).unwrap();
        assert_eq!(value, n);
    }
    let keys: Vec<String> = (0..30).map(|n| format!("blocking:{n}")).collect();
    let values: Vec<i64> = cluster.run(mget(&keys)).unwrap();
    assert_eq!(values, (0..30).collect::<Vec<i64>>());
    let increments: Vec<_> = keys.iter().map(incr).collect();
    let values: Result<Vec<i64>, Error> = cluster.run(increments).into_iter().collect();
    assert_eq!(values.unwrap(), (1..31).collect::<Vec<i64>>());
    let (first, second) = cluster
        .run(atomic((incr("{blocking}n"), incr("{blocking}n"))))
        .unwrap()
        .unwrap();
    assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
    let script = Script::new("return ARGV[1] .. KEYS[1]");
    let said: String = cluster.run(script.call("blocking:1", "x")).unwrap();
    assert_eq!(said, "xblocking:1");
    let error = cluster.run(rename("a", "b")).unwrap_err();
    assert!(error.to_string().starts_with("CROSSSLOT"), "{error}");
    let mut own = cluster.dedicated("{blocking}n").unwrap();
    let read = own.transaction("{blocking}n", 10, |own| {
        let n: i64 = own.run(get("{blocking}n"))?;
        Ok((set("{blocking}n", 10 * n),))
    });
    read.unwrap().0.unwrap();
    assert_eq!(cluster.run(get::<i64>("{blocking}n")).unwrap(), 20);
    let removed = cluster.run(del(&keys)).unwrap();
    assert_eq!(removed, 30);
}

#[test]
fn error_in_a_pipeline_over_all_nodes_stays_with_its_command() {
    let mut cluster = shared().builder().open_blocking().unwrap();
    let keys: Vec<String> = (0..30).map(|n| format!("interleaved:{n}")).collect();
    cluster.run(del(&keys)).unwrap();
    cluster.run(rpush(&keys[13], "no number")).unwrap();
    let increments = || keys.iter().map(incr).collect::<Vec<_>>();
    for round in 1..4 {
        for (n, counted) in cluster.run(increments()).into_iter().enumerate() {
            match counted {
                Ok(count) => assert_eq!((count, n == 13), (round, false), "{n}"),
                Err(error) => {
                    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
                    assert_eq!(n, 13);
                }
            }
        }
    }
    // Reading only one reply still executes the other commands and leaves no unread reply.
    let first = cluster.run(OnlyFirst(increments()));
    assert_eq!(first.unwrap(), 4);
    let counts: Vec<_> = keys[..13].iter().map(get::<i64>).collect();
    let counts: Result<Vec<i64>, Error> = cluster.run(counts).into_iter().collect();
    assert_eq!(counts.unwrap(), [4; 13]);
    cluster.run(del(&keys)).unwrap();
}

/// Increments of which the first reply alone is read.
struct OnlyFirst<Q>(Q);

impl<Q: Request> Request for OnlyFirst<Q> {
    type Output = Result<i64, Error>;

    fn commands(&self) -> usize {
        self.0.commands()
    }

    fn encode(&self, out: &mut Requests<'_>) {
        self.0.encode(out);
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        i64::from_reply(replies.next()?)
    }
}

#[test]
fn pipeline_over_all_nodes_counts_once_where_a_slot_has_moved_or_a_connection_is_gone() {
    let servers = nodes::Cluster::start();
    let mut cluster = servers.builder().open_blocking().unwrap();
    let keys: Vec<String> = (0..30).map(|n| format!("interleaved:{n}")).collect();
    let increments = || keys.iter().map(incr).collect::<Vec<_>>();
    let counted: Result<Vec<i64>, Error> = cluster.run(increments()).into_iter().collect();
    assert_eq!(counted.unwrap(), [1; 30]);
    let moved = keys.iter().position(|key| {
        let home = cluster.master_of(key);
        home == Some(servers.masters()[0].node())
    });
    let moved = moved.expect("the first master serves a third of the keys");
    let home = cluster.master_of(&keys[moved]);
    servers.move_slot(slot_of(keys[moved].as_bytes()));
    let counted: Result<Vec<i64>, Error> = cluster.run(increments()).into_iter().collect();
    assert_eq!(counted.unwrap(), [2; 30]);
    assert_ne!(cluster.master_of(&keys[moved]), home, "no redirection came");
    // One master after the other hangs up. What only reads is asked again, and the rest is as it was.
    for master in servers.masters() {
        master.ask("CLIENT KILL TYPE normal SKIPME yes");
        let counts: Vec<_> = keys.iter().map(get::<i64>).collect();
        let counts: Result<Vec<i64>, Error> = cluster.run(counts).into_iter().collect();
        assert_eq!(counts.unwrap(), [2; 30], "after {} hung up", master.node());
    }
}

#[test]
fn one_thread_goes_on_with_the_replica_that_takes_over() {
    let mut servers = nodes::Cluster::start();
    let mut cluster = servers.builder().open_blocking().unwrap();
    let mut reader = servers
        .builder()
        .read_from(ReadFrom::Replica)
        .open_blocking()
        .unwrap();
    cluster.run(set("lost", "before")).unwrap();
    let replicated = Instant::now();
    while reader.run(get::<Option<String>>("lost")).unwrap().is_none() {
        assert!(
            replicated.elapsed() < PATIENCE,
            "the replica does not get the key"
        );
    }
    let lost = cluster.master_of("lost").unwrap();
    servers.kill(&lost);
    let killed = Instant::now();
    let mut errors = Vec::new();
    loop {
        match cluster.run(set("lost", "after")) {
            Ok(()) => break,
            Err(error) => errors.push(error.to_string()),
        }
        assert!(killed.elapsed() < PATIENCE, "{errors:?}");
    }
    println!(
        "blocking: from SIGKILL of a master to the next write to its slots: {:?}, after {errors:?}",
        killed.elapsed()
    );
    assert_ne!(cluster.master_of("lost"), Some(lost));
    assert_eq!(reader.run(get::<String>("lost")).unwrap(), "after");
}
