//! The figures of a write-up about the tiers of a game server, and the same operations here: with the flaws that its
//! author suspected, and without them.

use loadline_measure::interval;
use loadline_measure::quantile::median;
use loadline_measure::record::{Bounds, Case, Claim, Flaw};
use loadline_measure::words;

use super::{Found, rounds, time};
use crate::object::Encoding;
use crate::plan::{Flawed, TierOp};

const STAGE: &str = "reproduce";
const US: f64 = 1e3;
const MS: f64 = 1e6;

/// Where a case of the stage is found: subject, operation, codec and batch. `None` as subject is the first server.
type Address = (Option<&'static str>, &'static str, Option<Encoding>, u64);

/// A figure of the write-up.
struct Figure {
    name: &'static str,
    theirs_ns: f64,
    flawed: Option<Address>,
    right: Option<Address>,
    /// What it turns out to be.
    verdict: &'static str,
}

fn on_server(operation: &'static str, encoding: Encoding) -> Option<Address> {
    Some((None, operation, Some(encoding), 1))
}

fn flawed(flawed: Flawed) -> Option<Address> {
    Some((None, flawed.name(), None, 1))
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
fn in_process() -> Vec<Figure> {
    let codec = |operation, encoding| Some((Some("codec"), operation, Some(encoding), 1));
    let (tiles, columns) = (Encoding::ProtobufTiles, Encoding::Columns);
    vec![
        figure(
            "recompute",
            554.0 * US,
            None,
            Some((Some("recompute"), "recompute", None, 1)),
            "True cost: it is what every tier competes with.",
        ),
        figure(
            "LRU hit",
            573.0 * US,
            flawed(Flawed::GeneratingHit),
            Some((Some("memory"), "hit", None, 1)),
            "Artefact: the floor was generated, inserted and copied inside the loop; a hit shares the object.",
        ),
        figure(
            "encode",
            740.0 * US,
            codec("encode", tiles),
            codec("encode", columns),
            "True cost of a message per tile, and an artefact of that choice.",
        ),
        figure(
            "decode",
            1.08 * MS,
            codec("decode", tiles),
            codec("decode", columns),
            "True cost of a message per tile. In the write-up, it alone took longer than recomputing.",
        ),
    ]
}

/// Its figures of Redis.
fn in_redis() -> Vec<Figure> {
    let (tiles, columns) = (Encoding::ProtobufTiles, Encoding::Columns);
    let (get, set) = (TierOp::Get.name(), TierOp::Set.name());
    vec![
        figure(
            "Redis GET, first bench (columns)",
            6.19 * MS,
            flawed(Flawed::RuntimeGet),
            on_server(get, columns),
            "Artefact: a runtime and a connection for each call; what remains is mostly the codec.",
        ),
        figure(
            "Redis GET, second bench (tiles)",
            4.65 * MS,
            flawed(Flawed::ConnectingGet),
            on_server(get, tiles),
            "Artefact as far as it exceeds the codec: a connection for each call.",
        ),
        figure(
            "Redis GET, miss",
            1.58 * MS,
            flawed(Flawed::RuntimeMiss),
            Some((None, TierOp::Miss.name(), None, 1)),
            "Artefact: set-up alone. A miss is faster than a hit because it has no value to transfer and decode.",
        ),
        figure(
            "Redis SET",
            3.9 * MS,
            flawed(Flawed::GeneratingSet),
            on_server(set, columns),
            "Artefact: generation inside the loop and the codec; the write itself is short.",
        ),
        figure(
            "round trip",
            121.0 * MS,
            flawed(Flawed::RoundTrip),
            on_server(TierOp::RoundTrip.name(), columns),
            "Artefact: all set-up together explains only the figure with the flaws; the rest of 121 ms is a wait that no part of the work needs.",
        ),
        figure(
            "SET of 10",
            10.9 * MS,
            Some((None, set, Some(tiles), 10)),
            on_server(set, columns),
            "True cost of the codec, ten times, plus set-up once.",
        ),
        figure(
            "GET of 10",
            17.2 * MS,
            Some((None, get, Some(tiles), 10)),
            on_server(get, columns),
            "True cost of the codec, ten times, plus set-up once.",
        ),
    ]
}

impl Found<'_> {
    fn at(&self, address: Address) -> Option<&Case> {
        let (subject, operation, encoding, batch) = address;
        let subject = match subject {
            Some(subject) => subject,
            None => self.server()?,
        };
        let codec = encoding.map(Encoding::name);
        self.case(STAGE, subject, operation, codec, batch)
    }

    /// The claims of the write-up.
    pub(super) fn claims(&self) -> Vec<Claim> {
        // Of ten, the right way is ten times the single one.
        let all = |address: Option<Address>, count: u64| {
            let rounds = rounds(self.at(address?)?);
            let rounds = rounds.into_iter().map(|ns| ns * count as f64);
            Some(rounds.collect::<Vec<f64>>())
        };
        let claims = in_process().into_iter().chain(in_redis()).map(|figure| {
            let count = figure.flawed.map_or(1, |address| address.3);
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

    /// What each flaw adds to the operation without it.
    pub(super) fn flaws(&self) -> Vec<Flaw> {
        let tiles = Encoding::ProtobufTiles;
        let get = TierOp::Get.name();
        let hit = Some((Some("memory"), "hit", None, 1));
        let pairs: Vec<(&str, Option<Address>, Option<Address>)> = vec![
            (
                "a connection for each read",
                flawed(Flawed::ConnectingGet),
                on_server(get, tiles),
            ),
            (
                "a runtime and a connection for each read",
                flawed(Flawed::RuntimeGet),
                on_server(get, tiles),
            ),
            (
                "generation inside the write",
                flawed(Flawed::GeneratingSet),
                on_server(TierOp::Set.name(), tiles),
            ),
            ("a deep copy on a hit", flawed(Flawed::CopyingHit), hit),
            (
                "generation, insertion and a deep copy on a hit",
                flawed(Flawed::GeneratingHit),
                hit,
            ),
            (
                "a message per tile instead of packed fields",
                on_server(get, tiles),
                on_server(get, Encoding::Protobuf),
            ),
            (
                "packed Protocol Buffers instead of columns",
                on_server(get, Encoding::Protobuf),
                on_server(get, Encoding::Columns),
            ),
            (
                "a hit compared with a miss: the value and its decoding",
                on_server(get, tiles),
                Some((None, TierOp::Miss.name(), None, 1)),
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

/// What the batches of the write-up say by themselves, as a finding: `T(n) = a + b n`.
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
