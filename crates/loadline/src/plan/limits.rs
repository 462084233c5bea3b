//! The limits in `--limit`.

use loadline_measure::Limit;

use super::{Plan, case_name};
use crate::args::{LimitArg, LimitArgs};
use crate::exit::Failure;

/// The limits in `asked`, with `default` replaced by those of the plan's bundle.
///
/// # Errors
/// A usage error for a limit about a case that the plan does not have, and for `default` if the plan has no
/// bundle.
pub(crate) fn limits(asked: &LimitArgs, plan: &Plan) -> Result<Vec<Limit>, Failure> {
    let names: Vec<String> = plan
        .cases
        .iter()
        .map(|case| case_name(case, plan))
        .collect();
    let mut limits = Vec::new();
    for limit in &asked.limit {
        let LimitArg::Is(limit) = limit else {
            let of_bundle = of_bundle(plan);
            if of_bundle.is_empty() {
                return Err(Failure::usage(
                    "--limit default: the default limits belong to a suite, but no suite is measured; add --workload manager.",
                ));
            }
            limits.extend(of_bundle);
            continue;
        };
        if !names.iter().any(|name| limit.concerns(name)) {
            let why = format!("unknown case: expected {}", names.join(", "));
            return Err(Failure::invalid("--limit", "limit", limit, why));
        }
        limits.push(limit.clone());
    }
    Ok(limits)
}

/// The limits that the plan's bundle is meant to keep; none if it has no bundle.
fn of_bundle(plan: &Plan) -> Vec<Limit> {
    let names: Vec<&str> = plan.cases.iter().map(|case| case.name.as_str()).collect();
    let mut bundles = plan
        .cases
        .iter()
        .filter_map(|case| case.workload.rules.bundle);
    let texts = bundles.next().map(|bundle| bundle.limits_of(&names));
    texts
        .into_iter()
        .flatten()
        .map(|text| text.parse().expect("the limits of bundles are tested"))
        .collect()
}

/// The lines about limits: those that are judged, and those that could be.
pub(super) fn lines(limits: &[Limit], plan: &Plan) -> Vec<String> {
    if !limits.is_empty() {
        return limits
            .iter()
            .map(|limit| format!("judged  {limit}"))
            .collect();
    }
    let of_bundle = of_bundle(plan);
    if of_bundle.is_empty() {
        return Vec::new();
    }
    let shown: Vec<String> = of_bundle.iter().map(ToString::to_string).collect();
    let mut lines = vec!["judged only with --limit default".to_owned()];
    lines.extend(shown);
    lines
}
