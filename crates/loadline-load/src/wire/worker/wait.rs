//! The event loop's ways of waiting for replies: with epoll for many connections, in the read itself for a
//! single one, and awake if that pays off.

use rustix::event::{self, PollFd, PollFlags, epoll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::receive::Wait;
use super::{LONGEST_SLEEP_NS, Running};
use crate::Error;
use crate::wire::lone::Watch;
use crate::wire::transport::Framing;
use crate::wire::vigil::{AWAY_NS, Vigil};

const NS_PER_MS: u64 = 1_000_000;

impl<F: Framing> Running<'_, F> {
    /// Waits until there is an event, or until other work is due.
    pub(super) fn wait(&mut self, now_ns: u64) -> Result<(), Error> {
        // Only epoll reports that a socket accepts the rest of a write.
        if self.waits_in_read && !self.worker.conns[0].is_blocked() {
            self.events.clear();
            match self.read_lone(now_ns) {
                Ok(0) => {}
                Ok(read_ns) => self.refill(0, read_ns),
                Err(reason) => self.lose(0, &reason),
            }
            return Ok(());
        }
        if let (Some(arrivals), None, false) = (&self.arrivals, self.stopped_ns, self.saturated) {
            let due_ns = arrivals.next_ns().min(self.share.deadline_ns);
            return self.wait_for_start(now_ns, due_ns);
        }
        let is_held = self.held_until_ns().is_some();
        if self.in_flight > 0
            && !is_held
            && self.watch.as_mut().is_some_and(Watch::is_awake)
            && self.poll_awake(now_ns)?
        {
            return Ok(());
        }
        let mut sleep_ns =
            LONGEST_SLEEP_NS.min(self.share.deadline_ns.saturating_sub(now_ns).max(1));
        if is_held {
            // Half a round trip is shorter than a sleep.
            sleep_ns = 0;
        }
        self.poll(sleep_ns)
    }

    /// Waits for events until an operation of an open loop is due: first asleep, then awake.
    fn wait_for_start(&mut self, mut now_ns: u64, due_ns: u64) -> Result<(), Error> {
        let left_ns = due_ns.saturating_sub(now_ns).min(LONGEST_SLEEP_NS);
        if !self.worker.vigil.is_awake(now_ns) {
            return self.poll(left_ns);
        }
        if left_ns > Vigil::AWAKE_NS {
            return self.poll(left_ns - Vigil::AWAKE_NS);
        }
        loop {
            self.poll(0)?;
            let last_ns = now_ns;
            now_ns = self.share.clock.now_ns();
            let undisturbed = self.worker.vigil.looked(last_ns, now_ns);
            if !undisturbed {
                self.meter.away(now_ns - last_ns);
            }
            if !undisturbed || !self.events.is_empty() || now_ns >= due_ns {
                return Ok(());
            }
            self.idle(last_ns, now_ns);
        }
    }

    /// Reads the single connection, first awake and then asleep, and returns the arrival time of the last
    /// bytes, or 0 if there were none.
    fn read_lone(&mut self, now_ns: u64) -> Result<u64, String> {
        if let Some(held_until_ns) = self.held_until_ns() {
            return self.read_awake(now_ns, held_until_ns);
        }
        if self.watch.as_mut().is_some_and(Watch::is_awake) {
            let read_ns = self.read_awake(now_ns, now_ns + Watch::AWAKE_NS)?;
            self.note_awake(read_ns > 0);
            if read_ns > 0 {
                return Ok(read_ns);
            }
        }
        self.read(0, Wait::ForFirst)
    }

    /// Reads repeatedly until data arrives or `until_ns` is reached.
    fn read_awake(&mut self, mut now_ns: u64, until_ns: u64) -> Result<u64, String> {
        while now_ns < until_ns {
            let read_ns = self.read(0, Wait::No)?;
            if read_ns > 0 {
                return Ok(read_ns);
            }
            let last_ns = now_ns;
            now_ns = self.share.clock.now_ns();
            self.idle(last_ns, now_ns);
        }
        Ok(0)
    }

    /// Polls for events without sleeping; `false` if there were none in time.
    fn poll_awake(&mut self, now_ns: u64) -> Result<bool, Error> {
        let (mut came, mut looked_ns) = (false, now_ns);
        while !came && looked_ns < now_ns + Watch::AWAKE_NS {
            self.poll(0)?;
            came = !self.events.is_empty();
            let last_ns = looked_ns;
            looked_ns = self.share.clock.now_ns();
            if !came {
                self.idle(last_ns, looked_ns);
            }
        }
        self.note_awake(came);
        Ok(came)
    }

    /// Counts an idle step between two clock readings.
    fn idle(&mut self, last_ns: u64, now_ns: u64) {
        let step_ns = now_ns - last_ns;
        self.idle_ns += step_ns;
        if step_ns > AWAY_NS {
            self.meter.away(step_ns);
        }
    }

    fn note_awake(&mut self, came: bool) {
        if let Some(watch) = &mut self.watch {
            if came {
                watch.succeeded();
            } else {
                watch.failed();
            }
        }
    }

    /// Takes the available events, and waits up to `sleep_ns` if there are none. It can return early without
    /// events.
    ///
    /// `epoll_wait` counts in milliseconds. Shorter sleeps, which the starts of an open loop need, are made
    /// by `ppoll`, for which the epoll instance is a file like any other. `epoll_pwait2` does both in one
    /// call, but Linux before 5.11, valgrind 3.19 and seccomp profiles of older container runtimes do not
    /// have it.
    fn poll(&mut self, sleep_ns: u64) -> Result<(), Error> {
        let whole_ns = sleep_ns - sleep_ns % NS_PER_MS;
        if sleep_ns > 0 && whole_ns == 0 {
            let mut epoll = [PollFd::new(&self.worker.epoll, PollFlags::IN)];
            match event::poll(&mut epoll, Some(&timespec(sleep_ns))) {
                Ok(0) | Err(Errno::INTR) => {
                    self.events.clear();
                    return Ok(());
                }
                Ok(_) => {}
                Err(errno) => return Err(Error::system("ppoll")(errno)),
            }
        }
        self.events.clear();
        match epoll::wait(
            &self.worker.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&timespec(whole_ns)),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("epoll_wait")(errno)),
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: ns as i64,
    }
}
