//! The operating system as the event loop uses it: a clock, events of sockets, and waits for a CPU. Tests replace it by
//! one with a virtual time.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{self, PollFd, PollFlags, epoll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::Error;
use crate::clock::{Clock, RunQueue};

const NS_PER_MS: u64 = 1_000_000;

/// Surroundings of one thread's event loop: its clock and the events of its sockets.
pub(super) trait System: Send {
    /// Begins a block on the calling thread; `clock` is the block's.
    fn begin(&mut self, clock: Clock);

    /// The time since the start of the block.
    fn now_ns(&self) -> u64;

    /// The time that this thread has waited for a CPU, if it is known.
    fn run_wait_ns(&self) -> Option<u64>;

    /// Takes the available events, and waits up to `sleep_ns` if there are none. It can return early without
    /// events.
    fn poll(&mut self, events: &mut Vec<epoll::Event>, sleep_ns: u64) -> Result<(), Error>;

    /// Registers a connection once, for both edges; its events carry `index`.
    fn add(&mut self, socket: BorrowedFd<'_>, index: usize) -> Result<(), Error>;

    /// Removes a connection.
    fn remove(&mut self, socket: BorrowedFd<'_>);
}

/// Linux.
pub(super) struct Epoll {
    epoll: OwnedFd,
    clock: Clock,
    run_queue: RunQueue,
}

impl Epoll {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(Error::system("epoll_create"))?,
            clock: Clock::common(),
            run_queue: RunQueue::own(),
        })
    }
}

impl System for Epoll {
    fn begin(&mut self, clock: Clock) {
        self.clock = clock;
        self.run_queue = RunQueue::own();
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn run_wait_ns(&self) -> Option<u64> {
        self.run_queue.wait_ns()
    }

    /// `epoll_wait` counts in milliseconds. Shorter sleeps, which the starts of an open loop need, are made
    /// by `ppoll`, for which the epoll instance is a file like any other. `epoll_pwait2` does both in one
    /// call, but Linux before 5.11, valgrind 3.19 and seccomp profiles of older container runtimes do not
    /// have it.
    #[inline]
    fn poll(&mut self, events: &mut Vec<epoll::Event>, sleep_ns: u64) -> Result<(), Error> {
        let whole_ns = sleep_ns - sleep_ns % NS_PER_MS;
        if sleep_ns > 0 && whole_ns == 0 {
            let mut epoll = [PollFd::new(&self.epoll, PollFlags::IN)];
            match event::poll(&mut epoll, Some(&timespec(sleep_ns))) {
                Ok(0) | Err(Errno::INTR) => {
                    events.clear();
                    return Ok(());
                }
                Ok(_) => {}
                Err(errno) => return Err(Error::system("ppoll")(errno)),
            }
        }
        events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            Some(&timespec(whole_ns)),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("epoll_wait")(errno)),
        }
    }

    fn add(&mut self, socket: BorrowedFd<'_>, index: usize) -> Result<(), Error> {
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, socket, data, flags).map_err(Error::system("epoll_ctl"))
    }

    fn remove(&mut self, socket: BorrowedFd<'_>) {
        // A closed socket leaves the epoll set by itself; an open one must be removed.
        let _ = epoll::delete(&self.epoll, socket);
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: ns as i64,
    }
}
