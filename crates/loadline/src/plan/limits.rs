//! What `--limit` asks for.

use loadline_measure::Limit;

use super::{Plan, case_name};
use crate::exit::Failure;
use crate::workload;

/// What stands for the limits that a suite brings.
const DEFAULT: &str = "default";

/// The limits in `texts`, where `default` is those of the suite.
///
/// # Errors
/// A usage error for what is no limit, is about a case that the plan does not have, or asks for the
/// limits of a suite where there is none.
pub(crate) fn limits(texts: &[String], plan: &Plan) -> Result<Vec<Limit>, Failure> {
    let names: Vec<String> = plan
        .cases
        .iter()
        .map(|case| case_name(case, plan))
        .collect();
    let mut limits = Vec::new();
    for text in texts {
        if text == DEFAULT {
            let of_suite = of_suite(plan);
            if of_suite.is_empty() {
                return Err(Failure::usage(
                    "--limit default: the default limits belong to a suite, but no suite is measured; add --workload manager.",
                ));
            }
            limits.extend(of_suite);
            continue;
        }
        let limit: Limit = text
            .parse()
            .map_err(|error| Failure::usage(format!("--limit {text}: {error}")))?;
        if !names.iter().any(|name| limit.concerns(name)) {
            return Err(Failure::usage(format!(
                "--limit {text}: unknown case; the cases are {}.",
                names.join(", ")
            )));
        }
        limits.push(limit);
    }
    Ok(limits)
}

/// The limits that the plan's suite is meant to keep; none where it has no suite.
fn of_suite(plan: &Plan) -> Vec<Limit> {
    let cases = plan.cases.iter();
    let of_suite = cases.filter(|case| case.workload.rules.suite.is_some());
    let names: Vec<&str> = of_suite.map(|case| case.name.as_str()).collect();
    workload::default_limits(&names)
        .iter()
        .map(|text| text.parse().expect("the limits of suites are tested"))
        .collect()
}

/// What a plan says about limits: those that are judged, and those that could be.
pub(super) fn lines(limits: &[Limit], plan: &Plan) -> Vec<String> {
    if !limits.is_empty() {
        return limits
            .iter()
            .map(|limit| format!("judged  {limit}"))
            .collect();
    }
    let of_suite = of_suite(plan);
    if of_suite.is_empty() {
        return Vec::new();
    }
    let shown: Vec<String> = of_suite.iter().map(ToString::to_string).collect();
    let mut lines = vec!["judged only with --limit default".to_owned()];
    lines.extend(shown);
    lines
}
