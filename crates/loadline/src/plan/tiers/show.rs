//! The description of a plan of tiers.

use std::time::Duration;

use loadline_measure::tiers::Phase;
use serde_json::{Value, json};

use super::super::description::Description;
use super::super::show::{pacing_json, pacing_text};
use super::super::{Estimate, Length};
use super::{CacheLoad, Source, TiersPlan};
use crate::spelling::Target;
use crate::units::{bytes_text, count_text, duration_text, key_dist_text};

impl Source {
    /// Name of the object in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Floor { width, height } => format!("floor of {width}x{height} tiles"),
            Self::File { path, .. } => path.display().to_string(),
            Self::Command(command) => format!("output of `{command}`"),
        }
    }
}

impl TiersPlan {
    /// The plan in the form of the record.
    pub(crate) fn to_json(&self) -> Value {
        self.describe().into_json()
    }

    /// All that the plan says about itself.
    pub(crate) fn describe(&self) -> Description {
        let mut out = Description::default();
        out.entry("command", "tiers");
        out.section("Object");
        out.entry("object", self.source.name());
        out.line(self.source.name());
        let given = self.source.given();
        out.entry("load_cost_ns", given.map(crate::units::nanoseconds));
        out.line_of(given.map(|cost| format!("recomputed in {}, as given", duration_text(cost))));
        out.section("Tiers below memory");
        let tiers: Vec<Value> = self
            .places
            .iter()
            .map(|place| {
                let class = match &self.base.targets[place.target] {
                    Target::Engine(engine) => Some(engine.durability.to_string()),
                    _ => None,
                };
                let durability = class.as_deref().filter(|class| *class != "memory");
                let durability = durability.map_or_else(String::new, |class| format!(", durability {class}"));
                out.line(format!("{}{durability}", place.name));
                json!({ "name": place.name, "durability": class, "latency_ns": crate::units::nanoseconds(place.latency) })
            })
            .collect();
        out.entry("tiers", tiers);
        match &self.load {
            Some(load) => self.describe_load(load, &mut out),
            None => self.describe_stages(&mut out),
        }
        out.takes(self.estimate());
        out
    }

    /// The expected duration; `None` if the length is a number of operations.
    fn estimate(&self) -> Option<Estimate> {
        let Length::Time(time) = self.base.cases[0].length else {
            return None;
        };
        let (subjects, warmup) = match &self.load {
            // A cache without a tier below memory, and one for each tier.
            Some(_) => (self.places.len() + 1, Duration::ZERO),
            None => {
                let arms = self.stages.iter().map(|stage| stage.arms.len());
                (arms.sum(), self.base.warmup)
            }
        };
        let subjects = subjects as u32;
        let all = Estimate::about((time + warmup) * subjects);
        Some(all.in_blocks(subjects * self.base.rounds))
    }

    fn describe_stages(&self, out: &mut Description) {
        out.section("Measured in the same rounds");
        let stages: Vec<Value> = self
            .stages
            .iter()
            .map(|stage| {
                out.line(format!(
                    "{}: {} operations",
                    stage.group.name(),
                    stage.arms.len()
                ));
                json!({ "name": stage.group.name(), "operations": stage.arms.len() })
            })
            .collect();
        out.entry("groups", stages);
        self.describe_rounds(out);
    }

    fn describe_load(&self, load: &CacheLoad, out: &mut Description) {
        let case = &self.base.cases[0];
        out.section("Caches under load");
        out.entry("keys", case.keys);
        out.entry("key_dist", key_dist_text(&case.key_dist));
        out.line(format!(
            "{} keys, {}, encoded as {}",
            count_text(case.keys),
            key_dist_text(&case.key_dist),
            self.format
        ));
        out.entry("codec", self.format.to_string());
        out.entry("memory_bytes", load.memory_bytes);
        out.entry("tier_bytes", load.tier_bytes);
        out.line(format!(
            "{} in memory, at most {} in each tier below it",
            bytes_text(load.memory_bytes),
            bytes_text(load.tier_bytes)
        ));
        out.entry("windows", load.windows);
        out.entry("seed", self.base.seed);
        let length = match case.length {
            Length::Ops(ops) => format!("{} gets", count_text(ops)),
            Length::Time(time) => format!("about {}", duration_text(time)),
        };
        out.entry("pacing", pacing_json(case.pacing));
        out.line(pacing_text(case.pacing));
        out.line(format!(
            "{length} for each cache: {}, each in {} windows; the caches take turns in random order; seed {}",
            Phase::ALL
                .iter()
                .map(Phase::as_str)
                .collect::<Vec<_>>()
                .join(", "),
            load.windows,
            self.base.seed
        ));
    }

    fn describe_rounds(&self, out: &mut Description) {
        let case = &self.base.cases[0];
        out.section("All operations");
        out.entry("keys", case.keys);
        out.entry("codec", self.format.to_string());
        out.line(format!(
            "{} objects, encoded as {}; expected hit ratio {} %",
            count_text(case.keys),
            self.format,
            self.hit_ratio * 100.0
        ));
        out.entry("hit_ratio", self.hit_ratio);
        out.entry("reproduce", self.reproduce);
        let trace = self.trace.as_ref().map(|path| path.display().to_string());
        out.line_of(
            trace
                .as_ref()
                .map(|trace| format!("miss ratios of {trace}")),
        );
        out.entry("trace", trace);
        let length = match case.length {
            Length::Ops(ops) => format!("{} operations", count_text(ops)),
            Length::Time(time) => duration_text(time),
        };
        out.entry("rounds", self.base.rounds);
        out.entry("seed", self.base.seed);
        out.line(format!(
            "{length} for each, in {} rounds in random order; seed {}",
            self.base.rounds, self.base.seed
        ));
    }
}
