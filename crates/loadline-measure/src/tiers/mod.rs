//! The tiers of a cache for one object: what each costs, where its time goes, and whether it pays.
//!
//! The command computes what a tier costs in each round, by the costs of `loadline-cache`; what follows is judged here.

mod former;
mod load;
mod options;

use serde::{Deserialize, Serialize};

use crate::interval;
use crate::miss_ratio::MissRatioCurve;
use crate::quantile::median;
use crate::record::{Bounds, CaseId};
use crate::vocabulary::vocabulary;

pub use load::{LoadAnswer, LoadPhase, LoadSubject, LoadWindow, Phase, TierLoad};
pub use options::{TierChoice, TierOption, TierSides, options};

/// The share of the whole that the parts of an operation may leave.
const MOST_RESIDUAL: f64 = 0.05;

vocabulary! {
    /// Whether a tier pays, or an option is to be chosen.
    pub enum TierVerdict {
        /// It does, in all of the interval.
        Yes = "yes",
        /// It does not, in all of the interval.
        No = "no",
        /// The interval contains both, or there are too few rounds.
        Inconclusive = "inconclusive",
    }
}

/// The results for one object in addition to the cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiers {
    /// The object.
    pub object: TieredObject,
    /// The hit ratio that the answers assume.
    pub hit_ratio: f64,
    /// The cases that are no tier's own.
    pub cases: TierCases,
    /// Cost of each tier, and whether it pays.
    pub costs: Vec<TierCost>,
    /// Where the time of each tier goes.
    pub waterfalls: Vec<Waterfall>,
    /// The tiers that the options are about.
    pub sides: TierSides,
    /// The four options: drop, fix, selective, embedded.
    pub options: Vec<TierOption>,
    /// Time per object in batches, by their size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<BatchCost>,
    /// Hit ratio by memory in a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<MissRatioCurve>,
    /// Caches under load, with `--key-dist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<TierLoad>,
    /// Cost that each flaw of a benchmark adds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<Flaw>,
    /// The figures of a write-up and those of this run, with `--reproduce`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// The object that the tiers keep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TieredObject {
    /// Its name, such as `floor 100x100`.
    pub name: String,
    /// Its size in memory.
    pub memory_bytes: u64,
    /// Time to recompute it.
    pub recompute_ns: f64,
    /// Whether that time was given and not measured.
    pub is_recompute_given: bool,
    /// The codec of the tiers; some are measured with others as well.
    pub codec: String,
}

/// The cases that are no tier's own: operations in this process, codecs and the set-up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierCases {
    /// Recomputing the object; `None` if its time was given.
    pub recompute: Option<CaseId>,
    /// A hit in memory.
    pub hit: Option<CaseId>,
    /// A copy of an object in memory.
    pub deep_copy: Option<CaseId>,
    /// A read through a cache without room in memory.
    pub cached: Option<CaseId>,
    /// The codecs alone.
    pub codecs: Vec<CodecCases>,
    /// Operations that precede the first one on a tier, and the round trip of an object.
    pub set_up: Vec<CaseId>,
}

/// The cases of a codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodecCases {
    /// Encoding.
    pub encode: CaseId,
    /// Decoding.
    pub decode: Option<CaseId>,
}

/// The cost of a tier. Times are means per object: the median over the rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierCost {
    /// The tier, as in `cases[].subject.name`.
    pub subject: String,
    /// The case of its hits.
    pub get: Option<CaseId>,
    /// The codec of its values.
    pub codec: Option<String>,
    /// Added round-trip time.
    pub latency_ns: u64,
    /// A hit with decoding.
    pub get_ns: f64,
    /// Its fastest.
    pub get_ns_min: Option<u64>,
    /// Its median.
    pub get_ns_p50: Option<u64>,
    /// Its 99th percentile.
    pub get_ns_p99: Option<u64>,
    /// A read that finds nothing.
    pub miss_ns: Option<f64>,
    /// Encoding and writing.
    pub set_ns: Option<f64>,
    /// The hit ratio above which it pays; `None` if it does at none.
    pub break_even: Option<f64>,
    /// Its interval over the rounds; an upper bound above 1 is at no hit ratio. `None` with too few rounds.
    pub break_even_interval: Option<Bounds>,
    /// Least cost of an object at which the tier pays with the assumed hit ratio.
    pub least_recompute_ns: Option<f64>,
    /// A read through the tier at the assumed hit ratio, on average over hits and misses. A miss includes recomputing the
    /// object and writing it to the tier.
    pub read_ns: Option<f64>,
    /// Whether it pays at the assumed hit ratio.
    pub pays: TierVerdict,
}

vocabulary! {
    /// The parts of an operation, in the order of time.
    pub enum Part {
        /// Encoding the object.
        Encode = "encode",
        /// Building the request.
        Client = "client",
        /// Writing to the socket.
        Write = "write",
        /// The path.
        Network = "network",
        /// The server.
        Server = "server",
        /// Reading from the socket.
        Read = "read",
        /// Parsing the reply.
        Parse = "parse",
        /// Decoding the object.
        Decode = "decode",
    }
}

/// Where the time of an operation goes. Parts that it does not have are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waterfall {
    /// The tier.
    pub subject: String,
    /// The case of the same operation without clocks between its parts.
    pub case: Option<CaseId>,
    /// The operation: `get` or `set`.
    pub operation: String,
    /// The codec of its values.
    pub codec: Option<String>,
    /// The whole operation, less the time of the clocks between its parts.
    pub whole_ns: f64,
    /// Encoding the object.
    pub encode_ns: Option<f64>,
    /// Building the request.
    pub client_ns: Option<f64>,
    /// CPU time of writing to the socket, or the write of an engine.
    pub write_ns: Option<f64>,
    /// The path: the wait for a server that replies the same bytes and does no work.
    pub network_ns: Option<f64>,
    /// CPU time of the server beyond that of the server that does no work.
    pub server_ns: Option<f64>,
    /// Of it, the execution of the command as the server counts it.
    pub server_command_ns: Option<f64>,
    /// CPU time of reading from the socket, or the read of an engine.
    pub read_ns: Option<f64>,
    /// Parsing the reply.
    pub parse_ns: Option<f64>,
    /// Decoding the object.
    pub decode_ns: Option<f64>,
    /// The rest of the whole in a round, in which disturbances affect the whole and the parts alike: the median over the
    /// rounds. Negative if the parts add up to more.
    pub unattributed_ns: f64,
    /// Its interval over the same rounds. `None` with too few rounds.
    pub unattributed_interval: Option<Bounds>,
}

/// The time of batches: `a + b n` for `n` objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchCost {
    /// The tier.
    pub subject: String,
    /// The operation: `get` or `set`.
    pub operation: String,
    /// The time per object, by the size of the batch.
    pub sizes: Vec<BatchSize>,
    /// The part that a call costs, however many objects it has: `a`.
    pub per_call_ns: f64,
    /// The part that each object costs: `b`.
    pub each_ns: f64,
}

/// The time of an object in batches of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchSize {
    /// Objects of a call.
    pub objects: u64,
    /// Time per object.
    pub per_object_ns: f64,
}

/// A flaw of a benchmark, measured on purpose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flaw {
    /// The flaw.
    pub name: String,
    /// The operation with the flaw.
    pub flawed_ns: f64,
    /// The operation without it.
    pub right_ns: f64,
    /// The difference: the median over the rounds.
    pub adds_ns: f64,
    /// Its interval over the rounds.
    pub adds_interval: Option<Bounds>,
}

/// A figure of a write-up and those of this run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// The measured quantity.
    pub name: String,
    /// The figure of the write-up.
    pub theirs_ns: f64,
    /// The same operation here with the suspected flaws.
    pub flawed_ns: Option<f64>,
    /// The operation without them.
    pub right_ns: Option<f64>,
    /// True cost or artefact, in one sentence.
    pub sentence: String,
}

impl Tiers {
    /// The parts of the hits of a tier, if they were measured.
    #[must_use]
    pub fn waterfall(&self, cost: &TierCost) -> Option<&Waterfall> {
        let get = cost.get?;
        let mut waterfalls = self.waterfalls.iter();
        waterfalls.find(|waterfall| waterfall.case == Some(get))
    }
}

impl Waterfall {
    /// The measured parts.
    pub fn parts(&self) -> impl Iterator<Item = (Part, f64)> {
        let parts = [
            (Part::Encode, self.encode_ns),
            (Part::Client, self.client_ns),
            (Part::Write, self.write_ns),
            (Part::Network, self.network_ns),
            (Part::Server, self.server_ns),
            (Part::Read, self.read_ns),
            (Part::Parse, self.parse_ns),
            (Part::Decode, self.decode_ns),
        ];
        parts.into_iter().filter_map(|(part, ns)| Some((part, ns?)))
    }

    /// The same with its rest, from the rests of single rounds: their median and its interval. Without any, the rest is the
    /// whole less all parts, and has no interval.
    #[must_use]
    pub fn with_rests(self, rests_ns: &[f64]) -> Self {
        let found = interval::of_median(rests_ns, interval::ALPHA);
        Self {
            unattributed_ns: median(rests_ns).unwrap_or(self.whole_ns - self.parts_ns()),
            unattributed_interval: found.map(|found| Bounds {
                lo: found.lo,
                hi: found.hi,
            }),
            ..self
        }
    }

    /// All parts together.
    #[must_use]
    pub fn parts_ns(&self) -> f64 {
        self.parts().map(|(_, part)| part).sum()
    }

    /// By how much the whole exceeds the parts and the rest together. Each is a median over the rounds, so this is not zero if
    /// the parts vary independently of each other.
    #[must_use]
    pub fn excess_ns(&self) -> f64 {
        self.whole_ns - self.parts_ns() - self.unattributed_ns
    }

    /// Whether the parts and the rest add up to something else than the whole: by more than 5 % of it.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.excess_ns().abs() > MOST_RESIDUAL * self.whole_ns
    }

    /// The share of the whole that no part explains; negative if the parts add up to more than the whole.
    #[must_use]
    pub fn residual(&self) -> f64 {
        self.unattributed_ns / self.whole_ns.max(1.0)
    }

    /// Whether noise dominates the parts: their sum, or the interval of the rest, is off by more than the whole.
    #[must_use]
    pub fn is_noise(&self) -> bool {
        let width = self
            .unattributed_interval
            .map_or(0.0, |bounds| bounds.hi - bounds.lo);
        self.residual().abs() > 1.0 || width > self.whole_ns
    }

    /// Whether the rest is larger than the parts may leave: 5 % of the whole.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.residual().abs() > MOST_RESIDUAL
    }
}

/// The time of a call and of each object, from times of calls of several sizes: the line through them, by least squares of
/// the relative errors, since large batches would otherwise decide alone. `None` with fewer than two sizes.
#[must_use]
pub fn call_and_each(times_ns: &[(u64, f64)]) -> Option<(f64, f64)> {
    let (mut sums, mut count) = ([0.0; 5], 0);
    for (size, time) in times_ns.iter().filter(|(_, time)| *time > 0.0) {
        let (x, weight) = (*size as f64, 1.0 / (time * time));
        let terms = [
            weight,
            weight * x,
            weight * x * x,
            weight * time,
            weight * x * time,
        ];
        sums.iter_mut()
            .zip(terms)
            .for_each(|(sum, term)| *sum += term);
        count += 1;
    }
    let [w, wx, wxx, wy, wxy] = sums;
    let determinant = w * wxx - wx * wx;
    if count < 2 || determinant <= 1e-12 * w * wxx {
        return None;
    }
    Some((
        (wy * wxx - wx * wxy) / determinant,
        (w * wxy - wx * wy) / determinant,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_is_the_total_without_its_parts() {
        let waterfall = Waterfall {
            whole_ns: 100.0,
            network_ns: Some(60.0),
            decode_ns: Some(35.0),
            ..Waterfall::default()
        }
        .with_rests(&[]);
        assert_eq!(waterfall.unattributed_ns, 5.0);
        assert_eq!(waterfall.unattributed_interval, None);
        assert_eq!(waterfall.residual(), 0.05);
        assert!(!waterfall.is_uneven());
        let parts: Vec<Part> = waterfall.parts().map(|(part, _)| part).collect();
        assert_eq!(parts, [Part::Network, Part::Decode]);
    }

    /// The rest of each round is small, while the difference of the medians is not.
    #[test]
    fn rest_lies_in_its_interval() {
        // Of the two parts, one or the other is slow, and in four of twelve rounds neither is.
        let round = |number: usize| match number % 3 {
            0 => (50.0, 60.0),
            1 => (50.0, 160.0),
            _ => (150.0, 60.0),
        };
        let of = |part: fn((f64, f64)) -> f64| {
            let values: Vec<f64> = (0..12).map(|number| part(round(number))).collect();
            median(&values)
        };
        let rests: Vec<f64> = (0..12).map(|number| f64::from(number) / 10.0).collect();
        let waterfall = Waterfall {
            whole_ns: of(|(encode, write)| encode + write).unwrap(),
            encode_ns: of(|(encode, _)| encode),
            write_ns: of(|(_, write)| write),
            ..Waterfall::default()
        }
        .with_rests(&rests);
        let bounds = waterfall.unattributed_interval.as_ref().unwrap();
        assert_eq!((bounds.lo, bounds.hi), (0.1, 1.0));
        assert_eq!(waterfall.unattributed_ns, 0.55);
        // The medians leave 100.
        assert_eq!(waterfall.whole_ns - waterfall.parts_ns(), 100.0);
        assert!(!waterfall.is_incomplete() && waterfall.is_uneven());
    }

    #[test]
    fn parts_are_noise_where_the_rest_could_be_more_than_the_whole() {
        let of = |rests: &[f64]| {
            let whole = Waterfall {
                whole_ns: 100.0,
                network_ns: Some(95.0),
                ..Waterfall::default()
            };
            whole.with_rests(rests)
        };
        let alternating = |ns: f64| [5.0 - ns, 5.0 + ns].repeat(6);
        assert!(!of(&alternating(40.0)).is_noise());
        assert!(of(&alternating(60.0)).is_noise());
        assert!(of(&[-2_955.9; 12]).is_noise());
    }

    /// The figures of the write-up: SET 3.9 ms alone and 10.9 ms for ten, GET 6.19 and 17.2 ms.
    #[test]
    fn batches_are_split_into_the_call_and_its_objects() {
        for (times, a, b) in [
            ([(1, 3.9e6), (10, 10.9e6)], 3.12e6, 0.78e6),
            ([(1, 6.19e6), (10, 17.2e6)], 4.97e6, 1.22e6),
        ] {
            let (call, each) = call_and_each(&times).unwrap();
            assert!((call / a - 1.0).abs() < 0.01 && (each / b - 1.0).abs() < 0.01);
        }
        assert_eq!(call_and_each(&[(10, 5.0)]), None);
        assert_eq!(call_and_each(&[(10, 5.0), (10, 6.0)]), None);
        let (call, each) = call_and_each(&[(1, 12.0), (10, 30.0), (100, 210.0)]).unwrap();
        assert!((call - 10.0).abs() < 1e-9 && (each - 2.0).abs() < 1e-9);
    }
}
