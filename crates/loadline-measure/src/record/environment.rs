//! The environment of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The machine, its servers, and its noise. Unknown values are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The model of the CPU.
    pub cpu_model: Option<String>,
    /// Logical CPUs that the run could use.
    pub cores: Option<u64>,
    /// Numbers of those CPUs as a list of the kernel, such as `0-3,8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The cgroup's quota in CPUs.
    pub cgroup_quota_cores: Option<f64>,
    /// Name and release of the kernel.
    pub kernel: Option<String>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// `container`, `vm` or `host`.
    pub virtualization: Option<String>,
    /// Identifier of this boot of the kernel, which all containers of a machine share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The CPU frequency governor.
    pub governor: Option<String>,
    /// The properties of each server.
    pub servers: Vec<ServerEnvironment>,
    /// Other activity of the machine during the run.
    pub noise: Noise,
}

/// The properties that a server reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerEnvironment {
    /// The subject, by [`Subject::name`](super::Subject::name).
    pub subject: String,
    /// The product name, such as Redis, Valkey or Loadline.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Identifier of its process (`run_id` in INFO).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Its memory allocator.
    pub allocator: Option<String>,
    /// Settings that affect measurements.
    pub settings: BTreeMap<String, String>,
    /// SHA-256 digest of the configuration file that it was started with, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
}

/// Other activity of the machine during the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noise {
    /// Highest share of the time in which tasks waited for a CPU (pressure stall over ten seconds).
    pub cpu_pressure: Option<f64>,
    /// Share of the time in which the generator's threads were runnable and waited for a CPU.
    pub run_queue_wait: Option<f64>,
    /// Share of the time that the hypervisor took.
    pub steal: Option<f64>,
    /// The load average of one minute at the start.
    pub load_average: Option<f64>,
}
