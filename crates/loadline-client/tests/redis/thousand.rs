//! A thousand faults of all kinds, with writers whose counters show what was executed, and with subscribers to
//! numbered messages, which show what was lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::{incr, incr_by, publish};
use loadline_client::pubsub::{Event, PubSub};
use loadline_client::{Client, Cmd, Error, RetryPolicy, blocking, cmd, multiplexed};
use rustix::process::Signal;

use crate::cutter::Cutter;
use crate::faults::judge;
use crate::server::Redis;

const FAULTS: u64 = 1000;
const TASKS: u64 = 10;
/// Messages that are published before each fault, and after it.
const MESSAGES: u64 = 4;
/// The number of the last message.
const END: u64 = u64::MAX;
/// Far beyond the time that a message takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Less than a server is stopped for.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(40);
const STOPPED: Duration = Duration::from_millis(60);

type Results = HashMap<String, Result<i64, Error>>;

/// The orders of the test to its writers.
#[derive(Default)]
struct Orders {
    stop: AtomicBool,
    /// One of them sends its next increment as `INCRBY`, whose reply is cut.
    cut: AtomicBool,
}

impl Orders {
    /// The next increment of a writer.
    fn increment(&self, key: &str) -> Cmd<i64> {
        if self.cut.swap(false, Ordering::Relaxed) {
            return incr_by(key, 1).into();
        }
        incr(key).into()
    }
}

/// Increments each of its counters once per turn until stopped.
async fn write(connection: multiplexed::Connection, task: u64, orders: Arc<Orders>) -> Results {
    let mut told = HashMap::new();
    while !orders.stop.load(Ordering::Relaxed) {
        let key = format!("{task}:{}", told.len());
        let result = connection.run(orders.increment(&key)).await;
        told.insert(key, result);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    told
}

fn write_blocking(connection: &mut blocking::Connection, orders: &Orders) -> Results {
    let mut told = HashMap::new();
    while !orders.stop.load(Ordering::Relaxed) {
        let key = format!("blocking:{}", told.len());
        let result = connection.run(orders.increment(&key));
        told.insert(key, result);
        std::thread::sleep(Duration::from_millis(1));
    }
    told
}

/// Counts of the messages that a subscriber received.
#[derive(Debug, Default)]
struct Received {
    messages: u64,
    missing: u64,
    outages: u64,
    /// The number that comes next if nothing is lost.
    due: u64,
    /// Whether an outage was reported since the last message.
    announced: bool,
}

impl Received {
    /// Takes an event; messages come in order, once, and each gap is announced where it is. True with the last.
    fn take(&mut self, event: Event) -> bool {
        let message = match event {
            Event::Message(message) => message,
            Event::Resubscribed { .. } => {
                (self.announced, self.outages) = (true, self.outages + 1);
                return false;
            }
            other => panic!("{other:?}"),
        };
        let number: u64 = std::str::from_utf8(&message.payload)
            .unwrap()
            .parse()
            .unwrap();
        if number == END {
            return true;
        }
        let due = self.due;
        assert!(number >= due, "{number} came twice or late, {due} was due");
        assert!(
            number == due || self.announced,
            "{due} to {number} are missing without an event that says so"
        );
        self.messages += 1;
        self.missing += number - due;
        (self.due, self.announced) = (number + 1, false);
        false
    }
}

async fn receive(mut pubsub: PubSub) -> Received {
    let mut received = Received::default();
    loop {
        let event = tokio::time::timeout(PATIENCE, pubsub.next()).await;
        if received.take(event.expect("an event in time").expect("a driver")) {
            return received;
        }
    }
}

fn receive_blocking(pubsub: &mut blocking::PubSub) -> Received {
    let mut received = Received::default();
    loop {
        let event = pubsub.next(PATIENCE);
        if received.take(event.expect("an event in time")) {
            return received;
        }
    }
}

/// Faults that took place.
#[derive(Debug, Default)]
struct Faults {
    killed: u64,
    cut: u64,
    stopped: u64,
    /// Connections with subscriptions that were replaced, in addition.
    subscribers: u64,
}

impl Faults {
    fn all(&self) -> u64 {
        self.killed + self.cut + self.stopped
    }
}

/// Kills all connections but its own, cuts a reply after its request was executed, or stops the server for
/// longer than the response timeout. A fault that affected no connection is not counted. Messages with rising
/// numbers are published meanwhile; their connections are killed too, or cut with messages in flight.
fn inject(redis: &Redis, cutter: &Cutter, messages: &Cutter, orders: &Orders) -> Faults {
    let mut own = redis.client().blocking().unwrap();
    let mut faults = Faults::default();
    let mut turn = 0u64;
    let mut numbers = 0..END;
    while faults.all() < FAULTS {
        turn += 1;
        tell(&mut own, numbers.by_ref().take(MESSAGES as usize));
        match turn % 20 {
            0 => {
                redis.signal(Signal::STOP);
                std::thread::sleep(STOPPED);
                redis.signal(Signal::CONT);
                faults.stopped += 1;
            }
            odd if odd % 2 == 1 => {
                let kill = cmd::<u64>("CLIENT").arg(("KILL", "TYPE", "normal", "SKIPME", "yes"));
                faults.killed += u64::from(own.run(kill).unwrap() > 0);
                let kill = cmd::<u64>("CLIENT").arg(("KILL", "TYPE", "pubsub"));
                own.run(kill).unwrap();
            }
            _ => {
                let before = cutter.cuts();
                orders.cut.store(true, Ordering::Relaxed);
                messages.cut_all();
                let begun = Instant::now();
                while cutter.cuts() == before && begun.elapsed() < Duration::from_secs(1) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                faults.cut += cutter.cuts() - before;
            }
        }
        tell(&mut own, numbers.by_ref().take(MESSAGES as usize));
        // So that there is something in flight again.
        std::thread::sleep(Duration::from_millis(6));
    }
    // All but the first of each subscriber.
    faults.subscribers = messages.connections() - 2;
    faults
}

/// Publishes the numbers.
fn tell(own: &mut blocking::Connection, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        own.run(publish("numbers", number)).unwrap();
    }
}

/// Publishes the last number until `heard` by all, since each may be between two connections.
fn end(redis: &Redis, heard: impl Fn() -> bool) {
    let mut own = redis.client().blocking().unwrap();
    while !heard() {
        tell(&mut own, std::iter::once(END));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_write_is_repeated_and_nothing_is_lost_unreported_in_a_thousand_faults() {
    let redis = Redis::start();
    let cutter = Cutter::start(redis.address(), "INCRBY", 1);
    let builder = Client::builder().url(&cutter.url()).unwrap();
    let client = builder.response_timeout(Some(RESPONSE_TIMEOUT)).build();
    let mut blocking = client.blocking().unwrap();
    let messages = Cutter::on_demand(redis.address());
    let listener = messages.client(RetryPolicy::default());
    let orders = Arc::new(Orders::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| runtime.spawn(write(connection.clone(), task, Arc::clone(&orders))))
        .collect();
    let thread = {
        let orders = Arc::clone(&orders);
        std::thread::spawn(move || write_blocking(&mut blocking, &orders))
    };
    let pubsub = runtime.block_on(listener.pubsub()).unwrap();
    runtime.block_on(pubsub.subscribe("numbers")).unwrap();
    let subscriber = runtime.spawn(receive(pubsub));
    let mut pubsub = listener.blocking_pubsub().unwrap();
    pubsub.subscribe("numbers").unwrap();
    let blocking_subscriber = std::thread::spawn(move || receive_blocking(&mut pubsub));
    let begun = Instant::now();
    let faults = inject(&redis, &cutter, &messages, &orders);
    let took = begun.elapsed();
    orders.stop.store(true, Ordering::Relaxed);
    end(&redis, || {
        subscriber.is_finished() && blocking_subscriber.is_finished()
    });
    for received in [
        runtime.block_on(subscriber).unwrap(),
        blocking_subscriber.join().unwrap(),
    ] {
        println!("{received:?}");
        assert!(received.outages > 100 && received.messages > FAULTS);
    }
    let mut told = thread.join().unwrap();
    for task in tasks {
        told.extend(runtime.block_on(task).unwrap());
    }
    let writes = told.len();
    let sum = judge(&redis, told);
    println!(
        "{faults:?} in {took:.1?}; {writes} writes: {} done, {} perhaps, {} not executed",
        sum.done, sum.maybe, sum.not
    );
    assert!(faults.killed >= 300 && faults.cut >= 300 && faults.stopped >= 30);
    assert!(faults.subscribers >= 300);
    assert!(
        sum.done > FAULTS && sum.maybe >= faults.cut,
        "the faults met writes"
    );
}
