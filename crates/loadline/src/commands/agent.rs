//! `loadline agent`: one of several load generators that run the plans of a command together.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::record::Record;
use rand::RngExt;

use super::surroundings;
use crate::args::{AgentArgs, DisplayArgs, LoginArgs, TlsArgs};
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{self, Membership, Plan, SharedPlan};
use crate::session::group::{AgentId, Group, Identity, Parting};
use crate::session::{self, Recorded, Shell};
use crate::systems::coordinator::{Coordinator, Published, digest_of};

/// Pause between two looks for the plan.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The arguments of an agent that is not the leader.
pub(super) struct Agent<'a> {
    pub(super) membership: Membership,
    pub(super) json: Option<&'a PathBuf>,
    pub(super) login: &'a LoginArgs,
    pub(super) tls: &'a TlsArgs,
    pub(super) display: &'a DisplayArgs,
}

/// The end of an agent's part.
pub(super) struct Part {
    pub(super) recorded: Result<Recorded, Failure>,
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

/// The identity of this process in the run of `shared`.
pub(super) fn id_of(membership: &Membership, shared: &SharedPlan) -> AgentId {
    AgentId {
        run: membership.run.clone(),
        own_run: plan::new_run_id(),
        rank: membership.rank,
        agents: shared.agents,
        order: shared.seed,
    }
}

/// Runs the plans of the command as an agent.
pub(super) fn follow(agent: &Agent<'_>) -> anyhow::Result<ExitCode> {
    let output = agent.json.cloned().map(Output::from);
    if let Some(output) = &output {
        output.check()?;
    }
    let Agent { membership, .. } = agent;
    let shell = Shell::start_in_group(agent.display)?.quietly();
    let (mut coordinator, _) = Coordinator::open(membership)?;
    let mut last = None;
    let mut ended = None;
    while let Some((shared, json)) =
        await_plan(&mut coordinator, membership, &shell.control, last.as_ref())?
    {
        if !shared.leaves_out(membership.rank) {
            let around = surroundings();
            let plan = shared.resolve(membership.rank, agent.login, agent.tls, &around)?;
            let id = id_of(membership, &shared);
            let (shell, coordinator) = (shell.quietly(), coordinator.again()?);
            let part = take_part(shell, &plan, coordinator, id.clone(), (&shared, &json))?;
            ended = end_of(&id, part, output.as_ref())?;
        }
        if ended.is_some() || !shared.has_more {
            break;
        }
        last = Some(shared);
    }
    let words = ended.map_or("done", |_| "incomplete");
    let code = ended.map_or(0, Exit::code);
    if !agent.display.quiet {
        let rank = membership.rank;
        files::write_error(&format!("loadline: agent {rank}: {words} ({code})"));
    }
    Ok(code.into())
}

/// Keeps the record of the agent where it is needed, and returns how the run ended early, if it did.
///
/// # Errors
/// The failure that ended the agent's own part.
fn end_of(id: &AgentId, part: Part, output: Option<&Output>) -> Result<Option<Exit>, Failure> {
    let recorded = part.recorded?;
    if let Some(output) = output {
        write(output, &recorded.record)?;
    }
    match (part.parting, part.stopped) {
        (Parting::CutOff(why), _) => {
            if output.is_none() {
                keep(id, &recorded.record)?;
            }
            files::complain(&format!("{why}."));
        }
        (Parting::Dismissed, Some(why)) => {
            files::complain(&format!("The run was stopped: {why}."));
        }
        (Parting::Dismissed, None) => return recorded.broken.map_or(Ok(None), Err),
    }
    Ok(Some(Exit::Incomplete))
}

/// Waits for the plan of the run that follows `last`; `None` if the command has no further runs.
fn await_plan(
    coordinator: &mut Coordinator,
    membership: &Membership,
    control: &Control,
    last: Option<&SharedPlan>,
) -> Result<Option<(SharedPlan, String)>, Failure> {
    let begun = Instant::now();
    loop {
        match (coordinator.plan()?, last) {
            // That of an earlier command of the same name.
            (Published::NoMore, None) | (Published::Nothing, _) => {}
            (Published::NoMore, Some(_)) => return Ok(None),
            (Published::Plan(json), _) => {
                let plan = SharedPlan::from_json(&json)?;
                match last {
                    // It is there until its run is tidied up.
                    Some(last) if *last == plan => {}
                    Some(last) if !last.is_followed_by(&plan) => return Ok(None),
                    _ => return Ok(Some((plan, json))),
                }
            }
        }
        if control.interrupted() {
            return Err(Failure::new(
                Exit::Interrupted,
                "Interrupted before there was a plan.",
            ));
        }
        if begun.elapsed() > membership.join {
            return Err(no_plan(membership, last.is_some()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The failure of an agent without a plan, or without a further one.
fn no_plan(membership: &Membership, is_further: bool) -> Failure {
    let Membership {
        run, coordinator, ..
    } = membership;
    if is_further {
        return Failure::new(
            Exit::Incomplete,
            format!(
                "The process of rank 0 has not published a further plan of run {run}; see its output."
            ),
        );
    }
    Failure::unavailable(format!(
        "There is no plan of run {run} on {coordinator}; start the command with --agents, such as `loadline run --agents N --run {run}`, with rank 0, and check --run."
    ))
}

/// Measures `plan`, which is a part of the shared one, as one of several agents, and hands in the record.
pub(super) fn take_part(
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

/// Writes the record of an agent to a file, because the leader did not get it.
pub(super) fn keep(id: &AgentId, record: &Record) -> Result<(), Failure> {
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

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
