//! A record as it is in JSON: the answer is a field of the record, named after its kind.

use serde::Deserialize;

use super::{
    Agent, Answer, Capacity, Case, Clients, Comparison, Engines, Environment, Failover, Finding,
    Judgement, LeftOut, Link, LostAgent, NotExamined, Record, Row, Run, Tiers,
};

/// The fields of a record in JSON.
#[derive(Deserialize)]
#[serde(rename = "Record")]
pub(super) struct Stored {
    schema: String,
    run: Run,
    #[serde(default)]
    environment: Environment,
    #[serde(default)]
    agents: Vec<Agent>,
    #[serde(default)]
    lost_agents: Vec<LostAgent>,
    #[serde(default)]
    links: Vec<Link>,
    cases: Vec<Case>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
    #[serde(default)]
    comparisons: Vec<Comparison>,
    #[serde(default)]
    doctor: Vec<Finding>,
    #[serde(default)]
    not_examined: Vec<NotExamined>,
    #[serde(default)]
    findings: Vec<String>,
    #[serde(default)]
    not_counted: Option<String>,
    #[serde(default)]
    limits: Vec<Row>,
    #[serde(default)]
    judgement: Option<Judgement>,
    capacity: Option<Box<Capacity>>,
    engines: Option<Engines>,
    clients: Option<Clients>,
    tiers: Option<Box<Tiers>>,
    failover: Option<Failover>,
}

impl From<Stored> for Record {
    /// Of several answers, which no version writes, the first in this order counts.
    fn from(mut stored: Stored) -> Self {
        let is_sweep = stored.run.plan["command"] == "modes"
            || stored
                .cases
                .iter()
                .any(|case| case.scenario.ops_asked.is_some());
        let capacity = stored.capacity.map(Answer::Capacity);
        let clients = || stored.clients.map(Answer::Clients);
        let sweep = || is_sweep.then_some(Answer::Sweep);
        let engines = || stored.engines.map(Answer::Engines);
        let tiers = || stored.tiers.map(Answer::Tiers);
        let failover = || stored.failover.map(Answer::Failover);
        let answer = capacity
            .or_else(clients)
            .or_else(sweep)
            .or_else(engines)
            .or_else(tiers)
            .or_else(failover);
        let mut answer = answer.unwrap_or_default();
        match &mut answer {
            Answer::Tiers(tiers) => tiers.find_former_cases(&stored.cases),
            // Reports show the sentences of former versions as the answer, not as findings.
            Answer::Clients(clients) => stored
                .findings
                .retain(|text| !clients.former_sentences().any(|said| said == text)),
            Answer::Engines(engines) => engines.complete(&mut stored.cases),
            _ => {}
        }
        Self {
            schema: stored.schema,
            run: stored.run,
            environment: stored.environment,
            agents: stored.agents,
            lost_agents: stored.lost_agents,
            links: stored.links,
            cases: stored.cases,
            left_out: stored.left_out,
            comparisons: stored.comparisons,
            doctor: stored.doctor,
            not_examined: stored.not_examined,
            findings: stored.findings,
            not_counted: stored.not_counted,
            limits: stored.limits,
            judgement: stored.judgement,
            answer,
        }
    }
}
