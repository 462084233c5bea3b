//! The words of a record that verdicts and reports depend on.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// The meaning of the percentiles of an open loop.
    pub enum Percentiles {
        /// The response times of all operations of the schedule.
        Exact = "exact",
        /// Lower bounds: operations that would have taken longest are missing.
        AtLeast = "at least",
    }
}

vocabulary! {
    /// The kind of a subject.
    pub enum SubjectKind {
        /// Loadline's own server over its own store, started for the run.
        Embedded = "embedded",
        /// A server program started for the run.
        SpawnedServer = "spawned server",
        /// The same, called through a socket in the file system.
        SpawnedOnSocket = "spawned server on a Unix socket",
        /// An existing server.
        Server = "server",
        /// An existing cluster.
        Cluster = "cluster",
        /// A cluster started for the run.
        SpawnedCluster = "spawned cluster",
        /// A store in Loadline's own process.
        Engine = "engine in process",
        /// Loadline's own store, in the same way.
        Store = "store in process",
        /// A server that replies and does no work, in Loadline's own process.
        NullServer = "null server",
        /// A client library, in the process of a driver.
        Client = "client library",
        /// Work of the application itself in Loadline's own process, such as computing or encoding an object.
        Application = "application",
    }
}

vocabulary! {
    /// The call mode of operations.
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
    /// The spacing of starts in an open loop.
    pub enum Arrivals {
        /// At equal intervals.
        Uniform = "uniform",
        /// At random intervals, like those of independent users.
        Poisson = "poisson",
    }
}

vocabulary! {
    /// The class of a link.
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
    /// The scheduling of a link's thread.
    pub enum Scheduling {
        /// Ahead of all ordinary threads.
        RealTime = "real time",
        /// Like any other thread.
        Ordinary = "ordinary",
    }
}
