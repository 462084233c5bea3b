//! Flaws of several load generators that ran one plan.

use loadline_measure::doctor::AgentsFlaw;
use loadline_measure::words;

use super::percent;

pub(super) fn evidence(flaw: &AgentsFlaw) -> String {
    match flaw {
        AgentsFlaw::SlowerRate { agent, own, others } => format!(
            "Agent {agent} was slower than the others: {} operations per second; the median of the others is {}.",
            words::count(*own),
            words::count(*others),
        ),
        AgentsFlaw::SlowerTimes {
            agent,
            own_ns,
            others_ns,
        } => format!(
            "Agent {agent} was slower than the others: its p50 is {}; the median of the others is {}.",
            words::duration(*own_ns),
            words::duration(*others_ns),
        ),
        AgentsFlaw::OneHost {
            agents,
            threads,
            cores,
        } => {
            let named: Vec<String> = agents.iter().map(ToString::to_string).collect();
            let (last, others) = named.split_last().expect("two agents share a host");
            let cpus = cores.map_or_else(
                || "an unknown number of CPUs".to_owned(),
                |cores| words::plural(cores, "CPU"),
            );
            format!(
                "Agents {} and {last} ran on one machine: {} of load generators on {cpus}.",
                others.join(", "),
                words::plural(*threads, "thread"),
            )
        }
        AgentsFlaw::Apart(share) => format!(
            "The agents measured together for {} of the time in which any of them did; rates are operations per second of the latter.",
            percent(*share)
        ),
        AgentsFlaw::Clock {
            agent,
            bound_ns,
            p50_ns,
        } => format!(
            "The clock of agent {agent} is known to {}, and the p50 is {}: agents can start further apart than a response time.",
            words::duration(*bound_ns as f64),
            words::duration(*p50_ns as f64),
        ),
    }
}

pub(super) fn advice(flaw: &AgentsFlaw) -> &'static str {
    match flaw {
        AgentsFlaw::SlowerRate { .. } | AgentsFlaw::SlowerTimes { .. } => {
            "Look at its machine and its path to the server: the percentiles mix its operations with those of the others."
        }
        AgentsFlaw::OneHost { .. } => {
            "Use a machine for each agent, or one agent with more --threads: agents on one machine compete for its CPUs and its network."
        }
        AgentsFlaw::Clock { .. } => {
            "Use a coordinator that is closer to the agents. Rates and percentiles stay exact; times of different agents cannot be compared more finely."
        }
        AgentsFlaw::Apart(_) => {
            "Start the agents at the same time and synchronize their clocks; the server carried the full load only while all of them ran."
        }
    }
}
