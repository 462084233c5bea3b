//! What the measurements of tiers say: what each tier costs, where its time goes, and which of the four options to choose.

mod load;
mod options;
mod reproduce;
mod waterfall;

use std::time::Duration;

use loadline_cache::cost::Costs;
use loadline_measure::interval;
use loadline_measure::miss_ratio::MissRatioCurve;
use loadline_measure::quantile::median;
use loadline_measure::record::{
    BatchCost, BatchSize, Bounds, Case, Record, TierCost, TierVerdict, TieredObject, Tiers,
};
use loadline_measure::tiers::call_and_each;

use crate::plan::{TierOp, TiersPlan};
use crate::subjects::tier::PartSums;

pub(crate) use load::{CacheRan, LoadRan, NO_TIER};
pub(crate) use waterfall::null_name;

/// A hit ratio that says "never" and can be ordered.
const NEVER: f64 = 10.0;

/// The parts of the blocks of some cases, by their place in the record.
pub(crate) type Parts = Vec<(usize, Vec<PartSums>)>;

/// What the answers depend on in addition to the record.
pub(crate) struct TierFacts<'f> {
    pub(crate) plan: &'f TiersPlan,
    /// The size of an object in memory.
    pub(crate) memory_bytes: u64,
    /// The time to recompute it, if that was given.
    pub(crate) given: Option<Duration>,
    pub(crate) parts: Parts,
    /// The miss ratios of a trace.
    pub(crate) curve: Option<MissRatioCurve>,
    /// The gets of caches under load.
    pub(crate) load: Option<LoadRan>,
}

/// Adds the answers to `record`.
pub(crate) fn conclude_tiers(record: &mut Record, facts: &TierFacts<'_>) {
    if let (Some(load), Some(ran)) = (&facts.plan.load, &facts.load) {
        let is_measured = ran.caches.iter().any(|cache| !cache.windows.is_empty());
        record.tiers = is_measured.then(|| load::concluded(load, ran, facts));
        return;
    }
    let found = Found {
        cases: &record.cases,
        facts,
    };
    let Some(recompute) = found.recompute() else {
        return;
    };
    let costs = found.costs(&recompute);
    let (options, verdict) = found.options(&recompute, &costs);
    let (flaws, claims) = if facts.plan.reproduce {
        (found.flaws(), found.claims())
    } else {
        Default::default()
    };
    let finding = facts
        .plan
        .reproduce
        .then(reproduce::batches_of_the_write_up);
    let findings = finding.flatten().into_iter().collect::<Vec<_>>();
    let tiers = Tiers {
        object: TieredObject {
            name: facts.plan.source.name(),
            memory_bytes: facts.memory_bytes,
            recompute_ns: recompute.ns,
            is_recompute_given: facts.given.is_some(),
            codec: facts.plan.format.to_string(),
        },
        hit_ratio: facts.plan.hit_ratio,
        verdict,
        waterfalls: found.waterfalls(),
        batches: found.batches(),
        curve: facts.curve.clone(),
        load: None,
        costs,
        options,
        flaws,
        claims,
    };
    record.findings.extend(findings);
    record.tiers = Some(tiers);
}

/// The time to recompute an object.
struct Recompute {
    ns: f64,
    /// In each round; empty if it was given.
    rounds: Vec<f64>,
}

impl Recompute {
    fn of_round(&self, round: usize) -> f64 {
        self.rounds.get(round).copied().unwrap_or(self.ns)
    }
}

/// The measured cases with what they belong to.
struct Found<'f> {
    cases: &'f [Case],
    facts: &'f TierFacts<'f>,
}

/// The mean time of an operation in each round.
fn rounds(case: &Case) -> Vec<f64> {
    let rounds = case.rounds.iter().filter(|round| round.ops > 0);
    rounds
        .map(|round| round.duration_ns as f64 / round.ops as f64)
        .collect()
}

/// The median over the rounds of the mean time of an operation.
fn time(case: &Case) -> f64 {
    median(&rounds(case)).unwrap_or(0.0)
}

impl<'f> Found<'f> {
    /// The case of a stage with this subject, operation and codec.
    fn case(
        &self,
        stage: &str,
        subject: &str,
        operation: &str,
        codec: Option<&str>,
        batch: u64,
    ) -> Option<&'f Case> {
        self.cases.iter().find(|case| {
            let scenario = &case.scenario;
            scenario.suite.as_deref() == Some(stage)
                && case.subject.name == subject
                && scenario.workload == operation
                && scenario.batch == batch
                && (codec.is_none() || scenario.codec.as_deref() == codec)
        })
    }

    fn recompute(&self) -> Option<Recompute> {
        if let Some(given) = self.facts.given {
            return Some(Recompute {
                ns: given.as_nanos() as f64,
                rounds: Vec::new(),
            });
        }
        let case = self.case("tiers", "recompute", "recompute", None, 1)?;
        Some(Recompute {
            ns: time(case),
            rounds: rounds(case),
        })
    }

    /// The costs of each tier with each codec that it was measured with.
    fn costs(&self, recompute: &Recompute) -> Vec<TierCost> {
        let gets = self.cases.iter().filter(|case| {
            case.scenario.suite.as_deref() == Some("tiers")
                && case.scenario.workload == TierOp::Get.name()
        });
        gets.map(|get| self.cost(recompute, get)).collect()
    }

    fn cost(&self, recompute: &Recompute, get: &Case) -> TierCost {
        let (subject, codec) = (&get.subject.name, get.scenario.codec.as_deref());
        let set = self.case("tiers", subject, TierOp::Set.name(), codec, 1);
        let miss = self.case("tiers", subject, TierOp::Miss.name(), None, 1);
        let times = &get.response_time_ns;
        let known = TierCost {
            subject: subject.clone(),
            codec: codec.map(Into::into),
            latency_ns: get.scenario.latency_ns,
            get_ns: time(get),
            get_ns_min: times.min,
            get_ns_p50: times.p50,
            get_ns_p99: times.p99,
            miss_ns: miss.map(time),
            set_ns: set.map(time),
            pays: TierVerdict::Inconclusive,
            ..TierCost::default()
        };
        let (Some(set), Some(miss)) = (set, miss) else {
            return known;
        };
        let expected = self.facts.plan.hit_ratio;
        let rounds = rounds_of(recompute, get, miss, set);
        let break_evens = rounds.iter().map(|costs| costs.break_even().min(NEVER));
        let break_evens: Vec<f64> = break_evens.collect();
        let interval = interval::of_median(&break_evens, interval::ALPHA);
        let least = rounds
            .iter()
            .filter_map(|costs| costs.least_recompute(expected));
        let least: Vec<f64> = least.map(|least| least.as_nanos() as f64).collect();
        TierCost {
            break_even: median(&break_evens).filter(|ratio| *ratio <= 1.0),
            break_even_interval: interval.map(|found| Bounds {
                lo: found.lo,
                hi: found.hi,
            }),
            least_recompute_ns: median(&least),
            read_ns: median(&reads(&rounds, expected)),
            pays: match interval {
                Some(found) if found.hi < expected => TierVerdict::Yes,
                Some(found) if found.lo > expected => TierVerdict::No,
                _ => TierVerdict::Inconclusive,
            },
            ..known
        }
    }

    /// The mean time of a read through a tier in each round, at the assumed hit ratio.
    fn reads(&self, recompute: &Recompute, cost: &TierCost) -> Vec<f64> {
        let case = |op: TierOp, codec| self.case("tiers", &cost.subject, op.name(), codec, 1);
        let codec = cost.codec.as_deref();
        let cases = case(TierOp::Get, codec)
            .zip(case(TierOp::Miss, None))
            .zip(case(TierOp::Set, codec));
        cases.map_or_else(Vec::new, |((get, miss), set)| {
            let rounds = rounds_of(recompute, get, miss, set);
            reads(&rounds, self.facts.plan.hit_ratio)
        })
    }

    fn batches(&self) -> Vec<BatchCost> {
        let mut all: Vec<BatchCost> = Vec::new();
        let cases = self.cases.iter();
        for case in cases.filter(|case| case.scenario.suite.as_deref() == Some("batches")) {
            let (subject, operation) = (&case.subject.name, &case.scenario.workload);
            let size = BatchSize {
                objects: case.scenario.batch,
                per_object_ns: time(case),
            };
            let same =
                |known: &&mut BatchCost| known.subject == *subject && known.operation == *operation;
            match all.iter_mut().find(same) {
                Some(known) => known.sizes.push(size),
                None => all.push(BatchCost {
                    subject: subject.clone(),
                    operation: operation.clone(),
                    sizes: vec![size],
                    ..BatchCost::default()
                }),
            }
        }
        for batch in &mut all {
            let sizes = batch.sizes.iter();
            let calls: Vec<(u64, f64)> = sizes
                .map(|size| (size.objects, size.per_object_ns * size.objects as f64))
                .collect();
            if let Some((call, each)) = call_and_each(&calls) {
                (batch.per_call_ns, batch.each_ns) = (call, each);
            }
        }
        all
    }
}

/// The costs in each round.
fn rounds_of(recompute: &Recompute, get: &Case, miss: &Case, set: &Case) -> Vec<Costs> {
    let (get, miss, set) = (rounds(get), rounds(miss), rounds(set));
    let count = get.len().min(miss.len()).min(set.len());
    let of_round = |round: usize| {
        let recompute = recompute.of_round(round);
        costs(recompute, get[round], miss[round], set[round])
    };
    (0..count).map(of_round).collect()
}

/// The mean time of a read in each round: less than recomputing by what the tier saves.
fn reads(rounds: &[Costs], hit_ratio: f64) -> Vec<f64> {
    let read = |costs: &Costs| costs.recompute.as_nanos() as f64 - costs.gain_ns(hit_ratio);
    rounds.iter().map(read).collect()
}

fn costs(recompute_ns: f64, hit_ns: f64, miss_ns: f64, set_ns: f64) -> Costs {
    let time = |ns: f64| Duration::from_nanos(ns.max(0.0).round() as u64);
    Costs {
        recompute: time(recompute_ns),
        hit: time(hit_ns),
        miss: time(miss_ns),
        set: time(set_ns),
        down_share: 0.0,
        timeout: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests;
