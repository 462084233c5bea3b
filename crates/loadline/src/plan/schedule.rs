//! Layout of the rounds of a plan.

use crate::args::Instructions;

/// The layout of rounds, in addition to their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Number of times that the targets are opened, our own servers in new processes each time, because two processes of one
    /// binary differ. The rounds are divided among these generations.
    pub(crate) generations: u32,
    /// End of the rounds.
    pub(crate) end: RoundsEnd,
    /// Parts of each round.
    pub(crate) parts: RoundParts,
    /// When a block of a closed loop ends.
    pub(crate) blocks: BlockEnd,
    /// The CPUs that servers of the run and the load generator use.
    pub(crate) placement: Placement,
    /// Whether instructions per operation are counted as well.
    pub(crate) instructions: Instructions,
}

/// End of the rounds of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundsEnd {
    /// After the planned rounds.
    Planned,
    /// As soon as the ratios of the targets are precise, at the latest after the planned rounds.
    OncePrecise,
    /// After the planned rounds, and up to this many more until the comparison is precise.
    Extended(u32),
}

/// The parts of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RoundParts {
    /// A block of every target.
    Blocks,
    /// In addition, a block of the reference.
    Reference,
    /// In addition, operations one at a time after each block, for the tail.
    Tails,
}

/// When a block of a closed loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockEnd {
    /// With the length of the case.
    Length,
    /// As soon as it has enough operations for its figures, if that is earlier.
    Enough,
}

/// The CPUs that servers of the run and the load generator use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Those that the scheduler of the operating system chooses.
    Free,
    /// Servers on the first CPU, the generator on the others, if there are two or more.
    Pinned,
}

impl Schedule {
    /// The planned rounds with nothing but blocks, on targets that are opened once.
    pub(crate) const PLAIN: Self = Self {
        generations: 1,
        end: RoundsEnd::Planned,
        parts: RoundParts::Blocks,
        blocks: BlockEnd::Length,
        placement: Placement::Free,
        instructions: Instructions::Off,
    };

    /// Rounds that can follow the planned ones.
    pub(crate) fn more_rounds(&self) -> u32 {
        match self.end {
            RoundsEnd::Planned | RoundsEnd::OncePrecise => 0,
            RoundsEnd::Extended(more) => more,
        }
    }

    /// Whether a reference runs in each round.
    pub(crate) fn has_reference(&self) -> bool {
        self.parts >= RoundParts::Reference
    }

    /// Whether the tail is measured after each block.
    pub(crate) fn has_tails(&self) -> bool {
        self.parts >= RoundParts::Tails
    }
}

impl Placement {
    /// Pinned if `is_possible`.
    pub(crate) fn pinned_if(is_possible: bool) -> Self {
        if is_possible {
            Self::Pinned
        } else {
            Self::Free
        }
    }
}
