//! The way of one key through the tiers.

use std::fmt;
use std::time::Duration;

use super::worth::Worth;

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// A fresh value in memory.
    InMemory,
    /// A value in memory that is to be loaded again in the background.
    InMemoryDue,
    /// Nothing usable in memory.
    NotInMemory,
    /// Another caller is loading or writing the key.
    Waits,
    /// A fresh value in the tier below.
    InTier,
    /// Nothing in the tier below.
    NotInTier,
    /// A value past its time to live in the tier below.
    Expired,
    /// A value in the tier below that is no newer than the one to be replaced.
    NotNewer,
    /// Bytes in the tier below that are not a value.
    Damaged,
    /// A value of another schema version, codec or format in the tier below.
    OtherVersion,
    /// A value in the tier below from before an invalidation that it may have missed.
    Outdated,
    /// A value in the tier below that was invalidated, which the tier does not know yet.
    Invalidated,
    /// The breaker of the tier below is open.
    NotAsked,
    /// The tier below cannot keep keys of this length.
    UnfitKey,
    /// The tier below costs more than it saves.
    Bypassed,
    /// The tier below failed.
    TierFailed,
    /// The tier below did not answer within its timeout.
    TierTimedOut,
    /// The read of the tier below takes longer than usual, and the value is loaded beside it.
    TierSlow,
    /// Too many reads of the tier below take longer than usual.
    Overdue,
    /// Another process is loading the value.
    LoadedElsewhere,
    /// The application loaded the value.
    Loaded,
    /// The application has no such object.
    Absent,
    /// The application could not load the value.
    LoadFailed,
    /// The value was written to the tier below.
    Written,
    /// The value could not be written to the tier below.
    NotWritten,
    /// The value was not kept: another process has changed the key since the load began.
    Overtaken,
}

impl Found {
    /// The tier (`memory`, `tier` or `load`), and its outcome.
    #[must_use]
    pub fn parts(&self) -> (&'static str, &'static str) {
        match self {
            Self::InMemory => ("memory", "hit"),
            Self::InMemoryDue => ("memory", "hit, to be refreshed"),
            Self::NotInMemory => ("memory", "miss"),
            Self::Waits => ("memory", "miss, waits for another caller"),
            Self::InTier => ("tier", "hit"),
            Self::NotInTier => ("tier", "miss"),
            Self::Expired => ("tier", "expired"),
            Self::NotNewer => ("tier", "not newer"),
            Self::Damaged => ("tier", "damaged"),
            Self::OtherVersion => ("tier", "other version"),
            Self::Outdated => ("tier", "outdated"),
            Self::Invalidated => ("tier", "invalidated"),
            Self::NotAsked => ("tier", "not asked, breaker open"),
            Self::UnfitKey => ("tier", "cannot keep such a key"),
            Self::Bypassed => ("tier", "bypassed"),
            Self::TierFailed => ("tier", "failed"),
            Self::TierTimedOut => ("tier", "timed out"),
            Self::TierSlow => ("tier", "slow, loads beside it"),
            Self::Overdue => ("tier", "not asked, reads are overdue"),
            Self::LoadedElsewhere => ("tier", "another process loads"),
            Self::Loaded => ("load", "done"),
            Self::Absent => ("load", "no such object"),
            Self::LoadFailed => ("load", "failed"),
            Self::Written => ("tier", "written"),
            Self::NotWritten => ("tier", "not written"),
            Self::Overtaken => ("tier", "not written, changed meanwhile"),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tier, outcome) = self.parts();
        write!(f, "{tier}: {outcome}")
    }
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The outcome.
    pub found: Found,
    /// Duration of the step. Steps in memory are not timed.
    pub elapsed: Option<Duration>,
}

/// The way of one key through the tiers. `Display` prints a line for each step, and one for the tier.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The steps in their order.
    pub steps: Vec<Step>,
    /// The costs and savings of the tier, once it was read and a value was loaded.
    pub worth: Option<Worth>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let text = step.found.to_string();
            match step.elapsed {
                Some(elapsed) => {
                    writeln!(f, "{text:<40} {:>10.1} us", elapsed.as_secs_f64() * 1e6)?;
                }
                None => writeln!(f, "{text}")?,
            }
        }
        if let Some(worth) = &self.worth {
            writeln!(f, "{worth}")?;
        }
        Ok(())
    }
}
