//! Subscriptions on nodes that die and slots that move: messages go on, and no gap is silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_client::Error;
use loadline_client::cluster::{Builder, Cluster, Node, slot_of};
use loadline_client::commands::{publish, spublish};
use loadline_client::pubsub::{Event, Kind, Message, PubSub};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::nodes::{self, Server, runtime, shared};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);

async fn next(pubsub: &mut PubSub) -> Event {
    let event = timeout(LIMIT, pubsub.next()).await;
    event
        .expect("an event comes in time")
        .expect("the driver lives")
}

/// The number that a message is.
fn number(message: &Message) -> u64 {
    let text = std::str::from_utf8(&message.payload).unwrap();
    text.parse().unwrap()
}

/// Number of connections of a node that have subscribed to a channel.
fn subscribers(server: &Server, channel: &str) -> u64 {
    let counts = server.ask_lines(&format!("PUBSUB NUMSUB {channel}"));
    let count = counts.last().and_then(|count| count.strip_prefix(':'));
    count.unwrap().parse().unwrap()
}

/// Counts of the numbers of a row that were received or lost.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    due: u64,
    announced: bool,
    received: u64,
    missing: u64,
    /// Numbers that came once more right behind a gap.
    repeated: u64,
    gaps: u64,
}

impl Heard {
    /// Takes the next event; a number that is missing without an event that said so fails the test. Behind
    /// a gap there may be some that the new node hears of later than the old one did.
    fn take(&mut self, event: &Event) {
        match event {
            Event::Message(message) => {
                let (number, due) = (number(message), self.due);
                assert!(
                    number == due || self.announced,
                    "{number} came, {due} was due, without a report"
                );
                if number < due {
                    self.repeated += 1;
                    return;
                }
                self.received += 1;
                self.missing += number - due;
                (self.due, self.announced) = (number + 1, false);
            }
            Event::Resubscribed { .. } => (self.announced, self.gaps) = (true, self.gaps + 1),
            other => panic!("{other:?}"),
        }
    }
}

/// Publishes growing numbers until stopped, and returns how many.
fn publish_on<F>(
    stop: &Arc<AtomicBool>,
    publish: impl Fn(u64) -> F + Send + 'static,
) -> JoinHandle<u64>
where
    F: Future<Output = Result<u64, Error>> + Send,
{
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            let published = publish(number).await;
            // If the reply was lost, it is unknown whether the message was published; its number is not used again.
            if published.is_ok() || published.is_err_and(|error| error.maybe_executed()) {
                number += 1;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        number
    })
}

/// Publishes on the channel of a shard.
fn publish_on_shard(
    stop: &Arc<AtomicBool>,
    cluster: &Cluster,
    channel: &'static str,
) -> JoinHandle<u64> {
    let cluster = cluster.clone();
    publish_on(stop, move |number| {
        let cluster = cluster.clone();
        async move { cluster.run(spublish(channel, number)).await }
    })
}

#[test]
fn every_kind_of_subscription_works_on_a_cluster() {
    runtime().block_on(async {
        let cluster = shared().builder().open().await.unwrap();
        let mut pubsub = cluster.pubsub().await.unwrap();
        pubsub.subscribe("c:news").await.unwrap();
        pubsub.psubscribe("c:n*").await.unwrap();
        let shards: Vec<String> = (0..30).map(|n| format!("c:shard:{n}")).collect();
        pubsub.ssubscribe(&shards).await.unwrap();
        let masters: std::collections::BTreeSet<Node> = shards
            .iter()
            .map(|shard| cluster.master_of(shard).unwrap())
            .collect();
        assert_eq!(masters.len(), 3, "the channels are spread over all masters");
        cluster.run(publish("c:news", "one")).await.unwrap();
        for kind in [Kind::Channel, Kind::Pattern] {
            match next(&mut pubsub).await {
                Event::Message(message) => {
                    assert_eq!((message.kind, &message.payload[..]), (kind, &b"one"[..]));
                }
                other => panic!("{other:?}"),
            }
        }
        for shard in &shards {
            let heard = cluster.run(spublish(shard, "two")).await.unwrap();
            assert_eq!(heard, 1, "one subscriber, on the node of the slot");
            match next(&mut pubsub).await {
                Event::Message(message) => {
                    assert_eq!(message.kind, Kind::Shard);
                    assert_eq!(message.channel, shard.as_bytes());
                }
                other => panic!("{other:?}"),
            }
        }
        pubsub.sunsubscribe(&shards).await.unwrap();
        pubsub.unsubscribe("c:news").await.unwrap();
        pubsub.punsubscribe("c:n*").await.unwrap();
        for shard in &shards {
            assert_eq!(cluster.run(spublish(shard, "three")).await.unwrap(), 0);
        }
        assert!(pubsub.try_next().is_none());
        // Connections to nodes that serve nothing of interest are closed.
        for server in shared().masters() {
            let begun = Instant::now();
            while server.list_clients("pubsub").contains("cmd=sunsubscribe") {
                assert!(begun.elapsed() < LIMIT, "a connection is left");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
}

#[test]
fn sharded_channel_follows_its_slot_and_reports_every_gap() {
    const MOVES: u64 = 6;
    let channel = "{pubsub:moves}";
    runtime().block_on(async {
        let cluster = shared().builder().open().await.unwrap();
        let mut pubsub = cluster.pubsub().await.unwrap();
        pubsub.ssubscribe(channel).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let publishing = publish_on_shard(&stop, &cluster, channel);
        let mut heard = Heard::default();
        let mut told = Vec::new();
        for moves in 0..=MOVES {
            // Between two moves, messages come again.
            let until = heard.received + 50;
            while heard.received < until || heard.gaps < moves {
                let event = next(&mut pubsub).await;
                if let Event::Resubscribed { outage } = event {
                    told.push(outage);
                }
                heard.take(&event);
            }
            if moves < MOVES {
                let slot = slot_of(channel.as_bytes());
                let moving = tokio::task::spawn_blocking(move || shared().move_slot(slot));
                moving.await.unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        let published = publishing.await.unwrap();
        while heard.due < published {
            heard.take(&next(&mut pubsub).await);
        }
        println!("{MOVES} moves of a slot: {heard:?} of {published}, gaps told {told:?}");
        assert_eq!(heard.received + heard.missing, published);
        assert_eq!(heard.repeated, 0, "only the node of the slot has it");
    });
}

#[test]
fn subscriptions_go_on_elsewhere_when_their_nodes_are_killed() {
    let mut servers = nodes::Cluster::start();
    runtime().block_on(async {
        let cluster = servers.builder().open().await.unwrap();
        let mut shards = cluster.pubsub().await.unwrap();
        shards.ssubscribe("{pubsub:lost}").await.unwrap();
        // The master of the sharded channel, and the node of a plain subscription, without which a replica
        // can still take over: one of another master's replicas.
        let lost = cluster.master_of("{pubsub:lost}").unwrap();
        let heir = cluster.replicas_of("{pubsub:lost}")[0].clone();
        let (mut channels, on) = loop {
            let channels = cluster.pubsub().await.unwrap();
            channels.subscribe("plain").await.unwrap();
            let on = servers.find(|server| subscribers(server, "plain") == 1);
            if on != heir && !cluster.masters().contains(&on) {
                break (channels, on);
            }
            channels.unsubscribe("plain").await.unwrap();
        };
        let stop = Arc::new(AtomicBool::new(false));
        let sharded = publish_on_shard(&stop, &cluster, "{pubsub:lost}");
        // Messages that go through one node keep their order.
        let through = servers.find(|server| ![&on, &lost].contains(&&server.node()));
        let through = cluster.connection(&through).await.unwrap();
        let plain = publish_on(&stop, move |number| {
            let through = through.clone();
            async move { through.run(publish("plain", number)).await }
        });
        let (mut of_shards, mut of_channels) = (Heard::default(), Heard::default());
        for _ in 0..100 {
            of_shards.take(&next(&mut shards).await);
            of_channels.take(&next(&mut channels).await);
        }
        servers.kill(&lost);
        servers.kill(&on);
        let killed = Instant::now();
        let after = (of_shards.received + 200, of_channels.received + 200);
        while of_shards.received < after.0 || of_shards.gaps == 0 {
            of_shards.take(&next(&mut shards).await);
            assert!(killed.elapsed() < LIMIT, "no gap was told: {of_shards:?}");
        }
        while of_channels.received < after.1 || of_channels.gaps == 0 {
            of_channels.take(&next(&mut channels).await);
            assert!(killed.elapsed() < LIMIT, "no gap was told: {of_channels:?}");
        }
        println!(
            "after SIGKILL of {lost} and {on}: sharded {of_shards:?}, plain {of_channels:?}, {:?}",
            killed.elapsed()
        );
        stop.store(true, Ordering::Relaxed);
        sharded.await.unwrap();
        plain.await.unwrap();
        assert!(cluster.master_of("{pubsub:lost}").unwrap() != lost);
    });
}

#[test]
fn one_thread_hears_all_nodes_follows_slots_and_tells_gaps() {
    let channel = "{pubsub:thread}";
    let named = format!("{}?client_name=one-thread", shared().url());
    let mut cluster = Builder::from_url(&named).unwrap().open_blocking().unwrap();
    let mut pubsub = cluster.pubsub().unwrap();
    pubsub.subscribe("b:news").unwrap();
    let shards: Vec<String> = (0..12).map(|n| format!("b:shard:{n}")).collect();
    pubsub.ssubscribe(&shards).unwrap();
    pubsub.ssubscribe(channel).unwrap();
    for shard in &shards {
        assert_eq!(cluster.run(spublish(shard, "one")).unwrap(), 1);
        match pubsub.next(LIMIT) {
            Some(Event::Message(message)) => assert_eq!(message.channel, shard.as_bytes()),
            other => panic!("{other:?}"),
        }
    }
    cluster.run(publish("b:news", "two")).unwrap();
    match pubsub.next(LIMIT) {
        Some(Event::Message(message)) => assert_eq!(message.kind, Kind::Channel),
        other => panic!("{other:?}"),
    }
    shared().move_slot(slot_of(channel.as_bytes()));
    match pubsub.next(LIMIT) {
        Some(Event::Resubscribed { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(cluster.run(spublish(channel, "three")).unwrap(), 1);
    match pubsub.next(LIMIT) {
        Some(Event::Message(message)) => assert_eq!(&message.payload[..], b"three"),
        other => panic!("{other:?}"),
    }
    // The plain connection is killed, wherever it is, and comes back to another node.
    let on: Vec<&Server> = (shared().all())
        .filter(|server| subscribers(server, "b:news") == 1)
        .collect();
    assert_eq!(on.len(), 1, "{:?}", pubsub.outage());
    // Those of other tests, and one for channels of shards, can be on the same node.
    let clients = on[0].list_clients("pubsub");
    let is_it = |line: &&str| line.contains(" name=one-thread ") && line.contains(" sub=1 ");
    let its = clients.lines().find(is_it).unwrap();
    let id = its.split(' ').find_map(|field| field.strip_prefix("id="));
    on[0].ask(&format!("CLIENT KILL ID {}", id.unwrap()));
    match pubsub.next(LIMIT) {
        Some(Event::Resubscribed { .. }) => {}
        other => panic!("{other:?}"),
    }
    cluster.run(publish("b:news", "four")).unwrap();
    match pubsub.next(LIMIT) {
        Some(Event::Message(message)) => assert_eq!(&message.payload[..], b"four"),
        other => panic!("{other:?}"),
    }
    pubsub.sunsubscribe(&shards).unwrap();
    pubsub.unsubscribe("b:news").unwrap();
    assert_eq!(cluster.run(spublish(channel, "five")).unwrap(), 1);
    match pubsub.next(LIMIT) {
        Some(Event::Message(message)) => assert_eq!(&message.payload[..], b"five"),
        other => panic!("{other:?}"),
    }
}
