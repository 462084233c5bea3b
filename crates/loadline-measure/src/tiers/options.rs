//! The four options for a tier: drop the server, fix its codec, keep only expensive objects there, or use an embedded store.

use serde::{Deserialize, Serialize};

use super::{TierCost, TierVerdict};
use crate::compare::{self, Paired, Rules, Verdict};
use crate::record::Direction;
use crate::vocabulary::vocabulary;

vocabulary! {
    /// An option for a tier.
    pub enum TierChoice {
        /// Drops the server.
        Drop = "drop",
        /// Uses another codec.
        Fix = "fix",
        /// Keeps only objects in the server that take long to recompute.
        Selective = "selective",
        /// Uses an embedded store.
        Embedded = "embedded",
    }
}

/// One of the options for a tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierOption {
    /// The option.
    pub name: TierChoice,
    /// Whether to choose it.
    pub answer: TierVerdict,
    /// Of an embedded store beside a server: whether reads differ, by the rounds. Empty if they were not compared.
    pub evidence: String,
}

/// The tiers that the options are about, as indices of `costs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierSides {
    /// The first server, without added latency.
    pub server: Option<usize>,
    /// The same with a message per tile.
    pub tiles: Option<usize>,
    /// The same server with added latency.
    pub far: Vec<usize>,
    /// The embedded store with the fastest read, on average over hits and misses.
    pub embedded: Option<usize>,
}

impl TierSides {
    /// The tier at an index.
    #[must_use]
    pub fn cost(side: Option<usize>, costs: &[TierCost]) -> Option<&TierCost> {
        costs.get(side?)
    }

    /// Sets the embedded side to the fastest of `stores`, which are indices of `costs`.
    #[must_use]
    pub fn with_fastest(self, stores: impl Iterator<Item = usize>, costs: &[TierCost]) -> Self {
        let read = |place: &usize| {
            let cost = costs.get(*place);
            cost.and_then(|cost| cost.read_ns).unwrap_or(f64::INFINITY)
        };
        Self {
            embedded: stores.min_by(|one, other| read(one).total_cmp(&read(other))),
            ..self
        }
    }
}

/// The options that `sides` leave, each without evidence but with the comparison that it follows from. `reads` are the
/// times of reads of each tier in the same rounds, in the order of `costs`.
#[must_use]
pub fn options(
    costs: &[TierCost],
    sides: &TierSides,
    reads: &[Vec<f64>],
) -> Vec<(TierOption, Option<Paired>)> {
    let option = |name, answer| TierOption {
        name,
        answer,
        evidence: String::new(),
    };
    let mut options = Vec::new();
    let server = TierSides::cost(sides.server, costs);
    if let Some(server) = server {
        options.push((option(TierChoice::Drop, opposite(&server.pays)), None));
        if let Some(tiles) = TierSides::cost(sides.tiles, costs) {
            options.push((option(TierChoice::Fix, fix(tiles, server)), None));
        }
        options.push((option(TierChoice::Selective, opposite(&server.pays)), None));
    }
    if let Some(best) = TierSides::cost(sides.embedded, costs) {
        let rounds = |side: Option<usize>| reads.get(side?);
        let both = rounds(sides.server).zip(rounds(sides.embedded));
        let by = both.and_then(|(server, own)| {
            let (direction, rules) = (Direction::LessIsBetter, Rules::default());
            compare::paired(server, own, direction, &rules).ok()
        });
        let answer = match (server, &by) {
            (None, _) => best.pays.clone(),
            (Some(_), Some(by)) => embedded(by.verdict, &best.pays),
            (Some(_), None) => TierVerdict::Inconclusive,
        };
        options.push((option(TierChoice::Embedded, answer), by));
    }
    options
}

/// Whether the codec decides: a message per tile does not pay, and the fast codec does.
fn fix(tiles: &TierCost, server: &TierCost) -> TierVerdict {
    match (&tiles.pays, &server.pays) {
        (TierVerdict::No, TierVerdict::Yes) => TierVerdict::Yes,
        (TierVerdict::Yes, _) | (_, TierVerdict::No) => TierVerdict::No,
        _ => TierVerdict::Inconclusive,
    }
}

/// Whether to prefer an embedded store to a server, by the verdict on the times of its reads in the same rounds.
fn embedded(verdict: Verdict, pays: &TierVerdict) -> TierVerdict {
    match (verdict, pays) {
        (Verdict::Faster, TierVerdict::Yes) => TierVerdict::Yes,
        (Verdict::Slower | Verdict::Equivalent, _) | (_, TierVerdict::No) => TierVerdict::No,
        _ => TierVerdict::Inconclusive,
    }
}

fn opposite(answer: &TierVerdict) -> TierVerdict {
    match answer {
        TierVerdict::Yes => TierVerdict::No,
        TierVerdict::No => TierVerdict::Yes,
        other => other.clone(),
    }
}
