//! The rates of a search: a grid of equal steps, and the trials at each.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Bound, Tally};

/// The step between two rates. Two steps, with one undecided rate between them, are still less than 10 %.
const STEP: f64 = 1.045;
/// The lead in trials that decides a rate. If the rate is off by 10 %, at least four of five trials agree,
/// and the wrong decision is made in one of a thousand searches.
pub(super) const LEAD: i64 = 5;
/// The number of trials without a decision at which a rate counts as mixed: it holds about as often as not.
const MOST_UNDECIDED: u32 = 15;
/// The highest rate that is tried for an upper bound alone, as a multiple of the closed loop's. It is that much, because a
/// disturbed machine can be several times faster later.
const MOST_LOAD: f64 = 8.0;
/// The search leaves a rate once this many trials were spoiled for each one that counts, plus one.
const MOST_SPOILED: u32 = 8;

/// The state of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It holds.
    Good,
    /// It fails.
    Bad,
    /// More trials are needed.
    Open,
    /// It holds about as often as not.
    Mixed,
    /// Nearly all of its trials were spoiled.
    Blocked,
}

/// The rates around a start.
#[derive(Debug, Clone)]
pub(super) struct Nodes {
    start: f64,
    /// The index of the lowest and of the highest rate.
    pub(super) lowest: i32,
    pub(super) highest: i32,
    tallies: BTreeMap<i32, Tally>,
}

/// The bounds of the answer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bracket {
    /// The highest rate that holds, below which every rate holds.
    pub(super) low: Option<i32>,
    /// The lowest rate that fails or cannot be decided.
    pub(super) high: Option<i32>,
}

impl Nodes {
    /// Creates the rates from `lowest` to `highest`, in steps from `start`.
    pub(super) fn new(start: f64, lowest: f64, highest: f64) -> Self {
        let number = |rate: f64| (rate.max(1e-9) / start.max(1e-9)).ln() / STEP.ln();
        // Rounding must not exclude a rate that was computed from its own index.
        let lowest = (number(lowest) - 1e-6).ceil() as i32;
        let highest = ((number(highest) + 1e-6).floor() as i32).max(lowest);
        Self {
            start,
            lowest,
            highest,
            tallies: BTreeMap::new(),
        }
    }

    /// The rate of an index.
    pub(super) fn rate(&self, node: i32) -> f64 {
        self.start * STEP.powi(node)
    }

    /// The index nearest to `share` of the start.
    pub(super) fn near(&self, share: f64) -> i32 {
        let node = (share.ln() / STEP.ln()).round() as i32;
        node.clamp(self.lowest, self.highest)
    }

    pub(super) fn tally(&self, node: i32) -> Tally {
        self.tallies.get(&node).copied().unwrap_or_default()
    }

    pub(super) fn tally_mut(&mut self, node: i32) -> &mut Tally {
        self.tallies.entry(node).or_default()
    }

    /// The sum of all trials of `nodes`.
    pub(super) fn sum(&self, nodes: Range<i32>) -> Tally {
        let tallies = self.tallies.range(nodes).map(|(_, tally)| *tally);
        tallies.fold(Tally::default(), |sum, tally| Tally {
            held: sum.held + tally.held,
            failed: sum.failed + tally.failed,
            spoiled: sum.spoiled + tally.spoiled,
        })
    }

    pub(super) fn status(&self, node: i32) -> Status {
        let tally = self.tally(node);
        let lead = tally.lead();
        if tally.counted() >= MOST_UNDECIDED && lead.abs() < LEAD {
            Status::Mixed
        } else if lead > 0 {
            Status::Good
        } else if lead <= -2 {
            Status::Bad
        } else if tally.spoiled >= MOST_SPOILED * (1 + tally.counted()) {
            Status::Blocked
        } else {
            Status::Open
        }
    }

    /// The decision of its trials: `true` if it holds.
    pub(super) fn decided(&self, node: i32) -> Option<bool> {
        let lead = self.tally(node).lead();
        (lead.abs() >= LEAD).then_some(lead > 0)
    }

    pub(super) fn bracket(&self) -> Bracket {
        let of = |wanted: &[Status], below: i32| {
            let nodes = self.tallies.keys().copied();
            nodes
                .filter(|node| *node < below && wanted.contains(&self.status(*node)))
                .collect::<Vec<i32>>()
        };
        let first_bad = of(&[Status::Bad], i32::MAX).first().copied();
        let low = of(&[Status::Good], first_bad.unwrap_or(i32::MAX))
            .last()
            .copied();
        let above = |node: &i32| low.is_none_or(|low| *node > low);
        let blocked = of(&[Status::Blocked], first_bad.unwrap_or(i32::MAX));
        let high = blocked.into_iter().find(above).or(first_bad);
        Bracket { low, high }
    }

    /// The tried rates below the lowest one that fails whose trials decided nothing, in ascending order.
    pub(super) fn undecided(&self) -> Vec<i32> {
        let nodes = self.tallies.keys().copied();
        nodes
            .take_while(|node| self.status(*node) != Status::Bad)
            .filter(|node| matches!(self.status(*node), Status::Blocked | Status::Open))
            .collect()
    }

    /// The bounds that the trials prove, the lower one first. A trial that held at a rate speaks for all lower
    /// rates too, and a failed one against all higher rates. A lower bound has a lead of [`LEAD`] such trials
    /// or, if no rate has, the largest lead. If no rate has one at all, it is the lowest rate at which a trial held, because
    /// a disturbance lets no trial hold. An upper bound always has a lead of [`LEAD`].
    pub(super) fn proven(&self) -> (Option<i32>, Option<i32>) {
        let lead = |node: i32| {
            let bound = self.bound(node);
            i64::from(bound.held) - i64::from(bound.failed)
        };
        let of = |wanted: fn(&Tally) -> u32| {
            let nodes = self.tallies.iter();
            nodes.filter_map(move |(node, tally)| (wanted(tally) > 0).then_some(*node))
        };
        let holding: Vec<i32> = of(|tally| tally.held).collect();
        let most = holding.iter().map(|node| lead(*node)).max();
        let least = most.unwrap_or(0).clamp(1, LEAD);
        let lowest = holding.first().copied();
        let led = holding.into_iter().rfind(|node| lead(*node) >= least);
        let lower = led.or(lowest);
        let upper = of(|tally| tally.failed).find(|node| lead(*node) <= -LEAD);
        (lower, upper)
    }

    /// A rate as a bound, with the trials at all rates that speak for and against it.
    pub(super) fn bound(&self, node: i32) -> Bound {
        Bound {
            rate: self.rate(node),
            held: self.sum(node..i32::MAX).held,
            failed: self.sum(i32::MIN..node + 1).failed,
            calm: 0,
        }
    }

    /// The next rate to try for an upper bound if trials at `high` remain undecided: above `high`, the load is
    /// so much too high that no disturbance explains the result. `None` if there is nothing left to try.
    pub(super) fn beyond(&self, high: i32, leap: impl Fn(i32) -> i32) -> Option<i32> {
        let tried = || self.tallies.keys().copied().filter(|node| *node >= high);
        let open = tried().find(|node| self.status(*node) == Status::Open);
        let top = tried().next_back().unwrap_or(high);
        let Some(bad) = tried().find(|node| self.status(*node) == Status::Bad) else {
            let risen = (top + leap(top)).min(self.near(MOST_LOAD));
            return open.or((risen > top).then_some(risen));
        };
        let open = open.filter(|node| *node < bad);
        let below = tried().rfind(|node| *node < bad).unwrap_or(high);
        let next = open.or_else(|| self.untried_between(below, bad));
        next.or_else(|| self.proven().1.is_none().then_some(bad))
    }

    /// A rate strictly between `low` and `high` that needs more trials.
    pub(super) fn open_between(&self, low: Option<i32>, high: Option<i32>) -> Option<i32> {
        let inside =
            |node: &i32| low.is_none_or(|low| *node > low) && high.is_none_or(|high| *node < high);
        let mut nodes = self.tallies.keys().copied().filter(inside);
        nodes.find(|node| self.status(*node) == Status::Open)
    }

    /// The rate without trials that is nearest to the middle of `low` and `high`.
    pub(super) fn untried_between(&self, low: i32, high: i32) -> Option<i32> {
        let untried = (low + 1..high).filter(|node| self.tally(*node).trials() == 0);
        untried.min_by_key(|node| (2 * node - low - high).abs())
    }
}
