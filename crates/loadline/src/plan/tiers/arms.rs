//! Arms of tiers, and the stages whose arms are measured in the same rounds.

use super::{Source, TierPlace};
use crate::object::{Compression, Encoding, Format};
use crate::spelling::Target;

/// Arms that are measured in the same rounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TierStage {
    pub(crate) group: TierGroup,
    pub(crate) arms: Vec<Arm>,
}

/// The purpose of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TierGroup {
    /// The operations that the verdicts compare.
    Tiers,
    /// Codecs without a tier.
    Codecs,
    /// Single operations and batches.
    Batches,
    /// Steps before the first operation.
    SetUp,
    /// Operations with flaws, and the same without.
    Reproduce,
}

impl TierGroup {
    /// The name in the plan, in progress and in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tiers => "tiers",
            Self::Codecs => "codecs",
            Self::Batches => "batches",
            Self::SetUp => "set-up",
            Self::Reproduce => "reproduce",
        }
    }
}

/// Something that is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arm {
    pub(crate) step: ArmOp,
    pub(crate) format: Format,
    /// Objects of a call.
    pub(crate) batch: u32,
}

/// Operation of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArmOp {
    /// Makes the object anew.
    Recompute,
    /// Finds the object in the memory of a cache, without a copy.
    Hit,
    /// Copies an object in memory.
    DeepCopy,
    Encode,
    Decode,
    /// An operation on the tier with this place.
    Tier(usize, TierOp),
    /// The same operation on a server that replies the same bytes and does no work, on the same path.
    Null(usize, TierOp),
    /// Setup before the first operation on the tier with this place.
    Setup(usize, Setup),
    /// An operation with a flaw, on the tier with this place.
    Flawed(usize, Flawed),
}

/// An operation on a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TierOp {
    /// Reads and decodes.
    Get,
    /// Reads what is not there.
    Miss,
    /// Encodes and writes.
    Set,
    /// Reads, without decoding.
    Transfer,
    /// Encodes, writes, reads and decodes.
    RoundTrip,
    /// A read through a cache without room in memory: breaker, checksum and all.
    Cached,
    /// A read with a clock between its parts.
    GetParts,
    /// A write with a clock between its parts.
    SetParts,
}

/// Setup before the first operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// A connection.
    Connection,
    /// A pool, with its first connection.
    Pool,
    /// A runtime of tasks, with its first connection.
    Runtime,
}

/// A flaw of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flawed {
    /// A connection for each read.
    ConnectingGet,
    /// A runtime and a connection for each read.
    RuntimeGet,
    /// The same for a key that is not there.
    RuntimeMiss,
    /// The object is made within the write.
    GeneratingSet,
    /// A hit in memory that copies the object.
    CopyingHit,
    /// A hit in memory for which the object is made, inserted and copied.
    GeneratingHit,
    /// A runtime, a connection, a new object, a write and a read.
    RoundTrip,
}

impl TierOp {
    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Miss => "get miss",
            Self::Set => "set",
            Self::Transfer => "transfer",
            Self::RoundTrip => "round trip",
            Self::Cached => "get through the cache",
            Self::GetParts => "get in parts",
            Self::SetParts => "set in parts",
        }
    }

    /// Whether it reads what is there.
    pub(crate) fn reads(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Transfer | Self::RoundTrip | Self::Cached | Self::GetParts
        )
    }
}

impl Setup {
    pub(crate) const ALL: [Self; 3] = [Self::Connection, Self::Pool, Self::Runtime];

    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connection => "new connection",
            Self::Pool => "new pool",
            Self::Runtime => "new runtime",
        }
    }
}

impl Flawed {
    pub(crate) const ALL: [Self; 7] = [
        Self::ConnectingGet,
        Self::RuntimeGet,
        Self::RuntimeMiss,
        Self::GeneratingSet,
        Self::CopyingHit,
        Self::GeneratingHit,
        Self::RoundTrip,
    ];

    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConnectingGet => "get with a new connection",
            Self::RuntimeGet => "get with a new runtime",
            Self::RuntimeMiss => "get miss with a new runtime",
            Self::GeneratingSet => "set with generation",
            Self::CopyingHit => "hit with a deep copy",
            Self::GeneratingHit => "hit with generation",
            Self::RoundTrip => "round trip with all set-up",
        }
    }
}

impl ArmOp {
    /// The name of the operation in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Recompute => "recompute",
            Self::Hit => "hit",
            Self::DeepCopy => "deep copy",
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::Tier(_, op) | Self::Null(_, op) => op.name(),
            Self::Setup(_, setup) => setup.name(),
            Self::Flawed(_, flawed) => flawed.name(),
        }
    }

    /// The tier on which it works.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Tier(place, _)
            | Self::Null(place, _)
            | Self::Setup(place, _)
            | Self::Flawed(place, _) => Some(place),
            Self::Recompute | Self::Hit | Self::DeepCopy | Self::Encode | Self::Decode => None,
        }
    }
}

/// The first tier that is a server, which the options, the other codecs and the flaws are about.
pub(super) fn first_server(places: &[TierPlace], targets: &[Target]) -> Option<usize> {
    let mut places = places.iter();
    places.position(|place| !targets[place.target].is_in_process())
}

/// Arguments that determine the arms.
pub(super) struct Shape<'s> {
    pub(super) source: &'s Source,
    pub(super) format: Format,
    pub(super) places: &'s [TierPlace],
    pub(super) targets: &'s [Target],
    pub(super) batches: &'s [u32],
    pub(super) reproduce: bool,
}

impl Shape<'_> {
    /// All stages, without empty ones.
    pub(super) fn stages(&self) -> Vec<TierStage> {
        let mut stages = vec![
            TierStage {
                group: TierGroup::Tiers,
                arms: self.tiers(),
            },
            TierStage {
                group: TierGroup::Codecs,
                arms: self.codecs(),
            },
            TierStage {
                group: TierGroup::Batches,
                arms: self.batches(),
            },
            TierStage {
                group: TierGroup::SetUp,
                arms: self.set_up(),
            },
        ];
        if self.reproduce {
            stages.push(TierStage {
                group: TierGroup::Reproduce,
                arms: self.flaws(),
            });
        }
        stages.retain(|stage| !stage.arms.is_empty());
        stages
    }

    fn arm(&self, step: ArmOp) -> Arm {
        Arm {
            step,
            format: self.format,
            batch: 1,
        }
    }

    fn is_server(&self, place: usize) -> bool {
        !self.targets[self.places[place].target].is_in_process()
    }

    fn server(&self) -> Option<usize> {
        first_server(self.places, self.targets)
    }

    /// The stage that decides: all tiers with the same objects in the same rounds.
    fn tiers(&self) -> Vec<Arm> {
        let mut arms = Vec::new();
        if !matches!(self.source, Source::File { .. }) {
            arms.push(self.arm(ArmOp::Recompute));
        }
        arms.extend([ArmOp::Hit, ArmOp::DeepCopy].map(|step| self.arm(step)));
        for place in 0..self.places.len() {
            let mut ops = vec![TierOp::Get, TierOp::Miss, TierOp::Set];
            if self.is_server(place) {
                ops.push(TierOp::Transfer);
            }
            ops.extend([TierOp::GetParts, TierOp::SetParts]);
            arms.extend(ops.iter().map(|op| self.arm(ArmOp::Tier(place, *op))));
            if self.is_server(place) {
                let null = [TierOp::GetParts, TierOp::SetParts];
                arms.extend(null.map(|op| self.arm(ArmOp::Null(place, op))));
            }
        }
        let Some(server) = self.server() else {
            return arms;
        };
        // A cache opens connections of its own, and has no login for a server that runs already.
        if matches!(self.targets[self.places[server].target], Target::Engine(_)) {
            arms.push(self.arm(ArmOp::Tier(server, TierOp::Cached)));
        }
        for encoding in self.further_encodings() {
            let of = |op| Arm {
                format: Format::plain(encoding),
                ..self.arm(ArmOp::Tier(server, op))
            };
            arms.extend([TierOp::Get, TierOp::Set].map(of));
        }
        arms
    }

    /// The codecs that the first server is measured with, in addition to that of the tiers: those of the cache that are
    /// the fastest to read and the smallest, that of the write-up and the lean form of it.
    fn further_encodings(&self) -> Vec<Encoding> {
        match self.source {
            Source::Floor { .. } => vec![
                Encoding::Rkyv,
                Encoding::Bitcode,
                Encoding::Protobuf,
                Encoding::ProtobufTiles,
            ],
            Source::File { .. } | Source::Command(_) => Vec::new(),
        }
    }

    fn codecs(&self) -> Vec<Arm> {
        let encodings = match self.source {
            Source::Floor { .. } => &Encoding::OF_FLOORS[..],
            Source::File { .. } | Source::Command(_) => &[Encoding::Raw],
        };
        let compressions = Compression::ALL.iter().copied().map(Some);
        let compressions: Vec<_> = std::iter::once(None).chain(compressions).collect();
        let formats = encodings.iter().flat_map(|encoding| {
            compressions.iter().map(|compression| Format {
                encoding: *encoding,
                compression: *compression,
            })
        });
        formats
            .flat_map(|format| {
                [ArmOp::Encode, ArmOp::Decode].map(|step| Arm {
                    format,
                    ..self.arm(step)
                })
            })
            .collect()
    }

    /// Single operations and batches, in the same rounds.
    fn batches(&self) -> Vec<Arm> {
        let sizes = || std::iter::once(1).chain(self.batches.iter().copied());
        let ops = [TierOp::Get, TierOp::Set];
        let of = |place| {
            ops.into_iter().flat_map(move |op| {
                sizes().map(move |batch| Arm {
                    batch,
                    ..self.arm(ArmOp::Tier(place, op))
                })
            })
        };
        (0..self.places.len()).flat_map(of).collect()
    }

    fn set_up(&self) -> Vec<Arm> {
        let Some(server) = self.server() else {
            return Vec::new();
        };
        let setups = Setup::ALL.map(|setup| self.arm(ArmOp::Setup(server, setup)));
        let round_trip = self.arm(ArmOp::Tier(server, TierOp::RoundTrip));
        setups.into_iter().chain([round_trip]).collect()
    }

    /// Each flawed operation in the same rounds as the right one.
    fn flaws(&self) -> Vec<Arm> {
        let Some(server) = self.server() else {
            return Vec::new();
        };
        let tiles = Format::plain(Encoding::ProtobufTiles);
        let mut arms: Vec<Arm> = Flawed::ALL
            .map(|flawed| Arm {
                format: tiles,
                ..self.arm(ArmOp::Flawed(server, flawed))
            })
            .to_vec();
        arms.extend([ArmOp::Recompute, ArmOp::Hit].map(|step| self.arm(step)));
        for encoding in [
            Encoding::Columns,
            Encoding::Protobuf,
            Encoding::ProtobufTiles,
        ] {
            let of = |step| Arm {
                format: Format::plain(encoding),
                ..self.arm(step)
            };
            let ops = [TierOp::Get, TierOp::Set, TierOp::RoundTrip];
            arms.extend(ops.map(|op| of(ArmOp::Tier(server, op))));
            arms.extend([ArmOp::Encode, ArmOp::Decode].map(of));
        }
        arms.push(self.arm(ArmOp::Tier(server, TierOp::Miss)));
        for op in [TierOp::Get, TierOp::Set] {
            arms.push(Arm {
                format: tiles,
                batch: 10,
                ..self.arm(ArmOp::Tier(server, op))
            });
        }
        arms
    }
}
