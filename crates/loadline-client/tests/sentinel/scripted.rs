//! Moments that real servers are in for too short a time: a sentinel and two masters that answer as the test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use loadline_client::commands::*;
use loadline_client::testing::{FakeServer, ok, text};
use loadline_client::{Client, OwnedReply, blocking};

use crate::topology::{runtime, wait_for};

/// A sentinel that names one of two servers, of which one is the master.
struct Stage {
    /// The server that the sentinel names, and the number of the failover.
    named: Arc<(AtomicUsize, AtomicU64)>,
    /// The server that is the master by its own account.
    roles: [Arc<AtomicBool>; 2],
    /// Whether writes are accepted.
    writes: [Arc<AtomicBool>; 2],
    servers: [FakeServer; 2],
    sentinel: FakeServer,
}

impl Stage {
    fn open() -> Self {
        let flags = || [true, false].map(|first| Arc::new(AtomicBool::new(first)));
        let (roles, writes) = (flags(), flags());
        let server = |place: usize| {
            let (role, accepts) = (Arc::clone(&roles[place]), Arc::clone(&writes[place]));
            let mut count = 0;
            FakeServer::start(move |command| match &command[0][..] {
                b"ROLE" if role.load(Ordering::SeqCst) => OwnedReply::Array(vec![text("master")]),
                b"ROLE" => OwnedReply::Array(vec![text("slave")]),
                b"GET" => text("value"),
                _ if !accepts.load(Ordering::SeqCst) => {
                    let refused = "READONLY You can't write against a read only replica.";
                    OwnedReply::Error(refused.into())
                }
                b"INCR" => {
                    count += 1;
                    OwnedReply::Integer(count)
                }
                _ => ok(),
            })
            .unwrap()
        };
        let servers = [server(0), server(1)];
        let ports = servers.each_ref().map(|server| {
            let port = server.url().rsplit(':').next();
            port.unwrap().to_owned()
        });
        let named = Arc::new((AtomicUsize::new(0), AtomicU64::new(1)));
        let telling = Arc::clone(&named);
        let sentinel = FakeServer::start(move |command| {
            let port = text(ports[telling.0.load(Ordering::SeqCst)].clone());
            let epoch = telling.1.load(Ordering::SeqCst).to_string();
            match command.get(1).map(|word| &word[..]) {
                Some(b"GET-MASTER-ADDR-BY-NAME") => {
                    OwnedReply::Array(vec![text("127.0.0.1"), port])
                }
                Some(b"MASTER") => OwnedReply::Array(vec![text("config-epoch"), text(epoch)]),
                Some(b"MYID") => text("a-sentinel"),
                // The confirmation of a subscription, whatever it says.
                _ if command[0] == "SUBSCRIBE" => OwnedReply::Push(vec![text("subscribe")]),
                _ => OwnedReply::Array(Vec::new()),
            }
        })
        .unwrap();
        Self {
            named,
            roles,
            writes,
            servers,
            sentinel,
        }
    }

    fn client(&self) -> Client {
        let url = self.sentinel.url().replace("redis://", "sentinel://");
        Client::open(&format!("{url}/m")).unwrap()
    }

    fn name(&self, place: usize) {
        self.named.0.store(place, Ordering::SeqCst);
        self.named.1.fetch_add(1, Ordering::SeqCst);
    }

    /// Only this server accepts writes from now on.
    fn promote(&self, place: usize) {
        for (other, accepts) in self.writes.iter().enumerate() {
            accepts.store(other == place, Ordering::SeqCst);
        }
        for (other, role) in self.roles.iter().enumerate() {
            role.store(other == place, Ordering::SeqCst);
        }
    }

    /// Numbers of INCR that each server was sent.
    fn increments(&self) -> [usize; 2] {
        self.servers.each_ref().map(|server| {
            let commands = server.commands();
            commands
                .iter()
                .filter(|command| command[0] == "INCR")
                .count()
        })
    }
}

/// Runs a write while the servers change places, on both kinds of connection.
fn each_way(write: impl Fn(&mut Way)) {
    let runtime = runtime();
    let stage = Stage::open();
    let connection = Box::new(stage.client().blocking().unwrap());
    write(&mut Way::Blocking(connection, &stage));
    let stage = Stage::open();
    let connection = runtime.block_on(stage.client().multiplexed()).unwrap();
    write(&mut Way::Multiplexed(connection, &runtime, &stage));
}

enum Way<'s> {
    Blocking(Box<blocking::Connection>, &'s Stage),
    Multiplexed(
        loadline_client::multiplexed::Connection,
        &'s tokio::runtime::Runtime,
        &'s Stage,
    ),
}

impl Way<'_> {
    fn stage(&self) -> &Stage {
        match self {
            Self::Blocking(_, stage) | Self::Multiplexed(_, _, stage) => stage,
        }
    }

    fn run<Q: loadline_client::Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Blocking(connection, _) => connection.run(request),
            Self::Multiplexed(connection, runtime, _) => runtime.block_on(connection.run(request)),
        }
    }
}

#[test]
fn refused_write_is_sent_to_the_new_master_and_runs_once() {
    each_way(|way| {
        assert_eq!(way.run(incr("n")).unwrap(), 1);
        way.stage().promote(1);
        // The sentinel learns of it later than the client, which asks again.
        let named = Arc::clone(&way.stage().named);
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            named.0.store(1, Ordering::SeqCst);
            named.1.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(way.run(incr("n")).unwrap(), 1);
        late.join().unwrap();
        assert_eq!(way.stage().increments(), [2, 1]);
    });
}

#[test]
fn refused_pipeline_runs_as_a_whole_at_the_new_master() {
    each_way(|way| {
        way.stage().promote(1);
        way.stage().name(1);
        let (value, count) = way.run((get::<String>("k"), incr("n")));
        assert_eq!((value.unwrap().as_str(), count.unwrap()), ("value", 1));
    });
}

#[test]
fn server_that_is_named_before_its_promotion_gets_no_write() {
    each_way(|way| {
        let old = (&way.stage().roles[0], &way.stage().writes[0]);
        old.0.store(false, Ordering::SeqCst);
        old.1.store(false, Ordering::SeqCst);
        way.stage().name(1);
        way.stage().servers[0].disconnect();
        let roles = way.stage().roles.clone();
        let accepts = way.stage().writes.clone();
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            accepts[1].store(true, Ordering::SeqCst);
            roles[1].store(true, Ordering::SeqCst);
        });
        assert_eq!(
            way.run(set("k", 1)).map_err(|error| error.to_string()),
            Ok(())
        );
        late.join().unwrap();
        let sent = way.stage().servers[1].commands();
        let asked = sent.iter().filter(|command| command[0] == "ROLE").count();
        let set = sent.iter().filter(|command| command[0] == "SET").count();
        assert_eq!(set, 1);
        assert!(asked > 1, "it was asked for its role once per attempt");
        assert!(asked < 100, "{asked} attempts in 200 ms");
    });
}

#[test]
fn switch_that_happened_without_a_subscription_is_found_when_it_is_back() {
    each_way(|way| {
        way.run(incr("n")).unwrap();
        way.stage().promote(1);
        way.stage().name(1);
        // The old master stays reachable, and nobody says anything.
        way.stage().sentinel.disconnect();
        // Some reads go to the old master, until the sentinel was asked again and its reply was read.
        wait_for("the new master is read from", || {
            way.run(get::<String>("k")).unwrap();
            let sent = way.stage().servers[1].commands();
            sent.iter().any(|command| command[0] == "GET")
        });
        assert_eq!(way.run(incr("n")).unwrap(), 1);
        assert_eq!(
            way.stage().increments(),
            [1, 1],
            "no write met the old master"
        );
    });
}
