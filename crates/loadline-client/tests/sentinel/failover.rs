//! Failovers of a master that lives on: all connections move, and no caller sees `READONLY`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::*;
use loadline_client::multiplexed::Connection;
use loadline_client::pool::{Limits, Pool};
use loadline_client::pubsub::Event;
use loadline_client::sentinel::{Node, Role};
use loadline_client::tracking::Invalidation;
use loadline_client::{Address, Client, Error, RetryPolicy, atomic, blocking};
use loadline_link::l4::{Proxy, Route};
use loadline_link::shape::Shape;
use rustix::process::Signal;

use crate::topology::{OURS, PATIENCE, Topology, runtime, shared, wait_for};

/// The writes of one writer.
#[derive(Debug, Default)]
struct Written {
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    not_executed: AtomicU64,
}

impl Written {
    /// Counts a write.
    ///
    /// # Panics
    /// For an error reply of the server, such as `READONLY`.
    fn count(&self, outcome: Result<i64, Error>) {
        match outcome {
            Ok(_) => self.acknowledged.fetch_add(1, Ordering::Relaxed),
            Err(Error::Server(error)) => panic!("the caller got `{error}`"),
            Err(error) if error.maybe_executed() => self.unknown.fetch_add(1, Ordering::Relaxed),
            Err(_) => self.not_executed.fetch_add(1, Ordering::Relaxed),
        };
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }
}

#[test]
fn all_connections_move_and_no_caller_sees_readonly_when_the_old_master_lives_on() {
    let topology = shared();
    let old = topology.master();
    let client = topology.client();
    let runtime = runtime();
    let multiplexed = runtime.block_on(client.multiplexed()).unwrap();
    let limits = Limits {
        min: 4,
        ..Limits::default()
    };
    let pool = runtime.block_on(client.pool(limits)).unwrap();
    let mut idle = client.blocking().unwrap();
    let mut subscriber = client.blocking_pubsub().unwrap();
    subscriber.subscribe("c").unwrap();
    let mut listener = runtime.block_on(client.pubsub()).unwrap();
    runtime.block_on(listener.subscribe("c")).unwrap();
    let mut tracking = runtime.block_on(client.tracking("tracked:")).unwrap();
    let (writes, over) = (<[Written; 3]>::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let [first, second, third] = &writes;
        scope.spawn(|| write_blocking(client.blocking().unwrap(), first, &over));
        let tasks = write_in_tasks(&multiplexed, &pool, (second, third), &over);
        scope.spawn(|| runtime.block_on(tasks));
        // Ends the writers also if this panics.
        let _end = EndOnDrop(&over);
        topology.begin_failover();
        let new = topology.wait_for_switch(old);
        let switched = writes.each_ref().map(Written::acknowledged);
        wait_for("all writers write to the new master", || {
            let now = writes.each_ref().map(Written::acknowledged);
            now.iter().zip(switched).all(|(now, then)| *now > then + 10)
        });
        let gap = std::iter::from_fn(|| subscriber.next(PATIENCE))
            .find(|event| matches!(event, Event::Resubscribed { .. }));
        assert!(gap.is_some());
        runtime.block_on(async {
            let gap = tokio::time::timeout(PATIENCE, listener.next())
                .await
                .unwrap();
            assert!(matches!(gap, Some(Event::Resubscribed { .. })), "{gap:?}");
            let gap = tokio::time::timeout(PATIENCE, tracking.next())
                .await
                .unwrap();
            assert!(matches!(gap, Some(Invalidation::Gap { .. })), "{gap:?}");
        });
        assert_eq!(
            idle.run(publish("c", "m")).unwrap(),
            2,
            "both subscribers moved"
        );
        idle.run(set("tracked:k", 1)).unwrap();
        let change = runtime.block_on(tracking.next());
        assert!(matches!(change, Some(Invalidation::Key(_))), "{change:?}");
        wait_for("no connection is left at the old master", || {
            topology.servers[old].connections() == 0
        });
        assert!(topology.servers[new].is_master());
    });
    println!("writes: {writes:?}");
}

/// Writes commands, pipelines and transactions until it is over.
fn write_blocking(mut connection: blocking::Connection, written: &Written, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        written.count(connection.run(incr("blocking")));
        // Both of a pipeline are executed or refused.
        let (first, second) = connection.run((incr("first"), incr("second")));
        written.count(first);
        written.count(second);
        let both = connection.run(atomic((incr("first"), incr("second"))));
        written.count(both.and_then(|both| both.expect("nothing is watched").0));
    }
}

/// Writes on a shared connection and on those of a pool until it is over.
async fn write_in_tasks(
    shared: &Connection,
    pool: &Pool,
    (on_shared, on_pool): (&Written, &Written),
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        let (one, other) = tokio::join!(
            shared.run(incr("multiplexed")),
            shared.run(incr("multiplexed")),
        );
        on_shared.count(one);
        on_shared.count(other);
        let mut borrowed = pool.get().await.unwrap();
        on_pool.count(borrowed.run(incr("pool")).await);
    }
}

struct EndOnDrop<'o>(&'o AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn connections_move_although_no_subscription_lives_through_the_failover() {
    let topology = shared();
    let old = topology.master();
    let runtime = runtime();
    // The reads that are under way are sent again, so that each of them succeeds.
    let connection = runtime.block_on(topology.client().multiplexed()).unwrap();
    topology.begin_failover();
    let deadline = Instant::now() + PATIENCE;
    let port = topology.servers[old].port();
    loop {
        // The listeners of the client, but not the sentinels' own connections among each other.
        for sentinel in &topology.sentinels {
            kill_ours(sentinel);
        }
        let now = topology.sentinels[2].ask_lines("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
        if now.last().is_some_and(|named| *named != port.to_string()) {
            break;
        }
        assert!(Instant::now() < deadline);
    }
    let new = topology.wait_for_switch(old);
    runtime.block_on(connection.run(incr("moved"))).unwrap();
    // The old master takes writes until it has heard of the other one.
    wait_for("the new master has a connection", || {
        runtime
            .block_on(connection.run(get::<Option<i64>>("moved")))
            .unwrap();
        topology.servers[new].connections() >= 1
    });
    wait_for("the old master has no connection", || {
        topology.servers[old].connections() == 0
    });
}

/// Closes the client's connections to a sentinel.
fn kill_ours(sentinel: &crate::topology::Server) {
    for line in sentinel.ask_lines("CLIENT LIST") {
        if line.contains(&format!("name={OURS}"))
            && let Some(id) = line.split(' ').find_map(|word| word.strip_prefix("id="))
        {
            sentinel.ask(&format!("CLIENT KILL ID {id}"));
        }
    }
}

#[test]
fn second_failover_right_after_the_first_leaks_no_connection() {
    let topology = shared();
    let client = topology.client();
    let runtime = runtime();
    let limits = Limits {
        min: 3,
        max: 3,
        ..Limits::default()
    };
    let pool = runtime.block_on(client.pool(limits)).unwrap();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let mut blocking = client.blocking().unwrap();
    let mut master = topology.master();
    for _ in 0..2 {
        topology.begin_failover();
        master = topology.wait_for_switch(master);
    }
    blocking.run(incr("n")).unwrap();
    runtime.block_on(connection.run(incr("n"))).unwrap();
    let mut borrowed = runtime.block_on(pool.get()).unwrap();
    runtime.block_on(borrowed.run(incr("n"))).unwrap();
    let everywhere = |topology: &Topology| {
        let servers = topology.servers.iter().map(|server| server.connections());
        servers.collect::<Vec<_>>()
    };
    let mut expected = vec![0; 3];
    expected[master] = 5;
    wait_for(
        "five connections are at the new master and none elsewhere",
        || everywhere(&topology) == expected,
    );
    for sentinel in &topology.sentinels {
        wait_for("each sentinel has one connection", || {
            sentinel.connections() == 1
        });
    }
    drop((client, pool, connection, blocking, borrowed));
    for sentinel in &topology.sentinels {
        wait_for("the listeners end with the client", || {
            sentinel.connections() == 0
        });
    }
}

#[test]
fn frozen_master_is_left_although_its_sockets_stay_open() {
    let topology = shared();
    let old = topology.master();
    let runtime = runtime();
    let client = topology.client();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let mut blocking = client.blocking().unwrap();
    let mut subscriber = runtime.block_on(client.pubsub()).unwrap();
    runtime.block_on(subscriber.subscribe("c")).unwrap();
    topology.servers[old].signal(Signal::STOP);
    let frozen = Instant::now();
    std::thread::scope(|scope| {
        // Their response timeout is far longer than the failover.
        let read = scope.spawn(move || blocking.run(get::<Option<i64>>("n")).map(|_| blocking));
        let write = runtime.block_on(connection.run(incr("n")));
        let error = write.unwrap_err();
        assert!(
            error.maybe_executed(),
            "it was written to the frozen master: {error}"
        );
        assert!(
            error.to_string().contains("sentinels name another server"),
            "{error}"
        );
        runtime.block_on(connection.run(incr("n"))).unwrap();
        let mut blocking = read.join().unwrap().unwrap();
        blocking.run(incr("n")).unwrap();
        let gap = runtime.block_on(subscriber.next());
        assert!(matches!(gap, Some(Event::Resubscribed { .. })), "{gap:?}");
    });
    assert!(frozen.elapsed() < PATIENCE / 2);
    topology.servers[old].signal(Signal::CONT);
}

#[test]
fn reads_go_to_replicas_and_leave_one_that_is_promoted() {
    let topology = shared();
    let old = topology.master();
    let sentinel = topology.sentinel().role(Role::Replica);
    let builder = topology.builder().address(Address::Sentinel(sentinel));
    let client = builder.retry(RetryPolicy::ReadOnly).build();
    let mut readers: Vec<blocking::Connection> =
        (0..4).map(|_| client.blocking().unwrap()).collect();
    let at = |topology: &Topology| {
        let servers = topology.servers.iter().map(|server| server.connections());
        servers.collect::<Vec<_>>()
    };
    let mut expected = vec![2; 3];
    expected[old] = 0;
    assert_eq!(at(&topology), expected, "in turn");
    let refused = readers[0].run(set("k", 1));
    assert!(refused.unwrap_err().is_server_code("READONLY"));
    topology.begin_failover();
    let new = topology.wait_for_switch(old);
    wait_for("reads leave the new master", || {
        readers
            .iter_mut()
            .for_each(|reader| drop(reader.run(exists("k"))));
        at(&topology)[new] == 0
    });
}

#[test]
fn sentinel_that_was_cut_off_is_not_believed() {
    let topology = shared();
    let old = topology.master();
    topology.sentinels[0].signal(Signal::STOP);
    topology.begin_failover();
    let new = topology.wait_for_switch(old);
    topology.sentinels[0].signal(Signal::CONT);
    // It is the first in the URL, and may still name the old master.
    let mut connection = topology.client().blocking().unwrap();
    connection.run(set("k", 1)).unwrap();
    assert_eq!(topology.servers[new].connections(), 1);
}

#[test]
fn servers_are_reached_by_other_addresses_than_the_sentinels_name() {
    let topology = shared();
    let seeds = ["first.invalid", "second.invalid"].map(|host| Node::new(host, 1));
    let mut sentinel = loadline_client::sentinel::Sentinel::new("mymaster", seeds.clone());
    for (seed, server) in seeds.into_iter().zip(&topology.sentinels) {
        sentinel = sentinel.reach(seed, server.node());
    }
    let mut entrances = Vec::new();
    for server in &topology.servers {
        let route = Route::from_loopback(SocketAddr::from(([127, 0, 0, 1], server.port())).into());
        let entrance = Proxy::start(&[route], Shape::default()).unwrap();
        let [loadline_link::address::Address::Tcp(address)] = entrance.addresses() else {
            unreachable!("it has one address, of loopback");
        };
        sentinel = sentinel.reach(server.node(), Node::new("localhost", address.port()));
        entrances.push(entrance);
    }
    let client = Client::builder()
        .address(Address::Sentinel(sentinel))
        .build();
    let mut connection = client.blocking().unwrap();
    connection.run(incr("n")).unwrap();
    let old = topology.master();
    assert_eq!(entrances[old].stats().connections, 1);
    topology.begin_failover();
    let new = topology.wait_for_switch(old);
    wait_for("writes go through the entrance of the new master", || {
        connection.run(incr("n")).is_ok() && entrances[new].stats().connections > 0
    });
}

/// The time of a short wait in which nothing should happen.
pub(crate) const MOMENT: Duration = Duration::from_millis(300);
