//! Limits of the times of an outage.

use loadline_measure::{Limit, Metric};

use super::TrialPlan;
use crate::args::{LimitArg, LimitArgs};
use crate::exit::Failure;

/// The limits that the write-up of the manager states.
const OF_MANAGER: [&str; 2] = ["reconnect<1s", "pool_recovery<2s"];

/// # Errors
/// A usage error for a limit of something that is not measured here.
pub(super) fn resolve(
    asked: &LimitArgs,
    has_pool: bool,
    trials: &[TrialPlan],
) -> Result<Vec<Limit>, Failure> {
    let mut limits = Vec::new();
    for limit in &asked.limit {
        match limit {
            LimitArg::Is(limit) => limits.push(limit.clone()),
            LimitArg::Default if has_pool => limits.extend(of_manager()),
            LimitArg::Default => {
                return Err(Failure::usage(
                    "--limit default: the default limits are those of a workload; add --workload manager.",
                ));
            }
        }
    }
    for limit in &limits {
        let refused = |why: String| Err(Failure::invalid("--limit", "limit", limit, why));
        if !Metric::FAULT.contains(&limit.metric()) {
            let names = Metric::FAULT.map(Metric::name).join(", ");
            return refused(format!("the metrics of a failover are {names}"));
        }
        if limit.metric() == Metric::PoolRecovery && !has_pool {
            return refused("there is no pool without --workload manager".to_owned());
        }
        let faults: Vec<&str> = trials.iter().map(|trial| trial.fault.as_str()).collect();
        if !faults.iter().any(|fault| limit.concerns(fault)) {
            return refused(format!("unknown fault: expected {}", faults.join(", ")));
        }
    }
    Ok(limits)
}

fn of_manager() -> impl Iterator<Item = Limit> {
    let parsed = |text: &str| text.parse().expect("it is tested");
    OF_MANAGER.into_iter().map(parsed)
}
