//! The description of a sweep's plan, for the record and for `--dry-run`.

use std::time::Duration;

use super::{Mode, ModesPlan};
use crate::plan::Placement;
use crate::plan::description::Description;
use crate::units::{self, duration_text};

impl ModesPlan {
    /// The slowest cell and its duration in full: operations that run one after the other take a round trip
    /// each.
    fn slowest(&self) -> Option<(Mode, u64, Duration)> {
        let count = self.counts.last().copied()?;
        let latency = self.latencies.last().copied()?;
        let mode = *self.modes.iter().min_by_key(|mode| self.size(**mode))?;
        let round_trips = count.div_ceil(u64::from(self.size(mode)));
        let ns = latency.as_nanos().saturating_mul(u128::from(round_trips));
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        Some((mode, count, Duration::from_nanos(ns)))
    }

    /// The slowest cell, if it is extrapolated.
    pub(crate) fn extrapolation(&self) -> Option<String> {
        let (mode, count, full) = self.slowest()?;
        let full = match full.as_secs_f64() {
            _ if full <= self.budget => return None,
            seconds if seconds >= 3_600.0 => format!("{:.1} h", seconds / 3_600.0),
            seconds => format!("{seconds:.0} s"),
        };
        Some(format!(
            "in full, {} operations in the mode {mode} would take {full} alone, so they are extrapolated",
            units::count_text(count)
        ))
    }

    /// The plan in the form of the record.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.describe().into_json()
    }

    /// The description of the plan.
    pub(crate) fn describe(&self) -> Description {
        let mut out = Description::default();
        out.entry("command", "modes");
        out.section("Target");
        let target = self.base.targets[0].to_string();
        out.entry("targets", vec![target.clone()]);
        out.line(target);
        out.section("Sweep");
        self.describe_cells(&mut out);
        self.describe_path(&mut out);
        self.describe_calls(&mut out);
        out.entry("resp", self.base.resp());
        out.entry("seed", self.base.seed);
        row(
            &mut out,
            "protocol",
            &format!("RESP{}, seed {}", self.base.resp(), self.base.seed),
        );
        out.takes(Some(self.estimate()));
        out.line_of(self.extrapolation());
        out
    }

    fn describe_cells(&self, out: &mut Description) {
        let modes: Vec<&str> = self.modes.iter().map(|mode| mode.name()).collect();
        row(out, "modes", &modes.join(", "));
        out.entry("modes", modes);
        let cases = &self.base.cases;
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        row(out, "operations", &names.join(", "));
        out.entry("operations", names);
        let size = cases
            .first()
            .map(|case| units::value_size_text(&case.value_size));
        if let Some(size) = &size {
            row(out, "values", size);
        }
        out.entry("value_size", size);
        row(
            out,
            "counts",
            &listed(&self.counts, |count| units::count_text(*count)),
        );
        out.entry("counts", self.counts.clone());
        row(
            out,
            "per cell",
            &format!(
                "up to {}; longer cells are extrapolated and marked",
                duration_text(self.budget)
            ),
        );
        out.entry("budget_ns", units::nanoseconds(self.budget));
    }

    fn describe_path(&self, out: &mut Description) {
        let latencies = &self.latencies;
        row(
            out,
            "added latency",
            &listed(latencies, |time| duration_text(*time)),
        );
        let ns = latencies.iter().map(|time| units::nanoseconds(*time));
        out.entry("latencies_ns", ns.collect::<Vec<_>>());
        let path = &self.base.path;
        let mut text = format!("link {}", path.class_name());
        if !path.is_plain() {
            text += &format!(", {}", path.text());
        }
        if self.base.schedule.placement == Placement::Pinned {
            text += "; with two or more CPUs, the server on the first and the client on the others";
        }
        row(out, "path", &text);
        out.entry("path", path.to_json());
        if self.hash_tag {
            row(out, "keys", "all in one slot of the cluster");
        }
        out.entry("hash_tag", self.hash_tag);
    }

    fn describe_calls(&self, out: &mut Description) {
        row(
            out,
            "per call",
            &format!(
                "{} operations; async has {} in flight",
                self.batch, self.in_flight
            ),
        );
        out.entry("batch", self.batch);
        out.entry("in_flight", self.in_flight);
        row(
            out,
            "sizes",
            &format!(
                "{}, compared in {} rounds",
                listed(&self.sizes, u32::to_string),
                self.size_rounds
            ),
        );
        out.entry("sizes", self.sizes.clone());
        out.entry("size_rounds", self.size_rounds);
    }
}

/// A line with a name in front.
fn row(out: &mut Description, name: &str, text: &str) {
    out.line(format!("{name:<14} {text}"));
}

fn listed<T>(all: &[T], text: impl Fn(&T) -> String) -> String {
    all.iter().map(text).collect::<Vec<_>>().join(", ")
}
