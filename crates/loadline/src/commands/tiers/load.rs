//! Whole caches under load, in the place of single operations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_load::runner::{Measured, Rounds};
use loadline_measure::record::{self, SubjectKind};
use loadline_measure::tiers::Phase;

use super::Walk;
use super::blocks::{Blocks, Detailed};
use crate::exit::Failure;
use crate::interrupt::unless_given_up;
use crate::plan::{CacheLoad, Case};
use crate::recording::{self, CacheRan, LoadRan, NO_TIER, Origin};
use crate::session::Session;
use crate::spelling::Target;
use crate::subjects::tier::{Bench, CacheSubject, Gets};
use crate::workload;

/// Calls that estimate how long a get takes.
const CALLS: u32 = 8;

impl Detailed for CacheSubject {
    type Details = Gets;

    fn take_details(&mut self) -> Option<Gets> {
        Some(self.take_gets())
    }
}

impl Walk<'_> {
    /// Blocks of the load, for progress.
    pub(super) fn load_blocks(load: &CacheLoad, tiers: usize) -> usize {
        load.all_windows() as usize * (tiers + 1)
    }

    /// Runs the load on a cache without a tier below memory and on one for each tier, and adds its cases to the record.
    /// Returns what was measured, and why it ended early.
    pub(super) fn load(
        &self,
        load: &CacheLoad,
        session: &mut Session<'_>,
    ) -> Result<(Option<LoadRan>, Option<Failure>), Failure> {
        let (plan, control) = (&self.plan.base, &session.shell.control);
        let (bench, format) = (self.bench.clone(), self.plan.format);
        self.progress.say("load: estimating the time of a get");
        let estimate = unless_given_up(control, move || get_time(&bench, format))?;
        let Some(get) = estimate else {
            return Ok((None, None));
        };
        let case = Case {
            name: "load".into(),
            ..plan.cases[0].clone()
        };
        let window_gets = load.window_gets(&case, get);
        let places = std::iter::once(None).chain((0..self.bench.places.len()).map(Some));
        let places: Vec<Option<usize>> = places.collect();
        let name = |place: &Option<usize>| match place {
            None => NO_TIER.to_owned(),
            Some(place) => self.bench.places[*place].name.clone(),
        };
        let names: Vec<String> = places.iter().map(name).collect();
        let blocks = Blocks {
            title: "load".into(),
            names: names.clone(),
            rounds: Rounds {
                stops: load.stops(window_gets),
                warmup: Duration::ZERO,
                order: plan.seed,
                seed: plan.seed,
            },
            progress: Arc::clone(&self.progress),
        };
        let (bench, load, of_all) = (self.bench.clone(), load.clone(), case.clone());
        let (own, to_open) = (load.clone(), places.clone());
        let ran = blocks.run(control, move || {
            let caches = to_open.iter();
            caches
                .map(|place| bench.open_cache(*place, &own, format, &of_all))
                .collect()
        })?;
        let mut caches = Vec::new();
        for (place, ((measured, gets), name)) in ran
            .measured
            .into_iter()
            .zip(ran.details)
            .zip(names)
            .enumerate()
        {
            self.add_phases(&load, &case, (&name, places[place]), measured, session);
            caches.push(CacheRan {
                tier: places[place].map(|_| name),
                windows: gets,
            });
        }
        let encoded_bytes = self.bench.pool.mean_bytes(format)? as u64;
        let measured = LoadRan {
            window_gets,
            encoded_bytes,
            caches,
        };
        Ok((Some(measured), ran.broken))
    }

    /// Adds a case for each phase of a cache.
    fn add_phases(
        &self,
        load: &CacheLoad,
        case: &Case,
        (name, place): (&str, Option<usize>),
        measured: Measured,
        session: &mut Session<'_>,
    ) {
        let mut blocks = measured.blocks.into_iter();
        for phase in Phase::ALL {
            let blocks: Vec<_> = blocks.by_ref().take(load.windows as usize).collect();
            if blocks.is_empty() {
                return;
            }
            let of_phase = Case {
                name: format!("{name} {phase}"),
                workload: workload::over_strings(phase.as_str(), "tiers", &["GET {key}"]),
                ..case.clone()
            };
            let measured = Measured {
                blocks,
                ..Measured::default()
            };
            let origin = self.cache_origin(name, place);
            let mut entry = recording::case_of(&of_phase, &self.plan.base, origin, &measured);
            entry.scenario.suite = Some("load".into());
            entry.scenario.codec = place.map(|_| self.plan.format.to_string());
            let record = &mut session.record;
            record.doctor.extend(recording::examine_errors(&entry));
            record.cases.push(entry);
        }
    }

    fn cache_origin(&self, name: &str, place: Option<usize>) -> Origin<'_> {
        let target = place.map(|place| &self.opened[self.bench.places[place].target]);
        Origin {
            subject: record::Subject {
                name: name.to_owned(),
                kind: SubjectKind::Application,
                target: target.map_or_else(|| name.to_owned(), |opened| opened.target.to_string()),
                version: None,
            },
            target: target.map_or(&Target::RAM, |opened| &opened.target),
            threads: 1,
            is_direct: place.is_none_or(|place| self.plan.places[place].latency.is_zero()),
            is_throttled: false,
        }
    }
}

/// About how long a get takes that no tier answers: with the slowest tier, half of the time that it adds to a load.
fn get_time(bench: &Bench, format: crate::object::Format) -> Result<Duration, Failure> {
    let failed = |why: String| Failure::unavailable(format!("{why}."));
    let begun = Instant::now();
    for number in 0..CALLS {
        std::hint::black_box(bench.pool.load(number as usize).map_err(failed)?);
    }
    let load = begun.elapsed() / CALLS;
    let mut slowest = Duration::ZERO;
    for place in bench.places.iter() {
        slowest = slowest.max(bench.write_time(place, format, CALLS)? / CALLS);
    }
    Ok(load + slowest / 2)
}
