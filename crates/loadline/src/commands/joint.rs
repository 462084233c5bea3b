//! The runs of a command with `--agents`, as the process of rank 0 leads them.

use std::process::ExitCode;

use loadline_load::Control;
use loadline_measure::Limit;
use loadline_measure::agents::protocol::{Lost, Outcome};
use loadline_measure::record::{LostAgent, Record};
use rand::RngExt;

use super::agent::{Agent, Part, follow, id_of, keep, take_part, variable};
use super::{merge, surroundings};
use crate::args::{AgentsArgs, ConnectionArgs, DisplayArgs, LimitArgs, ResultArgs};
use crate::exit::{Exit, Failure};
use crate::files;
use crate::plan::{self, Description, Group, Membership, Plan, SharedPlan};
use crate::printer::Printer;
use crate::session::Shell;
use crate::session::group::{AgentId, Leading, Parts, Terms, listed};
use crate::subjects;
use crate::systems::coordinator::{Coordinator, digest_of};

/// A run of several agents, as its command resolved it.
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

/// The part of this process in a command of several agents.
pub(super) enum Entered {
    /// It was an agent, and has ended.
    Agent(ExitCode),
    /// It has rank 0.
    Leader(Box<Leader>),
}

/// The process of rank 0 before anything is measured.
pub(super) struct Leader {
    membership: Membership,
    group: Group,
    connection: ConnectionArgs,
    /// Whether the target can have keys before the run.
    allow_non_empty: bool,
}

/// The process of rank 0 while agents run its plans, one after the other.
pub(super) struct Series {
    leader: Leader,
    shell: Shell,
    coordinator: Coordinator,
    /// Whether the agents wait for another plan.
    are_waiting: bool,
    /// The agents that the last run lost.
    lost: Vec<LostAgent>,
}

/// Joins the agents of a command, if it has `--agents`: the process of rank 0 is to lead them; the others run its plans
/// here. `connection` has the credentials of this process.
///
/// # Errors
/// A usage error for a group that cannot be, and the failures of an agent.
pub(super) fn enter_if_asked(
    args: &AgentsArgs,
    connection: &ConnectionArgs,
    display: &DisplayArgs,
) -> anyhow::Result<Option<Entered>> {
    let agents = args.agents;
    let entered = agents.map(|agents| enter(agents, args, connection, display));
    entered.transpose()
}

fn enter(
    agents: u32,
    args: &AgentsArgs,
    connection: &ConnectionArgs,
    display: &DisplayArgs,
) -> anyhow::Result<Entered> {
    let ConnectionArgs { login, tls, .. } = connection;
    let membership = plan::resolve_membership(&args.membership, tls, variable)?;
    let group = plan::resolve_group(agents, args, membership.rank)?;
    if membership.rank > 0 {
        let ended = follow(&Agent {
            membership,
            json: None,
            login,
            tls,
            display,
        });
        return Ok(Entered::Agent(ended?));
    }
    Ok(Entered::Leader(Box::new(Leader {
        membership,
        group,
        connection: connection.clone(),
        allow_non_empty: false,
    })))
}

/// Runs the only plan of a command: the process of rank 0 returns the common record; the others are agents.
///
/// # Errors
/// A usage error for a plan that agents cannot share; [`Exit::Incomplete`] without a record.
pub(super) fn lead(agents: u32, joint: &Joint<'_>) -> anyhow::Result<Led> {
    let results = joint.results;
    let mut leader = match enter(agents, joint.agents, joint.connection, &results.display)? {
        Entered::Agent(code) => return Ok(Led::Ended(code)),
        Entered::Leader(leader) => leader,
    };
    if joint.targets.len() > 1 {
        leader.refuse_degraded("a comparison needs the same load in all of its rounds")?;
    }
    let shared = leader.share(joint.targets, joint.words, joint.plan)?;
    let plan = leader.plan_of(&shared)?;
    let limits = plan::limits(joint.limits, &plan)?;
    let mut description = plan.describe_with(&limits);
    leader.describe(&mut description);
    if results.plan.dry_run {
        files::print(&description.to_text())?;
        return Ok(Led::Ended(ExitCode::SUCCESS));
    }
    let shell = Shell::start_in_group(&results.display)?;
    shell.say_estimate(description.estimate());
    let mut series = leader.open(&plan, shell)?;
    Ok(Led::Measured(Box::new(Together {
        record: series.measure(&shared, false)?,
        limits,
        printer: Printer::new(&results.display),
    })))
}

impl Leader {
    /// Number of agents.
    pub(super) fn agents(&self) -> u32 {
        self.group.agents
    }

    /// Refuses to go on without lost agents, because of `why`.
    ///
    /// # Errors
    /// A usage error.
    pub(super) fn refuse_degraded(&self, why: &str) -> Result<(), Failure> {
        if self.group.fewest == self.group.agents {
            return Ok(());
        }
        Err(Failure::usage(format!("--degraded: {why}; leave it out.")))
    }

    /// Connects to targets with the credentials of `connection`.
    pub(super) fn with_connection(self, connection: &ConnectionArgs) -> Self {
        Self {
            connection: connection.clone(),
            ..self
        }
    }

    /// The plan of `targets` and the arguments `words`, which a single load generator resolves as `plan`.
    ///
    /// # Errors
    /// A usage error for a plan that agents cannot share.
    pub(super) fn share(
        &mut self,
        targets: &[String],
        words: &[String],
        plan: &Plan,
    ) -> Result<SharedPlan, Failure> {
        self.allow_non_empty = plan.allow_non_empty;
        let entropy = rand::rng().random();
        SharedPlan::of(targets, words, plan, &self.group, entropy)
    }

    /// The part of this process in `shared`.
    ///
    /// # Errors
    /// Those of [`SharedPlan::resolve`].
    pub(super) fn plan_of(&self, shared: &SharedPlan) -> Result<Plan, Failure> {
        let ConnectionArgs { login, tls, .. } = &self.connection;
        shared.resolve(0, login, tls, &surroundings())
    }

    /// Adds the agents to the description of a plan.
    pub(super) fn describe(&self, description: &mut Description) {
        description.section("Agents");
        let agents = self.agents();
        description.line(format!("{agents}, each with this plan and keys of its own"));
    }

    /// Meets the agents on the coordinator, which must not be a server of the target of `plan`. That must have no keys, unless
    /// they are allowed: later, it has those of other agents.
    ///
    /// # Errors
    /// A usage error if it is or has; if the coordinator or the target cannot be reached.
    pub(super) fn open(self, plan: &Plan, shell: Shell) -> Result<Series, Failure> {
        let (coordinator, run_id) = Coordinator::open(&self.membership)?;
        let before = Plan {
            allow_non_empty: self.allow_non_empty,
            ..plan.clone()
        };
        refuse_coordinator(&before, run_id.as_deref(), &self.membership, &shell.control)?;
        Ok(Series {
            leader: self,
            shell,
            coordinator,
            are_waiting: false,
            lost: Vec::new(),
        })
    }
}

impl Series {
    /// Runs `shared` and returns the common record. If it `has_more`, the agents wait for another plan afterwards.
    ///
    /// # Errors
    /// [`Exit::Incomplete`] without a record; if the coordinator does not answer.
    pub(super) fn measure(
        &mut self,
        shared: &SharedPlan,
        has_more: bool,
    ) -> Result<Record, Failure> {
        let Leader {
            membership, group, ..
        } = &self.leader;
        let shared = shared.again(rand::rng().random(), has_more);
        let plan = self.leader.plan_of(&shared)?;
        let json = shared.to_json();
        self.coordinator.publish(&json)?;
        self.are_waiting = has_more;
        let terms = Terms {
            agents: shared.agents,
            fewest: group.fewest.min(shared.agents),
            cases: plan.starts(),
            plan: digest_of(&json),
            version: shared.version.clone(),
            join: membership.join,
            lease: group.lease,
        };
        let leading = Leading::start(self.coordinator.again()?, terms)?;
        let id = id_of(membership, &shared);
        let (shell, coordinator) = (self.shell.clone(), self.coordinator.again()?);
        let part = take_part(shell, &plan, coordinator, id.clone(), (&shared, &json))?;
        let led = leading.finish();
        let lost = led.outcome.iter().flat_map(|outcome| &outcome.lost);
        self.lost = lost.map(noted).collect();
        common_record(&id, part, led)
    }

    /// The agents that the last run lost, also if there is no record of it.
    pub(super) fn lost(&self) -> &[LostAgent] {
        &self.lost
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        if self.are_waiting {
            // Without it, the agents wait until the time for joining is over.
            let _ = self.coordinator.close();
        }
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

/// Refuses a record without all of its agents.
///
/// # Errors
/// [`Exit::Incomplete`] with the agents that were lost.
pub(super) fn refuse_incomplete(record: &Record) -> Result<(), Failure> {
    let lost = record.lost_agents.iter().map(|lost| lost.reason.as_str());
    let lost: Vec<&str> = lost.collect();
    if lost.is_empty() {
        return Ok(());
    }
    let why = format!("INCOMPLETE: {}.", lost.join("; "));
    Err(Failure::new(Exit::Incomplete, why))
}

/// Notes in the record which agents were lost.
fn mark(record: &mut Record, outcome: &Outcome) {
    record.lost_agents = outcome.lost.iter().map(noted).collect();
    if outcome.is_stopped {
        record.run.cut_short = true;
        // Figures of a part of the load are no answer.
        record.findings.clear();
        record.comparisons.clear();
    }
}

/// A lost agent in the form of the record.
fn noted(lost: &Lost) -> LostAgent {
    LostAgent {
        rank: lost.rank.into(),
        reason: lost.to_string(),
        run: lost.run.clone(),
    }
}
