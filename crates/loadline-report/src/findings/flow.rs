//! Flaws of the course of a measurement: stalls, CPUs taken by the host, and slow rounds.

use loadline_measure::doctor::FlowFlaw;
use loadline_measure::record::{CpuPauses, Stall, StallCause};
use loadline_measure::words;

use super::{joined, percent};

pub(super) fn evidence(flaw: &FlowFlaw) -> String {
    match flaw {
        FlowFlaw::Stalls {
            longest,
            is_in_process,
            count,
            total_ns,
            share,
            causes,
        } => {
            let because = because(&longest.cause, *is_in_process);
            let all = (*count > 1).then(|| {
                let total = words::duration(*total_ns as f64);
                let (share, causes) = (percent(*share), by_cause(causes));
                format!("In total, {count} stalls took {total} ({share} of the time){causes}.")
            });
            joined([Some(stall(longest, *is_in_process, because)), all], " ")
        }
        FlowFlaw::Steal { stolen, paused } => {
            let stolen = stolen
                .map(|share| format!("The host took {} of the CPU time (steal).", percent(share)));
            let paused = paused.map(|(pauses, share)| did_not_run(&pauses, share));
            joined([stolen, paused], " ")
        }
        FlowFlaw::SlowRounds(rounds) => {
            let echo = rounds.echo.map_or_else(String::new, |echo| {
                format!("an echo took up to {} its best and ", words::ratio(echo))
            });
            format!(
                "The machine was slow in {} of {} rounds: {echo}an operation took up to {} the CPU time of the best round.",
                rounds.slow,
                rounds.rounds,
                words::ratio(rounds.cpu),
            )
        }
        FlowFlaw::SlowerThanBaseline { runs, echo, cpu } => format!(
            "The machine was slower than in the best of the {} of the baseline: an echo took {} and an operation {} the CPU time.",
            words::plural(*runs, "run"),
            words::ratio(*echo),
            words::ratio(*cpu),
        ),
    }
}

pub(super) fn advice(flaw: &FlowFlaw) -> &'static str {
    match flaw {
        FlowFlaw::Stalls {
            longest,
            is_in_process,
            ..
        } => of_cause(&longest.cause, *is_in_process),
        FlowFlaw::Steal { .. } => {
            "Repeat when the host is less busy, or on CPUs that are not shared: the throughput is a lower bound, and the host adds to the tail."
        }
        FlowFlaw::SlowRounds(_) => {
            "A ratio is quoted only where A against A, in the same rounds, would be level within 20 %. Repeat when the machine is less busy before using absolute figures."
        }
        FlowFlaw::SlowerThanBaseline { .. } => {
            "The gate takes the echo out of times; absolute limits and CPU times are affected. Repeat when the machine is less busy."
        }
    }
}

fn stall(longest: &Stall, is_in_process: bool, because: &str) -> String {
    let what = if is_in_process {
        "No call returned"
    } else {
        "No reply arrived"
    };
    format!(
        "{what} for {}, from {} into round {}, with {} in flight: {because}.",
        words::duration(longest.length_ns as f64),
        words::duration(longest.start_ns as f64),
        longest.round + 1,
        words::plural(longest.in_flight, "operation"),
    )
}

fn because(cause: &StallCause, is_in_process: bool) -> &'static str {
    match cause {
        // The generator's threads execute the subject as well.
        StallCause::Generator if is_in_process => "its thread waited for a CPU",
        StallCause::Server | StallCause::ServerOrPath if is_in_process => {
            "the call itself took that long"
        }
        StallCause::Server => "the server did not answer",
        StallCause::Generator => "the generator did not run or was busy",
        StallCause::Host => "the host took a CPU away from this machine",
        StallCause::Quota => "the CPU quota of the server's control group stopped it",
        StallCause::Contention => "other programs had the CPU",
        StallCause::ServerOrPath => "the server or the path to it did not deliver",
        _ => "the cause is unknown",
    }
}

fn of_cause(cause: &StallCause, is_in_process: bool) -> &'static str {
    match cause {
        StallCause::Generator if is_in_process => {
            "Stop other programs on this machine; scheduling causes this tail."
        }
        StallCause::Server | StallCause::ServerOrPath if is_in_process => {
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
        StallCause::Quota => {
            "Give the server more CPU time: the quota of its control group causes this tail."
        }
        StallCause::Contention => {
            "Stop other programs on this machine, or pin server and generator; scheduling causes this tail."
        }
        _ => {
            "Run the generator on the server's machine as well: if the stall remains, the server causes it; otherwise the network does."
        }
    }
}

/// The number of stalls per cause, if there are several causes.
fn by_cause(causes: &[(StallCause, usize)]) -> String {
    let counts = causes
        .iter()
        .map(|(cause, count)| format!("{count} {cause}"));
    let counts: Vec<String> = counts.collect();
    match counts.len() {
        0 | 1 => String::new(),
        _ => format!("; by cause: {}", counts.join(", ")),
    }
}

fn did_not_run(pauses: &CpuPauses, share: f64) -> String {
    format!(
        "CPUs of this machine did not run {} of the time: {}, the longest {}.",
        percent(share),
        words::plural(pauses.count, "pause"),
        words::duration(pauses.longest_ns as f64),
    )
}
