//! When a tier is not asked any more.

use std::time::Duration;

use super::lower::Written;

/// The settings of a breaker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerPolicy {
    /// Failures in a row that open it.
    pub(crate) failures: u32,
    /// The pause before the first probe. It doubles after each probe that fails.
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failures: 3,
            first_pause: Duration::from_millis(100),
            // A tier that is back is used again within two seconds, even if one probe fails after its return.
            longest_pause: Duration::from_millis(800),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration, pause: Duration },
    Probing { since: Duration, pause: Duration },
}

/// Writes that a tier can refuse while it answers other requests: a full Redis server takes no values, but removes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Values, and perhaps invalidations.
    Puts,
    /// Only invalidations.
    Deletes,
}

/// The breakers of a tier: one for the tier as a whole, which reads depend on alone, and one for each kind of write.
#[derive(Debug)]
pub(crate) struct Breaker {
    tier: Circuit,
    puts: Circuit,
    deletes: Circuit,
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self {
            tier: Circuit::new(policy),
            puts: Circuit::new(policy),
            deletes: Circuit::new(policy),
        }
    }

    /// Whether a read may be sent now. Its result is to be reported.
    pub(crate) fn permits(&mut self, now: Duration) -> bool {
        self.tier.permits(now)
    }

    /// Whether a write would be permitted now.
    pub(crate) fn would_permit(&self, kind: WriteKind, now: Duration) -> bool {
        self.tier.would_permit(now) && self.of(kind).would_permit(now)
    }

    /// Whether a write may be sent now. Its result is to be reported.
    pub(crate) fn permits_write(&mut self, kind: WriteKind, now: Duration) -> bool {
        self.would_permit(kind, now) && self.tier.permits(now) && self.of_mut(kind).permits(now)
    }

    /// Takes the success of a read.
    pub(crate) fn succeeded(&mut self) {
        self.tier.succeeded();
    }

    /// Takes the failure of a read.
    pub(crate) fn failed(&mut self, now: Duration) {
        self.tier.failed(now);
    }

    /// Takes the result of a write.
    pub(crate) fn wrote(&mut self, kind: WriteKind, result: &Written, now: Duration) {
        match result {
            Written::Done(_) => {
                self.tier.succeeded();
                self.of_mut(kind).succeeded();
            }
            Written::Refused => {
                self.tier.answered();
                self.of_mut(kind).failed(now);
            }
            Written::NotDone | Written::Unknown => {
                self.tier.failed(now);
                self.of_mut(kind).learned_nothing(now);
            }
        }
    }

    /// Whether the tier as a whole is not asked.
    pub(crate) fn is_open(&self) -> bool {
        self.tier.is_open()
    }

    /// Whether a kind of write is not sent.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.puts.is_open() || self.deletes.is_open()
    }

    /// How often the breaker of the tier as a whole has opened.
    pub(crate) fn opened(&self) -> u64 {
        self.tier.opened
    }

    fn of(&self, kind: WriteKind) -> &Circuit {
        match kind {
            WriteKind::Puts => &self.puts,
            WriteKind::Deletes => &self.deletes,
        }
    }

    fn of_mut(&mut self, kind: WriteKind) -> &mut Circuit {
        match kind {
            WriteKind::Puts => &mut self.puts,
            WriteKind::Deletes => &mut self.deletes,
        }
    }
}

/// A circuit breaker. Closed, it lets every request pass; open, none; after a pause, one as a probe.
#[derive(Debug)]
struct Circuit {
    policy: BreakerPolicy,
    state: State,
    opened: u64,
}

impl Circuit {
    fn new(policy: BreakerPolicy) -> Self {
        Self {
            policy,
            state: State::Closed { failures: 0 },
            opened: 0,
        }
    }

    fn would_permit(&self, now: Duration) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until, .. } => until <= now,
            // A probe whose caller was cancelled is never reported.
            State::Probing { since, .. } => since + self.policy.longest_pause <= now,
        }
    }

    fn permits(&mut self, now: Duration) -> bool {
        let permits = self.would_permit(now);
        if let State::Open { pause, .. } | State::Probing { pause, .. } = self.state
            && permits
        {
            self.state = State::Probing { since: now, pause };
        }
        permits
    }

    fn succeeded(&mut self) {
        // A reply that was sent before the failures says nothing about the present.
        if !matches!(self.state, State::Open { .. }) {
            self.state = State::Closed { failures: 0 };
        }
    }

    /// Takes a reply that is no success: a probe has found that there is somebody to ask.
    fn answered(&mut self) {
        if matches!(self.state, State::Probing { .. }) {
            self.state = State::Closed { failures: 0 };
        }
    }

    /// Takes the end of a request that says nothing. After a probe, the next one need not wait.
    fn learned_nothing(&mut self, now: Duration) {
        if let State::Probing { pause, .. } = self.state {
            self.state = State::Open { until: now, pause };
        }
    }

    fn failed(&mut self, now: Duration) {
        let pause = match self.state {
            State::Closed { failures } if failures + 1 < self.policy.failures => {
                self.state = State::Closed {
                    failures: failures + 1,
                };
                return;
            }
            State::Closed { .. } => self.policy.first_pause,
            State::Probing { pause, .. } => (pause * 2).min(self.policy.longest_pause),
            // A request from before the breaker opened.
            State::Open { .. } => return,
        };
        self.opened += 1;
        self.state = State::Open {
            until: now + pause,
            pause,
        };
    }

    fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn breaker() -> Breaker {
        Breaker::new(BreakerPolicy {
            failures: 3,
            first_pause: 100 * MS,
            longest_pause: 300 * MS,
        })
    }

    fn open(breaker: &mut Breaker, now: Duration) {
        for _ in 0..3 {
            assert!(breaker.permits(now));
            breaker.failed(now);
        }
        assert!(breaker.is_open());
    }

    #[test]
    fn failures_in_a_row_open_it() {
        let mut breaker = breaker();
        for _ in 0..10 {
            breaker.failed(MS);
            breaker.failed(MS);
            breaker.succeeded();
        }
        assert!(!breaker.is_open());
        open(&mut breaker, MS);
        assert!(!breaker.permits(100 * MS));
    }

    #[test]
    fn one_probe_at_a_time_with_growing_pauses() {
        let mut breaker = breaker();
        let mut now = MS;
        open(&mut breaker, now);
        for pause in [100, 200, 300, 300] {
            assert!(!breaker.permits(now + (pause - 1) * MS));
            now += pause * MS;
            assert!(breaker.permits(now));
            assert!(!breaker.permits(now));
            breaker.failed(now);
        }
        now += 300 * MS;
        assert!(breaker.permits(now));
        breaker.succeeded();
        assert!(breaker.permits(now) && breaker.permits(now));
        assert_eq!(breaker.opened(), 5);
    }

    #[test]
    fn a_probe_that_is_never_reported_does_not_block_it_for_ever() {
        let mut breaker = breaker();
        open(&mut breaker, MS);
        assert!(breaker.permits(101 * MS));
        assert!(!breaker.permits(400 * MS));
        assert!(breaker.permits(401 * MS));
    }

    /// Opens the breaker of a kind of write.
    fn refuse(breaker: &mut Breaker, kind: WriteKind, now: Duration) {
        for _ in 0..3 {
            assert!(breaker.permits_write(kind, now));
            breaker.wrote(kind, &Written::Refused, now);
        }
    }

    #[test]
    fn refused_writes_say_nothing_about_other_requests() {
        let mut breaker = breaker();
        refuse(&mut breaker, WriteKind::Puts, MS);
        assert!(breaker.refuses_writes() && !breaker.is_open());
        assert!(breaker.permits(MS) && breaker.permits_write(WriteKind::Deletes, MS));
        assert!(!breaker.permits_write(WriteKind::Puts, 100 * MS));
        // Neither reads nor other writes that succeed let it close.
        breaker.succeeded();
        breaker.wrote(WriteKind::Deletes, &Written::Done(Vec::new()), MS);
        assert!(!breaker.permits_write(WriteKind::Puts, 100 * MS));
        assert!(breaker.permits_write(WriteKind::Puts, 101 * MS));
        breaker.wrote(WriteKind::Puts, &Written::Done(Vec::new()), 101 * MS);
        assert!(!breaker.refuses_writes());
    }

    #[test]
    fn tier_that_is_down_takes_no_writes_and_one_probe() {
        let mut breaker = breaker();
        refuse(&mut breaker, WriteKind::Puts, MS);
        open(&mut breaker, MS);
        assert!(!breaker.permits_write(WriteKind::Deletes, 100 * MS));
        assert!(breaker.permits_write(WriteKind::Puts, 101 * MS));
        assert!(!breaker.permits(101 * MS) && !breaker.permits_write(WriteKind::Deletes, 101 * MS));
        breaker.wrote(WriteKind::Puts, &Written::Unknown, 101 * MS);
        assert!(!breaker.permits_write(WriteKind::Puts, 300 * MS));
        // The next probe is answered: by a refusal.
        assert!(breaker.permits_write(WriteKind::Puts, 301 * MS));
        breaker.wrote(WriteKind::Puts, &Written::Refused, 301 * MS);
        assert!(!breaker.is_open() && breaker.refuses_writes() && breaker.permits(301 * MS));
    }

    #[test]
    fn results_from_before_it_opened_change_nothing() {
        let mut breaker = breaker();
        open(&mut breaker, MS);
        breaker.succeeded();
        breaker.failed(50 * MS);
        assert!(!breaker.permits(100 * MS));
        assert!(breaker.permits(101 * MS));
    }
}
