//! Sessions with a server that stops when a test says so. Its protocol is minimal: a request has eight bytes,
//! a reply one.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{iter, thread};

use super::*;
use crate::block::{Block, RESPONSE_TIMEOUT};
use crate::keys::KeyDist;
use crate::outcome::Outcome;
use crate::pacing::{ArrivalProcess, Pacing, Stop};
use crate::reply::{Reply, Tally};
use crate::stall::Stall;
use crate::values::{ValueData, ValueSize, Values};
use crate::workload::{Command, Digits, KeySpace, Number, Part, Workload};
use crate::{Control, Error};

/// Every byte is a reply.
pub(super) struct Bytes;

impl Framing for Bytes {
    fn feed(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), String> {
        tally.replies += bytes.len() as u64;
        Ok(())
    }

    fn first<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, Reply<'b>)>, String> {
        Ok((!bytes.is_empty()).then_some((1, Reply::Other)))
    }
}

/// One thread per connection; all stop together.
#[derive(Clone, Default)]
struct Server {
    frozen: Arc<AtomicBool>,
    /// The number of requests so far.
    requests: Arc<AtomicUsize>,
    /// The request at which it stops by itself.
    freezes_at: Option<usize>,
    /// The duration of a request.
    takes: Duration,
}

impl Server {
    fn serve(&self, mut stream: UnixStream) {
        let mut buffer = [0; 4_096];
        let mut rest = 0;
        while let Ok(bytes @ 1..) = Read::read(&mut stream, &mut buffer) {
            let requests = (rest + bytes) / 8;
            rest = (rest + bytes) % 8;
            thread::sleep(self.takes * requests as u32);
            let before = self.requests.fetch_add(requests, Ordering::Relaxed);
            if self
                .freezes_at
                .is_some_and(|at| (before..before + requests).contains(&at))
            {
                self.frozen.store(true, Ordering::Relaxed);
            }
            while self.frozen.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            let replies: Vec<u8> = iter::repeat_n(b'+', requests).collect();
            if stream.write_all(&replies).is_err() {
                return;
            }
        }
    }

    fn stream(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let server = self.clone();
        thread::spawn(move || server.serve(theirs));
        Ok(ours)
    }

    fn freeze(&self, time: Duration) -> Duration {
        let begun = Instant::now();
        self.frozen.store(true, Ordering::Relaxed);
        thread::sleep(time);
        let frozen = begun.elapsed();
        self.frozen.store(false, Ordering::Relaxed);
        frozen
    }
}

impl Connect for Server {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(self.stream()?))
    }
}

pub(super) fn workload() -> Workload {
    let command = Command {
        name: "GET".into(),
        weight: 1,
        parts: vec![Part::Number(Number::Key, Digits::Eight)],
        replies: 1,
        reads: true,
        returns_payload: false,
    };
    let keys = KeySpace::new(&KeyDist::Uniform, 1_000, 0).unwrap();
    let values = Values::new(ValueSize::Fixed(8), ValueData::Random, 1).unwrap();
    Workload::new(vec![command], keys, values).unwrap()
}

fn run(
    server: &impl Connect,
    threads: usize,
    pacing: Pacing,
    stop: Stop,
) -> Result<Outcome, Error> {
    let shape = Shape {
        connections: 4,
        threads,
        window: 1,
        verify: false,
        seed: 1,
    };
    let mut session = Session::open(workload(), server, || Bytes, shape)?;
    let block = Block {
        pacing,
        stop,
        interval: Duration::from_millis(10),
        seed: 1,
    };
    session.run(&block, &Control::default())
}

fn open(rate: f64) -> Pacing {
    Pacing::Open {
        rate,
        arrivals: ArrivalProcess::Uniform,
    }
}

fn longest(outcome: &Outcome) -> Stall {
    let stalls = outcome.stalls.iter();
    *stalls.max_by_key(|stall| stall.length).unwrap()
}

/// A reply can have been in flight when the server froze, and the loop can read the next one late.
const SPARE: Duration = Duration::from_millis(10);

#[test]
fn server_that_stops_leaves_one_stall_with_its_start_and_length() {
    for (pacing, threads) in [(open(2_000.0), 1), (open(2_000.0), 2), (Pacing::Closed, 1)] {
        // Next to other tests the machine itself can pause longer than the server; one undisturbed run is
        // enough.
        let faults: Vec<String> = (0..TRIES)
            .map_while(|_| stall_of_a_frozen_server(pacing, threads).err())
            .collect();
        assert!(faults.len() < TRIES, "{pacing:?} on {threads}: {faults:#?}");
    }
}

/// The most runs of a test that needs an undisturbed machine.
const TRIES: usize = 20;

/// Freezes a server under load, and describes what is wrong with the longest stall.
fn stall_of_a_frozen_server(pacing: Pacing, threads: usize) -> Result<(), String> {
    let server = Server {
        takes: Duration::from_micros(100),
        ..Server::default()
    };
    let (freezing, begun) = (server.clone(), Instant::now());
    let freezer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        (begun.elapsed(), freezing.freeze(Duration::from_millis(300)))
    });
    let stop = Stop::after(Duration::from_millis(800));
    let outcome = run(&server, threads, pacing, stop).unwrap();
    let (from, frozen) = freezer.join().unwrap();
    let stall = longest(&outcome);
    // All four connections wait for their reply.
    let is_right = stall.length + SPARE >= frozen
        && stall.start <= from + SPARE
        && stall.answered
        && stall.in_flight == 4
        && stall.generator < frozen / 2;
    if is_right {
        Ok(())
    } else {
        Err(format!("{stall:?}, frozen for {frozen:?} from {from:?}"))
    }
}

#[test]
fn waiting_for_the_next_start_is_no_stall() {
    let outcome = run(&Server::default(), 1, open(20.0), Stop::after_ops(10)).unwrap();
    let whole: Duration = outcome.stalls.iter().map(|stall| stall.length).sum();
    assert_eq!(outcome.ops, 10);
    assert!(whole < outcome.duration / 2, "{:?}", outcome.stalls);
}

/// A rate that the server cannot sustain on any machine: each operation takes 1 ms, on four connections.
const TOO_MANY: f64 = 1e7;

#[test]
fn overloaded_open_loop_ends_and_says_what_was_not_sent() {
    let server = Server {
        takes: Duration::from_millis(1),
        ..Server::default()
    };
    let time = Duration::from_millis(200);
    for arrivals in [ArrivalProcess::Uniform, ArrivalProcess::Poisson] {
        let pacing = Pacing::Open {
            rate: TOO_MANY,
            arrivals,
        };
        let outcome = run(&server, 1, pacing, Stop::after(time)).unwrap();
        let planned = outcome.planned.unwrap();
        assert_eq!(outcome.ops + outcome.not_sent, planned);
        // Of two million Poisson arrivals, six standard deviations are 0.4 %.
        assert!((planned as f64 / 2e6 - 1.0).abs() < 0.005, "{planned}");
        // Half of the block's length may follow it, and the longest stall. The time of the end would tell as much, but
        // another program can delay it; nothing makes a request shorter than a millisecond.
        let latest = time + time / 2 + longest(&outcome).length;
        let most = 4 * (latest.as_millis() as u64 + 2);
        assert!(outcome.ops <= most, "{} of {most}", outcome.ops);
    }
}

#[test]
fn operations_behind_a_stall_are_sent_after_the_block() {
    let server = Server {
        freezes_at: Some(50),
        ..Server::default()
    };
    let freezing = server.clone();
    let freezer = thread::spawn(move || {
        while !freezing.frozen.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        freezing.freeze(Duration::from_millis(600))
    });
    let stop = Stop::after(Duration::from_millis(200));
    let outcome = run(&server, 1, open(1_000.0), stop).unwrap();
    let frozen = freezer.join().unwrap();
    assert_eq!((outcome.ops, outcome.not_sent), (200, 0));
    let longest_ns = outcome.response.summary().max.unwrap();
    assert!(longest_ns as u128 >= frozen.as_nanos());
}

/// A connection on which the generator's thread pauses, once for all of them, where no reply is out.
struct Pausing {
    stream: UnixStream,
    pause: Pause,
}

#[derive(Clone)]
struct Pause {
    from: Instant,
    length: Duration,
    is_over: Arc<AtomicBool>,
}

impl Transport for Pausing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(&self.stream)
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = Transport::read(&mut self.stream, buf);
        let is_due = read.is_err() && Instant::now() >= self.pause.from;
        if is_due && !self.pause.is_over.swap(true, Ordering::Relaxed) {
            thread::sleep(self.pause.length);
        }
        read
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Transport::write(&mut self.stream, buf)
    }

    // A second read then follows each reply, and finds nothing.
    fn short_read_drains(&self) -> bool {
        false
    }
}

struct PausingServer {
    server: Server,
    pause: Pause,
}

impl Connect for PausingServer {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(Pausing {
            stream: self.server.stream()?,
            pause: self.pause.clone(),
        }))
    }
}

#[test]
fn operations_due_during_a_pause_are_sent_after_the_block() {
    let pausing = PausingServer {
        server: Server::default(),
        pause: Pause {
            from: Instant::now() + Duration::from_millis(550),
            length: Duration::from_millis(150),
            is_over: Arc::default(),
        },
    };
    // The overtime of the block can be half of its length more than the pause, so that a pause of the machine fits too.
    let stop = Stop::after(Duration::from_millis(600));
    let outcome = run(&pausing, 1, open(100.0), stop).unwrap();
    assert!(pausing.pause.is_over.load(Ordering::Relaxed));
    assert_eq!((outcome.ops, outcome.not_sent), (60, 0));
}

/// Both pacings at the same time, because each waits for the timeout.
#[test]
fn server_that_never_answers_again_ends_the_block_after_the_timeout() {
    std::thread::scope(|scope| {
        for pacing in [open(1_000.0), Pacing::Closed] {
            scope.spawn(move || never_answered(pacing));
        }
    });
}

fn never_answered(pacing: Pacing) {
    let server = Server::default();
    server.frozen.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let stop = Stop::after(Duration::from_secs(3_600));
    let error = run(&server, 1, pacing, stop).unwrap_err();
    let Error::Silent { waited, in_flight } = error else {
        panic!("{error}")
    };
    assert!(waited >= RESPONSE_TIMEOUT, "{waited:?}");
    assert!(
        begun.elapsed() < 6 * RESPONSE_TIMEOUT,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(in_flight, 4);
    server.frozen.store(false, Ordering::Relaxed);
}
