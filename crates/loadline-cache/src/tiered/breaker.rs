//! When a tier is not asked any more.

use std::time::Duration;

use super::failure::Failure;

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

/// Requests that a tier can refuse while it answers others: a full Redis server takes no values, but is read, and removes
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Reads,
    /// Values, and perhaps invalidations.
    Puts,
    /// Only invalidations.
    Deletes,
}

/// The breakers of a tier: one for the tier as a whole, and one for each kind of request.
#[derive(Debug)]
pub(crate) struct Breaker {
    tier: Circuit,
    reads: Circuit,
    puts: Circuit,
    deletes: Circuit,
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self {
            tier: Circuit::new(policy),
            reads: Circuit::new(policy),
            puts: Circuit::new(policy),
            deletes: Circuit::new(policy),
        }
    }

    /// Whether a request would be permitted now.
    pub(crate) fn would_permit(&self, kind: RequestKind, now: Duration) -> bool {
        let own = match kind {
            RequestKind::Reads => &self.reads,
            RequestKind::Puts => &self.puts,
            RequestKind::Deletes => &self.deletes,
        };
        self.tier.would_permit(now) && own.would_permit(now)
    }

    /// Whether a request may be sent now. Its result is to be reported.
    pub(crate) fn permits(&mut self, kind: RequestKind, now: Duration) -> bool {
        self.would_permit(kind, now) && self.tier.permits(now) && self.of(kind).permits(now)
    }

    /// Takes the result of a request.
    pub(crate) fn report(&mut self, kind: RequestKind, result: Result<(), Failure>, now: Duration) {
        match result {
            Ok(()) => {
                self.tier.succeeded();
                self.of(kind).succeeded();
            }
            Err(Failure::Refused) => {
                self.tier.answered();
                self.of(kind).failed(now);
            }
            Err(Failure::Opaque) => {
                self.tier.learned_nothing(now);
                self.of(kind).failed(now);
            }
            Err(Failure::NotDone | Failure::Unknown) => {
                self.tier.failed(now);
                self.of(kind).learned_nothing(now);
            }
        }
    }

    /// Whether the tier as a whole is not asked.
    pub(crate) fn is_down(&self) -> bool {
        self.tier.is_open()
    }

    /// Whether the tier is not read.
    pub(crate) fn is_open(&self) -> bool {
        self.tier.is_open() || self.reads.is_open()
    }

    /// Whether a kind of write is not sent, of a tier that is asked otherwise.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.puts.is_open() || self.deletes.is_open()
    }

    /// The breakers that are open, by the requests that they concern.
    pub(crate) fn open(&self) -> [(&'static str, bool); 3] {
        [
            ("all", self.is_down()),
            ("reads", self.reads.is_open()),
            ("writes", self.refuses_writes()),
        ]
    }

    /// Number of times that a breaker stopped the reads of the tier.
    pub(crate) fn opened(&self) -> u64 {
        self.tier.opened + self.reads.opened
    }

    fn of(&mut self, kind: RequestKind) -> &mut Circuit {
        match kind {
            RequestKind::Reads => &mut self.reads,
            RequestKind::Puts => &mut self.puts,
            RequestKind::Deletes => &mut self.deletes,
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

    /// Takes a reply that is no success: a probe has found that the store answers.
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
            assert!(breaker.permits(RequestKind::Reads, now));
            breaker.report(RequestKind::Reads, Err(Failure::Unknown), now);
        }
        assert!(breaker.is_open());
    }

    #[test]
    fn failures_in_a_row_open_it() {
        let mut breaker = breaker();
        for _ in 0..10 {
            breaker.report(RequestKind::Reads, Err(Failure::Unknown), MS);
            breaker.report(RequestKind::Reads, Err(Failure::Unknown), MS);
            breaker.report(RequestKind::Reads, Ok(()), MS);
        }
        assert!(!breaker.is_open());
        open(&mut breaker, MS);
        assert!(!breaker.permits(RequestKind::Reads, 100 * MS));
    }

    #[test]
    fn one_probe_at_a_time_with_growing_pauses() {
        let mut breaker = breaker();
        let mut now = MS;
        open(&mut breaker, now);
        for pause in [100, 200, 300, 300] {
            assert!(!breaker.permits(RequestKind::Reads, now + (pause - 1) * MS));
            now += pause * MS;
            assert!(breaker.permits(RequestKind::Reads, now));
            assert!(!breaker.permits(RequestKind::Reads, now));
            breaker.report(RequestKind::Reads, Err(Failure::Unknown), now);
        }
        now += 300 * MS;
        assert!(breaker.permits(RequestKind::Reads, now));
        breaker.report(RequestKind::Reads, Ok(()), MS);
        assert!(
            breaker.permits(RequestKind::Reads, now) && breaker.permits(RequestKind::Reads, now)
        );
        assert_eq!(breaker.opened(), 5);
    }

    #[test]
    fn probe_that_is_never_reported_does_not_block_it_for_ever() {
        let mut breaker = breaker();
        open(&mut breaker, MS);
        assert!(breaker.permits(RequestKind::Reads, 101 * MS));
        assert!(!breaker.permits(RequestKind::Reads, 400 * MS));
        assert!(breaker.permits(RequestKind::Reads, 401 * MS));
    }

    /// Opens the breaker of a kind of write.
    fn refuse(breaker: &mut Breaker, kind: RequestKind, now: Duration) {
        for _ in 0..3 {
            assert!(breaker.permits(kind, now));
            breaker.report(kind, Err(Failure::Refused), now);
        }
    }

    #[test]
    fn refused_writes_say_nothing_about_other_requests() {
        let mut breaker = breaker();
        refuse(&mut breaker, RequestKind::Puts, MS);
        assert!(breaker.refuses_writes() && !breaker.is_open());
        assert!(
            breaker.permits(RequestKind::Reads, MS) && breaker.permits(RequestKind::Deletes, MS)
        );
        assert!(!breaker.permits(RequestKind::Puts, 100 * MS));
        // Neither reads nor other writes that succeed let it close.
        breaker.report(RequestKind::Reads, Ok(()), MS);
        breaker.report(RequestKind::Deletes, Ok(()), MS);
        assert!(!breaker.permits(RequestKind::Puts, 100 * MS));
        assert!(breaker.permits(RequestKind::Puts, 101 * MS));
        breaker.report(RequestKind::Puts, Ok(()), 101 * MS);
        assert!(!breaker.refuses_writes());
    }

    #[test]
    fn opaque_failures_say_nothing_about_other_requests() {
        let kinds = [RequestKind::Reads, RequestKind::Puts, RequestKind::Deletes];
        for failing in kinds {
            let mut breaker = breaker();
            for _ in 0..3 {
                assert!(breaker.permits(failing, MS));
                breaker.report(failing, Err(Failure::Opaque), MS);
            }
            for kind in kinds {
                assert_eq!(breaker.permits(kind, MS), kind != failing, "{failing:?}");
            }
            assert!(!breaker.is_down());
            assert_eq!(breaker.is_open(), failing == RequestKind::Reads);
            assert_eq!(breaker.refuses_writes(), failing != RequestKind::Reads);
            // The probe of a kind that has failed.
            assert!(breaker.permits(failing, 101 * MS));
            breaker.report(failing, Ok(()), 101 * MS);
            assert!(breaker.permits(failing, 101 * MS));
        }
    }

    #[test]
    fn tier_that_is_down_takes_no_writes_and_one_probe() {
        let mut breaker = breaker();
        refuse(&mut breaker, RequestKind::Puts, MS);
        open(&mut breaker, MS);
        assert!(!breaker.permits(RequestKind::Deletes, 100 * MS));
        assert!(breaker.permits(RequestKind::Puts, 101 * MS));
        assert!(
            !breaker.permits(RequestKind::Reads, 101 * MS)
                && !breaker.permits(RequestKind::Deletes, 101 * MS)
        );
        breaker.report(RequestKind::Puts, Err(Failure::Unknown), 101 * MS);
        assert!(!breaker.permits(RequestKind::Puts, 300 * MS));
        // The next probe is answered: by a refusal.
        assert!(breaker.permits(RequestKind::Puts, 301 * MS));
        breaker.report(RequestKind::Puts, Err(Failure::Refused), 301 * MS);
        assert!(
            !breaker.is_open()
                && breaker.refuses_writes()
                && breaker.permits(RequestKind::Reads, 301 * MS)
        );
    }

    #[test]
    fn results_from_before_it_opened_change_nothing() {
        let mut breaker = breaker();
        open(&mut breaker, MS);
        breaker.report(RequestKind::Reads, Ok(()), MS);
        breaker.report(RequestKind::Reads, Err(Failure::Unknown), 50 * MS);
        assert!(!breaker.permits(RequestKind::Reads, 100 * MS));
        assert!(breaker.permits(RequestKind::Reads, 101 * MS));
    }
}
