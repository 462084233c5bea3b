//! One trial: a rate, and what came of it.

use crate::limit::Slo;

/// Above this share of the value, the generator's own lag is part of the finding.
const LAG_SHARE: f64 = 0.1;
/// An open loop that answers less than this share of its rate is behind by more than chance.
const KEPT_UP: f64 = 0.95;

/// What was measured at one rate, in an open loop.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trial {
    /// Operations answered per second of the time that all of them took.
    pub achieved: f64,
    /// Operations answered.
    pub ops: u64,
    /// The percentile of the limit, in nanoseconds; `None` with too few samples.
    pub value_ns: Option<f64>,
    /// The median response time in nanoseconds.
    pub p50_ns: Option<u64>,
    /// The 0.99 quantile of the response time in nanoseconds.
    pub p99_ns: Option<u64>,
    /// The 0.999 quantile of the response time in nanoseconds.
    pub p999_ns: Option<u64>,
    /// The 0.99 quantile of how late the generator started operations, in nanoseconds.
    pub lag_p99_ns: Option<u64>,
    /// Operations of the schedule that were never sent.
    pub not_sent: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Share of one CPU that the server used.
    pub server_busy: Option<f64>,
    /// Share of one CPU that the busiest thread of the generator worked on; waiting awake is no work.
    pub client_busy: Option<f64>,
    /// Share of its time in which the generator waited for a CPU that others had.
    pub waited: Option<f64>,
    /// The place of the trial in the list of cases of its record.
    pub case: usize,
}

/// How a trial is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It kept the limit.
    Held,
    /// It did not.
    Failed,
    /// It did not, and the generator was late: no finding about the target.
    Late,
}

impl Trial {
    /// Whether it kept the limit at `rate`. A trial that held although the generator was late has
    /// held: the lateness is part of the response time.
    pub(super) fn verdict(&self, rate: f64, slo: &Slo) -> Verdict {
        let below = self.value_ns.is_some_and(|value| value < slo.limit_ns);
        if below && self.kept_up(rate) && self.errors == 0 {
            Verdict::Held
        } else if self.is_late() {
            Verdict::Late
        } else {
            Verdict::Failed
        }
    }

    /// Whether the generator itself was late by more than a tenth of the percentile.
    pub(super) fn is_late(&self) -> bool {
        let lag = self.lag_p99_ns.zip(self.value_ns);
        lag.is_some_and(|(lag, value)| lag as f64 > LAG_SHARE * value)
    }

    /// Whether everything was sent, and answered about as fast as it was meant to start. How many
    /// Poisson arrivals there are is itself a matter of chance, hence three standard deviations.
    pub(super) fn kept_up(&self, rate: f64) -> bool {
        let chance = 3.0 / (self.ops.max(1) as f64).sqrt();
        let chance = if self.ops == 0 { 0.0 } else { chance };
        self.not_sent == 0 && self.achieved >= rate * (KEPT_UP - chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slo() -> Slo {
        "p99<2ms".parse().unwrap()
    }

    fn good() -> Trial {
        Trial {
            achieved: 1_000.0,
            ops: 10_000,
            value_ns: Some(1e6),
            ..Trial::default()
        }
    }

    #[test]
    fn a_trial_holds_only_with_everything_sent_answered_and_in_time() {
        let verdict = |trial: Trial| trial.verdict(1_000.0, &slo());
        assert_eq!(verdict(good()), Verdict::Held);
        for bad in [
            Trial {
                value_ns: Some(2e6),
                ..good()
            },
            Trial {
                value_ns: None,
                ..good()
            },
            Trial {
                not_sent: 1,
                ..good()
            },
            Trial {
                errors: 1,
                ..good()
            },
            Trial {
                achieved: 900.0,
                ..good()
            },
        ] {
            assert_eq!(verdict(bad.clone()), Verdict::Failed, "{bad:?}");
        }
        // Of 100 Poisson arrivals per second, 80 in a second are within chance.
        let few = Trial {
            ops: 100,
            achieved: 80.0,
            ..good()
        };
        assert_eq!(few.verdict(100.0, &slo()), Verdict::Held);
    }

    #[test]
    fn a_late_generator_excuses_the_target_but_does_not_spoil_what_held() {
        let late = Trial {
            lag_p99_ns: Some(400_000),
            ..good()
        };
        assert_eq!(late.verdict(1_000.0, &slo()), Verdict::Held);
        let late = Trial {
            value_ns: Some(3e6),
            ..late
        };
        assert_eq!(late.verdict(1_000.0, &slo()), Verdict::Late);
        let in_time = Trial {
            lag_p99_ns: Some(200_000),
            ..late
        };
        assert_eq!(in_time.verdict(1_000.0, &slo()), Verdict::Failed);
    }
}
