//! When a tier is not asked any more.

use std::time::Duration;

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
            longest_pause: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration, pause: Duration },
    Probing { since: Duration, pause: Duration },
}

/// A circuit breaker. Closed, it lets every request pass; open, none; after a pause, one as a probe.
#[derive(Debug)]
pub(crate) struct Breaker {
    policy: BreakerPolicy,
    state: State,
    opened: u64,
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self {
            policy,
            state: State::Closed { failures: 0 },
            opened: 0,
        }
    }

    /// Whether a request may be sent now. Its result is to be reported.
    pub(crate) fn permits(&mut self, now: Duration) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until, pause } if until <= now => {
                self.state = State::Probing { since: now, pause };
                true
            }
            // A probe whose caller was cancelled is never reported.
            State::Probing { since, pause } if since + self.policy.longest_pause <= now => {
                self.state = State::Probing { since: now, pause };
                true
            }
            State::Open { .. } | State::Probing { .. } => false,
        }
    }

    pub(crate) fn succeeded(&mut self) {
        // A reply that was sent before the failures says nothing about the present.
        if !matches!(self.state, State::Open { .. }) {
            self.state = State::Closed { failures: 0 };
        }
    }

    pub(crate) fn failed(&mut self, now: Duration) {
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

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    /// How often it has opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
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
