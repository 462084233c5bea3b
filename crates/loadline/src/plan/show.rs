//! The description of a run's plan, for the record and for `--dry-run`.

use std::fmt::Write;

use loadline_load::pacing::{ArrivalProcess, Pacing};
use loadline_load::values::ValueData;
use loadline_measure::Limit;
use loadline_measure::compare::MIN_ROUNDS;
use loadline_resp::Protocol;
use serde_json::{Value, json};

use super::description::Description;
use super::schedule::{BlockEnd, Placement, RoundsEnd};
use super::{Case, Length, Plan};
use crate::spelling::Target;
use crate::units::{count_text, duration_text, key_dist_text, nanoseconds, value_size_text};
use crate::workload::Operation;

/// Distribution of the load over a cluster.
const CLUSTER: &str = "each master of a cluster gets an equal part of the keys, operations and rate, over its own connections and thread";

impl Plan {
    /// The plan in the form of the record; passwords are masked.
    pub(crate) fn to_json(&self) -> Value {
        self.describe().into_json()
    }

    /// The description of the plan.
    pub(crate) fn describe(&self) -> Description {
        let mut out = Description::default();
        self.describe_targets(&mut out);
        let cases = self.cases.iter().map(|case| out.absorb(case.describe()));
        let cases = Value::Array(cases.collect());
        out.entry("cases", cases);
        self.describe_rounds(&mut out);
        out.takes(self.estimate());
        out
    }

    /// The same, with the `limits` that are judged.
    pub(crate) fn describe_with(&self, limits: &[Limit]) -> Description {
        let mut out = self.describe();
        let lines = super::limits::lines(limits, self);
        if !lines.is_empty() {
            out.section("Limits");
        }
        lines.into_iter().for_each(|text| out.line(text));
        out
    }

    fn describe_targets(&self, out: &mut Description) {
        out.section("Targets");
        let names: Vec<String> = self.targets.iter().map(ToString::to_string).collect();
        out.entry("targets", names.clone());
        names.into_iter().for_each(|name| out.line(name));
        out.line_of(
            self.targets
                .iter()
                .any(Target::is_cluster)
                .then_some(CLUSTER),
        );
        out.entry("latency_ns", nanoseconds(self.latency));
        if !self.latency.is_zero() {
            let latency = duration_text(self.latency);
            out.line(format!("{latency} added to every round trip"));
        }
        let path = (!self.path.is_plain()).then_some(self.path);
        out.entry("path", path.map(|path| path.to_json()));
        out.line_of(path.map(|path| format!("path with {}", path.text())));
        let left_out = super::bundle::left_out(&self.targets, &self.cases);
        out.entry("left_out", left_out.clone());
        left_out.into_iter().for_each(|sentence| out.line(sentence));
    }

    fn describe_rounds(&self, out: &mut Description) {
        let schedule = &self.schedule;
        out.section("All cases");
        out.entry("rounds", self.rounds);
        let is_early = schedule.end == RoundsEnd::OncePrecise;
        out.entry("until_precise", is_early.then_some(true));
        let planned = counted(self.rounds, "round");
        out.line(match schedule.end {
            RoundsEnd::Planned => planned,
            RoundsEnd::OncePrecise => {
                format!("{MIN_ROUNDS} to {planned}, until the ratios are precise enough")
            }
            RoundsEnd::Extended(0) => planned,
            RoundsEnd::Extended(_) => format!(
                "{planned} to {}, until the comparison is precise enough",
                self.most_rounds()
            ),
        });
        let several = self.targets.len() > 1;
        out.line_of(several.then_some("in each round, the targets in random order"));
        out.entry("warmup_ns", nanoseconds(self.warmup));
        let warmup = duration_text(self.warmup);
        out.line(format!("a warm-up of {warmup} for each case and target"));
        if schedule.generations > 1 {
            out.line(format!(
                "targets are opened {} times, built-in and spawned servers in new processes",
                schedule.generations
            ));
        }
        for text in self.round_lines() {
            out.line(text);
        }
        out.entry("resp", self.resp());
        out.entry("seed", self.seed);
        out.line(format!("RESP{}, seed {}", self.resp(), self.seed));
        out.entry("allow_non_empty", self.allow_non_empty);
        out.line_of(
            self.allow_non_empty
                .then_some("servers that hold keys are measured as well"),
        );
    }

    /// The parts of the schedule that differ between commands.
    fn round_lines(&self) -> impl Iterator<Item = &'static str> {
        let is_direct = self.latency.is_zero() && self.path.is_plain();
        let has_tail =
            self.schedule.has_tails() && is_direct && self.cases.iter().any(Case::has_tail);
        let lines = [
            (
                self.schedule.placement == Placement::Pinned,
                "with two or more CPUs, servers on the first and the generator on the others",
            ),
            (
                self.schedule.blocks == BlockEnd::Enough,
                "a block of a closed loop ends early once it has enough operations",
            ),
            (
                self.schedule.has_reference(),
                "in each round, an echo over loopback as the reference",
            ),
            (
                has_tail,
                "after each block, operations one at a time for the tail, on servers of this host",
            ),
        ];
        lines
            .into_iter()
            .filter_map(|(holds, text)| holds.then_some(text))
    }

    /// The number of the protocol's version.
    pub(crate) fn resp(&self) -> u8 {
        match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

impl Case {
    fn describe(&self) -> Description {
        let mut out = Description::default();
        out.section(format!("Case: {}", self.name));
        out.entry("name", self.name.as_str());
        out.entry("workload", self.workload.name.as_str());
        self.describe_load(&mut out);
        self.describe_data(&mut out);
        self.describe_rules(&mut out);
        self.describe_operations(&mut out);
        out
    }

    fn describe_load(&self, out: &mut Description) {
        let (ops, time) = match self.length {
            Length::Ops(ops) => (Some(ops), None),
            Length::Time(time) => (None, Some(time)),
        };
        out.entry("ops", ops);
        out.entry("duration_ns", time.map(nanoseconds));
        let length = match self.length {
            Length::Ops(ops) => format!("{} operations per target", count_text(ops)),
            Length::Time(time) => format!("{} per target", duration_text(time)),
        };
        out.entry("pacing", pacing_json(self.pacing));
        out.line(format!("{}, {length}", pacing_text(self.pacing)));
        out.entry("connections", self.connections);
        out.entry("threads", self.threads);
        out.entry("pipeline", self.pipeline);
        out.entry("in_flight", self.in_flight());
        out.entry("batch", self.batch);
        out.line(format!(
            "{}, {}, pipeline {}",
            counted(self.connections, "connection"),
            counted(self.threads, "thread"),
            self.pipeline
        ));
    }

    fn describe_data(&self, out: &mut Description) {
        let (dist, size) = (
            key_dist_text(&self.key_dist),
            value_size_text(&self.value_size),
        );
        let data = value_data_text(self.value_data);
        let mut keys = format!("{} keys, {dist}", count_text(self.keys));
        if self.workload.carries_values() {
            let _ = write!(keys, "; values of {size}, {data}");
        }
        out.entry("keys", self.keys);
        out.entry("key_dist", dist);
        out.entry("value_size", size);
        out.entry("value_data", data);
        out.line_of(self.touches_keys().then_some(keys));
    }

    /// The rules that differ from sending the same commands repeatedly.
    fn describe_rules(&self, out: &mut Description) {
        let rules = &self.workload.rules;
        let job = rules.job.map(|job| job.description());
        // This key exists since the first version of the record, and hashes of baselines contain it.
        out.entry("task", job);
        out.line_of(job.map(|job| format!("through loadline-client: {job}")));
        let most = self.most_per_block();
        out.entry("most_ops_per_block", most);
        out.line_of(most.map(|most| format!("at most {} operations in a block", count_text(most))));
        out.line_of(rules.consumes.then_some("checks that every key was there"));
    }

    fn describe_operations(&self, out: &mut Description) {
        let workload = &self.workload;
        let lines = |one: &Operation| one.lines().map(str::to_owned).collect::<Vec<_>>();
        for (key, phrase, operation) in [
            ("load", "loads before", &workload.load),
            (
                "before_each_block",
                "before a block",
                &workload.rules.before,
            ),
        ] {
            out.entry(key, operation.as_ref().map(lines));
            let text = |one: &Operation| format!("{phrase:<14} {}", shortened(one));
            out.line_of(operation.as_ref().map(text));
        }
        let operations = workload.operations.iter().map(operation_json);
        out.entry("operations", operations.collect::<Vec<_>>());
        for operation in &workload.operations {
            let weight = format!("x{}", operation.weight());
            out.line(format!("sends {weight:>6}   {}", shortened(operation)));
        }
        out.entry("verify", self.verify);
        let verifies = self.verify && workload.can_be_verified();
        out.line_of(verifies.then_some("checks every value that it reads"));
    }
}

fn operation_json(operation: &Operation) -> Value {
    json!({ "name": operation.name(), "weight": operation.weight(), "commands": operation.lines().collect::<Vec<_>>() })
}

pub(super) fn pacing_text(pacing: Pacing) -> String {
    match pacing {
        Pacing::Closed => "closed loop".into(),
        Pacing::Open { rate, arrivals } => format!(
            "open loop at {rate} operations per second, {} arrivals",
            arrivals_text(arrivals)
        ),
    }
}

pub(super) fn pacing_json(pacing: Pacing) -> Value {
    match pacing {
        Pacing::Closed => json!("closed"),
        Pacing::Open { rate, arrivals } => {
            json!({ "rate_ops_per_s": rate, "arrivals": arrivals_text(arrivals) })
        }
    }
}

pub(super) fn arrivals_text(arrivals: ArrivalProcess) -> &'static str {
    match arrivals {
        ArrivalProcess::Uniform => "uniform",
        ArrivalProcess::Poisson => "poisson",
    }
}

fn value_data_text(data: ValueData) -> &'static str {
    match data {
        ValueData::Random => "random",
        ValueData::Compressible => "compressible",
        ValueData::Binary => "binary",
    }
}

fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count_text(count.into()))
}

/// The commands of an operation, shortened to fit a terminal of 80 columns.
fn shortened(operation: &Operation) -> String {
    const MOST: usize = 60;
    let text = operation.lines().collect::<Vec<_>>().join(" + ");
    if text.chars().count() <= MOST {
        return text;
    }
    let head: String = text.chars().take(MOST - 4).collect();
    format!("{head} ...")
}
