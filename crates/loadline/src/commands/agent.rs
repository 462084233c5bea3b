//! `loadline agent`, and the part of other commands with `--agents`: load generators that run one plan together.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::Limit;
use loadline_measure::agents::protocol::Outcome;
use loadline_measure::record::{LostAgent, Record};
use rand::RngExt;

use super::{merge, surroundings};
use crate::args::{
    AgentArgs, AgentsArgs, ConnectionArgs, DisplayArgs, LimitArgs, LoginArgs, ResultArgs, TlsArgs,
};
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{self, Membership, Plan, SharedPlan};
use crate::printer::Printer;
use crate::session::group::{AgentId, Group, Identity, Leading, Parting, Parts, Terms, listed};
use crate::session::{self, Recorded, Shell};
use crate::subjects;
use crate::systems::coordinator::{Coordinator, digest_of};

/// Pause between two looks for the plan.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The arguments of an agent that is not the leader.
struct Agent<'a> {
    membership: Membership,
    json: Option<&'a PathBuf>,
    login: &'a LoginArgs,
    tls: &'a TlsArgs,
    display: &'a DisplayArgs,
}

/// The end of an agent's part.
struct Part {
    recorded: Result<Recorded, Failure>,
    parting: Parting,
    /// The reason why the group stopped it.
    stopped: Option<String>,
}

pub(super) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    let membership = plan::resolve_membership(&args.membership, &args.tls, variable)?;
    follow(&Agent {
        membership,
        json: args.json.as_ref(),
        login: &args.login,
        tls: &args.tls,
        display: &args.display,
    })
}

/// A plan of several agents, as their command resolved it.
pub(super) struct Joint<'a> {
    pub(super) agents: &'a AgentsArgs,
    pub(super) connection: &'a ConnectionArgs,
    pub(super) limits: &'a LimitArgs,
    pub(super) results: &'a ResultArgs,
    pub(super) targets: &'a [String],
    /// The arguments that say what is measured, as they would be typed.
    pub(super) words: &'a [String],
    /// The plan of a single load generator.
    pub(super) plan: &'a Plan,
}

/// The end of a plan of several agents in this process.
pub(super) enum Led {
    /// There is nothing to report here.
    Ended(ExitCode),
    /// The agents measured.
    Measured(Box<Together>),
}

/// The measurements of all agents.
pub(super) struct Together {
    /// Marked as cut short if an agent was lost.
    pub(super) record: Record,
    pub(super) limits: Vec<Limit>,
    pub(super) printer: Printer,
}

/// Runs a plan of `agents` agents: the process of rank 0 publishes it and returns the common record; the others are agents.
///
/// # Errors
/// A usage error for a plan that agents cannot share; [`Exit::Incomplete`] without a record.
pub(super) fn lead(agents: u32, joint: &Joint<'_>) -> anyhow::Result<Led> {
    let Joint {
        connection: ConnectionArgs { login, tls, .. },
        results,
        ..
    } = joint;
    let membership = plan::resolve_membership(&joint.agents.membership, tls, variable)?;
    let group = plan::resolve_group(agents, joint.agents, membership.rank)?;
    if group.fewest < agents && joint.targets.len() > 1 {
        return Err(Failure::usage(
            "--degraded: a comparison needs the same load in all of its rounds; leave it out.",
        )
        .into());
    }
    if membership.rank > 0 {
        let display = &results.display;
        let json = None;
        let ended = follow(&Agent {
            membership,
            json,
            login,
            tls,
            display,
        });
        return Ok(Led::Ended(ended?));
    }
    let entropy = rand::rng().random();
    let shared = SharedPlan::of(joint.targets, joint.words, joint.plan, &group, entropy)?;
    let plan = shared.resolve(0, login, tls, &surroundings())?;
    let limits = plan::limits(joint.limits, &plan)?;
    let mut description = plan.describe_with(&limits);
    description.section("Agents");
    description.line(format!("{agents}, each with this plan and keys of its own"));
    if results.plan.dry_run {
        files::print(&description.to_text())?;
        return Ok(Led::Ended(ExitCode::SUCCESS));
    }
    let shell = Shell::start_in_group(&results.display)?;
    shell.say_estimate(description.estimate());
    let (mut coordinator, run_id) = Coordinator::open(&membership)?;
    refuse_coordinator(joint.plan, run_id.as_deref(), &membership, &shell.control)?;
    let json = shared.to_json();
    coordinator.publish(&json)?;
    let terms = Terms {
        agents,
        fewest: group.fewest,
        cases: plan.starts(),
        plan: digest_of(&json),
        version: shared.version.clone(),
        join: membership.join,
        lease: group.lease,
    };
    let leading = Leading::start(coordinator.again()?, terms)?;
    let id = id_of(&membership, &shared);
    let part = take_part(shell, &plan, coordinator, id.clone(), (&shared, &json))?;
    Ok(Led::Measured(Box::new(Together {
        record: common_record(&id, part, leading.finish())?,
        limits,
        printer: Printer::new(&results.display),
    })))
}

/// The identity of this process in the run of `shared`.
fn id_of(membership: &Membership, shared: &SharedPlan) -> AgentId {
    AgentId {
        run: membership.run.clone(),
        own_run: plan::new_run_id(),
        rank: membership.rank,
        agents: shared.agents,
        order: shared.seed,
    }
}

/// Refuses a coordinator that is the target, or one of its servers. The target must be fit to be measured.
fn refuse_coordinator(
    plan: &Plan,
    run_id: Option<&str>,
    membership: &Membership,
    control: &Control,
) -> Result<(), Failure> {
    for target in &plan.targets {
        let mut opened = subjects::open(target, plan, control)?;
        let is_same = opened
            .nodes()
            .iter()
            .any(|node| node.address == membership.coordinator.address)
            || run_id.is_some_and(|id| opened.run_ids().iter().any(|other| other == id));
        if is_same {
            return Err(Failure::usage(format!(
                "--coordinator: {} is a server of the target {target}; its messages would be measured as well. Use another server.",
                membership.coordinator
            )));
        }
    }
    Ok(())
}

/// Runs the plan of the run as an agent.
fn follow(agent: &Agent<'_>) -> anyhow::Result<ExitCode> {
    let output = agent.json.cloned().map(Output::from);
    if let Some(output) = &output {
        output.check()?;
    }
    let Agent { membership, .. } = agent;
    let shell = Shell::start_in_group(agent.display)?;
    let shell = shell.quietly();
    let (mut coordinator, _) = Coordinator::open(membership)?;
    let json = await_plan(&mut coordinator, membership, &shell.control)?;
    let shared = SharedPlan::from_json(&json)?;
    let plan = shared.resolve(membership.rank, agent.login, agent.tls, &surroundings())?;
    let id = id_of(membership, &shared);
    let part = take_part(shell, &plan, coordinator, id.clone(), (&shared, &json))?;
    if let (Some(output), Ok(recorded)) = (&output, &part.recorded) {
        write(output, &recorded.record)?;
    }
    if let Err(failure) = part.recorded {
        return Err(failure.into());
    }
    let recorded = part.recorded?;
    let (words, exit) = match (part.parting, part.stopped) {
        (Parting::CutOff(why), _) => {
            if output.is_none() {
                keep(&id, &recorded.record)?;
            }
            files::complain(&format!("{why}."));
            ("incomplete", Some(Exit::Incomplete))
        }
        (Parting::Dismissed, Some(why)) => {
            files::complain(&format!("The run was stopped: {why}."));
            ("incomplete", Some(Exit::Incomplete))
        }
        (Parting::Dismissed, None) => ("done", None),
    };
    if let Some(failure) = recorded.broken.filter(|_| exit.is_none()) {
        return Err(failure.into());
    }
    let code = exit.map_or(0, Exit::code);
    if !agent.display.quiet {
        files::write_error(&format!("loadline: agent {}: {words} ({code})", id.rank));
    }
    Ok(code.into())
}

/// Waits for the plan of the run.
fn await_plan(
    coordinator: &mut Coordinator,
    membership: &Membership,
    control: &Control,
) -> Result<String, Failure> {
    let begun = Instant::now();
    loop {
        if let Some(plan) = coordinator.plan()? {
            return Ok(plan);
        }
        if control.interrupted() {
            return Err(Failure::new(
                Exit::Interrupted,
                "Interrupted before there was a plan.",
            ));
        }
        if begun.elapsed() > membership.join {
            return Err(Failure::unavailable(format!(
                "There is no plan of run {} on {}; start `loadline run --agents N --run {}` with rank 0, and check --run.",
                membership.run, membership.coordinator, membership.run
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Measures `plan`, which is a part of the shared one, as one of several agents, and hands in the record.
fn take_part(
    shell: Shell,
    plan: &Plan,
    coordinator: Coordinator,
    id: AgentId,
    (shared, json): (&SharedPlan, &str),
) -> Result<Part, Failure> {
    let identity = Identity {
        rank: id.rank,
        incarnation: rand::rng().random(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: id.own_run.clone(),
        plan: digest_of(json),
        lease: shared.lease(),
    };
    let group = Group::join(coordinator, id, identity, Arc::clone(&shell.control))?;
    let group = Arc::new(group);
    let shell = Shell {
        group: Some(Arc::clone(&group)),
        ..shell
    };
    let recorded = session::measure(plan, &shell);
    let stopped = group.stopped();
    let failure = match (&recorded, &stopped) {
        (_, Some(why)) => Some(why.clone()),
        (Err(failure), None) => Some(failure.to_string()),
        (
            Ok(Recorded {
                broken: Some(failure),
                ..
            }),
            None,
        ) => Some(failure.to_string()),
        (Ok(recorded), None) if recorded.record.run.cut_short => {
            Some("it was interrupted".to_owned())
        }
        (Ok(_), None) => None,
    };
    let record = recorded.as_ref().ok().map(|recorded| &recorded.record);
    let parting = group.hand_in(record, failure)?;
    Ok(Part {
        recorded,
        parting,
        stopped: stopped.or_else(|| group.stopped()),
    })
}

/// The record of all agents after the end of the run: of the leader's own `part` and of what it collected.
///
/// # Errors
/// [`Exit::Incomplete`] if there is none, because the coordinator was lost or no agent measured anything.
fn common_record(id: &AgentId, part: Part, led: Parts) -> Result<Record, Failure> {
    let Some(outcome) = led.outcome else {
        if let Ok(recorded) = &part.recorded {
            keep(id, &recorded.record)?;
        }
        return Err(Failure::new(
            Exit::Incomplete,
            "The coordinator was lost, so the agents stopped. Each kept its record in a file; \
             `loadline merge FILE...` makes one of them.",
        ));
    };
    if led.parts.is_empty() {
        // An agent's own failure says more than that it failed.
        part.recorded?;
        return Err(Failure::new(
            Exit::Incomplete,
            format!("No agent measured anything: {}.", listed(&outcome.lost)),
        ));
    }
    let mut record = merge::merged(&led.parts)?;
    mark(&mut record, &outcome);
    Ok(record)
}

/// Notes in the record which agents were lost.
fn mark(record: &mut Record, outcome: &Outcome) {
    record.lost_agents = outcome
        .lost
        .iter()
        .map(|lost| LostAgent {
            rank: lost.rank.into(),
            reason: lost.to_string(),
            run: lost.run.clone(),
        })
        .collect();
    if outcome.is_stopped {
        record.run.cut_short = true;
        // Figures of a part of the load are no answer.
        record.findings.clear();
        record.comparisons.clear();
    }
}

/// Writes the record of an agent to a file, because the leader did not get it.
fn keep(id: &AgentId, record: &Record) -> Result<(), Failure> {
    let path = PathBuf::from(format!("loadline-{}-{}.json", id.run, id.rank));
    write(&Output::from(path.clone()), record)?;
    files::complain(&format!(
        "The record of agent {} is in {}.",
        id.rank,
        path.display()
    ));
    Ok(())
}

fn write(output: &Output, record: &Record) -> Result<(), Failure> {
    let json = record.to_json_pretty();
    let json = json.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    output.write(&json)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
