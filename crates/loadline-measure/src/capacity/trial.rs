//! A trial: a rate, its result, and the state of the machine.

use std::time::Duration;

use crate::histogram::Histogram;
use crate::limit::Slo;

/// The share of the percentile above which the generator's lag is part of the result.
const LAG_SHARE: f64 = 0.1;
/// The share of its rate below which an open loop is behind by more than chance.
const KEPT_UP: f64 = 0.95;
/// Above this share of a CPU, a thread of the generator is late because of its own work.
pub(super) const GENERATOR_BUSY: f64 = 0.8;
/// The share of the limit from which a pause of a CPU matters: its queue takes as long again to drain.
const PAUSE_SHARE: f64 = 0.5;
/// The share of a trial from which pauses matter: with the operations queued behind them, they affect as many
/// operations as lie beyond the 0.99 quantile.
const PAUSED: f64 = 0.005;
/// The same for waiting for a CPU while others use more than [`OTHERS`].
const WAITED: f64 = 0.005;
/// The background load of a machine, which is also the resolution of its measurement in a short trial.
const OTHERS: f64 = 0.08;
/// CPU time that the host took, as a share of one CPU.
const STOLEN: f64 = 0.01;
/// The factor by which the observed disturbance can be too small: short pauses escape the watch, and the waits
/// of threads can add up in one queue.
const UNSEEN: f64 = 4.0;

/// The measurements of an open loop at one rate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trial {
    /// Operations answered per second, over the time until the last answer.
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
    /// The 0.99 quantile of the generator's lag, in nanoseconds.
    pub lag_p99_ns: Option<u64>,
    /// The generator's largest lag, in nanoseconds.
    pub lag_max_ns: Option<u64>,
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
    /// The state of the machine.
    pub machine: Machine,
    /// The response times in those parts of the trial in which the machine was not disturbed.
    pub calm: Option<Histogram>,
    /// The index of the trial in the cases of its record.
    pub case: usize,
}

/// The state of the machine during a trial. Values that were not observed are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Machine {
    /// The length of the trial.
    pub duration: Duration,
    /// The number of pauses of its CPUs.
    pub pauses: u64,
    /// The total duration of the pauses.
    pub paused: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// CPU time that the host gave to other machines, as a share of one CPU, if pauses could not be observed.
    pub stolen: Option<f64>,
    /// CPU time of other processes, as a share of one CPU.
    pub others: Option<f64>,
    /// Share of the time in which the server waited for a CPU.
    pub server_waited: Option<f64>,
}

/// The verdict of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It kept the limit.
    Held,
    /// It did not.
    Failed,
    /// It did not, on a disturbed machine: no result about the target.
    Spoiled(Disturbance),
}

/// A disturbance that spoils a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// A CPU did not run.
    Pause,
    /// Server or generator waited for a CPU that other processes used.
    Contention,
    /// The generator started operations late without being busy.
    Lag,
    /// The machine was slower than at the beginning of the search.
    Drift,
}

impl Trial {
    /// Judges the trial at `rate`. A disturbance can only increase response times, so a trial that held
    /// counts; a failed one says nothing about the target if the disturbance can have made the difference.
    pub(super) fn verdict(&self, rate: f64, slo: &Slo) -> Verdict {
        let below = self.value_ns.is_some_and(|value| value < slo.limit_ns);
        if below && self.kept_up(rate) && self.errors == 0 {
            return Verdict::Held;
        }
        let excess = self.value_ns.map(|value| value - slo.limit_ns);
        self.disturbance(slo)
            .filter(|(_, added_ns)| excess.is_none_or(|excess| excess <= *added_ns))
            .map_or(Verdict::Failed, |(by, _)| Verdict::Spoiled(by))
    }

    /// The disturbance, and the most that it can have added to a response time, in nanoseconds. Time in which a
    /// server does not work delays each operation in its queue by no more than that time in total.
    fn disturbance(&self, slo: &Slo) -> Option<(Disturbance, f64)> {
        let machine = &self.machine;
        let seconds = machine.duration.as_secs_f64();
        let waited = self.waited.unwrap_or(0.0) + machine.server_waited.unwrap_or(0.0);
        let lost =
            machine.paused.as_secs_f64() + (waited + machine.stolen.unwrap_or(0.0)) * seconds;
        let added_ns = UNSEEN * lost * 1e9;
        let share = machine.paused.as_secs_f64() / machine.duration.as_secs_f64().max(1e-9);
        let long = machine.longest_pause.as_nanos() as f64 > PAUSE_SHARE * slo.limit_ns;
        if long || share > PAUSED || machine.stolen.is_some_and(|stolen| stolen > STOLEN) {
            return Some((Disturbance::Pause, added_ns));
        }
        if waited > WAITED && machine.others.is_some_and(|others| others > OTHERS) {
            return Some((Disturbance::Contention, added_ns));
        }
        let is_busy = self.client_busy.is_some_and(|busy| busy > GENERATOR_BUSY);
        let added_ns = self.lag_max_ns.map_or(f64::INFINITY, |lag| lag as f64);
        (self.is_late() && !is_busy).then_some((Disturbance::Lag, added_ns))
    }

    /// Whether the generator's own lag exceeded a tenth of the percentile.
    fn is_late(&self) -> bool {
        let lag = self.lag_p99_ns.zip(self.value_ns);
        lag.is_some_and(|(lag, value)| lag as f64 > LAG_SHARE * value)
    }

    /// Whether all operations were sent and answered at about the intended rate. The number of Poisson
    /// arrivals is random, hence the three standard deviations.
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

    fn slow() -> Trial {
        Trial {
            value_ns: Some(3e6),
            ..good()
        }
    }

    #[test]
    fn trial_holds_only_with_everything_sent_answered_and_in_time() {
        let verdict = |trial: Trial| trial.verdict(1_000.0, &slo());
        assert_eq!(verdict(good()), Verdict::Held);
        for bad in [
            slow(),
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
    fn missed_limit_on_a_disturbed_machine_is_no_finding_and_a_kept_one_is() {
        let calm = Machine {
            duration: Duration::from_millis(300),
            others: Some(0.04),
            server_waited: Some(0.02),
            pauses: 2,
            paused: Duration::from_millis(1),
            longest_pause: Duration::from_micros(600),
            stolen: None,
        };
        let ms = Duration::from_millis;
        use Disturbance::{Contention, Pause};
        for (machine, disturbance) in [
            (calm, None),
            (
                Machine {
                    longest_pause: Duration::from_micros(1_001),
                    ..calm
                },
                Some(Pause),
            ),
            (
                Machine {
                    paused: ms(2),
                    ..calm
                },
                Some(Pause),
            ),
            (
                Machine {
                    stolen: Some(0.03),
                    ..calm
                },
                Some(Pause),
            ),
            (
                Machine {
                    others: Some(0.3),
                    ..calm
                },
                Some(Contention),
            ),
            // The generator and the server compete for the CPU.
            (
                Machine {
                    server_waited: Some(0.5),
                    ..calm
                },
                None,
            ),
        ] {
            let trial = Trial { machine, ..slow() };
            let expected = disturbance.map_or(Verdict::Failed, Verdict::Spoiled);
            assert_eq!(trial.verdict(1_000.0, &slo()), expected, "{machine:?}");
            let held = Trial { machine, ..good() };
            assert_eq!(held.verdict(1_000.0, &slo()), Verdict::Held);
        }
    }

    #[test]
    fn late_generator_excuses_the_target_where_it_is_not_busy() {
        let late = |busy| Trial {
            lag_p99_ns: Some(400_000),
            client_busy: Some(busy),
            ..slow()
        };
        let spoiled = Verdict::Spoiled(Disturbance::Lag);
        assert_eq!(late(0.39).verdict(1_000.0, &slo()), spoiled);
        // With less load it would be on time, so this is the answer.
        assert_eq!(late(0.9).verdict(1_000.0, &slo()), Verdict::Failed);
        let in_time = Trial {
            lag_p99_ns: Some(200_000),
            ..late(0.39)
        };
        assert_eq!(in_time.verdict(1_000.0, &slo()), Verdict::Failed);
    }

    #[test]
    fn disturbance_excuses_only_as_much_as_it_can_add() {
        let pause = Duration::from_micros(1_330);
        let calm = Machine {
            duration: Duration::from_millis(300),
            pauses: 1,
            paused: pause,
            longest_pause: pause,
            ..Machine::default()
        };
        // Pauses of 1.33 ms, or waits of 3 ms, make no p99 of 37 ms.
        let far = |machine| Trial {
            value_ns: Some(37e6),
            machine,
            ..good()
        };
        let waited = Machine {
            others: Some(0.9),
            server_waited: Some(0.01),
            ..Machine::default()
        };
        for machine in [
            calm,
            Machine {
                stolen: Some(0.02),
                ..calm
            },
            Machine {
                duration: calm.duration,
                ..waited
            },
        ] {
            let verdict = far(machine).verdict(1_000.0, &slo());
            assert_eq!(verdict, Verdict::Failed, "{machine:?}");
        }
        // 3.2 ms can be 1.9 ms and the pause.
        let near = Trial {
            value_ns: Some(3.2e6),
            ..far(calm)
        };
        let verdict = near.verdict(1_000.0, &slo());
        assert_eq!(verdict, Verdict::Spoiled(Disturbance::Pause));
    }
}
