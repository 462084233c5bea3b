//! Servers that run already, whose outage is observed.

use std::slice;
use std::time::Duration;

use loadline_measure::failover::{Fault, Topology};

use super::{Surroundings, TrialPlan};
use crate::args::FailoverArgs;
use crate::exit::Failure;
use crate::plan::targets;
use crate::spelling::{Durability, Target};

/// The time of the load.
const DEFAULT_TIME: Duration = Duration::from_secs(60);

/// The target, with its credentials; `None` without --watch.
///
/// # Errors
/// A usage error for an invalid target, one that does not run already, or flags without --watch that are about one.
pub(super) fn resolve(
    args: &FailoverArgs,
    around: &Surroundings,
) -> Result<Option<Target>, Failure> {
    let text = args.topology.as_deref().unwrap_or_default();
    if !args.watch {
        if text.contains("://") {
            return Err(Failure::usage(format!(
                "{text}: servers that run already are not broken; add --watch to observe an outage that somebody else causes."
            )));
        }
        let (login, tls) = (&args.login, &args.tls);
        let is_given = login.user.is_some() || login.password_file.is_some();
        if is_given || args.choices.allow_non_empty || tls.tls_ca.is_some() || tls.tls_insecure {
            return Err(Failure::usage(
                "--user, --password-file, --allow-non-empty and the TLS flags apply only to a TARGET with --watch.",
            ));
        }
        return Ok(None);
    }
    let mut target = Target::parse(text)?;
    if target.is_ours() {
        return Err(Failure::usage(format!(
            "--watch: {target} does not run already; use redis://, rediss://, unix://, sentinel:// or cluster://."
        )));
    }
    targets::refuse_unused_tls(slice::from_ref(&target), &args.tls)?;
    targets::log_in(slice::from_mut(&mut target), &args.login, around)?;
    Ok(Some(target))
}

/// The topology whose limits apply to `target`.
pub(super) fn kind_of(target: &Target) -> Topology {
    match target {
        Target::Cluster(_) => Topology::Cluster,
        Target::Sentinel(_) => Topology::Sentinel,
        _ => Topology::Standalone,
    }
}

/// The load, without a fault of ours.
pub(super) fn trial(args: &FailoverArgs) -> TrialPlan {
    TrialPlan {
        fault: Fault::Observed,
        durability: Durability::Memory,
        script: None,
        lead: Duration::ZERO,
        after: args.duration.unwrap_or(DEFAULT_TIME),
        stopped: Duration::ZERO,
        goes_on: false,
    }
}
