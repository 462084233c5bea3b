//! The findings of measured tiers: the cost of each tier, the parts of its time, and which of the four options to
//! choose.

mod load;
mod reproduce;
mod sides;
mod waterfall;

use std::time::Duration;

use loadline_cache::cost::Costs;
use loadline_measure::interval;
use loadline_measure::miss_ratio::MissRatioCurve;
use loadline_measure::quantile::median;
use loadline_measure::record::{
    Answer, BatchCost, BatchSize, Bounds, Case, CaseId, CodecCases, Record, TierCases, TierCost,
    TierOption, TierVerdict, TieredObject, Tiers,
};
use loadline_measure::tiers::{call_and_each, options};
use loadline_report::paired_evidence;

use crate::object::Format;
use crate::plan::{Arm, ArmOp, TierGroup, TierOp, TiersPlan};
use crate::subjects::tier::PartSums;

pub(crate) use load::{CacheRan, LoadRan, NO_TIER};

/// A hit ratio that says "never" and can be ordered.
const NEVER: f64 = 10.0;

/// An arm that was measured.
pub(crate) struct RanArm {
    pub(crate) group: TierGroup,
    pub(crate) arm: Arm,
    /// Its case in the record.
    pub(crate) case: CaseId,
    /// The parts of its blocks, if it has a clock between them.
    pub(crate) parts: Vec<PartSums>,
}

/// The facts outside the record on which the answers depend.
pub(crate) struct TierFacts<'f> {
    pub(crate) plan: &'f TiersPlan,
    /// The size of an object in memory.
    pub(crate) memory_bytes: u64,
    /// The time to recompute it, if that was given.
    pub(crate) given: Option<Duration>,
    pub(crate) ran: Vec<RanArm>,
    /// The miss ratios of a trace.
    pub(crate) curve: Option<MissRatioCurve>,
    /// The gets of caches under load.
    pub(crate) load: Option<LoadRan>,
}

/// Adds the answers to `record`.
pub(crate) fn conclude_tiers(record: &mut Record, facts: &TierFacts<'_>) {
    if let (Some(load), Some(ran)) = (&facts.plan.load, &facts.load) {
        let is_measured = ran.caches.iter().any(|cache| !cache.windows.is_empty());
        if is_measured {
            record.answer = Answer::Tiers(Box::new(load::concluded(load, ran, facts)));
        }
        return;
    }
    let found = MeasuredCases {
        cases: &record.cases,
        facts,
    };
    let Some(recompute) = found.recompute() else {
        return;
    };
    let tiers = found.tiers(&recompute);
    let costs: Vec<TierCost> = tiers.iter().map(|tier| tier.cost.clone()).collect();
    let sides = found.sides(&tiers, &costs);
    let expected = facts.plan.hit_ratio;
    let of_rounds = tiers.iter().map(|tier| reads(&tier.rounds, expected));
    let options = options(&costs, &sides, &of_rounds.collect::<Vec<_>>()).into_iter();
    let options = options.map(|(option, by)| TierOption {
        evidence: by.map_or_else(String::new, |by| paired_evidence(&by, None, None)),
        ..option
    });
    let reproduced = facts.plan.server().filter(|_| facts.plan.reproduce);
    let (flaws, claims) = reproduced.map_or_else(Default::default, |server| {
        (found.flaws(server), found.claims(server))
    });
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
        cases: found.ids(),
        waterfalls: found.waterfalls(),
        batches: found.batches(),
        curve: facts.curve.clone(),
        load: None,
        costs,
        sides,
        options: options.collect(),
        flaws,
        claims,
    };
    record.findings.extend(findings);
    record.answer = Answer::Tiers(Box::new(tiers));
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
struct MeasuredCases<'f> {
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

/// A tier with a codec: its cost, and the figures of each round that it follows from.
struct MeasuredTier {
    place: usize,
    format: Format,
    cost: TierCost,
    rounds: Vec<Costs>,
}

impl<'f> MeasuredCases<'f> {
    /// The measured arms of a group.
    fn group(&self, group: TierGroup) -> impl Iterator<Item = &'f RanArm> {
        let ran = self.facts.ran.iter();
        ran.filter(move |ran| ran.group == group)
    }

    /// A measured arm, with any codec if none is given.
    fn arm(
        &self,
        group: TierGroup,
        step: ArmOp,
        format: Option<Format>,
        batch: u32,
    ) -> Option<&'f RanArm> {
        self.group(group).find(|ran| {
            let arm = &ran.arm;
            arm.step == step
                && arm.batch == batch
                && format.is_none_or(|format| arm.format == format)
        })
    }

    fn case_of(&self, ran: &RanArm) -> &'f Case {
        &self.cases[ran.case.0]
    }

    /// The case of an operation that the verdicts compare.
    fn case(&self, step: ArmOp, format: Option<Format>) -> Option<&'f Case> {
        let ran = self.arm(TierGroup::Tiers, step, format, 1)?;
        Some(self.case_of(ran))
    }

    fn recompute(&self) -> Option<Recompute> {
        if let Some(given) = self.facts.given {
            return Some(Recompute {
                ns: given.as_nanos() as f64,
                rounds: Vec::new(),
            });
        }
        let case = self.case(ArmOp::Recompute, None)?;
        Some(Recompute {
            ns: time(case),
            rounds: rounds(case),
        })
    }

    /// The cases that are no tier's own.
    fn ids(&self) -> TierCases {
        let id = |step| Some(self.arm(TierGroup::Tiers, step, None, 1)?.case);
        let encodes = self.group(TierGroup::Codecs);
        let encodes = encodes.filter(|ran| ran.arm.step == ArmOp::Encode);
        let codecs = encodes.map(|encode| {
            let format = Some(encode.arm.format);
            let decode = self.arm(TierGroup::Codecs, ArmOp::Decode, format, 1);
            CodecCases {
                encode: encode.case,
                decode: decode.map(|decode| decode.case),
            }
        });
        let server = self.facts.plan.server();
        TierCases {
            recompute: id(ArmOp::Recompute),
            hit: id(ArmOp::Hit),
            deep_copy: id(ArmOp::DeepCopy),
            cached: server.and_then(|server| id(ArmOp::Tier(server, TierOp::Cached))),
            codecs: codecs.collect(),
            set_up: self.group(TierGroup::SetUp).map(|ran| ran.case).collect(),
        }
    }

    /// Each tier with each codec that it was measured with.
    fn tiers(&self, recompute: &Recompute) -> Vec<MeasuredTier> {
        let gets = self.group(TierGroup::Tiers).filter_map(|get| {
            let ArmOp::Tier(place, TierOp::Get) = get.arm.step else {
                return None;
            };
            Some(self.tier(recompute, place, get))
        });
        gets.collect()
    }

    fn tier(&self, recompute: &Recompute, place: usize, ran: &RanArm) -> MeasuredTier {
        let (get, format) = (self.case_of(ran), ran.arm.format);
        let set = self.case(ArmOp::Tier(place, TierOp::Set), Some(format));
        let miss = self.case(ArmOp::Tier(place, TierOp::Miss), None);
        let times = &get.response_time_ns;
        let known = TierCost {
            subject: get.subject.name.clone(),
            get: Some(ran.case),
            codec: get.scenario.codec.clone(),
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
        let rounds = match (set, miss) {
            (Some(set), Some(miss)) => rounds_of(recompute, get, miss, set),
            _ => Vec::new(),
        };
        let cost = match rounds.is_empty() {
            true => known,
            false => self.judged(&rounds, known),
        };
        MeasuredTier {
            place,
            format,
            cost,
            rounds,
        }
    }

    /// `known` with what its rounds say at the assumed hit ratio.
    fn judged(&self, rounds: &[Costs], known: TierCost) -> TierCost {
        let expected = self.facts.plan.hit_ratio;
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
            read_ns: median(&reads(rounds, expected)),
            pays: match interval {
                Some(found) if found.hi < expected => TierVerdict::Yes,
                Some(found) if found.lo > expected => TierVerdict::No,
                _ => TierVerdict::Inconclusive,
            },
            ..known
        }
    }

    fn batches(&self) -> Vec<BatchCost> {
        let mut steps: Vec<ArmOp> = Vec::new();
        let mut all: Vec<BatchCost> = Vec::new();
        for ran in self.group(TierGroup::Batches) {
            let case = self.case_of(ran);
            let size = BatchSize {
                objects: u64::from(ran.arm.batch),
                per_object_ns: time(case),
            };
            match steps.iter().position(|step| *step == ran.arm.step) {
                Some(place) => all[place].sizes.push(size),
                None => {
                    steps.push(ran.arm.step);
                    all.push(BatchCost {
                        subject: case.subject.name.clone(),
                        operation: case.scenario.workload.clone(),
                        sizes: vec![size],
                        ..BatchCost::default()
                    });
                }
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
