//! The words of a record that judgements and reports tell apart.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// What a subject is.
    pub enum SubjectKind {
        /// Loadline's own server over its own store, started for the run.
        Embedded = "embedded",
        /// A server program that was started for the run.
        SpawnedServer = "spawned server",
        /// A server that ran already.
        Server = "server",
        /// A cluster that ran already.
        Cluster = "cluster",
        /// A cluster that was started for the run.
        SpawnedCluster = "spawned cluster",
        /// A store in Loadline's own process.
        Engine = "engine in process",
    }
}

vocabulary! {
    /// How operations are called.
    pub enum Mode {
        /// A function call in Loadline's own process, without a socket.
        Call = "call",
        /// One request at a time on each connection.
        Sync = "sync",
        /// Several requests in flight on one multiplexed connection.
        Async = "async",
        /// Several requests in flight on each connection.
        Pipeline = "pipeline",
        /// Several operations in one command, such as MGET.
        Batch = "batch",
        /// Several operations in one MULTI/EXEC transaction.
        Transaction = "transaction",
        /// Several operations in one Lua script.
        Script = "script",
    }
}

vocabulary! {
    /// How the starts of an open loop are spaced.
    pub enum Arrivals {
        /// At equal distances.
        Uniform = "uniform",
        /// At random, as those of independent users.
        Poisson = "poisson",
    }
}

vocabulary! {
    /// What adds latency to a path.
    pub enum PathClass {
        /// The kernel's queueing discipline.
        Netem = "netem",
        /// A packet-level emulator behind a network device.
        L3 = "l3",
        /// A proxy of connections.
        L4 = "l4",
    }
}

vocabulary! {
    /// How the thread of a link is scheduled.
    pub enum Scheduling {
        /// Ahead of all ordinary threads.
        RealTime = "real time",
        /// As any other thread.
        Ordinary = "ordinary",
    }
}
