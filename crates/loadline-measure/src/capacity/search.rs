//! The search: which rate is tried next, and for how long.

use std::time::Duration;

use super::curve::{self, Told};
use super::trial::{Trial, Verdict};
use super::{Answer, Tally, saturation};
use crate::limit::Slo;
use crate::quantile;

/// Fresh trials in which the answer must hold.
pub(super) const CONFIRMATIONS: u32 = 3;
/// A trial of the confirmation lasts so many times as long as one of the search.
const CONFIRMATION_LENGTH: u32 = 2;
/// What runs between the confirmations, as a multiple of the answer, and must fail.
const ABOVE: f64 = 1.05;
/// The search ends where the rate that holds and the one that fails are this close.
const PRECISION: f64 = 1.02;
/// The shares of the closed loop's throughput that are tried first and second.
const FIRST: f64 = 0.1;
const SECOND: f64 = 0.5;
/// From there on rates rise by this factor until one fails.
const RISE: f64 = 1.26;
/// While none holds, rates fall by this factor.
const FALL: f64 = 4.0;
/// An answer that turned out too low rises by this factor.
const REVISION: f64 = 1.1;
/// More operations are asked for than a percentile needs, since how many come is a matter of chance.
const SPARE_OPS: f64 = 1.1;
/// Trials after which a search ends that does not come to an end.
const MOST_TRIALS: usize = 80;
/// Answers that turned out too low; then the noise is larger than the step.
const MOST_REVISIONS: u32 = 2;

/// Where a search may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The lowest rate to be tried, in operations per second.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
    /// The least time of a trial. It lasts longer where the percentile needs more operations.
    pub trial: Duration,
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To find the rate.
    Search,
    /// To confirm it.
    Confirm,
    /// To see that a little more fails.
    Above,
}

/// A trial to be run, in an open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Operations to be started per second.
    pub rate: f64,
    /// For how long.
    pub duration: Duration,
    /// What for.
    pub role: Role,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run this trial, and [tell](Search::told) what came of it.
    Try(Attempt),
    /// The search has ended.
    Done(Answer),
}

/// A search for the highest rate that keeps a limit.
#[derive(Debug, Clone)]
pub struct Search {
    slo: Slo,
    start: f64,
    bounds: Bounds,
    told: Vec<Told>,
    asked: Option<Attempt>,
    /// The highest rate that holds, as far as the search knows.
    low: Option<f64>,
    /// The lowest rate above it that does not.
    high: Option<f64>,
    /// The rate that is tried, until its trials decide.
    trying: Option<(f64, Tally)>,
    confirming: Option<Confirming>,
    revisions: u32,
    notes: Vec<String>,
}

/// A rate that is being confirmed.
#[derive(Debug, Clone)]
struct Confirming {
    rate: f64,
    at: Tally,
    above: Tally,
    /// The percentile in its trials.
    values: Vec<f64>,
}

impl Default for Bounds {
    /// From one operation per second to a billion, in trials of a second.
    fn default() -> Self {
        Self {
            lowest: 1.0,
            highest: 1e9,
            trial: Duration::from_secs(1),
        }
    }
}

impl Search {
    /// A search for the highest rate that keeps `slo`, which begins near `start`: the throughput of
    /// a closed loop, in operations per second.
    #[must_use]
    pub fn new(slo: Slo, start: f64, bounds: Bounds) -> Self {
        Self {
            slo,
            start,
            bounds,
            told: Vec::new(),
            asked: None,
            low: None,
            high: None,
            trying: None,
            confirming: None,
            revisions: 0,
            notes: Vec::new(),
        }
    }

    /// What is to be done next, with so much time `left`. The search leaves itself time to confirm.
    pub fn next(&mut self, left: Duration) -> Step {
        if let Some(attempt) = self.asked {
            return Step::Try(attempt);
        }
        if self.told.len() >= MOST_TRIALS {
            self.notes.push(format!(
                "The search ended after {MOST_TRIALS} trials; noise kept it from settling."
            ));
            return self.done();
        }
        if self.confirming.is_none() {
            match self.wanted() {
                Some(rate) if self.has_time_for(rate, left) => return self.ask(rate, Role::Search),
                Some(_) => self.note_short_of_time(),
                None => {}
            }
            let Some(rate) = self.low else {
                return self.done();
            };
            self.confirming = Some(Confirming::of(rate));
        }
        let (rate, role) = match self.confirming.as_ref().and_then(Confirming::wanted) {
            Some(wanted) => wanted,
            None => return self.done(),
        };
        if self.duration(rate, role) > left {
            self.notes
                .push("The time was over before the answer was confirmed.".to_owned());
            return self.done();
        }
        self.ask(rate, role)
    }

    /// Notes what came of the trial that was asked for. Without one asked for, nothing is noted.
    pub fn told(&mut self, trial: Trial) {
        let Some(Attempt { rate, role, .. }) = self.asked.take() else {
            return;
        };
        let verdict = trial.verdict(rate, &self.slo);
        let value = trial.value_ns;
        self.told.push(Told {
            rate,
            trial,
            verdict,
        });
        match role {
            Role::Search => self.searched(rate, verdict),
            Role::Confirm | Role::Above => self.confirmed(role, verdict, value),
        }
    }

    /// Ends the search early; what was found so far is the answer.
    #[must_use]
    pub fn stop(mut self, why: &str) -> Answer {
        self.notes.push(why.to_owned());
        self.answer()
    }

    fn ask(&mut self, rate: f64, role: Role) -> Step {
        let attempt = Attempt {
            rate,
            duration: self.duration(rate, role),
            role,
        };
        self.asked = Some(attempt);
        Step::Try(attempt)
    }

    /// Long enough for the percentile to have its samples.
    fn duration(&self, rate: f64, role: Role) -> Duration {
        let needed = SPARE_OPS * self.slo.least_ops() as f64 / rate;
        let needed = Duration::try_from_secs_f64(needed).unwrap_or(Duration::MAX);
        let once = needed.max(self.bounds.trial);
        match role {
            Role::Search => once,
            Role::Confirm | Role::Above => once.saturating_mul(CONFIRMATION_LENGTH),
        }
    }

    /// A search has time for a trial where a confirmation of its rate still fits after it.
    fn has_time_for(&self, rate: f64, left: Duration) -> bool {
        let confirmation = match self.low {
            None => Duration::ZERO,
            Some(_) => self
                .duration(rate, Role::Confirm)
                .saturating_mul(2 * CONFIRMATIONS),
        };
        self.duration(rate, Role::Search)
            .saturating_add(confirmation)
            <= left
    }

    /// A low rate shows what the target does without load, but no lower than fits a short trial.
    fn first(&self) -> f64 {
        let quick = SPARE_OPS * self.slo.least_ops() as f64 / self.bounds.trial.as_secs_f64();
        (self.start * FIRST).max(quick.min(self.start * SECOND))
    }

    /// The rate that the search tries next; `None` where it has come to its end.
    fn wanted(&self) -> Option<f64> {
        if let Some((rate, _)) = self.trying {
            return Some(rate);
        }
        let Bounds {
            lowest, highest, ..
        } = self.bounds;
        let bounded = |rate: f64| rate.max(lowest).min(highest.max(lowest));
        match (self.low, self.high) {
            (None, None) => Some(bounded(self.first())),
            (None, Some(high)) => (high > lowest).then(|| bounded(high / FALL)),
            (Some(low), None) => {
                let rise = if self.revisions > 0 { REVISION } else { RISE };
                let next = bounded((low * rise).max(self.start * SECOND));
                (next > low).then_some(next)
            }
            (Some(low), Some(high)) => (high / low > PRECISION).then(|| (low * high).sqrt()),
        }
    }

    /// A trial that holds decides at once; one that does not is repeated, and two of three decide.
    fn searched(&mut self, rate: f64, verdict: Verdict) {
        let mut tally = self
            .trying
            .take()
            .map_or(Tally::default(), |(_, tally)| tally);
        tally.count(verdict);
        if tally.held > tally.bad() {
            self.low = Some(rate);
        } else if tally.bad() >= 2 {
            self.high = Some(rate);
        } else {
            self.trying = Some((rate, tally));
        }
    }

    fn confirmed(&mut self, role: Role, verdict: Verdict, value: Option<f64>) {
        let Some(confirming) = &mut self.confirming else {
            return;
        };
        let rate = confirming.rate;
        if role == Role::Above {
            confirming.above.count(verdict);
        } else {
            confirming.at.count(verdict);
            confirming.values.extend(value);
        }
        let (at, above) = (confirming.at, confirming.above);
        if at.bad() >= 2 {
            // One step down, to be confirmed anew.
            let lower = rate / PRECISION;
            self.high = Some(rate);
            self.low = (lower >= self.bounds.lowest).then_some(lower);
            self.confirming = self.low.map(Confirming::of);
        } else if above.trials() >= CONFIRMATIONS && above.held > above.bad() {
            self.revise(rate * ABOVE);
        }
    }

    /// What was thought to fail has held in most trials, so the search goes on from there.
    fn revise(&mut self, held: f64) {
        if self.revisions >= MOST_REVISIONS || held >= self.bounds.highest {
            return;
        }
        self.revisions += 1;
        self.low = Some(held);
        self.high = self.high.filter(|high| *high > held * PRECISION);
        self.confirming = None;
    }

    fn note_short_of_time(&mut self) {
        let note = match (self.low, self.high) {
            (None, _) => "The time was over before a rate was found that holds.".to_owned(),
            (Some(low), Some(high)) => format!(
                "The search stopped early to have time to confirm: the next {:.0} % above are not explored.",
                (high / low - 1.0) * 100.0
            ),
            (Some(_), None) => {
                "The search stopped early to have time to confirm; higher rates were not tried again."
                    .to_owned()
            }
        };
        self.notes.push(note);
    }

    fn done(&self) -> Step {
        Step::Done(self.answer())
    }

    fn answer(&self) -> Answer {
        let confirming = self.confirming.as_ref();
        let rate = confirming.map(|confirming| confirming.rate).or(self.low);
        let curve = curve::points(&self.told);
        let mut answer = Answer {
            slo: self.slo,
            closed_loop: self.start,
            rate,
            value_ns: rate.and_then(|rate| self.value_at(rate)),
            confirmations: confirming
                .map(|confirming| confirming.at)
                .unwrap_or_default(),
            above: confirming
                .map(|confirming| confirming.above)
                .unwrap_or_default(),
            knee: curve::knee(&curve),
            limited_by: saturation::limited_by(&curve, rate.unwrap_or(0.0)),
            curve,
            notes: self.notes.clone(),
        };
        answer.notes.extend(remarks(&answer));
        answer
    }

    /// The middle one of the confirmations, or of all trials of the rate where there are none.
    fn value_at(&self, rate: f64) -> Option<f64> {
        let confirmed = self
            .confirming
            .as_ref()
            .map_or(&[][..], |confirming| &confirming.values);
        if !confirmed.is_empty() {
            return middle(confirmed);
        }
        let trials = self.told.iter().filter(|told| told.rate == rate);
        middle(
            &trials
                .filter_map(|told| told.trial.value_ns)
                .collect::<Vec<_>>(),
        )
    }
}

impl Confirming {
    fn of(rate: f64) -> Self {
        Self {
            rate,
            at: Tally::default(),
            above: Tally::default(),
            values: Vec::new(),
        }
    }

    /// The rate itself and a little more take turns; a bad trial of the rate is repeated at once.
    fn wanted(&self) -> Option<(f64, Role)> {
        let at_first = self.at.held <= self.above.trials();
        if self.at.held < CONFIRMATIONS && at_first {
            Some((self.rate, Role::Confirm))
        } else if self.above.trials() < CONFIRMATIONS {
            Some((self.rate * ABOVE, Role::Above))
        } else {
            None
        }
    }
}

impl Tally {
    pub(super) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Held => self.held += 1,
            Verdict::Failed => self.failed += 1,
            Verdict::Late => self.late += 1,
        }
    }
}

/// The lower middle one: percentiles are not averaged.
fn middle(values: &[f64]) -> Option<f64> {
    let sorted = quantile::sorted(values);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// What the reader of an answer must know about its trials.
fn remarks(answer: &Answer) -> Vec<String> {
    let mut remarks = Vec::new();
    if answer.above.trials() > 0 && !answer.is_distinct() {
        remarks.push(format!(
            "A load 5 % higher held in {} of {} trials: on this machine the two cannot be told apart.",
            answer.above.held,
            answer.above.trials()
        ));
    }
    let late: u32 = answer.curve.iter().map(|point| point.trials.late).sum();
    if late > 0 {
        let trials: u32 = answer.curve.iter().map(|point| point.trials.trials()).sum();
        remarks.push(format!(
            "In {late} of {trials} trials the limit was missed while the generator itself started operations late; these say nothing of the target."
        ));
    }
    remarks
}
