//! The loads of a trial: that of loadline-client, or one of each client that is compared, which write at the same time.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use loadline_load::Control;
use loadline_measure::failover::ReadFrom;

use crate::exit::Failure;
use crate::plan::{Driver, FailoverPlan, TrialPlan};
use crate::subjects::{Reading, Writers, Written, driven};
use crate::systems::drivers::{Config, Running};
use crate::systems::faulty::FaultyPath;
use crate::systems::site::Site;

/// A load, ready to begin.
pub(super) struct Load<'p> {
    /// The writers. Of a driver, there is one, and they only say where its keys are.
    pub(super) writers: Writers,
    /// The proxy between the client and the servers, for a fault of the path.
    pub(super) path: Option<FaultyPath>,
    driven: Option<(&'p Driver, Running)>,
}

/// The clients whose driver did not get ready, each with the reason.
type Absent<'p> = Vec<(&'p str, Failure)>;

/// The loads of a trial, and the clients that are absent from it. Must be called on the main thread, since drivers are tied to it.
///
/// # Errors
/// If a proxy cannot be started, or no driver, and on an interrupt.
pub(super) fn loads<'p>(
    plan: &'p FailoverPlan,
    trial: &TrialPlan,
    site: &Site,
    prefix: &str,
    control: &Control,
) -> Result<(Vec<Load<'p>>, Absent<'p>), Failure> {
    if plan.clients.is_empty() {
        let path = path(trial, site)?;
        let writers = writers(plan, trial, site, path.as_ref(), prefix.to_owned())?;
        let driven = None;
        let load = Load {
            writers,
            path,
            driven,
        };
        return Ok((vec![load], Vec::new()));
    }
    let (mut loads, mut absent) = (Vec::new(), Vec::new());
    for driver in &plan.clients {
        let path = path(trial, site)?;
        let prefix = format!("{prefix}{}:", driver.name);
        let writers = writers(plan, trial, site, None, prefix)?;
        let entrance = path.iter().flat_map(FaultyPath::addresses).next();
        let server = entrance.unwrap_or_else(|| site.told());
        let config = Config {
            cluster: site.is_cluster(),
            sentinel: site.sentinels(),
            ..Config::with_faults(driver, server, writers.key_prefix(0, 0))
        };
        match Running::start(driver, &config, control) {
            Ok(running) => loads.push(Load {
                writers,
                path,
                driven: Some((driver, running)),
            }),
            Err(failure) if control.interrupted() => return Err(failure),
            // The others go on.
            Err(failure) => absent.push((driver.name.as_str(), failure)),
        }
    }
    match absent.pop() {
        Some((_, failure)) if loads.is_empty() => Err(failure),
        last => {
            absent.extend(last);
            Ok((loads, absent))
        }
    }
}

fn path(trial: &TrialPlan, site: &Site) -> Result<Option<FaultyPath>, Failure> {
    let path = trial.script.clone().map(|script| {
        FaultyPath::start(script, site.addresses()).map_err(|error| {
            Failure::unavailable(format!("A proxy could not be started: {error}."))
        })
    });
    path.transpose()
}

fn writers(
    plan: &FailoverPlan,
    trial: &TrialPlan,
    site: &Site,
    path: Option<&FaultyPath>,
    prefix: String,
) -> Result<Writers, Failure> {
    Ok(Writers {
        connector: site.connector(path, &ReadFrom::Master)?,
        reads: match &plan.reads {
            None => None,
            Some(from @ ReadFrom::Replica) => {
                let replicas = site.connector(path, from)?;
                Some(Reading::Replicas(replicas))
            }
            Some(_) => Some(Reading::Writers),
        },
        kinds: plan.operations.clone(),
        tags: site.tags(plan.writers),
        prefix,
        rate: plan.rate,
        pool: plan.pool,
        wait: plan.wait,
        time: trial.lead + trial.after,
    })
}

impl Load<'_> {
    /// Writes until the time is over or `is_over`, and sends the time of the start to `begun`.
    ///
    /// # Errors
    /// If the client cannot connect, or on an interrupt.
    pub(super) fn run(
        &mut self,
        begun: &SyncSender<Instant>,
        control: &Control,
        is_over: impl Fn() -> bool,
    ) -> Result<Written, Failure> {
        match &mut self.driven {
            Some((_, running)) => driven::run(running, self.writers.time, begun, control, is_over),
            None => self.writers.run(begun, is_over),
        }
    }

    /// The driver of the client and the name with the version, if clients are compared.
    pub(super) fn client(&self) -> Option<(String, String)> {
        let (driver, running) = self.driven.as_ref()?;
        Some((driver.name.clone(), running.about.name()))
    }

    /// The writers, which now reach the servers directly. The client ends.
    ///
    /// # Errors
    /// If the configuration is not valid for a cluster.
    pub(super) fn ended(self, site: &Site) -> Result<Writers, Failure> {
        let connector = site.connector(None, &ReadFrom::Master)?;
        Ok(Writers {
            connector,
            ..self.writers
        })
    }
}
