//! The merge of the records of several agents.

use std::collections::BTreeMap;

use super::difference;
use super::part::Part;
use super::span::{Covered, Span};
use super::{Agent, AgentCase};
use crate::Error;
use crate::doctor::{self, Class, Diagnosis, Evidence, Finding, Observed, Rule};
use crate::histogram::Histogram;
use crate::outliers;
use crate::record::{
    Case, Cost, CpuPauses, Environment, Histograms, Interval, Noise, Pacing, Percentiles, Record,
    RoundHistograms, RoundSummary, Run, Scenario, Stall,
};
use crate::steady;

/// The most stalls of a merged case: the longest.
const MOST_STALLS: usize = 64;

/// The record of several agents.
#[derive(Debug, Clone)]
pub struct Merged {
    /// The record. It has no sentences about its cases, and no limits.
    pub record: Record,
    /// The doctor's findings about the merged cases and about the agents.
    pub found: Vec<Diagnosis>,
}

/// Merges the records of agents that ran one plan at the same time, in the order of their ranks. The merged run has the
/// identifier of `run`, its command, and the plan of the parts.
///
/// # Errors
///
/// [`Error::Unmergeable`] with the first difference if the parts did not measure the same, and
/// [`Error::Histogram`] for a histogram that cannot be read.
pub fn merge(parts: &[Part], run: Run) -> Result<Merged, Error> {
    let parts = &in_order(parts);
    let is_lone_member = |part: &Part| part.record.run.agent.is_some();
    let first = match &parts[..] {
        [first, _, ..] => first,
        [lone] if is_lone_member(lone) => lone,
        _ => {
            return Err(Error::Unmergeable(
                "a merge takes the records of two or more agents.".to_owned(),
            ));
        }
    };
    difference::check_all(parts)?;
    let records: Vec<&Record> = parts.iter().map(|part| &part.record).collect();
    let mut record = Record::new(
        Run {
            started_at: earliest(&records),
            version: first.record.run.version.clone(),
            seed: first.record.run.seed,
            plan: first.record.run.plan.clone(),
            cut_short: records.iter().any(|record| record.run.cut_short),
            duration_ns: records
                .iter()
                .filter_map(|record| record.run.duration_ns)
                .max(),
            ..run
        },
        environment(&records),
    );
    record.links.clone_from(&first.record.links);
    record.agents = records
        .iter()
        .zip(0..)
        .map(|(of, index)| agent(of, index))
        .collect();
    record.doctor = shared_findings(&records, &record.agents);
    let mut found = Vec::new();
    let most = records.iter().map(|record| record.cases.len()).max();
    for index in 0..most.unwrap_or(0) {
        let of_agents: Vec<(u64, &Case)> = records
            .iter()
            .zip(&record.agents)
            .filter_map(|(of, agent)| Some((agent.rank, of.cases.get(index)?)))
            .collect();
        let (case, covered) = case(&of_agents)?;
        found.extend(doctor::examine_agents(
            &case,
            &record.agents,
            index,
            covered.share(),
        ));
        let own = doctor::examine(&Evidence::of_case(&case, Observed::default()));
        found.extend(own.into_iter().filter(|found| is_of_all(&found.rule())));
        record.cases.push(case);
    }
    found.extend(doctor::examine_hosts(&record.agents, &record.cases));
    record.run.cut_short |= records
        .iter()
        .any(|one| one.cases.len() < record.cases.len());
    Ok(Merged { record, found })
}

/// The parts by rank, and with the times of the coordinator's clock, if the agents were a group.
fn in_order(parts: &[Part]) -> Vec<Part> {
    let mut parts = parts.to_vec();
    let rank = |part: &Part| part.record.run.agent.as_ref().map(|agent| agent.rank);
    if parts.iter().all(|part| rank(part).is_some()) {
        parts.sort_by_key(rank);
        for part in &mut parts {
            let agent = part.record.run.agent.as_ref();
            let offset_ns = agent.map_or(0, |agent| agent.clock_offset_ns);
            let cases = part.record.cases.iter_mut();
            for round in cases.flat_map(|case| &mut case.rounds) {
                let start = &mut round.start_unix_ns;
                *start = start.map(|start| start.saturating_add_signed(offset_ns));
            }
        }
    }
    parts
}

impl Covered {
    /// The share of the time in which any agent measured that all of them did.
    fn share(self) -> f64 {
        self.all_ns as f64 / self.any_ns.max(1) as f64
    }
}

/// The earliest start of a run. RFC 3339 in UTC sorts like time.
fn earliest(records: &[&Record]) -> String {
    let starts = records.iter().map(|record| record.run.started_at.as_str());
    starts.min().unwrap_or_default().to_owned()
}

fn agent(record: &Record, index: u64) -> Agent {
    let case = |case: &Case| AgentCase {
        ops: case.ops,
        errors: case.error_count(),
        start_unix_ns: spans(case).iter().map(|span| span.0).min().unwrap_or(0),
        duration_ns: case.duration_ns,
        throughput_ops_per_s: case.throughput_ops_per_s,
        response_time_ns: case.response_time_ns,
        stalls: case.stalls.len() as u64,
        longest_stall_ns: case.stalls.iter().map(|stall| stall.length_ns).max(),
        client_cpu_busy: case.client_cpu_busy,
        cpu_pauses: case.cpu_pauses,
    };
    let member = record.run.agent.as_ref();
    Agent {
        rank: member.map_or(index, |agent| agent.rank),
        run: record.run.id.clone(),
        started_at: record.run.started_at.clone(),
        seed: record.run.seed,
        environment: Environment {
            servers: Vec::new(),
            ..record.environment.clone()
        },
        clock_bound_ns: record.run.agent.as_ref().map(|agent| agent.clock_bound_ns),
        cases: record.cases.iter().map(case).collect(),
    }
}

/// The properties that all machines share, and the largest of their noise.
fn environment(records: &[&Record]) -> Environment {
    fn common<T: Clone + PartialEq>(
        records: &[&Record],
        of: impl Fn(&Environment) -> &Option<T>,
    ) -> Option<T> {
        let first = of(&records.first()?.environment);
        let is_common = records
            .iter()
            .all(|record| of(&record.environment) == first);
        is_common.then(|| first.clone()).flatten()
    }
    let noise = |of: fn(&Noise) -> Option<f64>| {
        let shares = records
            .iter()
            .filter_map(|record| of(&record.environment.noise));
        shares.reduce(f64::max)
    };
    Environment {
        cpu_model: common(records, |place| &place.cpu_model),
        cores: common(records, |place| &place.cores),
        cpus: common(records, |place| &place.cpus),
        cgroup_quota_cores: common(records, |place| &place.cgroup_quota_cores),
        kernel: common(records, |place| &place.kernel),
        memory_bytes: common(records, |place| &place.memory_bytes),
        virtualization: common(records, |place| &place.virtualization),
        boot_id: common(records, |place| &place.boot_id),
        clock_source: common(records, |place| &place.clock_source),
        governor: common(records, |place| &place.governor),
        servers: records[0].environment.servers.clone(),
        noise: Noise {
            cpu_pressure: noise(|noise| noise.cpu_pressure),
            run_queue_wait: noise(|noise| noise.run_queue_wait),
            steal: noise(|noise| noise.steal),
            load_average: noise(|noise| noise.load_average),
        },
    }
}

/// The findings of agents that stay true in a merge: once if all agents have them, otherwise with the agent in their
/// scope.
fn shared_findings(records: &[&Record], agents: &[Agent]) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for (record, agent) in records.iter().zip(agents) {
        let rank = agent.rank;
        for finding in record.doctor.iter().filter(|found| is_of_one(&found.rule)) {
            let is_shared = records.iter().all(|other| other.doctor.contains(finding));
            let scope = match (is_shared, finding.scope.as_str()) {
                (true, scope) => scope.to_owned(),
                (false, "") => format!("agent {rank}"),
                (false, scope) => format!("agent {rank}, {scope}"),
            };
            let finding = Finding {
                scope,
                ..finding.clone()
            };
            if !kept.contains(&finding) {
                kept.push(finding);
            }
        }
    }
    kept
}

/// Whether a rule is applied to the merged cases, because its evidence is complete only there.
fn is_of_all(rule: &Rule) -> bool {
    matches!(rule.class(), Class::Length | Class::Replies)
        || matches!(rule, Rule::LateStarts | Rule::Overloaded)
}

/// Whether a finding about one agent is true beside others. A server counts the connections and operations of all
/// agents, so an agent that compares them with its own finds the others.
fn is_of_one(rule: &Rule) -> bool {
    let sees_others = matches!(rule, Rule::ConnectionPerOperation | Rule::CountsDiffer);
    !sees_others && !is_of_all(rule)
}

/// The rounds of a case.
fn spans(case: &Case) -> Vec<Span> {
    case.rounds.iter().filter_map(span).collect()
}

fn span(round: &RoundSummary) -> Option<Span> {
    let start = round.start_unix_ns?;
    Some((start, start.saturating_add(round.duration_ns)))
}

/// One case of all agents that have it, by rank, and the time that their rounds cover.
fn case(agents: &[(u64, &Case)]) -> Result<(Case, Covered), Error> {
    let cases: Vec<&Case> = agents.iter().map(|(_, case)| *case).collect();
    let (histograms, service, response, lag) = all_histograms(&cases)?;
    let covered = Covered::by(&cases.iter().map(|case| spans(case)).collect::<Vec<_>>());
    let total = |of: fn(&Case) -> u64| {
        cases
            .iter()
            .map(|case| of(case))
            .fold(0, u64::saturating_add)
    };
    let every =
        |of: fn(&Case) -> Option<u64>| -> Option<u64> { cases.iter().map(|case| of(case)).sum() };
    let most =
        |of: fn(&Case) -> Option<f64>| cases.iter().filter_map(|case| of(case)).reduce(f64::max);
    let ops = total(|case| case.ops);
    let throughput = per_second(ops, covered.any_ns);
    let rounds = rounds(&cases, &histograms)?;
    let rates: Vec<f64> = rounds
        .iter()
        .map(|round| round.throughput_ops_per_s)
        .collect();
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, count) in cases.iter().flat_map(|case| &case.errors) {
        let all = errors.entry(kind.clone()).or_default();
        *all = all.saturating_add(*count);
    }
    let response_time_ns = response.summary();
    let case = Case {
        subject: cases[0].subject.clone(),
        scenario: scenario(&cases),
        ops,
        errors,
        planned: every(|case| case.planned),
        not_sent: every(|case| case.not_sent),
        percentiles: percentiles(&cases),
        duration_ns: covered.any_ns,
        throughput_ops_per_s: throughput,
        response_time_ns,
        service_time_ns: service.summary(),
        lag_ns: lag.map(|lag| lag.summary()),
        hit_ratio: per_operation(&cases, |case| case.hit_ratio),
        steady: cases.iter().all(|case| case.steady) && !steady::drifts(&rates),
        warmup_ns: cases.iter().map(|case| case.warmup_ns).max().unwrap_or(0),
        little: response_time_ns.mean.map(|mean| throughput * mean / 1e9),
        client_cpu_busy: most(|case| case.client_cpu_busy),
        // Each agent sees the CPU time of the whole server.
        server_cpu_busy: most(|case| case.server_cpu_busy),
        outliers: outliers::count(&rates),
        rounds,
        histograms,
        series: series(&cases),
        stalls: stalls(agents),
        cpu_pauses: None::<CpuPauses>,
        tail: None,
        cost: cost(&cases, ops),
        work: None,
        client_work: None,
        parts_ns: cases[0].parts_ns.clone(),
    };
    Ok((case, covered))
}

/// The load of all agents together. Each of them has connections and keys of its own.
fn scenario(cases: &[&Case]) -> Scenario {
    let total = |of: fn(&Scenario) -> u64| {
        let all = cases.iter().map(|case| of(&case.scenario));
        all.fold(0, u64::saturating_add)
    };
    let rates = cases.iter().map(|case| match case.scenario.pacing {
        Pacing::Rate(rate) => Some(rate),
        Pacing::Closed => None,
    });
    Scenario {
        pacing: rates
            .sum::<Option<f64>>()
            .map_or(Pacing::Closed, Pacing::Rate),
        connections: total(|scenario| scenario.connections),
        threads: total(|scenario| scenario.threads),
        in_flight: cases.iter().map(|case| case.scenario.in_flight).sum(),
        keys: total(|scenario| scenario.keys),
        ..cases[0].scenario.clone()
    }
}

/// The percentiles of an open loop are exact if those of all agents are.
fn percentiles(cases: &[&Case]) -> Option<Percentiles> {
    let all = cases.iter().map(|case| case.percentiles.clone());
    let all: Option<Vec<Percentiles>> = all.collect();
    let lower = all?.into_iter().find(|known| *known != Percentiles::Exact);
    Some(lower.unwrap_or(Percentiles::Exact))
}

/// Histograms of service times, response times and lags, in text and as sums.
type Sums = (Histograms, Histogram, Histogram, Option<Histogram>);

fn all_histograms(cases: &[&Case]) -> Result<Sums, Error> {
    let whole =
        |of: fn(&Histograms) -> Option<&String>| sum(cases.iter().map(|case| of(&case.histograms)));
    let service = whole(|all| Some(&all.service_time))?.unwrap_or_default();
    let response = whole(|all| Some(&all.response_time))?.unwrap_or_default();
    let lag = whole(|all| all.lag.as_ref())?;
    let most = cases.iter().map(|case| case.histograms.rounds.len()).max();
    let rounds = (0..most.unwrap_or(0)).map(|round| {
        let rounds = || {
            cases
                .iter()
                .filter_map(|case| case.histograms.rounds.get(round))
        };
        let of = |of: fn(&RoundHistograms) -> Option<&String>| sum(rounds().map(of));
        let text = |sum: Option<Histogram>| sum.unwrap_or_default().encode();
        Ok(RoundHistograms {
            service_time: text(of(|all| Some(&all.service_time))?),
            response_time: text(of(|all| Some(&all.response_time))?),
            lag: of(|all| all.lag.as_ref())?.map(|lag| lag.encode()),
        })
    });
    let histograms = Histograms {
        service_time: service.encode(),
        response_time: response.encode(),
        lag: lag.as_ref().map(Histogram::encode),
        rounds: rounds.collect::<Result<_, Error>>()?,
    };
    Ok((histograms, service, response, lag))
}

/// The sum of histograms; `None` if one of them is missing.
fn sum<'t>(texts: impl Iterator<Item = Option<&'t String>>) -> Result<Option<Histogram>, Error> {
    let mut all = Histogram::new();
    for text in texts {
        let Some(text) = text else {
            return Ok(None);
        };
        all.merge(&Histogram::decode(text)?);
    }
    Ok(Some(all))
}

fn rounds(cases: &[&Case], histograms: &Histograms) -> Result<Vec<RoundSummary>, Error> {
    let texts = histograms.rounds.iter().enumerate();
    let rounds = texts.map(|(index, text)| {
        let response = Histogram::decode(&text.response_time)?.summary();
        let parts: Vec<&RoundSummary> = cases
            .iter()
            .filter_map(|case| case.rounds.get(index))
            .collect();
        let total = |of: fn(&RoundSummary) -> u64| {
            parts
                .iter()
                .map(|round| of(round))
                .fold(0, u64::saturating_add)
        };
        let each: Vec<Vec<Span>> = parts
            .iter()
            .map(|round| span(round).into_iter().collect())
            .collect();
        let (ops, duration_ns) = (total(|round| round.ops), Covered::by(&each).any_ns);
        let client = parts
            .iter()
            .map(|round| Some(round.client_cpu_ns_per_op? * round.ops as f64));
        let server = parts
            .iter()
            .filter_map(|round| Some(round.server_cpu_ns_per_op? * round.ops as f64));
        let per_op = |total: f64| total / ops.max(1) as f64;
        let mean = |of: fn(&RoundSummary) -> Option<f64>| {
            let shares = parts.iter().map(|round| of(round));
            let sum = shares.sum::<Option<f64>>()?;
            (!parts.is_empty()).then(|| sum / parts.len() as f64)
        };
        Ok(RoundSummary {
            ops,
            errors: total(|round| round.errors),
            start_unix_ns: parts.iter().filter_map(|round| round.start_unix_ns).min(),
            duration_ns,
            throughput_ops_per_s: per_second(ops, duration_ns),
            response_time_ns_mean: response.mean,
            response_time_ns_p50: response.p50,
            response_time_ns_p99: response.p99,
            client_cpu_ns_per_op: client.sum::<Option<f64>>().map(per_op),
            server_cpu_ns_per_op: server.reduce(f64::max).map(per_op),
            client_cpu_wait: mean(|round| round.client_cpu_wait),
            server_cpu_wait: mean(|round| round.server_cpu_wait),
            reference_ns_p50: reference(&parts),
            tail: None,
        })
    });
    rounds.collect()
}

/// The reference of all agents in a round: the harmonic mean, because their rates add up. `None` if one of them has none.
fn reference(rounds: &[&RoundSummary]) -> Option<u64> {
    let speeds = rounds
        .iter()
        .map(|round| Some(1.0 / round.reference_ns_p50.filter(|ns| *ns > 0)? as f64));
    let speed: f64 = speeds.sum::<Option<f64>>()?;
    (!rounds.is_empty()).then(|| (rounds.len() as f64 / speed).round() as u64)
}

fn per_second(ops: u64, duration_ns: u64) -> f64 {
    ops as f64 * 1e9 / duration_ns.max(1) as f64
}

/// A mean per operation over all agents; `None` if one of them does not have it.
fn per_operation(cases: &[&Case], of: fn(&Case) -> Option<f64>) -> Option<f64> {
    let ops: f64 = cases.iter().map(|case| case.ops as f64).sum();
    let values = cases.iter().map(|case| Some(of(case)? * case.ops as f64));
    Some(values.sum::<Option<f64>>()? / ops.max(1.0))
}

fn cost(cases: &[&Case], ops: u64) -> Cost {
    // The server's CPU time is the same for every agent, so it is counted once: the most that one of them saw.
    let server = cases
        .iter()
        .filter_map(|case| Some(case.cost.server_cpu_ns_per_op? * case.ops as f64));
    Cost {
        client_cpu_ns_per_op: per_operation(cases, |case| case.cost.client_cpu_ns_per_op),
        server_cpu_ns_per_op: server.reduce(f64::max).map(|all| all / ops.max(1) as f64),
        bytes_in_per_op: per_operation(cases, |case| case.cost.bytes_in_per_op),
        bytes_out_per_op: per_operation(cases, |case| case.cost.bytes_out_per_op),
        // Each opened its connections as operations.
        client_bytes_per_connection: per_operation(cases, |case| {
            case.cost.client_bytes_per_connection
        }),
        server_bytes_per_connection: per_operation(cases, |case| {
            case.cost.server_bytes_per_connection
        }),
        ..Cost::default()
    }
}

/// The operations of all agents by interval, counted from the start of each agent's own round. Intervals have no
/// histograms that could be added, and so no percentiles here.
fn series(cases: &[&Case]) -> Vec<Interval> {
    let mut all: BTreeMap<(u64, u64), Interval> = BTreeMap::new();
    for interval in cases.iter().flat_map(|case| &case.series) {
        let place = (interval.round, interval.start_ns);
        let sum = all.entry(place).or_insert_with(|| Interval {
            round: interval.round,
            start_ns: interval.start_ns,
            ..Interval::default()
        });
        sum.ops = sum.ops.saturating_add(interval.ops);
        sum.errors = sum.errors.saturating_add(interval.errors);
    }
    all.into_values().collect()
}

/// The longest stalls of all agents, in order of time.
fn stalls(agents: &[(u64, &Case)]) -> Vec<Stall> {
    let of_agent = |(rank, case): &(u64, &Case)| {
        let agent = Some(*rank);
        let stalls = case.stalls.iter().map(move |stall| Stall {
            agent,
            ..stall.clone()
        });
        stalls.collect::<Vec<_>>()
    };
    let mut stalls: Vec<Stall> = agents.iter().flat_map(of_agent).collect();
    stalls.sort_by_key(|stall| std::cmp::Reverse(stall.length_ns));
    stalls.truncate(MOST_STALLS);
    stalls.sort_by_key(|stall| (stall.round, stall.start_ns, stall.agent));
    stalls
}
