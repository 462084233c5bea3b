//! Rules about the course of a measurement: stalls, CPUs taken by the host, and slow rounds.

use super::flaw::{Diagnosis, FlowFlaw, SlowRounds};
use super::{Evidence, Severity};
use crate::record::{Case, CpuPauses, RoundSummary, Stall, StallCause};

/// The shortest stall that is reported.
const STALL_NS: u64 = 10_000_000;
/// The shortest stall that is reported, in multiples of the fastest operation: on a slow path every operation
/// takes long.
const STALL_OPERATIONS: u64 = 3;
/// The share of the time from which stalls determine the tail.
const STALLED: f64 = 0.01;
/// The largest share of CPU time that the host can take without a finding.
const STOLEN: f64 = 0.01;
/// The shortest pause of a CPU that is reported whatever its share.
const PAUSE_NS: u64 = 10_000_000;
/// A round is slow if both the echo and the CPU time per operation are this many times their best.
pub(super) const SLOW: f64 = 1.25;
/// The same factor for the CPU time per operation of both sides if there is no echo.
const SLOW_WITHOUT_ECHO: f64 = 1.5;
/// The largest share of slow rounds without a finding,
const SLOW_ROUNDS: f64 = 0.1;
/// with at least this many rounds.
const LEAST_ROUNDS: usize = 5;

impl SlowRounds {
    /// Compares the rounds of `case` with the best of them. `None` if there are too few or their CPU time is
    /// unknown.
    pub(super) fn of(case: &Case) -> Option<Self> {
        let rounds = &case.rounds;
        if rounds.len() < LEAST_ROUNDS {
            return None;
        }
        let times = |of: fn(&RoundSummary) -> Option<f64>| -> Option<Vec<f64>> {
            let values: Option<Vec<f64>> = rounds.iter().map(of).collect();
            let values = values?;
            let best = values.iter().copied().fold(f64::INFINITY, f64::min);
            (best > 0.0).then(|| values.iter().map(|value| value / best).collect())
        };
        let client = times(|round| round.client_cpu_ns_per_op)?;
        let server = times(|round| round.server_cpu_ns_per_op);
        // A slow machine affects both sides.
        let cpu: Vec<f64> = match server {
            Some(server) => client.iter().zip(server).map(|(a, b)| a.min(b)).collect(),
            None => client,
        };
        let echo = times(|round| round.reference_ns_p50.map(|ns| ns as f64));
        let is_slow = |round: usize| match &echo {
            Some(echo) => echo[round] > SLOW && cpu[round] > SLOW,
            None => cpu[round] > SLOW_WITHOUT_ECHO,
        };
        let slow: Vec<usize> = (0..rounds.len()).filter(|round| is_slow(*round)).collect();
        let slowest = slow
            .iter()
            .copied()
            .max_by(|one, other| cpu[*one].total_cmp(&cpu[*other]));
        Some(Self {
            slow: slow.len(),
            rounds: rounds.len(),
            echo: echo.zip(slowest).map(|(echo, slowest)| echo[slowest]),
            cpu: slowest.map_or(1.0, |slowest| cpu[slowest]),
        })
    }
}

/// The stalls that are long enough to report.
pub(super) fn long_stalls(case: &Case) -> Vec<Stall> {
    let fastest = case.response_time_ns.min.unwrap_or(0);
    let least = STALL_NS.max(fastest.saturating_mul(STALL_OPERATIONS));
    let stalls = case.stalls.iter();
    stalls
        .filter(|stall| stall.length_ns >= least)
        .cloned()
        .collect()
}

pub(super) fn stall(seen: &Evidence) -> Option<Diagnosis> {
    let longest = seen.stalls.iter().max_by_key(|stall| stall.length_ns)?;
    let total_ns: u64 = seen.stalls.iter().map(|stall| stall.length_ns).sum();
    let share = total_ns as f64 / seen.measured_ns.max(1) as f64;
    let severity = if share >= STALLED {
        Severity::Warning
    } else {
        Severity::Info
    };
    let stalls = FlowFlaw::Stalls {
        longest: longest.clone(),
        is_in_process: seen.is_in_process,
        count: seen.stalls.len(),
        total_ns,
        share,
        causes: causes(&seen.stalls),
    };
    Some(seen.diagnosis(severity, stalls))
}

/// The number of stalls per known cause.
fn causes(stalls: &[Stall]) -> Vec<(StallCause, usize)> {
    let count = |cause: &StallCause| stalls.iter().filter(|stall| stall.cause == *cause).count();
    let counts = StallCause::ALL
        .iter()
        .map(|cause| (cause.clone(), count(cause)));
    counts.filter(|(_, count)| *count > 0).collect()
}

pub(super) fn steal(seen: &Evidence) -> Option<Diagnosis> {
    let stolen = seen.observed.steal.filter(|share| *share > STOLEN);
    let pauses = seen.cpu_pauses.filter(|pauses| pauses.real_time);
    let paused = pauses
        .map(|pauses| (pauses, paused_share(&pauses, seen.measured_ns)))
        .filter(|(pauses, share)| *share > STOLEN || pauses.longest_ns >= PAUSE_NS);
    let is_found = stolen.is_some() || paused.is_some();
    let steal = FlowFlaw::Steal { stolen, paused };
    is_found.then(|| seen.diagnosis(Severity::Warning, steal))
}

fn paused_share(pauses: &CpuPauses, measured_ns: u64) -> f64 {
    let watched = measured_ns.max(1) as f64 * pauses.cpus.max(1) as f64;
    pauses.total_ns as f64 / watched
}

pub(super) fn slow_machine(seen: &Evidence) -> Option<Diagnosis> {
    let rounds = seen.slow_rounds?;
    let is_slow = rounds.slow as f64 > SLOW_ROUNDS * rounds.rounds as f64;
    let slow = FlowFlaw::SlowRounds(rounds);
    is_slow.then(|| seen.diagnosis(Severity::Warning, slow))
}
