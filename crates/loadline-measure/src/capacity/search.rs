//! The search: selects the rate and the duration of the next trial.

use std::time::Duration;

use super::calm::Parts;
use super::curve::{self, Told};
use super::nodes::{Bracket, Nodes, Status};
use super::noise::Noise;
use super::trial::{Disturbance, Trial, Verdict};
use super::{Bound, Capacity, Closed, Outcome, Tally, saturation};
use crate::limit::Slo;
use crate::quantile;

/// The first rates, as shares of the closed loop's throughput; they give the curve its beginning.
const FIRST: [f64; 2] = [0.25, 0.5];
/// The starting share of the search if the closed loop keeps the limit, and if it does not.
const KEEPS: f64 = 0.9;
const MISSES: f64 = 0.7;
/// The number of steps of the first move up or down; it doubles with each move.
const FIRST_LEAP: i32 = 3;
/// The surplus over the operations that a percentile needs, because arrivals are random.
const SPARE_OPS: f64 = 1.1;
/// The number of trials after which an undecided search ends.
const MOST_TRIALS: usize = 400;
/// The number of trials after which a closed loop checks whether the machine is still as fast as before.
const CHECKED_EVERY: usize = 8;
/// The closed loops per check; a single one can be disturbed, so the best counts.
const CLOSED_LOOPS: usize = 3;
/// The largest factor by which their throughput can differ.
const DRIFT: f64 = 1.2;
/// The largest share of trials that contradict the answer: failed below it, or held above it.
const CONTRADICTING: f64 = 0.2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The lowest rate, in operations per second.
    pub lowest: f64,
    /// The highest rate, in operations per second.
    pub highest: f64,
    /// The shortest duration of a trial. It is longer if the percentile needs more operations.
    pub trial: Duration,
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To find the rate.
    Search,
    /// To confirm it.
    Confirm,
    /// To show that the next higher rate fails.
    Above,
    /// A closed loop that checks whether the machine is still as fast as before. It has no rate.
    Closed,
}

/// A trial to run, in an open loop unless its role says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Operations to start per second.
    pub rate: f64,
    /// The duration.
    pub duration: Duration,
    /// The purpose.
    pub role: Role,
    node: i32,
}

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a search returns a single answer"
)]
pub enum NextTrial {
    /// Run this trial and pass its result to [`Search::told`].
    Try(Attempt),
    /// The search has ended.
    Done(Capacity),
}

/// A search for the highest rate that keeps a limit.
#[derive(Debug, Clone)]
pub struct Search {
    slo: Slo,
    closed: Closed,
    /// The throughput that closed loops are compared with: the first one's, or a higher later one.
    reference: f64,
    /// The slowest and the fastest check that was accepted, in operations per second.
    speeds: (f64, f64),
    /// Throughputs of the closed loops in the current check.
    checking: Vec<f64>,
    /// The throughput at the last check.
    checked: Option<f64>,
    /// The number of trials before the last check that found the machine unchanged.
    settled: usize,
    /// The number of trials before the last check.
    seen: usize,
    bounds: Bounds,
    nodes: Nodes,
    parts: Parts,
    told: Vec<Told>,
    asked: Option<Attempt>,
}

/// The next step of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Trial(i32, Role),
    /// The search ends.
    End(Outcome),
}

impl Default for Bounds {
    /// From one operation per second to a billion, in trials of 300 ms.
    fn default() -> Self {
        Self {
            lowest: 1.0,
            highest: 1e9,
            trial: Duration::from_millis(300),
        }
    }
}

impl Search {
    /// Creates a search for the highest rate that keeps `slo`, starting near the capacity of a closed loop.
    #[must_use]
    pub fn new(slo: Slo, closed: impl Into<Closed>, bounds: Bounds) -> Self {
        let closed = closed.into();
        Self {
            slo,
            closed,
            reference: closed.rate,
            speeds: (closed.rate, closed.rate),
            checking: Vec::new(),
            checked: None,
            settled: 0,
            seen: 0,
            bounds,
            nodes: Nodes::new(closed.rate, bounds.lowest, bounds.highest),
            parts: Parts::default(),
            told: Vec::new(),
            asked: None,
        }
    }

    /// The next step, given the remaining time.
    pub fn next(&mut self, left: Duration) -> NextTrial {
        if let Some(attempt) = self.asked {
            return NextTrial::Try(attempt);
        }
        if self.told.len() >= MOST_TRIALS {
            return NextTrial::Done(self.answer(Outcome::OutOfTime));
        }
        let (node, role) = match self.wanted() {
            _ if self.is_checking() => (0, Role::Closed),
            Wanted::Trial(node, role) => (node, role),
            Wanted::End(outcome) => {
                let is_short = self.duration(self.closed.rate) > left;
                if !outcome.is_decided() || self.settled == self.told.len() || is_short {
                    return NextTrial::Done(self.answer(outcome));
                }
                (0, Role::Closed)
            }
        };
        let attempt = Attempt {
            rate: self.nodes.rate(node),
            duration: self.duration(self.nodes.rate(node)),
            role,
            node,
        };
        if attempt.duration > left {
            return NextTrial::Done(self.answer(Outcome::OutOfTime));
        }
        self.asked = Some(attempt);
        NextTrial::Try(attempt)
    }

    /// Records the result of the current trial. Ignored if no trial is running.
    pub fn told(&mut self, mut trial: Trial) {
        let Some(attempt) = self.asked.take() else {
            return;
        };
        if attempt.role == Role::Closed {
            self.checking.push(trial.achieved);
            self.check();
            return;
        }
        let verdict = trial.verdict(attempt.rate, &self.slo);
        self.nodes.tally_mut(attempt.node).count(verdict);
        if matches!(verdict, Verdict::Spoiled(_)) {
            let operations = attempt.rate * attempt.duration.as_secs_f64();
            let (node, rate) = (attempt.node, attempt.rate);
            self.parts.add(node, rate, &trial, &self.slo, operations);
        }
        trial.calm = None;
        self.told.push(Told {
            rate: attempt.rate,
            node: attempt.node,
            trial,
            verdict,
        });
    }

    /// Ends the search early, without an answer.
    #[must_use]
    pub fn stop(self) -> Capacity {
        self.answer(Outcome::Stopped)
    }

    /// The duration that gives the percentile enough samples.
    fn duration(&self, rate: f64) -> Duration {
        let needed = SPARE_OPS * self.slo.least_ops() as f64 / rate;
        let needed = Duration::try_from_secs_f64(needed).unwrap_or(Duration::MAX);
        needed.max(self.bounds.trial)
    }

    fn wanted(&self) -> Wanted {
        let search = |node| Wanted::Trial(node, Role::Search);
        if let Some(first) = self.first() {
            return search(first);
        }
        let bracket = self.nodes.bracket();
        if let Some(open) = self.nodes.open_between(bracket.low, bracket.high) {
            return search(open);
        }
        match bracket {
            Bracket {
                low: None,
                high: None,
            } => search(self.begin()),
            Bracket {
                low: None,
                high: Some(high),
            } => self.fall(high),
            Bracket {
                low: Some(low),
                high: None,
            } => self.rise(low),
            Bracket {
                low: Some(low),
                high: Some(high),
            } => match self.nodes.untried_between(low, high) {
                Some(middle) => search(middle),
                None => self.confirm(low, high),
            },
        }
    }

    /// An untried rate at the beginning of the curve, if it takes no longer than other trials.
    fn first(&self) -> Option<i32> {
        let firsts = FIRST.map(|share| self.nodes.near(share));
        firsts.into_iter().find(|node| {
            let is_quick = self.duration(self.nodes.rate(*node)) <= 2 * self.bounds.trial;
            is_quick && self.nodes.tally(*node).trials() == 0
        })
    }

    /// The starting rate, from the closed loop.
    fn begin(&self) -> i32 {
        let keeps = self
            .closed
            .value_ns
            .is_none_or(|value| value < self.slo.limit_ns);
        self.nodes.near(if keeps { KEEPS } else { MISSES })
    }

    fn fall(&self, high: i32) -> Wanted {
        let lowest = self.nodes.lowest;
        if high > lowest {
            let fallen = (high - self.leap(high)).max(lowest);
            let node = self.shorter(high, fallen).unwrap_or(fallen);
            return Wanted::Trial(node, Role::Search);
        }
        match self.nodes.decided(lowest) {
            Some(false) => Wanted::End(Outcome::NeverHeld),
            _ => Wanted::Trial(lowest, Role::Above),
        }
    }

    /// The rate to try again in place of the lower rate `fallen`, if everything down to `high` was spoiled and trials
    /// at `fallen` are longer. A long trial is spoiled more often, so the shortest ones get two thirds of the time.
    fn shorter(&self, high: i32, fallen: i32) -> Option<i32> {
        let time = |node: i32| self.duration(self.nodes.rate(node));
        let spent = |node: i32| time(node) * self.nodes.tally(node).trials();
        let undecided = self.nodes.undecided();
        let shortest = *undecided.iter().min_by_key(|node| time(**node))?;
        if self.nodes.status(high) != Status::Blocked || time(fallen) <= time(shortest) {
            return None;
        }
        let longer = undecided
            .iter()
            .filter(|node| time(**node) > time(shortest));
        let spent_below: Duration = longer.map(|node| spent(*node)).sum();
        (2 * (spent_below + time(fallen)) > spent(shortest)).then_some(shortest)
    }

    fn rise(&self, low: i32) -> Wanted {
        let highest = self.nodes.highest;
        if low < highest {
            let begin = self.begin();
            let risen = if low < begin {
                begin
            } else {
                low + self.leap(low)
            };
            return Wanted::Trial(risen.min(highest), Role::Search);
        }
        match self.nodes.decided(highest) {
            Some(true) => Wanted::End(Outcome::Confirmed),
            _ => Wanted::Trial(highest, Role::Confirm),
        }
    }

    /// The node twice as far from the start as `node`.
    fn leap(&self, node: i32) -> i32 {
        (node - self.begin()).abs().max(FIRST_LEAP)
    }

    /// Confirms that `low` holds and `high` fails, alternating between the two so that both results cover the
    /// same time.
    fn confirm(&self, low: i32, high: i32) -> Wanted {
        let beyond = || self.nodes.beyond(high, |node| self.leap(node));
        let lead = |node| self.nodes.tally(node).lead().abs();
        match (self.nodes.decided(low), self.nodes.decided(high)) {
            // One undecided rate can remain between them.
            (Some(true), Some(false)) if high - low > 2 || self.is_contradicted(low, high) => {
                Wanted::End(Outcome::Noisy)
            }
            (Some(true), Some(false)) => Wanted::End(Outcome::Confirmed),
            (Some(true), _) if self.nodes.status(high) == Status::Blocked => {
                Wanted::Trial(beyond().unwrap_or(high), Role::Above)
            }
            (Some(true), _) => Wanted::Trial(high, Role::Above),
            (_, Some(false)) => Wanted::Trial(low, Role::Confirm),
            _ if self.nodes.status(high) == Status::Blocked => Wanted::Trial(low, Role::Confirm),
            _ if lead(high) < lead(low) => Wanted::Trial(high, Role::Above),
            _ => Wanted::Trial(low, Role::Confirm),
        }
    }

    /// Whether a closed loop is due or must be repeated.
    fn is_checking(&self) -> bool {
        !self.checking.is_empty() || self.told.len() >= self.seen + CHECKED_EVERY
    }

    /// Evaluates the closed loops of a check. If the machine is slower now, or was at the previous check,
    /// failed trials since it was last at full speed are spoiled; if it is faster, all failed trials are.
    fn check(&mut self) {
        let best = self.checking.iter().copied().fold(0.0, f64::max);
        let is_slower = best * DRIFT < self.reference;
        if is_slower && self.checking.len() < CLOSED_LOOPS {
            return;
        }
        self.checking.clear();
        self.checked = Some(best);
        let is_faster = best > self.reference * DRIFT;
        if is_faster {
            self.reference = best;
            self.speeds = (best, best);
        } else if !is_slower {
            self.speeds = (self.speeds.0.min(best), self.speeds.1.max(best));
        }
        let was_slower = self.settled < self.seen;
        self.seen = self.told.len();
        let doubtful = match (is_slower || was_slower, is_faster) {
            (_, true) => 0..,
            (true, _) => self.settled..,
            (false, false) => self.told.len()..,
        };
        for told in &mut self.told[doubtful] {
            if told.verdict == Verdict::Failed {
                told.verdict = Verdict::Spoiled(Disturbance::Drift);
                self.nodes.tally_mut(told.node).spoil();
            }
        }
        if !is_slower {
            self.settled = self.told.len();
        }
    }

    /// Whether more trials below `low` failed, or more trials above `high` held, than chance explains.
    fn is_contradicted(&self, low: i32, high: i32) -> bool {
        let below = self.nodes.sum(i32::MIN..low);
        let above = self.nodes.sum(high + 1..i32::MAX);
        let contradicting = f64::from(below.failed + above.held);
        contradicting > CONTRADICTING * f64::from(below.counted() + above.counted())
    }

    fn answer(&self, outcome: Outcome) -> Capacity {
        let curve = curve::points(&self.told);
        let Bracket { low, high } = self.nodes.bracket();
        let rate_of = |node: Option<i32>| node.map(|node| self.nodes.rate(node));
        let tally_of =
            |node: Option<i32>| node.map_or_else(Tally::default, |node| self.nodes.tally(node));
        let noise = Noise::of(&self.told);
        // If most trials were spoiled, time was not the problem.
        let has_drifted = self.checked.is_some() && self.settled < self.seen;
        let outcome = match outcome {
            Outcome::Confirmed | Outcome::NeverHeld | Outcome::OutOfTime if has_drifted => {
                Outcome::Drifted
            }
            Outcome::OutOfTime if noise.is_most() => Outcome::Noisy,
            outcome => outcome,
        };
        let rate = rate_of(low).filter(|_| outcome == Outcome::Confirmed);
        let (lower, upper) = self.nodes.proven();
        let (low, high) = match rate {
            Some(_) => (low, high),
            None => (lower, upper),
        };
        let bound = |node: Option<i32>| node.map(|node| self.nodes.bound(node));
        let lower = bound(low).or_else(|| self.calm_bound(upper));
        let limited_by = saturation::limited_by(&curve, rate_of(low).unwrap_or(0.0), outcome);
        Capacity {
            slo: self.slo,
            closed_loop: self.closed.rate,
            closed_loop_value_ns: self.closed.value_ns,
            closed_loop_best: Some(self.speeds.1),
            speed_spread: (self.speeds.1 / self.speeds.0).max(1.0),
            closed_loop_after: self.checked,
            outcome,
            rate,
            value_ns: rate.and_then(|rate| self.value_at(rate)),
            lower,
            upper: bound(high),
            confirmations: tally_of(low),
            above: tally_of(high),
            knee: curve::knee(&curve),
            limited_by,
            limited_because: String::new(),
            noise,
            curve,
            agents: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The lower bound, below `upper`, that the undisturbed parts of spoiled trials show.
    fn calm_bound(&self, upper: Option<i32>) -> Option<Bound> {
        let (node, calm) = self.parts.highest(upper)?;
        Some(Bound {
            calm,
            ..self.nodes.bound(node)
        })
    }

    /// The median of the trials that held.
    fn value_at(&self, rate: f64) -> Option<f64> {
        let trials = self.told.iter();
        let held = trials.filter(|told| told.rate == rate && told.verdict == Verdict::Held);
        let values: Vec<f64> = held.filter_map(|told| told.trial.value_ns).collect();
        // The lower median: percentiles are not averaged.
        let sorted = quantile::sorted(&values);
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }
}
