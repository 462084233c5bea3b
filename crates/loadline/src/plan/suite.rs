//! Cases of suites, which say themselves how many connections, keys and values they have.

use loadline_load::pacing::{Pacing, Stop};

use super::{Case, Length};
use crate::args::RunArgs;
use crate::exit::Failure;
use crate::target::Target;
use crate::workload::{self, Definition, Task};

/// The cases of the suite that `--workload` names, where it names one.
///
/// # Errors
/// A usage error for what cannot stand beside a suite.
pub(super) fn asked(
    args: &RunArgs,
    targets: &[Target],
) -> Result<Option<Vec<Definition>>, Failure> {
    let suites = args
        .load
        .workload
        .iter()
        .zip(args.load.workload.iter().map(|name| workload::suite(name)));
    let Some((name, cases)) = suites
        .into_iter()
        .find_map(|(name, cases)| Some((name, cases?)))
    else {
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
    Ok(Some(cases))
}

/// A flag that is given and that a suite has settled.
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

/// A case of a suite: one connection and one operation at a time, unless its task says otherwise.
pub(super) fn case(args: &RunArgs, workload: Definition, length: Length) -> Case {
    let task = workload.rules.task;
    Case {
        name: workload.name.clone(),
        connections: task.map_or(1, |task| task.connections()),
        threads: 1,
        pipeline: task.map_or(1, |task| task.batch()),
        batch: None,
        pacing: Pacing::Closed,
        length,
        keys: workload.keys,
        key_dist: workload.key_dist.clone(),
        value_size: workload.value_size.clone(),
        value_data: workload.rules.value_data,
        codec: None,
        verify: workload.rules.verify
            || (args.data.verify && task.is_none() && workload.can_be_verified()),
        workload,
    }
}

impl Case {
    /// The most operations of a block, where something bounds them.
    pub(crate) fn most_per_block(&self) -> Option<u64> {
        let rules = &self.workload.rules;
        let keys = rules.consumes.then_some(self.keys);
        keys.or_else(|| rules.task?.most_per_block())
    }

    /// Whether keys are what it is about; making connections is not.
    pub(super) fn touches_keys(&self) -> bool {
        let makes = |task| {
            matches!(
                task,
                Task::PoolInit | Task::Connect | Task::ConnectionMemory
            )
        };
        !self.workload.rules.task.is_some_and(makes)
    }

    /// Whether there is a steady state to warm up to.
    pub(crate) fn warms_up(&self) -> bool {
        self.workload.rules.task.is_none_or(|task| task.warms_up())
    }

    /// `stop`, but no later than the case allows.
    pub(crate) fn bounded(&self, stop: Stop) -> Stop {
        let Some(most) = self.most_per_block() else {
            return stop;
        };
        Stop {
            ops: Some(stop.ops.map_or(most, |ops| ops.min(most))),
            ..stop
        }
    }

    /// What a plan says about what sets the case apart.
    pub(super) fn rules_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(task) = self.workload.rules.task {
            lines.push(format!("through loadline-client: {task}"));
        }
        if let Some(most) = self.most_per_block() {
            lines.push(format!(
                "at most {} operations in a block",
                crate::units::count_text(most)
            ));
        }
        if self.workload.rules.consumes {
            lines.push("checks that every key was there".into());
        }
        lines
    }
}

/// What `targets` are known to lack before they are opened, a sentence each.
pub(super) fn left_out(targets: &[Target], cases: &[Case]) -> Vec<String> {
    targets
        .iter()
        .filter(|target| **target == Target::Embedded)
        .filter_map(|target| {
            let lacking = cases
                .iter()
                .filter(|case| case.workload.rules.suite.is_some())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::plan::{Plan, Surroundings, resolve};

    fn plan(suite: &str) -> Plan {
        let words = [
            "loadline",
            "run",
            "embedded",
            "--workload",
            suite,
            "--seed",
            "1",
        ];
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("these are the words of a run")
        };
        let around = Surroundings {
            cores: 8,
            has_redis_server: true,
            password: None,
            memory_bytes: Some(8 << 30),
            entropy: 7,
        };
        resolve(&args, &around).unwrap()
    }

    fn case<'p>(plan: &'p Plan, name: &str) -> &'p Case {
        plan.cases.iter().find(|case| case.name == name).unwrap()
    }

    #[test]
    fn one_connection_does_one_thing_at_a_time_unless_its_task_says_otherwise() {
        let plan = plan("manager");
        for case in &plan.cases {
            let task = case.workload.rules.task;
            assert_eq!(case.threads, 1);
            assert_eq!(case.connections, task.map_or(1, |task| task.connections()));
            assert_eq!(case.pacing, Pacing::Closed);
        }
        assert_eq!(case(&plan, "pipeline_set").pipeline, 100);
        assert!(case(&plan, "session_get").verify && !case(&plan, "get").verify);
    }

    #[test]
    fn a_block_ends_where_its_keys_or_ports_do() {
        let plan = plan("manager");
        let second = Stop::after(Duration::from_secs(1));
        for (name, ops) in [
            ("get", None),
            ("del", Some(20_000)),
            ("connect", Some(250)),
            ("pool_init", Some(250)),
        ] {
            let stop = case(&plan, name).bounded(second);
            assert_eq!((stop.ops, stop.duration), (ops, second.duration), "{name}");
        }
        assert_eq!(case(&plan, "del").bounded(Stop::after_ops(9)).ops, Some(9));
        let many = Stop::after_ops(1 << 40);
        assert_eq!(case(&plan, "del").bounded(many).ops, Some(20_000));
    }

    #[test]
    fn what_our_server_lacks_is_known_before_it_runs() {
        let plan = plan("manager-classic");
        let both = [Target::Embedded, Target::Spawn("redis-server".into())];
        assert_eq!(
            left_out(&both, &plan.cases),
            ["embedded has no XADD and no XREAD: xadd, xread left out."]
        );
        assert!(left_out(&both[1..], &plan.cases).is_empty());
    }
}
