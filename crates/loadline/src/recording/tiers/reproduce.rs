//! The figures of a write-up about the tiers of a game server, and the same operations here: with the flaws that its
//! author suspected, and without them.

use loadline_measure::interval;
use loadline_measure::quantile::median;
use loadline_measure::record::{Bounds, Case, Claim, Flaw};
use loadline_measure::words;

use super::{MeasuredCases, rounds, time};
use crate::object::{Encoding, Format};
use crate::plan::{ArmOp, Flawed, TierGroup, TierOp};

const US: f64 = 1e3;
const MS: f64 = 1e6;

/// An arm of the stage: its step, its codec if that matters, and the objects of a call.
type Address = (ArmOp, Option<Encoding>, u32);

/// A figure of the write-up.
struct Figure {
    name: &'static str,
    theirs_ns: f64,
    flawed: Option<Address>,
    right: Option<Address>,
    /// Verdict on it.
    verdict: &'static str,
}

/// The server whose figures the write-up has: the place of its tier.
#[derive(Clone, Copy)]
struct OnServer(usize);

impl OnServer {
    fn right(self, op: TierOp, encoding: Encoding) -> Option<Address> {
        Some((ArmOp::Tier(self.0, op), Some(encoding), 1))
    }

    fn miss(self) -> Option<Address> {
        Some((ArmOp::Tier(self.0, TierOp::Miss), None, 1))
    }

    fn flawed(self, flawed: Flawed) -> Option<Address> {
        Some((ArmOp::Flawed(self.0, flawed), None, 1))
    }

    fn ten(self, op: TierOp, encoding: Encoding) -> Option<Address> {
        Some((ArmOp::Tier(self.0, op), Some(encoding), 10))
    }
}

fn figure(
    name: &'static str,
    theirs_ns: f64,
    flawed: Option<Address>,
    right: Option<Address>,
    verdict: &'static str,
) -> Figure {
    Figure {
        name,
        theirs_ns,
        flawed,
        right,
        verdict,
    }
}

/// Its figures without Redis.
fn in_process(on: OnServer) -> Vec<Figure> {
    let codec = |step, encoding| Some((step, Some(encoding), 1));
    let (tiles, columns) = (Encoding::ProtobufTiles, Encoding::Columns);
    vec![
        figure(
            "recompute",
            554.0 * US,
            None,
            Some((ArmOp::Recompute, None, 1)),
            "True cost: it is what every tier competes with.",
        ),
        figure(
            "LRU hit",
            573.0 * US,
            on.flawed(Flawed::GeneratingHit),
            Some((ArmOp::Hit, None, 1)),
            "Artefact: the floor was generated, inserted and copied inside the loop; a hit shares the object.",
        ),
        figure(
            "encode",
            740.0 * US,
            codec(ArmOp::Encode, tiles),
            codec(ArmOp::Encode, columns),
            "True cost of a message per tile, and an artefact of that choice.",
        ),
        figure(
            "decode",
            1.08 * MS,
            codec(ArmOp::Decode, tiles),
            codec(ArmOp::Decode, columns),
            "True cost of a message per tile. In the write-up, it alone took longer than recomputing.",
        ),
    ]
}

/// Its figures of Redis.
fn in_redis(on: OnServer) -> Vec<Figure> {
    let (tiles, columns) = (Encoding::ProtobufTiles, Encoding::Columns);
    let (get, set) = (TierOp::Get, TierOp::Set);
    vec![
        figure(
            "Redis GET, first bench (columns)",
            6.19 * MS,
            on.flawed(Flawed::RuntimeGet),
            on.right(get, columns),
            "Artefact: a runtime and a connection for each call; what remains is mostly the codec.",
        ),
        figure(
            "Redis GET, second bench (tiles)",
            4.65 * MS,
            on.flawed(Flawed::ConnectingGet),
            on.right(get, tiles),
            "Artefact as far as it exceeds the codec: a connection for each call.",
        ),
        figure(
            "Redis GET, miss",
            1.58 * MS,
            on.flawed(Flawed::RuntimeMiss),
            on.miss(),
            "Artefact: set-up alone. A miss is faster than a hit because it has no value to transfer and decode.",
        ),
        figure(
            "Redis SET",
            3.9 * MS,
            on.flawed(Flawed::GeneratingSet),
            on.right(set, columns),
            "Artefact: generation inside the loop and the codec; the write itself is short.",
        ),
        figure(
            "round trip",
            121.0 * MS,
            on.flawed(Flawed::RoundTrip),
            on.right(TierOp::RoundTrip, columns),
            "Artefact: all set-up together explains only the figure with the flaws; the rest of 121 ms is a wait that no part of the work needs.",
        ),
        figure(
            "SET of 10",
            10.9 * MS,
            on.ten(set, tiles),
            on.right(set, columns),
            "True cost of the codec, ten times, plus set-up once.",
        ),
        figure(
            "GET of 10",
            17.2 * MS,
            on.ten(get, tiles),
            on.right(get, columns),
            "True cost of the codec, ten times, plus set-up once.",
        ),
    ]
}

impl MeasuredCases<'_> {
    fn at(&self, (step, encoding, batch): Address) -> Option<&Case> {
        let format = encoding.map(Format::plain);
        let ran = self.arm(TierGroup::Reproduce, step, format, batch)?;
        Some(self.case_of(ran))
    }

    /// The claims of the write-up.
    pub(super) fn claims(&self, server: usize) -> Vec<Claim> {
        let on = OnServer(server);
        // Of ten, the right way is ten times the single one.
        let all = |address: Option<Address>, count: u32| {
            let rounds = rounds(self.at(address?)?);
            let rounds = rounds.into_iter().map(|ns| ns * f64::from(count));
            Some(rounds.collect::<Vec<f64>>())
        };
        let claims = in_process(on)
            .into_iter()
            .chain(in_redis(on))
            .map(|figure| {
                let count = figure.flawed.map_or(1, |address| address.2);
                let (flawed, right) = (all(figure.flawed, count), all(figure.right, count));
                let pairs = flawed.as_deref().zip(right.as_deref());
                Claim {
                    name: figure.name.into(),
                    theirs_ns: figure.theirs_ns,
                    flawed_ns: flawed.as_deref().and_then(median),
                    right_ns: right.as_deref().and_then(median),
                    sentence: match pairs {
                        Some((flawed, right)) => explained(figure.verdict, flawed, right),
                        None => figure.verdict.to_owned(),
                    },
                }
            });
        claims.collect()
    }

    /// The cost that each flaw adds to the operation without it.
    pub(super) fn flaws(&self, server: usize) -> Vec<Flaw> {
        let on = OnServer(server);
        let tiles = Encoding::ProtobufTiles;
        let get = TierOp::Get;
        let hit = Some((ArmOp::Hit, None, 1));
        let pairs: Vec<(&str, Option<Address>, Option<Address>)> = vec![
            (
                "a connection for each read",
                on.flawed(Flawed::ConnectingGet),
                on.right(get, tiles),
            ),
            (
                "a runtime and a connection for each read",
                on.flawed(Flawed::RuntimeGet),
                on.right(get, tiles),
            ),
            (
                "generation inside the write",
                on.flawed(Flawed::GeneratingSet),
                on.right(TierOp::Set, tiles),
            ),
            ("a deep copy on a hit", on.flawed(Flawed::CopyingHit), hit),
            (
                "generation, insertion and a deep copy on a hit",
                on.flawed(Flawed::GeneratingHit),
                hit,
            ),
            (
                "a message per tile instead of packed fields",
                on.right(get, tiles),
                on.right(get, Encoding::Protobuf),
            ),
            (
                "packed Protocol Buffers instead of columns",
                on.right(get, Encoding::Protobuf),
                on.right(get, Encoding::Columns),
            ),
            (
                "a hit compared with a miss: the value and its decoding",
                on.right(get, tiles),
                on.miss(),
            ),
        ];
        let found = pairs.into_iter().filter_map(|(name, flawed, right)| {
            let (flawed, right) = (self.at(flawed?)?, self.at(right?)?);
            let pairs = rounds(flawed).into_iter().zip(rounds(right));
            let adds: Vec<f64> = pairs.map(|(flawed, right)| flawed - right).collect();
            let interval = interval::of_median(&adds, interval::ALPHA);
            Some(Flaw {
                name: name.into(),
                flawed_ns: time(flawed),
                right_ns: time(right),
                adds_ns: median(&adds)?,
                adds_interval: interval.map(|found| Bounds {
                    lo: found.lo,
                    hi: found.hi,
                }),
            })
        });
        found.collect()
    }
}

/// The explanation `verdict` of a figure, if the time that the flaws add is more than noise: `flawed` and `right` are the
/// times of the rounds in nanoseconds, with the flaws and without.
fn explained(verdict: &str, flawed: &[f64], right: &[f64]) -> String {
    let adds: Vec<f64> = flawed
        .iter()
        .zip(right)
        .map(|(flawed, right)| flawed - right)
        .collect();
    match interval::of_median(&adds, interval::ALPHA) {
        Some(bounds) if bounds.lo > 0.0 => verdict.to_owned(),
        Some(bounds) if bounds.hi > 0.0 => format!(
            "Not explained here: the flaws add at most {}, and noise can make all of it.",
            words::duration(bounds.hi)
        ),
        Some(_) => "Not explained here: the flaws add nothing.".to_owned(),
        None => "Not explained here: too few rounds for an interval.".to_owned(),
    }
}

/// The finding from the batches of the write-up alone: `T(n) = a + b n`.
pub(crate) fn batches_of_the_write_up() -> Option<String> {
    use loadline_measure::tiers::call_and_each;
    let (set, set_each) = call_and_each(&[(1, 3.9 * MS), (10, 10.9 * MS)])?;
    let (get, get_each) = call_and_each(&[(1, 6.19 * MS), (10, 17.2 * MS)])?;
    Some(format!(
        "The write-up's own batches say where its time went: SET takes {} + n x {}, GET {} + n x {}. The part per object is the codec; the part per call is set-up inside the loop.",
        words::duration(set),
        words::duration(set_each),
        words::duration(get),
        words::duration(get_each),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection for each read that took from 7.51 ms less to 16 ms more was called an artefact.
    #[test]
    fn noise_explains_no_figure() {
        let right = [10e6; 12];
        let noisy: Vec<f64> = (0..12)
            .map(|round| if round % 2 == 0 { 2.49e6 } else { 26e6 })
            .collect();
        assert_eq!(
            explained("Artefact: a connection.", &noisy, &right),
            "Not explained here: the flaws add at most 16.0 ms, and noise can make all of it."
        );
        assert_eq!(
            explained("Artefact: a connection.", &[12e6; 12], &right),
            "Artefact: a connection."
        );
        assert_eq!(
            explained("Artefact: a connection.", &[9e6; 12], &right),
            "Not explained here: the flaws add nothing."
        );
        assert!(
            explained("Artefact: a connection.", &[12e6; 2], &right).contains("too few rounds")
        );
    }
}
