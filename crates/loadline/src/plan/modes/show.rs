//! The sweep as a person reads it before it starts, and as it stands in the record.

use std::time::Duration;

use super::{Mode, ModesPlan};
use crate::plan::path::measuring_time;
use crate::units::{self, duration_text};

impl ModesPlan {
    /// The most that the sweep takes. Under an added latency it is known beforehand which counts do not
    /// fit the budget of a cell, and what is above them is not measured.
    pub(crate) fn longest(&self) -> Duration {
        let of = |latency: &Duration| {
            let measured = |mode: &Mode| {
                let round_trips = |count: u64| count.div_ceil(u64::from(self.size(*mode)));
                let fits = |count: &&u64| {
                    let ns = latency.as_nanos() * u128::from(round_trips(**count));
                    ns <= self.budget.as_nanos()
                };
                let fitting = self.counts.iter().take_while(fits).count();
                // The first that does not fit is what the others are extrapolated from.
                (fitting + 1).min(self.counts.len())
            };
            let cells: usize = self.modes.iter().map(measured).sum();
            let searched = |mode: &&Mode| matches!(mode, Mode::Pipeline | Mode::Batch);
            let curves = self.modes.iter().filter(searched).count();
            let sizes = curves * self.sizes.len();
            // However little time there is, each round makes a call, and so does the warm-up.
            let least = |rounds: u32| *latency * (rounds + 1);
            let cell = (self.budget + self.budget / 4).max(least(self.base.rounds));
            let size = (cell / 2).max(least(self.size_rounds));
            let each = cell * cells as u32 + size * sizes as u32;
            each * self.base.cases.len() as u32 + measuring_time(*latency)
        };
        self.latencies.iter().map(of).sum()
    }

    /// The slowest cell, and how long it would take in full: one operation after the other takes a round
    /// trip each.
    fn slowest(&self) -> Option<(Mode, u64, Duration)> {
        let count = self.counts.last().copied()?;
        let latency = self.latencies.last().copied()?;
        let mode = *self.modes.iter().min_by_key(|mode| self.size(**mode))?;
        let round_trips = count.div_ceil(u64::from(self.size(mode)));
        let ns = latency.as_nanos().saturating_mul(u128::from(round_trips));
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        Some((mode, count, Duration::from_nanos(ns)))
    }

    /// How long it takes, in a sentence that is printed before anything is measured.
    pub(crate) fn estimate(&self) -> String {
        let most = format!("up to {:.0} s", self.longest().as_secs_f64().ceil());
        match self.slowest() {
            Some((mode, count, full)) if full > self.budget => {
                let full = match full.as_secs_f64() {
                    seconds if seconds >= 3_600.0 => format!("{:.1} h", seconds / 3_600.0),
                    seconds => format!("{seconds:.0} s"),
                };
                format!(
                    "{most}; in full, {} operations in the mode {mode} would take {full} alone, so they are extrapolated",
                    units::count_text(count)
                )
            }
            _ => most,
        }
    }

    /// The sweep as a person reads it.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "The plan; nothing was touched.\n\nTarget\n  {}\n\n",
            self.base.targets[0]
        );
        for (name, value) in self.lines() {
            text += &format!("  {name:<14} {value}\n");
        }
        text += &format!("  {:<14} {}\n", "in all", self.estimate());
        text
    }

    fn lines(&self) -> [(&'static str, String); 8] {
        let modes: Vec<&str> = self.modes.iter().map(|mode| mode.name()).collect();
        let cases: Vec<&str> = self
            .base
            .cases
            .iter()
            .map(|case| case.name.as_str())
            .collect();
        let counts: Vec<String> = self
            .counts
            .iter()
            .map(|count| units::count_text(*count))
            .collect();
        let latencies: Vec<String> = self
            .latencies
            .iter()
            .map(|time| duration_text(*time))
            .collect();
        let path = match self.base.path.text() {
            text if text.is_empty() => text,
            text => format!(", {text}"),
        };
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        let pinned = if self.base.schedule.pinned {
            ", the server on the first CPU and the client on the others, where there are two"
        } else {
            ""
        };
        [
            ("modes", modes.join(", ")),
            ("operations", cases.join(", ")),
            ("counts", counts.join(", ")),
            ("added latency", latencies.join(", ")),
            (
                "path",
                format!("link {}{path}{pinned}", self.base.path.class_name()),
            ),
            (
                "per call",
                format!(
                    "{} operations; async has {} in flight",
                    self.batch, self.in_flight
                ),
            ),
            (
                "sizes",
                format!(
                    "{}, compared in {} rounds",
                    sizes.join(", "),
                    self.size_rounds
                ),
            ),
            (
                "per cell",
                format!(
                    "up to {}; what takes longer is extrapolated and marked",
                    duration_text(self.budget)
                ),
            ),
        ]
    }

    /// The sweep as the record has it.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "command": "modes",
            "targets": [self.base.targets[0].to_string()],
            "modes": self.modes.iter().map(|mode| mode.name()).collect::<Vec<_>>(),
            "operations": self.base.cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>(),
            "counts": self.counts,
            "latencies_ns": self.latencies.iter().map(|time| units::nanoseconds(*time)).collect::<Vec<_>>(),
            "value_size": self.base.cases.first().map(|case| units::value_size_text(&case.value_size)),
            "path": self.base.path.to_json(),
            "batch": self.batch,
            "sizes": self.sizes,
            "size_rounds": self.size_rounds,
            "in_flight": self.in_flight,
            "budget_ns": units::nanoseconds(self.budget),
            "seed": self.base.seed,
            "hash_tag": self.hash_tag,
        })
    }
}
