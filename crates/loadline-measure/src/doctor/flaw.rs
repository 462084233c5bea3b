//! Flaws with their figures. `loadline-report` writes the sentences about them.

use super::cluster::ClusterFlaw;
use super::engines::EnginesFlaw;
use super::flow::FlowFlaw;
use super::pairs::PairFlaw;
use super::rules::{ActivityFlaw, LoadFlaw, ResultFlaw};
use super::setup::SetupFlaw;
use super::{NotExamined, Rule, Severity};

/// A flaw that a rule found.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The flaw, with its figures.
    pub flaw: Flaw,
    /// The severity.
    pub severity: Severity,
    /// The subject of the finding, such as "embedded, get". Empty if it concerns the whole run.
    pub scope: String,
}

impl Diagnosis {
    pub(super) fn new(scope: &str, severity: Severity, flaw: impl Into<Flaw>) -> Self {
        Self {
            flaw: flaw.into(),
            severity,
            scope: scope.to_owned(),
        }
    }

    /// The rule that found it.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.flaw.rule()
    }
}

/// Defines [`Flaw`] over its groups, each of which knows the rules of its flaws.
macro_rules! flaws {
    ($($(#[$doc:meta])* $group:ident($flaw:ident),)+) => {
        /// A flaw of the benchmark, with the figures that show it.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Flaw {
            $($(#[$doc])* $group($flaw),)+
        }

        impl Flaw {
            /// The rule that finds it.
            #[must_use]
            pub fn rule(&self) -> Rule {
                match self {
                    $(Self::$group(flaw) => flaw.rule(),)+
                }
            }
        }

        $(impl From<$flaw> for Flaw {
            fn from(flaw: $flaw) -> Self {
                Self::$group(flaw)
            }
        })+
    };
}

flaws! {
    /// The load: connections, counts, the generator, a rate.
    Load(LoadFlaw),
    /// The results: samples, blocks, replies.
    Result(ResultFlaw),
    /// Other activity of the server or its machine.
    Activity(ActivityFlaw),
    /// The course of a measurement.
    Flow(FlowFlaw),
    /// The machine, the settings of the server, or the path between them.
    Setup(SetupFlaw),
    /// The nodes of a cluster.
    Cluster(ClusterFlaw),
    /// A comparison of engines.
    Engines(EnginesFlaw),
    /// A pair of measurements.
    Pair(PairFlaw),
    /// Evidence that could not be read.
    NotExamined(NotExamined),
}
