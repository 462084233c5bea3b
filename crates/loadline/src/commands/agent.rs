//! `loadline agent`, and `loadline run --agents`: load generators that run one plan together.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::Limit;
use loadline_measure::agents::protocol::Outcome;
use loadline_measure::gate;
use loadline_measure::record::{LostAgent, Record};
use rand::RngExt;

use super::{merge, run, surroundings};
use crate::args::{AgentArgs, DisplayArgs, LoginArgs, RunArgs, TlsArgs};
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{self, Membership, Outputs, Plan, SharedPlan};
use crate::session::group::{AgentId, Group, Identity, Leading, Parting, Parts, Terms, listed};
use crate::session::{self, Ending, Recorded, Results, Shell, finish};
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

/// `loadline run --agents`: the process of rank 0 makes the plan and prints the report; the others are agents.
pub(super) fn lead(agents: u32, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let tls = &args.connection.tls;
    let membership = plan::resolve_membership(&args.agents.membership, tls, variable)?;
    let group = plan::resolve_group(agents, &args.agents, membership.rank)?;
    if membership.rank > 0 {
        return follow(&Agent {
            membership,
            json: None,
            login: &args.connection.login,
            tls,
            display: &args.results.display,
        });
    }
    let around = surroundings();
    let asked = plan::resolve(args, &around)?;
    let shared = SharedPlan::of(args, &asked, &group, rand::rng().random())?;
    let plan = shared.resolve(0, &args.connection.login, tls, &around)?;
    let limits = plan::limits(&args.limits, &plan)?;
    let outputs = Outputs::resolve(&args.results.outputs)?;
    let mut description = plan.describe_with(&limits);
    description.section("Agents");
    description.line(format!("{agents}, each with this plan and keys of its own"));
    if args.results.plan.dry_run {
        files::print(&description.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shell = Shell::start_in_group(&args.results.display)?;
    shell.say_estimate(description.estimate());
    let (mut coordinator, run_id) = Coordinator::open(&membership)?;
    refuse_coordinator(&asked, run_id.as_deref(), &membership, &shell.control)?;
    let json = shared.to_json();
    coordinator.publish(&json)?;
    let terms = Terms {
        agents,
        fewest: group.fewest,
        cases: u32::try_from(plan.cases.len()).expect("a plan has few cases"),
        plan: digest_of(&json),
        version: shared.version.clone(),
        join: membership.join,
        lease: group.lease,
    };
    let leading = Leading::start(coordinator.again()?, terms)?;
    let id = AgentId {
        run: membership.run.clone(),
        own_run: plan::new_run_id(),
        rank: 0,
        agents,
    };
    let part = take_part(shell, &plan, coordinator, id.clone(), (&shared, &json))?;
    let led = leading.finish();
    let finishing = Finishing {
        id,
        outputs: &outputs,
        limits: &limits,
        args,
    };
    finishing.finish(part, led)
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
    let id = AgentId {
        run: membership.run.clone(),
        own_run: plan::new_run_id(),
        rank: membership.rank,
        agents: shared.agents,
    };
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

/// The end of a run with several agents, on rank 0.
struct Finishing<'a> {
    id: AgentId,
    outputs: &'a Outputs,
    limits: &'a [Limit],
    args: &'a RunArgs,
}

impl Finishing<'_> {
    fn finish(&self, part: Part, led: Parts) -> anyhow::Result<ExitCode> {
        let Some(outcome) = led.outcome else {
            if let Ok(recorded) = &part.recorded {
                keep(&self.id, &recorded.record)?;
            }
            return Err(Failure::new(
                Exit::Incomplete,
                "The coordinator was lost, so the agents stopped. Each kept its record in a file; \
                 `loadline merge FILE...` makes one of them.",
            )
            .into());
        };
        if led.parts.is_empty() {
            // An agent's own failure says more than that it failed.
            part.recorded?;
            return Err(Failure::new(
                Exit::Incomplete,
                format!("No agent measured anything: {}.", listed(&outcome.lost)),
            )
            .into());
        }
        let printer = crate::printer::Printer::new(&self.args.results.display);
        let mut record = merge::merged(&led.parts)?;
        self.mark(&mut record, &outcome);
        let is_complete = !outcome.is_stopped;
        if is_complete {
            let judged = gate::limits_of_cases(&record.cases, self.limits);
            record.limits = loadline_report::rows(judged);
        }
        let recorded = Recorded {
            record,
            broken: None,
        };
        let Recorded { record, broken } = match is_complete {
            true => recorded.refuse_errors(),
            false => recorded,
        };
        let mut results = Results::of_record("run", &record, self.outputs, &printer)?;
        results.broken = broken;
        if !is_complete {
            results.ending = Ending::answer("incomplete", Exit::Incomplete.code());
        } else if !self.limits.is_empty() {
            run::judge(&record.limits, self.args.strict, &mut results);
        }
        Ok(finish(&results, &printer))
    }

    /// Notes in the record which agents were lost.
    fn mark(&self, record: &mut Record, outcome: &Outcome) {
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
        }
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
