//! The event loop's ways of waiting for replies: with epoll for many connections, in the read itself for a
//! single one, and awake if that pays off.

use super::receive::Wait;
use super::{LONGEST_SLEEP_NS, Running};
use crate::Error;
use crate::stall::SHORTEST_STALL_NS;
use crate::wire::lone::Watch;
use crate::wire::system::System;
use crate::wire::transport::Framing;
use crate::wire::vigil::Vigil;

impl<F: Framing, S: System> Running<'_, F, S> {
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
        // After the end, only replies are waited for.
        let mut sleep_ns = match self.share.deadline_ns.saturating_sub(now_ns) {
            0 => LONGEST_SLEEP_NS,
            left_ns => left_ns.min(LONGEST_SLEEP_NS),
        };
        if is_held {
            // Half a round trip is shorter than a sleep.
            sleep_ns = 0;
        }
        self.poll(now_ns, sleep_ns)
    }

    /// Waits for events until an operation of an open loop is due: first asleep, then awake.
    fn wait_for_start(&mut self, mut now_ns: u64, due_ns: u64) -> Result<(), Error> {
        let left_ns = due_ns.saturating_sub(now_ns).min(LONGEST_SLEEP_NS);
        if !self.worker.vigil.is_awake(now_ns) {
            return self.poll(now_ns, left_ns);
        }
        if left_ns > Vigil::AWAKE_NS {
            return self.poll(now_ns, left_ns - Vigil::AWAKE_NS);
        }
        loop {
            self.poll(now_ns, 0)?;
            let last_ns = now_ns;
            now_ns = self.worker.system.now_ns();
            let undisturbed = self.worker.vigil.looked(last_ns, now_ns);
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
        self.fall_asleep(now_ns, LONGEST_SLEEP_NS);
        self.read(0, Wait::ForFirst)
    }

    /// Reads repeatedly until data arrives or `until_ns` is reached.
    fn read_awake(&mut self, mut now_ns: u64, until_ns: u64) -> Result<u64, String> {
        while now_ns < until_ns {
            let read_ns = self.read(0, Wait::No)?;
            if read_ns > 0 {
                return Ok(read_ns);
            }
            self.look.found_nothing(now_ns);
            let last_ns = now_ns;
            now_ns = self.worker.system.now_ns();
            self.idle(last_ns, now_ns);
        }
        Ok(0)
    }

    /// Polls for events without sleeping; `false` if there were none in time.
    fn poll_awake(&mut self, now_ns: u64) -> Result<bool, Error> {
        let (mut came, mut looked_ns) = (false, now_ns);
        while !came && looked_ns < now_ns + Watch::AWAKE_NS {
            self.poll(looked_ns, 0)?;
            came = !self.events.is_empty();
            let last_ns = looked_ns;
            looked_ns = self.worker.system.now_ns();
            if !came {
                self.idle(last_ns, looked_ns);
            }
        }
        self.note_awake(came);
        Ok(came)
    }

    /// Counts an idle step between two clock readings.
    fn idle(&mut self, last_ns: u64, now_ns: u64) {
        self.idle_ns += now_ns - last_ns;
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

    /// Takes the available events at `now_ns`, and waits up to `sleep_ns` if there are none. It can return early
    /// without events.
    fn poll(&mut self, now_ns: u64, sleep_ns: u64) -> Result<(), Error> {
        let mut sleep_ns = sleep_ns;
        if sleep_ns > 0 {
            sleep_ns = self.fall_asleep(now_ns, sleep_ns);
        }
        self.worker.system.poll(&mut self.events, sleep_ns)?;
        if sleep_ns == 0 && self.events.is_empty() {
            self.look.found_nothing(now_ns);
        }
        Ok(())
    }

    /// Notes that the thread sleeps for up to `sleep_ns`, and returns for how long it does. While operations of an open
    /// loop wait, it wakes up once a stall has begun, so that its own waits for a CPU before that do not count.
    fn fall_asleep(&mut self, now_ns: u64, sleep_ns: u64) -> u64 {
        if self.in_flight == 0 {
            return sleep_ns;
        }
        if self.meter.is_quiet(now_ns) {
            let run_wait_ns = self.worker.system.run_wait_ns();
            self.look.falls_asleep(now_ns, run_wait_ns);
            return sleep_ns;
        }
        // A sleep that begins less than a millisecond after a reply.
        self.look.falls_asleep(now_ns, self.run_wait_ns);
        match self.arrivals {
            Some(_) => sleep_ns.min(SHORTEST_STALL_NS),
            None => sleep_ns,
        }
    }
}
