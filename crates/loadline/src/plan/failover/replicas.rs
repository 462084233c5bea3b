//! Writes and their replicas: the WAIT after each write, and the replicas without which a master refuses writes.

use std::time::Duration;

use loadline_measure::failover::{Fault, MinReplicas, Topology, Wait};

use super::TrialPlan;
use crate::exit::Failure;
use crate::units::{self, duration_text, nanoseconds};

/// The shortest and the longest time limit of a WAIT. The server counts milliseconds, and takes 0 for no limit.
const WAIT_TIME: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(60)];
/// The shortest and the longest time since an answer of a replica. The server counts seconds, and replicas answer once per second.
const LAG: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// The WAIT that `--wait` asks for.
///
/// # Errors
/// A usage error for an invalid value, or for more replicas than a master has.
pub(super) fn wait(text: Option<&str>, topology: &Topology) -> Result<Option<Wait>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let (replicas, time) = counted("--wait", "1:100ms", text, topology, WAIT_TIME)?;
    Ok(Some(Wait {
        replicas,
        timeout_ns: nanoseconds(time),
    }))
}

/// The replicas that `--min-replicas` asks for.
///
/// # Errors
/// A usage error for an invalid value, or for more replicas than a master has, also after one of `trials`.
pub(super) fn min_replicas(
    text: Option<&str>,
    topology: &Topology,
    trials: &[TrialPlan],
) -> Result<Option<MinReplicas>, Failure> {
    const OPTION: &str = "--min-replicas";
    let Some(text) = text else {
        return Ok(None);
    };
    let (replicas, lag) = counted(OPTION, "1:2s", text, topology, LAG)?;
    if lag.subsec_nanos() != 0 {
        let why = "the server counts whole seconds";
        return Err(Failure::invalid(OPTION, "value", text, why));
    }
    let kills = trials.iter().any(|trial| trial.fault == Fault::Kill);
    if kills && replicas >= of_master(topology) {
        return Err(Failure::usage(format!(
            "{OPTION} {text}: after `kill`, the new master of `{topology}` has too few replicas and refuses every write; name other faults by --fault."
        )));
    }
    Ok(Some(MinReplicas {
        replicas,
        max_lag_ns: nanoseconds(lag),
    }))
}

/// A number of replicas and a time in `bounds`.
fn counted(
    option: &str,
    example: &str,
    text: &str,
    topology: &Topology,
    bounds: [Duration; 2],
) -> Result<(u64, Duration), Failure> {
    let invalid = |why: String| Failure::invalid(option, "value", text, why);
    let form = || invalid(format!("expected N:T, such as {example}"));
    let (replicas, time) = text.split_once(':').ok_or_else(form)?;
    let replicas: u64 = replicas.parse().map_err(|_| form())?;
    let time = units::duration(time).map_err(|_| form())?;
    let [shortest, longest] = bounds;
    if !(shortest..=longest).contains(&time) {
        let (shortest, longest) = (duration_text(shortest), duration_text(longest));
        return Err(invalid(format!("the time is from {shortest} to {longest}")));
    }
    let most = of_master(topology);
    if most == 0 {
        return Err(Failure::usage(format!(
            "{option}: `{topology}` has no replica; use replica, sentinel or cluster."
        )));
    }
    if !(1..=most).contains(&replicas) {
        return Err(invalid(match most {
            1 => "expected 1 replica".to_owned(),
            most => format!("expected 1 to {most} replicas"),
        }));
    }
    Ok((replicas, time))
}

/// The replicas of a master.
fn of_master(topology: &Topology) -> u64 {
    match topology {
        Topology::Replica | Topology::Cluster => 1,
        Topology::Sentinel => 2,
        _ => 0,
    }
}
