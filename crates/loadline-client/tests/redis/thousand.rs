//! A thousand faults of all kinds, under writers whose counters tell what was executed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::incr;
use loadline_client::{Client, Error, blocking, cmd, multiplexed};
use rustix::process::Signal;

use crate::faults::{Cutter, judge};
use crate::server::Redis;

const FAULTS: u64 = 1000;
const TASKS: u64 = 10;
/// Less than a server is stopped for.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(40);
const STOPPED: Duration = Duration::from_millis(60);

type Results = HashMap<String, Result<i64, Error>>;

/// Increments each of its counters once per turn until stopped.
async fn write(connection: multiplexed::Connection, task: u64, stop: Arc<AtomicBool>) -> Results {
    let mut told = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        let key = format!("{task}:{}", told.len());
        let result = connection.run(incr(&key)).await;
        told.insert(key, result);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    told
}

fn write_blocking(connection: &mut blocking::Connection, stop: &AtomicBool) -> Results {
    let mut told = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        let key = format!("blocking:{}", told.len());
        let result = connection.run(incr(&key));
        told.insert(key, result);
        std::thread::sleep(Duration::from_millis(1));
    }
    told
}

/// Faults that took place.
#[derive(Debug, Default)]
struct Faults {
    killed: u64,
    cut: u64,
    stopped: u64,
}

impl Faults {
    fn all(&self) -> u64 {
        self.killed + self.cut + self.stopped
    }
}

/// Kills all connections but its own, cuts a reply after its request was executed, or stops the server for
/// longer than the response timeout. A fault that affected no connection is not counted.
fn inject(redis: &Redis, cutter: &Cutter) -> Faults {
    let mut own = redis.client().blocking().unwrap();
    let mut faults = Faults::default();
    let mut turn = 0u64;
    while faults.all() < FAULTS {
        turn += 1;
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
            }
            _ => {
                let before = cutter.cuts();
                cutter.cut_next();
                let begun = Instant::now();
                while cutter.cuts() == before && begun.elapsed() < Duration::from_secs(1) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                faults.cut += cutter.cuts() - before;
            }
        }
        // So that there is something in flight again.
        std::thread::sleep(Duration::from_millis(6));
    }
    faults
}

#[test]
fn no_write_is_repeated_and_none_is_lost_unreported_in_a_thousand_faults() {
    let redis = Redis::start();
    let cutter = Cutter::start(redis.address(), u64::MAX);
    let builder = Client::builder().url(&cutter.url()).unwrap();
    let client = builder.response_timeout(Some(RESPONSE_TIMEOUT)).build();
    let mut blocking = client.blocking().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| runtime.spawn(write(connection.clone(), task, Arc::clone(&stop))))
        .collect();
    let thread = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || write_blocking(&mut blocking, &stop))
    };
    let begun = Instant::now();
    let faults = inject(&redis, &cutter);
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
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
    assert!(
        sum.done > FAULTS && sum.maybe >= faults.cut,
        "the faults met writes"
    );
}
