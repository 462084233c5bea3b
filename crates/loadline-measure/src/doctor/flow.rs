//! Rules about the course of a measurement: stalls, CPUs taken by the host, and slow rounds.

use super::{Evidence, Finding, Rule, Severity, percent};
use crate::record::{Case, CpuPauses, RoundSummary, Stall, StallCause};
use crate::words;

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

/// The speed of the rounds of a case, compared with the best of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SlowRounds {
    /// Rounds in which the machine was slow.
    pub(crate) slow: usize,
    /// All rounds.
    pub(crate) rounds: usize,
    /// The echo of the slowest round over that of the best; `None` without an echo.
    pub(crate) echo: Option<f64>,
    /// CPU time per operation in the slowest round over that in the best.
    pub(crate) cpu: f64,
}

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

pub(super) fn stall(seen: &Evidence) -> Option<Finding> {
    let longest = seen.stalls.iter().max_by_key(|stall| stall.length_ns)?;
    let total: u64 = seen.stalls.iter().map(|stall| stall.length_ns).sum();
    let share = total as f64 / seen.measured_ns.max(1) as f64;
    let what = if seen.is_in_process {
        "No call returned"
    } else {
        "No reply arrived"
    };
    let mut evidence = format!(
        "{what} for {}, from {} into round {}, with {} in flight: {}.",
        words::duration(longest.length_ns as f64),
        words::duration(longest.start_ns as f64),
        longest.round + 1,
        words::plural(longest.in_flight, "operation"),
        because(seen, &longest.cause),
    );
    if seen.stalls.len() > 1 {
        evidence.push_str(&format!(
            " In total, {} stalls took {} ({} of the time){}.",
            seen.stalls.len(),
            words::duration(total as f64),
            percent(share),
            causes(&seen.stalls),
        ));
    }
    let severity = if share >= STALLED {
        Severity::Warning
    } else {
        Severity::Info
    };
    let advice = advice(seen, &longest.cause);
    Some(seen.finding(Rule::Stall, severity, evidence, advice))
}

fn because(seen: &Evidence, cause: &StallCause) -> &'static str {
    match cause {
        // The generator's threads execute the subject as well.
        StallCause::Generator if seen.is_in_process => "its thread waited for a CPU",
        StallCause::Server | StallCause::ServerOrPath if seen.is_in_process => {
            "the call itself took that long"
        }
        StallCause::Server => "the server did not answer",
        StallCause::Generator => "the generator did not run or was busy",
        StallCause::Host => "the host took a CPU away from this machine",
        StallCause::Contention if seen.is_throttled() => {
            "the CPU quota of the server's control group stopped it"
        }
        StallCause::Contention => "other programs had the CPU",
        StallCause::ServerOrPath => "the server or the path to it did not deliver",
        StallCause::Other(_) => "the cause is unknown",
    }
}

fn advice(seen: &Evidence, cause: &StallCause) -> &'static str {
    match cause {
        StallCause::Generator if seen.is_in_process => {
            "Stop other programs on this machine; scheduling causes this tail."
        }
        StallCause::Server | StallCause::ServerOrPath if seen.is_in_process => {
            "Look at what the call did at that time: a sync, a page fault, a compaction or a checkpoint."
        }
        StallCause::Server => {
            "Look at what the server did at that time: a fork or fsync (INFO persistence), a slow command (SLOWLOG GET, LATENCY DOCTOR), swapping, or a stop by a signal."
        }
        StallCause::Generator => {
            "Add --threads or CPUs for the generator; the generator causes this tail."
        }
        StallCause::Host => {
            "Measure on CPUs that the host does not share, or repeat when the host is less busy; the host causes this tail."
        }
        StallCause::Contention if seen.is_throttled() => {
            "Give the server more CPU time: the quota of its control group causes this tail."
        }
        StallCause::Contention => {
            "Stop other programs on this machine, or pin server and generator; scheduling causes this tail."
        }
        StallCause::ServerOrPath | StallCause::Other(_) => {
            "Run the generator on the server's machine as well: if the stall remains, the server causes it; otherwise the network does."
        }
    }
}

/// The number of stalls per cause, if there are several causes.
fn causes(stalls: &[Stall]) -> String {
    let count = |cause: &StallCause| stalls.iter().filter(|stall| stall.cause == *cause).count();
    let counts: Vec<String> = StallCause::ALL
        .iter()
        .filter(|cause| count(cause) > 0)
        .map(|cause| format!("{} {cause}", count(cause)))
        .collect();
    if counts.len() > 1 {
        format!("; by cause: {}", counts.join(", "))
    } else {
        String::new()
    }
}

pub(super) fn steal(seen: &Evidence) -> Option<Finding> {
    let stolen = seen.observed.steal.filter(|share| *share > STOLEN);
    let pauses = seen.cpu_pauses.filter(|pauses| pauses.real_time);
    let paused = pauses
        .map(|pauses| (pauses, paused_share(&pauses, seen.measured_ns)))
        .filter(|(pauses, share)| *share > STOLEN || pauses.longest_ns >= PAUSE_NS);
    if stolen.is_none() && paused.is_none() {
        return None;
    }
    let stolen =
        stolen.map(|share| format!("The host took {} of the CPU time (steal).", percent(share)));
    let paused = paused.map(|(pauses, share)| {
        format!(
            "CPUs of this machine did not run {} of the time: {}, the longest {}.",
            percent(share),
            words::plural(pauses.count, "pause"),
            words::duration(pauses.longest_ns as f64),
        )
    });
    let evidence: Vec<String> = stolen.into_iter().chain(paused).collect();
    Some(seen.finding(
        Rule::Steal,
        Severity::Warning,
        evidence.join(" "),
        "Repeat when the host is less busy, or on CPUs that are not shared: the throughput is a lower bound, and the host adds to the tail.",
    ))
}

fn paused_share(pauses: &CpuPauses, measured_ns: u64) -> f64 {
    let watched = measured_ns.max(1) as f64 * pauses.cpus.max(1) as f64;
    pauses.total_ns as f64 / watched
}

pub(super) fn slow_machine(seen: &Evidence) -> Option<Finding> {
    let rounds = seen.slow_rounds?;
    (rounds.slow as f64 > SLOW_ROUNDS * rounds.rounds as f64).then(|| {
        let echo = rounds.echo.map_or_else(String::new, |echo| {
            format!("an echo took up to {} its best and ", words::ratio(echo))
        });
        seen.finding(
            Rule::SlowMachine,
            Severity::Warning,
            format!(
                "The machine was slow in {} of {} rounds: {echo}an operation took up to {} the CPU time of the best round.",
                rounds.slow,
                rounds.rounds,
                words::ratio(rounds.cpu),
            ),
            "A ratio is quoted only where A against A, in the same rounds, would be level within 20 %. Repeat when the machine is less busy before using absolute figures.",
        )
    })
}
