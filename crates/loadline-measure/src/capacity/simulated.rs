//! Simulated servers with a known capacity, for tests of the search.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Attempt, Machine, Role, Trial};
use crate::histogram::Histogram;
use crate::limit::Slo;

/// The relation between load and percentile.
#[derive(Debug, Clone, Copy)]
pub(super) enum Model {
    /// One server, Poisson arrivals, exponential service at this rate: the response time is
    /// exponential (Kleinrock, "Queueing Systems", vol. 1, 1975, section 5.12).
    Mm1(f64),
    /// The same with constant service: the tail of the waiting time is exponential with the factor
    /// of Cramér and Lundberg (Asmussen, "Applied Probability and Queues", 2003, section XIII.5).
    Md1(f64),
    /// A constant time up to this rate, and an endless queue above it.
    Cliff(f64),
}

/// Disturbances of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    /// Standard deviation of the logarithm of every percentile. The machine does not report it.
    pub(super) noise: f64,
    /// CPU pauses per second.
    pub(super) pauses: f64,
    /// Their mean length in milliseconds; lengths are exponential.
    pub(super) pause_ms: f64,
    /// The share of pauses that the machine reports.
    pub(super) seen: f64,
    /// The share of trials in which other processes take up to half of the server's CPU; one in twenty is not
    /// reported.
    pub(super) contended: f64,
    /// The speed during slow phases of about ten seconds, which take a third of the time and are not
    /// reported.
    pub(super) slow: f64,
}

/// The length of the intervals of a trial, in seconds.
const INTERVAL: f64 = 0.1;
/// The steps of an interval in which the delay after a pause is constant.
const SLICES: u32 = 10;

/// A pause of a trial, in seconds.
#[derive(Debug, Clone, Copy)]
struct Pause {
    at: f64,
    length: f64,
    /// The time in which operations are late.
    affected: f64,
    is_seen: bool,
}

/// A server on a disturbed machine.
pub(super) struct Simulated {
    model: Model,
    weather: Weather,
    slo: Slo,
    /// Whether trials have the response times of their undisturbed parts.
    has_parts: bool,
    rng: SmallRng,
    /// The end of the current phase, and whether it is slow.
    phase: (f64, bool),
    now: f64,
    /// The highest speed so far.
    best_speed: f64,
}

impl Model {
    /// The highest rate that the server can serve.
    pub(super) fn service_rate(self) -> f64 {
        match self {
            Self::Mm1(rate) | Self::Md1(rate) | Self::Cliff(rate) => rate,
        }
    }

    /// The same server at another speed.
    fn at(self, speed: f64) -> Self {
        match self {
            Self::Mm1(rate) => Self::Mm1(rate * speed),
            Self::Md1(rate) => Self::Md1(rate * speed),
            Self::Cliff(rate) => Self::Cliff(rate * speed),
        }
    }

    /// The quantile `q` of the response time in nanoseconds, in the steady state.
    pub(super) fn value_ns(self, rate: f64, q: f64) -> f64 {
        let beyond = 1.0 - q;
        match self {
            Self::Mm1(mu) => -beyond.ln() / (mu - rate) * 1e9,
            Self::Md1(mu) => {
                let decay = md1_decay(rate / mu) * mu;
                let factor = (1.0 - rate / mu) / (rate / mu * (decay / mu).exp() - 1.0);
                ((factor / beyond).ln().max(0.0) / decay + 1.0 / mu) * 1e9
            }
            Self::Cliff(_) => 3e5,
        }
    }

    /// The highest rate whose quantile is below the limit.
    pub(super) fn truth(self, slo: &Slo) -> f64 {
        let (mut low, mut high) = (self.service_rate() * 1e-3, self.service_rate());
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if self.value_ns(middle, slo.quantile()) < slo.limit_ns {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The quantile in a trial that starts without a queue.
    fn in_trial_ns(self, rate: f64, seconds: f64, q: f64) -> f64 {
        let served = self.service_rate();
        let queued = seconds * (rate / served - 1.0).max(0.0) * q;
        // Without spare capacity the queue behaves like a reflected Brownian motion, which bounds its length
        // within the trial.
        let transient = 2.6e9 * (2.0 * seconds / served).sqrt();
        let steady = match self {
            Self::Cliff(_) => self.value_ns(rate, q),
            _ if rate < served => self.value_ns(rate, q).min(transient),
            _ => transient,
        };
        steady + queued * 1e9
    }
}

impl Simulated {
    pub(super) fn new(model: Model, weather: Weather, slo: &Slo, seed: u64) -> Self {
        Self {
            model,
            weather,
            slo: *slo,
            has_parts: false,
            rng: SmallRng::seed_from_u64(seed),
            phase: (0.0, true),
            now: 0.0,
            best_speed: 0.0,
        }
    }

    /// The same, whose trials have the response times of their undisturbed parts; that takes most of the time of a
    /// search.
    pub(super) fn with_parts(self) -> Self {
        Self {
            has_parts: true,
            ..self
        }
    }

    /// The throughput of a closed loop.
    pub(super) fn closed_loop(&mut self) -> f64 {
        let speed = self.pass(0.4);
        self.model.service_rate() * speed * self.rng.random_range(0.9..1.0)
    }

    pub(super) fn trial(&mut self, attempt: &Attempt) -> Trial {
        if attempt.role == Role::Closed {
            return Trial {
                achieved: self.closed_loop(),
                ..Trial::default()
            };
        }
        let seconds = attempt.duration.as_secs_f64();
        let mut speed = self.pass(seconds);
        let mut machine = Machine {
            duration: attempt.duration,
            others: Some(0.01),
            server_waited: Some(0.0),
            ..Machine::default()
        };
        if self.rng.random_bool(self.weather.contended) {
            let taken = self.rng.random_range(0.05..0.5);
            speed *= 1.0 - taken;
            if self.rng.random_bool(0.95) {
                (machine.others, machine.server_waited) = (Some(taken), Some(taken));
            }
        }
        let model = self.model.at(speed);
        let pauses = self.pauses(attempt.rate / model.service_rate(), seconds, &mut machine);
        let delay = self.delay(&pauses, seconds);
        let noise = (self.weather.noise * self.normal()).exp();
        let steady =
            |seconds| model.in_trial_ns(attempt.rate, seconds, self.slo.quantile()) * noise;
        let value = steady(seconds) + delay * 1e9;
        let is_over = value > self.slo.limit_ns;
        let calm =
            (self.has_parts && is_over).then(|| self.calm(attempt.rate, seconds, &pauses, steady));
        let served = model.service_rate();
        Trial {
            achieved: attempt.rate.min(served),
            ops: (attempt.rate * seconds) as u64,
            value_ns: Some(value),
            server_busy: Some((attempt.rate / served).min(1.0)),
            client_busy: Some(0.5),
            machine,
            calm,
            ..Trial::default()
        }
    }

    /// Records the reported pauses of a trial, and returns all.
    fn pauses(&mut self, load: f64, seconds: f64, machine: &mut Machine) -> Vec<Pause> {
        let Weather {
            pauses,
            pause_ms,
            seen,
            ..
        } = self.weather;
        let mut at = 0.0;
        let mut all = Vec::new();
        // Without pauses the first one never comes.
        loop {
            at += self.exponential(1.0 / pauses);
            if at >= seconds {
                break;
            }
            let length = self.exponential(pause_ms / 1e3);
            let is_seen = self.rng.random_bool(seen);
            if is_seen {
                let length = Duration::from_secs_f64(length);
                machine.pauses += 1;
                machine.paused += length;
                machine.longest_pause = machine.longest_pause.max(length);
            }
            all.push(Pause {
                at,
                length,
                affected: (length / (1.0 - load).max(1e-3)).min(seconds - at),
                is_seen,
            });
        }
        all
    }

    /// The quantile of the delay that all pauses of a trial add: a queue as long as the pause, drained by the server's
    /// spare capacity.
    fn delay(&self, pauses: &[Pause], seconds: f64) -> f64 {
        let beyond = |delay: f64| -> f64 {
            let shares = pauses.iter();
            shares
                .map(|pause| pause.affected / seconds * (1.0 - delay / pause.length).max(0.0))
                .sum()
        };
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if beyond(middle) > 1.0 - self.slo.quantile() {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The response times in the intervals of a trial that are neither in a reported pause nor in as long after it. They
    /// are exponential, with the quantile that `steady_ns` gives for a time since the start; what a pause delays comes
    /// on top.
    fn calm(
        &self,
        rate: f64,
        seconds: f64,
        pauses: &[Pause],
        steady_ns: impl Fn(f64) -> f64,
    ) -> Histogram {
        let mut times = Histogram::new();
        let mut start = 0.0;
        while start < seconds {
            let end = (start + INTERVAL).min(seconds);
            let reaches = |pause: &Pause, until: f64| pause.at < end && until > start;
            let is_disturbed =
                |pause: &Pause| pause.is_seen && reaches(pause, pause.at + 2.0 * pause.length);
            if !pauses.iter().any(is_disturbed) {
                let scale_ns = steady_ns(end) / -(1.0 - self.slo.quantile()).ln();
                let is_late = |pause: &Pause| reaches(pause, pause.at + pause.affected);
                let slices = if pauses.iter().any(is_late) {
                    SLICES
                } else {
                    1
                };
                let length = (end - start) / f64::from(slices);
                for slice in 0..slices {
                    let at = start + (f64::from(slice) + 0.5) * length;
                    let delays = pauses.iter().map(|pause| pause.delay_at(at));
                    let delay_ns = delays.fold(0.0, f64::max) * 1e9;
                    record_exponential(&mut times, rate * length, scale_ns, delay_ns);
                }
            }
            start = end;
        }
        times
    }

    /// Advances the time by a trial and the gap after it, and returns the speed during it.
    fn pass(&mut self, seconds: f64) -> f64 {
        self.now += 1.1 * seconds + 0.05;
        while self.now >= self.phase.0 {
            let is_slow = !self.phase.1;
            let mean = if is_slow { 10.0 } else { 20.0 };
            self.phase = (self.phase.0 + self.exponential(mean), is_slow);
        }
        let speed = if self.phase.1 { self.weather.slow } else { 1.0 };
        self.best_speed = self.best_speed.max(speed);
        speed
    }

    /// The capacity at the highest speed during the search, which cannot know about others.
    pub(super) fn truth(&self, slo: &Slo) -> f64 {
        self.model.at(self.best_speed).truth(slo)
    }

    /// Seconds since the search began.
    pub(super) fn now(&self) -> f64 {
        self.now
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.rng.random::<f64>()).ln() * mean
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle): (f64, f64) = (self.rng.random(), self.rng.random());
        (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

impl Pause {
    /// The time by which an operation that is due at `at` is later.
    fn delay_at(&self, at: f64) -> f64 {
        let into = (at - self.at) / self.affected.max(1e-9);
        if (0.0..1.0).contains(&into) {
            self.length * (1.0 - into)
        } else {
            0.0
        }
    }
}

/// Records `ops` exponential times on top of `delay_ns`, at steps of the logarithm of their tail.
fn record_exponential(times: &mut Histogram, ops: f64, scale_ns: f64, delay_ns: f64) {
    const STEP: f64 = 0.25;
    let mut recorded = 0;
    let mut step = 0.0;
    while recorded < ops as u64 {
        // The number of operations faster than the end of this step.
        let below = ((1.0 - (-(step + STEP)).exp()) * ops)
            .round()
            .min(ops.floor()) as u64;
        let below = if step > 20.0 { ops as u64 } else { below };
        times.record_n(
            (delay_ns + (step + STEP) * scale_ns) as u64,
            below - recorded,
        );
        (recorded, step) = (below, step + STEP);
    }
}

/// Simulates single operations of M/M/1 by Lindley's recursion, including transients and correlation, without
/// the closed formulas.
pub(super) fn queue_trial(mu: f64, attempt: &Attempt, q: f64, rng: &mut SmallRng) -> Trial {
    let seconds = attempt.duration.as_secs_f64();
    let exponential = |rate: f64, rng: &mut SmallRng| -(1.0 - rng.random::<f64>()).ln() / rate;
    let (mut now, mut free) = (exponential(attempt.rate, rng), 0.0_f64);
    let mut times = Vec::new();
    while now < seconds {
        free = free.max(now) + exponential(mu, rng);
        times.push(free - now);
        now += exponential(attempt.rate, rng);
    }
    let at = ((times.len() as f64 * q) as usize).min(times.len() - 1);
    let (_, value, _) = times.select_nth_unstable_by(at, f64::total_cmp);
    Trial {
        value_ns: Some(*value * 1e9),
        achieved: times.len() as f64 / free.max(seconds),
        ops: times.len() as u64,
        ..Trial::default()
    }
}

/// The decay of M/D/1 in units of the service rate: the positive root of `rho (e^x - 1) = x`.
fn md1_decay(rho: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 60.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if rho * middle.exp_m1() < middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
