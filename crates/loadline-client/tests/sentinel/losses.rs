//! Masters that die: what happens to writes, and how soon they go on. The times are printed and not judged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::*;
use loadline_client::{Error, RetryPolicy};

use crate::topology::{PATIENCE, Topology, runtime, shared};

/// The number of failovers and of killed connections; the long setting gives times that can be compared.
fn repetitions() -> (usize, usize) {
    let long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    if long { (9, 99) } else { (1, 9) }
}

fn median_time(times: &[Duration]) -> Duration {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    Duration::from_secs_f64(loadline_measure::quantile::median(&seconds).expect("there are times"))
}

/// One writer of unique elements, and when each was acknowledged.
#[derive(Default)]
struct Log {
    acknowledged: Vec<(u64, Instant)>,
    unknown: Vec<u64>,
}

impl Log {
    fn note(&mut self, number: u64, outcome: Result<u64, Error>) {
        match outcome {
            Ok(_) => self.acknowledged.push((number, Instant::now())),
            Err(Error::Server(error)) => panic!("the caller got `{error}`"),
            Err(error) if error.maybe_executed() => self.unknown.push(number),
            // It did not run, and the next one is another.
            Err(_) => {}
        }
    }

    /// The first acknowledgement after this moment.
    fn first_after(&self, moment: Instant) -> Duration {
        let later = self.acknowledged.iter().find(|(_, at)| *at >= moment);
        later.expect("writes go on").1 - moment
    }
}

#[test]
fn writes_go_on_when_the_master_and_the_first_sentinel_die_together() {
    let runtime = runtime();
    let mut times = [const { Vec::new() }; 2];
    for round in 0..repetitions().0 {
        let mut topology = shared();
        let client = topology.builder().retry(RetryPolicy::ReadOnly).build();
        let connection = runtime.block_on(client.multiplexed()).unwrap();
        let mut blocking = client.blocking().unwrap();
        let (mut logs, over) = (<[Log; 2]>::default(), AtomicBool::new(false));
        let keys = [format!("blocking:{round}"), format!("multiplexed:{round}")];
        let up = std::thread::scope(|scope| {
            let [first, second] = &mut logs;
            scope.spawn(|| {
                for number in 0.. {
                    first.note(number, blocking.run(rpush(&keys[0], number)));
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            scope.spawn(|| {
                runtime.block_on(async {
                    for number in 0.. {
                        second.note(number, connection.run(rpush(&keys[1], number)).await);
                        if over.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                });
            });
            let up = kill_and_wait(&mut topology);
            std::thread::sleep(crate::failover::MOMENT);
            over.store(true, Ordering::Relaxed);
            up
        });
        for ((log, times), key) in logs.iter().zip(&mut times).zip(&keys) {
            times.push(log.first_after(up));
            let mut kept: Vec<u64> = runtime
                .block_on(connection.run(lrange(key, 0, -1)))
                .unwrap();
            let all = kept.len();
            kept.sort_unstable();
            kept.dedup();
            assert_eq!(kept.len(), all, "a write was executed twice");
            assert!(
                log.unknown.len() <= 1,
                "one writer has one write under way: {:?}",
                log.unknown
            );
        }
    }
    for (what, times) in ["blocking", "multiplexed"].into_iter().zip(times) {
        let (most, median) = (times.iter().max().copied(), median_time(&times));
        println!(
            "{what}: from the first write that the new master accepts to ours {median:?} (median), {most:?} (longest)"
        );
    }
}

/// Kills the master and the first sentinel. Returns the moment when another server accepts writes.
fn kill_and_wait(topology: &mut Topology) -> Instant {
    let master = topology.master();
    let others: Vec<usize> = (0..3).filter(|&place| place != master).collect();
    let mut probes: Vec<_> = others
        .iter()
        .map(|&place| {
            let url = format!("redis://127.0.0.1:{}", topology.servers[place].port());
            loadline_client::Client::open(&url)
                .unwrap()
                .blocking()
                .unwrap()
        })
        .collect();
    topology.servers[master].kill();
    topology.sentinels[0].kill();
    let deadline = Instant::now() + PATIENCE;
    loop {
        for probe in &mut probes {
            if probe.run(set("probe", 1)).is_ok() {
                return Instant::now();
            }
        }
        assert!(Instant::now() < deadline, "no replica is promoted");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn killed_connection_writes_again_at_once() {
    let topology = shared();
    let master = &topology.servers[topology.master()];
    let runtime = runtime();
    let client = topology.client();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let mut blocking = client.blocking().unwrap();
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..repetitions().1 {
        master.ask("CLIENT KILL TYPE normal");
        let killed = Instant::now();
        // The multiplexed connection sees it by itself; a write can meet the dead one before.
        while runtime.block_on(connection.run(incr("n"))).is_err() {}
        times[0].push(killed.elapsed());
        let begun = Instant::now();
        while blocking.run(incr("n")).is_err() {}
        times[1].push(begun.elapsed());
    }
    for (what, times) in ["multiplexed", "blocking"].into_iter().zip(times) {
        println!(
            "{what}: after CLIENT KILL a write in {:?} (median)",
            median_time(&times)
        );
    }
}
