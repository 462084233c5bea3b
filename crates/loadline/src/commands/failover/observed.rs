//! An outage of servers that run already, which somebody else causes. Nothing to undo; the keys are removed at the end.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::failover::{Events, Failover, Fault};

use super::{Happened, LOOK_EVERY, audited};
use crate::exit::{Exit, Failure};
use crate::plan::{FailoverPlan, run_prefix};
use crate::session::Session;
use crate::spelling::Target;
use crate::subjects::Writers;
use crate::systems::application;

/// Time limit after the load for the servers to answer the audit.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes until the time is over or the user interrupts, and audits the load in either case.
///
/// # Errors
/// If the servers cannot be reached at the start, or not within 20 s after the end.
pub(super) fn observe(
    plan: &FailoverPlan,
    target: &Target,
    session: &mut Session<'_>,
    answer: &mut Failover,
    events: &mut Option<Events>,
) -> Result<(), Failure> {
    let trial = &plan.trials[0];
    session.with_targets(|session, _| {
        let progress = session.progress(1);
        progress.say(&format!("{target}: observed"));
        let control = &session.shell.control;
        let writers = Writers {
            connector: application::connector(target, &plan.base.tls)?,
            prefix: run_prefix(&session.run_id),
            kinds: plan.operations.clone(),
            tags: (0..plan.writers)
                .map(|writer| format!("w{writer}"))
                .collect(),
            rate: plan.rate,
            time: trial.lead + trial.after,
            pool: plan.pool,
            wait: None,
            reads: None,
        };
        let (sender, begun) = mpsc::sync_channel(1);
        let written = writers.run(&sender, || control.interrupted())?;
        let start = begun
            .recv()
            .map_err(|_| Failure::new(Exit::Internal, "The load did not begin."))?;
        wait_until_reachable(&writers, control);
        let happened = Happened {
            began: start,
            ended: None,
            ready: None,
            times: 1,
        };
        let (mut audited, history) = audited(&writers, trial, start, &happened, written)?;
        audited.durability = String::new();
        if let Some(events) = events {
            events.add(Fault::Observed.as_str(), &history);
        }
        answer.trials.push(audited);
        progress.step();
        progress.finish();
        Ok(())
    })
}

/// Waits for the end of an outage that outlasts the load.
fn wait_until_reachable(writers: &Writers, control: &Control) {
    let ended = Instant::now();
    while writers.connector.blocking().is_err()
        && ended.elapsed() < PATIENCE
        && !control.interrupted()
    {
        thread::sleep(LOOK_EVERY);
    }
}
