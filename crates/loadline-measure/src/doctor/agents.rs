//! Rules about several load generators that ran one plan.

use std::collections::BTreeMap;

use super::flaw::{AgentsFlaw, Diagnosis};
use super::{Severity, scope};
use crate::agents::Agent;
use crate::quantile::median;
use crate::record::Case;

/// The smallest factor by which one agent is slower than the others.
const SLOWER: f64 = 1.25;
/// The smallest share of the time in which all agents should measure, beside that in which any of them does.
const TOGETHER: f64 = 0.95;
/// Below this share, rates and percentiles describe no common load.
const APART: f64 = 0.5;

/// Applies the rules about agents to the merged `case`, the one with `index` in each of `agents`. Of the time in which
/// any agent measured, all of them did for the share `together`.
#[must_use]
pub fn examine_agents(
    case: &Case,
    agents: &[Agent],
    index: usize,
    together: f64,
) -> Vec<Diagnosis> {
    let scope = scope(case);
    let apart = (together < TOGETHER).then(|| {
        let severity = if together < APART {
            Severity::Critical
        } else {
            Severity::Warning
        };
        (severity, AgentsFlaw::Apart(together))
    });
    let slower = slower(case, agents, index).map(|flaw| (Severity::Warning, flaw));
    let found = apart.into_iter().chain(slower);
    found
        .map(|(severity, flaw)| Diagnosis::new(&scope, severity, flaw))
        .collect()
}

/// The slowest agent, if it is slower than the median of the others: by its rate in a closed loop, and by its median
/// response time in an open one, whose rate is the schedule's.
fn slower(case: &Case, agents: &[Agent], index: usize) -> Option<AgentsFlaw> {
    let is_open = case.is_open_loop();
    let figures = agents.iter().filter_map(|agent| {
        let part = agent.cases.get(index)?;
        let figure = if is_open {
            part.response_time_ns.p50? as f64
        } else {
            part.throughput_ops_per_s
        };
        Some((agent.rank, figure))
    });
    let figures: Vec<(u64, f64)> = figures.collect();
    let compared = figures.iter().filter_map(|(rank, own)| {
        let others = figures.iter().filter(|(other, _)| other != rank);
        let others = median(&others.map(|(_, figure)| *figure).collect::<Vec<_>>())?;
        let factor = if is_open { own / others } else { others / own };
        Some((factor, *rank, *own, others))
    });
    let (factor, agent, own, others) = compared.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (factor >= SLOWER).then_some(if is_open {
        AgentsFlaw::SlowerTimes {
            agent,
            own_ns: own,
            others_ns: others,
        }
    } else {
        AgentsFlaw::SlowerRate { agent, own, others }
    })
}

/// Reports agents on one machine, which share its CPUs.
#[must_use]
pub fn examine_hosts(agents: &[Agent], cases: &[Case]) -> Vec<Diagnosis> {
    let mut hosts: BTreeMap<&str, Vec<&Agent>> = BTreeMap::new();
    for agent in agents {
        if let Some(boot) = &agent.environment.boot_id {
            hosts.entry(boot).or_default().push(agent);
        }
    }
    // All agents have as many threads.
    let threads = cases
        .iter()
        .map(|case| case.scenario.threads)
        .max()
        .unwrap_or(0);
    let threads_each = threads.div_ceil((agents.len() as u64).max(1));
    let shared = hosts.into_values().filter(|here| here.len() > 1);
    shared
        .map(|here| {
            let cores = here
                .iter()
                .filter_map(|agent| agent.environment.cores)
                .max();
            let threads = threads_each.saturating_mul(here.len() as u64);
            let severity = match cores {
                Some(cores) if threads <= cores => Severity::Info,
                _ => Severity::Warning,
            };
            let flaw = AgentsFlaw::OneHost {
                agents: here.iter().map(|agent| agent.rank).collect(),
                threads,
                cores,
            };
            Diagnosis::new("", severity, flaw)
        })
        .collect()
}
