//! Servers whose capacity is known, for trying the search on.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Attempt, Trial};
use crate::limit::Slo;

/// How the percentile of a server follows from its load.
#[derive(Debug, Clone, Copy)]
pub(super) enum Model {
    /// One server, Poisson arrivals, exponential service at this rate: the response time is
    /// exponential (Kleinrock, "Queueing Systems", vol. 1, 1975, section 5.12).
    Mm1(f64),
    /// The same with constant service: the tail of the waiting time is exponential with the factor
    /// of Cramér and Lundberg (Asmussen, "Applied Probability and Queues", 2003, section XIII.5).
    Md1(f64),
    /// The same time up to this rate, and a queue that does not end above it.
    Cliff(f64),
}

/// What a model does beside its own law.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disturbance {
    /// Standard deviation of the logarithm of every percentile.
    pub(super) noise: f64,
    /// Share of the trials that a stall hits, which lengthens the percentile up to fiftyfold.
    pub(super) stalls: f64,
}

/// A model with its disturbance and its chance.
pub(super) struct Simulated {
    model: Model,
    disturbance: Disturbance,
    quantile: f64,
    rng: SmallRng,
}

impl Model {
    /// The rate that can be served at all.
    pub(super) fn service_rate(self) -> f64 {
        match self {
            Self::Mm1(rate) | Self::Md1(rate) | Self::Cliff(rate) => rate,
        }
    }

    /// The quantile `q` of the response time in nanoseconds, once steady.
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
}

impl Simulated {
    pub(super) fn new(model: Model, disturbance: Disturbance, slo: &Slo, seed: u64) -> Self {
        Self {
            model,
            disturbance,
            quantile: slo.quantile(),
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// What a closed loop shows of it: about what it can serve.
    pub(super) fn closed_loop(&mut self) -> f64 {
        self.model.service_rate() * self.rng.random_range(0.85..1.0)
    }

    pub(super) fn trial(&mut self, attempt: &Attempt) -> Trial {
        let served = self.model.service_rate();
        let seconds = attempt.duration.as_secs_f64();
        let queued = seconds * (attempt.rate / served - 1.0).max(0.0) * self.quantile;
        // Without room to spare the queue wanders like a reflected Brownian motion, which in the time
        // of a trial gets no farther than this.
        let transient = 2.6e9 * (2.0 * seconds / served).sqrt();
        let steady = match self.model {
            Model::Cliff(_) => self.model.value_ns(attempt.rate, self.quantile),
            _ if attempt.rate < served => {
                let steady = self.model.value_ns(attempt.rate, self.quantile);
                steady.min(transient)
            }
            _ => transient,
        };
        let mut value = (steady + queued * 1e9) * (self.disturbance.noise * self.normal()).exp();
        if self.rng.random_bool(self.disturbance.stalls) {
            value *= self.rng.random_range(2.0..50.0);
        }
        Trial {
            achieved: attempt.rate.min(served),
            ops: (attempt.rate * seconds) as u64,
            value_ns: Some(value),
            server_busy: Some((attempt.rate / served).min(1.0)),
            client_busy: Some(0.5),
            ..Trial::default()
        }
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle): (f64, f64) = (self.rng.random(), self.rng.random());
        (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// Single operations of M/M/1 by Lindley's recursion, with all that is transient and correlated in
/// it: nothing of the closed formulas.
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
