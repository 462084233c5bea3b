//! The findings about caches under load: hit ratios by phase beside predicted ones, and the saving of each tier.

use loadline_load::pacing::Pacing;
use loadline_load::workload::{Chooser, KeySpace, Number};
use loadline_measure::Histogram;
use loadline_measure::interval;
use loadline_measure::miss_ratio::{MissRatio, MissRatioCurve, Use};
use loadline_measure::quantile::median;
use loadline_measure::record::{
    Bounds, LoadAnswer, LoadPhase, LoadSubject, LoadWindow, TierLoad, TieredObject, Tiers,
};
use loadline_measure::steady;
use loadline_measure::tiers::Phase;
use rand::{SeedableRng, rngs::SmallRng};

use super::TierFacts;
use crate::plan::CacheLoad;
use crate::subjects::tier::{Answerer, Gets};
use crate::units::key_dist_text;

/// The name in reports of the cache without a tier below memory.
pub(crate) const NO_TIER: &str = "no tier";
/// Bytes that the cache keeps for an entry in memory in addition to its object.
const ENTRY_BYTES: u64 = 130;
/// The uses that a prediction follows, about; of longer loads, a sample.
const FOLLOWED: f64 = 1_000_000.0;

/// The gets of all caches.
#[derive(Debug)]
pub(crate) struct LoadRan {
    /// Gets of a window, as planned.
    pub(crate) window_gets: u64,
    /// The size of an object in a tier.
    pub(crate) encoded_bytes: u64,
    /// The cache without a tier first.
    pub(crate) caches: Vec<CacheRan>,
}

/// The gets of a cache.
#[derive(Debug)]
pub(crate) struct CacheRan {
    pub(crate) tier: Option<String>,
    pub(crate) windows: Vec<Gets>,
}

/// The hit ratios of a cache that evicts the least recently used object.
#[derive(Debug, Clone, Copy)]
struct Predicted {
    /// Of memory alone.
    memory: f64,
    /// Of memory and the tier together.
    both: f64,
}

/// The answers about the load.
pub(super) fn concluded(load: &CacheLoad, ran: &LoadRan, facts: &TierFacts<'_>) -> Tiers {
    let case = &facts.plan.base.cases[0];
    let predicted = predict(load, ran, facts);
    let without = &ran.caches[0].windows;
    let subjects: Vec<LoadSubject> = ran
        .caches
        .iter()
        .map(|cache| subject(cache, load, without, &predicted))
        .collect();
    let mut answers = subjects[0].answers.iter();
    let recomputed = answers.find(|answer| answer.by == name(Answerer::Recompute, None));
    let recomputed = recomputed.map(|answer| answer.get_ns);
    let measured = TierLoad {
        key_dist: key_dist_text(&case.key_dist),
        keys: case.keys,
        memory_bytes: load.memory_bytes,
        tier_bytes: load.tier_bytes,
        rate_ops_per_s: match case.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, .. } => Some(rate),
        },
        window_gets: ran.window_gets,
        subjects,
    };
    let given = facts.given.map(|given| given.as_nanos() as f64);
    Tiers {
        object: TieredObject {
            name: facts.plan.source.name(),
            memory_bytes: facts.memory_bytes,
            recompute_ns: given.or(recomputed).unwrap_or(0.0),
            is_recompute_given: given.is_some(),
            codec: facts.plan.format.to_string(),
        },
        hit_ratio: facts.plan.hit_ratio,
        load: Some(measured),
        ..Tiers::default()
    }
}

/// Follows as many draws as the load has gets, with another seed.
fn predict(load: &CacheLoad, ran: &LoadRan, facts: &TierFacts<'_>) -> Vec<Predicted> {
    let phase_gets = ran.window_gets * u64::from(load.windows);
    let memory = load.memory_bytes / (facts.memory_bytes + ENTRY_BYTES);
    let tier = load.tier_bytes / ran.encoded_bytes.max(1);
    let hit = |curve: &MissRatioCurve, objects: u64| 1.0 - curve.miss_ratio(objects);
    let curves = [0, 1, 2].map(|phases| follow(phases * phase_gets, phase_gets, facts));
    let [cold, warm, last] = &curves;
    // A restart empties memory, and leaves the tier.
    [(cold, cold), (warm, warm), (cold, last)]
        .map(|(own, all)| Predicted {
            memory: hit(own, memory),
            both: hit(all, memory.max(tier)).max(hit(own, memory)),
        })
        .into()
}

/// The miss ratios of `gets` gets after `before` others, by objects.
fn follow(before: u64, gets: u64, facts: &TierFacts<'_>) -> MissRatioCurve {
    let case = &facts.plan.base.cases[0];
    let share = (FOLLOWED / (before + gets).max(1) as f64).min(1.0);
    let mut followed = MissRatio::new(share);
    let Ok(keys) = KeySpace::new(&case.key_dist, case.keys, 1) else {
        return followed.curve();
    };
    let rng = SmallRng::seed_from_u64(!facts.plan.base.seed);
    let mut chooser = Chooser::new(rng, 0, 1);
    for place in 0..before + gets {
        followed.add(&Use {
            key: chooser.number(Number::Key, &keys),
            bytes: 1,
            reads: place >= before,
        });
    }
    followed.curve()
}

/// The name of an answerer.
fn name(answerer: Answerer, tier: Option<&str>) -> &str {
    match answerer {
        Answerer::Memory => "memory",
        Answerer::Tier => tier.unwrap_or(NO_TIER),
        Answerer::Recompute => "recompute",
    }
}

fn mean(ns: u64, gets: u64) -> f64 {
    ns as f64 / gets.max(1) as f64
}

fn mean_of(gets: &Gets) -> f64 {
    mean(gets.time_ns(), gets.count())
}

/// The median and the 99th percentile of all gets, where there are enough.
fn percentiles(gets: &Gets) -> (Option<u64>, Option<u64>) {
    let mut all = Histogram::default();
    gets.times.iter().for_each(|times| all.merge(times));
    (all.quantile(0.5), all.quantile(0.99))
}

/// Mean, median and 99th percentile of the response times of an open loop.
fn response_times(gets: &Gets) -> (Option<f64>, Option<u64>, Option<u64>) {
    let of = |quantile| gets.responses.as_ref()?.quantile(quantile);
    let mean = gets.responses.as_ref().and_then(|all| all.summary().mean);
    (mean, of(0.5), of(0.99))
}

fn answers(gets: &Gets, tier: Option<&str>) -> Vec<LoadAnswer> {
    let answerers = Answerer::ALL.into_iter();
    let there = answerers.filter(|answerer| *answerer != Answerer::Tier || tier.is_some());
    there
        .map(|answerer| {
            let (count, times) = (gets.of(answerer), &gets.times[answerer as usize]);
            LoadAnswer {
                by: name(answerer, tier).to_owned(),
                gets: count,
                share: count as f64 / gets.count().max(1) as f64,
                get_ns: mean(gets.sums[answerer as usize], count),
                get_ns_p50: times.quantile(0.5),
                get_ns_p99: times.quantile(0.99),
            }
        })
        .collect()
}

fn merged(windows: &[Gets]) -> Gets {
    let mut all = Gets::default();
    windows.iter().for_each(|window| all.merge(window));
    all
}

fn subject(
    cache: &CacheRan,
    load: &CacheLoad,
    without: &[Gets],
    predicted: &[Predicted],
) -> LoadSubject {
    let tier = cache.tier.as_deref();
    let each = load.windows as usize;
    let mut course: Vec<LoadWindow> = Vec::new();
    let (mut first_get, mut start_ns) = (0, 0);
    for (place, window) in cache.windows.iter().enumerate() {
        let (p50, p99) = percentiles(window);
        let (response, response_p50, response_p99) = response_times(window);
        course.push(LoadWindow {
            phase: Phase::ALL[place / each].clone(),
            first_get,
            start_ns,
            gets: window.count(),
            get_ns: mean_of(window),
            get_ns_p50: p50,
            get_ns_p99: p99,
            response_time_ns: response,
            response_time_ns_p50: response_p50,
            response_time_ns_p99: response_p99,
            answers: answers(window, tier),
        });
        first_get += window.count();
        start_ns += window.time_ns();
    }
    let before_restart = course.len().min(load.restart_after() as usize);
    let means = course[..before_restart].iter().map(|window| window.get_ns);
    let steady = steady::steady_from(&means.collect::<Vec<_>>());
    let phases = cache.windows.chunks(each).zip(without.chunks(each));
    LoadSubject {
        name: tier.unwrap_or(NO_TIER).to_owned(),
        tier: cache.tier.clone(),
        steady_after_gets: steady.map(|window| course[window].first_get),
        steady_after_ns: steady.map(|window| course[window].start_ns),
        phases: phases
            .zip(predicted.iter().zip(Phase::ALL))
            .map(|((own, others), (predicted, name))| phase(name, tier, own, others, predicted))
            .collect(),
        answers: answers(&merged(&cache.windows), tier),
        windows: course,
    }
}

/// A phase of a cache, beside the windows of the cache without a tier with the same gets.
fn phase(
    name: &Phase,
    tier: Option<&str>,
    own: &[Gets],
    without: &[Gets],
    predicted: &Predicted,
) -> LoadPhase {
    let all = merged(own);
    let (p50, p99) = percentiles(&all);
    let (response, response_p50, response_p99) = response_times(&all);
    let count = all.count().max(1) as f64;
    let (memory, below) = (all.of(Answerer::Memory), all.of(Answerer::Tier));
    let reached = all.count() - memory;
    // An interrupt can have cut a window short.
    let pairs = own.iter().zip(without);
    let pairs = pairs.filter(|(own, without)| own.count() == without.count() && own.count() > 0);
    let saved: Vec<f64> = pairs
        .map(|(own, without)| mean_of(without) - mean_of(own))
        .collect();
    let saved = if tier.is_some() { saved } else { Vec::new() };
    let interval = interval::of_median(&saved, interval::ALPHA);
    LoadPhase {
        name: name.clone(),
        gets: all.count(),
        get_ns: mean_of(&all),
        get_ns_p50: p50,
        get_ns_p99: p99,
        response_time_ns: response,
        response_time_ns_p50: response_p50,
        response_time_ns_p99: response_p99,
        memory_hit_ratio: memory as f64 / count,
        predicted_memory_hit_ratio: predicted.memory,
        tier_hit_ratio: (tier.is_some() && reached > 0).then(|| below as f64 / reached as f64),
        predicted_tier_hit_ratio: (tier.is_some() && predicted.memory < 1.0)
            .then(|| (predicted.both - predicted.memory) / (1.0 - predicted.memory)),
        saves_ns: median(&saved),
        saves_interval: interval.map(|found| Bounds {
            lo: found.lo,
            hi: found.hi,
        }),
        answers: answers(&all, tier),
    }
}
