//! Waits precisely for sockets and deadlines.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::Error;
use crate::priority::{RealtimePriority, Scheduling};

/// The timer wakes the thread this long before the deadline, and the thread spins for the rest: waking an
/// idle CPU takes tens of microseconds.
const SPIN: Duration = Duration::from_micros(80);

/// A token that no caller uses.
const TIMER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

const EVENTS: usize = 256;

/// Waits for sockets and a deadline.
#[derive(Debug)]
pub(crate) struct Waiter {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The deadline that the timer is set to.
    armed: Option<Instant>,
    /// The same moment on both clocks. The timer uses absolute times, so that preemption while setting it
    /// does not delay it.
    origin: (Instant, Timespec),
    wake: OwnedFd,
    /// The priority of the waiting thread, once claimed.
    priority: Option<RealtimePriority>,
}

/// The events of a wait. Separate from the waiter, because the waiting thread owns it.
pub(crate) struct Events(Vec<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS))
    }

    /// Pairs of token and flags.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, EventFlags)> + '_ {
        let pairs = self.0.iter().map(|event| (event.data.u64(), event.flags));
        pairs.filter(|(token, _)| *token < WAKE)
    }
}

impl Waiter {
    pub(crate) fn new() -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(Error::system("timerfd_create"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::system("eventfd"))?;
        // In this order, a preemption between the two makes the timer early, never late.
        let monotonic = clock_gettime(ClockId::Monotonic);
        let waiter = Self {
            epoll,
            timer,
            armed: None,
            origin: (Instant::now(), monotonic),
            wake,
            priority: None,
        };
        waiter.add(&waiter.timer, TIMER, EventFlags::IN | EventFlags::ET)?;
        waiter.add(&waiter.wake, WAKE, EventFlags::IN | EventFlags::ET)?;
        Ok(waiter)
    }

    /// A handle that lets another thread end a wait.
    pub(crate) fn waker(&self) -> Result<Waker, Error> {
        let fd = self.wake.try_clone().map_err(Error::system("dup"))?;
        Ok(Waker { fd })
    }

    /// Raises the priority of the calling thread, which must be the one that waits from now on.
    pub(crate) fn claim_priority(&mut self) -> Scheduling {
        self.priority.insert(RealtimePriority::claim()).best()
    }

    pub(crate) fn add(&self, fd: impl AsFd, token: u64, flags: EventFlags) -> Result<(), Error> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), flags)
            .map_err(Error::system("epoll_ctl"))
    }

    /// Waits for events (returns true and fills `events`) or until `until`. In the last [`SPIN`] it polls the
    /// sockets instead of sleeping, so that data that arrives then gets its true time.
    pub(crate) fn wait(
        &mut self,
        until: Option<Instant>,
        events: &mut Events,
    ) -> Result<bool, Error> {
        const AT_ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut now = Instant::now();
        loop {
            let left = until.map(|until| until.saturating_duration_since(now));
            let timeout = match (until, left) {
                (Some(until), Some(left)) if left > SPIN => {
                    self.arm(until - SPIN)?;
                    None
                }
                (Some(_), _) => Some(&AT_ONCE),
                (None, _) => None,
            };
            let happened = self.poll(timeout, events)?;
            let began = std::mem::replace(&mut now, Instant::now());
            if let Some(priority) = &mut self.priority {
                priority.waited(began, now);
            }
            if happened {
                return Ok(true);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// Returns true if a socket or the waker has an event.
    fn poll(&mut self, timeout: Option<&Timespec>, events: &mut Events) -> Result<bool, Error> {
        events.0.clear();
        let spare = rustix::buffer::spare_capacity(&mut events.0);
        match epoll::wait(&self.epoll, spare, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::system("epoll_wait")(errno)),
        }
        let mut happened = false;
        for event in &events.0 {
            // The timer is edge-triggered and set again each time, so it need not be read.
            if event.data.u64() == TIMER {
                self.armed = None;
            } else {
                happened = true;
            }
        }
        Ok(happened)
    }

    fn arm(&mut self, at: Instant) -> Result<(), Error> {
        if self.armed == Some(at) {
            return Ok(());
        }
        let (instant, timespec) = self.origin;
        let value = Timespec::try_from(at.saturating_duration_since(instant))
            .ok()
            .and_then(|since| timespec.checked_add(since))
            .ok_or(Errno::INVAL)
            .map_err(Error::system("timerfd_settime"))?;
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .map_err(Error::system("timerfd_settime"))?;
        self.armed = Some(at);
        Ok(())
    }
}

/// Ends a wait from another thread.
#[derive(Debug)]
pub(crate) struct Waker {
    fd: OwnedFd,
}

impl Waker {
    pub(crate) fn wake(&self) {
        // It fails only if the counter is full, and then the wait ends anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_at_its_time_and_not_before() {
        let mut waiter = Waiter::new().unwrap();
        let mut events = Events::new();
        for us in [10, 300, 2_000, 700] {
            let until = Instant::now() + Duration::from_micros(us);
            assert!(!waiter.wait(Some(until), &mut events).unwrap());
            assert!(Instant::now() >= until);
        }
    }

    #[test]
    fn waker_ends_an_endless_wait() {
        let mut waiter = Waiter::new().unwrap();
        let mut events = Events::new();
        let waker = waiter.waker().unwrap();
        let other = std::thread::spawn(move || waker.wake());
        assert!(waiter.wait(None, &mut events).unwrap());
        other.join().unwrap();
        assert_eq!(events.iter().count(), 0);
    }
}
