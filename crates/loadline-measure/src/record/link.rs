//! A link that added latency.

use serde::{Deserialize, Serialize};

use super::{PathClass, Scheduling};

/// A link that added latency, with its measured accuracy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The requested round-trip time.
    pub latency_ns: u64,
    /// The requested jitter, such as `1ms:normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Bandwidth limit per direction in bytes per second, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes_per_s: Option<u64>,
    /// The class of the link.
    pub class: PathClass,
    /// The reason for the class, in a sentence.
    pub reason: String,
    /// The number of measured round trips.
    pub round_trips: u64,
    /// The median round trip without the link.
    pub direct_p50_ns: u64,
    /// The median round trip through it.
    pub through_p50_ns: u64,
    /// The 0.99 quantile of the round trips through it.
    pub through_p99_ns: u64,
    /// Overshoot of the median.
    pub overshoot_p50_ns: u64,
    /// Overshoot of the 0.99 quantile.
    pub overshoot_p99_ns: u64,
    /// Median lateness of the link's own releases; `None` if the kernel releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_late_p50_ns: Option<u64>,
    /// The same at the 0.99 quantile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_late_p99_ns: Option<u64>,
    /// The scheduling of its thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Whether idle CPUs polled instead of sleeping.
    #[serde(default)]
    pub keeps_awake: bool,
    /// Whether the overshoot is too large.
    pub is_off: bool,
    /// The largest packet in bytes, if there are packets.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// The congestion control of the client's end, if known.
    #[serde(default)]
    pub congestion_control: Option<String>,
}
