//! The event loop in virtual time: a server that stops, and programs that take the generator's CPU, at moments that the
//! tests choose. Nothing sleeps, so thousands of seconds are over in a moment.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline_measure::histogram::Histogram;
use loadline_measure::record::{self, StallCause, Surroundings};
use rand::{RngExt as _, SeedableRng, rngs::SmallRng};
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::conn::Conn;
use super::system::System;
use super::tests::{Bytes, workload};
use super::transport::Transport;
use super::worker::Worker;
use crate::block::{Block, Timing};
use crate::clock::Clock;
use crate::meter::Board;
use crate::outcome::Outcome;
use crate::pacing::{ArrivalProcess, Pacing, Stop};
use crate::stall::Stall;
use crate::windows::{self, Windows};
use crate::workload::Chooser;
use crate::{Control, Error};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;
/// The server's time for a request.
const SERVICE_NS: u64 = 20 * US;
/// The time between two looks of a thread that waits awake: longer than in reality, so that there are fewer.
const LOOK_NS: u64 = 15 * US;
const WRITE_NS: u64 = 5 * US;
const RATE: f64 = 500.0;
const TRIALS: u64 = 200;

/// A period from one time to another.
type Period = (u64, u64);

/// A server, and the CPU of the generator's thread.
#[derive(Default)]
struct World {
    now_ns: u64,
    /// Time of the reply to each request in flight, per connection.
    replies: Vec<VecDeque<u64>>,
    /// End of the server's last request.
    served_ns: u64,
    /// Periods in which the server is stopped.
    stops: Vec<Period>,
    /// Periods in which other programs have the CPU, in order of time.
    busy: VecDeque<Period>,
    run_wait_ns: u64,
    /// Time at which the server closes its connections.
    closes_ns: Option<u64>,
    /// Time of an interrupt, and the flag that it sets.
    interrupt: Option<(u64, Arc<AtomicBool>)>,
}

impl World {
    fn request(&mut self, conn: usize) {
        let begun_ns = self.served_ns.max(self.now_ns);
        let mut served_ns = begun_ns + SERVICE_NS;
        for &(from_ns, until_ns) in &self.stops {
            if served_ns > from_ns && begun_ns < until_ns {
                served_ns = until_ns + SERVICE_NS;
            }
        }
        self.served_ns = served_ns;
        self.replies[conn].push_back(served_ns);
    }

    /// Runs for `ns`, and longer if another program takes the CPU.
    fn run(&mut self, ns: u64) {
        self.now_ns += ns;
        while let Some((from_ns, until_ns)) = self.busy.front().copied()
            && from_ns <= self.now_ns
        {
            let waited_ns = (until_ns - from_ns).min(until_ns.saturating_sub(self.now_ns) + ns);
            self.now_ns += waited_ns;
            self.run_wait_ns += waited_ns;
            self.busy.pop_front();
        }
    }

    /// Sleeps until `wake_ns`, and waits for the CPU if another program has it then.
    fn sleep(&mut self, wake_ns: u64) {
        self.now_ns = self.now_ns.max(wake_ns);
        while self.busy.front().is_some_and(|busy| busy.1 <= self.now_ns) {
            self.busy.pop_front();
        }
        self.run(0);
    }

    fn is_closed(&self) -> bool {
        self.closes_ns
            .is_some_and(|closes_ns| closes_ns <= self.now_ns)
    }

    fn is_readable(&self, conn: usize) -> bool {
        if self.is_closed() {
            return true;
        }
        let first = self.replies[conn].front();
        first.is_some_and(|reply_ns| *reply_ns <= self.now_ns)
    }

    fn next_reply_ns(&self) -> Option<u64> {
        let firsts = self.replies.iter().filter_map(VecDeque::front);
        firsts.copied().chain(self.closes_ns).min()
    }
}

#[derive(Clone)]
struct Virtual(Arc<Mutex<World>>);

impl Virtual {
    fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }
}

impl System for Virtual {
    fn begin(&mut self, _: Clock) {}

    fn now_ns(&self) -> u64 {
        self.with(|world| {
            if let Some((at_ns, flag)) = &world.interrupt
                && *at_ns <= world.now_ns
            {
                flag.store(true, Ordering::Relaxed);
            }
            world.now_ns
        })
    }

    fn run_wait_ns(&self) -> Option<u64> {
        self.with(|world| Some(world.run_wait_ns))
    }

    fn poll(&mut self, events: &mut Vec<epoll::Event>, sleep_ns: u64) -> Result<(), Error> {
        events.clear();
        self.with(|world| {
            let conns = 0..world.replies.len();
            if !conns.clone().any(|conn| world.is_readable(conn)) {
                if sleep_ns == 0 {
                    world.run(LOOK_NS);
                    return;
                }
                let wake_ns = world.now_ns + sleep_ns;
                world.sleep(wake_ns.min(world.next_reply_ns().unwrap_or(u64::MAX)));
            }
            events.extend(
                conns
                    .filter(|conn| world.is_readable(*conn))
                    .map(|conn| epoll::Event {
                        flags: epoll::EventFlags::IN,
                        data: epoll::EventData::new_u64(conn as u64),
                    }),
            );
        });
        Ok(())
    }

    fn add(&mut self, _: BorrowedFd<'_>, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn remove(&mut self, _: BorrowedFd<'_>) {}
}

struct Socket {
    world: Virtual,
    conn: usize,
    /// A descriptor of the right type, which nothing reads.
    fd: OwnedFd,
}

impl Transport for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.world.with(|world| {
            if world.is_closed() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let mut bytes = 0;
            while world.is_readable(self.conn) && bytes < buf.len() {
                world.replies[self.conn].pop_front();
                bytes += 1;
            }
            match bytes {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(bytes),
            }
        })
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.world.with(|world| {
            (0..buf.len() / 8).for_each(|_| world.request(self.conn));
            world.run(WRITE_NS);
        });
        Ok(buf.len())
    }
}

/// Drives `world` at the rate over windows that end by `stops`, with `window` operations in flight on each of four
/// connections. The block has been due for `overdue`.
fn drive(world: World, stops: &[Stop], window: u32, overdue: Duration) -> Vec<Outcome> {
    drive_at(RATE, world, stops, window, overdue)
}

/// The same at another rate.
fn drive_at(
    rate: f64,
    world: World,
    stops: &[Stop],
    window: u32,
    overdue: Duration,
) -> Vec<Outcome> {
    let (windows_ns, stop) = windows::layout(stops, rate);
    let board = Board::new(Duration::from_secs(1), 1);
    let place = Timing {
        overdue,
        windows_ns: &windows_ns,
    };
    let windows = drive_thread(world, (0, 1), (rate, stop, place), window, &board);
    assert!(windows.error.is_none(), "{:?}", windows.error);
    windows.outcomes
}

/// Drives `world` as one of some threads that share the rate, until the end of `place`, an error or an interrupt.
fn drive_thread(
    world: World,
    thread: (usize, usize),
    (rate, stop, place): (f64, Stop, Timing<'_>),
    window: u32,
    board: &Board,
) -> Windows {
    let connections = 4;
    let control = Control {
        interrupt: world
            .interrupt
            .as_ref()
            .map(|(_, flag)| Arc::clone(flag))
            .unwrap_or_default(),
        ..Control::default()
    };
    let world = Virtual(Arc::new(Mutex::new(World {
        now_ns: place.overdue.as_nanos() as u64,
        replies: vec![VecDeque::new(); connections],
        ..world
    })));
    let workload = workload();
    let chooser = Chooser::new(SmallRng::seed_from_u64(1), 0, 1);
    let mut worker = Worker::new(world.clone(), 0, &workload, chooser, window);
    for conn in 0..connections {
        let socket = Socket {
            world: world.clone(),
            conn,
            fd: eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        };
        let conn = Conn::new(Box::new(socket), Bytes, false);
        worker.adopt(worker.conns.len(), conn).unwrap();
    }
    let block = Block {
        pacing: Pacing::Open {
            rate,
            arrivals: ArrivalProcess::Uniform,
        },
        stop,
        interval: Duration::from_secs(1),
        seed: 1,
    };
    let share = block.share(thread, Clock::start(), board, &control, place);
    worker.run(&workload, &share)
}

/// Ten rounds of 600 ms.
fn ten_rounds() -> [Stop; 10] {
    [Stop::after(Duration::from_millis(600)); 10]
}

fn p99(outcomes: &[Outcome]) -> u64 {
    let mut all = Histogram::new();
    outcomes.iter().for_each(|block| all.merge(&block.response));
    all.value_at(0.99).unwrap()
}

/// The p99 that follows from the schedule of six seconds: what is due while the server is stopped waits for its end.
fn p99_on_paper(rate: f64, stop: Period) -> u64 {
    let gap_ns = (1e9 / rate) as u64;
    let count = 6 * S / gap_ns;
    let mut times: Vec<u64> = (0..count)
        .map(|number| {
            let due_ns = number * gap_ns;
            let is_stopped = due_ns + SERVICE_NS > stop.0 && due_ns < stop.1;
            let from_ns = if is_stopped { stop.1 } else { due_ns };
            from_ns + SERVICE_NS - due_ns
        })
        .collect();
    times.sort_unstable();
    times[(count as usize * 99).div_ceil(100) - 1]
}

/// 200 random moments of six seconds, after those at which rounds begin and end.
fn moments(seed: u64) -> impl Iterator<Item = u64> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let boundaries = (0..=10_u64)
        .flat_map(|round| [round * 600 * MS, (round * 600 * MS).saturating_sub(5 * MS)]);
    let random = (0..TRIALS).map(move |_| rng.random_range(0..6 * S));
    boundaries.chain(random)
}

/// Seeds from `first` on: one, and ten in the long setting.
fn seeds(first: u64) -> std::ops::Range<u64> {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    first..first + if is_long { 10 } else { 1 }
}

#[test]
fn stop_at_any_moment_shows_in_the_p99() {
    let mut wrong = Vec::new();
    for from_ns in seeds(24).flat_map(moments) {
        let stop = (from_ns, from_ns + S);
        let world = World {
            stops: vec![stop],
            ..World::default()
        };
        let outcomes = drive(world, &ten_rounds(), 1, Duration::ZERO);
        let (found, paper) = (p99(&outcomes), p99_on_paper(RATE, stop));
        // Below a millisecond, the steps of the virtual time matter.
        if found.abs_diff(paper) > paper / 20 + MS / 10 {
            wrong.push((from_ns / MS, found / US, paper / US));
        }
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        assert_eq!(sum(|block| block.ops), 3_000, "from {from_ns}");
        assert_eq!(sum(|block| block.not_sent), 0, "from {from_ns}");
        assert_eq!(sum(|block| block.planned.unwrap()), 3_000);
    }
    println!("{} wrong", wrong.len());
    assert!(wrong.is_empty(), "ms, us, us on paper: {wrong:?}");
}

/// 10,000 operations become due during the stop, and the schedule goes on while they are sent.
#[test]
fn operations_behind_a_stop_at_a_high_rate_are_all_sent_and_counted_late() {
    const HIGH: f64 = 10_000.0;
    for from_ns in [177 * MS, 2_577 * MS, 5_577 * MS] {
        let stop = (from_ns, from_ns + S);
        let world = World {
            stops: vec![stop],
            ..World::default()
        };
        let outcomes = drive_at(HIGH, world, &ten_rounds(), 1, Duration::ZERO);
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let (ops, not_sent) = (sum(|block| block.ops), sum(|block| block.not_sent));
        let (found, paper) = (p99(&outcomes), p99_on_paper(HIGH, stop));
        println!(
            "{ops} of 60000, p99 {} us, {} on paper",
            found / US,
            paper / US
        );
        assert_eq!((ops, not_sent), (60_000, 0), "from {from_ns}");
        assert!(found.abs_diff(paper) <= paper / 20, "from {from_ns}");
    }
}

/// The cause that a record would give for a stall of a server on this machine.
fn cause(stall: &Stall) -> StallCause {
    let ns = |time: Duration| time.as_nanos() as u64;
    let stall = record::Stall {
        length_ns: ns(stall.length),
        generator_ns: ns(stall.generator),
        paused_ns: ns(stall.paused),
        ..record::Stall::default()
    };
    let around = Surroundings {
        is_direct: true,
        watched_in_real_time: true,
        is_throttled: false,
    };
    StallCause::of(&stall, &around)
}

fn longest(outcomes: &[Outcome]) -> Stall {
    let stalls = outcomes.iter().flat_map(|block| &block.stalls);
    *stalls.max_by_key(|stall| stall.length).unwrap()
}

/// Other programs take the CPU for up to 8 ms again and again, half of the time.
fn crowd(rng: &mut SmallRng) -> VecDeque<Period> {
    let mut periods = VecDeque::new();
    let mut at_ns = 0;
    while at_ns < 8 * S {
        let from_ns = at_ns + rng.random_range(MS / 10..8 * MS);
        at_ns = from_ns + rng.random_range(MS / 10..8 * MS);
        periods.push_back((from_ns, at_ns));
    }
    periods
}

#[test]
fn stall_of_the_server_is_not_blamed_on_a_busy_generator() {
    seeds(7).for_each(blame_a_server);
}

fn blame_a_server(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut right = 0;
    for trial in 0..TRIALS {
        // A stop of a second, or 100 ms of every 2 s; with free places during the stall, and without.
        let from_ns = rng.random_range(0..2 * S);
        let stops = match trial % 2 {
            0 => vec![(from_ns, from_ns + S)],
            _ => (0..3)
                .map(|time| (from_ns + 2 * time * S, from_ns + 2 * time * S + S / 10))
                .collect(),
        };
        let world = World {
            stops,
            busy: crowd(&mut rng),
            ..World::default()
        };
        let window = if trial % 4 < 2 { 1 } else { 1_000 };
        let outcomes = drive(world, &ten_rounds(), window, Duration::ZERO);
        right += u64::from(cause(&longest(&outcomes)) == StallCause::Server);
    }
    println!("seed {seed}: {right} of {TRIALS}");
    assert!(right * 100 >= TRIALS * 99, "{right} of {TRIALS}");
}

#[test]
fn stall_of_the_generator_is_blamed_on_it() {
    seeds(8).for_each(blame_a_generator);
}

fn blame_a_generator(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut right = 0;
    for _ in 0..TRIALS {
        let from_ns = rng.random_range(0..5 * S);
        let world = World {
            busy: VecDeque::from([(from_ns, from_ns + rng.random_range(20 * MS..S))]),
            ..World::default()
        };
        let outcomes = drive(world, &ten_rounds(), 1, Duration::ZERO);
        right += u64::from(cause(&longest(&outcomes)) == StallCause::Generator);
    }
    println!("seed {seed}: {right} of {TRIALS}");
    assert!(right * 100 >= TRIALS * 99, "{right} of {TRIALS}");
}

/// With several targets that take turns, a target can be stopped when its turn comes.
#[test]
fn block_counts_from_when_it_was_due() {
    let overdue = Duration::from_secs(1);
    let stop = [Stop::after(Duration::from_millis(100))];
    let outcomes = drive(World::default(), &stop, 1, overdue);
    let outcome = &outcomes[0];
    assert_eq!((outcome.ops, outcome.not_sent), (50, 0));
    let shortest = outcome.response.value_at(0.0).unwrap();
    assert!(shortest >= 900 * MS, "{shortest}");
    // It was not the generator that was late.
    assert!(outcome.lag.value_at(0.99).unwrap() < 2 * MS);
    assert_eq!(cause(&longest(&outcomes)), StallCause::Server);
}

/// The ten rounds on one of several threads.
fn drive_ten_rounds(world: World, thread: (usize, usize), board: &Board) -> Windows {
    let (windows_ns, stop) = windows::layout(&ten_rounds(), RATE);
    let place = Timing {
        overdue: Duration::ZERO,
        windows_ns: &windows_ns,
    };
    drive_thread(world, thread, (RATE, stop, place), 1, board)
}

fn ops(windows: &Windows) -> Vec<u64> {
    windows.outcomes.iter().map(|block| block.ops).collect()
}

#[test]
fn error_in_the_middle_keeps_the_windows_before_it() {
    let board = Board::new(Duration::from_secs(1), 1);
    let closing = World {
        closes_ns: Some(2 * S),
        ..World::default()
    };
    let windows = drive_ten_rounds(closing, (0, 1), &board);
    assert!(
        matches!(windows.error, Some(Error::AllLost { .. })),
        "{:?}",
        windows.error
    );
    assert_eq!(ops(&windows), [300; 3]);
}

#[test]
fn interrupt_ends_with_the_window_that_it_comes_in() {
    let board = Board::new(Duration::from_secs(1), 1);
    let interrupted = World {
        interrupt: Some((2 * S, Arc::default())),
        ..World::default()
    };
    let windows = drive_ten_rounds(interrupted, (0, 1), &board);
    assert!(windows.error.is_none(), "{:?}", windows.error);
    assert_eq!(ops(&windows), [300, 300, 300, 101]);
    let is_cut: Vec<bool> = windows.outcomes.iter().map(|one| one.cut_short).collect();
    assert_eq!(is_cut, [false, false, false, true]);
}

/// The server does not answer any more when the interrupt comes, and rounds end while the load waits for replies.
#[test]
fn interrupt_during_a_stall_keeps_its_results() {
    for stop in [(S, 4 * S), (S, 3_600 * S)] {
        let board = Board::new(Duration::from_secs(1), 1);
        let interrupted = World {
            stops: vec![stop],
            interrupt: Some((2 * S, Arc::default())),
            ..World::default()
        };
        let windows = drive_ten_rounds(interrupted, (0, 1), &board);
        assert!(windows.error.is_none(), "{stop:?}: {:?}", windows.error);
        let is_cut: Vec<bool> = windows.outcomes.iter().map(|one| one.cut_short).collect();
        assert_eq!(is_cut, [false, false, false, true], "{stop:?}");
        let length = longest(&windows.outcomes).length;
        assert!(length >= Duration::from_secs(3), "{stop:?}: {length:?}");
    }
}

#[test]
fn window_of_several_threads_is_the_sum_of_theirs() {
    let board = Board::new(Duration::from_secs(1), 3);
    let parts = (0..3).map(|thread| drive_ten_rounds(World::default(), (thread, 3), &board));
    let windows = windows::joined(parts.collect(), 10);
    assert!(windows.error.is_none(), "{:?}", windows.error);
    assert_eq!(ops(&windows), [300; 10]);
}

#[test]
fn error_of_one_thread_ends_all_with_their_common_windows() {
    let board = Board::new(Duration::from_secs(1), 2);
    let closing = World {
        closes_ns: Some(2 * S),
        ..World::default()
    };
    let broken = drive_ten_rounds(closing, (0, 2), &board);
    board.abandon();
    let abandoned = drive_ten_rounds(World::default(), (1, 2), &board);
    // It sees the end of the other when its first interval ends, which is in its second window.
    assert_eq!((broken.outcomes.len(), abandoned.outcomes.len()), (3, 2));
    let windows = windows::joined(vec![broken, abandoned], 10);
    assert!(windows.error.is_some());
    assert_eq!(ops(&windows), [300]);
}
