use std::time::{Duration, Instant};

use super::*;
use crate::keys::KeyDist;
use crate::pacing::{ArrivalProcess, Pacing, Stop};
use crate::values::{ValueData, ValueSize, Values};
use crate::workload::{Command, Digits, KeySpace, Number, Part};

/// Keeps the payload of every key it is asked for; what it does wrong is what a test says.
struct Fake {
    keys: [u64; AHEAD],
    payload: Vec<u8>,
    values: Values,
    performed: u64,
    prepare_takes: Duration,
    perform_takes: Duration,
    every_tenth: Option<Reply<'static>>,
    per_call: u64,
}

const BYTES: u64 = 32;

fn values() -> Values {
    Values::new(ValueSize::Fixed(BYTES), ValueData::Random, 5).unwrap()
}

impl Fake {
    fn new() -> Self {
        Self {
            keys: [0; AHEAD],
            payload: Vec::new(),
            values: values(),
            performed: 0,
            prepare_takes: Duration::ZERO,
            perform_takes: Duration::ZERO,
            every_tenth: None,
            per_call: 1,
        }
    }
}

fn busy(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Callee for Fake {
    fn ops_per_call(&self) -> u64 {
        self.per_call
    }

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        self.keys[place] = chooser.number(Number::Key, workload.keys());
        busy(self.prepare_takes);
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        busy(self.perform_takes);
        self.performed += 1;
        if let Some(reply) = self.every_tenth
            && self.performed.is_multiple_of(10)
        {
            return reply;
        }
        self.payload.clear();
        self.values.append(self.keys[place], &mut self.payload);
        Reply::Payload(&self.payload)
    }
}

fn workload() -> Workload {
    let get = Command {
        name: "GET".into(),
        weight: 1,
        parts: vec![Part::Number(Number::Key, Digits::Eight)],
        replies: 1,
        reads: true,
        returns_payload: true,
    };
    let keys = KeySpace::new(&KeyDist::Uniform, 1_000, 0).unwrap();
    Workload::new(vec![get], keys, values()).unwrap()
}

fn run(callees: Vec<Fake>, verify: bool, pacing: Pacing, stop: Stop) -> Outcome {
    let block = Block {
        pacing,
        stop,
        interval: Duration::from_millis(10),
        seed: 1,
    };
    Callers::new(workload(), callees, verify, 3)
        .unwrap()
        .run(&block, &Control::default())
        .unwrap()
}

#[test]
fn every_operation_is_performed_and_counted_once() {
    for verify in [false, true] {
        let outcome = run(
            vec![Fake::new(), Fake::new()],
            verify,
            Pacing::Closed,
            Stop::after_ops(10_001),
        );
        assert_eq!((outcome.ops, outcome.reads), (10_001, 10_001));
        assert_eq!(outcome.errors.total(), 0);
        let in_series: u64 = outcome.series.iter().map(|interval| interval.ops).sum();
        assert_eq!(in_series, 10_001);
        if verify {
            assert_eq!(outcome.response.count(), 10_001);
        } else {
            assert!((1..10_001).contains(&outcome.response.count()));
        }
    }
}

#[test]
fn call_of_many_operations_counts_them_all() {
    let fake = Fake {
        per_call: 100,
        perform_takes: Duration::from_micros(50),
        ..Fake::new()
    };
    let outcome = run(vec![fake], false, Pacing::Closed, Stop::after_ops(10_000));
    assert_eq!((outcome.ops, outcome.reads), (10_000, 10_000));
    assert_eq!(outcome.response.count(), 10_000);
    assert!(outcome.response.value_at(0.5).unwrap() >= 50_000);
}

#[test]
fn errors_misses_and_wrong_payloads_are_counted_apart() {
    for (reply, errors, nils) in [
        (Reply::Error(b"WRONGTYPE x"), vec![("WRONGTYPE", 100)], 0),
        (Reply::Nil, vec![], 100),
        (
            Reply::Payload(b"somebody else's"),
            vec![("MISMATCH", 100)],
            0,
        ),
    ] {
        let fake = Fake {
            every_tenth: Some(reply),
            ..Fake::new()
        };
        let outcome = run(vec![fake], true, Pacing::Closed, Stop::after_ops(1_000));
        assert_eq!(outcome.errors.iter().collect::<Vec<_>>(), errors);
        assert_eq!(outcome.nils, nils);
    }
}

/// Making an operation ready takes ten times as long as performing it, and must not be seen: what it
/// takes at least is missing in the measured time, however busy the machine is.
#[test]
fn preparation_is_not_measured() {
    let fake = Fake {
        prepare_takes: Duration::from_micros(100),
        perform_takes: Duration::from_micros(10),
        ..Fake::new()
    };
    let ready = fake.prepare_takes * 2_000;
    let begun = Instant::now();
    let outcome = run(vec![fake], false, Pacing::Closed, Stop::after_ops(2_000));
    let elapsed = begun.elapsed();
    assert!(outcome.duration >= Duration::from_micros(10) * 2_000);
    assert!(
        outcome.duration + ready <= elapsed,
        "{:?} of {elapsed:?}",
        outcome.duration
    );
    assert!(outcome.response.value_at(0.5).unwrap() < 100_000);
}

#[test]
fn open_loop_counts_from_the_intended_start() {
    // 1,000 per second are planned, and 500 per second can be. The overtime is half of the block, so 75 of the
    // hundred start, or fewer where the machine pauses; one that paused for most of the block shows nothing.
    let fake = || Fake {
        perform_takes: Duration::from_millis(2),
        ..Fake::new()
    };
    let pacing = Pacing::Open {
        rate: 1_000.0,
        arrivals: ArrivalProcess::Uniform,
    };
    let stop = Stop::after(Duration::from_millis(100));
    let until = Instant::now() + Duration::from_secs(60);
    let outcome = loop {
        let outcome = run(vec![fake()], false, pacing, stop);
        assert_eq!(outcome.planned, Some(100));
        assert_eq!(outcome.ops + outcome.not_sent, 100);
        if outcome.ops >= 20 {
            break outcome;
        }
        assert!(Instant::now() < until, "{} operations", outcome.ops);
    };
    // The end of the last one is 2 ms after its start for each of them, and the intended start 1 ms.
    let (response, service) = (outcome.response.summary(), outcome.service.summary());
    let least = outcome.ops * 1_000_000;
    assert!(response.max >= Some(least), "{response:?} {service:?}");
    assert!(response.mean > service.mean);
}

#[test]
fn open_loop_that_is_far_behind_ends_with_its_block() {
    let fake = Fake {
        perform_takes: Duration::from_millis(2),
        ..Fake::new()
    };
    let pacing = Pacing::Open {
        rate: 100_000.0,
        arrivals: ArrivalProcess::Uniform,
    };
    let outcome = run(
        vec![fake],
        false,
        pacing,
        Stop::after(Duration::from_secs(1)),
    );
    assert_eq!(outcome.ops + outcome.not_sent, 100_000);
    // At least 2 ms each, and the last one may begin at the end. The overtime, half a second, has room for 250 more.
    assert!((1..=501).contains(&outcome.ops), "{}", outcome.ops);
}

#[test]
fn interrupt_ends_a_block_of_slow_calls() {
    let fake = Fake {
        perform_takes: Duration::from_millis(1),
        ..Fake::new()
    };
    let control = Control::default();
    control
        .interrupt
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let block = Block {
        pacing: Pacing::Closed,
        stop: Stop::after(Duration::from_secs(60)),
        interval: Duration::from_millis(10),
        seed: 1,
    };
    let outcome = Callers::new(workload(), vec![fake], false, 3)
        .unwrap()
        .run(&block, &control)
        .unwrap();
    assert!(outcome.cut_short);
    assert_eq!(outcome.ops, 0);
}

/// Counts on what `arm` leaves behind, which takes far longer than the call.
struct Armed {
    armed: bool,
}

impl Callee for Armed {
    const ARMS: bool = true;

    fn prepare(&mut self, _: usize, _: usize, _: &mut Chooser, _: &Workload) {}

    fn arm(&mut self, _: usize) {
        busy(Duration::from_micros(100));
        self.armed = true;
    }

    fn perform(&mut self, _: usize) -> Reply<'_> {
        if std::mem::take(&mut self.armed) {
            Reply::Other
        } else {
            Reply::Error(b"UNARMED")
        }
    }
}

#[test]
fn every_call_is_armed_and_arming_is_not_timed() {
    for pacing in [
        Pacing::Closed,
        Pacing::Open {
            rate: 5_000.0,
            arrivals: ArrivalProcess::Uniform,
        },
    ] {
        let block = Block {
            pacing,
            stop: Stop::after_ops(500),
            interval: Duration::from_millis(10),
            seed: 1,
        };
        let outcome = Callers::new(workload(), vec![Armed { armed: false }], false, 3)
            .unwrap()
            .run(&block, &Control::default())
            .unwrap();
        assert_eq!((outcome.ops, outcome.errors.total()), (500, 0));
        // Each is timed by itself, though it takes next to no time.
        assert_eq!(outcome.service.count(), 500);
        let median = outcome.service.quantile(0.5).unwrap();
        assert!(median < 50_000, "{pacing:?}: {median} ns");
    }
}
