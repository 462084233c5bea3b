//! What the measurements of tiers say: what each tier costs, where its time goes, and which of the four options to choose.

mod load;
mod reproduce;
mod waterfall;

use std::time::Duration;

use loadline_cache::cost::Costs;
use loadline_measure::compare::{self, Rules};
use loadline_measure::interval;
use loadline_measure::miss_ratio::MissRatioCurve;
use loadline_measure::quantile::median;
use loadline_measure::record::{
    BatchCost, BatchSize, Bounds, Case, Direction, Record, SubjectKind, TierCost, TierOption,
    TierVerdict, TieredObject, Tiers, Verdict,
};
use loadline_measure::tiers::call_and_each;
use loadline_measure::words;

use crate::object::{Encoding, Format};
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
    let options = found.options(&recompute, &costs);
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
        },
        hit_ratio: facts.plan.hit_ratio,
        verdict: verdict(&recompute, &costs, &options, facts.plan.hit_ratio),
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

    fn format(&self) -> String {
        self.facts.plan.format.to_string()
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
        let each = (rounds(get), rounds(miss), rounds(set));
        let count = each.0.len().min(each.1.len()).min(each.2.len());
        let of_round = |round: usize| {
            let recompute = recompute.of_round(round);
            costs(recompute, each.0[round], each.1[round], each.2[round])
        };
        let rounds: Vec<Costs> = (0..count).map(of_round).collect();
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
            pays: match interval {
                Some(found) if found.hi < expected => TierVerdict::Yes,
                Some(found) if found.lo > expected => TierVerdict::No,
                _ => TierVerdict::Inconclusive,
            },
            ..known
        }
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

    /// The server that the four options are about: the first one, without added latency.
    fn server(&self) -> Option<&'f str> {
        let is_server = |case: &&Case| {
            !matches!(
                case.subject.kind,
                SubjectKind::Application | SubjectKind::Engine | SubjectKind::NullServer
            )
        };
        let server = self.cases.iter().find(is_server);
        server.map(|case| case.subject.name.as_str())
    }

    fn options(&self, recompute: &Recompute, costs: &[TierCost]) -> Vec<TierOption> {
        let format = self.format();
        let of = |subject: &str, codec: &str| {
            costs
                .iter()
                .find(|cost| cost.subject == subject && cost.codec.as_deref() == Some(codec))
        };
        let server = self.server().and_then(|server| of(server, &format));
        let tiles = Format::plain(Encoding::ProtobufTiles).to_string();
        let written = server.and_then(|server| of(&server.subject, &tiles));
        let mut options = Vec::new();
        if let Some(server) = server {
            options.push(self.drop_it(recompute, server));
            options.extend(written.map(|written| self.fix(recompute, written, server)));
            options.push(self.selective(recompute, server));
        }
        let embedded = self.best_embedded(costs);
        options.extend(embedded.map(|best| self.embedded(recompute, best, server)));
        options
    }

    fn drop_it(&self, recompute: &Recompute, server: &TierCost) -> TierOption {
        TierOption {
            name: "drop".into(),
            answer: opposite(&server.pays),
            reason: format!(
                "Recomputing takes {}. {} returns the object in {} and stores it in {}{}.",
                words::duration(recompute.ns),
                tier(server),
                words::duration(server.get_ns),
                words::duration(server.set_ns.unwrap_or(0.0)),
                self.threshold(server)
            ),
        }
    }

    fn fix(&self, recompute: &Recompute, written: &TierCost, server: &TierCost) -> TierOption {
        let answer = match (&written.pays, &server.pays) {
            (TierVerdict::No, TierVerdict::Yes) => TierVerdict::Yes,
            (TierVerdict::Yes, _) | (_, TierVerdict::No) => TierVerdict::No,
            _ => TierVerdict::Inconclusive,
        };
        let times = written.get_ns / server.get_ns.max(1.0);
        TierOption {
            name: "fix".into(),
            answer,
            reason: format!(
                "With a message per tile, {} takes {} for a hit, {} as long as with {}{}. Recomputing takes {}, so the codec decides whether this tier can pay.",
                written.subject,
                words::duration(written.get_ns),
                words::ratio(times).replace('x', " times"),
                server.codec.as_deref().unwrap_or("raw"),
                self.threshold(written),
                words::duration(recompute.ns),
            ),
        }
    }

    fn selective(&self, recompute: &Recompute, server: &TierCost) -> TierOption {
        let least = server.least_recompute_ns.unwrap_or(0.0);
        TierOption {
            name: "selective".into(),
            answer: opposite(&server.pays),
            reason: format!(
                "At a hit ratio of {}, {} pays for objects of this size that take longer than {} to recompute; this one takes {}.",
                words::percent(self.facts.plan.hit_ratio),
                server.subject,
                words::duration(least),
                words::duration(recompute.ns),
            ),
        }
    }

    fn best_embedded<'c>(&self, costs: &'c [TierCost]) -> Option<&'c TierCost> {
        let is_engine = |cost: &&TierCost| {
            self.cases.iter().any(|case| {
                case.subject.name == cost.subject && case.subject.kind == SubjectKind::Engine
            })
        };
        let engines = costs.iter().filter(is_engine);
        engines.min_by(|one, other| one.get_ns.total_cmp(&other.get_ns))
    }

    fn embedded(
        &self,
        recompute: &Recompute,
        best: &TierCost,
        server: Option<&TierCost>,
    ) -> TierOption {
        let own = format!(
            "{} returns the object in {}{}; recomputing takes {}.",
            best.subject,
            words::duration(best.get_ns),
            self.threshold(best),
            words::duration(recompute.ns),
        );
        let Some(server) = server else {
            return TierOption {
                name: "embedded".into(),
                answer: best.pays.clone(),
                reason: own,
            };
        };
        let case = |cost: &TierCost| {
            let codec = cost.codec.as_deref();
            self.case("tiers", &cost.subject, TierOp::Get.name(), codec, 1)
        };
        let pair = case(server).zip(case(best)).and_then(|(server, best)| {
            let (server, best) = (rounds(server), rounds(best));
            compare::paired(&server, &best, Direction::LessIsBetter, &Rules::default()).ok()
        });
        let (answer, evidence) = match pair {
            Some(pair) => {
                let answer = match (&pair.verdict, &best.pays) {
                    (Verdict::Faster, TierVerdict::Yes) => TierVerdict::Yes,
                    (Verdict::Slower | Verdict::Equivalent, _) | (_, TierVerdict::No) => {
                        TierVerdict::No
                    }
                    _ => TierVerdict::Inconclusive,
                };
                let ratio = words::ratio(1.0 / pair.ratio).replace('x', " times");
                (
                    answer,
                    format!(
                        " {} takes {ratio} as long ({}).",
                        server.subject,
                        pair.sentence()
                    ),
                )
            }
            None => (TierVerdict::Inconclusive, String::new()),
        };
        TierOption {
            name: "embedded".into(),
            answer,
            reason: format!("{own}{evidence} An embedded store is not shared between servers."),
        }
    }

    /// The hit ratio above which a tier pays, as part of a sentence.
    fn threshold(&self, cost: &TierCost) -> String {
        let expected = words::percent(self.facts.plan.hit_ratio);
        match (cost.break_even, &cost.break_even_interval) {
            (None, _) => ", so it pays at no hit ratio".to_owned(),
            (Some(ratio), None) => format!(
                ", and would pay above a hit ratio of {}; there are too few rounds for an interval",
                words::percent(ratio)
            ),
            (Some(ratio), Some(bounds)) => format!(
                ", and pays above a hit ratio of {} [{}, {}]; {expected} are expected",
                words::percent(ratio),
                words::percent(bounds.lo),
                bound(bounds.hi),
            ),
        }
    }
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

fn opposite(answer: &TierVerdict) -> TierVerdict {
    match answer {
        TierVerdict::Yes => TierVerdict::No,
        TierVerdict::No => TierVerdict::Yes,
        other => other.clone(),
    }
}

/// A tier with its codec.
fn tier(cost: &TierCost) -> String {
    match &cost.codec {
        Some(codec) => format!("{} with {codec}", cost.subject),
        None => cost.subject.clone(),
    }
}

/// The upper bound of a hit ratio.
fn bound(ratio: f64) -> String {
    if ratio > 1.0 {
        "never".into()
    } else {
        words::percent(ratio)
    }
}

/// The answer in a few sentences.
fn verdict(
    recompute: &Recompute,
    costs: &[TierCost],
    options: &[TierOption],
    hit_ratio: f64,
) -> String {
    let of = |wanted: TierVerdict| {
        let tiers = costs.iter().filter(|cost| cost.pays == wanted);
        let texts = tiers.map(|cost| match cost.break_even {
            Some(ratio) => format!("{} ({})", tier(cost), words::percent(ratio)),
            None => format!("{} (none)", tier(cost)),
        });
        Some(texts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
    };
    let groups = [
        ("tiers that pay", of(TierVerdict::Yes)),
        ("tiers that do not pay", of(TierVerdict::No)),
        ("inconclusive", of(TierVerdict::Inconclusive)),
    ];
    let groups: Vec<String> = groups
        .into_iter()
        .filter_map(|(what, tiers)| Some(format!("{what}: {}", tiers?)))
        .collect();
    let mut text = format!(
        "Recomputing this object takes {}.",
        words::duration(recompute.ns)
    );
    if !groups.is_empty() {
        text += &format!(
            " At the expected hit ratio of {}, {} (in brackets: the hit ratio above which it pays).",
            words::percent(hit_ratio),
            groups.join("; ")
        );
    }
    let chosen: Vec<&str> = options
        .iter()
        .filter(|option| option.answer == TierVerdict::Yes)
        .map(|option| option.name.as_str())
        .collect();
    match &chosen[..] {
        [] => {}
        names => text += &format!(" Options to choose: {}.", names.join(", ")),
    }
    text
}

#[cfg(test)]
mod tests;
