//! The sweep as a person reads it before it starts, and as it stands in the record.

use std::time::Duration;

use super::ModesPlan;
use crate::units::{self, duration_text};

impl ModesPlan {
    /// How long a cell may take, and how long it would take in full: one operation after the other
    /// takes a round trip each. What is in one write takes one together.
    pub(crate) fn longest(&self) -> (Duration, Duration) {
        let cells = self.modes.len() * self.base.cases.len() * self.counts.len();
        let search = 2 * self.sizes.len() * self.base.cases.len();
        let most = self.budget
            * u32::try_from((cells + search) * self.latencies.len()).unwrap_or(u32::MAX);
        let most_ops = self.counts.last().copied().unwrap_or(0);
        let slowest = self.latencies.last().copied().unwrap_or_default();
        let ns = slowest.as_nanos().saturating_mul(u128::from(most_ops));
        (
            most,
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)),
        )
    }

    /// The sweep as a person reads it.
    pub(crate) fn to_text(&self) -> String {
        let (most, slowest) = self.longest();
        let mut text = format!(
            "The plan; nothing was touched.\n\nTarget\n  {}\n\n",
            self.base.targets[0]
        );
        for (name, value) in self.lines() {
            text += &format!("  {name:<14} {value}\n");
        }
        text += &format!(
            "  {:<14} up to {:.0} s\n",
            "in all",
            most.as_secs_f64().ceil()
        );
        if slowest > most {
            text += &format!(
                "  Measured in full, the slowest cell alone would take {:.1} h.\n",
                slowest.as_secs_f64() / 3_600.0
            );
        }
        text
    }

    fn lines(&self) -> [(&'static str, String); 7] {
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
        [
            ("modes", modes.join(", ")),
            ("operations", cases.join(", ")),
            ("counts", counts.join(", ")),
            ("added latency", latencies.join(", ")),
            (
                "path",
                format!("link {}{path}", self.base.path.class_name()),
            ),
            (
                "per call",
                format!(
                    "{} operations; async has {} in flight",
                    self.batch, self.in_flight
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

    /// The sweep as it stands in the record.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let ns = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        serde_json::json!({
            "command": "modes",
            "targets": [self.base.targets[0].to_string()],
            "modes": self.modes.iter().map(|mode| mode.name()).collect::<Vec<_>>(),
            "operations": self.base.cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>(),
            "counts": self.counts,
            "latencies_ns": self.latencies.iter().map(ns).collect::<Vec<_>>(),
            "value_size": self.base.cases.first().map(|case| units::value_size_text(&case.value_size)),
            "path": self.base.path.to_json(),
            "batch": self.batch,
            "sizes": self.sizes,
            "in_flight": self.in_flight,
            "budget_ns": ns(&self.budget),
            "seed": self.base.seed,
            "hash_tag": self.hash_tag,
        })
    }
}
