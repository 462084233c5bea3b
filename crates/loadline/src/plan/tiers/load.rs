//! A whole cache under load: its keys and the sizes of its tiers.

use std::time::Duration;

use loadline_load::keys::KeyPicker;
use loadline_load::pacing::{Pacing, Stop};
use loadline_measure::tiers::Phase;

use super::super::{Case, Length, Plan, Surroundings, pacing};
use crate::args::TiersArgs;
use crate::exit::Failure;
use crate::units::{bytes_text, key_dist_text};
use crate::workload::{self, Definition};

const DEFAULT_KEYS: u64 = 100_000;
/// Keys are numbers of 32 bits.
const MOST_KEYS: u64 = 1 << 32;
const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
/// A tier below memory has room for this many times as many bytes.
const TIER_PER_MEMORY: u64 = 8;
/// The smallest memory tier.
const LEAST_MEMORY_BYTES: u64 = 1 << 10;
/// The time that a cache is expected to take for all phases, unless another length was asked for.
pub(super) const DEFAULT_LENGTH: Duration = Duration::from_secs(14);
/// Gets of a cache in a phase, unless a length was asked for: enough for a 99th percentile.
const DEFAULT_PHASE_GETS: u64 = 10_000;

/// A load on whole caches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CacheLoad {
    /// The size of the memory tier.
    pub(crate) memory_bytes: u64,
    /// The most bytes that are written to a tier below.
    pub(crate) tier_bytes: u64,
    /// Windows of each phase.
    pub(crate) windows: u32,
    /// The most gets of a cache in a window, if no length was asked for.
    most_gets: Option<u64>,
}

impl CacheLoad {
    /// Resolves the load, if one is asked for, and makes its case that of `base`.
    ///
    /// # Errors
    /// A usage error for what cannot be.
    pub(super) fn resolve(
        args: &TiersArgs,
        base: &mut Plan,
        around: &Surroundings,
    ) -> Result<Option<Self>, Failure> {
        let Some(dist) = &args.key_dist else {
            return Ok(None);
        };
        let keys = args.keys.unwrap_or(DEFAULT_KEYS);
        if keys > MOST_KEYS {
            let why = format!("at most {MOST_KEYS}, because the keys of this load have 32 bits");
            return Err(Failure::invalid("--keys", "count", keys, why));
        }
        let key_dist = dist.over(keys);
        KeyPicker::new(&key_dist, keys).map_err(|error| {
            Failure::invalid(
                "--key-dist",
                "distribution",
                key_dist_text(&key_dist),
                error.to_string(),
            )
        })?;
        let memory_bytes = args.ram.unwrap_or(DEFAULT_MEMORY_BYTES);
        if memory_bytes < LEAST_MEMORY_BYTES {
            let (text, why) = (bytes_text(memory_bytes), "must be at least 1KiB");
            return Err(Failure::invalid("--ram", "size", text, why));
        }
        let tier_bytes = args
            .tier_size
            .unwrap_or_else(|| memory_bytes.saturating_mul(TIER_PER_MEMORY));
        let load = Self {
            memory_bytes,
            tier_bytes,
            windows: base.rounds,
            most_gets: (args.length.ops.is_none() && args.length.duration.is_none())
                .then(|| DEFAULT_PHASE_GETS.div_ceil(u64::from(base.rounds))),
        };
        load.check_memory(base, around)?;
        let pacing = pacing(args.rate, args.arrivals)?;
        base.warmup = Duration::ZERO;
        base.cases[0] = Case {
            keys,
            key_dist,
            pacing,
            workload: Definition {
                // The cache itself writes what it has made.
                load: None,
                ..workload::over_strings("tiers", "tiers", &["GET {key}"])
            },
            ..base.cases[0].clone()
        };
        Ok(Some(load))
    }

    /// Refuses tiers that do not fit into the memory of this machine together.
    fn check_memory(&self, base: &Plan, around: &Surroundings) -> Result<(), Failure> {
        let caches = base.targets.len() as u64 + 1;
        let memory = self.memory_bytes.saturating_mul(caches);
        let tiers = self.tier_bytes.saturating_mul(caches - 1);
        let needed = memory.saturating_add(tiers);
        match around.memory_bytes {
            Some(spare) if needed > spare => Err(Failure::usage(format!(
                "The tiers need up to {} of memory, and this machine has {} to spare.\nUse smaller ones (--ram, --tier-size) or fewer tiers.",
                loadline_measure::words::bytes(needed),
                loadline_measure::words::bytes(spare)
            ))),
            _ => Ok(()),
        }
    }

    /// Windows of all phases.
    pub(crate) fn all_windows(&self) -> u32 {
        self.windows * Phase::ALL.len() as u32
    }

    /// Windows before the restart.
    pub(crate) fn restart_after(&self) -> u32 {
        self.windows * (Phase::ALL.len() as u32 - 1)
    }

    /// Gets of a window of `case`, if a get takes about `get`.
    pub(crate) fn window_gets(&self, case: &Case, get: Duration) -> u64 {
        let windows = u64::from(self.all_windows());
        // An open loop waits for the start of each get.
        let get = match case.pacing {
            Pacing::Closed => get,
            Pacing::Open { rate, .. } => get.max(Duration::from_secs_f64(1.0 / rate)),
        };
        match case.length {
            Length::Ops(gets) => (gets / windows).max(1),
            Length::Time(time) => {
                let gets = time.as_nanos() / u128::from(windows) / get.as_nanos().max(1);
                let gets = u64::try_from(gets).unwrap_or(u64::MAX).max(1);
                gets.min(self.most_gets.unwrap_or(u64::MAX))
            }
        }
    }

    /// The windows, each of `gets` gets: as caches are asked for the same keys, a faster one must not do more of them.
    pub(crate) fn stops(&self, gets: u64) -> Vec<Stop> {
        vec![Stop::after_ops(gets); self.all_windows() as usize]
    }
}
