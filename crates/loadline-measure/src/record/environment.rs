//! Where a run took place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The machine, its servers, and how noisy it was. What could not be found out is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The CPU's name.
    pub cpu_model: Option<String>,
    /// Logical CPUs that the run could use.
    pub cores: Option<u64>,
    /// CPUs that the cgroup's quota is worth.
    pub cgroup_quota_cores: Option<f64>,
    /// Name and release of the kernel.
    pub kernel: Option<String>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// `container`, `vm` or `host`.
    pub virtualization: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The CPU frequency governor.
    pub governor: Option<String>,
    /// What each server says of itself.
    pub servers: Vec<ServerEnvironment>,
    /// What else the machine was doing during the run.
    pub noise: Noise,
}

/// What a server says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerEnvironment {
    /// The subject that the server is, by [`Subject::name`](super::Subject::name).
    pub subject: String,
    /// Redis, Valkey, Loadline or whatever it calls itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its memory allocator.
    pub allocator: Option<String>,
    /// Its settings that matter to a measurement.
    pub settings: BTreeMap<String, String>,
}

/// What else the machine was doing during the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noise {
    /// Share of the time in which some task waited for a CPU (pressure stall, ten seconds), at its
    /// highest.
    pub cpu_pressure: Option<f64>,
    /// Share of the time in which the generator's threads were runnable and waited for a CPU.
    pub run_queue_wait: Option<f64>,
    /// Share of the time that the hypervisor took.
    pub steal: Option<f64>,
    /// The load average of one minute at the start.
    pub load_average: Option<f64>,
}
