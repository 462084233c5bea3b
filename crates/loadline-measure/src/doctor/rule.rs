//! The rules by name and number.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// A rule of the doctor, written as its number. Numbers are stable: a removed rule leaves a gap.
    pub enum Rule {
        /// The server accepted about as many connections as there were operations.
        ConnectionPerOperation = "LL001",
        /// Generator and server counted different operations.
        CountsDiffer = "LL002",
        /// The generator was the limit, not the server.
        GeneratorBound = "LL003",
        /// The generator started operations late.
        LateStarts = "LL004",
        /// Tasks waited for a CPU.
        Contention = "LL005",
        /// Too few samples for a percentile.
        TooFewSamples = "LL006",
        /// Operations failed.
        ErrorReplies = "LL007",
        /// Reads that should find something did not.
        ReadsMiss = "LL008",
        /// The server persisted, evicted or swapped.
        ServerBusyElsewhere = "LL009",
        /// Other clients used the server.
        OtherClients = "LL010",
        /// Blocks too short to measure.
        BlockTooShort = "LL011",
        /// No steady state.
        NoSteadyState = "LL012",
        /// An open loop asked for more than the target can do.
        Overloaded = "LL013",
        /// Subjects were compared under different conditions.
        ArmsDiffer = "LL014",
        /// A link added more latency than it should.
        LinkOff = "LL015",
        /// Hits took longer than misses.
        HitSlowerThanMiss = "LL016",
        /// More work took no more time.
        TimeStaysFlat = "LL017",
        /// Transparent huge pages are always on.
        HugePages = "LL018",
        /// The CPU frequency governor saves power.
        Governor = "LL019",
        /// The clock is slow to read.
        SlowClock = "LL020",
        /// Every write waits for the disk.
        SyncOnEveryWrite = "LL021",
        /// The server is close to its memory limit.
        MemoryLimit = "LL022",
        /// The scheduler shares CPUs among sessions.
        Autogroup = "LL023",
        /// More busy threads than CPUs.
        TooFewCpus = "LL024",
        /// The server limits its output buffers.
        OutputLimit = "LL025",
        /// Every command is logged or monitored.
        Watched = "LL026",
        /// Round trips of an idle connection vary.
        Jitter = "LL027",
        /// The control group limits CPU time.
        Quota = "LL028",
        /// The path takes longer than the server.
        Distance = "LL029",
        /// Nodes of a cluster run different versions.
        ClusterVersions = "LL030",
        /// Masters of a cluster have different settings.
        ClusterSettings = "LL031",
        /// Slots are spread unevenly.
        ClusterSlots = "LL032",
        /// Slots are moving.
        ClusterMoving = "LL033",
        /// Evidence could not be read, so rules could not be applied.
        NotExamined = "LL034",
        /// The host took CPU time from this machine.
        Steal = "LL035",
        /// The machine was slower than its own best.
        SlowMachine = "LL036",
        /// No reply arrived for a while.
        Stall = "LL037",
        /// A sync does not reach a disk.
        SyncWithoutDisk = "LL038",
        /// Reads come from the page cache, or from the disk.
        CachedReads = "LL039",
        /// Loadline and its built-in engines were built without optimisation.
        DebugBuild = "LL040",
        /// An in-process engine compared with a server behind a socket.
        AcrossASocket = "LL041",
        /// Batches and single operations in one comparison of engines.
        BatchBesideSingle = "LL042",
        /// One of several load generators was slower than the others.
        SlowerAgent = "LL043",
        /// Several load generators ran on one machine.
        AgentsOnOneHost = "LL044",
        /// Load generators did not measure at the same time.
        AgentsApart = "LL045",
        /// Clocks of load generators are known less exactly than response times.
        AgentClocks = "LL046",
        /// A network device was near its speed.
        NetworkLimit = "LL047",
    }
}

/// The subject of a group of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The benchmark itself.
    Benchmark,
    /// The amount of data: samples, length of blocks, warm-up.
    Length,
    /// The replies: errors, misses.
    Replies,
    /// Interruptions of the flow of replies.
    Stalls,
    /// The machine that the generator runs on.
    Machine,
    /// Other work of the server, and its settings.
    Server,
    /// The path between generator and server.
    Path,
    /// Comparisons of two subjects.
    Comparison,
    /// Comparisons of the nodes of a cluster.
    Cluster,
    /// Several load generators.
    Agents,
    /// Rules that could not be applied.
    NotExamined,
    /// Rules of another version of Loadline.
    Unknown,
}

impl Rule {
    /// The group that the rule belongs to.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::ConnectionPerOperation
            | Self::CountsDiffer
            | Self::GeneratorBound
            | Self::LateStarts
            | Self::Overloaded
            | Self::TimeStaysFlat
            | Self::DebugBuild => Class::Benchmark,
            Self::TooFewSamples | Self::BlockTooShort | Self::NoSteadyState => Class::Length,
            Self::ErrorReplies | Self::ReadsMiss => Class::Replies,
            Self::Stall => Class::Stalls,
            Self::Contention
            | Self::HugePages
            | Self::Governor
            | Self::SlowClock
            | Self::Autogroup
            | Self::TooFewCpus
            | Self::Quota
            | Self::Steal
            | Self::SlowMachine
            | Self::SyncWithoutDisk
            | Self::CachedReads => Class::Machine,
            Self::ServerBusyElsewhere
            | Self::OtherClients
            | Self::SyncOnEveryWrite
            | Self::MemoryLimit
            | Self::OutputLimit
            | Self::Watched => Class::Server,
            Self::LinkOff | Self::Jitter | Self::Distance | Self::NetworkLimit => Class::Path,
            Self::ArmsDiffer
            | Self::HitSlowerThanMiss
            | Self::AcrossASocket
            | Self::BatchBesideSingle => Class::Comparison,
            Self::ClusterVersions
            | Self::ClusterSettings
            | Self::ClusterSlots
            | Self::ClusterMoving => Class::Cluster,
            Self::SlowerAgent | Self::AgentsOnOneHost | Self::AgentsApart | Self::AgentClocks => {
                Class::Agents
            }
            Self::NotExamined => Class::NotExamined,
            Self::Other(_) => Class::Unknown,
        }
    }

    /// Whether the rule is about the setup, known before anything is measured, and not about the measurement itself.
    #[must_use]
    pub fn is_setup(&self) -> bool {
        matches!(
            self,
            Self::HugePages
                | Self::Governor
                | Self::SlowClock
                | Self::Autogroup
                | Self::TooFewCpus
                | Self::SyncOnEveryWrite
                | Self::MemoryLimit
                | Self::OutputLimit
                | Self::Distance
                | Self::ClusterVersions
                | Self::ClusterSettings
                | Self::ClusterSlots
                | Self::NotExamined
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_their_numbers_and_read_again() {
        for (index, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(rule.as_str(), format!("LL{:03}", index + 1));
            let json = serde_json::to_string(rule).unwrap();
            assert_eq!(json, format!("\"{rule}\""));
            assert_eq!(&serde_json::from_str::<Rule>(&json).unwrap(), rule);
            assert_ne!(rule.class(), Class::Unknown, "{rule}");
        }
    }

    #[test]
    fn rule_of_a_later_version_is_kept() {
        let later: Rule = serde_json::from_str("\"LL901\"").unwrap();
        assert_eq!(later, Rule::Other("LL901".to_owned()));
        assert_eq!(later.class(), Class::Unknown);
        assert_eq!(serde_json::to_string(&later).unwrap(), "\"LL901\"");
    }
}
