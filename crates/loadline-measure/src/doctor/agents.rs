//! Rules about several load generators that ran one plan.

use std::collections::{BTreeMap, BTreeSet};

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
/// The most CPUs in a list.
const MOST_CPUS: u64 = 65_536;

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
    let clock = clock(case, agents).map(|flaw| (Severity::Info, flaw));
    let found = apart.into_iter().chain(slower).chain(clock);
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

/// The agent whose clock is known least exactly, if its starts can differ by more than a response time.
fn clock(case: &Case, agents: &[Agent]) -> Option<AgentsFlaw> {
    let p50_ns = case.response_time_ns.p50?;
    let bounds = agents
        .iter()
        .filter_map(|agent| Some((agent.clock_bound_ns?, agent.rank)));
    let (bound_ns, agent) = bounds.max()?;
    (bound_ns > p50_ns).then_some(AgentsFlaw::Clock {
        agent,
        bound_ns,
        p50_ns,
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
    let hosts = hosts.into_values().filter(|here| here.len() > 1);
    hosts
        .flat_map(|here| on_one_host(&here, threads_each))
        .collect()
}

/// Reports those of the agents `here`, on one machine with `threads_each`, that have too few CPUs together; otherwise all
/// of them.
fn on_one_host(here: &[&Agent], threads_each: u64) -> Vec<Diagnosis> {
    let diagnosis = |severity, group: &Sharing| {
        let flaw = AgentsFlaw::OneHost {
            agents: group.agents.clone(),
            threads: threads_each.saturating_mul(group.agents.len() as u64),
            cores: group.cores,
        };
        Diagnosis::new("", severity, flaw)
    };
    let is_crowded = |group: &Sharing| {
        let threads = threads_each.saturating_mul(group.agents.len() as u64);
        group.agents.len() > 1 && group.cores.is_none_or(|cores| threads > cores)
    };
    let groups = Sharing::of(here);
    let crowded = groups.iter().filter(|group| is_crowded(group));
    let crowded: Vec<Diagnosis> = crowded
        .map(|group| diagnosis(Severity::Warning, group))
        .collect();
    if !crowded.is_empty() {
        return crowded;
    }
    let all = Sharing {
        agents: here.iter().map(|agent| agent.rank).collect(),
        cores: groups.iter().map(|group| group.cores).sum(),
    };
    vec![diagnosis(Severity::Info, &all)]
}

/// Agents that share CPUs.
struct Sharing {
    /// Their ranks.
    agents: Vec<u64>,
    /// The CPUs of all of them together.
    cores: Option<u64>,
}

impl Sharing {
    /// The groups of agents on a machine. Agents whose CPUs are not known share all of them.
    fn of(here: &[&Agent]) -> Vec<Self> {
        let cpus = here.iter().map(|agent| {
            let list = agent.environment.cpus.as_deref()?;
            cpus(list).map(|cpus| (agent.rank, cpus))
        });
        let Some(each) = cpus.collect::<Option<Vec<(u64, BTreeSet<u64>)>>>() else {
            let cores = here.iter().filter_map(|agent| agent.environment.cores);
            return vec![Self {
                agents: here.iter().map(|agent| agent.rank).collect(),
                cores: cores.max(),
            }];
        };
        let mut groups: Vec<(Vec<u64>, BTreeSet<u64>)> = Vec::new();
        for (rank, cpus) in each {
            let (shared, apart): (Vec<_>, Vec<_>) = groups
                .into_iter()
                .partition(|(_, others)| !others.is_disjoint(&cpus));
            let mut group = (vec![rank], cpus);
            for (ranks, others) in shared {
                group.0.extend(ranks);
                group.1.extend(others);
            }
            group.0.sort_unstable();
            groups = apart;
            groups.push(group);
        }
        let groups = groups.into_iter().map(|(agents, cpus)| Self {
            agents,
            cores: Some(cpus.len() as u64),
        });
        groups.collect()
    }
}

/// The CPUs in a list of the kernel, such as `0-3,8`; `None` for anything else.
fn cpus(list: &str) -> Option<BTreeSet<u64>> {
    let mut cpus = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? >= MOST_CPUS - cpus.len() as u64 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_cpus_is_read_and_bounded() {
        let few = cpus("0-2,8").map(|cpus| cpus.into_iter().collect::<Vec<_>>());
        assert_eq!(few, Some(vec![0, 1, 2, 8]));
        assert_eq!(cpus("0-65535").map(|cpus| cpus.len()), Some(65_536));
        for hostile in [
            "",
            "2-1",
            "0-x",
            "0-65536",
            "0-65535,70000",
            "0-40000,50000-90000",
        ] {
            assert_eq!(cpus(hostile), None, "{hostile}");
        }
    }
}
