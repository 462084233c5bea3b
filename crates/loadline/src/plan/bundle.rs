//! Cases of bundles (the suites), which set their connections, keys and values themselves.

use loadline_load::pacing::{Pacing, Stop};

use super::{Case, Length, Surroundings};
use crate::args::RunArgs;
use crate::exit::Failure;
use crate::spelling::Target;
use crate::workload::{self, Bundle, Definition};

/// The bundle in `--workload`, if there is one.
///
/// # Errors
/// A usage error for arguments that cannot be combined with a bundle.
pub(super) fn asked(
    args: &RunArgs,
    targets: &[Target],
    around: &Surroundings,
) -> Result<Option<&'static Bundle>, Failure> {
    let names = args.load.workload.iter();
    let mut named = names.filter_map(|name| Some((name, around.bundle(name)?)));
    let Some((name, bundle)) = named.next() else {
        return Ok(None);
    };
    if args.load.workload.len() > 1 {
        return Err(Failure::usage(format!(
            "--workload {name}: a suite of several cases cannot be combined with another workload; run the other one separately."
        )));
    }
    if let Some(flag) = settled(args) {
        return Err(Failure::usage(format!(
            "{flag}: the suite {name} sets connections, keys, values and a closed loop for each of its cases, so that results are comparable; remove {flag}, or name a single workload."
        )));
    }
    if let Some(target) = targets.iter().find(|target| target.is_in_process()) {
        return Err(Failure::usage(format!(
            "--workload {name}: {target} runs in this process, but the suite measures connections; name servers."
        )));
    }
    if let Some(target) = targets.iter().find(|target| target.is_cluster()) {
        return Err(Failure::usage(format!(
            "--workload {name}: {target} is a cluster, but the suite measures single connections; name servers."
        )));
    }
    Ok(Some(bundle))
}

/// A given flag whose value the cases of a bundle set.
fn settled(args: &RunArgs) -> Option<&'static str> {
    let (load, data) = (&args.load, &args.data);
    let flags = [
        ("--connections", load.traffic.connections.is_some()),
        ("--threads", load.traffic.threads.is_some()),
        ("--pipeline", load.traffic.pipeline.is_some()),
        ("--in-flight", load.in_flight.is_some()),
        ("--batch", load.traffic.batch.is_some()),
        ("--rate", load.rate.is_some()),
        ("--keys", data.keys.is_some()),
        ("--key-dist", data.key_dist.is_some()),
        ("--value-size", data.value_size.is_some()),
        ("--value-data", data.value_data.is_some()),
    ];
    let given = flags.into_iter().find(|(_, is_given)| *is_given)?;
    Some(given.0)
}

/// A case of a bundle: one connection and one operation at a time, unless its job requires more.
pub(super) fn case(args: &RunArgs, workload: Definition, length: Length) -> Case {
    let job = workload.rules.job;
    Case {
        name: workload.name.clone(),
        connections: job.map_or(1, |job| job.connections()),
        threads: 1,
        pipeline: job.map_or(1, |job| job.batch()),
        batch: None,
        pacing: Pacing::Closed,
        length,
        keys: workload.keys,
        key_dist: workload.key_dist.clone(),
        value_size: workload.value_size.clone(),
        value_data: workload.rules.value_data,
        codec: None,
        durability: None,
        verify: workload.rules.verify
            || (args.data.verify && job.is_none() && workload.can_be_verified()),
        workload,
    }
}

impl Case {
    /// The maximum number of operations per block, if it is limited.
    pub(crate) fn most_per_block(&self) -> Option<u64> {
        let rules = &self.workload.rules;
        let keys = rules.consumes.then_some(self.keys);
        keys.or_else(|| rules.job?.most_per_block())
    }

    /// Whether its operations use keys; making connections does not.
    pub(super) fn touches_keys(&self) -> bool {
        let job = self.workload.rules.job;
        !job.is_some_and(|job| job.makes_connections())
    }

    /// Whether there is a steady state to reach by a warm-up.
    pub(crate) fn warms_up(&self) -> bool {
        self.workload.rules.job.is_none_or(|job| job.warms_up())
    }

    /// Limits `stop` to the maximum of the case.
    pub(crate) fn bounded(&self, stop: Stop) -> Stop {
        let Some(most) = self.most_per_block() else {
            return stop;
        };
        Stop {
            ops: Some(stop.ops.map_or(most, |ops| ops.min(most))),
            ..stop
        }
    }
}

/// The cases that `targets` are known not to support before they are opened, a sentence each.
pub(super) fn left_out(targets: &[Target], cases: &[Case]) -> Vec<String> {
    targets
        .iter()
        .filter(|target| **target == Target::Embedded)
        .filter_map(|target| {
            let lacking = cases
                .iter()
                .filter(|case| case.workload.rules.bundle.is_some())
                .map(|case| {
                    let lacks = case
                        .workload
                        .needs()
                        .into_iter()
                        .filter(|command| !loadline_server::knows(command.as_bytes()));
                    (case.name.as_str(), lacks.collect())
                });
            workload::left_out(&target.to_string(), lacking)
        })
        .collect()
}
