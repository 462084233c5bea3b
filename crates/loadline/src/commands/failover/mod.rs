//! `loadline failover`: what happens to writes when a server goes away.

mod client_kill;
mod full_disk;
mod kill;
mod lag;
mod load;
mod max_clients;
mod observed;
mod partition;
mod planned;
mod read_only;
mod replica_loss;
mod scripted;
mod slots_moved;
mod stop;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::failover::{
    Events, Failover, Fault, History, LeftOut, PoolSize, PoolUse, Trial, audit, clocks, errors,
    outage_began, reads, timeline,
};
use loadline_measure::gate;
use loadline_measure::record::Answer;

use super::run::judge;
use super::surroundings;
use crate::args::FailoverArgs;
use crate::exit::{Exit, Failure};
use crate::plan::{self, FailoverPlan, TrialPlan, run_prefix};
use crate::session::{self, Recorded, Session, Shell};
use crate::subjects::{Writers, Written};
use crate::systems::site::Site;
use crate::units::nanoseconds;
use load::{Load, loads};

/// Interval at which an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The client of the writers.
const CLIENT: &str = concat!("loadline-client ", env!("CARGO_PKG_VERSION"));

/// The beginning of a fault, and its effect on a server.
#[derive(Clone, Copy)]
struct Happened {
    began: Instant,
    /// When it ended, if it has a length.
    ended: Option<Instant>,
    /// When a server accepted writes again, if it had stopped doing so.
    ready: Option<Instant>,
    /// Times that it occurred.
    times: u64,
}

pub(super) fn run(args: &FailoverArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_failover(args, &surroundings())?;
    let lines = OnceCell::new();
    session::execute(
        "failover",
        &args.results,
        &plan.describe(),
        |shell| measure(&plan, shell, &lines),
        |record, _, results| {
            let file = plan.history.iter().cloned();
            results.files.extend(file.zip(lines.get().cloned()));
            if !plan.limits.is_empty() && !record.run.cut_short {
                judge(&record.limits, args.strict, results);
            }
        },
    )
}

/// Causes one fault after the other, and adds the answer to the record. `lines` get the history, if there is a file for it.
fn measure(
    plan: &FailoverPlan,
    shell: &Shell,
    lines: &OnceCell<String>,
) -> Result<Recorded, Failure> {
    session::record(shell, &plan.base, plan.to_json(), |session| {
        let mut answer = Failover {
            topology: plan.topology.clone(),
            client: match plan.clients[..] {
                [] => CLIENT.to_owned(),
                _ => String::new(),
            },
            clients: BTreeMap::new(),
            rate: plan.rate,
            writers: plan.writers.into(),
            pool: plan.pool.map(|pool| PoolSize {
                min: pool.min as u64,
                max: pool.max as u64,
            }),
            wait: plan.wait,
            min_replicas: plan.min_replicas,
            reads: plan.reads.clone(),
            trials: Vec::new(),
            left_out: Vec::new(),
        };
        let mut events = plan.history.as_ref().map(|_| Events::default());
        let result = match plan.watched() {
            Some(target) => observed::observe(plan, target, session, &mut answer, &mut events),
            None => trials(plan, session, &mut answer, &mut events),
        };
        if !answer.trials.is_empty() {
            lines.get_or_init(|| events.map(Events::into_lines).unwrap_or_default());
            let judged = gate::limits_of_trials(&answer.trials, &plan.limits);
            session.record.limits = loadline_report::rows(judged);
            session.record.answer = Answer::Failover(answer);
        }
        result
    })
}

fn trials(
    plan: &FailoverPlan,
    session: &mut Session<'_>,
    answer: &mut Failover,
    events: &mut Option<Events>,
) -> Result<(), Failure> {
    let progress = session.progress(plan.trials.len() as u64);
    let mut servers = None;
    for (place, trial) in plan.trials.iter().enumerate() {
        if session.shell.interrupted() {
            break;
        }
        progress.say(&format!(
            "{}: {}, {}",
            plan.topology, trial.fault, trial.durability
        ));
        let prefix = format!("{}{place}:", run_prefix(&session.run_id));
        if !trial.goes_on {
            // Those of the trial before end first.
            drop(servers.take());
        }
        match one_trial(plan, trial, &mut servers, &prefix, session) {
            Ok((all, left_out)) => {
                answer.left_out.extend(left_out);
                for (audited, history, client) in all {
                    if let Some(events) = events {
                        events.add(&audited.name(), &history);
                    }
                    answer.trials.push(audited);
                    answer.clients.extend(client);
                }
            }
            // Whatever an interrupt breaks is no failure.
            Err(_) if session.shell.interrupted() => break,
            Err(failure) => return Err(failure),
        }
        progress.step();
    }
    progress.finish();
    Ok(())
}

/// A trial with one client: the audit, the history, and the driver of the client with its version, if clients are compared.
type Audited = (Trial, History, Option<(String, String)>);

/// Starts servers if there are none, and audits the loads around one fault; nothing if the user interrupts, because a load that was
/// cut short says little.
fn one_trial(
    plan: &FailoverPlan,
    trial: &TrialPlan,
    servers: &mut Option<Site>,
    prefix: &str,
    session: &mut Session<'_>,
) -> Result<(Vec<Audited>, Vec<LeftOut>), Failure> {
    let control = &session.shell.control;
    let site = match servers {
        Some(site) => site,
        None => servers.insert(started_site(plan, trial, &control.interrupt)?),
    };
    let subject = format!("{} ({})", plan.topology, trial.durability);
    let known = &mut session.record.environment.servers;
    if !known.iter().any(|one| one.subject == subject) {
        known.extend(site.environment(&subject));
    }
    let (mut loads, absent) = loads(plan, trial, site, prefix, control)?;
    let (happened, written) = written(&mut loads, trial, site, control)?;
    if control.interrupted() {
        return Ok((Vec::new(), Vec::new()));
    }
    let findings = &mut session.record.findings;
    let absent = absent.iter();
    let mut left_out: Vec<LeftOut> = absent
        .map(|(driver, why)| leave_out(driver, trial, why, findings))
        .collect();
    let mut all = Vec::new();
    for (load, (start, written)) in loads.into_iter().zip(written) {
        // A fault of the path happens at a write, and is known once the load has ended.
        let client = load.client();
        let path = load.path.as_ref().filter(|_| trial.begins_at_a_write());
        let seen = path.map(scripted::happened);
        let happened = match (seen, &client) {
            (None, _) => happened,
            (Some(Ok(seen)), _) => seen,
            // A slow client leaves the others their results.
            (Some(Err(failure)), Some((driver, _))) => {
                left_out.push(leave_out(driver, trial, &failure, findings));
                continue;
            }
            (Some(Err(failure)), None) => return Err(failure),
        };
        if let (Some(why), Some((driver, _))) = (&written.ending, &client) {
            let finding = format!("{driver}, {}: the client ended. {why}", trial.fault);
            findings.push(finding);
        }
        let (mut trial, history) = audited(&load.ended(site)?, trial, start, &happened, written)?;
        trial.client = client.as_ref().map(|(driver, _)| driver.clone());
        all.push((trial, history, client));
    }
    Ok((all, left_out))
}

/// Notes that a client has no result in a trial, with the reason as a finding.
fn leave_out(
    driver: &str,
    trial: &TrialPlan,
    why: &Failure,
    findings: &mut Vec<String>,
) -> LeftOut {
    let finding = format!("{driver}, {}: left out. {why}", trial.fault);
    findings.push(finding.replace('\n', " "));
    LeftOut {
        client: driver.to_owned(),
        fault: trial.fault.name_with(&trial.durability.to_string()),
    }
}

/// Starts the servers of a trial.
fn started_site(
    plan: &FailoverPlan,
    trial: &TrialPlan,
    interrupt: &AtomicBool,
) -> Result<Site, Failure> {
    let (topology, program) = (&plan.topology, &plan.program);
    let site = Site::start(topology, program, trial.durability, &trial.fault, interrupt)?;
    if let Some(min) = plan.min_replicas {
        site.require_replicas(min)?;
    }
    Ok(site)
}

/// Lets each load run on a thread of its own, and causes the fault from this one, which started the servers. Returns what each
/// wrote, with the time of its start.
fn written(
    loads: &mut [Load<'_>],
    trial: &TrialPlan,
    site: &mut Site,
    control: &Control,
) -> Result<(Happened, Vec<(Instant, Written)>), Failure> {
    let is_given_up = AtomicBool::new(false);
    let is_over = || is_given_up.load(Ordering::Relaxed) || control.interrupted();
    let first = &loads[0].writers;
    let probe = format!("{}{{{}}}:ready", first.prefix, first.tags[0]);
    let tags = first.tags.clone();
    thread::scope(|scope| {
        let (begun, running): (Vec<_>, Vec<_>) = loads
            .iter_mut()
            .map(|load| {
                let (sender, begun) = mpsc::sync_channel(1);
                let running = scope.spawn(move || load.run(&sender, control, is_over));
                (begun, running)
            })
            .unzip();
        let caused = started(&begun).and_then(|starts| {
            let happened = cause(trial, site, (&probe, &tags), &starts, control)?;
            Ok((starts, happened))
        });
        is_given_up.store(caused.is_err(), Ordering::Relaxed);
        let written = running.into_iter().map(|load| {
            load.join()
                .unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
        });
        // A load that did not begin has the reason.
        let written = written.collect::<Result<Vec<Written>, Failure>>()?;
        let (starts, happened) = caused?;
        Ok((happened, starts.into_iter().zip(written).collect()))
    })
}

/// Waits until each load has begun.
fn started(begun: &[Receiver<Instant>]) -> Result<Vec<Instant>, Failure> {
    let not_begun = |_| Failure::new(Exit::Internal, "The load did not begin.");
    begun
        .iter()
        .map(|begun| begun.recv().map_err(not_begun))
        .collect()
}

/// Causes a fault of a server when it is due. `probe` is a key of the victim, and `tags` are those of the writers.
fn cause(
    trial: &TrialPlan,
    site: &mut Site,
    (probe, tags): (&str, &[String]),
    starts: &[Instant],
    control: &Control,
) -> Result<Happened, Failure> {
    let start = *starts.iter().max().expect("there is a load");
    let nothing = Happened {
        began: start,
        ended: None,
        ready: None,
        times: 0,
    };
    wait_until(start + trial.lead, control);
    if trial.begins_at_a_write() || control.interrupted() {
        return Ok(nothing);
    }
    let happened = match trial.fault {
        // A server that loads has been started with data, and has to read it.
        Fault::Kill | Fault::Loading => kill::cause(site, probe, control)?,
        Fault::Stop => stop::cause(site, trial.stopped, probe, control)?,
        // The path delays the close.
        Fault::ClientKill | Fault::SlowClose => client_kill::cause(site)?,
        Fault::SlotsMoved => slots_moved::cause(site, tags, trial.stopped, control)?,
        Fault::Planned => planned::cause(site, probe, control)?,
        Fault::Partition => partition::cause(site, trial.stopped, probe, control)?,
        Fault::Lag => lag::cause(site, trial.stopped, control)?,
        Fault::ReadOnly => read_only::cause(site, trial.stopped, control)?,
        Fault::MaxClients => max_clients::cause(site, trial.stopped, control)?,
        Fault::FullDisk => full_disk::cause(site, trial.stopped, control)?,
        Fault::ReplicaLoss => replica_loss::cause(site),
        _ => nothing,
    };
    Ok(happened)
}

fn wait_until(time: Instant, control: &Control) {
    while !control.interrupted() {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

/// Compares what the client reported with what the servers have.
fn audited(
    writers: &Writers,
    trial: &TrialPlan,
    start: Instant,
    happened: &Happened,
    mut written: Written,
) -> Result<(Trial, History), Failure> {
    writers.count_executions(&mut written.operations)?;
    let since_start = |at: Instant| nanoseconds(at.saturating_duration_since(start));
    let mut history = History {
        kinds: writers.kinds.clone(),
        operations: written.operations,
        reads: written.reads,
        errors: written.errors,
        fault_ns: since_start(happened.began),
        fault_end_ns: happened.ended.map(since_start),
        ready_ns: happened.ready.map(since_start),
        pool_checks: written.pool_checks,
        end_ns: written.end_ns,
    };
    if trial.fault == Fault::Observed {
        history.fault_ns = outage_began(&history);
    }
    let defect = |why: String| {
        let sentence = format!("{}: {why}. This is a defect of Loadline.", trial.fault);
        Failure::new(Exit::Internal, sentence)
    };
    let audits = audit(&history, &written.sent).map_err(defect)?;
    let has_reads = writers.reads.as_ref();
    let reads = has_reads.map(|_| reads(&history, written.reads_sent));
    let reads = reads.transpose().map_err(defect)?;
    let pool = written.pool.map(|pool| match trial.fault {
        // The end of a connection vanishes with everything else on it, so the server has it until the path is removed.
        Fault::BlackHole => PoolUse {
            leaked: None,
            ..pool
        },
        _ => pool,
    });
    let trial = Trial {
        client: None,
        fault: trial.fault.clone(),
        durability: trial.durability.to_string(),
        faults: happened.times,
        audits,
        reads,
        pool,
        clocks: clocks(&history),
        errors: errors(&history),
        timeline: timeline(&history),
    };
    Ok((trial, history))
}
